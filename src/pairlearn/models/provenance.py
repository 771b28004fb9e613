# SPDX-License-Identifier: BSD-3-Clause
"""Where a model comes from: a fingerprint of the data, cheap enough for every fit."""

from __future__ import annotations

import hashlib
import itertools
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

__all__ = ["data_fingerprint"]

#: Rows that the fingerprint looks at, evenly spaced.
_ROWS = 256


def data_fingerprint(X: Any, y: ArrayLike) -> str:
    """Return a digest of the shape, all labels and up to 256 evenly spaced rows.

    It tells whether a model was trained on *these* data at negligible cost; it is not a proof, for
    rows in between are not looked at. It depends on the order of the rows and not on whether they
    are stored dense or sparse.

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
    from pairlearn.solvers.rows import DenseRows, as_rows

    # A table that is stored by columns would be copied whole for the few rows.
    rows = X if isinstance(X, np.ndarray) and X.ndim == 2 else as_rows(X, finite=None)
    n, d = rows.shape
    chosen = np.unique(np.linspace(0, max(n - 1, 0), min(n, _ROWS)).astype(np.int64))
    some = as_rows(rows[chosen] if isinstance(rows, np.ndarray) else rows.take(chosen), finite=None)
    state = hashlib.sha256(f"{n} {d}".encode())
    state.update(np.ascontiguousarray(np.asarray(y)).tobytes())
    if isinstance(some, DenseRows):
        values = some.X.astype(np.float64)
        if values.all():
            # The same bytes at once: this is the time of a whole fit of a small model.
            places = np.broadcast_to(np.arange(d), values.shape)
            state.update(np.concatenate([places.view(np.float64), values], axis=1).tobytes())
        else:
            for row in values:
                places = np.flatnonzero(row)
                state.update(places.tobytes() + row[places].tobytes())
    else:
        kept = some.data != 0
        before = np.concatenate([[0], np.cumsum(kept)])
        places, values = some.indices[kept].astype(np.int64), some.data[kept].astype(np.float64)
        ends = before[some.indptr].tolist()
        for begin, end in itertools.pairwise(ends):
            state.update(places[begin:end])
            state.update(values[begin:end])
    return state.hexdigest()[:32]
