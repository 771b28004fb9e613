# SPDX-License-Identifier: BSD-3-Clause
"""Translate the parts of a sweep to the arguments of the kernels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from benchmarks.table1_on_device.draws import ONE_NUMBER, draw_indices, draw_keys, draw_pairs
from benchmarks.table1_on_device.pairs import LOSSES as BUILT_IN
from benchmarks.table1_on_device.pairs import descend
from benchmarks.table1_on_device.paths import Path, in_groups, pack
from pairlearn.averaging import Averaging
from pairlearn.losses import LOSSES, PairLoss
from pairlearn.pairings import Pairing, Plan, PreviousExample, RandomPair
from pairlearn.pairings.sound import sound_source
from pairlearn.schedules import Schedule
from pairlearn.solvers.block_sizes import BLOCK
from pairlearn.solvers.iterates import iterate_weights
from pairlearn.typing import Vector

Tensor = Any


def check_built_in(loss: PairLoss) -> None:
    """Refuse a loss that the device has no code for."""
    name = type(loss).__name__
    if name not in BUILT_IN or LOSSES.types[name] is not type(loss):
        raise ValueError(
            f"{loss!r} is not built into the device's kernel, which has {', '.join(BUILT_IN)}."
        )


@dataclass(frozen=True)
class Rule:
    """Schedule and averaging over a number of steps, as the kernel reads them.

    The step size at step t is `scale` times `factors[t - 1]` (1 if None) times the step size of the
    model; `shares` are the weights of w_0, ..., w_T.
    """

    scale: float
    factors: Vector | None
    shares: Vector

    @classmethod
    def of(cls, schedule: Schedule, averaging: Averaging, n_steps: int) -> Rule:
        """Return the rule of these parts."""
        shares = iterate_weights(averaging, schedule, n_steps)
        if schedule.is_constant:
            return cls(float(schedule.step_sizes(1, 1)[0]), None, shares)
        return cls(1.0, schedule.step_sizes(1, n_steps), shares)


def portions_of(n_steps: int, pauses: Sequence[int] = ()) -> list[int]:
    """Return the portions in which solvers draw a path; each has its own generator key."""
    portions, done = [], 0
    for stop in (*pauses, n_steps):
        while done < stop:
            portions.append(min(BLOCK, stop - done))
            done += portions[-1]
    return portions


@dataclass(frozen=True)
class Draw:
    """What one path is drawn from: n examples with labels `y`, in portions, by a generator."""

    n: int
    portions: Sequence[int]
    rng: np.random.Generator
    y: Vector


def draw_plans(pairing: Pairing, draws: Sequence[Draw], device: Any) -> list[tuple[Tensor, Tensor]]:
    """Return the left and right example of each step of each path, the same pairs as on the CPU."""
    plans: list[tuple[Tensor, Tensor]] = []
    for begin, end in in_groups([sum(draw.portions) for draw in draws]):
        plans += _drawn_together(pairing, draws[begin:end], device)
    return plans


def _drawn_together(
    pairing: Pairing, draws: Sequence[Draw], device: Any
) -> list[tuple[Tensor, Tensor]]:
    previous = type(pairing) is PreviousExample
    if previous or (type(pairing) is RandomPair and max(draw.n for draw in draws) <= ONE_NUMBER):
        # The previous example of the first step is a portion of its own.
        portions = [[1, *draw.portions] if previous else list(draw.portions) for draw in draws]
        keys = np.concatenate(
            [draw_keys(draw.rng, len(own)) for draw, own in zip(draws, portions, strict=True)]
        )
        numbers = [draw.n for draw, own in zip(draws, portions, strict=True) for _ in own]
        every = [length for own in portions for length in own]
        lengths = [sum(own) for own in portions]
        if previous:
            paths = torch.split(draw_indices(keys, every, numbers, device), lengths)
            return [(path[1:], path[:-1]) for path in paths]
        sides = draw_pairs(keys, every, numbers, device)
        return list(zip(*(torch.split(side, lengths) for side in sides), strict=True))
    return [_drawn_on_the_cpu(pairing, draw, device) for draw in draws]


def _drawn_on_the_cpu(pairing: Pairing, draw: Draw, device: Any) -> tuple[Tensor, Tensor]:
    source = sound_source(pairing, draw.n, draw.rng, draw.y)
    plans = [source.draw(count) for count in draw.portions]
    if not all(isinstance(plan, Plan) for plan in plans):
        raise ValueError("A sweep takes one pair at a step; use PreviousExample().")
    left, right = (
        np.concatenate([getattr(plan, side) for plan in plans]).astype(np.int64)
        for side in ("left", "right")
    )
    return torch.from_numpy(left).to(device), torch.from_numpy(right).to(device)


def row_of(values: Sequence[float], rule: Rule, device: Any) -> Tensor:
    """Return the step sizes of the models on one path."""
    return torch.tensor([rule.scale * value for value in values], dtype=torch.float32).to(device)


def sweep_paths(
    X: Tensor,
    y: Tensor,
    paths: Sequence[Path],
    loss: PairLoss,
    *,
    step_sizes: Tensor,
    radii: Tensor,
    scales: Tensor = None,
) -> tuple[Tensor, Tensor, int]:
    """Train all models on their paths.

    Returns averages (float64), last iterates and the number of gradients on the longest path. A
    model that diverged has a NaN average.
    """
    check_built_in(loss)
    packed = pack(paths, y, one_sided=loss.one_sided)
    averages, W = descend(
        X,
        packed,
        step_sizes=step_sizes,
        radii=radii,
        loss=type(loss).__name__,
        margin=loss.parameter,
        scales=scales,
    )
    finite = torch.isfinite(averages).all(-1) & torch.isfinite(W).all(-1)
    averages[~finite] = math.nan
    return averages, W, packed.longest
