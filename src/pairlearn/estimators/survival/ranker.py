# SPDX-License-Identifier: BSD-3-Clause
"""A ranker by risk, from survival times that may be censored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.metaestimators import available_if

from pairlearn.comparisons import signed_times
from pairlearn.estimators.shared.examples import forget_worth, validate_data
from pairlearn.estimators.shared.features_seen import see_features, seen_features
from pairlearn.estimators.shared.maps import is_linear
from pairlearn.estimators.shared.published import all_or_nothing
from pairlearn.estimators.shared.scaling import is_scaled, scaled_rows
from pairlearn.estimators.shared.solvers import SOLVERS, Exact, Solver
from pairlearn.estimators.shared.storage import register_storable
from pairlearn.estimators.shared.weights import chunk_weights, weigh, weighing_examples
from pairlearn.estimators.survival.hazard import fit_hazard
from pairlearn.estimators.survival.predictions import SurvivalPredictions
from pairlearn.estimators.survival.task import SurvivalTask
from pairlearn.features import FeatureMap
from pairlearn.folds import Keys
from pairlearn.losses import LOSSES, PairLoss
from pairlearn.metrics.concordance import ConcordanceIndex, comparable_pairs, survival_times
from pairlearn.restored import restored_count
from pairlearn.solvers.blas_threads import with_one_thread
from pairlearn.solvers.rows import Rows, as_rows
from pairlearn.solvers.streams.settings import keep_settings
from pairlearn.solvers.turns import one_at_a_time
from pairlearn.validation import check_fraction, check_generator

#: What a stream is made of, so that it cannot change on the way.
_KEPT = ("loss", "features", "solver", "scaling", "ipcw", "tau")


def _streams(ranker: SurvivalRanker) -> bool:
    """Whether the solver learns a stream; what needs all pairs at once has no `partial_fit`."""
    solver = SOLVERS.make(ranker.solver)
    if isinstance(solver, Exact):
        raise ValueError(
            f"{solver!r} needs all examples at once; for partial_fit use solver='sgd'."
        )
    return True


class SurvivalRanker(SurvivalPredictions, BaseEstimator):  # type: ignore[misc]
    r"""Linear score of risk that orders survival times, some of which are censored.

    Two examples can be compared if the one with the earlier time had its event. The ranker
    minimises the mean loss over all such pairs,

    .. math:: \frac1D \sum_{i \text{ has its event, } j \text{ outlives } i} g_i v_i v_j \,
              \ell(\langle w, x_i - x_j \rangle) + \lambda \|w\|^2,

    with v the weights of the examples, D the sum of :math:`g_i v_i v_j`, and g = 1 or the weights
    of Uno's index. Its measure is the concordance index (`ConcordanceIndex`), whose pairs these
    are. There is no assumption of proportional hazards; where they are proportional, Cox's
    regression is as good and says more.

    Parameters
    ----------
    loss : str or PairLoss, default="squared_hinge"
        What a pair costs. Exact: "squared_hinge", in O(n log n) for each evaluation by sorting, or
        "logistic", which visits every pair: for up to 400 million products of events and examples.
        SGD: any loss of a margin ("hinge", "square", ..., or your own).
    features : {"linear", "hats", "fourier"} or FeatureMap, default="linear"
        What the score is linear in, as in `AUCClassifier`. `partial_fit` needs a fitted map.
    solver : {"exact", "sgd"} or Solver, default="exact"
        ``Exact(ridge=...)`` fixes the ridge, for features of mean variance 1. With ``ridge="auto"``
        the best of 10, 1, ..., 1e-4 by the concordance index of held-out folds is taken. ``SGD()``
        takes steps over single pairs, and serves streams (`partial_fit`); its step size is chosen
        on the folds. Its pairing is "previous", "shuffled", "random", "fifo" or "reservoir"; a
        buffer needs a given step size in `fit`.
    scaling : "auto" or None, default="auto"
        "auto" centres each feature and divides it by its standard deviation, but at least by a
        tenth of its range. Sparse features are not centred; pairs do not notice. Coefficients are
        in the units of X.
    ipcw : bool, default=False
        Whether a pair weighs :math:`\hat G(t)^{-2}`, with t its earlier time and
        :math:`\hat G(t)` the estimated chance not to be censored before t. The pairs are then those
        that would be there without censoring, if the censoring does not depend on the features.
    tau : float, optional
        Only events before this time are learned from and scored. Give one with ``ipcw=True`` if few
        are seen until the largest times.
    validation_fraction : float, default=0.2
        Share of the examples in each of the folds that choose the ridge. With 2,000 held-out events
        or more, one fold is held out; with fewer, all in turn. The final model is trained on all.
    random_state : int, RandomState, Generator or None, default=None
        Source of the folds and of random features.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        Coefficients; with `features`, of mapped features. A higher score is a higher risk.
    features_ : FeatureMap
        The fitted map, `Identity` for a linear score.
    solver_ : str
        The name of the solver.
    loss_ : PairLoss
        The loss that it minimised.
    ridge_, step_size_ : float or None
        The ridge of the exact solver, or the step size of SGD; the other one is None.
    choice_ : Choice or None
        The ridges or step sizes that were tried, with the held-out concordance of each
        (`Tried.auc`) and its standard error over the folds; None for a stream.
    held_out_concordance_ : float or None
        The concordance of the chosen one on held-out folds; None for a given one.
    n_events_ : int
        Events that were learned from.
    n_steps_, n_gradients_ : int
        Steps of SGD and pairs evaluated; evaluations of the loss over all pairs in the final
        search of the exact solver, and 0.
    hazard_slope_, hazard_centre_ : float or None
        The log hazard of a score s is ``hazard_slope_ * (s - hazard_centre_)``. These and the next
        are None for a stream.
    event_times_, cumulative_hazard_ : ndarray of shape (n_times,) or None
        The times of events, and Breslow's cumulative hazard at `hazard_centre_`.
    last_time_ : float or None
        The largest time in training.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    See Also
    --------
    pairlearn.ConcordanceIndex : The measure, with intervals and paired tests.

    Notes
    -----
    An example that is censored at the time of an event has outlived it. Two events at one time are
    not compared. A time of entry (left truncation) and several kinds of events (competing risks)
    are not supported; such labels are refused.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 2))
    >>> died, left = rng.exponential(np.exp(-X[:, 0])), rng.exponential(2.0, size=300)
    >>> y = np.column_stack((died <= left, np.minimum(died, left)))
    >>> ranker = SurvivalRanker(random_state=0).fit(X[:200], y[:200])
    >>> bool(ranker.score(X[200:], y[200:]) > 0.65)
    True
    >>> ranker.predict_survival_function(X[200:203], times=[0.5, 1.0]).shape
    (3, 2)
    """

    def __init__(
        self,
        loss: str | PairLoss = "squared_hinge",
        *,
        features: str | FeatureMap = "linear",
        solver: str | Solver = "exact",
        scaling: str | None = "auto",
        ipcw: bool = False,
        tau: float | None = None,
        validation_fraction: float = 0.2,
        random_state: Any = None,
    ) -> None:
        self.loss, self.features, self.solver, self.scaling = loss, features, solver, scaling
        self.ipcw, self.tau = ipcw, tau
        self.validation_fraction, self.random_state = validation_fraction, random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.target_tags.one_d_labels = False
        tags.target_tags.two_d_labels = True
        return tags

    @one_at_a_time
    @all_or_nothing
    @with_one_thread
    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Train on stored examples.

        Parameters
        ----------
        X : {array-like, sparse matrix, data frame} of shape (n_samples, n_features)
            Examples.
        y : structured array, data frame or array-like of shape (n_samples, 2)
            The event and the time of each example: an array with two fields, as scikit-survival has
            it; a frame with the columns "event" and "time"; or two columns, the event first. The
            event is false where the time is that of the last observation.
        sample_weight : array-like of shape (n_samples,), optional
            A pair weighs the product of the weights of its two examples. An example of weight zero
            is as good as absent.

        Returns
        -------
        self
            The fitted ranker.
        """
        solver, task = self._parts(check_generator(self.random_state))
        rows, labels = self._examples(X, y, reset=True, minimum=2)
        keep, weight = weigh(sample_weight, len(labels))
        if keep is not None:
            rows, labels = rows.take(keep), labels[keep]
        task = replace(task, keys=Keys.of(rows, seed=task.rng))
        pairs = comparable_pairs(labels, self.tau)  # refuses labels without a pair
        rows = self._fit_map(rows, task.rng, weight)
        unit = weight if len(weight) else np.ones(len(labels))
        scaling, rows = scaled_rows(self.scaling, rows, unit, mapped=not is_linear(self.features))
        fitted = solver.fit(task, rows, labels, weight)
        w, choice, trace = fitted.w, fitted.choice, fitted.trace
        self.coef_ = w if scaling is None else scaling.to_user(w)
        self.solver_, self.loss_ = fitted.solver, fitted.loss
        self.choice_ = choice
        self.ridge_, self.step_size_ = choice.ridge, choice.step_size
        self.held_out_concordance_ = choice.auc
        self.n_events_ = int(np.count_nonzero(pairs.event))
        self.n_steps_, self.n_gradients_ = trace.n_steps, trace.n_gradients
        # scores of scaled rows differ from those of X by a constant only
        shift = 0.0 if scaling is None else float(scaling.centre @ (scaling.factor * w))
        hazard = fit_hazard(rows.scores(w) + shift, labels["event"], pairs.time, unit)
        self.hazard_slope_, self.hazard_centre_ = hazard.slope, hazard.centre
        self.event_times_, self.cumulative_hazard_ = hazard.times, hazard.cumulative
        self.last_time_ = float(pairs.time.max())
        self._stream: Any = None
        return self

    @available_if(_streams)  # type: ignore[untyped-decorator]
    @one_at_a_time
    @with_one_thread
    def partial_fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Learn from the next chunk of a stream, in order, with ``solver="sgd"``.

        Each example meets the previous one, or those of a buffer, as the pairing says. Memory does
        not grow with the stream. After `fit` the stream goes on from its coefficients. Times must
        be at least 0. A stream keeps no times, so that there are no chances of survival.

        Parameters
        ----------
        X : {array-like, sparse matrix, data frame} of shape (n_samples, n_features)
            Examples, in random order.
        y : structured array, data frame or array-like of shape (n_samples, 2)
            Events and times, as in `fit`.
        sample_weight : array-like of shape (n_samples,), optional
            Weights, for every chunk or for none. A pair weighs the product of both, unscaled.

        Returns
        -------
        self
            The ranker. A chunk that fails leaves it as it was.
        """
        solver, task = self._parts(check_generator(self.random_state))
        stream = getattr(self, "_stream", None)
        keep_settings(self, _KEPT, begun=stream is not None)
        rows, labels = self._examples(
            X, y, reset=stream is None and not hasattr(self, "coef_"), minimum=1
        )
        weight = chunk_weights(sample_weight, len(labels))
        weight, rows, labels = weighing_examples(weight, rows, labels, begun=stream is not None)
        if not len(labels):
            return self
        times = signed_times(labels["event"], labels["time"])
        rows = self._map_chunk(rows)
        n_before = 0
        if stream is None:
            before = None
            if hasattr(self, "coef_"):
                # a minimiser over all pairs is worth a pass over its events
                n_steps = self.n_steps_ if self.solver_ == "sgd" else self.n_events_
                before = (self.coef_, n_steps)
            stream = solver.stream(task, rows.shape[1], before)
        else:
            n_before = self.n_events_
        stream.learn(rows, times, weight, None)
        seen = labels["event"] if self.tau is None else labels["event"] & (times < self.tau)
        self._adopt(stream, solver, task.loss, n_before + int(np.count_nonzero(seen)))
        return self

    @property
    def progressive_metric(self) -> ConcordanceIndex:
        """What an `OnlineLearner` measures the scores of new examples by, before it learns them."""
        return ConcordanceIndex(bool(self.ipcw), self.tau)

    @property
    def progressive_origin(self) -> float:
        """The score amid those so far, from which an `OnlineLearner` measures new ones."""
        stream = getattr(self, "_stream", None)
        if stream is None:
            return float(getattr(self, "hazard_centre_", None) or 0.0)
        return 0.0 if stream.scales is None else float(self.coef_ @ stream.scales.middle)

    def _adopt(self, stream: Any, solver: Solver, loss: PairLoss, n_events: int) -> None:
        """Take over what a stream has learned."""
        self._stream, self.solver_, self.loss_ = stream, solver.name, loss
        self.ridge_ = self.held_out_concordance_ = self.choice_ = None
        self.hazard_slope_ = self.hazard_centre_ = self.last_time_ = None
        self.event_times_ = self.cumulative_hazard_ = None
        self.n_events_ = n_events
        facts = stream.facts()
        for name in ("coef_", "step_size_", "n_steps_", "n_gradients_"):
            setattr(self, name, facts[name])

    @one_at_a_time
    def stream_state(self) -> dict[str, Any]:
        """Return what the next chunk depends on; empty before the first."""
        stream = getattr(self, "_stream", None)
        if stream is None:
            return {}
        return {**seen_features(self), **stream.state(), "n_events": self.n_events_}

    @one_at_a_time
    def restore_stream(self, state: Mapping[str, Any]) -> None:
        """Go on from a state that `stream_state` of a ranker made alike returned."""
        if state:
            n_events = restored_count(state, "n_events")
            see_features(self, state)
            solver, task = self._parts(check_generator(self.random_state))
            keep_settings(self, _KEPT, begun=False)
            stream = solver.stream(task, self._n_mapped())
            stream.restore(state)
            self._restore_features()
            self._adopt(stream, solver, task.loss, n_events)

    def _examples(self, X: Any, y: Any, *, reset: bool, minimum: int) -> tuple[Rows, NDArray[Any]]:
        """Return checked rows, and the events and times of each."""
        if y is None:
            raise ValueError(
                "SurvivalRanker requires y to be passed, but the target y is None; give the event "
                "and the time of each example."
            )
        rows = as_rows(
            validate_data(
                self, X, accept_sparse="csr", dtype=[np.float64, np.float32], order="C",
                ensure_min_samples=minimum, reset=reset,
            ),
            finite=True,
        )  # fmt: skip
        labels = survival_times(y)
        n = rows.shape[0]
        if len(labels) != n:
            raise ValueError(f"y holds {len(labels)} times for {n} rows of X; give one for each.")
        forget_worth(self)
        return rows, labels

    def _parts(self, rng: np.random.Generator) -> tuple[Solver, SurvivalTask]:
        """Return the solver and what it is asked to do, once all parameters are checked."""
        scaled = is_scaled(self.scaling)
        share = check_fraction("validation_fraction", self.validation_fraction)
        metric = ConcordanceIndex(self.ipcw, self.tau)
        return SOLVERS.make(self.solver), SurvivalTask(
            LOSSES.make(self.loss), scaled, rng, metric, share
        )


register_storable(SurvivalRanker)
