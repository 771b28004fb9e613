# SPDX-License-Identifier: BSD-3-Clause
"""The state of pairwise SGD on a Mahalanobis matrix: full, diagonal or low-rank."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairlearn.domains import PsdBall, PsdCone
from pairlearn.pairings import Plan, SlotPlan
from pairlearn.scores import MahalanobisScore
from pairlearn.solvers.descent.descent import Descent, PairPlan, Parts
from pairlearn.solvers.rows import DenseRows, Rows
from pairlearn.typing import Vector


class MahalanobisDescent(Descent):
    """W, its diagonal or its factor, the weighted sum and the step counter.

    A matrix is always kept in float64, whatever the `dtype`. It starts at the projection of
    `w_start` (flat or a matrix), which is zero by default. A low-rank factor cannot leave zero.
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
        score, domain = parts.problem.score, parts.domain
        assert isinstance(score, MahalanobisScore)
        assert isinstance(domain, PsdCone | PsdBall)
        self._score, self._domain = score, domain
        n_parameters = score.n_parameters(n_features)
        if w_start is None and score.parameterization == "low_rank":
            raise ValueError(
                "A low-rank factor cannot leave zero: its gradient vanishes there. Give w_start."
            )
        if w_start is not None:
            w_start = np.asarray(w_start, dtype=np.float64).ravel()
            if score.parameterization == "low_rank" and not w_start.any():
                raise ValueError(
                    "w_start is zero, which a low-rank factor cannot leave: its gradient vanishes "
                    "there. Give another one."
                )
        super().__init__(parts, n_parameters, w_start=w_start, horizon=horizon)
        self.n_features = d = n_features
        #: Number of searches for a negative eigenvalue, and their iterations.
        self.counts = np.zeros(2, dtype=np.int64)
        rank = score.rank or 0
        sizes = {"full": d * d + 6 * d, "diagonal": d, "low_rank": d + rank}
        self._work = np.zeros(sizes[score.parameterization])
        if score.parameterization == "low_rank":
            self._radius = math.sqrt(self._radius)
        if score.parameterization == "full" and not self._projects_every:
            self.state[1] = self._least_eigenvalue()

    def _least_eigenvalue(self) -> float:
        """Return a lower bound of the least eigenvalue, by which a pulling step may lower it."""
        d = self.n_features
        return max(float(np.linalg.eigvalsh(self.w.reshape(d, d))[0]), 0.0)

    def _projected(self, w: NDArray[np.float64]) -> NDArray[np.float64]:
        if self._score.parameterization == "full":
            return self._domain.project(w)
        if self._score.parameterization == "diagonal":
            w = np.maximum(w, 0.0)
            radius = self._domain.radius
        else:
            radius = math.sqrt(self._domain.radius)
        norm = float(np.linalg.norm(w))
        return w if norm <= radius else w * (radius / norm)

    def rescale(self, change: Vector) -> None:
        """Change the parameter for columns that are divided by `change` from now on."""
        with np.errstate(over="ignore", invalid="ignore"):
            for vector in (self.w, self.weighted_sum, self.left_iterate, self.total):
                self._score.in_units(vector, change)
        self._rescale_past(change)
        self.w[:] = self.in_domain(self.w)
        if self._score.parameterization == "full" and not self._projects_every:
            self.state[1] = self._least_eigenvalue()

    def step_pair(self, flat: NDArray[Any], y: NDArray[np.float64], plan: PairPlan) -> None:
        """Take one step with one active pair; a step that fails is undone."""
        self._step_or_undo(flat, y, plan)

    def step_nothing(self) -> None:
        """Take one step whose pair is inactive."""
        self._open_block(self.position + 1)
        if len(self.past):
            self._remember()
        self._moved_last = self._projects_every and (self.n_steps + 1) % self._domain.period == 0
        if self._moved_last:
            self._project_at(float(self._sizes.paid[self.position]), moved=False)
        self._count(1)

    @property
    def _projects_every(self) -> bool:
        return self._domain.projection == "every" and self._score.parameterization == "full"

    def _take_pairs(
        self, rows: Rows, y: Vector, plan: Plan, done: int, count: int, example_weight: Vector
    ) -> None:
        """Take `count` steps of a plan of pairs; project every `period` steps if asked."""
        if not isinstance(rows, DenseRows):
            raise ValueError("A Mahalanobis score needs dense rows; pass X.toarray().")
        left, right = plan.steps(done, count, rows.shape[0])
        now = slice(self.position, self.position + count)
        step_sizes, paid = self._sizes.step_sizes[now], self._sizes.paid[now]
        if len(example_weight):
            step_sizes = step_sizes * example_weight[left] * example_weight[right]
        n_active = self._find_active(left, right, y)
        active = self._active[:n_active]
        self._moved_last = bool(n_active) and int(active[-1]) == count - 1
        self.n_gradients += n_active
        flat = DenseRows(rows.X.astype(np.float64, copy=False)).flat
        pairs = (flat, y, left, right, step_sizes, paid)
        if not self._projects_every:
            self._call(pairs, active)
            return
        period, begin = self._domain.period, 0
        while begin < count:
            # Steps are counted from the start of the run, so that chunks make no difference.
            end = min(begin + period - (self.n_steps + begin) % period, count)
            first, last = np.searchsorted(active, [begin, end])
            self._call(pairs, active[first:last])
            if (self.n_steps + end) % period == 0:
                self._project_at(
                    paid[end - 1], moved=bool(last > first and active[last - 1] == end - 1)
                )
                if end == count:
                    self._moved_last = True
            begin = end

    def _take_slots(
        self, rows: Rows, y: Vector, plan: SlotPlan, done: int, count: int, example_weight: Vector
    ) -> None:
        raise ValueError(
            "A Mahalanobis score takes one pair at a step; use PreviousExample() or RandomPair() "
            "instead of a buffer."
        )

    def _project_at(self, paid: float, *, moved: bool) -> None:
        """Project the iterate at the end of a step, after adding the old iterate to the average."""
        if not moved:
            self.left_iterate[:] = self.w
        self.weighted_sum += (paid - self.state[0]) * self.w
        self.state[0] = paid
        self.w[:] = self._domain.project(self.w)

    def _call(self, pairs: tuple[NDArray[Any], ...], active: NDArray[np.int32]) -> None:
        """Run the kernel of the parameterization on the active pairs; raise if it fails."""
        from pairlearn.kernels.steps import mahalanobis

        iterates = (self.w, self.weighted_sum, self.left_iterate, self.state)
        loss = (self._radius, self.parts.problem.derivative.address, self._parameter)
        arguments = (*pairs, active, len(active), *iterates, *loss)
        kind = self._score.parameterization
        if kind == "full":
            exact = self._domain.projection == "exact"
            status = mahalanobis.descend_full(*arguments, exact, self._work, self.counts)
        elif kind == "diagonal":
            status = mahalanobis.descend_diagonal(*arguments, self._work)
        else:
            status = mahalanobis.descend_low_rank(*arguments, self._score.rank, self._work)
        if status:
            self._fail(int(status))
