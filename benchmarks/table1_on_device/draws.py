# SPDX-License-Identifier: BSD-3-Clause
"""The random indices of `pairlearn.kernels.plan`, bit for bit, as tensors.

The caller's generator gives one 64-bit key for each portion of a path. SplitMix64 of key and
counter gives the indices. Tensors have no unsigned integers, so products wrap around as signed
ones, and a shift to the right must clear the copies of the sign bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

Tensor = Any

#: As in `pairlearn.pairings.pairs`: up to this many examples, one number gives both indices.
ONE_NUMBER = 2**20

_STRIDE = 0x9E3779B97F4A7C15
_FIRST, _SECOND = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
_LOW = 0xFFFFFFFF


def _signed(bits: int) -> int:
    return bits - 2**64 if bits >= 2**63 else bits


def draw_keys(rng: np.random.Generator, count: int) -> np.ndarray[Any, Any]:
    """Return the keys of `count` portions, each from one draw of the generator."""
    # Numbers of the whole range take one draw each, whether alone or in a row.
    return rng.integers(0, 2**64, size=count, dtype=np.uint64).view(np.int64)


def draw_indices(
    keys: np.ndarray[Any, Any], portions: Sequence[int], n: int | Sequence[int], device: Any
) -> Tensor:
    """Return i.i.d. uniform indices below n < 2**32; `portions` has the number per key.

    `n` is one number, or one for each portion.
    """
    bits, below = _bits(keys, portions, device), _spread(n, portions, device)
    low = _shifted((bits & _LOW) * below, 32)
    return _shifted(_shifted(bits, 32) * below + low, 32)


def draw_pairs(
    keys: np.ndarray[Any, Any], portions: Sequence[int], n: int | Sequence[int], device: Any
) -> tuple[Tensor, Tensor]:
    """Return uniform pairs of distinct indices below n <= 2**20, `portions` many per key."""
    bits, below = _bits(keys, portions, device), _spread(n, portions, device)
    left = _shifted(_shifted(bits, 24) * below, 40)
    right = _shifted(_shifted(bits * below, 24) * (below - 1), 40)
    return left, right + (right >= left)


def _spread(n: int | Sequence[int], portions: Sequence[int], device: Any) -> Any:
    """Return the number of examples at each step, one number if it is the same."""
    if isinstance(n, int) or len(set(n)) == 1:
        return n if isinstance(n, int) else n[0]
    lengths = torch.tensor(list(portions), device=device)
    numbers = torch.tensor(list(n), device=device)
    return torch.repeat_interleave(numbers, lengths, output_size=int(sum(portions)))


def _bits(keys: np.ndarray[Any, Any], portions: Sequence[int], device: Any) -> Tensor:
    """Return 64 random bits for each step, from the counters 1, 2, ... of each portion."""
    lengths = torch.tensor(list(portions), device=device)
    ends = torch.cumsum(lengths, 0)
    n_steps = int(sum(portions))
    # SplitMix64 starts at key + counter * stride, and the counter begins anew in each portion.
    starts = torch.from_numpy(np.ascontiguousarray(keys)).to(device)
    starts = starts - (ends - lengths) * _signed(_STRIDE)
    z = torch.arange(1, n_steps + 1, device=device) * _signed(_STRIDE)
    z += torch.repeat_interleave(starts, lengths, output_size=n_steps)
    z = (z ^ _shifted(z, 30)) * _signed(_FIRST)
    z = (z ^ _shifted(z, 27)) * _signed(_SECOND)
    return z ^ _shifted(z, 31)


def _shifted(z: Tensor, count: int) -> Tensor:
    return (z >> count) & ((1 << (64 - count)) - 1)
