# SPDX-License-Identifier: BSD-3-Clause
"""Ranking within queries.

`fit` reads, scales and calls `descend`; `_pairing` says who meets, `_folds` choose the step size.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from pairlearn.averaging import AVERAGINGS
from pairlearn.domains import ball_or_whole
from pairlearn.estimators.shared.descent import descend
from pairlearn.estimators.shared.evidence import Choice
from pairlearn.estimators.shared.examples import (
    rows_and_targets,
    see_features,
    seen_features,
    validate_data,
    watch_order,
)
from pairlearn.estimators.shared.maps import MapsFeatures, is_linear
from pairlearn.estimators.shared.scaling import is_scaled, scaled_rows
from pairlearn.estimators.shared.solvers import (
    SGD,
    SOLVERS,
    Fitted,
    Solver,
    as_schedule,
    check_solver,
    step_and_radius,
)
from pairlearn.estimators.shared.storage import Storable, register_storable
from pairlearn.estimators.shared.weights import chunk_weights, kept_of_chunk, weigh
from pairlearn.features import FeatureMap, Identity
from pairlearn.losses import LOSSES, PairLoss
from pairlearn.losses.weighted import GapWeighted
from pairlearn.metrics.ranking import check_ndcg, ndcg, pair_accuracy
from pairlearn.models.record import ArraySpec
from pairlearn.pairings import PAIRINGS, Pairing, PreviousExample, RandomPair
from pairlearn.pairings.queries import PreviousOfQuery, has_pairs, number_queries
from pairlearn.problem import Problem
from pairlearn.restored import check_as_saved, restored_array
from pairlearn.scores import LinearScore
from pairlearn.solvers.descent.pairwise_sgd import PairwiseSGD
from pairlearn.solvers.descent.stream import Stream
from pairlearn.solvers.rows import DenseRows, Rows, check_squares, mean_pair_distance
from pairlearn.solvers.solution import Trace
from pairlearn.solvers.streams.running_scales import STEP_SIZE, RunningScales
from pairlearn.solvers.streams.settings import keep_settings
from pairlearn.typing import Mask, Places, Vector
from pairlearn.validation import check_flag, check_fraction, check_generator, check_positive

#: What a stream is made of, so that it cannot change on the way.
_KEPT = ("loss", "features", "solver", "scaling", "weight_by_grade")
#: With at least this many held-out examples, one part is held out; with fewer, several in turn.
_ENOUGH = 2_000
#: The most parts that are held out in turn.
_MOST_FOLDS = 5
#: The most held-out examples that judge a choice without queries.
_JUDGED = 20_000
#: The most entries of the differences that the distance of a pair is measured from.
_NUMBERS = 1 << 22


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
    features : {"linear", "hats", "fourier"} or FeatureMap, default="linear"
        What the score is linear in, as in `AUCClassifier`. `partial_fit` needs a fitted map.
    solver : str or Solver, default="sgd"
        "sgd", or `SGD` with settings of its own. With ``step_size="auto"``
        `fit` trains a grid on one sample path over a part of the queries and keeps the best by
        pair accuracy on the others. A stream takes a fixed step size in units of its running
        scales; without scales it takes 1 over the mean squared distance of two examples of its
        first chunk. A radius of "auto" means none. ``n_passes="auto"`` takes 500,000 steps, but at
        least 1 and at most 200 passes. ``pairing="previous"`` stands for `PreviousOfQuery`; its
        field `max_open` bounds the memory of a stream. Without queries "shuffled" and "random"
        pairs also work in `fit`.
    scaling : "auto" or None, default="auto"
        "auto" centres each feature and divides it by its standard deviation, but at least by a
        tenth of its range, so that units do not matter. Sparse features are not centred; pairs do
        not notice. Coefficients are in the units of X; step size and radius refer to scaled
        features. A stream learns scales on the way (see `solvers.streams.running_scales`), in which
        the variances add up to 1. None is the bare algorithm.
    weight_by_grade : bool, default=False
        Whether a pair weighs \|y - y'\|. Without it only the order of the grades matters.
    k : int or None, default=10
        `score` is NDCG over the first k ranks; None for all.
    gain : {"exponential", "linear"}, default="exponential"
        The gain of a grade in NDCG, 2^y - 1 or y.
    validation_fraction : float, default=0.2
        Share of the queries (of the examples, without queries) held out to choose the step size.
        With fewer than 2,000 held-out examples, up to five parts are held out in turn. The final
        model is trained on all.
    random_state : int, RandomState, Generator or None, default=None
        Source of the sampled indices.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        Coefficients; with `features`, of mapped features.
    features_ : FeatureMap
        The fitted map, `Identity` for a linear score.
    solver_ : str
        The name of the solver.
    loss_ : PairLoss
        The loss that it minimised.
    step_size_ : float or None
        The step size used; None for coefficients that were found on many machines.
    choice_ : Choice or None
        The step sizes that were tried, with the held-out pair accuracy of each (`Tried.auc`) and
        its standard error over the folds; None for a stream.
    held_out_accuracy_ : float or None
        The pair accuracy of the chosen step size.
    n_queries_ : int or None
        Queries that have a pair of different grades (1 without queries); None for a stream.
    n_single_, n_flat_ : int
        Queries of one document, and queries of several documents with one grade. They hold no pair
        and are skipped.
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
        features: str | FeatureMap = "linear",
        solver: str | Solver = "sgd",
        scaling: str | None = "auto",
        weight_by_grade: bool = False,
        k: int | None = 10,
        gain: str = "exponential",
        validation_fraction: float = 0.2,
        random_state: Any = None,
    ) -> None:
        self.loss, self.features, self.solver, self.scaling = loss, features, solver, scaling
        self.weight_by_grade, self.k, self.gain = weight_by_grade, k, gain
        self.validation_fraction, self.random_state = validation_fraction, random_state

    coef_: Vector
    _stream: Stream | None = None
    _not_stored = ("random_state",)
    _takes_sparse = True
    _facts: ClassVar[Mapping[str, type]] = {"solver_": str, "loss_": PairLoss, "choice_": Choice}
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
        tags.target_tags.required = True
        return tags

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
        model = copy.copy(self)  # A fit that fails leaves this model as it was.
        solver, loss = self._parts()
        rows, y = rows_and_targets(model, X, y, reset=True, minimum=2)
        rng = check_generator(self.random_state)
        n, grouped = len(y), qid is not None
        query = np.zeros(n, dtype=np.int64) if qid is None else number_queries(qid, n)
        keep, weight = weigh(sample_weight, n)
        if keep is not None:
            rows, y, query = rows.take(keep), y[keep], query[keep]
        useful, counts = _count_queries(query, y)
        if not useful.all():
            keep = np.flatnonzero(useful)
            rows, y, query = rows.take(keep), y[keep], query[keep]
            weight = weight[keep] if len(weight) else weight
        rows = model._fit_map(rows, rng, weight)
        scaling, rows = scaled_rows(self.scaling, rows, weight, mapped=not is_linear(self.features))

        def pairing_of(part: Places | None) -> Pairing:
            of_example = query if part is None else query[part]
            return _pairing(solver.pairing, of_example if grouped else None, grouped)

        def judge(test: Places, scores: Vector) -> float:
            return pair_accuracy(y[test], scores, qid=query[test])

        fitted = descend(
            Problem(LinearScore(), loss),
            solver,
            rows,
            y,
            weight,
            rng,
            owner="PairwiseRanker",
            pairing_of=pairing_of,
            distance=lambda rows: _distance(rows, pairing_of(None), rng, weight),
            folds=lambda: _folds(query, y, grouped, self.validation_fraction, rng),
            judge=judge,
        )
        coef = fitted.w if scaling is None else scaling.to_user(fitted.w)
        model._note(replace(fitted, w=coef), counts)
        self.__dict__ = model.__dict__
        return self

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
        """Become the ranker of coefficients that were found elsewhere, in the units of the user."""
        _, loss = self._parts()
        see_features(self, {"n_features": len(w), "feature_names": feature_names})
        self.features_ = Identity.of(len(w))
        coef, trace = np.asarray(w, dtype=np.float64), Trace(n_steps, n_gradients)
        self._note(Fitted(coef, "exact", loss, Choice(), trace), (n_queries, n_single, n_flat))
        return self

    def _note(self, fitted: Fitted, counts: tuple[int, int, int]) -> None:
        self.coef_, self.solver_, self.loss_ = fitted.w, fitted.solver, fitted.loss
        self.choice_: Choice | None = fitted.choice
        self.step_size_, self.held_out_accuracy_ = fitted.choice.step_size, fitted.choice.auc
        self.n_queries_: int | None
        self.n_queries_, self.n_single_, self.n_flat_ = counts
        self.n_steps_, self.n_gradients_ = fitted.trace.n_steps, fitted.trace.n_gradients
        self.n_forgotten_ = 0
        self._stream = None

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
        X, y : array-like
            As in `fit`.
        qid : array-like of shape (n_samples,), optional
            The query of each example, with every chunk or with none; texts in all chunks, or
            numbers in all: the text "7" and the number 7 are different queries.
        sample_weight : array-like of shape (n_samples,), optional
            Weights, for every chunk or for none. A pair weighs the product of both, unscaled.

        Returns
        -------
        self
            The ranker. A chunk that fails leaves it as it was.
        """
        solver, loss = self._parts()
        stream, model = self._stream, copy.copy(self)
        keep_settings(model, _KEPT, begun=stream is not None)
        rows, y = rows_and_targets(
            model, X, y, reset=stream is None and not hasattr(self, "coef_"), minimum=1
        )
        weight = chunk_weights(sample_weight, len(y))
        kept = kept_of_chunk(weight, begun=stream is not None)
        if kept is not None:
            if qid is not None:
                number_queries(qid, len(y))
                qid = np.asarray(qid)[kept]
            if not len(kept):
                return self
            rows, y, weight = rows.take(kept), y[kept], weight[kept]
        rows = model._map_chunk(rows)
        if isinstance(rows, DenseRows) and rows.X.dtype != np.float64:
            rows = DenseRows(rows.X.astype(np.float64))
        if not is_scaled(self.scaling):
            check_squares(rows, whole=stream is None)
        if stream is None:
            model._grouped = qid is not None
            step_size = step_and_radius(solver, "PairwiseRanker")[0]
            if step_size is None:
                step_size = STEP_SIZE
                if not is_scaled(self.scaling):
                    step_size = 1.0 / mean_pair_distance(rows, weight)
            stream = model._start(solver, loss, rows.shape[1], step_size)
            model.step_size_ = step_size
        stream.learn_rows(rows, y, weight, qid)
        model._adopt(stream, loss)
        watch_order(model, rows, y, stream.scales, qid=qid)
        self.__dict__ = model.__dict__
        return self

    def _start(self, solver: SGD, loss: PairLoss, n_features: int, step_size: float) -> Stream:
        """Return a stream with this step size, from the coefficients of a fit if there is one."""
        schedule = as_schedule(solver.schedule, default="inverse_sqrt").scaled(step_size)
        radius = step_and_radius(solver, "PairwiseRanker")[1]
        before: Vector | None = getattr(self, "coef_", None)
        scales = None
        if is_scaled(self.scaling):
            scales = RunningScales(n_features, start="zero" if before is None else "given")
        descent = PairwiseSGD(
            _pairing(solver.pairing, None, self._grouped),
            schedule,
            ball_or_whole(radius),
            AVERAGINGS.make(solver.averaging),
        )
        return descent.start(
            Problem(LinearScore(), loss),
            n_features,
            rng=check_generator(self.random_state),
            w_start=before,
            n_before=0 if before is None else self.n_steps_,
            scales=scales,
        )

    def _adopt(self, stream: Stream, loss: PairLoss) -> None:
        self._stream, self.solver_, self.loss_ = stream, "sgd", loss
        self.choice_ = self.held_out_accuracy_ = self.n_queries_ = None
        self.n_single_ = self.n_flat_ = 0
        self.coef_ = stream.average
        self.n_steps_, self.n_gradients_ = stream.n_steps, stream.n_gradients
        self.n_forgotten_ = getattr(stream.source, "n_forgotten", 0)

    def stream_state(self) -> dict[str, Any]:
        """Return what the next chunk depends on, see `OnlineLearner`; empty before the first."""
        if self._stream is None:
            return {}
        return {
            **seen_features(self),
            "step_size": self.step_size_,
            "stream": self._stream.state(),
            "grouped": self._grouped,
        }

    def restore_stream(self, state: Mapping[str, Any]) -> None:
        """Go on from a state that `stream_state` of an estimator made alike returned."""
        if not state:
            return
        solver, loss = self._parts()
        model = type(self)(**self.get_params(deep=False))
        see_features(model, state)
        keep_settings(model, _KEPT, begun=False)
        step_size = check_positive("the saved step_size", state["step_size"])
        check_as_saved("step_size", step_and_radius(solver, "PairwiseRanker")[0], step_size)
        # Check the size that the file gives before an array of that size is made.
        restored_array(state["stream"]["descent"], "w", (model._n_mapped(),))
        model._grouped = bool(state["grouped"])
        stream = model._start(solver, loss, model._n_mapped(), step_size)
        stream.restore(state["stream"])
        model._restore_features()
        model.step_size_ = step_size
        model._adopt(stream, loss)
        self.__dict__ = model.__dict__

    def predict(self, X: Any) -> Vector:
        """Return a score for each row of `X`; within a query, rank by them, largest first."""
        check_is_fitted(self, "coef_")
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
        return self._linear_scores(X, self.coef_, self.features_)

    def score(self, X: Any, y: ArrayLike, qid: ArrayLike | None = None) -> float:
        """Return the mean NDCG@k over queries, at most 1; without queries, the pair accuracy."""
        scores = self.predict(X)
        if qid is None:
            return pair_accuracy(y, scores)
        return ndcg(y, scores, qid=qid, k=self.k, gain=self.gain)

    def pair_accuracy(self, X: Any, y: ArrayLike, qid: ArrayLike | None = None) -> float:
        """Return the mean over queries of the share of pairs in the right order."""
        return pair_accuracy(y, self.predict(X), qid=qid)

    def _parts(self) -> tuple[SGD, PairLoss]:
        """Return the solver and what a pair costs."""
        is_scaled(self.scaling)
        check_fraction("validation_fraction", self.validation_fraction)
        loss = LOSSES.make(self.loss)
        if not loss.opposite_labels_only:
            raise ValueError(
                f"{type(loss).__name__} does not compare the order of labels; a ranking loss has "
                "opposite_labels_only = True."
            )
        check_ndcg(self.k, self.gain)
        by_grade = check_flag("weight_by_grade", self.weight_by_grade)
        solver: Any = SOLVERS.make(self.solver)
        check_solver(solver, (SGD,), "PairwiseRanker")
        step_and_radius(solver, "PairwiseRanker")
        return solver, GapWeighted(base=loss) if by_grade else loss


def _pairing(given: str | Pairing, query: Places | None, grouped: bool) -> Pairing:
    """Return the pairing that a solver names: within queries, if there are any."""
    by_name = grouped and isinstance(given, str) and given == "previous"
    pairing = PreviousOfQuery() if by_name else PAIRINGS.make(given)
    if grouped:
        if not isinstance(pairing, PreviousOfQuery) or pairing.qid is not None:
            raise ValueError(
                f"pairing={given!r} does not pair within the given queries; use "
                'pairing="previous" or PreviousOfQuery(max_open=...), or leave out qid.'
            )
        return replace(pairing, qid=query)
    if not isinstance(pairing, PreviousExample | RandomPair):
        raise ValueError(
            f"pairing={given!r} cannot rank examples without queries; use "
            'pairing="previous", "shuffled" or "random", or pass qid with PreviousOfQuery().'
        )
    return pairing


def _count_queries(query: Places, y: Vector) -> tuple[Mask, tuple[int, int, int]]:
    """Return which examples have a pair, and the numbers of useful, single and flat queries."""
    n_queries = int(query.max()) + 1
    size = np.bincount(query, minlength=n_queries)
    highest, lowest = np.full(n_queries, -np.inf), np.full(n_queries, np.inf)
    np.maximum.at(highest, query, y)
    np.minimum.at(lowest, query, y)
    mixed = highest > lowest
    n_single = int(np.count_nonzero(size == 1))
    n_flat = int(np.count_nonzero((size > 1) & ~mixed))
    if not mixed.any():
        raise ValueError(
            f"No query has two different grades ({n_single} of one document, {n_flat} of one "
            "grade); there is no pair to learn from. Check y and qid."
        )
    return np.asarray(mixed[query]), (int(np.count_nonzero(mixed)), n_single, n_flat)


def _folds(
    query: Places, y: Vector, grouped: bool, fraction: float, rng: np.random.Generator
) -> list[tuple[Places, Places]]:
    """Return (train, held-out) examples, by whole queries; all are judged if none can be spared."""
    from sklearn.model_selection import GroupKFold, KFold

    n_groups = len(np.unique(query)) if grouped else len(query)
    n_folds = min(max(round(1.0 / fraction), 2), n_groups)
    everything = np.arange(len(query))
    if n_folds < 2:
        return [(everything, everything)]
    kind = GroupKFold if grouped else KFold
    splits = kind(n_folds, shuffle=True, random_state=int(rng.integers(2**31)))
    most = 1 if fraction * len(query) >= _ENOUGH else _MOST_FOLDS
    folds = []
    for train, test in list(splits.split(everything, groups=query if grouped else None))[:most]:
        if not grouped and len(test) > _JUDGED:
            test = np.sort(rng.choice(test, _JUDGED, replace=False))
        if all(has_pairs(query[part], y[part]) for part in (train, test)):
            folds.append((train, test))
    return folds or [(everything, everything)]


def _distance(rows: Rows, pairing: Pairing, rng: np.random.Generator, weight: Vector) -> float:
    """Return the mean squared distance of the different examples of a pair, from some pairs."""
    n_pairs = int(np.clip(_NUMBERS // rows.shape[1], 100, 2000))
    plan = pairing.offline(rows.shape[0], rng).draw(n_pairs)
    sides = [np.asarray(side, dtype=np.int64) for side in (plan.left, plan.right)]
    apart = rows.take(sides[0]).matrix - rows.take(sides[1]).matrix
    squares = apart.astype(np.float64) ** 2 if isinstance(rows, DenseRows) else apart.power(2)
    of_pair = np.asarray(squares.sum(axis=1), dtype=np.float64).reshape(-1)
    worth = (sides[0] != sides[1]).astype(np.float64)
    if len(weight):
        worth *= weight[sides[0]] * weight[sides[1]]
    total = float(worth @ of_pair)
    return total / float(worth.sum()) if total > 0.0 else 1.0


register_storable(PairwiseRanker)
