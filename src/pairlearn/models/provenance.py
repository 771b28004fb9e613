# SPDX-License-Identifier: BSD-3-Clause
"""A fingerprint of the training data, cheap enough for every fit."""

from __future__ import annotations

import hashlib
import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

if TYPE_CHECKING:
    from pairlearn.solvers.rows import Rows

#: Evenly spaced rows in the fingerprint.
_ROWS = 256


def data_fingerprint(X: Any, y: ArrayLike) -> str:
    """Return a digest of the shape, all labels and up to 256 evenly spaced rows.

    It tells at negligible cost whether a model was trained on *these* data. It is no proof, since
    other rows are not read. It depends on the order of the rows, but not on whether they are dense
    or sparse.

    Parameters
    ----------
    X : ndarray, sparse matrix or rows of shape (n, d)
        Examples.
    y : array-like of shape (n,)
        Labels.

    Returns
    -------
    str
        32 hexadecimal digits.

    Examples
    --------
    >>> data_fingerprint(np.eye(2), [0, 1]) == data_fingerprint(np.eye(2), [1, 0])
    False
    """
    from pairlearn.solvers.rows import as_rows

    # converting a table stored by columns would copy all of it for a few rows
    rows = X if isinstance(X, np.ndarray) and X.ndim == 2 else as_rows(X, finite=None)
    chosen = _sample(rows.shape[0])
    some = rows[chosen] if isinstance(rows, np.ndarray) else rows.take(chosen)
    return _digest(rows.shape, y, _row_bytes(as_rows(some, finite=None)))


class TrainingData:
    """Recognise the training data of a model, chunk by chunk, by their fingerprint.

    Without a fingerprint nothing is recognised. `n` is the number of training examples.
    """

    def __init__(self, fingerprint: str | None, n: int) -> None:
        self._fingerprint, self._n = fingerprint, n
        self._wanted = _sample(n if fingerprint else 0)
        self._shape, self._found = (0, 0), b""

    @classmethod
    def of_model(cls, model: Any) -> TrainingData:
        """Return the training data of a loaded model, whose record is not trusted."""
        known = getattr(model, "provenance_", {})
        fingerprint, n = known.get("data_fingerprint"), known.get("rows_seen")
        if isinstance(fingerprint, str) and isinstance(n, int) and 0 < n < 1 << 53:
            return cls(fingerprint, n)
        return cls(None, 0)

    def note(self, X: Any) -> None:
        """Add the next examples."""
        from pairlearn.solvers.rows import as_rows

        begin, stop = self._shape[0], self._shape[0] + X.shape[0]
        self._shape = (stop, X.shape[1])
        first, last = np.searchsorted(self._wanted, (begin, stop))
        if first < last:
            rows = as_rows(X, finite=None)
            self._found += _row_bytes(rows.take(self._wanted[first:last] - begin))

    def is_this(self, y: ArrayLike) -> bool:
        """Return whether the examples with these labels are the training data."""
        if self._fingerprint is None or self._shape[0] != self._n:
            return False
        return _digest(self._shape, y, self._found) == self._fingerprint


def _sample(n: int) -> NDArray[np.int64]:
    """Return the rows to read; no two are the same."""
    return np.linspace(0, max(n - 1, 0), min(n, _ROWS)).astype(np.int64)


def _digest(shape: tuple[int, ...], y: ArrayLike, rows: bytes) -> str:
    state = hashlib.sha256(f"{shape[0]} {shape[1]}".encode())
    state.update(np.asarray(y).tobytes())
    state.update(rows)
    return state.hexdigest()[:32]


def _row_bytes(some: Rows) -> bytes:
    """Return the places and values of nonzero entries, row by row."""
    from scipy.sparse import csr_matrix

    found = csr_matrix(some.matrix, dtype=np.float64, copy=True)
    found.eliminate_zeros()
    places, values = found.indices.astype(np.int64), found.data
    return b"".join(
        places[begin:end].tobytes() + values[begin:end].tobytes()
        for begin, end in itertools.pairwise(found.indptr.tolist())
    )
