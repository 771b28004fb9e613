# SPDX-License-Identifier: BSD-3-Clause
"""The running state of pairwise SGD in a coordinatewise domain."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairlearn.domains import CoordinatewiseDomain
from pairlearn.pairings import Plan, SlotPlan
from pairlearn.solvers.descent import NO_WEIGHTS, Descent, PairPlan
from pairlearn.solvers.rows import CsrRows, DenseRows, Rows

__all__ = ["CoordinatewiseDescent"]

#: A row that meets itself, which costs nothing.
_ITSELF = Plan(np.zeros(1, dtype=np.int32), np.zeros(1, dtype=np.int32))


class CoordinatewiseDescent(Descent):
    """The state of a descent whose steps end with a proximal step of the domain."""

    @property
    def _domain(self) -> CoordinatewiseDomain:
        assert isinstance(self.parts.domain, CoordinatewiseDomain)
        return self.parts.domain

    def _prepare(self) -> None:
        from pairlearn.kernels.coordinatewise import descend_coordinatewise

        super()._prepare()
        self._descend, self._room = descend_coordinatewise, np.empty_like(self.w)
        # Only the plain kernels have the hinge built in.
        self._pair_address = self._address
        self._proximal_address = self._domain.proximal.row_address(self.w.dtype)

    def _proximal(self, now: slice) -> tuple[Any, ...]:
        first, second = self._domain.parameters
        every_step = not self._domain.is_projection
        return (
            self._step_sizes[now],
            self._proximal_address,
            float(first),
            float(second),
            every_step,
        )

    def _bound(self, now: slice) -> tuple[Any, ...]:
        return self._proximal(now)

    def advance(
        self,
        rows: Rows,
        y: NDArray[np.float64],
        plan: Plan | SlotPlan,
        example_weight: NDArray[np.float64] = NO_WEIGHTS,
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

    def step_pair(self, flat: NDArray[Any], y: NDArray[np.float64], plan: PairPlan) -> None:
        """Take one step with one active pair; a step that fails is undone."""
        self._step_or_undo(flat, y, plan)

    def step_nothing(self) -> None:
        """Take one step whose pair is inactive."""
        if self._domain.is_projection:
            super().step_nothing()
        else:
            row = np.zeros((1, self.n_features), dtype=self.w.dtype)
            self.advance(DenseRows(row), np.zeros(1), _ITSELF)

    def _descend_csr(
        self,
        rows: CsrRows,
        y: NDArray[np.float64],
        left: NDArray[Any],
        right: NDArray[Any],
        step_sizes: NDArray[np.float64],
        now: slice,
        n_active: int,
    ) -> int:
        from pairlearn.kernels.coordinatewise import descend_coordinatewise_csr

        sizes, _, *others = self._proximal(now)
        return int(
            descend_coordinatewise_csr(
                rows.data,
                rows.indices,
                rows.indptr,
                y,
                left,
                right,
                step_sizes,
                self._paid[now],
                self._active,
                n_active,
                self.w,
                self.weighted_sum,
                self.left_iterate,
                self._room,
                self.state,
                (sizes, self._domain.proximal.address, *others),
                self._address,
                self._parameter,
            )
        )
