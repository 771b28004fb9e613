# SPDX-License-Identifier: BSD-3-Clause
"""Ranking within queries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from pairlearn.averaging import Averaging
from pairlearn.domains import ball_or_whole
from pairlearn.estimators.ranking.choice import RankedExamples, choose_step_size, pairing_of
from pairlearn.estimators.shared.by_name import as_averaging, as_schedule, auto_steps, is_scaled
from pairlearn.estimators.shared.examples import validate_data
from pairlearn.estimators.shared.features_seen import rows_and_targets, see_features, seen_features
from pairlearn.estimators.shared.mapping import MapsFeatures
from pairlearn.estimators.shared.maps import is_linear
from pairlearn.estimators.shared.order import watch_order
from pairlearn.estimators.shared.scaling import scaled_rows
from pairlearn.estimators.shared.storage import Storable, register_storable
from pairlearn.estimators.shared.weights import chunk_weights, weigh
from pairlearn.features import FeatureMap, Identity
from pairlearn.losses import LOSSES, PairLoss
from pairlearn.losses.weighted import GapWeighted
from pairlearn.metrics.ranking import ndcg, pair_accuracy
from pairlearn.models.registry import ArraySpec
from pairlearn.pairings import Pairing, PreviousExample
from pairlearn.pairings.queries import PreviousOfQuery, number_queries
from pairlearn.problem import Problem
from pairlearn.restored import restored_array
from pairlearn.schedules import Schedule
from pairlearn.scores import LinearScore
from pairlearn.solvers.descent.pairwise_sgd import PairwiseSGD
from pairlearn.solvers.descent.stream import Stream
from pairlearn.solvers.rows import DenseRows, check_squares, mean_pair_distance
from pairlearn.solvers.streams.running_scales import STEP_SIZE, RunningScales
from pairlearn.solvers.turns import one_at_a_time
from pairlearn.typing import Mask, Vector
from pairlearn.validation import check_count, check_fraction, check_generator, check_positive

__all__ = ["PairwiseRanker"]

#: The relative step size of a stream without scales, with steps c / sqrt(t).
_STREAM_STEP = 1.0
#: Steps of n_passes="auto".
_AUTO_STEPS = 500_000


class PairwiseRanker(MapsFeatures, Storable, BaseEstimator):  # type: ignore[misc]
    r"""Linear ranker of graded examples, in queries or globally.

    Minimises, by stochastic gradient descent,

    .. math:: F_S(w) = \sum_q \frac{n_q}{n} \frac{1}{n_q^2} \sum_{i, j \in q}
              \ell(\mathrm{sign}(y_i - y_j) \langle w, x_i - x_j \rangle) \, 1[y_i \neq y_j],

    pairing each example with the previous one *of the same query* (the paper's Algorithm 1 within
    queries; `partial_fit` is Algorithm 2). Without queries it ranks all examples by a real target.

    Parameters
    ----------
    loss : str or PairLoss, default="hinge"
        As in `AUCClassifier`: "hinge", "squared_hinge", "square", "logistic", "exponential",
        "loglink", "smoothed_hinge", or a loss of your own.
    weight_by_grade : bool, default=False
        Whether a pair weighs \|y - y'\|. Without it only the order of the grades matters.
    k : int or None, default=10
        `score` is NDCG over the first k ranks; None for all.
    gain : {"exponential", "linear"}, default="exponential"
        The gain of a grade in NDCG, 2^y - 1 or y.
    step_size : float or "auto", default="auto"
        The scale of the step sizes. "auto" trains a grid on one sample path over a part of the
        queries and keeps the best by pair accuracy on the others. A stream takes 1 over the mean
        squared distance of two examples of its first chunk.
    radius : float, default=inf
        Radius of the ball that the coefficients live in.
    n_passes : float or "auto", default="auto"
        Number of steps in units of the number of examples. "auto" takes 500,000 steps, but at
        least 1 and at most 200 passes.
    schedule : str or Schedule, default="auto"
        "constant" (the default of `fit`), "inverse_sqrt" (the default of `partial_fit`),
        "inverse_time" or a schedule, whose scale is then multiplied by the step size.
    averaging : str or Averaging, default="step_size"
        "step_size" (the paper's average), "linear", "undelayed", "uniform", "tail", "last" or a
        rule.
    max_open : int, default=10_000
        How many queries a stream remembers an example of; beyond that the query that was silent
        for longest is forgotten. Memory is this many examples.
    validation_fraction : float, default=0.2
        Share of the queries (of the examples, without queries) held out to choose the step size;
        with fewer than 2,000 held-out examples, up to five parts are held out in turn. The final
        model is trained on all.
    random_state : int, RandomState, Generator or None, default=None
        Source of the sampled indices.
    scaling : "auto" or None, default="auto"
        "auto" centres each feature and divides it by its standard deviation, but at least by a
        tenth of its range, so that units do not matter (sparse features are not centred, which
        pairs do not notice). Coefficients are in the units of X; `step_size` and `radius` refer
        to scaled features. A stream finds scales on the way (see
        `solvers.streams.running_scales`), in which the variances add up to 1. None is the bare
        algorithm.
    features : {"linear", "hats", "fourier"} or FeatureMap, default="linear"
        What the score is linear in, as of `AUCClassifier`; `partial_fit` needs a map that is
        fitted.
    max_memory : float, default=2**30
        Bytes that mapped rows may take; they are held together.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        Coefficients; with `features`, of mapped features.
    features_ : FeatureMap
        The fitted map, `Identity` for a linear score.
    step_size_ : float or None
        The step size used; None for coefficients that were found on many machines.
    held_out_accuracy_ : float or None
        The pair accuracy by which it was chosen.
    n_queries_ : int
        Queries that have a pair of different grades (1 without queries). In a stream, None.
    n_single_, n_flat_ : int
        Queries of one document, and of several documents of one grade: skipped, since they hold
        no pair.
    n_forgotten_ : int
        Queries that a stream forgot because more than `max_open` were open.
    n_steps_, n_gradients_ : int
        Steps taken and pairs evaluated.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    A score has no meaning across queries unless features do.

    Examples
    --------
    Files in svmlight format carry queries as ``qid:``:

    >>> from io import BytesIO
    >>> from sklearn.datasets import load_svmlight_file
    >>> from pairlearn import PairwiseRanker
    >>> text = b"2 qid:1 1:3 2:1\n0 qid:1 1:1 2:1\n1 qid:2 1:5 2:0\n0 qid:2 1:4 2:1\n"
    >>> X, y, qid = load_svmlight_file(BytesIO(text), query_id=True)
    >>> ranker = PairwiseRanker(random_state=0).fit(X, y, qid=qid)
    >>> ranker.score(X, y, qid=qid)
    1.0
    """

    def __init__(
        self,
        loss: str | PairLoss = "hinge",
        *,
        weight_by_grade: bool = False,
        k: int | None = 10,
        gain: str = "exponential",
        step_size: float | str = "auto",
        radius: float = np.inf,
        n_passes: float | str = "auto",
        schedule: str | Schedule = "auto",
        averaging: str | Averaging = "step_size",
        max_open: int = 10_000,
        validation_fraction: float = 0.2,
        random_state: Any = None,
        scaling: str | None = "auto",
        features: str | FeatureMap = "linear",
        max_memory: float = 2**30,
    ) -> None:
        self.loss = loss
        self.weight_by_grade = weight_by_grade
        self.k = k
        self.gain = gain
        self.step_size = step_size
        self.radius = radius
        self.n_passes = n_passes
        self.schedule = schedule
        self.averaging = averaging
        self.max_open = max_open
        self.validation_fraction = validation_fraction
        self.random_state = random_state
        self.scaling = scaling
        self.features = features
        self.max_memory = max_memory

    _not_stored = ("random_state",)
    _arrays: ClassVar[Mapping[str, ArraySpec]] = {
        "coef": ArraySpec(("n_features",)),
        "step_size": ArraySpec((), required=False, low=0.0),
        "held_out_accuracy": ArraySpec((), required=False, low=0.0, high=1.0),
        "n_queries": ArraySpec((), ("int64",), required=False, low=0),
        **{
            name: ArraySpec((), ("int64",), low=0)
            for name in ("n_steps", "n_gradients", "n_forgotten", "n_single", "n_flat")
        },
    }

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        return tags

    # --------------------------------------------------------------------------- training

    @one_at_a_time
    def fit(
        self,
        X: Any,
        y: ArrayLike,
        qid: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Train on stored examples.

        Parameters
        ----------
        X : {array-like, sparse matrix, data frame} of shape (n_samples, n_features)
            Examples.
        y : array-like of shape (n_samples,)
            Grades, or any real target; larger is better.
        qid : array-like of shape (n_samples,), optional
            The query of each example, in any order. Pairs are made within queries only.
        sample_weight : array-like of shape (n_samples,), optional
            A pair weighs the product of the weights of its two examples, which are divided by
            their mean: a query weighs w if each of its examples weighs sqrt(w). An example of
            weight zero is as good as absent. Held-out pairs that choose the step size all count
            the same.

        Returns
        -------
        self
            The fitted ranker.
        """
        problem = self._problem()
        rows, y = rows_and_targets(self, X, y, reset=True, minimum=2)
        rng = check_generator(self.random_state)
        n = len(y)
        query = np.zeros(n, dtype=np.int64) if qid is None else number_queries(qid, n)
        keep, weight = weigh(sample_weight, n)
        if keep is not None:
            rows, y, query = rows.take(keep), y[keep], query[keep]
        useful = self._count(query, y)
        if not useful.all():
            keep = np.flatnonzero(useful)
            rows, y, query = rows.take(keep), y[keep], query[keep]
            weight = weight[keep] if len(weight) else weight
        rows = self._fit_map(rows, rng)
        scaling, rows = scaled_rows(self.scaling, rows, weight, mapped=not is_linear(self.features))
        grouped = qid is not None
        n_steps = auto_steps(self.n_passes, len(y), budget=_AUTO_STEPS)
        shape = as_schedule(self.schedule, default="constant")
        averaging = as_averaging(self.averaging)
        if self.step_size == "auto":
            step_size, held_out = choose_step_size(
                problem,
                RankedExamples(rows, y, query, weight, grouped),
                n_steps=n_steps,
                schedule=shape,
                averaging=averaging,
                radius=check_positive("radius", self.radius, allow_infinite=True),
                fraction=check_fraction("validation_fraction", self.validation_fraction),
                rng=rng,
            )
        else:
            step_size = check_positive("step_size", self.step_size)  # type: ignore[arg-type]
            held_out = None
        solver = PairwiseSGD(
            pairing_of(query, grouped),
            shape.scaled(step_size),
            ball_or_whole(self.radius),
            averaging,
        )
        weights = weight if len(weight) else None
        solution = solver.solve(problem, rows, y, n_steps=n_steps, rng=rng, example_weight=weights)
        w = solution.average
        self.coef_ = w if scaling is None else scaling.to_user(w)
        self.step_size_: float | None = step_size
        self.held_out_accuracy_ = held_out
        self.n_steps_, self.n_gradients_ = solution.trace.n_steps, solution.trace.n_gradients
        self.n_forgotten_ = 0
        self._stream: Stream | None = None
        return self

    @one_at_a_time
    def adopt_solution(
        self,
        w: Vector,
        *,
        feature_names: list[str] | None,
        n_queries: int,
        n_single: int,
        n_flat: int,
        n_steps: int,
        n_gradients: int,
    ) -> Self:
        """Become the ranker whose coefficients were found elsewhere, on many machines for example.

        Parameters
        ----------
        w : ndarray of shape (d,)
            Coefficients, in the units of the user.
        feature_names : list of str, optional
            Names of the features.
        n_queries, n_single, n_flat, n_steps, n_gradients : int
            The attributes of these names.

        Returns
        -------
        self
            The fitted ranker.
        """
        self._problem()
        see_features(self, {"n_features": len(w), "feature_names": feature_names})
        self.features_ = Identity.of(len(w))
        self.coef_ = np.asarray(w, dtype=np.float64)
        self.step_size_, self.held_out_accuracy_ = None, None
        self.n_queries_: int | None = n_queries
        self.n_single_, self.n_flat_ = n_single, n_flat
        self.n_steps_, self.n_gradients_, self.n_forgotten_ = n_steps, n_gradients, 0
        self._stream = None
        return self

    def _count(self, query: NDArray[np.int64], y: Vector) -> Mask:
        """Count the queries without a pair and return which examples have one."""
        n_queries = int(query.max()) + 1
        size = np.bincount(query, minlength=n_queries)
        highest = np.full(n_queries, -np.inf)
        lowest = np.full(n_queries, np.inf)
        np.maximum.at(highest, query, y)
        np.minimum.at(lowest, query, y)
        mixed = highest > lowest
        self.n_single_ = int(np.count_nonzero(size == 1))
        self.n_flat_ = int(np.count_nonzero((size > 1) & ~mixed))
        self.n_queries_ = int(np.count_nonzero(mixed))
        if not mixed.any():
            raise ValueError(
                f"No query has two different grades ({self.n_single_} of one document, "
                f"{self.n_flat_} of one grade); there is no pair to learn from. Check y and qid."
            )
        return np.asarray(mixed[query])

    @one_at_a_time
    def partial_fit(
        self,
        X: Any,
        y: ArrayLike,
        qid: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Learn from the next chunk of a stream, in order; queries may interleave.

        After `fit` the stream goes on from its coefficients, with the step sizes and the average
        that follow after as many steps.

        Parameters
        ----------
        X : {array-like, sparse matrix, data frame} of shape (n_samples, n_features)
            Examples.
        y : array-like of shape (n_samples,)
            Grades, or any real target.
        qid : array-like of shape (n_samples,), optional
            The query of each example; with every chunk or with none.
        sample_weight : array-like of shape (n_samples,), optional
            Weights, for every chunk or for none. A pair weighs the product of both, unscaled.

        Returns
        -------
        self
            The ranker. A chunk that fails leaves it as it was.
        """
        problem = self._problem()
        stream = getattr(self, "_stream", None)
        rows, y = rows_and_targets(self, X, y, reset=stream is None, minimum=1)
        rows = self._map_chunk(rows)
        if isinstance(rows, DenseRows) and rows.X.dtype != np.float64:
            rows = DenseRows(rows.X.astype(np.float64))
        if self.scaling is None:
            check_squares(rows, whole=stream is None)
        weight = chunk_weights(sample_weight, len(y))
        if stream is None:
            if self.step_size != "auto":
                step_size = check_positive("step_size", self.step_size)  # type: ignore[arg-type]
            elif self.scaling is None:
                step_size = _STREAM_STEP / mean_pair_distance(rows)
            else:
                step_size = STEP_SIZE
            fitted = hasattr(self, "coef_")
            stream = self._start(
                problem,
                rows.shape[1],
                step_size,
                grouped=qid is not None,
                w_start=self.coef_ if fitted else None,
                n_before=self.n_steps_ if fitted else 0,
            )
        else:
            step_size = float(self.step_size_)  # type: ignore[arg-type]
        stream.learn_rows(rows, y, weight, qid)
        self._adopt(stream, step_size)
        watch_order(self, rows, y, stream.scales, qid=qid)
        return self

    def _start(
        self,
        problem: Problem,
        n_features: int,
        step_size: float,
        *,
        grouped: bool,
        w_start: Vector | None = None,
        n_before: int = 0,
    ) -> Stream:
        pairing: Pairing = PreviousExample()
        if grouped:
            pairing = PreviousOfQuery(max_open=check_count("max_open", self.max_open))
        schedule = as_schedule(self.schedule, default="inverse_sqrt").scaled(step_size)
        solver = PairwiseSGD(
            pairing, schedule, ball_or_whole(self.radius), as_averaging(self.averaging)
        )
        scales = None
        if self.scaling is not None:
            scales = RunningScales(n_features, start="zero" if w_start is None else "given")
        return solver.start(
            problem,
            n_features,
            rng=check_generator(self.random_state),
            w_start=w_start,
            n_before=n_before,
            scales=scales,
        )

    def _adopt(self, stream: Stream, step_size: float) -> None:
        """Take over what a stream has learned."""
        self._stream, self.coef_, self.step_size_ = stream, stream.average, step_size
        self.held_out_accuracy_ = None
        self.n_queries_, self.n_single_, self.n_flat_ = None, 0, 0
        self.n_forgotten_ = getattr(stream.source, "n_forgotten", 0)
        self.n_steps_, self.n_gradients_ = stream.n_steps, stream.n_gradients

    @one_at_a_time
    def stream_state(self) -> dict[str, Any]:
        """Return what the next chunk depends on, see `OnlineLearner`; empty before the first."""
        stream = getattr(self, "_stream", None)
        if stream is None:
            return {}
        return {
            **seen_features(self),
            "step_size": self.step_size_,
            "grouped": stream.source is not None,
            "stream": stream.state(),
        }

    @one_at_a_time
    def restore_stream(self, state: Mapping[str, Any]) -> None:
        """Go on from a state that `stream_state` of an estimator made alike returned."""
        if state:
            see_features(self, state)
            step_size = check_positive("the saved step_size", state["step_size"])
            grouped = bool(state["grouped"])
            # As large as the file says, before an array of that size is made.
            width = self._n_mapped()
            restored_array(state["stream"]["descent"], "w", (width,))
            stream = self._start(self._problem(), width, step_size, grouped=grouped)
            stream.restore(state["stream"])
            if isinstance(self.features, FeatureMap):
                self.features_ = self.features
            self._adopt(stream, step_size)

    # ------------------------------------------------------------------------- prediction

    def predict(self, X: Any) -> Vector:
        """Return scores; within a query, rank by them, largest first.

        Parameters
        ----------
        X : {array-like, sparse matrix, data frame} of shape (n_samples, n_features)
            Examples.

        Returns
        -------
        ndarray of shape (n_samples,)
            Scores.
        """
        check_is_fitted(self, "coef_")
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
        return self._linear_scores(X, self.coef_, getattr(self, "features_", None))

    def score(self, X: Any, y: ArrayLike, qid: ArrayLike | None = None) -> float:
        """Return the mean NDCG@k over queries; without queries, the pair accuracy.

        Parameters
        ----------
        X : {array-like, sparse matrix, data frame} of shape (n_samples, n_features)
            Examples.
        y : array-like of shape (n_samples,)
            Grades of at least 0; any real target without queries.
        qid : array-like of shape (n_samples,), optional
            The query of each example.

        Returns
        -------
        float
            The score, at most 1.
        """
        scores = self.predict(X)
        if qid is None:
            return pair_accuracy(y, scores)
        return ndcg(y, scores, qid=qid, k=self.k, gain=self.gain)

    def pair_accuracy(self, X: Any, y: ArrayLike, qid: ArrayLike | None = None) -> float:
        """Return the mean over queries of the share of pairs in the right order.

        Parameters
        ----------
        X : {array-like, sparse matrix, data frame} of shape (n_samples, n_features)
            Examples.
        y : array-like of shape (n_samples,)
            Grades, or any real target.
        qid : array-like of shape (n_samples,), optional
            The query of each example.

        Returns
        -------
        float
            The accuracy, between 0 and 1.
        """
        return pair_accuracy(y, self.predict(X), qid=qid)

    # ------------------------------------------------------------------------- parameters

    def _problem(self) -> Problem:
        is_scaled(self.scaling)
        loss = LOSSES.make(self.loss)
        if not loss.opposite_labels_only:
            raise ValueError(
                f"{type(loss).__name__} does not compare the order of labels; a ranking loss has "
                "opposite_labels_only = True."
            )
        return Problem(LinearScore(), GapWeighted(base=loss) if self.weight_by_grade else loss)


register_storable(PairwiseRanker)
