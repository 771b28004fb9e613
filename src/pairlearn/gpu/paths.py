# SPDX-License-Identifier: BSD-3-Clause
"""Sample paths on the device: the active pairs, and the weight of each iterate in the average.

A pair of equal labels changes nothing, so paths keep the active pairs only, the larger label first.
Between two active pairs the iterate stands still; its weight is the sum over these steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from pairlearn.typing import Vector

Tensor = Any

#: Programs load indices this many pairs ahead.
_AHEAD = 2


@dataclass(frozen=True)
class Path:
    """The pairs of one path, as rows of the table that all paths share.

    `shares` are the weights of w_0, ..., w_T in the average. `factors` multiply the step sizes;
    None means 1.
    """

    left: Tensor
    right: Tensor
    shares: Vector
    factors: Tensor = None


@dataclass(frozen=True)
class Paths:
    """Many paths in the layout of the kernel.

    `counts` are the numbers of active pairs, `longest` is the largest of them, and `last` is the
    weight of the last iterate.
    """

    first: Tensor
    second: Tensor
    shares: Tensor
    last: Tensor
    counts: Tensor
    longest: int
    factors: Tensor = None

    def __len__(self) -> int:
        return len(self.counts)


def pack(paths: Sequence[Path], y: Tensor, *, one_sided: bool = False) -> Paths:
    """Return the active pairs of all paths among examples with labels `y`."""
    device = y.device
    kept = [_active(path, y, one_sided) for path in paths]
    counts = [len(steps) for steps, _, _ in kept]
    room = (len(paths), max(counts) + _AHEAD)
    first = torch.zeros(room, dtype=torch.int32, device=device)
    second = torch.zeros_like(first)
    shares = torch.zeros(room, dtype=torch.float32, device=device)
    last = torch.zeros(len(paths), dtype=torch.float64, device=device)
    uneven = any(path.factors is not None for path in paths)
    factors = torch.ones(room, dtype=torch.float32, device=device) if uneven else None
    known: dict[int, Tensor] = {}
    for row, (path, (steps, high, low)) in enumerate(zip(paths, kept, strict=True)):
        count = counts[row]
        first[row, :count], second[row, :count] = high, low
        if id(path.shares) not in known:
            known[id(path.shares)] = torch.from_numpy(np.cumsum(path.shares)).to(device)
        so_far = known[id(path.shares)]
        # Step t = 1, 2, ... leaves w_{t-1}.
        paid = so_far[steps]
        shares[row, :count] = torch.diff(paid, prepend=paid.new_zeros(1)).float()
        last[row] = so_far[-1] - (paid[-1] if count else 0.0)
        if factors is not None and path.factors is not None:
            factors[row, :count] = path.factors[steps].float()
    counted = torch.tensor(counts, device=device)
    return Paths(first, second, shares, last, counted, max(counts), factors)


def _active(path: Path, y: Tensor, one_sided: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Return the steps with active pairs, and their rows, the larger label first."""
    of_left, of_right = y[path.left], y[path.right]
    active = of_left > of_right if one_sided else of_left != of_right
    steps = torch.nonzero(active)[:, 0]
    left, right, in_order = path.left[steps], path.right[steps], (of_left > of_right)[steps]
    return steps, torch.where(in_order, left, right), torch.where(in_order, right, left)
