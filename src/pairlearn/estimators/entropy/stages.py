# SPDX-License-Identifier: BSD-3-Clause
"""The stages of an entropy regressor on stored examples: the window of each, and its training."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pairlearn.averaging import Averaging
from pairlearn.domains import ball_or_whole
from pairlearn.estimators.entropy.online import pair_loss
from pairlearn.estimators.entropy.start import pair_quartile
from pairlearn.estimators.shared.weights import representatives
from pairlearn.losses import WINDOWS, PairLoss
from pairlearn.pairings import Pairing
from pairlearn.problem import Problem
from pairlearn.schedules import Schedule
from pairlearn.scores import LinearScore
from pairlearn.solvers.descent.pairwise_sgd import PairwiseSGD
from pairlearn.solvers.descent.sweep import Sweep
from pairlearn.solvers.rows import Rows, mean_pair_distance
from pairlearn.typing import Vector
from pairlearn.validation import check_positive

__all__ = ["StageTraining", "Windows", "stage_lengths"]

#: Bandwidths of bandwidth="auto" in units of the final one, widest first.
_STAGES = (8.0, 4.0, 2.0, 1.0)
#: Relative step sizes: c over the mean squared distance of two examples.
_STEPS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3)
#: Steps of the runs that choose the step size of a stage, at most.
_CHOICE_STEPS = 3_000
#: Errors that a candidate's entropy is computed from.
_JUDGED = 20_000


@dataclass(frozen=True)
class Windows:
    """`window` and `bandwidth` as `EntropyRegressor` has them, read and checked.

    >>> Windows("gaussian", [3.0, 1.0]).stages
    (3.0, 1.0)
    """

    window: str | PairLoss
    bandwidth: float | Sequence[float] | str | None

    @property
    def stages(self) -> tuple[float | None, ...]:
        """Bandwidths: numbers as they are, factors for "auto", None for a fixed window."""
        if self.bandwidth is None:
            return (None,)
        if isinstance(self.bandwidth, str):
            if self.bandwidth != "auto":
                raise ValueError(
                    'bandwidth must be a number, a decreasing sequence of numbers or "auto", '
                    f"got {self.bandwidth!r}."
                )
            return _STAGES
        values = np.atleast_1d(np.asarray(self.bandwidth, dtype=np.float64))
        if values.ndim != 1 or len(values) == 0:
            raise ValueError("bandwidth must hold at least one number.")
        for value in values:
            check_positive("bandwidth", float(value))
        if (np.diff(values) >= 0).any():
            raise ValueError(
                f"A schedule of bandwidths must decrease, got {values.tolist()}; start with the "
                "widest."
            )
        return tuple(values.tolist())

    def check(self) -> None:
        """Refuse what is no window, or no bandwidth of it."""
        if self.stages[0] is None:
            self._plain()
        else:
            self.of_bandwidth(1.0)

    def loss(self, stage: float | None, errors: Vector, rng: np.random.Generator) -> PairLoss:
        """Return the loss of a stage; with "auto" the bandwidth comes from the errors."""
        if stage is None:
            return self._plain()
        if isinstance(self.bandwidth, str):
            scale = pair_quartile(errors, rng)
            if scale == 0.0:
                # A quarter of the pairs agree exactly: the window need only see the others.
                spread = float(np.abs(errors - np.median(errors)).mean())
                scale = spread if spread > 0.0 else 1.0
            stage = stage * 1.06 * scale * len(errors) ** -0.2
        return self.of_bandwidth(stage)

    def of_bandwidth(self, bandwidth: float) -> PairLoss:
        """Return the loss of this bandwidth; NaN stands for a window without one."""
        loss = self._plain()
        if np.isnan(bandwidth):
            return loss
        if not any(field.name == "bandwidth" for field in dataclasses.fields(loss)):
            raise ValueError(
                f"{type(loss).__name__} has no field named bandwidth; set bandwidth=None."
            )
        return dataclasses.replace(loss, bandwidth=bandwidth)  # type: ignore[call-arg]

    def _plain(self) -> PairLoss:
        loss = WINDOWS.make(self.window)
        if loss.opposite_labels_only:
            raise ValueError(
                f"{type(loss).__name__} counts pairs of unequal labels by their order; a "
                "window is a PairLoss of (y - y_partner) - score with opposite_labels_only = False."
            )
        return loss


def stage_lengths(n_steps: int, n_stages: int) -> list[int]:
    """Return the steps of each stage: those before the last only prepare it, and share a half.

    >>> stage_lengths(90, 4), stage_lengths(90, 1)
    ([15, 15, 15, 45], [90])
    """
    early = n_steps // (2 * (n_stages - 1)) if n_stages > 1 else 0
    return [max(early, 1)] * (n_stages - 1) + [max(n_steps - early * (n_stages - 1), 1)]


@dataclass(frozen=True)
class StageTraining:
    """The parts of a run, and its step size or "auto"."""

    pairing: Pairing
    schedule: Schedule
    averaging: Averaging
    radius: float
    step_size: float | str

    def run(
        self,
        loss: PairLoss,
        rows: Rows,
        y: Vector,
        weight: Vector,
        w: Vector,
        n_steps: int,
        rng: np.random.Generator,
    ) -> tuple[Vector, float]:
        """Return the best model of a grid of step sizes, and its step size.

        The loss sees the difference of two errors only, so that starting from w is learning a
        correction, from zero, of the errors that w leaves.
        """
        errors = y - rows.scores(w)
        problem = Problem(LinearScore(), loss)

        def run(step_size: float) -> Vector:
            schedule, domain = self.schedule.scaled(step_size), ball_or_whole(self.radius)
            solver = PairwiseSGD(self.pairing, schedule, domain, self.averaging)
            weights = weight if len(weight) else None
            return solver.solve(
                problem, rows, errors, n_steps=n_steps, rng=rng, example_weight=weights
            ).average

        if self.step_size != "auto":
            given = check_positive("step_size", self.step_size)  # type: ignore[arg-type]
            return w + run(given), given
        n_choice = min(n_steps, _CHOICE_STEPS)
        # The best constant step is proportional to 1/sqrt(T) (Theorem 6a).
        shrink = float(np.sqrt(n_choice / n_steps)) if self.schedule.is_constant else 1.0
        unit = 1.0 / (shrink * mean_pair_distance(rows))
        steps = tuple(c * unit for c in _STEPS)
        radii = (self.radius,) * len(steps)
        models = Sweep(steps, radii, self.pairing, self.schedule, self.averaging).solve(
            problem, rows, errors, n_steps=n_choice, rng=rng, example_weight=weight
        )
        part, kept = rows, errors
        if len(weight) or len(y) > _JUDGED:
            judged = np.arange(len(y))[representatives(weight)]
            if len(judged) > _JUDGED:
                judged = rng.choice(judged, _JUDGED, replace=False)
            part, kept = rows.take(judged), errors[judged]
        seed = int(rng.integers(2**63))

        def risk(change: Vector) -> float:
            left = kept - part.scores(change)
            return pair_loss(loss, left, seed) if np.isfinite(left).all() else np.inf

        found = [
            (np.inf if lost else risk(change), change)
            for change, lost in zip(models.averages, models.diverged, strict=True)
        ]
        best = int(np.argmin([value for value, _ in found]))
        step_size = shrink * steps[best]
        if n_choice < n_steps and found[best][0] < np.inf:
            longer = run(step_size)
            found.append((risk(longer), longer))
        least, change = min(found, key=lambda one: one[0])
        return (w + change, step_size) if least < risk(np.zeros(len(w))) else (w, 0.0)
