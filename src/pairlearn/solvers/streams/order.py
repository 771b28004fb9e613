# SPDX-License-Identifier: BSD-3-Clause
r"""Whether a stream comes in an order of its own: sorted, in blocks, with a trend.

Algorithm 2 pairs an example with the one before it. In an independent order two neighbours differ
by as much as any two examples; sorted by label, hardly any pair has opposite labels and nothing is
learned, and sorted by a feature that matters, neighbours do not differ in it. Two numbers tell:

- the sum of squared differences of successive labels over what an independent order would give,
  2 n var(y) (von Neumann's ratio). For two classes it is the share of opposite pairs over
  2 p (1 - p).
- 32 times the variance of the means of blocks of 32 labels over the variance of the labels, which
  is about 1 in an independent order and sees a slow trend too.

The first of them is looked at for features too: rows that are sorted by one of them say nothing
about it, and their scale of it is not that of other rows.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from pairlearn.solvers.streams.running_scales import RunningScales
from pairlearn.typing import Vector
from pairlearn.validation import warn_caller

__all__ = ["OrderWarning", "OrderWatch"]

#: Labels in a block.
_BLOCK = 32
#: The sums of `kernels.order`; importing its constant here would import numba.
_N_SUMS = 12
#: Fewest and most labels that wait to be looked at together.
_FEWEST, _MOST = 128, 4096
#: Less than this share of the differences of an independent order is too little, if that would
#: have given so many differences of the largest size.
_SHARE, _EXPECTED = 0.25, 16.0
#: Less than this share of the differences of a feature means that rows are sorted by it.
_SORTED = 0.05
#: Fewest blocks that are compared, and the ratio of variances that is too much: with m blocks
#: max(3, 1 + 12 / sqrt(m)), which an independent order exceeds less than once in 10^5 looks.
_BLOCKS, _RATIO, _SPREAD = 8, 3.0, 12.0


class OrderWarning(UserWarning):
    """The order of the examples depends on their labels, which a stream learns little from."""


class OrderWatch:
    """Watches the labels of a stream, and warns once if their order is not an independent one.

    Parameters
    ----------
    cure : str, default=""
        What else the user can do besides shuffling.

    Examples
    --------
    >>> import warnings
    >>> watch = OrderWatch()
    >>> watch.note(np.tile([1.0, -1.0], 500))
    >>> with warnings.catch_warnings(record=True) as told:
    ...     warnings.simplefilter("always")
    ...     watch.note(np.repeat([1.0, -1.0], 5000))
    >>> len(told), watch.has_warned
    (1, True)
    """

    def __init__(self, cure: str = "") -> None:
        self.cure = cure
        self.has_warned = False
        self._waiting: list[Vector] = []
        self._n_waiting = 0
        self._n, self._next = 0, 64
        #: As `kernels.order` has them.
        self._sums = np.zeros(_N_SUMS)
        self._within = np.zeros(2)

    def note(
        self,
        y: Vector,
        qid: NDArray[np.int64] | None = None,
        *,
        scales: RunningScales | None = None,
    ) -> None:
        """Look at the labels of the next examples; with queries, at their order within these.

        `scales` have seen the dense rows of the examples.
        """
        if self.has_warned or not len(y):
            return
        if qid is not None:
            self._note_queries(y, qid)
            return
        self._n_waiting += len(y)
        # Later ones wait for more: a look takes longer than a chunk of a thousand is learned in.
        if self._n_waiting < min(max(_FEWEST, self._n // 8), _MOST):
            # A copy: whoever gave the array may use it again for the next chunk.
            self._waiting.append(y.copy())
            return
        labels = np.concatenate((*self._waiting, y)) if self._waiting else y
        self._waiting, self._n_waiting = [], 0
        self._look_at(labels.astype(np.float64, copy=False), scales)

    def _look_at(self, y: Vector, scales: RunningScales | None) -> None:
        from pairlearn.kernels.order import note_labels

        labels = np.ascontiguousarray(y).view()
        labels.flags.writeable = False  # one type of array, whoever gave it
        note_labels(labels, _BLOCK, self._n == 0, self._sums)
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
        _, _, low, high, total, squares, jumps, _, _, m, means, squared_means = self._sums.tolist()
        variance = squares / n - (total / n) ** 2
        expected = 2.0 * n * variance
        # With two classes this is the number of opposite pairs to expect.
        if not high > low or expected < _EXPECTED * (high - low) ** 2:
            return
        share = jumps / expected
        ratio = 0.0
        if m >= _BLOCKS:
            ratio = _BLOCK * max(squared_means / m - (means / m) ** 2, 0.0) / variance
        if share < _SHARE or ratio > max(_RATIO, 1.0 + _SPREAD / math.sqrt(m)):
            self._warn(share, "successive examples")

    def _note_queries(self, y: Vector, qid: NDArray[np.int64]) -> None:
        """Compare the differences of neighbours of a query with those of any two of its rows."""
        order = np.argsort(qid, kind="stable")
        grades, query = y[order].astype(np.float64), qid[order]
        begins = np.flatnonzero(np.concatenate([[True], query[1:] != query[:-1]]))
        sizes = np.diff(np.append(begins, len(grades)))
        means = np.add.reduceat(grades, begins) / sizes
        squares = np.add.reduceat((grades - np.repeat(means, sizes)) ** 2, begins)
        # m rows have m - 1 neighbours, each at a mean squared distance of twice the variance.
        expected = 2.0 * float(squares[sizes > 1].sum())
        jumps = np.diff(grades)[query[1:] == query[:-1]]
        self._within += (float(jumps @ jumps), expected)
        self._n += len(y)
        found, wanted = self._within.tolist()
        largest = float(np.ptp(grades)) ** 2
        if self._n >= self._next and wanted > _EXPECTED * largest > 0.0:
            self._next = self._n + max(self._n // 8, 64)
            if found < _SHARE * wanted:
                self._warn(found / wanted, "successive examples of a query")

    def _warn(self, share: float, which: str) -> None:
        self.has_warned = True
        warn_caller(
            f"the order of the examples depends on their labels: labels of {which} differ by "
            f"{share:.0%} of what an independent order would give (100%), or have a trend. A "
            "stream pairs neighbours and learns little from such data; shuffle the rows (readers "
            f"have shuffle_buffer=){self.cure}.",
            OrderWarning,
        )

    def _warn_of_feature(self, ratio: float, column: int) -> None:
        self.has_warned = True
        warn_caller(
            f"successive examples differ in feature {column} by {ratio:.1%} of what an independent "
            "order would give, as if they were sorted by it; shuffle the rows (readers have "
            "shuffle_buffer=), or leave the feature out if it counts them.",
            OrderWarning,
        )
