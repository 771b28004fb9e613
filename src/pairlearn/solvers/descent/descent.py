# SPDX-License-Identifier: BSD-3-Clause
"""The state of pairwise SGD between steps (Algorithms 1 and 2).

Steps are counted in *blocks* of fixed length. Each block computes its step sizes and averaging
weights once, as arrays, and adds its weighted sum to the float64 total at its end. Blocks depend on
the step counter alone, so a stream gives the same bits for chunks of any sizes.
"""

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
from pairlearn.solvers.block_sizes import BLOCK, BlockSizes
from pairlearn.solvers.descent.step_kernels import (
    KERNELS,
    dense_kernel,
    finding_kernel,
    meeting_kernel,
)
from pairlearn.solvers.rows import NO_WEIGHTS, CsrRows, DenseRows, Rows
from pairlearn.solvers.support import check_parts
from pairlearn.typing import Vector
from pairlearn.validation import DivergenceError, check_vector

#: Up to this many labels are looked at one by one.
_FEW = 32
#: From this many on, labels do not stay in the cache.
_MANY = 1 << 15
#: Buffers of this size or more are kept by label; in smaller ones moving columns costs too much.
BY_LABEL_FROM = 64

#: Values that `kernels.steps.dense.meet_previous` returns instead of the status of a step.
#: Importing them from there would import numba.
_NOT_FINITE, _INACTIVE = -1, -2
#: Attributes that hold addresses, which mean nothing in another process.
_ADDRESSES = {
    "_kernel", "_meeting", "_finding", "_rule",
    "_dense_address", "_pair_address", "_proximal_address",
}  # fmt: skip
#: Attributes that hold scratch space.
_ROOM = {"_room", "_other_left", "_sum_before", "_kept", "_active", "_scratch", "_slots", "_signs"}
_NOT_COPIED = frozenset({*_ADDRESSES, *_ROOM, "_sizes"})


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
        self.weighted_sum: NDArray[Any] = np.zeros_like(self.w)
        self.left_iterate: NDArray[Any] = self.w.copy()
        #: The iterates that the averaging rule remembers: w_m is in the row m modulo their number,
        #: and w_0 stands for those before it.
        self.past: NDArray[Any] = np.tile(self.w, (parts.averaging.remembers, 1))
        #: The weighted sum of the finished blocks.
        self.total = np.zeros(n_features)
        at_start = parts.averaging.at_start(parts.schedule)
        #: The value of `paid` up to which the weighted sum holds the current iterate (the iterate
        #: is still owed paid[now] - base), and, for sparse rows, the squared norm of the iterate.
        self.state = np.array([-at_start, 0.0])
        #: The averaging weights of w_0 and of the finished blocks, summed.
        self.weight = at_start
        self.n_steps = 0
        #: Number of pairs whose gradient was computed.
        self.n_gradients = 0
        self.position = 0
        self._moved_last = False
        #: Whether `left_iterate` is the iterate before the last pair. A sparse run whose end is
        #: known stores it at the end only.
        self._kept_left = True
        #: Sparse rows that are not yet added to the weighted sum, and their factors.
        self._pending_rows: CsrRows | None = None
        self._coefficients: Vector = NO_WEIGHTS
        loss = parts.problem.loss
        self._radius = parts.domain.radius
        self._prepare()
        self._parameter = loss.parameter
        self._one_sided = loss.one_sided
        #: Whether a kernel calls the loss for every pair. Labels of a comparison are known to the
        #: compiled function alone, which gives 0 for a pair that does not count.
        self._all_pairs = not (loss.opposite_labels_only and parts.problem.by_labels)

    def _prepare(self) -> None:
        """Make scratch space and look up machine code; a copy of the object does this again."""
        problem = self.parts.problem
        #: The dense kernels have a built-in hinge, marked by an address that no function has.
        hinge = type(problem.loss) is Hinge and problem.by_labels
        self._dense_address = 0 if hinge else problem.derivative.address
        self._pair_address = self._dense_address
        size, dtype = len(self.w), self.w.dtype
        self._kernel, self._room = dense_kernel(size, dtype, hinge=hinge)
        self._meeting = meeting_kernel(size, dtype, hinge=hinge)
        self._finding, self._rule = finding_kernel(problem)
        self._other_left, self._sum_before = np.empty_like(self.w), np.empty_like(self.w)
        self._kept = np.empty(2 * len(self.w), self.w.dtype)
        self._sizes = BlockSizes(self.parts.schedule, self.parts.averaging, self.horizon)
        self._active = np.empty(BLOCK + 1, dtype=np.int32)
        self._scratch: tuple[NDArray[Any], ...] = ()
        #: The labels, and the same labels as bytes, see `keep_signs`.
        self._signs: tuple[Any, Any] = (None, None)
        #: The layout of the buffer's columns, and the columns.
        self._slots: Any = ()

    def __getstate__(self) -> dict[str, Any]:
        self.settle()
        return {name: value for name, value in self.__dict__.items() if name not in _NOT_COPIED}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._prepare()
        self._open_block(self.position)

    def _projected(self, w: Vector) -> Vector:
        return self.parts.domain.project(w)

    def in_domain(self, w: Vector) -> Vector:
        """Return the closest point of the domain.

        A change of units can take an iterate or an average out of a ball or a box. It does not
        take them out of the whole space or of a cone of matrices.
        """
        bounded = isfinite(self._radius) or isinstance(self.parts.domain, CoordinatewiseDomain)
        return self._projected(w) if bounded else w

    def keep_signs(self, y: Vector) -> None:
        """Store many labels -1 and +1 as bytes too, before steps in random order.

        The search for active pairs reads labels at random places. As bytes they stay in the cache.
        """
        if len(y) > _MANY and not self._all_pairs and bool(((y == 1.0) | (y == -1.0)).all()):
            self._signs = (y, y.astype(np.int8))

    # ---------------------------------------------------------------------------- the steps

    def advance(
        self, rows: Rows, y: Vector, plan: Plan | SlotPlan, example_weight: Vector = NO_WEIGHTS
    ) -> None:
        """Take the steps of a plan."""
        done, n_steps, kept = 0, len(plan), len(self.past)
        while done < n_steps:
            count = min(n_steps - done, BLOCK - self.position)
            if kept:
                # The last steps are taken one by one, since each leaves an iterate to remember.
                count = max(1, min(count, n_steps - kept - done))
                if done + kept >= n_steps:
                    self._remember()
            self._open_block(self.position + count)
            if isinstance(plan, SlotPlan):
                self._take_slots(rows, y, plan, done, count, example_weight)
            else:
                self._take_pairs(rows, y, plan, done, count, example_weight)
            done += count
            self._count(count)

    def step_pair(self, flat: NDArray[Any], y: Vector, plan: PairPlan) -> None:
        """Take one step with one active pair: `advance` without its overhead."""
        first, sizes = self.position, self._sizes
        if first >= len(sizes.paid) or sizes.block != self.n_steps // BLOCK:
            self._open_block(first + 1)
        if len(self.past):
            self._step_or_undo(flat, y, plan)
            return
        # The kernel copies the iterate to `left_iterate`. This copy and the two arrays saved below
        # are enough to undo a step that fails.
        left_before, sum_before = self.left_iterate, self._sum_before
        self.left_iterate, self._other_left = self._other_left, left_before
        sum_before[:] = self.weighted_sum
        now = slice(first, first + 1)
        # Arguments one by one: joining tuples takes as long as the step.
        status = KERNELS[self._kernel](
            flat, NO_WEIGHTS, y, plan.left, plan.right, sizes.step_sizes[now], sizes.paid[now],
            plan.active, 1, self.w, self.weighted_sum, self.left_iterate, self._room, self.state,
            self._radius, self._pair_address, self._parameter,
        )  # fmt: skip
        if status:
            self.w[:], self.weighted_sum[:] = self.left_iterate, sum_before
            self.left_iterate, self._other_left = left_before, self.left_iterate
            self._fail(int(status))
        self.n_gradients += 1
        self._moved_last = True
        self._count(1)

    @property
    def meets_alone(self) -> bool:
        """Whether one dense example can be learned by `meet`, without a plan."""
        by_labels = self.parts.problem.by_labels
        return type(self) is Descent and by_labels and not len(self.past)

    def meet(self, x: NDArray[Any], label: float, turn: Turn, at: int) -> bool:
        """Learn an example that is paired with the previous one, in one kernel call.

        The example overwrites the row `at` of `turn`; the other row is the previous example. Return
        whether its numbers are finite. An example that is not finite or fails changes nothing.
        """
        first, sizes = self.position, self._sizes
        if first >= len(sizes.paid) or sizes.block != self.n_steps // BLOCK:
            self._open_block(first + 1)
        # Arguments one by one: joining tuples takes as long as the step.
        status = KERNELS[self._meeting](
            x, label, at, turn.flat, turn.y, turn.pair, sizes.step_sizes, sizes.paid, first, self.w,
            self.weighted_sum, self.left_iterate, self._room, self.state, self._kept, self._radius,
            self._pair_address, self._parameter, self._one_sided, self._all_pairs,
        )  # fmt: skip
        if status:
            if status == _NOT_FINITE:
                return False
            if status != _INACTIVE:
                self._fail(status)
            self._moved_last = False
        else:
            self.n_gradients += 1
            self._moved_last = True
        self.n_steps += 1
        self.position = first + 1
        if first + 1 == BLOCK:
            self._end_block()
        return True

    def _step_or_undo(self, flat: NDArray[Any], y: Vector, plan: PairPlan) -> None:
        """Take one step by `advance`; undo it if it fails."""
        saved = self.save()
        try:
            rows = DenseRows(flat.reshape(-1, self.n_features))
            self.advance(rows, y, Plan(plan.left, plan.right))
        except ArithmeticError:
            self.restore(saved)
            raise

    def step_nothing(self) -> None:
        """Take one step whose pair is inactive."""
        self.stand_still(1)

    def ignores(self, y: Vector) -> bool:
        """Return True if steps between successive labels surely change nothing.

        Many labels almost surely differ and take time to compare: the answer is then False.
        """
        if self._all_pairs or len(y) > _FEW or not self.meets_alone:
            return False
        return len(set(y.tolist())) == 1

    def stand_still(self, n_steps: int) -> None:
        """Take steps whose pairs are inactive: only counter and averaging weight grow."""
        done = 0
        while done < n_steps:
            count = min(n_steps - done, BLOCK - self.position)
            self._open_block(self.position + count)
            self._moved_last = False
            if len(self.past):
                self._remember(count)
            self._count(count)
            done += count

    def _take_pairs(
        self, rows: Rows, y: Vector, plan: Plan, done: int, count: int, example_weight: Vector
    ) -> None:
        """Take `count` steps of a plan of pairs, beginning with its step `done`."""
        left, right = plan.steps(done, count, rows.shape[0])
        now = slice(self.position, self.position + count)
        step_sizes = self._sizes.step_sizes[now]
        if len(example_weight):
            step_sizes = step_sizes * example_weight[left] * example_weight[right]
        n_active = self._find_active(left, right, self._signs[1] if self._signs[0] is y else y)
        self._moved_last = n_active > 0 and int(self._active[n_active - 1]) == count - 1
        self.n_gradients += n_active
        pairs = (y, left, right, step_sizes, self._sizes.paid[now], self._active, n_active)
        if isinstance(rows, CsrRows):
            status = self._descend_csr(rows, pairs, now)
        else:
            status = self._descend_dense(rows, pairs, now)
        if status:
            self._fail(status)

    def _find_active(self, left: Indices, right: Indices, labels: NDArray[Any]) -> int:
        """Write the steps with active pairs to `_active`; return their number."""
        return int(KERNELS[self._finding](left, right, labels, *self._rule, self._active))

    def _descend_dense(self, rows: DenseRows, pairs: tuple[Any, ...], now: slice) -> int:
        """Take the active pairs of the steps `now` on dense rows; return the kernel's status."""
        flat, unit = rows.as_differences()
        iterates = (self.w, self.weighted_sum, self.left_iterate, self._room, self.state)
        loss = (self._pair_address, self._parameter)
        return int(KERNELS[self._kernel](flat, unit, *pairs, *iterates, self._radius, *loss))

    def _descend_csr(self, rows: CsrRows, pairs: tuple[Any, ...], now: slice) -> int:
        """Take the active pairs of the steps `now` on sparse rows; return the kernel's status."""
        from pairlearn.kernels.steps.sparse import descend_csr

        self._collect_from(rows)
        if self.position == 0 or self.n_steps == 0:
            # A new norm for each block: rounding errors do not add up over blocks.
            self.state[1] = self.w @ self.w
        self._kept_left = (
            self.horizon is None or self.n_steps + now.stop - now.start == self.horizon
        )
        matrix = (rows.data, rows.indices, rows.indptr, rows.norms)
        sums = (self.w, self.weighted_sum, self._coefficients, self._scratch[0], self.left_iterate)
        loss = (self.parts.problem.derivative.address, self._parameter)
        kept = (self.parts.averaging.keeps_sum, self._kept_left, *self._scratch[1:])
        return int(descend_csr(*matrix, *pairs, *sums, self.state, self._radius, *loss, *kept))

    def _proximal(self, now: slice) -> tuple[Any, ...]:
        """Return the arguments of the domain's proximal step for a kernel; here there is none."""
        return (NO_WEIGHTS, 0, 0.0, 0.0, False)

    def _take_slots(
        self, rows: Rows, y: Vector, plan: SlotPlan, done: int, count: int, example_weight: Vector
    ) -> None:
        """Take `count` steps of a plan with a buffer, beginning with its step `done`."""
        from pairlearn.kernels.steps.buffers import descend_slots
        from pairlearn.kernels.steps.sparse_buffers import descend_slots_csr

        # Groups of arguments are plain tuples, in the order of `kernels.arguments`.
        sparse = isinstance(rows, CsrRows)
        if isinstance(rows, CsrRows):
            storage: Any = (rows.data, rows.indices, rows.indptr)
        else:
            storage = rows.flat
        if done == 0:
            self._slots = (
                plan.start.copy() if sparse else self._load(storage, y, plan, example_weight)
            )
        now = slice(self.position, self.position + count)
        sizes, counts = plan.scale[done : done + count], np.zeros(1, dtype=np.int64)
        n_columns = len(self._slots if sparse else self._slots[3])
        kernel = descend_slots_csr if sparse else descend_slots
        steps = (self._sizes.step_sizes[now] * sizes, self._sizes.paid[now])
        iterate = (self.w, self.weighted_sum, self.left_iterate, self.state)
        address = self.parts.problem.derivative.address if sparse else self._dense_address
        loss = (address, self._parameter, self._one_sided, self._all_pairs)
        room = (np.empty(n_columns, self.w.dtype) for _ in range(1 if sparse else 2))
        meetings = plan.part(done, done + count)
        status = kernel(
            storage, y, example_weight, meetings, *steps, self._slots, iterate, self._radius, loss,
            *room, counts, self._proximal(now),
        )  # fmt: skip
        self._moved_last = True
        self.n_gradients += int(counts[0])
        if status:
            self._fail(int(status))

    def _load(
        self, flat: NDArray[Any], y: Vector, plan: SlotPlan, example_weight: Vector
    ) -> tuple[Any, ...]:
        """Return the buffer at the start of a plan, in the kernel's layout."""
        from pairlearn.kernels.steps.buffers import GROUP, load_slots

        low, high = float(y.min()), float(y.max())
        # The order of sorted columns depends on the past, and a stream must not depend on its
        # chunks. So a stream keeps the order of the slots.
        by_label = (
            not self._all_pairs
            and self.horizon is not None
            and len(plan.start) >= BY_LABEL_FROM
            and low < high
            and bool(((y == low) | (y == high)).all())
        )
        n_slots = -(-len(plan.start) // GROUP) * GROUP
        slots = (
            by_label,
            0.5 * low + 0.5 * high,
            np.zeros(len(self.w) * n_slots, self.w.dtype),
            np.zeros(n_slots),
            np.ones(n_slots),
            np.full(n_slots, -1),
            np.full(n_slots, -1),
            np.zeros(2, dtype=np.int64),
        )
        load_slots(flat, y, example_weight, plan.start, len(self.w), slots)
        return slots

    def _remember(self, count: int = 1) -> None:
        """Keep the iterate, which the next `count` steps leave, for the averaging rule."""
        kept = len(self.past)
        self.past[np.arange(self.n_steps, self.n_steps + min(count, kept)) % kept] = self.w

    def _open_block(self, stop: int) -> None:
        """Make the arrays of the current block, at least up to `stop`."""
        self._sizes.open(self.n_steps // BLOCK, stop)

    def _count(self, count: int) -> None:
        self.n_steps += count
        self.position += count
        if self.position == BLOCK:
            self._end_block()

    def _end_block(self) -> None:
        if self._pending_rows is None:
            self.total += self.weighted_sum
            self.weighted_sum[:] = 0.0
        self.state[0] -= self._sizes.paid[-1]
        self.weight += float(self._sizes.paid[-1])
        self.position = 0

    def _fail(self, status: int) -> None:
        step, size = self.n_steps + (status >> 2) + 1, float(self._sizes.step_sizes[0])
        loss = self.parts.problem.loss
        if status & 3 == 2:
            raise DivergenceError(
                f"{type(loss).__name__} returned NaN at step {step}; "
                f"check its derivative with finite scores."
            )
        raise DivergenceError(
            f"The iterate stopped being finite at step {step} with step sizes of about "
            f"{size:.3g}; take a smaller step_size, a Ball domain (radius), or scale the features "
            "(estimators do, unless scaling=None)."
        )

    # --------------------------------------------------------------------------- the average

    @property
    def average(self) -> Vector:
        """The average of the iterates so far, by the averaging rule, in float64."""
        averaging = self.parts.averaging
        w = self.w.astype(np.float64)
        if self.n_steps == 0 or not averaging.keeps_sum:
            return w
        self.settle()
        early = averaging.paid_early(self._sizes.lowered, self.n_steps)
        last = averaging.owed_to_last(self.n_steps)
        paid = float(self._sizes.paid[self.position - 1]) if self.position else 0.0
        # An interrupted run did not keep it; the current iterate is then at most one step away.
        before_last = self.left_iterate if self._moved_last and self._kept_left else w
        weighted: Vector = self.total + self.weighted_sum
        weighted += (paid - float(self.state[0]) + last) * w
        weighted -= early * before_last
        total = self.weight + paid + last - early
        kept = len(self.past)
        if kept:
            unpaid = averaging.taken_back(self.parts.schedule, self.n_steps)
            rows = np.arange(self.n_steps - kept, self.n_steps) % kept
            weighted -= unpaid @ self.past[rows].astype(np.float64)
            total -= float(unpaid.sum())
        weighted /= total
        return weighted

    # ----------------------------------------------------------------------- changes of units

    def rescale(self, change: Vector) -> None:
        """Change the parameter for columns that are divided by `change` from now on."""
        from pairlearn.kernels.running_scales import change_units

        self.settle()
        sums = (self.weighted_sum, self.left_iterate, self.total)
        norm_squared, total = change_units(change, self.w, *sums)
        if not (isfinite(norm_squared) and isfinite(total)):
            raise DivergenceError(
                "The squares of the coefficients overflow where the features change their units; "
                "take a smaller step_size or a radius, or begin the stream anew."
            )
        if len(self.past):
            self._rescale_past(change)
        self.w[:] = self.in_domain(self.w)
        # Sparse steps keep the squared norm of the iterate.
        self.state[1] = self.w.dot(self.w)

    def _rescale_past(self, change: Vector) -> None:
        with np.errstate(over="ignore", invalid="ignore"):
            for iterate in self.past:
                self.parts.problem.score.in_units(iterate, change)

    # ------------------------------------------------------------------- copies and scratch

    def save(self) -> dict[str, Any]:
        """Return a copy of everything that the next step depends on."""
        self.settle()
        return {
            "w": self.w.copy(),
            "weighted_sum": self.weighted_sum.copy(),
            "left_iterate": self.left_iterate.copy(),
            "total": self.total.copy(),
            "state": self.state.copy(),
            "weight": self.weight,
            "n_steps": self.n_steps,
            "n_gradients": self.n_gradients,
            "position": self.position,
            "moved_last": self._moved_last,
            **({"past": self.past.copy()} if len(self.past) else {}),
        }

    def restore(self, saved: dict[str, Any]) -> None:
        """Go back to a state returned by `save`."""
        self._pending_rows = None
        for name in ("w", "weighted_sum", "left_iterate", "total", "state", "past"):
            mine = getattr(self, name)
            if name == "past" and not len(mine) and name not in saved:
                continue
            if name not in saved:
                raise ValueError(
                    f"the saved state has no {name} iterates, which {self.parts.averaging!r} "
                    "needs; start with the averaging that it was saved with."
                )
            if np.shape(saved[name]) != mine.shape:
                raise ValueError(
                    f"the saved {name} has shape {np.shape(saved[name])}, here it has "
                    f"{mine.shape}; start with the same parts and features."
                )
            mine[:] = saved[name]
        self.weight = float(saved["weight"])
        self.n_steps = int(saved["n_steps"])
        self.n_gradients = int(saved["n_gradients"])
        self.position = int(saved["position"])
        self._moved_last = bool(saved["moved_last"])
        self._sizes = BlockSizes(self.parts.schedule, self.parts.averaging, self.horizon)
        self._open_block(self.position)

    def _collect_from(self, rows: CsrRows) -> None:
        """Prepare for sparse steps on `rows`."""
        if not self._scratch:
            floats = (np.empty(BLOCK) for _ in range(3))
            self._scratch = (np.empty(len(self.w)), *floats, np.empty(BLOCK, dtype=np.int32))
        if self._pending_rows is not rows:
            self.settle()
            self._pending_rows, self._coefficients = rows, np.zeros(rows.shape[0])

    def settle(self) -> None:
        """Add the pending sparse rows to the weighted sum."""
        rows = self._pending_rows
        if rows is not None:
            from pairlearn.kernels.steps.sparse import add_rows

            add_rows(rows.data, rows.indices, rows.indptr, self._coefficients, self.weighted_sum)
            self._pending_rows = None


@dataclass(frozen=True)
class PairPlan:
    """A plan of one step, reused so that learning one example allocates nothing."""

    left: NDArray[np.int32]
    right: NDArray[np.int32]
    active: NDArray[np.int32]

    @classmethod
    def between(cls, left: int, right: int) -> PairPlan:
        """Return the plan of one step that pairs two rows."""
        make = [np.array([value], dtype=np.int32) for value in (left, right, 0)]
        return cls(*make)


class Turn:
    """Two rows that take turns as the current and the previous example."""

    __slots__ = ("flat", "pair", "y")

    def __init__(self, X: NDArray[Any], y: Vector) -> None:
        self.flat, self.y = X.reshape(-1), y
        #: Scratch: the plan of one step.
        self.pair = np.zeros(3, dtype=np.int32)
