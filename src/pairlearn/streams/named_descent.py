# SPDX-License-Identifier: BSD-3-Clause
"""How a learner of named examples learns by steps on pairs, with columns that may be added."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from pairlearn.domains import ball_or_whole
from pairlearn.losses import PairLoss
from pairlearn.pairings import Pairing
from pairlearn.problem import Problem
from pairlearn.schedules import InverseSqrt
from pairlearn.scores import LinearScore
from pairlearn.solvers.descent.pairwise_sgd import PairwiseSGD
from pairlearn.solvers.descent.stream import Stream
from pairlearn.solvers.rows import DenseRows, Rows, mean_pair_distance
from pairlearn.solvers.streams.order import OrderWatch
from pairlearn.solvers.streams.running_scales import STEP_SIZE, RunningScales
from pairlearn.streams.examples import LARGEST
from pairlearn.streams.named_parts import widened
from pairlearn.typing import Vector
from pairlearn.validation import DivergenceError

#: First examples whose spread sets the scale of the steps if step_size="auto" without scaling.
WARM_UP = 32
#: Examples in a batch at most.
MOST_QUEUED = 1024
#: After n examples, a batch has at most n / _QUEUE_DIVISOR examples.
_QUEUE_DIVISOR = 8


class NamedDescent:
    """Algorithm 2 on rows that may become wider.

    `step_size` is None for the automatic one; `pairing` chooses the partner of each example.
    """

    half_life = np.inf

    def __init__(
        self,
        loss: PairLoss,
        *,
        step_size: float | None,
        radius: float,
        scaled: bool,
        pairing: Pairing,
    ) -> None:
        self.loss, self._step_size = loss, step_size
        self._radius, self._scaled, self._pairing = radius, scaled, pairing
        self._stream: Stream | None = None
        #: The scale of the step sizes; 0 before the first batch.
        self.scale = 0.0
        #: Score statistics are centred at the first example of a scaled stream, if it was dense:
        #: otherwise changing coefficients would shift the scores of features far from zero.
        self._origin = np.zeros(1)
        self._watch = OrderWatch()

    @property
    def n_steps(self) -> int:
        """The number of steps so far."""
        return 0 if self._stream is None else self._stream.n_steps

    @property
    def n_gradients(self) -> int:
        """The number of pairs met so far."""
        return 0 if self._stream is None else self._stream.n_gradients

    def until_next(self, n_taken: int) -> int:
        """Return the examples of the next batch, after this many."""
        return max(1, min(n_taken // _QUEUE_DIVISOR, MOST_QUEUED))

    def lately(self) -> tuple[Vector, float] | None:
        """Return the average of all iterates, and the score at the origin."""
        if self._stream is None:
            return None
        average = self._stream.average
        return average, float(average @ self._origin)

    #: There is no difference to what predictions use but for the latest batch.
    now = lately

    def _start(
        self, width: int, start: Vector | None = None, n_before: int = 0, *, given: bool = False
    ) -> None:
        solver = PairwiseSGD(
            schedule=InverseSqrt(self.scale),
            domain=ball_or_whole(self._radius),
            pairing=self._pairing,
        )
        scales = None
        if self._scaled:
            scales = RunningScales(width, start="given" if given else "zero")
        problem = Problem(LinearScore(), self.loss)
        self._stream = solver.start(
            problem, width, rng=0, w_start=start, n_before=n_before, scales=scales
        )

    def go_on(self, coef: Vector, origin: Vector, spread: float, n_before: int) -> None:
        """Start from coefficients that were learned from `n_before` examples.

        `origin` is a point between the classes, `spread` the mean squared distance of two examples.
        """
        self.scale = STEP_SIZE if self._scaled else min(1.0 / max(spread, 1e-300), LARGEST**2)
        self._origin = origin
        self._start(len(coef), coef, n_before, given=True)

    def _start_at(self, rows: Rows) -> None:
        """Start with the first batch."""
        width = rows.shape[1]
        if self._step_size is None and not self._scaled:
            first = rows.take(np.arange(min(rows.shape[0], WARM_UP)))
            # features near zero would give an infinite reciprocal
            self.scale = min(1.0 / mean_pair_distance(first), LARGEST**2)
        else:
            self.scale = self._step_size or STEP_SIZE
        self._origin = np.zeros(width)
        if self._scaled and isinstance(rows, DenseRows):
            self._origin = rows.X[0].copy()
        self._start(width)

    def learn(self, rows: Rows, y: Vector) -> tuple[int, str]:
        """Learn rows except those that would ruin the model; return their number and the reason."""
        if self._stream is None:
            self._start_at(rows)
        assert self._stream is not None
        found = self._learn_rows(rows, y)
        is_dense = isinstance(rows, DenseRows)
        self._watch.note(y, scales=self._stream.scales if is_dense else None)
        return found

    def _learn_rows(self, rows: Rows, y: Vector) -> tuple[int, str]:
        """Learn rows; split a batch with rows that would ruin the model, down to a single row."""
        assert self._stream is not None
        saved = self._stream.state()
        try:
            self._stream.learn_many(rows, y)
            size = max(np.abs(self._stream.w).max(), np.abs(self._stream.average).max())
            if size <= LARGEST:
                return 0, ""
            cause = (
                f"a coefficient would be {size:.3g}, beyond {LARGEST:g}; take a smaller "
                "step_size, or scale the features."
            )
        except DivergenceError as error:
            cause = str(error)
        self._stream.restore(saved)
        m = len(y)
        if m == 1:
            return 1, cause
        found = [self._learn_rows(rows.take(part), y[part])
                 for part in (np.arange(m // 2), np.arange(m // 2, m))]  # fmt: skip
        return sum(count for count, _ in found), found[0][1] or found[1][1]

    def widen(self, width: int) -> None:
        """Make room for new features, with coefficient 0."""
        more = width - len(self._origin)
        if not more:
            return
        self._origin = np.pad(self._origin, (0, more))
        if self._stream is None:
            return
        saved = self._stream.state()
        descent = saved["descent"]
        for name in ("w", "left_iterate", "total"):
            descent[name] = np.pad(descent[name], (0, more))
        descent["past"] = np.pad(descent["past"], ((0, 0), (0, more)))
        if saved["buffer"] is not None:
            saved["buffer"] = widened(saved["buffer"], width)
        if self._scaled:
            saved["scales"] = RunningScales.widened(saved["scales"], width)
        self._start(width)
        self._stream.restore(saved)

    def state(self) -> dict[str, Any]:
        """Return everything that the next batch depends on."""
        return {
            "stream": None if self._stream is None else self._stream.state(),
            "scale": self.scale,
            "origin": self._origin.copy(),
        }

    def restore(self, state: Mapping[str, Any], width: int) -> None:
        """Go back to a state."""
        self.scale = float(state["scale"])
        self._origin = state["origin"].copy()
        if state["stream"] is not None:
            self._start(width)
            assert self._stream is not None
            self._stream.restore(state["stream"])
