# SPDX-License-Identifier: BSD-3-Clause
"""OPAUC: one-pass AUC optimisation with the square loss, by gradients of class moments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pairlearn.averaging import Averaging, LastIterate
from pairlearn.domains import Ball, WholeSpace
from pairlearn.schedules import Constant, Schedule
from pairlearn.solvers.block_sizes import BLOCK
from pairlearn.solvers.closed_form.moments import MOST_FEATURES
from pairlearn.solvers.iterates import Iterates
from pairlearn.solvers.running import Callback
from pairlearn.solvers.solution import Solution
from pairlearn.solvers.support import check_parts
from pairlearn.solvers.two_classes import dense_two_classes, draw_path, n_steps_of
from pairlearn.typing import Vector
from pairlearn.validation import check_count, check_generator

#: Short blocks keep the random directions of a sketch in the cache.
_SHORT = 1_000


@dataclass(frozen=True)
class OPAUC:
    """One-pass AUC optimisation by first and second moments of the two classes.

    Parameters
    ----------
    schedule : Schedule, default=Constant(0.01)
        The step sizes.
    ridge : float, default=0.0
        The weight l of (l / 2) ||w||^2.
    rank : int, optional
        Sketch the covariances with this many random directions: O(d rank) time and memory instead
        of O(d^2), for many features. The estimate is unbiased; its error falls as 1/sqrt(rank).
    domain : WholeSpace or Ball, default=WholeSpace()
        Where w may live; the original has no constraint.
    averaging : Averaging, default=LastIterate()
        The original returns the last iterate.

    References
    ----------
    Gao, Jin, Zhu, Zhou. One-pass AUC optimization. ICML 2013.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 2))
    >>> y = np.where(X[:, 0] > 0, 1.0, -1.0)
    >>> w = OPAUC(Constant(0.05)).solve(X, y, rng=0).w
    >>> bool(w[0] > 5 * abs(w[1]))
    True
    """

    schedule: Schedule = field(default_factory=lambda: Constant(0.01))
    ridge: float = 0.0
    rank: int | None = None
    domain: WholeSpace | Ball = field(default_factory=WholeSpace)
    averaging: Averaging = field(default_factory=LastIterate)

    def __post_init__(self) -> None:
        if not self.ridge >= 0.0:
            raise ValueError(f"ridge must be at least 0, got {self.ridge!r}.")
        if self.rank is not None:
            check_count("rank", self.rank)

    def solve(
        self,
        X: Any,
        y: ArrayLike,
        *,
        n_passes: float = 1.0,
        rng: Any = None,
        callbacks: Sequence[Callback] = (),
        pauses: Sequence[int] = (),
    ) -> Solution:
        """Run over the examples in random order; as `SPAUC.solve`, without gradients per pair."""
        from pairlearn.kernels.steps.moments import descend_moments, descend_sketch

        check_parts("OPAUC", domain=self.domain)
        rows, y = dense_two_classes(X, y, "OPAUC")
        n, d = rows.shape
        if self.rank is None and d > MOST_FEATURES:
            raise ValueError(f"{d} features need too much memory for covariances; give a rank.")
        generator = check_generator(rng)
        n_steps = n_steps_of(n_passes, n)
        path = draw_path(n, n_steps, generator, order="shuffled")
        run = Iterates(self.averaging, self.schedule, n_steps, d)
        counts, means = np.zeros(2), np.zeros((2, d))
        rank, radius = self.rank, self.domain.radius
        kept = np.zeros((2, d, d if rank is None else rank))
        sums, room = np.zeros((2, rank or 0)), np.empty(rank or d)

        def take(now: slice, step_sizes: Vector) -> int:
            shared = (rows.flat, y, path[now], step_sizes, run.shares[now], self.ridge)
            ends = (run.w, run.weighted_sum, radius, room)
            if rank is None:
                return descend_moments(*shared, means, counts, kept, *ends)  # type: ignore[no-any-return]
            normals = generator.standard_normal((now.stop - now.start, rank)) / np.sqrt(rank)
            return descend_sketch(*shared, means, counts, kept, sums, normals, *ends)  # type: ignore[no-any-return]

        block = BLOCK if rank is None else _SHORT
        return run.run(take, callbacks=callbacks, pauses=pauses, block=block)
