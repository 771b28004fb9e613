# SPDX-License-Identifier: BSD-3-Clause
r"""Warn if a stream is not in random order: sorted, in blocks, or with a trend.

Algorithm 2 pairs an example with the one before it. In a random order, two neighbours differ as
much as any two examples. If rows are sorted by label, hardly any pair has opposite labels and the
model learns nothing. Sorted by a feature, neighbours hardly differ in it. Two ratios detect it:

- the sum of squared differences of successive labels, divided by its expectation in a random order,
  2 n var(y) (von Neumann's ratio). For two classes it is the share of opposite pairs divided by 2 p
  (1 - p).
- 32 times the variance of the means of blocks of 32 labels, divided by the variance of the labels.
  It is about 1 in a random order, and detects a slow trend too.

The first ratio is also computed for features: rows sorted by a feature teach nothing about it, and
give it a wrong scale.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from pairlearn.solvers.streams.running_scales import RunningScales
from pairlearn.typing import Vector
from pairlearn.validation import warn_caller

#: Number of labels in a block.
_BLOCK = 32
#: Positions of the sums of `note_labels`.
_SHIFT, _LAST, _LOW, _HIGH, _TOTAL, _SQUARES, _JUMPS = range(7)
_N_BLOCK, _BLOCK_TOTAL, _N_MEANS, _MEANS, _SQUARED_MEANS = range(7, 12)
_N_SUMS = 12
#: The first look waits for this many labels.
_FEWEST = 128
#: Later looks wait for an eighth of all labels so far, but at most for this many.
_MOST = 4096
#: Warn if labels differ by less than this share of a random order's differences ...
_SHARE = 0.25
#: ... once a random order would have given this many differences of the largest size.
_EXPECTED = 16.0
#: Rows are sorted by a feature if its ratio is below this.
_SORTED = 0.05
#: The variance of block means is compared from this many blocks on.
_BLOCKS = 8
#: With m blocks, a ratio of variances above max(_RATIO, 1 + _SPREAD / sqrt(m)) warns. A random
#: order exceeds it less than once in 10^5 looks.
_RATIO = 3.0
#: See `_RATIO`: allows for the noise of few blocks.
_SPREAD = 12.0


class OrderWarning(UserWarning):
    """The order of the examples depends on their labels, so a stream learns little from it."""


class OrderWatch:
    """Watches the labels of a stream, and warns once if their order is not random.

    `cure` is a further remedy besides shuffling, for the warning.
    """

    def __init__(self, cure: str = "") -> None:
        self.cure = cure
        self.has_warned = False
        self._waiting: list[Vector] = []
        self._n_waiting = 0
        self._n, self._next = 0, 64
        #: The sums of `note_labels`.
        self._sums = np.zeros(_N_SUMS)
        self._within = np.zeros(2)

    def note(
        self,
        y: Vector,
        qid: NDArray[np.int64] | None = None,
        *,
        scales: RunningScales | None = None,
    ) -> None:
        """Look at the labels of the next examples; with queries, at their order within a query.

        `scales` have already seen the dense rows of these examples.
        """
        if self.has_warned or not len(y):
            return
        if qid is not None:
            self._note_queries(y, qid)
            return
        self._n_waiting += len(y)
        # Later labels wait for more: a look takes longer than learning a chunk of a thousand.
        if self._n_waiting < min(max(_FEWEST, self._n // 8), _MOST):
            # A copy: the caller may reuse the array for the next chunk.
            self._waiting.append(y.copy())
            return
        labels = np.concatenate((*self._waiting, y)) if self._waiting else y
        self._waiting, self._n_waiting = [], 0
        self._look_at(labels.astype(np.float64, copy=False), scales)

    def _look_at(self, y: Vector, scales: RunningScales | None) -> None:
        with np.errstate(over="ignore", invalid="ignore"):
            note_labels(y, self._n == 0, self._sums)
        self._n += len(y)
        if self._n >= self._next:
            self._next = self._n + max(self._n // 8, 64)
            self._judge_labels()
            if scales is not None and not self.has_warned:
                ratio, column = scales.least_jump()
                if ratio < _SORTED:
                    self._warn_of_feature(ratio, column)

    def _judge_labels(self) -> None:
        n = self._n
        _, _, low, high, total, squares, jumps, _, _, m, means, squared_means = self._sums
        with np.errstate(over="ignore", invalid="ignore"):
            variance = squares / n - (total / n) ** 2
            expected, least = 2.0 * n * variance, _EXPECTED * (high - low) ** 2
        # With two classes this is the number of opposite pairs to expect. Labels whose squares are
        # too large or too small for numbers are not judged.
        if not 0.0 < least <= expected < math.inf:
            return
        share = jumps / expected
        ratio = 0.0
        if m >= _BLOCKS:
            ratio = _BLOCK * max(squared_means / m - (means / m) ** 2, 0.0) / variance
        if share < _SHARE or ratio > max(_RATIO, 1.0 + _SPREAD / math.sqrt(m)):
            self._warn(share, "successive examples")

    def _note_queries(self, y: Vector, qid: NDArray[np.int64]) -> None:
        """Compare neighbours within a query with any two rows of that query."""
        order = np.argsort(qid, kind="stable")
        grades, query = y[order].astype(np.float64), qid[order]
        begins = np.flatnonzero(np.concatenate([[True], query[1:] != query[:-1]]))
        sizes = np.diff(np.append(begins, len(grades)))
        with np.errstate(over="ignore", invalid="ignore"):
            means = np.add.reduceat(grades, begins) / sizes
            squares = np.add.reduceat((grades - np.repeat(means, sizes)) ** 2, begins)
            # m rows have m - 1 neighbours, each at a mean squared distance of twice the variance.
            expected = 2.0 * float(squares[sizes > 1].sum())
            jumps = np.diff(grades)[query[1:] == query[:-1]]
            self._within += (float(jumps @ jumps), expected)
            largest = float(np.ptp(grades) ** 2)
        self._n += len(y)
        found, wanted = self._within.tolist()
        if self._n >= self._next and math.inf > wanted > _EXPECTED * largest > 0.0:
            self._next = self._n + max(self._n // 8, 64)
            if found < _SHARE * wanted:
                self._warn(found / wanted, "successive examples of a query")

    def _warn(self, share: float, which: str) -> None:
        self.has_warned = True
        warn_caller(
            f"the order of the examples depends on their labels: labels of {which} differ by "
            f"{share:.0%} of the difference in a random order, or have a trend. A stream pairs "
            "neighbours and learns little from such data; shuffle the rows (readers "
            f"have shuffle_buffer=){self.cure}.",
            OrderWarning,
        )

    def _warn_of_feature(self, ratio: float, column: int) -> None:
        self.has_warned = True
        warn_caller(
            f"successive examples differ in feature {column} by {ratio:.1%} of the difference in a "
            "random order, as if sorted by it; shuffle the rows (readers have shuffle_buffer=), or "
            "drop the feature if it is a row number.",
            OrderWarning,
        )


def note_labels(y: Vector, is_first: bool, sums: Vector) -> None:
    """Add labels to `sums`.

    The sums are: the first label, about which sums are taken, and the last; the smallest and the
    largest; the sums of labels, of squares and of squared differences of successive labels; the
    count and the sum of labels in the unfinished block; and the count, sum and sum of squares of
    the means of full blocks.
    """
    if is_first:
        sums[[_SHIFT, _LAST, _LOW, _HIGH]] = y[0]
    excess, jumps = y - sums[_SHIFT], np.diff(y, prepend=sums[_LAST])
    sums[_LAST] = y[-1]
    sums[_LOW], sums[_HIGH] = min(sums[_LOW], y.min()), max(sums[_HIGH], y.max())
    sums[_TOTAL] += excess.sum()
    sums[_SQUARES] += excess @ excess
    sums[_JUMPS] += jumps @ jumps
    begins = np.arange(-int(sums[_N_BLOCK]), len(y), _BLOCK)
    totals = np.add.reduceat(excess, np.maximum(begins, 0))
    totals[0] += sums[_BLOCK_TOTAL]
    n_last = len(y) - int(begins[-1])
    if n_last < _BLOCK:
        totals, sums[_N_BLOCK], sums[_BLOCK_TOTAL] = totals[:-1], n_last, totals[-1]
    else:
        sums[[_N_BLOCK, _BLOCK_TOTAL]] = 0.0
    means = totals / _BLOCK
    sums[[_N_MEANS, _MEANS, _SQUARED_MEANS]] += [len(means), means.sum(), float(means @ means)]
