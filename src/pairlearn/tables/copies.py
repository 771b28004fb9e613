# SPDX-License-Identifier: BSD-3-Clause
"""Rows that occur more than once where chance does not make them alike.

A table that was exported twice, or joined so that rows multiply, has copies of a row among those
that are trained on and those that are held out; what is measured on the latter is too good. Rows
of few categories are alike by chance, and nothing is wrong with them: copies are told only where
two columns have values in great number, in which two rows do not agree by chance.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["copies_line", "n_copies"]

#: Copies below this share of the rows, or so few, are not worth a word.
_SHARE, _FEW = 0.05, 10
#: A column with at least so many values, and this share of the different rows, is no category; two
#: of these are needed.
_VALUES, _VALUE_SHARE, _COLUMNS = 20, 0.25, 2


def copies_line(X: Any) -> list[str]:
    """Return what to say of copies among examples, dense or CSR: one sentence, or none.

    >>> X = np.random.default_rng(0).normal(size=(50, 2))
    >>> copies_line(np.concatenate([X, X]))  # doctest: +ELLIPSIS
    ['50 of 100 rows are exact copies of others; ...']
    >>> copies_line(X > 0)
    []
    """
    n, count = X.shape[0], n_copies(X)
    if not count:
        return []
    return [
        f"{count} of {n} rows are exact copies of others; unless they are cases of their own, what "
        "is held out was also trained on and looks too good: leave the copies out"
    ]


def n_copies(X: Any) -> int:
    """Return how many rows equal an earlier one, 0 where that may be chance or is rare."""
    n = X.shape[0]
    n_different = len(np.unique(_keys(X)))
    copies = n - n_different
    if copies < max(_SHARE * n, _FEW):
        return 0
    enough = max(_VALUES, _VALUE_SHARE * n_different)
    return copies if _n_diverse(X, enough) >= _COLUMNS else 0


def _keys(X: Any) -> NDArray[np.uint64]:
    """Return a number for each row, the same for equal ones and by design for no others."""
    rng = np.random.default_rng(0)
    if hasattr(X, "indptr"):
        marks = rng.integers(2**64, size=X.shape[1], dtype=np.uint64)
        sums = np.zeros(len(X.data) + 1, dtype=np.uint64)
        np.cumsum(_mixed(X.data, marks[X.indices]), out=sums[1:])
        return np.asarray(sums[X.indptr[1:]] - sums[X.indptr[:-1]])
    keys = np.zeros(X.shape[0], dtype=np.uint64)
    for j, mark in enumerate(rng.integers(2**64, size=X.shape[1], dtype=np.uint64)):
        keys += _mixed(X[:, j], mark)
    return keys


def _mixed(values: NDArray[Any], mark: Any) -> NDArray[np.uint64]:
    """Return the bits of numbers, mixed with those of a column (the end of SplitMix64)."""
    # A zero has one sign here.
    z = (values.astype(np.float64) + 0.0).view(np.uint64) ^ mark
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(z ^ (z >> np.uint64(31)))


def _n_diverse(X: Any, enough: float) -> int:
    """Return how many columns have at least so many values."""
    if not hasattr(X, "indptr"):
        return sum(len(np.unique(X[:, j])) >= enough for j in range(X.shape[1]))
    by_column = X.tocsc()
    count = 0
    for j in np.flatnonzero(np.diff(by_column.indptr) >= enough - 1).tolist():
        own = by_column.data[by_column.indptr[j] : by_column.indptr[j + 1]]
        count += len(np.unique(own)) + (len(own) < X.shape[0]) >= enough
    return count
