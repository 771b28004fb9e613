# SPDX-License-Identifier: BSD-3-Clause
"""The held-out examples of a stream: rows, labels and weights, by which a ridge is chosen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from pairlearn.restored import restored_array, restored_weights
from pairlearn.solvers.closed_form.open_block import restored_signs, restored_values
from pairlearn.typing import Vector

#: The most examples that are held out, the first of a stream or, if it forgets, the latest: with
#: even classes the error of an AUC is then below .01.
HELD = 4096


class HeldRows:
    """The latest `HELD` examples that were added.

    Examples
    --------
    >>> held = HeldRows(1)
    >>> held.add(np.array([[1.0], [2.0]]), np.array([1.0, -1.0]), np.ones(2))
    >>> held.latest()[0].ravel(), held.latest()[1]
    (array([1., 2.]), array([ 1., -1.]))
    """

    def __init__(self, n_features: int) -> None:
        #: Rows in use.
        self.n = 0
        self._arrays = np.empty((0, n_features)), np.empty(0), np.empty(0)

    def add(self, Z: Vector, y: Vector, weight: Vector) -> None:
        """Add examples."""
        self.make_room(len(y))
        for own, new in zip(self._arrays, (Z, y, weight), strict=True):
            own[self.n : self.n + len(y)] = new
        self.n += len(y)

    def make_room(self, n: int) -> None:
        """Make room for n further examples; all but the latest are dropped where it is needed.

        Arrays are replaced and never moved: a twin may share them.
        """
        if self.n + n <= len(self._arrays[1]):
            return
        kept = slice(max(0, self.n - HELD), self.n)
        self.n = kept.stop - kept.start
        size = max(min(2 * self.n, HELD), self.n + n)
        if self.n == HELD:
            size = max(2 * HELD, size)
        old, self._arrays = (
            self._arrays,
            tuple(  # type: ignore[assignment]
                np.empty((size, *own.shape[1:])) for own in self._arrays
            ),
        )
        for own, before in zip(self._arrays, old, strict=True):
            own[: self.n] = before[kept]

    def arrays(self) -> tuple[Vector, Vector, Vector]:
        """Return rows, labels and weights with the room after them, to be written to."""
        return self._arrays

    def latest(self) -> tuple[Vector, Vector, Vector]:
        """Return the latest rows, labels and weights."""
        now = slice(max(0, self.n - HELD), self.n)
        Z, y, weight = self._arrays
        return Z[now], y[now], weight[now]

    def twin(self) -> HeldRows:
        """Return the same examples; what is added to the twin alone is lost when this one grows."""
        twin = HeldRows(0)
        twin.n, twin._arrays = self.n, self._arrays
        return twin

    def widen(self, more: int) -> None:
        """Add features that are 0."""
        Z, y, weight = self._arrays
        self._arrays = np.pad(Z, ((0, 0), (0, more))), y, weight

    def state(self) -> dict[str, Any]:
        """Return the latest examples as arrays."""
        Z, y, weight = self.latest()
        return {"Z": Z.copy(), "y": y.copy(), "weight": weight.copy()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go back to a state."""
        y = restored_signs(restored_array(state, "y", (None,)))
        if len(y) > HELD:
            raise ValueError(f"more than {HELD} held-out examples are saved.")
        Z = restored_values(state, "Z", (len(y), self._arrays[0].shape[1]))
        weight = restored_weights(state, "weight", len(y))
        self.n = 0
        self.add(Z, y, weight)
