# SPDX-License-Identifier: BSD-3-Clause
"""Examples as kernels see them: flat dense rows or CSR arrays.

Kernels check nothing: they read a row that does not exist from wherever it would be. So rows must
be *sound* before they reach a kernel: finite, with indices inside the arrays. The check is one
linear scan per object (`checked` remembers it). Rows made from sound rows skip it. Reading all
values is a large part of a single pass, so a loop that reads them anyway and whose sums show that
they are finite marks the rows by `known_finite`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from pairlearn.typing import Vector
from pairlearn.validation import DivergenceError, real_array, refuse_masked

#: The weights of examples that all count once.
NO_WEIGHTS = np.empty(0)


@dataclass(frozen=True)
class DenseRows:
    """Rows of a C-contiguous float32 or float64 array."""

    X: NDArray[Any]

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of features."""
        return (self.X.shape[0], self.X.shape[1])

    @property
    def dtype(self) -> Any:
        """Type of the numbers."""
        return self.X.dtype

    def checked(self) -> DenseRows:
        """Return the rows themselves; raise if a kernel could not read them."""
        if not _knows(self, _INSIDE):
            X = self.X
            if X.ndim != 2 or X.dtype not in _FLOATS or not X.flags.c_contiguous:
                raise ValueError(
                    f"Rows must be a C-contiguous table of float32 or float64, got {X.dtype} of "
                    f"shape {X.shape}."
                )
            _note(self, _INSIDE)
        if not _knows(self, _FINITE):
            vars(self)[_SQUARES] = _check_finite(self.X)
            _note(self, _FINITE)
        return self

    def known_finite(self) -> DenseRows:
        """Return the rows themselves, marked as finite: the caller has checked the values."""
        return _note(self, _FINITE)

    @property
    def arrays(self) -> NDArray[Any]:
        """The table as kernels take it: read-only, so that they see one type of array."""
        table = self.X.view()
        table.flags.writeable = False
        return table

    @property
    def matrix(self) -> Any:
        """The rows as an array of NumPy."""
        return self.X

    @property
    def flat(self) -> NDArray[Any]:
        """The rows one after the other, read-only, so that kernels see one type of array."""
        flat = self.X.reshape(-1)
        flat.flags.writeable = False
        return flat

    def spread(self, weight: Vector = NO_WEIGHTS) -> tuple[Vector, float]:
        """Return the mean row and the mean squared distance of a row from it; weights may be given.

        A row of weight 2 counts as two rows.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            if len(weight):
                share = weight / weight.sum()
                mean = share @ self.X
                return mean, float(share @ ((self.X - mean) ** 2).sum(axis=1, dtype=np.float64))
            mean = self.X.mean(axis=0, dtype=np.float64)
            if not np.isfinite(mean).all():  # the sum of large values overflows
                mean = (self.X / len(self.X)).sum(axis=0, dtype=np.float64)
            return mean, float(((self.X - mean) ** 2).sum(dtype=np.float64) / len(self.X))

    def largest_norm(self) -> float:
        """Return the largest Euclidean norm of a row."""
        squares = np.einsum("ij,ij->i", self.X, self.X, dtype=np.float64)
        return math.sqrt(float(squares.max()))

    def take(self, index: NDArray[np.int64]) -> DenseRows:
        """Return a copy of some rows."""
        # NumPy copies whole rows for `take`, and number by number for other indices.
        whole = index.dtype == np.int64
        return _as_known_as(DenseRows(self.X.take(index, 0) if whole else self.X[index]), self)

    def part(self, rows: slice) -> DenseRows:
        """Return consecutive rows, not copied."""
        return _as_known_as(DenseRows(self.X[rows]), self)

    def with_values(self, X: NDArray[Any]) -> DenseRows:
        """Return rows of the same form with other values, which are finite if these are."""
        return _as_known_as(DenseRows(X), self)

    def followed_by(self, other: DenseRows) -> DenseRows:
        """Concatenate these rows and others."""
        return _as_known_as(DenseRows(np.concatenate([self.X, other.X])), self, other)

    def scores(self, w: Vector) -> Vector:
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
        # One type per array: another type would compile every kernel again.
        indices = np.int32 if self.n_features <= 2**31 else np.int64
        object.__setattr__(self, "indices", np.asarray(self.indices, dtype=indices))
        object.__setattr__(self, "indptr", np.asarray(self.indptr, dtype=np.int64))

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of features."""
        return (len(self.indptr) - 1, self.n_features)

    @property
    def dtype(self) -> Any:
        """Type of the iterate on these rows."""
        return np.dtype(np.float64)

    def checked(self) -> CsrRows:
        """Return the rows themselves; raise if a kernel could not read them."""
        if not _knows(self, _INSIDE):
            if self.data.dtype not in _FLOATS:
                raise ValueError(f"Rows must hold float32 or float64, got {self.data.dtype}.")
            check_sparse(self.matrix)
            _note(self, _INSIDE)
        if not _knows(self, _FINITE):
            vars(self)[_SQUARES] = _check_finite(self.data)
            _note(self, _FINITE)
        return self

    def known_finite(self) -> CsrRows:
        """Return the rows themselves, marked as finite: the caller has checked the values."""
        return _note(self, _FINITE)

    @property
    def arrays(self) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        """The arrays as kernels take them."""
        return self.data, self.indices, self.indptr

    @cached_property
    def norms(self) -> Vector:
        """Squared norm of each row."""
        with np.errstate(over="ignore"):
            squares = self.data.astype(np.float64) ** 2
        row = np.repeat(np.arange(self.shape[0]), np.diff(self.indptr))
        norms: Vector = np.bincount(row, squares, minlength=self.shape[0]).astype(np.float64)
        return norms

    def spread(self, weight: Vector = NO_WEIGHTS) -> tuple[Vector, float]:
        """Return the mean row and the mean squared distance of a row from it, as dense rows do."""
        n, d = self.shape
        with np.errstate(over="ignore", invalid="ignore"):
            if len(weight):
                share = weight / weight.sum()
                own = self.data * np.repeat(share, np.diff(self.indptr))
                centre: NDArray[Any] = np.bincount(self.indices, own, minlength=d)
                return centre, max(float(share @ self.norms - centre @ centre), 0.0)
            mean: NDArray[Any] = np.bincount(self.indices, self.data, minlength=d) / n
            if not np.isfinite(mean).all():
                mean = np.bincount(self.indices, self.data / n, minlength=d)
            excess = float(self.norms.mean() - mean @ mean)
            return mean, 0.0 if excess < 0.0 else excess

    def largest_norm(self) -> float:
        """Return the largest Euclidean norm of a row."""
        return math.sqrt(float(self.norms.max()))

    def take(self, index: NDArray[np.int64]) -> CsrRows:
        """Return a copy of some rows."""
        counts = np.diff(self.indptr)[index]
        indptr = np.concatenate([[0], np.cumsum(counts)])
        position = np.arange(indptr[-1]) + np.repeat(self.indptr[:-1][index] - indptr[:-1], counts)
        taken = CsrRows(self.data[position], self.indices[position], indptr, self.n_features)
        return _as_known_as(taken, self)

    def part(self, rows: slice) -> CsrRows:
        """Return consecutive rows without copying their values."""
        indptr = self.indptr[rows.start : rows.stop + 1]
        values = slice(int(indptr[0]), int(indptr[-1]))
        taken = CsrRows(
            self.data[values], self.indices[values], indptr - indptr[0], self.n_features
        )
        return _as_known_as(taken, self)

    def with_values(self, data: NDArray[Any], *, finite: bool = True) -> CsrRows:
        """Return rows of the same form with other values; `finite` says whether they are finite."""
        rows = CsrRows(data, self.indices, self.indptr, self.n_features)
        return _as_known_as(rows, self, facts=(_INSIDE, _FINITE) if finite else (_INSIDE,))

    def followed_by(self, other: CsrRows) -> CsrRows:
        """Concatenate these rows and others."""
        joined = CsrRows(
            np.concatenate([self.data, other.data]),
            np.concatenate([self.indices, other.indices]),
            np.concatenate([self.indptr, other.indptr[1:] + self.indptr[-1]]),
            self.n_features,
        )
        return _as_known_as(joined, self, other)

    @property
    def matrix(self) -> Any:
        """The rows as a CSR array of SciPy, without a copy."""
        import scipy.sparse

        return scipy.sparse.csr_array((self.data, self.indices, self.indptr), shape=self.shape)

    def scores(self, w: Vector) -> Vector:
        """Return w X' for one parameter or for several in rows."""
        return np.asarray((self.matrix @ w.T).T, dtype=np.float64)


Rows = DenseRows | CsrRows
R = TypeVar("R", bound=DenseRows | CsrRows)

_FLOATS = (np.dtype(np.float32), np.dtype(np.float64))
#: Facts known of rows: indices stay inside the arrays; values are finite.
_INSIDE, _FINITE = "_inside", "_finite"
#: The sum of squares of all values, if it was computed.
_SQUARES = "_squares"
#: Between these bounds, squares and products of two squares neither underflow nor overflow.
_SMALLEST, _LARGEST = 1e-70, 1e70


def is_sparse(X: Any) -> bool:
    """Tell a SciPy sparse container without importing SciPy."""
    return hasattr(X, "tocsr")


def as_rows(X: Any, *, dtype: Any = None, finite: bool | None = False) -> Rows:
    """Return X as sound rows for kernels, copied only if necessary.

    float32 and float64 are kept unless `dtype` says otherwise; other types become float64. Rows are
    returned as they are. Complex numbers, masks, sparse arrays that point outside, NaN and infinity
    are refused. If X is known to be `finite`, the scan for NaN and infinity is skipped. With
    ``finite=None`` the caller scans, by `checked` or `known_finite`.
    """
    rows: Rows
    if isinstance(X, Rows):
        rows = X
    elif is_sparse(X):
        check_sparse(X)
        matrix = X.tocsr()
        if not matrix.has_canonical_format:
            matrix = matrix.copy()
            matrix.sum_duplicates()
        used = slice(matrix.indptr[-1])
        rows = CsrRows(
            _real(matrix.data[used], dtype), matrix.indices[used], matrix.indptr, matrix.shape[1]
        )
        _note(rows, _INSIDE)
    else:
        refuse_masked("X", X)
        array = np.ascontiguousarray(_real(np.asarray(X), dtype))
        if array.ndim != 2:
            raise ValueError(f"X must have two dimensions (examples, features), got {array.ndim}.")
        rows = DenseRows(array)
    if finite:
        rows.known_finite()
    return rows if finite is None else rows.checked()


def check_sparse(X: Any) -> None:
    """Refuse a sparse container whose indices point outside its arrays.

    SciPy checks only when it builds a container. Converting a damaged one would write outside.
    """
    try:
        if X.format in ("csr", "csc", "bsr"):
            if X.indices.dtype.kind + X.indptr.dtype.kind != "ii":
                raise ValueError("indices must be whole numbers.")
            X.check_format(full_check=True)
        elif X.format == "coo":
            for index, side in zip((X.row, X.col), X.shape, strict=True):
                if index.shape != X.data.shape or index.dtype.kind not in "iu":
                    raise ValueError("each value needs a row and a column, whole numbers.")
                if len(index) and not 0 <= index.min() <= index.max() < side:
                    raise ValueError(f"coordinates must lie between 0 and {side - 1}.")
    except (ValueError, IndexError) as error:
        raise ValueError(f"The sparse X is damaged: {error} Build X anew.") from None


def check_squares(rows: R, *, whole: bool = False) -> R:
    """Return sound rows themselves; refuse values whose products of squares overflow.

    Steps, distances and moments of unscaled features multiply squares. For a `whole` data set,
    values whose products all underflow are refused too.
    """
    checked = rows.checked()
    values = (checked.data if isinstance(checked, CsrRows) else checked.X).reshape(-1)
    total = vars(rows).get(_SQUARES)  # known if the scan for NaN computed it
    total = _check_finite(values) if total is None else total
    if 1e-30 < total < 1e30 or not len(values):
        return rows
    largest = float(max(values.max(), -values.min()))
    if largest > _LARGEST or (whole and 0.0 < largest < _SMALLEST):
        rule = f"at most {_LARGEST:g}" if largest > 1.0 else f"not all below {_SMALLEST:g}"
        raise DivergenceError(
            f"Unscaled features must be {rule}, got {largest:.3g}: products of their squares "
            "overflow or vanish. Scale the features (estimators do, unless scaling=None)."
        )
    return rows


def mean_pair_distance(rows: Rows, weight: Vector = NO_WEIGHTS) -> float:
    """Return the mean squared distance of two examples, or from zero if all are equal.

    A pair weighs the product of the weights of its examples, if there are any.
    """
    mean, spread = rows.spread(weight)
    if not math.isfinite(spread):
        raise DivergenceError(
            "The squares of features overflow; scale the features (estimators do, unless "
            "scaling=None)."
        )
    scale = 2.0 * spread if spread > 0 else float(mean @ mean)
    return scale if scale > 0 else 1.0


def _as_known_as(rows: R, *origins: Rows, facts: tuple[str, ...] = (_INSIDE, _FINITE)) -> R:
    """Keep only the facts (inside, finite) that hold for all rows that these were made from."""
    for fact in facts:
        for origin in origins:
            if fact not in vars(origin):
                break
        else:
            vars(rows)[fact] = True
    return rows


def _knows(rows: Rows, fact: str) -> bool:
    return fact in vars(rows)


def _note(rows: R, fact: str) -> R:
    # The rows are frozen, but noting a fact does not change their values.
    vars(rows)[fact] = True
    return rows


def _real(array: NDArray[Any], dtype: Any) -> NDArray[Any]:
    array = real_array("X", array)
    if dtype is None:
        dtype = array.dtype if array.dtype in (np.float32, np.float64) else np.float64
    return array.astype(dtype, copy=False)


def _check_finite(array: NDArray[Any]) -> float:
    """Refuse NaN and infinity; return the sum of squares."""
    # A finite sum of squares proves that every entry is finite, in one pass and without a mask.
    flat = array.reshape(-1)
    with np.errstate(over="ignore", invalid="ignore"):
        total = flat.dot(flat)
    if not np.isfinite(total) and not np.isfinite(array).all():
        raise ValueError(
            "X contains NaN or infinity; remove these rows, or fill the gaps "
            "(pairlearn.TableEncoder does, for a data frame)."
        )
    return float(total)
