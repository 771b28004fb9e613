# SPDX-License-Identifier: BSD-3-Clause
"""Examples as kernels see them: flat dense rows or CSR arrays."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["CsrRows", "DenseRows", "Rows", "as_rows", "is_sparse", "mean_pair_distance"]


@dataclass(frozen=True)
class DenseRows:
    """Rows of a C-contiguous float32 or float64 array."""

    X: NDArray[Any]

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of features."""
        return (self.X.shape[0], self.X.shape[1])

    @property
    def flat(self) -> NDArray[Any]:
        """The rows one after the other; never to be written, so kernels see one type of array."""
        flat = self.X.reshape(-1)
        flat.flags.writeable = False
        return flat

    def spread(self) -> tuple[NDArray[np.float64], float]:
        """Return the mean row and the mean squared distance of a row from it."""
        mean = self.X.mean(axis=0, dtype=np.float64)
        return mean, float(((self.X - mean) ** 2).sum(dtype=np.float64) / len(self.X))

    def largest_norm(self) -> float:
        """Return the largest Euclidean norm of a row."""
        squares = np.einsum("ij,ij->i", self.X, self.X, dtype=np.float64)
        return math.sqrt(float(squares.max()))

    def take(self, index: NDArray[np.int64]) -> DenseRows:
        """Return a copy of some rows."""
        return DenseRows(self.X[index])

    def followed_by(self, other: DenseRows) -> DenseRows:
        """Return these rows with others below them."""
        return DenseRows(np.concatenate([self.X, other.X]))

    def scores(self, w: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return w X' for one parameter or for several in rows."""
        return np.asarray(w.astype(self.X.dtype, copy=False) @ self.X.T, dtype=np.float64)


@dataclass(frozen=True)
class CsrRows:
    """Rows of a CSR matrix."""

    data: NDArray[Any]
    indices: NDArray[Any]
    indptr: NDArray[Any]
    n_features: int

    def __post_init__(self) -> None:
        # One type each, whatever made the matrix: another one would compile every kernel anew.
        indices = np.int32 if self.n_features <= 2**31 else np.int64
        object.__setattr__(self, "indices", self.indices.astype(indices, copy=False))
        object.__setattr__(self, "indptr", self.indptr.astype(np.int64, copy=False))

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of features."""
        return (len(self.indptr) - 1, self.n_features)

    @cached_property
    def norms(self) -> NDArray[np.float64]:
        """Squared norm of each row."""
        from pairlearn.kernels.sparse import row_norms

        norms = np.empty(self.shape[0])
        row_norms(self.data, self.indptr, norms)
        return norms

    def spread(self) -> tuple[NDArray[np.float64], float]:
        """Return the mean row and the mean squared distance of a row from it."""
        n, d = self.shape
        mean = np.bincount(self.indices, self.data, minlength=d) / n
        return mean, max(float(self.norms.mean() - mean @ mean), 0.0)

    def largest_norm(self) -> float:
        """Return the largest Euclidean norm of a row."""
        return math.sqrt(float(self.norms.max()))

    def take(self, index: NDArray[np.int64]) -> CsrRows:
        """Return a copy of some rows."""
        counts = np.diff(self.indptr)[index]
        indptr = np.concatenate([[0], np.cumsum(counts)])
        position = np.arange(indptr[-1]) + np.repeat(self.indptr[:-1][index] - indptr[:-1], counts)
        return CsrRows(self.data[position], self.indices[position], indptr, self.n_features)

    def followed_by(self, other: CsrRows) -> CsrRows:
        """Return these rows with others below them."""
        return CsrRows(
            np.concatenate([self.data, other.data]),
            np.concatenate([self.indices, other.indices]),
            np.concatenate([self.indptr, other.indptr[1:] + self.indptr[-1]]),
            self.n_features,
        )

    def scores(self, w: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return w X' for one parameter or for several in rows."""
        import scipy.sparse

        X = scipy.sparse.csr_array((self.data, self.indices, self.indptr), shape=self.shape)
        return np.asarray((X @ w.T).T, dtype=np.float64)


Rows = DenseRows | CsrRows


def is_sparse(X: Any) -> bool:
    """Tell a SciPy sparse container without importing SciPy."""
    return hasattr(X, "tocsr")


def as_rows(X: Any, *, dtype: Any = None, finite: bool = False) -> Rows:
    """Return X as rows that a kernel can read, copying only when it must.

    float32 and float64 stay what they are, unless `dtype` says otherwise, everything else becomes
    float64; rows are returned as they are. NaN and infinity are refused, without a look if X is
    known to be `finite`.
    """
    if isinstance(X, Rows):
        return X
    if is_sparse(X):
        matrix = X.tocsr()
        if not matrix.has_canonical_format:
            matrix = matrix.copy()
            matrix.sum_duplicates()
        data = _real(matrix.data, dtype)
        if not finite:
            _check_finite(data)
        return CsrRows(data, matrix.indices, matrix.indptr, matrix.shape[1])
    array = np.ascontiguousarray(_real(np.asarray(X), dtype))
    if array.ndim != 2:
        raise ValueError(f"X must have two dimensions (examples, features), got {array.ndim}.")
    if not finite:
        _check_finite(array)
    return DenseRows(array)


def mean_pair_distance(rows: Rows) -> float:
    """Return the mean squared distance of two examples; that from zero where all are equal.

    >>> mean_pair_distance(DenseRows(np.array([[1.0], [-1.0]])))
    2.0
    """
    mean, spread = rows.spread()
    scale = 2.0 * spread if spread > 0 else float(mean @ mean)
    return scale if scale > 0 else 1.0


def _real(array: NDArray[Any], dtype: Any) -> NDArray[Any]:
    if dtype is None:
        dtype = array.dtype if array.dtype in (np.float32, np.float64) else np.float64
    return array.astype(dtype, copy=False)


def _check_finite(array: NDArray[Any]) -> None:
    # A finite sum proves that every entry is finite, in one pass and without a mask.
    with np.errstate(over="ignore", invalid="ignore"):
        total = array.sum(dtype=np.float64)
    if not np.isfinite(total) and not np.isfinite(array).all():
        raise ValueError("X contains NaN or infinity; remove these rows or impute the values.")
