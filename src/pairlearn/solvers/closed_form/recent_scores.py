# SPDX-License-Identifier: BSD-3-Clause
r"""How long a stream remembers: chosen by recent scores of several memories.

Each example is scored by every memory before it is learned. The latest scores of each class are
kept, and the longest memory is taken whose AUC over them is below the best by at most one and a
half standard errors. So a stream that does not change keeps all of its past, and one that does
forgets as fast as it must. Comparisons are paired: the squared standard error of the difference of
memories a and b is

    Var_i(V_a(x_i+) - V_b(x_i+)) / p + Var_j(V_a(x_j-) - V_b(x_j-)) / q,

where V(x+) is the share of negatives below a positive, and V(x-) that of positives above a
negative (DeLong et al. 1988).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pairlearn.typing import Mask, Vector

#: The latest scores of each class that a memory is judged by.
RECENT = 125
#: Fewer of a class than this tell nothing: then everything is remembered.
FEWEST = 10
#: The longest memory within this many standard errors of the best is taken.
ERRORS = 1.5


@dataclass(frozen=True, eq=False)
class RecentScores:
    """The latest scores of each class, the oldest first, with a column for each memory."""

    positives: Vector
    negatives: Vector

    @classmethod
    def none(cls, n_memories: int) -> RecentScores:
        """Return no scores."""
        return cls(np.empty((0, n_memories)), np.empty((0, n_memories)))

    def plus(self, scores: Vector, y: Vector) -> RecentScores:
        """Return the latest scores with those of more examples, labelled -1 and 1."""
        return RecentScores(
            np.concatenate([self.positives, scores[y > 0]])[-RECENT:],
            np.concatenate([self.negatives, scores[y < 0]])[-RECENT:],
        )

    def placements(self) -> tuple[Vector, Vector]:
        """Return the share of the other class on the right side of each score."""
        both = (self.positives, self.negatives)
        ahead, behind = (np.empty_like(own) for own in both)
        for k in range(ahead.shape[1]):
            p, q = (own[:, k] for own in both)
            ahead[:, k] = share_below(p, np.sort(q))
            behind[:, k] = 1.0 - share_below(q, np.sort(p))
        return ahead, behind

    def best(self) -> int:
        """Return the place of the longest memory that is as good as the best."""
        p, q = len(self.positives), len(self.negatives)
        if self.positives.shape[1] == 1 or min(p, q) < FEWEST:
            return 0
        of_positives, of_negatives = self.placements()
        top = of_positives.mean(axis=0).argmax()
        above, below = (V[:, [top]] - V for V in (of_positives, of_negatives))
        errors = np.sqrt(above.var(axis=0) / p + below.var(axis=0) / q)
        # Rounding must not make equals differ.
        return int((above.mean(axis=0) <= ERRORS * errors + 1e-12).argmax())

    def auc(self, memory: int) -> float | None:
        """Return the AUC of the latest scores of one memory."""
        if not len(self.positives) or not len(self.negatives):
            return None
        return float(self.placements()[0][:, memory].mean())

    def of(self, memory: int) -> tuple[Vector, Mask]:
        """Return the latest scores of one memory, and which of them are of positives."""
        scores = np.concatenate([self.positives[:, memory], self.negatives[:, memory]])
        return scores, np.arange(len(scores)) < len(self.positives)


def share_below(scores: Vector, others: Vector) -> Vector:
    """Return the share of sorted others below each score; equal ones count half."""
    sides = others.searchsorted(scores, "left") + others.searchsorted(scores, "right")
    return np.asarray(sides / (2.0 * len(others)))
