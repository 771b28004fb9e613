# SPDX-License-Identifier: BSD-3-Clause
"""What the parameters of a metric learner ask for, and the form of its examples."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.multiclass import check_classification_targets

from pairlearn.averaging import Averaging
from pairlearn.domains import PsdBall, PsdCone
from pairlearn.estimators.metric.mixin import check_pair_labels, check_pairs
from pairlearn.estimators.shared.by_name import is_scaled
from pairlearn.estimators.shared.examples import validate_data
from pairlearn.estimators.shared.mapping import MapsFeatures
from pairlearn.features import FeatureMap
from pairlearn.losses import METRIC_LOSSES, PairLoss
from pairlearn.pairings import PAIRINGS, GivenPairs, Pairing, PreviousExample
from pairlearn.pairings.given import as_rows_of_pairs
from pairlearn.problem import Problem
from pairlearn.schedules import Schedule
from pairlearn.scores import MahalanobisScore
from pairlearn.typing import Vector
from pairlearn.validation import check_positive

__all__ = ["MetricParameters"]

#: Steps between two projections of projection="auto" in `fit`.
_PERIOD = 2000


class MetricParameters(MapsFeatures):
    """The parameters of `MetricLearner`, which says what each means, read and checked."""

    loss: str | PairLoss
    parameterization: str
    rank: int | None
    step_size: float | str
    radius: float
    projection: str
    period: int
    init: str | ArrayLike
    schedule: str | Schedule
    averaging: str | Averaging
    pairing: str | Pairing
    random_state: Any
    scaling: str | None
    features: str | FeatureMap
    n_features_in_: int
    #: The number of each label of a stream.
    _codes: dict[Any, float]

    def _problem(self) -> Problem:
        is_scaled(self.scaling)
        return Problem(self._score(), METRIC_LOSSES.make(self.loss))

    def _score(self) -> MahalanobisScore:
        return MahalanobisScore(self.parameterization, self.rank)

    def _given_step_size(self, auto: float) -> float:
        if isinstance(self.step_size, str) and self.step_size == "auto":
            return auto
        if isinstance(self.step_size, str):
            raise ValueError(
                f'step_size must be a number, "auto" or "held_out", got {self.step_size!r}.'
            )
        return check_positive("step_size", self.step_size)

    def _domain(self, *, stored: bool) -> PsdCone | PsdBall:
        projection, period = self.projection, self.period
        if projection == "auto":
            projection = "exact"
            if stored and self.period == 1:
                projection, period = "every", _PERIOD
        radius = check_positive("radius", self.radius, allow_infinite=True)
        if np.isinf(radius):
            return PsdCone(projection=projection, period=period)
        return PsdBall(radius, projection=projection, period=period)

    def _pairing(self, paired: bool) -> Pairing | None:
        """Return the pairing, None for near examples."""
        if paired:
            return GivenPairs()
        if isinstance(self.pairing, str) and self.pairing in ("auto", "neighbors"):
            return None
        return PAIRINGS.make(self.pairing)

    def _stream_pairing(self, paired: bool) -> Pairing:
        """Return the pairing of a stream, in which nobody's neighbours are known."""
        pairing = self._pairing(paired)
        if pairing is None and self.pairing == "neighbors":
            raise ValueError(
                'pairing="neighbors" needs all examples at once; for partial_fit use "previous" '
                'or "auto".'
            )
        return PreviousExample() if pairing is None else pairing

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
