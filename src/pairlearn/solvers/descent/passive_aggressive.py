# SPDX-License-Identifier: BSD-3-Clause
r"""Passive-aggressive updates with the hinge loss, one buffered example at a time (OAM_seq).

Each pair moves w to the minimiser of ||v - w||^2 / 2 + cap l(<v, D>), D = y (x - x'), which is
w + min(cap, l / ||D||^2) D: never beyond the margin, whatever the cap.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pairlearn.averaging import Averaging, LastIterate
from pairlearn.domains import Ball, WholeSpace
from pairlearn.pairings import ClassReservoirs, FifoBuffer, Pairing, ReservoirBuffer, SlotPlan
from pairlearn.pairings.plans import EMPTY
from pairlearn.pairings.sound import sound_source
from pairlearn.schedules import Constant, Schedule
from pairlearn.solvers.block_sizes import BLOCK
from pairlearn.solvers.iterates import Iterates
from pairlearn.solvers.running import Callback, run_blocks
from pairlearn.solvers.solution import Solution
from pairlearn.solvers.support import check_parts
from pairlearn.solvers.two_classes import dense_two_classes, n_steps_of
from pairlearn.validation import check_generator


@dataclass(frozen=True)
class PassiveAggressive:
    """Sequential passive-aggressive learning against a buffer.

    Parameters
    ----------
    pairing : Pairing, default=ClassReservoirs(weighting="oam")
        The buffer. The cap of a step is half its step size times the scale of the plan, C_t / 2.
    schedule : Schedule, default=Constant(0.1)
        The step sizes, C.
    domain : WholeSpace or Ball, default=WholeSpace()
        Where w may live; the original has no constraint. Projected once a step.
    averaging : Averaging, default=LastIterate()
        The original returns the last iterate.

    References
    ----------
    Zhao, Hoi, Jin, Yang. Online AUC maximization. ICML 2011.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 2))
    >>> y = np.where(X[:, 0] > 0, 1.0, -1.0)
    >>> solver = PassiveAggressive(schedule=Constant(0.01))
    >>> w = solver.solve(X, y, n_passes=1, rng=0).w
    >>> bool(w[0] > 5 * abs(w[1]))
    True
    """

    pairing: Pairing = field(default_factory=lambda: ClassReservoirs(weighting="oam"))
    schedule: Schedule = field(default_factory=lambda: Constant(0.1))
    domain: WholeSpace | Ball = field(default_factory=WholeSpace)
    averaging: Averaging = field(default_factory=LastIterate)

    def __post_init__(self) -> None:
        if self.pairing.one_pair_a_step or getattr(self.pairing, "buffer_size", 2) == 1:
            names = ", ".join(c.__name__ for c in (ClassReservoirs, ReservoirBuffer, FifoBuffer))
            raise ValueError(f"PassiveAggressive needs a buffer ({names}), got {self.pairing!r}.")
        if getattr(self.pairing, "zero_filled", False):
            raise ValueError("PassiveAggressive does not meet zero rows; use zero_filled=False.")

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
        """Run on examples drawn uniformly.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Examples.
        y : array-like of shape (n,)
            Labels -1 and +1.
        n_passes : float, default=1.0
            Steps in units of n.
        rng : int or numpy.random.Generator, optional
            Source of the indices.
        callbacks, pauses : sequence
            As in `PairwiseSGD.solve`; there is no risk.

        Returns
        -------
        Solution
            Average, last iterate and trace. Ctrl-C ends the run early, with a warning.
        """
        from pairlearn.kernels.steps.passive_aggressive import descend_sequential

        check_parts("PassiveAggressive", domain=self.domain)
        rows, y = dense_two_classes(X, y, "PassiveAggressive")
        n, d = rows.shape
        n_steps = n_steps_of(n_passes, n)
        source = sound_source(self.pairing, n, check_generator(rng), y)
        counts = np.zeros(1, dtype=np.int64)
        run = Iterates(self.averaging, self.schedule, n_steps, d, counts)

        def advance(count: int) -> int:
            """Take `count` steps; return the number of steps that pair an example with itself."""
            plan, done = source.draw(count), run.n_steps
            if not isinstance(plan, SlotPlan):
                raise ValueError(
                    f"PassiveAggressive needs a buffer, but {self.pairing!r} gives a Plan; let it "
                    "give a SlotPlan."
                )
            if (plan.start < EMPTY).any():
                raise ValueError("PassiveAggressive does not meet zero rows; leave slots EMPTY.")
            caps = 0.5 * self.schedule.step_sizes(done + 1, count) * plan.scale
            slots = plan.start.copy()

            def take(a: int, b: int) -> int:
                steps = (plan.part(a, b), caps[a:b], run.shares[done + a : done + b])
                iterate = (run.w, run.weighted_sum, self.domain.radius, counts)
                return int(descend_sequential(rows.flat, y, *steps, slots, *iterate))

            run.advance(count, take)
            return plan.n_repeats

        trace = run_blocks(run, advance, n_steps, block=BLOCK, callbacks=callbacks, pauses=pauses)
        return Solution(run.average, run.w, trace)
