# SPDX-License-Identifier: BSD-3-Clause
"""Scale features to [-1, 1].

The paper scales each feature to [-1, 1]. Its published code fits the scaling on all examples,
including the test examples. Here the default ``"train"`` fits on the training part only;
``"paper"`` does as the paper.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairlearn.typing import Vector

#: Scalings by name: fitted on the training part, fitted on all examples, none.
SCALINGS = ("train", "paper", "none")

#: Bytes of a dense matrix at most.
_DENSE_LIMIT = 4 * 2**30


@dataclass(frozen=True, eq=False)
class MinMaxScaling:
    """The affine map of each feature from [low, high] to [-1, 1].

    Parameters
    ----------
    low, high : ndarray of shape (d,)
        The range of each feature in the examples of the fit. A feature that was constant there
        becomes 0, so later examples do not differ in it either.

    Examples
    --------
    >>> scaling = MinMaxScaling.fit(np.array([[0.0, 5.0], [4.0, 5.0]]))
    >>> scaling.apply(np.array([[1.0, 7.0], [6.0, 5.0]]))
    array([[-0.5,  0. ],
           [ 2. ,  0. ]])
    """

    low: Vector
    high: Vector

    @classmethod
    def fit(cls, X: Vector) -> MinMaxScaling:
        """Return the scaling for the range of X."""
        if X.ndim != 2 or len(X) == 0:
            raise ValueError(f"X must hold at least one example, got shape {X.shape}.")
        return cls(low=X.min(axis=0), high=X.max(axis=0))

    def apply(self, X: Vector, *, clip: bool = False) -> Vector:
        """Return X scaled; examples outside the fitted range exceed [-1, 1] unless clipped."""
        width = self.high - self.low
        varies = width > 0
        factor = np.where(varies, 2.0 / np.where(varies, width, 1.0), 0.0)
        offset = np.where(varies, -1.0 - self.low * factor, 0.0)
        scaled = X * factor
        scaled += offset
        return np.clip(scaled, -1.0, 1.0, out=scaled) if clip else scaled


def prepare(
    X: Any, train: NDArray[np.int64], test: NDArray[np.int64], *, scaling: str = "train"
) -> tuple[Any, Any]:
    """Return the scaled training and test examples.

    Parameters
    ----------
    X : ndarray or csr_matrix of shape (n, d)
        All examples.
    train, test : ndarray of int
        Indices of the training and test examples.
    scaling : {"train", "paper", "none"}, default="train"
        Fit on the training part, fit on all examples as the paper does, or do not scale. Scaling
        fills the zeros of a sparse matrix, so a large one is refused.

    Returns
    -------
    tuple
        The training and the test examples.

    Examples
    --------
    >>> X = np.array([[0.0], [1.0], [2.0]])
    >>> prepare(X, np.array([0, 1]), np.array([2]))[1]
    array([[3.]])
    >>> prepare(X, np.array([0, 1]), np.array([2]), scaling="paper")[1]
    array([[1.]])
    """
    if scaling not in SCALINGS:
        raise ValueError(f"scaling must be one of {', '.join(SCALINGS)}, got {scaling!r}.")
    if scaling == "none":
        return X[train], X[test]
    if hasattr(X, "toarray"):
        if 8 * X.shape[0] * X.shape[1] > _DENSE_LIMIT:
            raise ValueError(
                f"scaling would fill the zeros of a sparse matrix of shape {X.shape}; "
                'use scaling="none".'
            )
        X = X.toarray()
    if scaling == "paper":
        fitted = MinMaxScaling.fit(X)
        return fitted.apply(X[train]), fitted.apply(X[test])
    part = X[train]
    fitted = MinMaxScaling.fit(part)
    return fitted.apply(part), fitted.apply(X[test])
