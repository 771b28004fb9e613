# SPDX-License-Identifier: BSD-3-Clause
"""The rows of a block that is not full yet, and their scores by every memory.

A row that comes alone is put down at once and scored later, together with those around it: the
scores of a row do not depend on its company, and coefficients stay as they are until the block, or
the part of it that leads to the next coefficients, is complete.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from pairlearn.restored import restored_array, restored_weights
from pairlearn.typing import Vector

#: Larger values, in the units of a stream, are cut off.
CUT = 1e100


class OpenBlock:
    """Rows, labels, weights and scores of at most `side` examples.

    Examples
    --------
    >>> block = OpenBlock(4, n_features=2, n_memories=1)
    >>> block.put(np.array([1.0, 2.0]), 1.0)
    >>> block.take(np.array([[3.0, 0.0]]), np.array([-1.0]), np.ones(1))
    >>> block.score(np.array([[1.0], [1.0]]), np.zeros(1))
    >>> block.scores[:, 0], block.y
    (array([3., 3.]), array([ 1., -1.]))
    """

    def __init__(self, side: int, n_features: int, n_memories: int) -> None:
        #: The most rows.
        self.side = side
        #: Rows so far, and how many of them are scored.
        self.n = self.n_scored = 0
        self._Z, self._y = np.zeros((side, n_features)), np.zeros(side)
        self._weight, self._scores = np.zeros(side), np.zeros((side, n_memories))

    @property
    def rows(self) -> Vector:
        """The rows."""
        return self._Z[: self.n]

    @property
    def y(self) -> Vector:
        """Their labels, -1 and 1."""
        return self._y[: self.n]

    @property
    def weight(self) -> Vector:
        """Their weights."""
        return self._weight[: self.n]

    @property
    def scores(self) -> Vector:
        """Their scores, a column for each memory; those of the last rows may not be known yet."""
        return self._scores[: self.n]

    def put(self, x: Vector, y: float) -> None:
        """Add one row of weight 1."""
        n = self.n
        self._Z[n], self._y[n], self._weight[n] = x, y, 1.0
        # The row is there from now on: an interrupt comes before or after it.
        self.n = n + 1

    def take(self, Z: Vector, y: Vector, weight: Vector) -> None:
        """Add rows."""
        now = slice(self.n, self.n + len(y))
        self._Z[now], self._y[now], self._weight[now] = Z, y, weight
        self.n = now.stop

    def score(self, columns: Vector | None, middle: Vector | None) -> None:
        """Score the rows that are not scored yet, by the coefficients of the memories, if any."""
        from pairlearn.kernels.memories import score_rows

        new = slice(self.n_scored, self.n)
        if columns is None:
            self._scores[new] = 0.0
        else:
            score_rows(self._Z[new], columns, middle, self._scores[new])
        self.n_scored = self.n

    def arrays(self) -> tuple[Vector, Vector, Vector, Vector]:
        """Return rows, labels, weights and scores as the kernels want them, to be written to."""
        return self._Z, self._y, self._weight, self._scores

    def clear(self) -> None:
        """Begin a new block."""
        self.n = self.n_scored = 0

    def widened(self, side: int, n_features: int) -> OpenBlock:
        """Return the same rows with new features, which are 0, and room for `side` rows."""
        wider = OpenBlock(side, n_features, self._scores.shape[1])
        wider.n, wider.n_scored, now = self.n, self.n_scored, slice(self.n)
        wider._Z[now, : self._Z.shape[1]] = self.rows
        wider._y[now], wider._weight[now], wider._scores[now] = self.y, self.weight, self.scores
        return wider

    def state(self) -> dict[str, Any]:
        """Return the rows, all of which must be scored, as arrays."""
        return {
            "Z": self.rows.copy(),
            "y": self.y.copy(),
            "weight": self.weight.copy(),
            "scores": self.scores.copy(),
        }

    def restore(self, state: Mapping[str, Any], n: int) -> None:
        """Go back to a state of n rows."""
        if n >= self.side:
            raise ValueError("the saved block is too long.")
        now = slice(n)
        self._Z[now] = restored_values(state, "Z", (n, self._Z.shape[1]))
        self._y[now] = restored_signs(restored_array(state, "y", (n,)))
        self._weight[now] = restored_weights(state, "weight", n)
        self._scores[now] = restored_array(state, "scores", (n, self._scores.shape[1]))
        self.n = self.n_scored = n


def restored_values(state: Mapping[str, Any], name: str, shape: tuple[int, ...]) -> Vector:
    """Return saved values of rows, which are at most `CUT`."""
    found = restored_array(state, name, shape)
    if np.abs(found).max(initial=0.0) > CUT:
        raise ValueError(f"the saved {name} has values beyond {CUT:g}.")
    return found


def restored_signs(y: Vector) -> Vector:
    """Return saved labels, which are -1 and 1."""
    if not (np.abs(y) == 1.0).all():
        raise ValueError("the saved labels are not -1 and 1.")
    return y
