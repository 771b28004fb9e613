# SPDX-License-Identifier: BSD-3-Clause
"""The latest scores of a stream, from which its threshold and its calibration are found."""

from __future__ import annotations

import numpy as np

from pairlearn.typing import Mask, Vector

__all__ = ["WINDOW", "LatestScores"]

Flags = Mask

#: The number of latest scores that are kept.
WINDOW = 4096


class LatestScores:
    """The last `WINDOW` scores of some models, with the labels and weights of the examples.

    A place is written once. So arrays that were handed out, to a published model for example, stay
    as they are while more scores come, and a chunk costs no copy of the whole window.

    `scores` has a row for each model.

    >>> latest = LatestScores(np.empty((1, 0)), np.empty(0, dtype=bool), np.empty(0))
    >>> latest.add(np.array([[0.5, -0.5]]), np.array([True, False]), np.empty(0))
    >>> before = latest.scores
    >>> latest.add(np.array([[2.0]]), np.array([True]), np.array([3.0]))
    >>> before, latest.scores, latest.weight
    (array([[ 0.5, -0.5]]), array([[ 0.5, -0.5,  2. ]]), array([1., 1., 3.]))
    """

    def __init__(self, scores: Vector, positive: Flags, weight: Vector) -> None:
        self._scores, self._positive, self._weight = scores, positive, weight
        self._stop = len(positive)
        self._begin = max(0, self._stop - WINDOW)

    def __reduce__(self) -> tuple[type[LatestScores], tuple[Vector, Flags, Vector]]:
        # Values outside the window are not pickled.
        return (LatestScores, (self.scores, self.positive, self.weight))

    @property
    def scores(self) -> Vector:
        """The scores, a row for each model."""
        return self._scores[:, self._begin : self._stop]

    @property
    def positive(self) -> Flags:
        """Whether the examples are positive."""
        return self._positive[self._begin : self._stop]

    @property
    def weight(self) -> Vector:
        """The weights of the examples."""
        return self._weight[self._begin : self._stop]

    def add(self, scores: Vector, positive: Flags, weight: Vector) -> None:
        """Add the scores of the next examples; no weights mean 1."""
        if len(positive) > WINDOW:
            scores, positive, weight = scores[:, -WINDOW:], positive[-WINDOW:], weight[-WINDOW:]
        n = len(positive)
        if self._stop + n > len(self._positive):
            self._make_room()
        now = slice(self._stop, self._stop + n)
        self._scores[:, now] = scores
        self._positive[now] = positive
        if len(weight):
            self._weight[now] = weight
        self._stop += n
        self._begin = max(self._begin, self._stop - WINDOW)

    def _make_room(self) -> None:
        """Move the window to the front of arrays that have room for another one."""
        scores, positive, weight = self.scores, self.positive, self.weight
        size = len(positive)
        room = size + WINDOW
        self._scores = np.empty((len(scores), room))
        self._positive, self._weight = np.empty(room, dtype=np.bool_), np.ones(room)
        self._scores[:, :size] = scores
        self._positive[:size] = positive
        self._weight[:size] = weight
        self._begin, self._stop = 0, size

    def keep(self, model: int) -> None:
        """Forget the scores of all models but one."""
        self._scores = self._scores[[model]]
