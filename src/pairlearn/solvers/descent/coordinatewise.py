# SPDX-License-Identifier: BSD-3-Clause
"""The state of pairwise SGD whose domain acts on each coordinate separately."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairlearn.domains import CoordinatewiseDomain
from pairlearn.pairings.plans import Indices
from pairlearn.solvers.descent.descent import Descent, Steps
from pairlearn.solvers.rows import NO_WEIGHTS, Rows
from pairlearn.validation import DivergenceError


class CoordinatewiseDescent(Descent):
    """The state of a descent whose steps end with a proximal step of the domain, O(d) each."""

    @property
    def _domain(self) -> CoordinatewiseDomain:
        assert isinstance(self.parts.domain, CoordinatewiseDomain)
        return self.parts.domain

    @property
    def _acts_always(self) -> bool:  # type: ignore[override]
        return not self._domain.is_projection

    def _proximal(self, steps: Steps) -> tuple[Any, ...]:
        first, second = map(float, self._domain.parameters)
        return (steps.lengths, self._domain.proximal.address, first, second)

    def _descend(
        self,
        rows: Rows,
        pairs: tuple[Any, ...],
        steps: Steps,
        active: Indices,
        sums: NDArray[Any],
    ) -> int:
        from pairlearn.kernels.steps.every_step import descend_every

        sizes = np.zeros_like(steps.sizes)
        sizes[active] = steps.sizes[active]
        places: Indices = np.arange(len(sizes))
        if self._domain.is_projection:
            # The last step pays the iterate to the end.
            places = active if self.moved_last else np.append(active, len(sizes) - 1)
        y, left, right = pairs
        plan = (y, left[places], right[places], sizes[places], steps.paid[places])
        iterates = (self.w, sums, self.left_iterate, self._radius, *self._loss)
        lengths, *domain = self._proximal(steps)
        pull = (NO_WEIGHTS, self.w[:0].copy(), (lengths[places], *domain))
        status = int(descend_every(rows.arrays, *plan, *iterates, *pull))
        self.moved_last = self.moved_last or self._acts_always
        return status and 4 * int(places[status >> 2]) + (status & 3)

    def _fail(self, status: int, steps: Steps) -> None:
        # A NaN from the domain reaches the loss before the kernel stops.
        if status & 3 == 3 or (status & 3 == 2 and not np.isfinite(self.w).all()):
            raise DivergenceError(
                f"{self._domain!r} returned NaN or infinity by step "
                f"{self.n_steps + (status >> 2) + 1}; look at it with check_domain."
            )
        super()._fail(status, steps)
