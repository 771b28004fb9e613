# SPDX-License-Identifier: BSD-3-Clause
"""The parameter `features` of estimators that train on all mapped rows."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from pairlearn.estimators.shared.examples import mapped_product
from pairlearn.estimators.shared.maps import as_map, check_named, fit_map, is_linear, map_rows
from pairlearn.estimators.shared.solvers import MAPPED_BYTES
from pairlearn.features import MAPS, FeatureMap, Identity
from pairlearn.models.record import ModelRecord
from pairlearn.solvers.rows import Rows, as_rows
from pairlearn.solvers.streams.settings import check_map
from pairlearn.typing import Vector
from pairlearn.validation import check_generator, check_positive


class MapsFeatures:
    """A mixin of estimators with `features` and `solver`, whose score is linear in the map.

    `fit` calls `_fit_map` once it knows its rows, `partial_fit` calls `_map_chunk`; `features_` is
    the fitted map.
    """

    features: Any
    solver: Any
    features_: Any
    n_features_in_: int

    @property
    def _max_memory(self) -> float:
        """Bytes that mapped rows may take."""
        given = getattr(self.solver, "max_memory", MAPPED_BYTES)
        return check_positive("max_memory", given, allow_infinite=True)

    def _check_features(self) -> None:
        """Refuse a parameter that names no map."""
        self._max_memory  # noqa: B018 - it checks
        check_named(self.features)
        if isinstance(self.features, str) and self.features == "auto":
            raise ValueError(
                f'features="auto" compares AUCs, which {type(self).__name__} does not have; name '
                f"one of {', '.join(MAPS)}, or pass a feature map."
            )

    def _fit_map(self, rows: Rows, rng: Any, weight: Vector) -> Rows:
        """Fit the map to training rows, whose weights may be empty; return the mapped rows."""
        self._check_features()
        if is_linear(self.features):
            self.features_ = Identity.of(rows.shape[1])
            return rows
        # A copy of the generator: the sample path does not depend on the map.
        balanced = np.resize([-1.0, 1.0], rows.shape[0])
        draws = check_generator(copy.deepcopy(rng))
        fitted = fit_map(as_map(self.features, rows, balanced), rows, draws, counts=weight)
        found = map_rows(fitted, rows, self._max_memory, "use fewer features or a larger one.")
        self.features_ = fitted
        return as_rows(found, finite=True)

    def _map_chunk(self, rows: Rows) -> Rows:
        """Return the mapped rows of a chunk; the map must be fitted beforehand."""
        self._check_features()
        known = hasattr(self, "coef_") or hasattr(self, "components_")
        before = self.features_ if known else None
        if is_linear(self.features):
            if not isinstance(before, Identity):
                check_map(before, Identity.of(rows.shape[1]))
                self.features_ = Identity.of(rows.shape[1])
            return rows
        if not isinstance(self.features, FeatureMap) or not self.features.is_fitted:
            raise ValueError(
                f"a stream needs fitted features, got {self.features!r}; pass for example "
                "features=Hats().fit(X) of a sample X."
            )
        fitted = fit_map(self.features, rows, np.random.default_rng(0))
        check_map(before, fitted)
        found = map_rows(fitted, rows, self._max_memory, "pass smaller chunks.")
        self.features_ = fitted
        return as_rows(found, finite=True)

    def _unpack(self, record: ModelRecord) -> None:
        super()._unpack(record)  # type: ignore[misc]
        coef = record.arrays["coef" if "coef" in record.arrays else "components"]
        self.features_ = Identity.of(coef.shape[-1])

    def _restore_map(self, features: FeatureMap) -> None:
        self.features_ = features

    def _restore_features(self) -> None:
        """Set `features_` of a restored stream."""
        given = self.features
        self.features_ = (
            given if isinstance(given, FeatureMap) else Identity.of(self.n_features_in_)
        )

    def _n_mapped(self) -> int:
        """Return the number of features that a stream learns from."""
        if is_linear(self.features) or not self.features.is_fitted:
            return self.n_features_in_
        return int(self.features.n_outputs)

    def _linear_scores(self, X: Any, coef: Vector, features: FeatureMap | None) -> Vector:
        """Return the scores of checked examples."""
        return mapped_product(features, X, coef)
