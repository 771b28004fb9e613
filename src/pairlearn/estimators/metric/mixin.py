# SPDX-License-Identifier: BSD-3-Clause
"""What can be done with a learned metric: distances and a linear map."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_array, check_is_fitted

from pairlearn.estimators.shared.examples import product, refuse_overflow, validate_data
from pairlearn.features import FeatureMap
from pairlearn.typing import Vector


@dataclass(frozen=True, eq=False)
class Metric:
    """The distance ||L (u - v)|| of two vectors, for neighbours and clustering of scikit-learn.

    >>> Metric(np.array([[2.0, 0.0]]))([1.0, 5.0], [0.0, 0.0])
    2.0
    """

    components: Vector
    #: A fitted map, if the distance is of mapped vectors.
    features: FeatureMap | None = None

    def __call__(self, u: ArrayLike, v: ArrayLike, squared: bool = False) -> float:
        """Return ||L (u - v)||, or its square."""
        both = np.stack([_as_vector(u), _as_vector(v)])
        if self.features is not None:
            both = self.features.transform(both)
        image = self.components @ (both[0] - both[1])
        value = float(image @ image)
        return value if squared else float(np.sqrt(value))


def _as_vector(u: ArrayLike) -> Vector:
    """Return one vector; SciPy's distances take a row of a table, (1, d), for one, too."""
    vector = np.asarray(u, dtype=np.float64)
    if vector.ndim == 2 and 1 in vector.shape:
        vector = vector.ravel()
    if vector.ndim != 1:
        raise ValueError(f"a distance is of two vectors, got an array of shape {vector.shape}.")
    return vector


def check_pairs(
    pairs: Any,
    n_features: int | None = None,
    *,
    owner: str = "MetricLearner",
    allow_missing: bool = False,
) -> Vector:
    """Return pairs as an array of shape (n, 2, d), finite unless values may be missing."""
    if isinstance(pairs, list | tuple):
        lengths = {np.shape(member) for pair in pairs for member in pair}
        if len(lengths) > 1:
            raise ValueError(
                f"The members of all pairs must have the same number of features, got members of "
                f"shapes {sorted(map(str, lengths))}."
            )
    array = np.asarray(
        check_array(
            pairs,
            allow_nd=True,
            ensure_2d=False,
            dtype=np.float64,
            ensure_all_finite=not allow_missing,
        )
    )
    if array.ndim != 3 or array.shape[1] != 2:
        raise ValueError(
            f"Pairs must have shape (n_pairs, 2, n_features), got {array.shape}; stack the first "
            "and the second members with np.stack([left, right], axis=1)."
        )
    if n_features is not None and array.shape[2] != n_features:
        raise ValueError(
            f"Pairs have {array.shape[2]} features, but {owner} was fitted on {n_features}."
        )
    return array


class MetricMixin(
    ClassNamePrefixFeaturesOutMixin,  # type: ignore[misc]
    TransformerMixin,  # type: ignore[misc]
):
    """Distances and a linear map, given `components_` with W = components_' components_.

    A transformer itself: scikit-learn's `set_output` reaches a `transform` only where it is
    defined in a class that is one.
    """

    components_: Vector
    n_features_in_: int

    def _rows(self, X: Any) -> Any:
        """Return examples as they are measured."""
        return validate_data(self, X, dtype=[np.float64, np.float32], reset=False)

    def _pairs(self, pairs: Any) -> Vector:
        """Return pairs as they are measured."""
        return check_pairs(pairs, self.n_features_in_, owner=type(self).__name__)

    def transform(self, X: Any) -> Vector:
        """Return L x for each example, of shape (n_samples, n_components).

        Euclidean distances of the images are the learned ones.
        """
        check_is_fitted(self, "components_")
        return product(self._rows(X), self.components_.T)

    def get_mahalanobis_matrix(self) -> Vector:
        """Return W, positive semi-definite, of shape (n_features, n_features)."""
        check_is_fitted(self, "components_")
        components = self.components_
        return np.asarray(components.T @ components)

    def get_metric(self) -> Metric:
        """Return the distance as a function of two vectors, to pass as ``metric=`` to scikit-learn.

        Neighbours are found much faster on the result of `transform`.
        """
        check_is_fitted(self, "components_")
        return Metric(self.components_.copy())

    def pair_distance(self, pairs: Any) -> Vector:
        """Return the distance of each pair, sqrt((x - x')' W (x - x')).

        Pairs are an array of shape (n_pairs, 2, n_features), here and in the other methods.
        """
        check_is_fitted(self, "components_")
        array = self._pairs(pairs)
        with np.errstate(over="ignore"):
            image = product(array[:, 0] - array[:, 1], self.components_.T)
            distances = np.sqrt(np.einsum("nk,nk->n", image, image))
        return refuse_overflow(distances, self.components_)

    def pair_score(self, pairs: Any) -> Vector:
        """Return minus the distance of each pair: larger means more similar."""
        return -self.pair_distance(pairs)
