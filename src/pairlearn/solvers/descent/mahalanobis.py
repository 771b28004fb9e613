# SPDX-License-Identifier: BSD-3-Clause
"""The state of pairwise SGD on a Mahalanobis matrix: full, diagonal or low-rank."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairlearn.domains import PsdBall, PsdCone
from pairlearn.pairings import SlotPlan
from pairlearn.pairings.plans import Indices
from pairlearn.scores import MahalanobisScore
from pairlearn.solvers.descent.descent import Descent, Parts, Steps
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
        low_rank = score.parameterization == "low_rank"
        if w_start is None and low_rank:
            raise ValueError(
                "A low-rank factor cannot leave zero: its gradient vanishes there. Give w_start."
            )
        if w_start is not None:
            w_start = np.asarray(w_start, dtype=np.float64).ravel()
            if low_rank and not w_start.any():
                raise ValueError(
                    "w_start is zero, which a low-rank factor cannot leave: its gradient vanishes "
                    "there. Give another one."
                )
        n_parameters = score.n_parameters(n_features)
        super().__init__(parts, n_parameters, w_start=w_start, horizon=horizon)
        self.n_features = n_features
        #: Number of searches for a negative eigenvalue, and their iterations.
        self.counts = np.zeros(2, dtype=np.int64)
        #: A lower bound of the least eigenvalue, by which a pulling step may lower it.
        self._floor = np.zeros(1)
        if low_rank:
            self._radius = math.sqrt(self._radius)
        self._note_least_eigenvalue()

    def _note_least_eigenvalue(self) -> None:
        if self._score.parameterization == "full" and not self._projects_every:
            d = self.n_features
            self._floor[0] = max(float(np.linalg.eigvalsh(self.w.reshape(d, d))[0]), 0.0)

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
        super().rescale(change)
        self._note_least_eigenvalue()

    def restore(self, saved: dict[str, Any]) -> None:
        """Go back to a state returned by `save`."""
        super().restore(saved)
        self._note_least_eigenvalue()

    @property
    def _projects_every(self) -> bool:
        return self._domain.projection == "every" and self._score.parameterization == "full"

    def _take_slots(self, rows: Rows, y: Vector, plan: SlotPlan, *rest: Any) -> int:
        raise ValueError(
            "A Mahalanobis score takes one pair at a step; use PreviousExample() or RandomPair() "
            "instead of a buffer."
        )

    def _descend(
        self,
        rows: Rows,
        pairs: tuple[Any, ...],
        steps: Steps,
        active: Indices,
        sums: NDArray[Any],
    ) -> int:
        """Take the active steps; project every `period` steps if asked."""
        if not isinstance(rows, DenseRows):
            raise ValueError("A Mahalanobis score needs dense rows; pass X.toarray().")
        flat = DenseRows(rows.X.astype(np.float64, copy=False)).flat
        y, left, right = pairs
        n, begin = len(left), 0
        period = self._domain.period
        while begin < n:
            # Steps are counted from the start of the run, so that chunks make no difference.
            end = min(begin + period - (self.n_steps + begin) % period, n)
            if not self._projects_every:
                end = n
            some = active[np.searchsorted(active, begin) : np.searchsorted(active, end)] - begin
            now = slice(begin, end)
            paid = steps.paid[now] - (steps.paid[begin - 1] if begin else 0.0)
            plan = (flat, y, left[now], right[now], steps.sizes[now], paid, some)
            status = self._call((*plan, self.w, sums, self.left_iterate, self._radius, *self._loss))
            if status:
                return status + 4 * begin
            if self._projects_every and (self.n_steps + end) % period == 0:
                if end == n and not self.moved_last:
                    self.left_iterate[:] = self.w
                    self.moved_last = True
                self.w[:] = self._domain.project(self.w)
            begin = end
        return 0

    def _call(self, arguments: tuple[Any, ...]) -> int:
        """Run the kernel of the parameterization."""
        from pairlearn.kernels.steps import mahalanobis

        d, rank = self.n_features, self._score.rank or 0
        if self._score.parameterization == "full":
            exact, scratch = self._domain.projection == "exact", np.empty(d * d + 6 * d)
            status = mahalanobis.descend_full(*arguments, exact, self._floor, scratch, self.counts)
        elif self._score.parameterization == "diagonal":
            status = mahalanobis.descend_diagonal(*arguments, np.empty(d))
        else:
            status = mahalanobis.descend_low_rank(*arguments, rank, np.empty(d + rank))
        return int(status)
