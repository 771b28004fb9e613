# SPDX-License-Identifier: BSD-3-Clause
"""The map that leaves examples as they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from pairlearn.features.base import FeatureMap, dense

__all__ = ["Identity"]


@dataclass(frozen=True)
class Identity(FeatureMap):
    """The map that changes nothing: a linear score.

    Examples
    --------
    >>> Identity().fit([[1.0, 2.0]]).transform([[3.0, 4.0]])
    array([[3., 4.]])
    >>> Identity.of(2).n_outputs
    2
    """

    @classmethod
    def of(cls, n_features: int) -> Self:
        """Return the map of rows of this many features, without examples."""
        return cls()._fitted({}, n_features, None)

    def _width(self, example: Any) -> int:
        return self.n_inputs

    def mapped(self, X: NDArray[Any]) -> NDArray[Any]:
        """Return the rows."""
        return X

    def fill(self, X: Any, out: NDArray[Any]) -> None:
        """Copy the rows."""
        out[...] = dense(X, np.dtype(X.dtype))

    def onnx(self, graph: Any, rows: str) -> str:
        """Return the rows."""
        return rows
