# SPDX-License-Identifier: BSD-3-Clause
"""Ranking within queries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from pairlearn.estimators.ranking.choice import Queries, count_queries
from pairlearn.estimators.ranking.descent import RankingTask
from pairlearn.estimators.ranking.predictions import RankerPredictions
from pairlearn.estimators.shared.evidence import Choice
from pairlearn.estimators.shared.features_seen import rows_and_targets, see_features, seen_features
from pairlearn.estimators.shared.maps import is_linear
from pairlearn.estimators.shared.order import watch_order
from pairlearn.estimators.shared.published import all_or_nothing
from pairlearn.estimators.shared.scaling import is_scaled, scaled_rows
from pairlearn.estimators.shared.solvers import SOLVERS, Fitted, Solver
from pairlearn.estimators.shared.storage import register_storable
from pairlearn.estimators.shared.weights import chunk_weights, kept_of_chunk, weigh
from pairlearn.features import FeatureMap, Identity
from pairlearn.folds import Keys
from pairlearn.losses import LOSSES, PairLoss
from pairlearn.losses.weighted import GapWeighted
from pairlearn.metrics.ranking import check_ndcg
from pairlearn.pairings.queries import number_queries
from pairlearn.solvers.blas_threads import with_one_thread
from pairlearn.solvers.solution import Trace
from pairlearn.solvers.streams.settings import keep_settings
from pairlearn.solvers.turns import one_at_a_time
from pairlearn.typing import Vector
from pairlearn.validation import check_flag, check_fraction, check_generator

#: What a stream is made of, so that it cannot change on the way.
_KEPT = ("loss", "features", "solver", "scaling", "weight_by_grade")


class PairwiseRanker(RankerPredictions, BaseEstimator):  # type: ignore[misc]
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
        "sgd", `SGD` with settings of its own, or a solver of your own. With ``step_size="auto"``
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

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags

    @one_at_a_time
    @all_or_nothing
    @with_one_thread
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
        solver, loss = self._parts()
        rows, y = rows_and_targets(self, X, y, reset=True, minimum=2)
        rng = check_generator(self.random_state)
        n = len(y)
        query = np.zeros(n, dtype=np.int64) if qid is None else number_queries(qid, n)
        keep, weight = weigh(sample_weight, n)
        if keep is not None:
            rows, y, query = rows.take(keep), y[keep], query[keep]
        keys = Keys.of(rows, seed=rng)
        useful, counts = count_queries(query, y)
        if not useful.all():
            keep = np.flatnonzero(useful)
            rows, y, query, keys = rows.take(keep), y[keep], query[keep], keys.take(keep)
            weight = weight[keep] if len(weight) else weight
        rows = self._fit_map(rows, rng, weight)
        scaling, rows = scaled_rows(self.scaling, rows, weight, mapped=not is_linear(self.features))
        task = self._task(loss, rng, Queries(query, qid is not None), keys)
        fitted = solver.fit(task, rows, y, weight)
        coef = fitted.w if scaling is None else scaling.to_user(fitted.w)
        self._note(replace(fitted, w=coef), counts)
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
        """Become the ranker of coefficients that were found elsewhere, in the units of the user."""
        _, loss = self._parts()
        see_features(self, {"n_features": len(w), "feature_names": feature_names})
        self.features_ = Identity.of(len(w))
        coef, trace = np.asarray(w, dtype=np.float64), Trace(n_steps, n_gradients)
        self._note(Fitted(coef, "exact", loss, Choice(), trace), (n_queries, n_single, n_flat))
        return self

    def _note(self, fitted: Fitted, counts: tuple[int, int, int]) -> None:
        """Take over what a solver found."""
        self.coef_, self.solver_, self.loss_ = fitted.w, fitted.solver, fitted.loss
        self.choice_: Choice | None = fitted.choice
        self.step_size_, self.held_out_accuracy_ = fitted.choice.step_size, fitted.choice.auc
        self.n_queries_: int | None
        self.n_queries_, self.n_single_, self.n_flat_ = counts
        self.n_steps_, self.n_gradients_ = fitted.trace.n_steps, fitted.trace.n_gradients
        self.n_forgotten_ = 0
        self._stream: Any = None

    @one_at_a_time
    @with_one_thread
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
        stream = getattr(self, "_stream", None)
        keep_settings(self, _KEPT, begun=stream is not None)
        rows, y = rows_and_targets(
            self, X, y, reset=stream is None and not hasattr(self, "coef_"), minimum=1
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
        rows = self._map_chunk(rows)
        if stream is None:
            rng = check_generator(self.random_state)
            self._grouped = qid is not None
            task = self._task(loss, rng, Queries(grouped=self._grouped))
            before = (self.coef_, self.n_steps_) if hasattr(self, "coef_") else None
            stream = solver.stream(task, rows.shape[1], before)
        stream.learn(rows, y, weight, qid)
        self._adopt(stream, solver, loss)
        watch_order(self, rows, y, stream.scales, qid=qid)
        return self

    def _adopt(self, stream: Any, solver: Solver, loss: PairLoss) -> None:
        """Take over what a stream has learned."""
        self._stream, self.solver_, self.loss_ = stream, solver.name, loss
        self.choice_ = self.held_out_accuracy_ = self.n_queries_ = None
        self.n_single_ = self.n_flat_ = 0
        for name, value in stream.facts().items():
            setattr(self, name, value)

    @one_at_a_time
    def stream_state(self) -> dict[str, Any]:
        """Return what the next chunk depends on, see `OnlineLearner`; empty before the first."""
        stream = getattr(self, "_stream", None)
        if stream is None:
            return {}
        return {**seen_features(self), **stream.state(), "grouped": self._grouped}

    @one_at_a_time
    def restore_stream(self, state: Mapping[str, Any]) -> None:
        """Go on from a state that `stream_state` of an estimator made alike returned."""
        if state:
            see_features(self, state)
            solver, loss = self._parts()
            keep_settings(self, _KEPT, begun=False)
            rng = check_generator(self.random_state)
            self._grouped = bool(state["grouped"])
            task = self._task(loss, rng, Queries(grouped=self._grouped))
            stream = solver.stream(task, self._n_mapped())
            stream.restore(state)
            self._restore_features()
            self._adopt(stream, solver, loss)

    def _parts(self) -> tuple[Solver, PairLoss]:
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
        return SOLVERS.make(self.solver), GapWeighted(base=loss) if by_grade else loss

    def _task(
        self,
        loss: PairLoss,
        rng: np.random.Generator,
        queries: Queries,
        keys: Keys | None = None,
    ) -> RankingTask:
        """Return what a solver is asked to do."""
        scaled, share = is_scaled(self.scaling), self.validation_fraction
        return RankingTask(loss, scaled, rng, queries, share, keys)


register_storable(PairwiseRanker)
