# SPDX-License-Identifier: BSD-3-Clause
r"""How long a stream remembers: chosen by recent scores of several memories.

Each example is scored by every memory before it is learned. The latest scores of each class are
kept, and the longest memory is taken whose AUC over them is hardly below the best: by at most one
and a half standard errors.
So a stream that does not change keeps all of its past, and one that does forgets as fast as it
must. Comparisons are paired: the standard error of the difference of memories a and b is

    se^2 = Var_i(V_a(x_i+) - V_b(x_i+)) / p + Var_j(V_a(x_j-) - V_b(x_j-)) / q,

where V(x+) is the share of negatives below a positive, and V(x-) that of positives above a
negative (DeLong et al. 1988).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairlearn.restored import restored_array
from pairlearn.typing import Mask, Vector

#: The latest scores of each class that a memory is judged by.
RECENT = 125
#: Fewer of a class than this tell nothing: then everything is remembered.
FEWEST = 10
#: What the scores of positives and of negatives are called in a state.
_NAMES = ("positives", "negatives")
#: The longest memory within this many standard errors of the best is taken.
ERRORS = 1.5


class RecentScores:
    """The latest scores of each class by every memory, and the memory that they speak for."""

    def __init__(self, n_memories: int) -> None:
        self._scores = np.zeros((2, n_memories, RECENT))
        self._places = np.zeros((2, 2), dtype=np.int64)
        # Room for what `_wins` finds.
        self._counted = np.empty_like(self._scores)

    @cached_property
    def _room(self) -> tuple[Vector, Vector]:
        """Room to compare scores."""
        from pairlearn.kernels.memories import room_for_wins

        room: tuple[Vector, Vector] = room_for_wins(RECENT)
        return room

    @property
    def counts(self) -> tuple[int, int]:
        """The number of scores of positives and of negatives."""
        return int(self._places[0, 1]), int(self._places[1, 1])

    def add(self, scores: Vector, y: Vector) -> None:
        """Add scores of examples before they were learned, a column for each memory."""
        from pairlearn.kernels.memories import note_scores

        note_scores(scores, y, self._scores, self._places)

    def _wins(self) -> Vector:
        """Return for each score how many of the other class are on its right side."""
        from pairlearn.kernels.memories import count_wins

        count_wins(*self.arrays())
        return self._counted

    def arrays(self) -> tuple[Vector, NDArray[np.int64], Vector, Vector, Vector]:
        """Return rings, places and room as the kernels want them, to be written to."""
        return self._scores, self._places, self._counted, *self._room

    def placements(self) -> tuple[Vector, Vector]:
        """Return the share of the other class on the right side of each score, by memory."""
        (p, q), wins = self.counts, self._wins()
        return wins[0, :, :p] / q, wins[1, :, :q] / p

    def best(self) -> int:
        """Return the place of the longest memory that is as good as the best."""
        from pairlearn.kernels.memories import longest_as_good

        if self._scores.shape[1] == 1 or min(self.counts) < FEWEST:
            return 0
        return int(longest_as_good(self._wins(), self._places, ERRORS))

    def auc(self, memory: int) -> float | None:
        """Return the AUC of the latest scores of one memory."""
        return float(self.placements()[0][memory].mean()) if min(self.counts) else None

    def of(self, memory: int) -> tuple[Vector, Mask]:
        """Return the latest scores of one memory, and which of them are of positives."""
        scores = np.concatenate([one[memory] for one in self._in_order()])
        return scores, np.arange(len(scores)) < self.counts[0]

    def _in_order(self) -> list[Vector]:
        """Return the scores of each class, the oldest first."""
        return [
            np.roll(scores[:, :count], -head if count == RECENT else 0, axis=1)
            for scores, (head, count) in zip(self._scores, self._places, strict=True)
        ]

    def copy(self) -> RecentScores:
        """Return an independent record of the same scores."""
        twin = RecentScores(self._scores.shape[1])
        twin._scores, twin._places = self._scores.copy(), self._places.copy()
        return twin

    def state(self) -> dict[str, Any]:
        """Return the scores, the oldest first."""
        return dict(zip(_NAMES, self._in_order(), strict=True))

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go back to a state."""
        width = self._scores.shape[1]
        found = [restored_array(state, name, (width, None)) for name in _NAMES]
        if max(one.shape[1] for one in found) > RECENT:
            raise ValueError(f"more than {RECENT} latest scores of a class are saved.")
        for sign, scores in zip((1.0, -1.0), found, strict=True):
            self.add(np.ascontiguousarray(scores.T), np.full(scores.shape[1], sign))
