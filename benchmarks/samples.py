# SPDX-License-Identifier: BSD-3-Clause
"""Synthetic data of the shapes that the bars name."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["DENSE", "TEXT", "dense", "text"]

#: Features -> share of positives (8 as diabetes, 22 as ijcnn1, 256 as usps, 780 as mnist).
DENSE = {8: 0.35, 22: 0.097, 256: 0.5, 780: 0.5}

#: Name -> (features, words in a row).
TEXT = {"rcv1-like": (47_236, 75), "news20-like": (1_355_191, 450)}


def dense(
    n: int, d: int, *, positives: float, dtype: Any = np.float64
) -> tuple[NDArray[Any], NDArray[np.float64]]:
    """Return n examples of norm about 1 whose classes overlap (AUC about 0.76), and labels.

    With steps of 0.1 in a ball of radius 10, half (d = 8 and 22) to nine tenths (d = 780) of the
    evaluated pairs are updates, and from d = 256 on the ball is reached.
    """
    rng = np.random.default_rng(0)
    y = np.where(rng.random(n) < positives, 1.0, -1.0)
    direction = rng.normal(size=d)
    direction /= np.linalg.norm(direction)
    X = (rng.normal(size=(n, d)) + 0.5 * y[:, None] * direction) / np.sqrt(d)
    return np.ascontiguousarray(X, dtype=dtype), y


def text(name: str, n: int) -> tuple[Any, NDArray[np.float64]]:
    """Return n rows of norm 1 like word counts, as CSR, and labels -1 and +1 in equal shares.

    A word is feature floor(d u^3) for uniform u: few are frequent and most are rare (repeated words
    merge, which leaves 73 and 445 non-zeros in a row). Labels come from a linear teacher with
    noise.
    """
    import scipy.sparse

    d, nnz = TEXT[name]
    rng = np.random.default_rng(0)
    columns = (d * rng.random(n * nnz) ** 3).astype(np.int64)
    rows = np.repeat(np.arange(n), nnz)
    values = rng.exponential(size=n * nnz)
    X = scipy.sparse.csr_matrix((values, (rows, columns)), shape=(n, d))
    X.sum_duplicates()
    norms = np.sqrt(np.add.reduceat(X.data**2, X.indptr[:-1]))
    X.data /= np.repeat(norms, np.diff(X.indptr))
    scores = X @ rng.normal(size=d)
    scores = scores + 0.5 * scores.std() * rng.normal(size=n)
    return X, np.where(scores > np.median(scores), 1.0, -1.0)
