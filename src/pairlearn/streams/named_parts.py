# SPDX-License-Identifier: BSD-3-Clause
"""What a learner of named examples is made of: columns of names, probabilities."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from pairlearn.solvers.rows import CsrRows, DenseRows, Rows
from pairlearn.typing import Vector

#: With at most this many features, examples are rows of a dense array; beyond that, sparse rows.
_DENSE_UP_TO = 512


class NamedColumns:
    """A column for each name, in order of appearance; rows are at least `width` wide."""

    def __init__(self, names: Sequence[Any] = (), width: int = 1) -> None:
        #: The column of each name.
        self.index: dict[Any, int] = {name: k for k, name in enumerate(names)}
        #: How wide rows are.
        self.width = width

    @property
    def names(self) -> tuple[Any, ...]:
        """The names, by column."""
        return tuple(self.index)

    def rows(self, examples: list[dict[Any, float]], flat: Vector) -> Rows:
        """Return examples as rows; `flat` has all of their values one after the other."""
        index = self.index
        places = [index.setdefault(name, len(index)) for x in examples for name in x]
        columns = np.array(places, dtype=np.int32)
        counts = np.array(list(map(len, examples)), dtype=np.intp)
        needed = len(index)
        if needed > self.width:
            # Dense rows are as wide as they must be; sparse rows do not mind.
            self.width = needed if needed <= _DENSE_UP_TO else 1 << needed.bit_length()
        if self.width > _DENSE_UP_TO:
            return CsrRows(flat, columns, np.concatenate([[0], np.cumsum(counts)]), self.width)
        X = np.zeros((len(examples), self.width))
        X[np.repeat(np.arange(len(examples)), counts), columns] = flat
        return DenseRows(X)


def widened(rows: Rows, width: int) -> Rows:
    """Return dense or sparse rows, as their number of columns asks for."""
    if isinstance(rows, CsrRows):
        return CsrRows(rows.data, rows.indices, rows.indptr, width)
    if width <= _DENSE_UP_TO:
        return DenseRows(np.pad(rows.X, ((0, 0), (0, width - rows.X.shape[1]))))
    present = rows.X != 0
    indptr = np.concatenate([[0], np.cumsum(present.sum(axis=1))])
    return CsrRows(rows.X[present], np.nonzero(present)[1].astype(np.int32), indptr, width)


def log_odds_line(sums: Vector) -> tuple[float, float]:
    """Return slope and intercept of the logarithm of the odds, by the score.

    The scores of each class are described by number, mean and common variance: the logarithm of
    the odds of two normal classes of one variance is linear in the score.
    """
    (n0, s0, q0), (n1, s1, q1) = sums.tolist()
    prior = math.log((n1 + 1.0) / (n0 + 1.0))
    if n0 <= 0 or n1 <= 0:
        return 0.0, prior
    low, high = s0 / n0, s1 / n1
    # a product that overflows is infinite, where a power would raise
    variance = max(q0 - n0 * (low * low) + q1 - n1 * (high * high), 0.0) / (n0 + n1)
    gap = high - low
    if gap <= 0:
        return 0.0, prior
    # With hardly any spread the odds would be infinite.
    spread = max(variance, 1e-3 * gap * gap)
    slope = gap / spread if spread > 0 else math.inf
    intercept = prior - slope * (high + low) / 2
    # scores so small that their squares are nothing tell nothing
    return (slope, intercept) if math.isfinite(slope + intercept) else (0.0, prior)
