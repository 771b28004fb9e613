# SPDX-License-Identifier: BSD-3-Clause
"""`PairwiseRanker` on an engine whose partitions hold whole queries."""

from __future__ import annotations

import numpy as np

from pairlearn.cluster.passes import ClusterReport, Passes, refuse_others, ridge_of, scaling_from
from pairlearn.cluster.queries import QueryGradient, QueryMoments, QueryPairs
from pairlearn.estimators.ranking import PairwiseRanker
from pairlearn.estimators.shared.scaling import is_scaled
from pairlearn.losses import LOSSES
from pairlearn.solvers.exact.batch import descend
from pairlearn.typing import Vector
from pairlearn.validation import check_flag, warn_caller

#: The ridge, for features of mean variance 1, if none is given.
_RIDGE = 1e-4
_TOLERANCE, _MOST = 1e-6, 100
_HEEDED = ("loss", "solver", "scaling", "weight_by_grade", "k", "gain", "random_state")


def train_ranker(passes: Passes, estimator: PairwiseRanker) -> PairwiseRanker:
    """Return the ranker that an engine trains; see `fit_on`.

    The square loss takes one pass, others one for each gradient, which is exact.
    """
    refuse_others(estimator, _HEEDED)
    loss = LOSSES.make(estimator.loss)
    if not (loss.convex and loss.opposite_labels_only and loss.has_array_form):
        raise ValueError(
            "Ranking on many machines needs a convex loss of opposite pairs with an array form, "
            f'got {loss!r}; use "squared_hinge", "square", "logistic" or "hinge".'
        )
    given = ridge_of(estimator.solver, "sgd")
    ridge = _RIDGE if given is None else given
    by_grade = check_flag("weight_by_grade", estimator.weight_by_grade)
    found: QueryPairs = passes(QueryMoments(by_grade), "pair moments")
    units = scaling_from(found.columns, scaled=is_scaled(estimator.scaling))
    w = found.solve(ridge, units.weights, margin=getattr(loss, "margin", 1.0))
    if not loss.by_moments:

        def risk(w: Vector) -> tuple[float, Vector]:
            statistic = QueryGradient(w, loss, units.weights, by_grade=by_grade)
            value: tuple[float, Vector] = passes(statistic, "pair gradient")
            return value

        scatter = found.scatter * np.outer(units.weights, units.weights)
        w, _, stopped = descend(
            risk, w, scatter, ridge=ridge, tolerance=_TOLERANCE, max_iterations=_MOST
        )
        if stopped:
            warn_caller(f"The search stopped after {_MOST} iterations.", RuntimeWarning)
    ranker = PairwiseRanker(**estimator.get_params(deep=False))
    ranker.adopt_solution(
        units.to_user(w),
        feature_names=passes.feature_names,
        n_queries=found.n_queries,
        n_single=found.n_single,
        n_flat=found.n_flat,
        n_steps=passes.n_passes,
        n_gradients=passes.n_passes * found.n_pairs,
    )
    ranker.cluster_report_ = ClusterReport(passes.n_passes)
    return ranker
