# SPDX-License-Identifier: BSD-3-Clause
"""Train many models on one sample path: a grid of step sizes and radii for about one run.

All models read the same pairs, so a block of pairs becomes one matrix product over all models.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pairlearn.averaging import Averaging, DelayedByStepSize
from pairlearn.domains import ball_or_whole
from pairlearn.losses import Hinge
from pairlearn.pairings import Pairing, Plan, PreviousExample, SlotPlan
from pairlearn.pairings.sound import sound_source
from pairlearn.problem import Problem
from pairlearn.schedules import Constant, Schedule
from pairlearn.solvers.blas_threads import one_thread
from pairlearn.solvers.block_sizes import BLOCK
from pairlearn.solvers.descent.pairwise_sgd import PairwiseSGD
from pairlearn.solvers.descent.step_kernels import KERNELS, finding_kernel
from pairlearn.solvers.rows import NO_WEIGHTS, CsrRows, DenseRows, as_rows
from pairlearn.solvers.solution import Solution
from pairlearn.solvers.support import averaging_for, check_parts
from pairlearn.typing import Mask, Vector
from pairlearn.validation import (
    DivergenceError,
    check_count,
    check_generator,
    check_labels,
    check_positive,
    check_weights,
)

#: With at least this many features, blocks of pairs and matrix products are faster.
_MANY_FEATURES = 64
#: Models of a vector, at most.
_VECTOR = 16
#: Bytes of a line of the cache.
_LINE = 64
#: Number of pairs per block of the matrix form.
_PAIRS = 64


@dataclass(frozen=True)
class SweepSolution:
    """The models of a sweep, in the order of the given step sizes and radii."""

    #: Averages, shape (n_models, n_features); NaN for a model that diverged.
    averages: Vector
    #: Last iterates, shape (n_models, n_features).
    w: Vector
    #: Whether each model stopped being finite.
    diverged: Mask
    n_gradients: int


@dataclass(frozen=True)
class Sweep:
    """Pairwise SGD for several step sizes and radii at once.

    All models see the same examples in the same order, so they differ by their hyper-parameters
    alone. Each equals the model that `PairwiseSGD` finds on that path.

    Parameters
    ----------
    step_sizes : sequence of float
        One per model: the factor of the schedule.
    radii : sequence of float
        One per step size: the radius of the model's ball, infinity for none.
    pairing : Pairing, default=PreviousExample()
        How examples are paired, one pair at a step.
    schedule : Schedule, default=Constant(1.0)
        The shape of the step sizes; its own scale is multiplied by each of `step_sizes`.
    averaging : Averaging, default=DelayedByStepSize()
        Which average of the iterates is returned.

    Examples
    --------
    >>> from pairlearn import Hinge, LinearScore, Problem
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(100, 3))
    >>> y = np.where(X[:, 0] > 0, 1.0, -1.0)
    >>> sweep = Sweep((0.01, 0.1, 1.0), (np.inf, np.inf, 1.0))
    >>> solution = sweep.solve(Problem(LinearScore(), Hinge()), X, y, n_steps=500, rng=0)
    >>> solution.averages.shape
    (3, 3)
    """

    step_sizes: tuple[float, ...]
    radii: tuple[float, ...]
    pairing: Pairing = field(default_factory=PreviousExample)
    schedule: Schedule = field(default_factory=lambda: Constant(1.0))
    averaging: Averaging = field(default_factory=DelayedByStepSize)

    def __post_init__(self) -> None:
        # A frozen dataclass changes its own fields by `object.__setattr__`.
        for name, what in (("step_sizes", "step_size"), ("radii", "radius")):
            given = np.atleast_1d(np.asarray(getattr(self, name), dtype=object)).tolist()
            inf = what == "radius"
            found = tuple(check_positive(what, one, allow_infinite=inf) for one in given)
            object.__setattr__(self, name, found)
        if len(self.step_sizes) != len(self.radii) or not self.step_sizes:
            raise ValueError(
                f"Give as many radii as step sizes, at least one: got {len(self.step_sizes)} step "
                f"sizes and {len(self.radii)} radii."
            )
        object.__setattr__(self, "averaging", averaging_for(self.averaging, self.pairing))

    def solve(
        self,
        problem: Problem,
        X: Any,
        y: ArrayLike,
        *,
        n_steps: int,
        rng: Any = None,
        example_weight: ArrayLike | None = None,
    ) -> SweepSolution:
        """Train all models.

        Parameters
        ----------
        problem : Problem
            Score and loss.
        X : array-like or sparse container of shape (n, d)
            Examples.
        y : array-like of shape (n,)
            Labels.
        n_steps : int
            The number T of steps.
        rng : int or numpy.random.Generator, optional
            Source of the indices, the same path for every model.
        example_weight : ndarray of shape (n,), optional
            A pair weighs the product of its examples' weights.

        Returns
        -------
        SweepSolution
            Averages and last iterates.
        """
        check_parts("Sweep", score=problem.score, loss=problem.loss, comparison=problem.comparison)
        rows = as_rows(X)
        y = check_labels(y, rows.shape[0])
        n_steps = check_count("n_steps", n_steps)
        if rows.shape[0] < 2:
            raise ValueError(f"Pairs need at least 2 examples, got {rows.shape[0]}.")
        weight = NO_WEIGHTS
        if example_weight is not None and np.size(example_weight):
            weight = check_weights(example_weight, rows.shape[0])
        generator = check_generator(rng)
        if not isinstance(rows, DenseRows):
            how = {"n_steps": n_steps, "example_weight": weight if len(weight) else None}
            return self._solve_apart(problem, rows, y, generator, **how)
        source = sound_source(self.pairing, rows.shape[0], generator, y)
        run = _Run(self, problem, rows, y, n_steps, weight)
        while run.n_steps < n_steps:
            run.advance(source.draw(min(BLOCK, n_steps - run.n_steps)))
        return run.solution()

    def _solve_apart(
        self, problem: Problem, rows: CsrRows, y: Vector, rng: np.random.Generator, **how: Any
    ) -> SweepSolution:
        """Train the models one by one on the path of dense rows: sparse rows share no work."""
        models: list[Solution | None] = []
        begin = rng.bit_generator.state
        end = begin
        for step_size, radius in zip(self.step_sizes, self.radii, strict=True):
            solver = PairwiseSGD(
                self.pairing, self.schedule.scaled(step_size), ball_or_whole(radius), self.averaging
            )
            rng.bit_generator.state = begin
            try:
                models.append(solver.solve(problem, rows, y, rng=rng, **how))
                end = rng.bit_generator.state
            except DivergenceError:
                models.append(None)
        rng.bit_generator.state = end
        lost = np.full(rows.shape[1], math.nan)
        return SweepSolution(
            np.array([lost if model is None else model.average for model in models]),
            np.array([lost if model is None else model.w for model in models]),
            np.array([model is None for model in models]),
            max((model.trace.n_gradients for model in models if model is not None), default=0),
        )


class _Columns:
    """Which models share a column of iterates: those of one step size that no ball has stopped.

    See `pairlearn.kernels.steps.sweep.descend_models`.
    """

    def __init__(self, step_sizes: tuple[float, ...], radii: Vector, room: int) -> None:
        n = len(radii)
        self._heads, self._following = np.full(n, -1, dtype=np.int64), np.full(n, -1)
        self._n_live = np.zeros(1, dtype=np.int64)
        # Columns of no model have steps of length 0.
        self._multipliers, bounds = np.zeros(room), np.ones(room)
        for column, step_size in enumerate(dict.fromkeys(step_sizes)):
            models = np.flatnonzero(np.array(step_sizes) == step_size)
            models = models[np.argsort(radii[models], kind="stable")]
            self._heads[column], self._following[models[:-1]] = models[0], models[1:]
            self._multipliers[column], bounds[column] = step_size, radii[models[0]]
            self._n_live[0] += 1
        self.arrays = (
            self._heads, self._following, radii, self._n_live, self._multipliers, bounds
        )  # fmt: skip

    def place(self) -> NDArray[np.int64]:
        """Return the column of each model."""
        place = np.empty(len(self._heads), dtype=np.int64)
        for column in range(int(self._n_live[0])):
            model = int(self._heads[column])
            while model >= 0:
                place[model], model = column, int(self._following[model])
        return place


def _on_lines(shape: tuple[int, int], dtype: Any) -> NDArray[Any]:
    """Return zeros that begin with a line of the cache: vectors that cross lines are slow."""
    size, item = math.prod(shape), np.dtype(dtype).itemsize
    room = np.zeros(size + _LINE // item, dtype=dtype)
    skipped = -room.ctypes.data % _LINE // item
    return room[skipped : skipped + size].reshape(shape)


class _Run:
    """The state of all models of a sweep."""

    def __init__(
        self,
        sweep: Sweep,
        problem: Problem,
        rows: DenseRows,
        y: Vector,
        horizon: int,
        weight: Vector,
    ) -> None:
        self.sweep, self.problem, self.rows, self.y = sweep, problem, rows, y
        self.horizon, self.example_weight = horizon, weight
        self.n_models, d = len(sweep.step_sizes), rows.shape[1]
        self.dtype = rows.X.dtype
        self.by_rows = d < _MANY_FEATURES
        # Whole vectors of models, of which the last are zero and belong to no model.
        room = self.n_models if not self.by_rows else -(-self.n_models // _VECTOR) * _VECTOR
        shape = (d, room) if self.by_rows else (room, d)
        #: Iterates and weighted sums in one array, so that one matrix product adds to both.
        self._both = _on_lines((2 * shape[0], shape[1]), self.dtype)
        self.W, self.weighted_sum = self._both[: shape[0]], self._both[shape[0] :]
        self.left_iterate = np.zeros_like(self.W)
        self.total = np.zeros(shape)
        self.multipliers = np.array(sweep.step_sizes)
        self.radii = np.array(sweep.radii, dtype=np.float64)
        self.diverged = np.zeros(room, dtype=np.uint8)
        at_start = sweep.averaging.at_start(sweep.schedule)
        self.base = np.full(room, -at_start)
        self.weight = at_start
        self.n_steps = self.n_gradients = 0
        self._active = np.empty(BLOCK + 1, dtype=np.int32)
        self._finding = finding_kernel(problem)
        rooms = np.ones((5, room), dtype=self.dtype)
        self._scratch = [np.empty(room), np.empty(d, dtype=self.dtype), *rooms]
        self._columns = _Columns(sweep.step_sizes, self.radii, room) if self.by_rows else None
        self._moved_last = False

    def advance(self, plan: Plan | SlotPlan) -> None:
        """Take the steps of a plan."""
        if isinstance(plan, SlotPlan):
            raise ValueError("A sweep takes one pair at a step; use PreviousExample().")
        sweep, first, count = self.sweep, self.n_steps + 1, len(plan)
        steps = sweep.schedule.step_sizes(first, count)
        if len(self.example_weight):
            steps = steps * self.example_weight[plan.left] * self.example_weight[plan.right]
        paid = np.add.accumulate(
            sweep.averaging.owed(sweep.schedule, first, count, horizon=self.horizon)
        )
        find, rule = self._finding
        n_active = int(KERNELS[find](plan.left, plan.right, self.y, *rule, self._active))
        active = self._active[:n_active]
        self._moved_last = bool(n_active) and int(active[-1]) == count - 1
        self.n_gradients += n_active
        # The last pair is taken alone if the iterate before it will be needed.
        apart = self._moved_last and first + count - 1 == self.horizon
        take = self._by_rows if self.by_rows else self._by_blocks
        take(plan, steps, paid, active[: n_active - apart])
        if apart:
            self.left_iterate[:] = self.W
            take(plan, steps, paid, active[n_active - 1 :])
        self.n_steps += count
        self.total += self.weighted_sum
        self.weighted_sum[:] = 0.0
        self.base -= paid[-1]
        self.weight += float(paid[-1])

    def _by_rows(self, plan: Plan, steps: Vector, paid: Vector, active: NDArray[np.int32]) -> None:
        from pairlearn.kernels.steps.sweep import descend_models

        assert self._columns is not None
        pairs = (self.rows.flat, self.y, plan.left, plan.right, steps, paid, active, len(active))
        arrays = (self.W, self.weighted_sum, self.total, self.left_iterate)
        iterates = (array.reshape(-1) for array in arrays)
        hinge = type(self.problem.loss) is Hinge and self.problem.by_labels
        address = 0 if hinge else self.problem.derivative.address
        loss = (address, self.problem.loss.parameter)
        columns = (*self._columns.arrays, self.base, self.diverged)
        descend_models(*pairs, *columns, *iterates, *loss, *self._scratch)

    def _by_blocks(
        self, plan: Plan, steps: Vector, paid: Vector, active: NDArray[np.int32]
    ) -> None:
        """Take the active pairs in blocks: matrix products score and move all models at once."""
        with one_thread:
            self._multiply_blocks(plan, steps, paid, active)

    def _multiply_blocks(
        self, plan: Plan, steps: Vector, paid: Vector, active: NDArray[np.int32]
    ) -> None:
        from scipy.linalg.blas import dgemm, sgemm

        from pairlearn.kernels.steps.sweep import descend_block, fill_differences

        multiply = dgemm if self.dtype == np.float64 else sgemm
        n_models, flat = self.n_models, self.rows.flat
        loss = (self.problem.derivative.address, self.problem.loss.parameter)
        for begin in range(0, len(active), _PAIRS):
            position = active[begin : begin + _PAIRS]
            left, right, k = plan.left[position], plan.right[position], len(position)
            D = np.empty((k, self.W.shape[1]), dtype=self.dtype)
            fill_differences(flat, left, right, D)
            # Columns of `moves`: first the last iterates, then the weighted sums, one per model.
            moves = np.empty((k, 2 * n_models))
            norms = np.einsum("md,md->m", self.W, self.W, dtype=np.float64)
            pairs = (D @ self.W.T, D @ D.T, self.y[left], self.y[right])
            models = (self.multipliers, self.radii, norms, self.base, self.diverged)
            rooms = (self.W, self.weighted_sum, moves, np.empty((3 * k + 3, n_models)))
            descend_block(*pairs, steps[position], paid[position], *models, *loss, *rooms)
            # Columns of Fortran are rows here: the product is added to iterates and sums in place.
            moves = moves.astype(self.dtype, copy=False)
            multiply(1.0, D.T, moves.T, beta=1.0, c=self._both.T, trans_b=True, overwrite_c=True)

    def solution(self) -> SweepSolution:
        """Return averages and last iterates, a model in each row."""
        averaging, schedule = self.sweep.averaging, self.sweep.schedule
        arrays = (self.W, self.total, self.left_iterate)
        W, total, before = ((a.T if self.by_rows else a).astype(np.float64) for a in arrays)
        diverged, base = self.diverged.astype(bool), self.base
        if self._columns is not None:
            place = self._columns.place()
            W, total, before = W[place], total[place], before[place]
            diverged, base = diverged[place], base[place]
        averages = W.copy()
        if averaging.keeps_sum:
            early = averaging.paid_early(schedule, self.n_steps)
            last = averaging.owed_to_last(self.n_steps)
            averages = total + (last - base)[:, np.newaxis] * W
            averages -= early * (before if self._moved_last else W)
            averages /= self.weight + last - early
        averages[diverged] = math.nan
        return SweepSolution(averages, W, diverged, self.n_gradients)
