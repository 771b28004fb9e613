# SPDX-License-Identifier: BSD-3-Clause
"""The parameter `features` of estimators: maps by name, fitted and applied."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairlearn.estimators.shared.evidence import FeatureChoice
from pairlearn.estimators.shared.examples import mapped_product
from pairlearn.estimators.shared.solvers import MAPPED_BYTES
from pairlearn.features import MAPS, FeatureMap, Hats, Identity
from pairlearn.features.columns import SAMPLE_ROWS
from pairlearn.folds import Keys
from pairlearn.models.record import ModelRecord
from pairlearn.solvers.rows import Rows, as_rows
from pairlearn.solvers.streams.settings import check_map
from pairlearn.typing import Vector
from pairlearn.validation import check_generator, check_positive

#: Bytes of the tables of moments, for each pair of mapped features: six tables of float64.
BYTES_PER_PRODUCT = 48.0
#: Weights of examples that all count alike.
_ALIKE: Vector = np.empty(0)


def is_linear(features: Any) -> bool:
    """Whether a parameter asks for linear features."""
    return isinstance(features, Identity) or (isinstance(features, str) and features == "linear")


def check_named(features: Any) -> None:
    """Raise unless a parameter is a feature map or names one."""
    if not (isinstance(features, str) and features == "auto"):
        MAPS.make(features, also="auto")


def as_map(features: Any, rows: Rows, y: Vector) -> FeatureMap:
    """Return the map that a parameter names, not fitted yet, or the given one.

    The number of rows sets the size of a map.
    """
    if isinstance(features, FeatureMap):
        return features
    rarer = min(int(np.count_nonzero(y > 0)), int(np.count_nonzero(y <= 0)))
    return MAPS.make(features).sized(*rows.shape, rarer)


def fit_map(
    features: FeatureMap,
    rows: Rows,
    rng: np.random.Generator,
    keys: Keys | None = None,
    *,
    counts: Vector = _ALIKE,
    constrained: bool = False,
) -> FeatureMap:
    """Return the map fitted to examples; one that is fitted already stays as it is.

    A map that looks at some of the examples takes those of the smallest keys. `counts` says how
    often each example counts, to a map that takes weights; they may be empty. A map that asks for
    monotone functions is refused unless the caller keeps them (`constrained`).
    """
    if features.constrained and not constrained:
        raise ValueError(
            f"{features!r} asks for monotone functions, which are learned by AUCClassifier.fit "
            "from two classes with these hats alone; leave out monotone."
        )
    if not features.is_fitted:
        keys = Keys.of(rows, seed=rng) if keys is None else keys
        seen = keys.first(np.arange(rows.shape[0]), SAMPLE_ROWS)
        rows = rows.take(seen)
        weighs = features.takes_weights and len(counts)
        given = {"sample_weight": counts[seen]} if weighs else {}
        from pairlearn.solvers.closed_form.mapped_moments import block_of

        return features.fit(block_of(rows, 0, rows.shape[0]), rng=rng, **given)
    if features.n_inputs != rows.shape[1]:
        raise ValueError(
            f"features were fitted to {features.n_inputs} features, X has {rows.shape[1]}; pass a "
            "map that is not fitted, or one for these features."
        )
    return features


def map_rows(features: FeatureMap, rows: Rows, max_memory: float, cure: str) -> NDArray[Any]:
    """Return all mapped rows; refuse them with the advice `cure` if they do not fit in memory."""
    n, m = rows.shape[0], features.n_outputs
    if 8.0 * n * m > max_memory:
        raise ValueError(
            f"{n} rows of {m} mapped features take {8.0 * n * m / 2**30:.1f} GiB, "
            f"max_memory={max_memory:g} bytes; {cure}"
        )
    from pairlearn.solvers.closed_form.mapped_moments import block_of

    return features.transform(block_of(rows, 0, n))


def features_for(
    features: Any,
    rows: Rows,
    y: Vector,
    weight: Vector,
    rng: np.random.Generator,
    keys: Keys,
    validation_fraction: float,
    max_memory: float,
    counts: Vector,
) -> tuple[FeatureMap, tuple[FeatureChoice, Any] | None]:
    """Return the fitted map of a parameter; for "auto" also the evidence and its moments."""
    if is_linear(features):
        return Identity.of(rows.shape[1]), None
    rows.checked()  # linear features are checked by the scaling, which reads every value
    # A copy of the generator, so that the choice of a map does not change the fit.
    draws = copy.deepcopy(rng)
    if isinstance(features, str) and features == "auto":
        from pairlearn.estimators.shared.judged_maps import choose_features

        limits = validation_fraction, max_memory
        chosen = choose_features(rows, y, weight, draws, keys, *limits, counts)
        return chosen[1], (chosen[0], chosen[2])
    found = as_map(features, rows, y)
    fitted = fit_map(found, rows, draws, keys, counts=counts, constrained=isinstance(found, Hats))
    return fitted, None


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
