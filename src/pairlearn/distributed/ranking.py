# SPDX-License-Identifier: BSD-3-Clause
"""Ranking within queries from passes over partitions of whole queries."""

from __future__ import annotations

from collections.abc import Callable

from pairlearn.distributed.passes import Pass, Passes, QueryPasses, scaling_by_passes
from pairlearn.distributed.statistics.queries import (
    OfUsefulQueries,
    QueryGradient,
    QueryMoments,
    QueryPairs,
)
from pairlearn.estimators.ranking.ranker import PairwiseRanker
from pairlearn.estimators.shared.scaling import is_scaled
from pairlearn.estimators.shared.solvers import Solver
from pairlearn.losses import LOSSES, PairLoss
from pairlearn.typing import Vector
from pairlearn.validation import check_flag


def train_ranker(
    run: Pass,
    *,
    loss: str | PairLoss = "squared_hinge",
    solver: str | Solver = "query_passes",
    scaling: str | None = "auto",
    weight_by_grade: bool = False,
    k: int | None = 10,
    gain: str = "exponential",
    feature_names: list[str] | None = None,
    progress: Callable[[int, str], None] | None = None,
) -> PairwiseRanker:
    """Train a `PairwiseRanker` by passes over partitions that hold whole queries.

    Parameters
    ----------
    run : callable
        Takes a statistic, returns the merged state of all partitions; each calls
        ``statistic.of_part(k).partial_state(X, y, sample_weight, qid)``.
    loss : str or PairLoss, default="squared_hinge"
        A convex loss of opposite pairs with an array form. "square" needs one pass, others one for
        each evaluation of the gradient, which is exact.
    solver : "query_passes", QueryPasses or Exact, default="query_passes"
        The ridge, and the settings of the search.
    scaling, weight_by_grade, k, gain : see `PairwiseRanker`
        As of `PairwiseRanker`.
    feature_names : list of str, optional
        Names of the columns.
    progress : callable, optional
        Called before each pass with its number and its purpose.

    Returns
    -------
    PairwiseRanker
        The fitted ranker.

    Examples
    --------
    >>> import numpy as np
    >>> X, y = np.array([[3.0], [1.0], [5.0], [4.0]]), np.array([2, 0, 1, 0])
    >>> qid = np.array([1, 1, 2, 2])
    >>> ranker = train_ranker(lambda statistic: statistic.partial_state(X, y, qid=qid))
    >>> ranker.score(X, y, qid=qid)
    1.0
    """
    chosen = LOSSES.make(loss)
    if not (chosen.convex and chosen.opposite_labels_only and chosen.has_array_form):
        raise ValueError(
            "Ranking on many machines needs a convex loss of opposite pairs with an array form, "
            f'got {chosen!r}; use "squared_hinge", "square", "logistic" or "hinge".'
        )
    settings = QueryPasses.of(solver)
    scaled = is_scaled(scaling)
    check_flag("weight_by_grade", weight_by_grade)
    passes = Passes(run, progress)
    found: QueryPairs = passes(QueryMoments(weight_by_grade), "pair moments")
    units = scaling_by_passes(found.scales, scaled, passes, of=OfUsefulQueries)
    weights = units.weights
    v = found.solve(settings.ridge, weights, margin=getattr(chosen, "margin", 1.0))
    if not chosen.by_moments:

        def risk(v: Vector) -> tuple[float, Vector]:
            statistic = QueryGradient(v, chosen, weights, by_grade=weight_by_grade)
            value: tuple[float, Vector] = passes(statistic, "pair gradient")
            return value

        v = settings.minimise(risk, v, found.scaled_scatter(weights), settings.ridge)
    ranker = PairwiseRanker(loss, scaling=scaling, weight_by_grade=weight_by_grade, k=k, gain=gain)
    return ranker.adopt_solution(
        units.to_user(v),
        feature_names=feature_names,
        n_queries=found.n_queries,
        n_single=found.n_single,
        n_flat=found.n_flat,
        n_steps=passes.n_passes,
        n_gradients=passes.n_passes * found.n_pairs,
    )
