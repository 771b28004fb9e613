# SPDX-License-Identifier: BSD-3-Clause
"""A ranker by risk, from survival times that may be censored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from pairlearn.estimators.shared.evidence import Choice, best_of
from pairlearn.estimators.shared.examples import validate_data
from pairlearn.estimators.shared.mapping import MapsFeatures
from pairlearn.estimators.shared.maps import is_linear
from pairlearn.estimators.shared.scaling import is_scaled, scaled_rows
from pairlearn.estimators.shared.solvers import SOLVERS, Exact, Solver
from pairlearn.estimators.shared.storage import Storable, register_storable
from pairlearn.estimators.shared.weights import weigh
from pairlearn.estimators.survival.hazard import Hazard, fit_hazard
from pairlearn.features import FeatureMap
from pairlearn.folds import Keys, members_of, n_folds_of, stratified
from pairlearn.losses import LOSSES, PairLoss
from pairlearn.metrics.concordance import (
    ConcordanceIndex,
    censoring_free,
    comparable_pairs,
    survival_times,
)
from pairlearn.models.registry import ArraySpec
from pairlearn.solvers.exact.survival import SurvivalObjective
from pairlearn.solvers.rows import Rows, as_rows
from pairlearn.solvers.turns import one_at_a_time
from pairlearn.typing import Vector
from pairlearn.validation import check_fraction, check_generator

#: The ridges of "auto", from the strongest on: each search starts where the one before ended.
_RIDGES = (10.0, 1.0, 0.1, 0.01, 1e-3, 1e-4)
#: With at least this many held-out events, one fold is held out; with fewer, all in turn.
_ENOUGH = 2_000


class SurvivalRanker(MapsFeatures, Storable, BaseEstimator):  # type: ignore[misc]
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
    loss : {"squared_hinge", "logistic"} or PairLoss, default="squared_hinge"
        The squared hinge costs O(n log n) for each evaluation, by sorting. The logistic loss visits
        every pair: for up to 400 million products of events and examples.
    features : {"linear", "hats", "fourier"} or FeatureMap, default="linear"
        What the score is linear in, as in `AUCClassifier`.
    solver : "exact" or Exact, default="exact"
        ``Exact(ridge=...)`` fixes the ridge, for features of mean variance 1. With ``ridge="auto"``
        the best of 10, 1, ..., 1e-4 by the concordance index of held-out folds is taken.
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
    ridge_ : float
        The ridge used.
    choice_ : Choice
        The ridges that were tried, with the held-out concordance of each (`Tried.auc`) and its
        standard error over the folds.
    held_out_concordance_ : float or None
        The concordance of the chosen ridge on held-out folds; None for a given ridge.
    n_events_ : int
        Events that were learned from.
    n_evaluations_ : int
        Evaluations of the loss over all pairs in the final search.
    hazard_slope_, hazard_centre_ : float
        The log hazard of a score s is ``hazard_slope_ * (s - hazard_centre_)``.
    event_times_, cumulative_hazard_ : ndarray of shape (n_times,)
        The times of events, and Breslow's cumulative hazard at `hazard_centre_`.
    last_time_ : float
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

    _not_stored = ("random_state",)
    _takes_sparse = True
    _facts: ClassVar[Mapping[str, type]] = {"solver_": str, "loss_": PairLoss, "choice_": Choice}
    _arrays: ClassVar[Mapping[str, ArraySpec]] = {
        "coef": ArraySpec(("n_features",)),
        "ridge": ArraySpec((), low=0.0),
        "held_out_concordance": ArraySpec((), required=False, low=0.0, high=1.0),
        "n_events": ArraySpec((), ("int64",), low=1),
        "n_evaluations": ArraySpec((), ("int64",), low=0),
        "hazard_slope": ArraySpec(()),
        "hazard_centre": ArraySpec(()),
        "event_times": ArraySpec(("n_times",)),
        "cumulative_hazard": ArraySpec(("n_times",), low=0.0),
        "last_time": ArraySpec(()),
    }

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
        solver, loss, metric = self._parts()
        if y is None:
            raise ValueError(
                "SurvivalRanker requires y to be passed, but the target y is None; give the event "
                "and the time of each example."
            )
        rows = as_rows(
            validate_data(
                self, X, accept_sparse="csr", dtype=[np.float64, np.float32], order="C",
                ensure_min_samples=2,
            ),
            finite=True,
        )  # fmt: skip
        labels = survival_times(y)
        n = rows.shape[0]
        if len(labels) != n:
            raise ValueError(f"y holds {len(labels)} times for {n} rows of X; give one for each.")
        rng = check_generator(self.random_state)
        keep, weight = weigh(sample_weight, n)
        if keep is not None:
            rows, labels = rows.take(keep), labels[keep]
        keys = Keys.of(rows.matrix, labels["time"], weight=weight, seed=rng)
        weight = weight if len(weight) else np.ones(len(labels))
        comparable_pairs(labels, self.tau)  # refuses labels without a pair
        rows = self._fit_map(rows, rng)
        scaling, rows = scaled_rows(self.scaling, rows, weight, mapped=not is_linear(self.features))
        choice = Choice(ridge=solver.given_ridge)
        if choice.ridge is None:
            choice = self._choose(rows, labels, weight, loss, metric, keys)
        assert choice.ridge is not None
        w, n_evaluations = self._objective(rows, labels, weight, loss).minimise(choice.ridge)
        self.coef_ = w if scaling is None else scaling.to_user(w)
        self.solver_, self.loss_, self.choice_ = solver.name, loss, choice
        self.ridge_, self.held_out_concordance_ = choice.ridge, choice.auc
        pairs = comparable_pairs(labels, self.tau)
        self.n_events_ = int(np.count_nonzero(pairs.event))
        self.n_evaluations_ = n_evaluations
        # scores of scaled rows differ from those of X by a constant only
        shift = 0.0 if scaling is None else float(scaling.centre @ (scaling.factor * w))
        hazard = fit_hazard(rows.scores(w) + shift, labels["event"], pairs.time, weight)
        self.hazard_slope_, self.hazard_centre_ = hazard.slope, hazard.centre
        self.event_times_, self.cumulative_hazard_ = hazard.times, hazard.cumulative
        self.last_time_ = float(pairs.time.max())
        return self

    def _choose(
        self,
        rows: Rows,
        labels: NDArray[Any],
        weight: Vector,
        loss: PairLoss,
        metric: ConcordanceIndex,
        keys: Keys,
    ) -> Choice:
        """Return the ridge of the best concordance on held-out folds, and the evidence."""
        n_events = int(np.count_nonzero(labels["event"]))
        n_folds = n_folds_of(self.validation_fraction, n_events)
        n_held = 1 if self.validation_fraction * n_events >= _ENOUGH else None
        folds = stratified(members_of(labels["event"]), n_folds, keys, n_held=n_held)
        found: list[list[float]] = [[] for _ in _RIDGES]
        for train, test in folds if n_folds > 1 else ():
            try:
                for part in (train, test):
                    comparable_pairs(labels[part], self.tau)
            except ValueError:
                continue  # too few events for this fold
            objective = self._objective(rows.take(train), labels[train], weight[train], loss)
            held, w = rows.take(test), np.zeros(rows.shape[1])
            for worth, ridge in zip(found, _RIDGES, strict=True):
                w, _ = objective.minimise(ridge, w, tolerance=1e-6)
                worth.append(metric(labels[test], held.scores(w), sample_weight=weight[test]))
        if not found[0]:
            raise ValueError(
                f"y holds too few events ({n_events}) to choose a ridge on held-out folds; give "
                "one, for example solver=Exact(ridge=0.1)."
            )
        best = best_of(
            ({"ridge": ridge}, ridge, worth) for ridge, worth in zip(_RIDGES, found, strict=True)
        )
        return Choice(ridge=best.model, evidence=best.evidence, tried=best.tried)

    def _objective(
        self, rows: Rows, labels: NDArray[Any], weight: Vector, loss: PairLoss
    ) -> SurvivalObjective:
        """Return the loss over the comparable pairs of some examples."""
        pairs = comparable_pairs(labels, self.tau)
        mass = weight * pairs.event
        if self.ipcw:
            mass /= censoring_free(labels, weight) ** 2
        return SurvivalObjective(rows, pairs, loss, weight, mass)

    def predict(self, X: Any) -> Vector:
        """Return the risk score of each row of `X`: the higher, the earlier the event."""
        check_is_fitted(self, "coef_")
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
        return self._linear_scores(X, self.coef_, getattr(self, "features_", None))

    def predict_survival_function(self, X: Any, times: ArrayLike | None = None) -> Vector:
        """Return the chance to survive given times, by proportional hazards of the score.

        The ranker learns an order only. The chances come from Breslow's estimate for the training
        scores, see `pairlearn.estimators.survival.hazard`; they assume proportional hazards.

        Parameters
        ----------
        X : {array-like, sparse matrix, data frame} of shape (n_samples, n_features)
            Examples.
        times : array-like of shape (n_times,), optional
            Times up to the largest one in training; `event_times_` by default.

        Returns
        -------
        ndarray of shape (n_samples, n_times)
            The chance of each example to have no event until each time.
        """
        scores = self.predict(X)
        hazard = Hazard(
            self.hazard_slope_, self.hazard_centre_, self.event_times_, self.cumulative_hazard_
        )
        if times is None:
            return hazard.survival(scores, self.event_times_)
        asked = np.asarray(times, dtype=np.float64)
        if asked.ndim != 1 or not (asked <= self.last_time_).all():
            raise ValueError(
                "times must be a vector of times up to the largest one in training, "
                f"{self.last_time_:g}, got {times!r}; nothing is known of what comes after."
            )
        return hazard.survival(scores, asked)

    def score(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> float:
        """Return the concordance index of the predicted risks, with the ranker's `ipcw` and `tau`.

        Parameters
        ----------
        X : {array-like, sparse matrix, data frame} of shape (n_samples, n_features)
            Examples.
        y : structured array, data frame or array-like of shape (n_samples, 2)
            Events and times, as in `fit`.
        sample_weight : array-like of shape (n_samples,), optional
            Weights.

        Returns
        -------
        float
            1 for a perfect order, 1/2 for chance.
        """
        metric = ConcordanceIndex(ipcw=self.ipcw, tau=self.tau)
        return metric(y, self.predict(X), sample_weight=sample_weight)

    def _parts(self) -> tuple[Exact, PairLoss, ConcordanceIndex]:
        """Return the solver, the loss and the measure, once all parameters are checked."""
        is_scaled(self.scaling)
        check_fraction("validation_fraction", self.validation_fraction)
        if not isinstance(self.ipcw, bool | np.bool_):
            raise ValueError(f"ipcw must be True or False, got {self.ipcw!r}.")
        solver = SOLVERS.make(self.solver)
        if type(solver) is not Exact:
            raise ValueError(
                f"SurvivalRanker has no way to train by {solver!r}; use solver='exact' or "
                "Exact(ridge=...)."
            )
        return solver, LOSSES.make(self.loss), ConcordanceIndex(bool(self.ipcw), self.tau)


register_storable(SurvivalRanker)
