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

#: Programs load indices this many pairs ahead at most.
_AHEAD = 5
#: Steps that are looked at together: many for few launches, not so many that memory runs out.
_TOGETHER = 2**24


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
    groups = [paths[begin:end] for begin, end in in_groups([len(path.left) for path in paths])]
    found = [_active(group, y, one_sided) for group in groups]
    counts = torch.cat([part.counts for part in found])
    longest = int(counts.max())
    room = (len(paths), longest + _AHEAD)
    first = torch.zeros(room, dtype=torch.int32, device=device)
    second = torch.zeros_like(first)
    shares = torch.zeros(room, dtype=torch.float32, device=device)
    last = torch.zeros(len(paths), dtype=torch.float64, device=device)
    uneven = any(path.factors is not None for path in paths)
    factors = torch.ones(room, dtype=torch.float32, device=device) if uneven else None
    begin = 0
    for group, part in zip(groups, found, strict=True):
        here = (begin + part.row) * room[1] + part.rank
        first.view(-1)[here], second.view(-1)[here] = part.high, part.low
        weights, last[begin : begin + len(group)] = _weights(group, part)
        shares.view(-1)[here] = weights.float()
        if factors is not None:
            factors.view(-1)[here] = _factors(group)[part.flat].float()
        begin += len(group)
    return Paths(first, second, shares, last, counts, longest, factors)


def in_groups(lengths: Sequence[int]) -> list[tuple[int, int]]:
    """Return the begin and end of groups of neighbours that are not too long together."""
    groups, begin, total = [], 0, 0
    for k, length in enumerate(lengths):
        if k > begin and total + length > _TOGETHER:
            groups.append((begin, k))
            begin, total = k, 0
        total += length
    return [*groups, (begin, len(lengths))]


@dataclass(frozen=True)
class _Active:
    """The active pairs of some paths, one after the other.

    `flat` is the place of a pair among all steps, `row` its path, `step` its step there and `rank`
    its place among the active pairs of the path; `high` has the larger label.
    """

    flat: Tensor
    row: Tensor
    step: Tensor
    rank: Tensor
    high: Tensor
    low: Tensor
    counts: Tensor


def _active(paths: Sequence[Path], y: Tensor, one_sided: bool) -> _Active:
    """Return the steps with active pairs, and their examples, the larger label first."""
    left = torch.cat([path.left for path in paths])
    right = torch.cat([path.right for path in paths])
    of_left, of_right = y[left], y[right]
    active = of_left > of_right if one_sided else of_left != of_right
    flat = torch.nonzero(active)[:, 0]
    lengths = torch.tensor([len(path.left) for path in paths], device=y.device)
    ends = torch.cumsum(lengths, 0)
    row = torch.searchsorted(ends, flat, right=True)
    counts = torch.bincount(row, minlength=len(paths))
    rank = torch.arange(len(flat), device=y.device) - (torch.cumsum(counts, 0) - counts)[row]
    left, right, in_order = left[flat], right[flat], (of_left > of_right)[flat]
    high, low = torch.where(in_order, left, right), torch.where(in_order, right, left)
    step = flat - (ends - lengths)[row]
    return _Active(flat, row, step, rank, high.int(), low.int(), counts)


def _weights(paths: Sequence[Path], part: _Active) -> tuple[Tensor, Tensor]:
    """Return the weight of the iterate before each active pair, and of each last iterate."""
    device = part.row.device
    begins: dict[int, int] = {}
    tables, size = [], 0
    for path in paths:
        # Paths of equal length share their weights.
        if id(path.shares) not in begins:
            begins[id(path.shares)] = size
            tables.append(np.cumsum(path.shares))
            size += len(path.shares)
    so_far = torch.from_numpy(np.concatenate(tables)).to(device)
    begin = torch.tensor([begins[id(path.shares)] for path in paths], device=device)
    last = torch.tensor([len(path.shares) - 1 for path in paths], device=device)
    # Step t = 1, 2, ... leaves w_{t-1}.
    paid = so_far[begin[part.row] + part.step]
    before = torch.where(part.rank > 0, torch.roll(paid, 1), 0.0)
    ends = torch.cumsum(part.counts, 0) - 1
    settled = paid.new_zeros(len(paths))
    some = part.counts > 0
    settled[some] = paid[ends[some]]
    return paid - before, so_far[begin + last] - settled


def _factors(paths: Sequence[Path]) -> Tensor:
    """Return the factors of the step sizes, path by path."""
    return torch.cat(
        [
            torch.ones(len(path.left), dtype=torch.float64, device=path.left.device)
            if path.factors is None
            else path.factors
            for path in paths
        ]
    )
