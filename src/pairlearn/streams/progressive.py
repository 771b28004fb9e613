# SPDX-License-Identifier: BSD-3-Clause
"""Progressive (test-then-train) AUC over the last examples, in constant memory."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pairlearn.metrics.auc import doubled_wins
from pairlearn.metrics.metric import Metric
from pairlearn.restored import restored_array, restored_count
from pairlearn.typing import Mask, Vector
from pairlearn.validation import check_count, check_scored

#: Sliding one example into the window costs about as much as sorting this number of examples.
SLIDE_COST = 16


class ProgressiveAUC:
    r"""The AUC of the last `window` examples, by their scores before they were learned.

    Each example is first scored and then learned, so the value needs no held-out data. With P
    positive and N negative examples in the window,

    .. math:: \frac{1}{PN} \sum_{i: y_i = 1} \sum_{j: y_j = 0}
              \left(1[s_i > s_j] + \tfrac12\, 1[s_i = s_j]\right),

    kept as an integer while examples come and go: the value is exact, an update takes time
    proportional to sqrt(window), and memory is proportional to `window`. If a large part of the
    window changes at once, the window is sorted when its value is next needed.

    Parameters
    ----------
    window : int, default 10000
        Number of examples in the window.

    Examples
    --------
    >>> auc = ProgressiveAUC(window=4)
    >>> auc.update([0.1, 0.9, 0.4, 0.4], [0, 1, 1, 0])
    >>> auc.value
    0.875
    """

    def __init__(self, window: int = 10_000) -> None:
        self.window = check_count("window", window)
        self.n_seen = 0
        capacity = max(8, 2 * math.isqrt(self.window))
        # twice the blocks needed if all are half full: many splits occur between two packings
        n_blocks = 4 * (self.window // capacity + 1) + 4
        self._ring_scores = np.zeros(self.window)
        self._ring_labels = np.zeros(self.window, dtype=np.int8)
        self._order = np.zeros(n_blocks, dtype=np.int64)
        self._free = np.arange(n_blocks, dtype=np.int64)
        self._keys = np.zeros((n_blocks, capacity))
        self._labels = np.zeros((n_blocks, capacity), dtype=np.int8)
        self._sizes = np.zeros(n_blocks, dtype=np.int64)
        self._positives = np.zeros(n_blocks, dtype=np.int64)
        self._spare_keys = np.zeros(self.window)
        self._spare_labels = np.zeros(self.window, dtype=np.int8)
        self._state = np.zeros(6, dtype=np.int64)
        self._state[5] = n_blocks
        self._stale = False  # whether the blocks lag behind the ring

    def update(self, scores: ArrayLike, is_positive: ArrayLike) -> None:
        """Add examples with their scores from before they were learned, in that order."""
        from pairlearn.kernels import progressive_auc

        new, labels = check_scored(scores, is_positive)
        if len(new) * SLIDE_COST >= self.window:
            self._exchange(new, labels.astype(np.int8))
        else:
            self._refresh()
            progressive_auc.slide(
                new, labels.astype(np.int8), self._ring_scores, self._ring_labels, self._order,
                self._free, self._state, self._keys, self._labels, self._sizes, self._positives,
                self._spare_keys, self._spare_labels,
            )  # fmt: skip
        self.n_seen += len(new)

    def _exchange(self, scores: Vector, labels: NDArray[np.int8]) -> None:
        """Write many examples into the ring; the blocks are updated when needed."""
        n = len(scores)
        scores, labels = scores[-self.window :], labels[-self.window :]
        stop = int(self._state[0] + n) % self.window
        # the new examples end at `stop`; those that do not fit before it go to the ring's end
        wrapped = max(0, len(scores) - stop)
        for ring, new in ((self._ring_scores, scores), (self._ring_labels, labels)):
            ring[max(0, stop - len(scores)) : stop] = new[wrapped:]
            ring[self.window - wrapped :] = new[:wrapped]
        self._state[0] = stop
        self._state[1] = size = min(self.window, int(self._state[1]) + n)
        # until the ring is full, its first `size` places are in use
        self._state[2] = int(self._ring_labels[:size].sum(dtype=np.int64))
        self._stale = True

    def _refresh(self) -> None:
        """Sort the window into blocks and count its pairs."""
        if not self._stale:
            return
        from pairlearn.kernels import progressive_auc

        size = int(self._state[1])
        order = np.argsort(self._ring_scores[:size])
        scores, labels = self._ring_scores[order], self._ring_labels[order]
        progressive_auc.fill_blocks(
            size, scores, labels, self._order, self._free, self._state, self._keys,
            self._labels, self._sizes, self._positives,
        )  # fmt: skip
        self._state[3] = doubled_wins(scores[labels == 1], scores[labels == 0])
        self._stale = False

    @property
    def n_positive(self) -> int:
        """Number of positive examples in the window."""
        return int(self._state[2])

    @property
    def n_negative(self) -> int:
        """Number of negative examples in the window."""
        return int(self._state[1] - self._state[2])

    @property
    def value(self) -> float | None:
        """The AUC of the window; None if a class is absent."""
        self._refresh()
        pairs = self.n_positive * self.n_negative
        return int(self._state[3]) / (2 * pairs) if pairs else None

    def measure(self, metric: Metric) -> float | None:
        """Return another metric of the window, computed by sorting it.

        Parameters
        ----------
        metric : Metric
            Of two classes, such as ``PartialAUC(max_fpr=0.05)`` or ``AveragePrecision()``.

        Returns
        -------
        float or None
            Its value; None if a class is absent.

        Examples
        --------
        >>> from pairlearn import AveragePrecision
        >>> auc = ProgressiveAUC(window=4)
        >>> auc.update([0.1, 0.9, 0.4, 0.5], [0, 1, 1, 0])
        >>> round(auc.measure(AveragePrecision()), 4)
        0.8333
        """
        scores, positive = self.scores()
        if positive.all() or not positive.any():
            return None
        return metric(positive, scores)

    def scores(self) -> tuple[Vector, Mask]:
        """Return the scores of the window, and a mask of the positive examples."""
        size = int(self._state[1])
        return self._ring_scores[:size].copy(), self._ring_labels[:size].astype(np.bool_)

    def state(self) -> dict[str, Any]:
        """Return the window as arrays and numbers, oldest example first, for a checkpoint."""
        size, head = int(self._state[1]), int(self._state[0])
        order = (np.arange(size) + (head - size)) % self.window
        return {
            "window": self.window,
            "n_seen": self.n_seen,
            "scores": self._ring_scores[order],
            "is_positive": self._ring_labels[order].astype(np.bool_),
        }

    def restored(self, state: dict[str, Any]) -> ProgressiveAUC:
        """Return the window saved by `state`; refuse one of another size than this one."""
        return self.from_state(state, window=self.window)

    @classmethod
    def from_state(cls, state: dict[str, Any], *, window: int | None = None) -> ProgressiveAUC:
        """Return the window saved by `state`; refuse one of another size than `window`."""
        low, high = (1, 2**62) if window is None else (window, window)
        size = restored_count(state, "window", minimum=low, maximum=high)
        scores = restored_array(state, "scores", (None,))
        is_positive = restored_array(state, "is_positive", scores.shape, ("bool",))
        n_seen = restored_count(state, "n_seen", minimum=len(scores))
        if len(scores) != min(size, n_seen):
            raise ValueError(
                f"the saved window of {size} has {len(scores)} scores after {n_seen} examples."
            )
        auc = cls(size)
        auc.update(scores, is_positive)
        auc.n_seen = n_seen
        return auc
