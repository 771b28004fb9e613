# SPDX-License-Identifier: BSD-3-Clause
"""The state of pairwise SGD whose domain acts on each coordinate separately."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairlearn.domains import CoordinatewiseDomain
from pairlearn.pairings import Plan, SlotPlan
from pairlearn.solvers.descent.descent import Descent, PairPlan
from pairlearn.solvers.rows import NO_WEIGHTS, CsrRows, DenseRows, Rows
from pairlearn.typing import Vector
from pairlearn.validation import DivergenceError

#: A row that is paired with itself; its gradient is zero.
_ITSELF = Plan(np.zeros(1, dtype=np.int32), np.zeros(1, dtype=np.int32))


class CoordinatewiseDescent(Descent):
    """The state of a descent whose steps end with a proximal step of the domain."""

    @property
    def _domain(self) -> CoordinatewiseDomain:
        assert isinstance(self.parts.domain, CoordinatewiseDomain)
        return self.parts.domain

    def _prepare(self) -> None:
        super()._prepare()
        self._room = np.empty_like(self.w)
        self._proximal_address = self._domain.proximal.row_address(self.w.dtype)

    def _proximal(self, now: slice) -> tuple[Any, ...]:
        numbers = map(float, self._domain.parameters)
        every_step = not self._domain.is_projection
        return (self._sizes.step_sizes[now], self._proximal_address, *numbers, every_step)

    def advance(
        self, rows: Rows, y: Vector, plan: Plan | SlotPlan, example_weight: Vector = NO_WEIGHTS
    ) -> None:
        """Take the steps of a plan."""
        if isinstance(rows, CsrRows) and not self._domain.is_projection:
            raise ValueError(
                f"{self._domain!r} moves every coordinate at every step, so that sparse rows would "
                "cost as much as dense ones; pass X.toarray(), or take a projection such as Box."
            )
        super().advance(rows, y, plan, example_weight)
        if not self._domain.is_projection and len(plan):
            self._moved_last = True

    def step_pair(self, flat: NDArray[Any], y: Vector, plan: PairPlan) -> None:
        """Take one step with one active pair; a step that fails is undone."""
        self._step_or_undo(flat, y, plan)

    def step_nothing(self) -> None:
        """Take one step whose pair is inactive."""
        if self._domain.is_projection:
            super().step_nothing()
        else:
            row = np.zeros((1, self.n_features), dtype=self.w.dtype)
            self.advance(DenseRows(row), np.zeros(1), _ITSELF)

    def _fail(self, status: int) -> None:
        # A NaN from the domain reaches the loss before the kernel stops.
        if status & 3 == 3 or (status & 3 == 2 and not np.isfinite(self.w).all()):
            raise DivergenceError(
                f"{self._domain!r} returned NaN or infinity by step "
                f"{self.n_steps + (status >> 2) + 1}; look at it with check_domain."
            )
        super()._fail(status)

    def _descend_dense(self, rows: DenseRows, pairs: tuple[Any, ...], now: slice) -> int:
        from pairlearn.kernels.steps.coordinatewise import descend_coordinatewise

        iterates = (self.w, self.weighted_sum, self.left_iterate, self._room, self.state)
        loss = (self.parts.problem.derivative.address, self._parameter)
        kernel = descend_coordinatewise
        return int(kernel(rows.flat, *pairs, *iterates, self._proximal(now), *loss))

    def _descend_csr(self, rows: CsrRows, pairs: tuple[Any, ...], now: slice) -> int:
        from pairlearn.kernels.steps.coordinatewise import descend_coordinatewise_csr

        sizes, _, *others = self._proximal(now)
        proximal = (sizes, self._domain.proximal.address, *others)
        matrix = (rows.data, rows.indices, rows.indptr)
        iterates = (self.w, self.weighted_sum, self.left_iterate, self._room, self.state)
        loss = (self.parts.problem.derivative.address, self._parameter)
        return int(descend_coordinatewise_csr(*matrix, *pairs, *iterates, proximal, *loss))
