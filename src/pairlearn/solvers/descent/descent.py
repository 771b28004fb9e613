# SPDX-License-Identifier: BSD-3-Clause
"""The state of pairwise SGD between steps (Algorithms 1 and 2)."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairlearn.averaging import Averaging
from pairlearn.domains import CoordinatewiseDomain, Domain
from pairlearn.losses import Hinge
from pairlearn.pairings import Plan, SlotPlan
from pairlearn.pairings.plans import Indices
from pairlearn.problem import Problem
from pairlearn.schedules import Schedule
from pairlearn.solvers.block_sizes import BLOCK
from pairlearn.solvers.rows import NO_WEIGHTS, CsrRows, Rows
from pairlearn.solvers.support import check_parts
from pairlearn.typing import Vector
from pairlearn.validation import DivergenceError, check_vector

#: The address that stands for the hinge, which kernels have built in.
_HINGE = 0
#: What a descent saves: arrays, and numbers.
_ARRAYS = ("w", "total", "left_iterate", "past")
_NUMBERS = {"weight": float, "n_steps": int, "n_gradients": int, "moved_last": bool}


@dataclass(frozen=True)
class Parts:
    """The parts of a pairwise learner that a descent needs, checked against the solver."""

    problem: Problem
    schedule: Schedule
    domain: Domain
    averaging: Averaging

    def __post_init__(self) -> None:
        problem = self.problem
        parts = {"loss": problem.loss, "comparison": problem.comparison, "domain": self.domain}
        check_parts("PairwiseSGD", score=problem.score, **parts)


@dataclass(frozen=True)
class Steps:
    """Consecutive steps: step sizes times the weights of pairs, and cumulated averaging weights."""

    sizes: Vector
    #: The step sizes of the schedule.
    lengths: Vector
    paid: Vector


class Descent:
    """The iterate, its weighted sum and the step counter.

    The iterate has the `dtype` of dense data, and float64 for sparse data. It starts at the
    projection of `w_start`, zero by default. `horizon` is the number of steps, if known.
    """

    def __init__(
        self,
        parts: Parts,
        n_features: int,
        *,
        dtype: Any = np.float64,
        w_start: Any = None,
        horizon: int | None = None,
    ) -> None:
        if parts.averaging.needs_horizon and horizon is None:
            raise ValueError(
                f"{type(parts.averaging).__name__} averaging needs the number of steps beforehand; "
                "for a stream use DelayedByStepSize()."
            )
        self.parts = parts
        self.horizon = horizon
        #: Number of features of an example; the parameter may be longer.
        self.n_features = n_features
        start = np.zeros(n_features) if w_start is None else w_start
        start = self._projected(check_vector("w_start", start, n_features))
        self.w: NDArray[Any] = start.astype(dtype)
        #: The iterate before the last step, if that had a pair.
        self.left_iterate: NDArray[Any] = self.w.copy()
        self.moved_last = False
        #: The iterates that the averaging rule remembers: w_m is in the row m modulo their number,
        #: and w_0 stands for those before it.
        self.past: NDArray[Any] = np.tile(self.w, (parts.averaging.remembers, 1))
        #: The sum of the averaging weights so far, and of the iterates times their weights.
        self.weight = parts.averaging.at_start(parts.schedule)
        with np.errstate(over="ignore", invalid="ignore"):  # the first step looks at it
            self.total: Vector = self.weight * self.w.astype(np.float64)
        self.n_steps = 0
        #: Number of pairs whose gradient was computed.
        self.n_gradients = 0
        self._radius = parts.domain.radius
        problem = parts.problem
        #: Whether a kernel calls the loss for every pair. Labels of a comparison are known to the
        #: compiled function alone, which gives 0 for a pair that does not count.
        self._all_pairs = not (problem.loss.opposite_labels_only and problem.by_labels)

    def _projected(self, w: Vector) -> Vector:
        return self.parts.domain.project(w)

    def in_domain(self, w: Vector) -> Vector:
        """Return the closest point of the domain.

        A change of units can take an iterate or an average out of a ball or a box. It does not
        take them out of the whole space or of a cone of matrices.
        """
        bounded = isfinite(self._radius) or isinstance(self.parts.domain, CoordinatewiseDomain)
        return self._projected(w) if bounded else w

    # ---------------------------------------------------------------------------- the steps

    def advance(
        self, rows: Rows, y: Vector, plan: Plan | SlotPlan, example_weight: Vector = NO_WEIGHTS
    ) -> None:
        """Take the steps of a plan."""
        done, n_steps, n_past = 0, len(plan), len(self.past)
        held = plan.start.copy() if isinstance(plan, SlotPlan) else None
        while done < n_steps:
            count = min(n_steps - done, BLOCK)
            if n_past:
                # The last steps are taken one by one, since each leaves an iterate to remember.
                count = max(1, min(count, n_steps - n_past - done))
                if done + n_past >= n_steps:
                    self._remember()
            steps = self._steps(count)
            sums = np.zeros_like(self.w)
            if isinstance(plan, SlotPlan):
                status = self._take_slots(rows, y, plan, held, done, steps, example_weight, sums)
            else:
                left, right = plan.steps(done, count, rows.shape[0])
                status = self._take_pairs(rows, y, left, right, steps, example_weight, sums)
            if status:
                self._fail(int(status), steps)
            self._count(steps, sums)
            done += count

    def _steps(self, count: int) -> Steps:
        """Return step sizes and averaging weights of the next steps."""
        first, horizon = self.n_steps + 1, self.horizon
        schedule, averaging = self.parts.schedule, self.parts.averaging
        # Who remembers past iterates takes back what they were paid too early.
        horizon = None if averaging.remembers else horizon
        with np.errstate(over="ignore", invalid="ignore"):
            sizes = schedule.step_sizes(first, count)
            paid = np.add.accumulate(averaging.owed(schedule, first, count, horizon=horizon))
        if not isfinite(paid[-1]):
            raise DivergenceError(
                f"Step sizes of about {sizes[-1]:.3g} have an infinite sum, so there is no "
                "average; take a smaller step_size."
            )
        return Steps(sizes, sizes, paid)

    def _count(self, steps: Steps, sums: NDArray[Any]) -> None:
        self.total += sums
        self.weight += float(steps.paid[-1])
        self.n_steps += len(steps.paid)

    def stand_still(self, n_steps: int) -> None:
        """Take steps whose pairs are inactive: only counter and averaging weight grow."""
        done = 0
        while done < n_steps:
            steps = self._steps(min(n_steps - done, BLOCK))
            self.moved_last = False
            if len(self.past):
                self._remember(len(steps.paid))
            self._count(steps, steps.paid[-1] * self.w)
            done += len(steps.paid)

    def _take_pairs(
        self,
        rows: Rows,
        y: Vector,
        left: Indices,
        right: Indices,
        steps: Steps,
        example_weight: Vector,
        sums: NDArray[Any],
    ) -> int:
        """Take steps of one pair each; return the status of the kernel."""
        if len(example_weight):
            weight = example_weight[left] * example_weight[right]
            steps = Steps(steps.sizes * weight, steps.lengths, steps.paid)
        active = self._find_active(left, right, y)
        self.moved_last = bool(len(active)) and int(active[-1]) == len(left) - 1
        self.n_gradients += len(active)
        return self._descend(rows, (y, left, right), steps, active, sums)

    def _find_active(self, left: Indices, right: Indices, y: Vector) -> Indices:
        """Return the positions of the steps whose pairs count."""
        loss, comparison = self.parts.problem.loss, self.parts.problem.comparison
        if not self.parts.problem.by_labels:
            ahead = comparison.direction.many(y[left], y[right], *comparison.parameters)
            # NaN counts: the loss then says so.
            return np.flatnonzero(~(ahead <= 0.0) if loss.one_sided else ahead != 0.0)
        from pairlearn.kernels.plan import find_active

        active = np.empty(len(left) + 1, dtype=np.int32)
        return active[: find_active(left, right, y, loss.one_sided, self._all_pairs, active)]

    def _descend(
        self,
        rows: Rows,
        pairs: tuple[Any, ...],
        steps: Steps,
        active: Indices,
        sums: NDArray[Any],
    ) -> int:
        """Take the active steps of pairs (labels, left, right); return the status of the kernel."""
        plan = (*pairs, steps.sizes, steps.paid, active)
        if isinstance(rows, CsrRows):
            from pairlearn.kernels.steps.sparse import descend_csr

            iterates = (self.w, sums, self.left_iterate)
            return int(descend_csr(rows.arrays, *plan, *iterates, self._radius, *self._loss))
        from pairlearn.kernels.steps.dense import descend

        iterates = (self.w, sums, self.left_iterate, np.empty_like(self.w))  # type: ignore[assignment]
        return int(descend(rows.arrays, *plan, *iterates, self._radius, *self._loss))

    @property
    def _loss(self) -> tuple[int, float]:
        """The address of the derivative of the loss, and its parameter."""
        problem = self.parts.problem
        hinge = type(problem.loss) is Hinge and problem.by_labels
        return _HINGE if hinge else problem.derivative.address, problem.loss.parameter

    def _proximal(self, steps: Steps) -> tuple[Any, ...]:
        """Return the proximal step of the domain for a kernel; here there is none."""
        return (steps.lengths, 0, 0.0, 0.0)

    #: Whether the domain acts at steps without a gradient too.
    _acts_always = False

    def _take_slots(
        self,
        rows: Rows,
        y: Vector,
        plan: SlotPlan,
        held: Any,
        done: int,
        steps: Steps,
        example_weight: Vector,
        sums: NDArray[Any],
    ) -> int:
        """Take steps of a plan with a buffer, beginning with its step `done`."""
        from pairlearn.kernels.steps.buffers import descend_slots

        stop, counts = done + len(steps.paid), np.zeros(1, dtype=np.int64)
        rule = (*self._loss, self.parts.problem.loss.one_sided, self._all_pairs)
        status = descend_slots(
            rows.arrays, y, example_weight, plan.part(done, stop),
            steps.sizes * plan.scale[done:stop], steps.paid, held, self.w, sums, self.left_iterate,
            self._radius, rule, np.empty(len(held)), counts, self._proximal(steps),
            self._acts_always,
        )  # fmt: skip
        self.moved_last = True
        self.n_gradients += int(counts[0])
        return int(status)

    def _remember(self, count: int = 1) -> None:
        """Keep the iterate, which the next `count` steps leave, for the averaging rule."""
        n_past = len(self.past)
        self.past[np.arange(self.n_steps, self.n_steps + min(count, n_past)) % n_past] = self.w

    def _fail(self, status: int, steps: Steps) -> None:
        step = self.n_steps + (status >> 2) + 1
        loss = self.parts.problem.loss
        if status & 3 == 2:
            raise DivergenceError(
                f"{type(loss).__name__} returned NaN at step {step}; "
                f"check its derivative with finite scores."
            )
        raise DivergenceError(
            f"The iterate stopped being finite at step {step} with step sizes of about "
            f"{float(steps.lengths[0]):.3g}; take a smaller step_size, a Ball domain (radius), or "
            "scale the features (estimators do, unless scaling=None)."
        )

    # --------------------------------------------------------------------------- the average

    @property
    def average(self) -> Vector:
        """The average of the iterates so far, by the averaging rule, in float64."""
        averaging, schedule = self.parts.averaging, self.parts.schedule
        w = self.w.astype(np.float64)
        if self.n_steps == 0 or not averaging.keeps_sum:
            return w
        early = averaging.paid_early(schedule, self.n_steps)
        last = averaging.owed_to_last(self.n_steps)
        weighted: Vector = self.total + last * w
        weighted -= early * (self.left_iterate if self.moved_last else w)
        weight = self.weight + last - early
        n_past = len(self.past)
        if n_past:
            unpaid = averaging.taken_back(schedule, self.n_steps)
            places = np.arange(self.n_steps - n_past, self.n_steps) % n_past
            weighted -= unpaid @ self.past[places].astype(np.float64)
            weight -= float(unpaid.sum())
        weighted /= weight
        return weighted

    def rescale(self, change: Vector) -> None:
        """Change the parameter for columns that are divided by `change` from now on."""
        score = self.parts.problem.score
        with np.errstate(over="ignore", invalid="ignore"):
            for vector in (self.w, self.left_iterate, self.total, *self.past):
                score.in_units(vector, change)
            if not isfinite(self.w @ self.w) or not isfinite(self.total.sum()):
                raise DivergenceError(
                    "The squares of the coefficients overflow where the features change their "
                    "units; take a smaller step_size or a radius, or begin the stream anew."
                )
        self.w[:] = self.in_domain(self.w)

    # ------------------------------------------------------------------------------ copies

    def save(self) -> dict[str, Any]:
        """Return a copy of everything that the next step depends on."""
        arrays = {name: getattr(self, name).copy() for name in _ARRAYS}
        return arrays | {name: getattr(self, name) for name in _NUMBERS}

    def restore(self, saved: dict[str, Any]) -> None:
        """Go back to a state returned by `save`."""
        for name in _ARRAYS:
            mine = getattr(self, name)
            if np.shape(saved[name]) != mine.shape:
                raise ValueError(
                    f"the saved {name} has shape {np.shape(saved[name])}, here it has "
                    f"{mine.shape}; start with the same parts and features."
                )
            mine[:] = saved[name]
        for name, kind in _NUMBERS.items():
            setattr(self, name, kind(saved[name]))
