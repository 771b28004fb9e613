# SPDX-License-Identifier: BSD-3-Clause
"""The parameters of a metric learner as objects, and its examples as rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.multiclass import check_classification_targets

from pairlearn.estimators.metric.descent import MetricTask
from pairlearn.estimators.metric.mixin import check_pair_labels, check_pairs
from pairlearn.estimators.shared.by_name import is_scaled
from pairlearn.estimators.shared.examples import validate_data
from pairlearn.estimators.shared.mapping import MapsFeatures
from pairlearn.estimators.shared.solvers import Solver
from pairlearn.features import FeatureMap
from pairlearn.losses import METRIC_LOSSES, PairLoss
from pairlearn.pairings.given import as_rows_of_pairs
from pairlearn.problem import Problem
from pairlearn.scores import MahalanobisScore
from pairlearn.typing import Vector
from pairlearn.validation import check_count, check_fraction

__all__ = ["MetricParameters"]


class MetricParameters(MapsFeatures):
    """The parameters of `MetricLearner`, read and checked."""

    loss: str | PairLoss
    parameterization: str
    rank: int | None
    init: str | ArrayLike
    features: str | FeatureMap
    solver: str | Solver
    scaling: str | None
    n_neighbors: int
    validation_fraction: float
    random_state: Any
    n_features_in_: int
    #: The number of each label of a stream.
    _codes: dict[Any, float]

    def _task(self, paired: bool, scaling: Any = None) -> MetricTask:
        """Return what the solver is asked to do, with the scaling of the rows of a fit."""
        return MetricTask(
            Problem(self._score(), METRIC_LOSSES.make(self.loss)),
            self.init,
            paired,
            is_scaled(self.scaling),
            self.random_state,
            scaling,
            check_count("n_neighbors", self.n_neighbors),
            check_fraction("validation_fraction", self.validation_fraction),
        )

    def _score(self) -> MahalanobisScore:
        return MahalanobisScore(self.parameterization, self.rank)

    def _examples(
        self, X: Any, y: ArrayLike, *, reset: bool, minimum: int, coded: bool = True
    ) -> tuple[Vector, Vector, bool]:
        """Return rows, numbers as labels, and whether the rows are pairs."""
        if getattr(X, "ndim", None) == 3 or np.ndim(X[0] if isinstance(X, list) else 0) == 2:
            known = None if reset else self.n_features_in_
            pairs = check_pairs(X, known)
            signs = check_pair_labels(y, len(pairs))
            rows, y = as_rows_of_pairs(pairs, signs)
            validate_data(self, rows, reset=reset)
            return rows, y, True
        X, y = validate_data(
            self, X, y, dtype=np.float64, order="C", reset=reset, ensure_min_samples=minimum
        )
        check_classification_targets(y)
        names = np.asarray(y)
        if coded:
            return X, np.unique(names, return_inverse=True)[1].astype(np.float64), False
        codes = [self._codes.setdefault(name, float(len(self._codes))) for name in names.tolist()]
        return X, np.array(codes), False
