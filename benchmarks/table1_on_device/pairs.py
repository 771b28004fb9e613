# SPDX-License-Identifier: BSD-3-Clause
"""Pairwise SGD for many models on many paths, in one launch."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import triton

from benchmarks.table1_on_device.pair_kernel import descend_pairs
from benchmarks.table1_on_device.paths import Paths

Tensor = Any

#: Losses built into the kernel, by class name.
LOSSES = {"Hinge": 0, "SquaredHinge": 1, "Square": 2, "Logistic": 3}
#: Steps per launch; after each launch the float32 sums are added to float64 totals.
_LAUNCH = 8192
#: Steps between two computations of the norm from scratch, which remove rounding errors.
_CHUNK = 512


class Tile(NamedTuple):
    """The models of one program, and the number of its warps."""

    models: int
    warps: int


def tile_for(d: int) -> Tile:
    """Return the tile for d features, the best or nearly the best of those tried on an H200.

    A step waits for its own sum, so many small programs hide more latency than few large ones. A
    warp holds up to 1,024 numbers of an iterate.
    """
    width = width_of(d)
    if width >= 4096:
        return Tile(1, width // 512)
    if width <= 64:
        return Tile(8, 1)
    return Tile(4 if width == 1024 else 2, max(1, width // 512))


def width_of(d: int, least: int = 8) -> int:
    """Return the number of columns of a program: a power of two."""
    return max(least, 1 << (d - 1).bit_length())


def ahead_for(d: int) -> int:
    """Return how many pairs ahead rows are loaded; wide rows have no registers to wait in."""
    return 3 if width_of(d) <= 64 else 1


def descend(
    X: Tensor,
    paths: Paths,
    *,
    step_sizes: Tensor,
    radii: Tensor,
    loss: str,
    margin: float = 1.0,
    scales: Tensor = None,
    tile: Tile | None = None,
) -> tuple[Tensor, Tensor]:
    """Train all models on their paths.

    `X` is contiguous float32. Step sizes, radii (infinity allowed) and results have a row for each
    path and a column for each model; `scales` has a row of factors of the features for each path.
    Returns the averages (float64) and the last iterates (float32); both hold NaN or infinity for a
    model that diverged.
    """
    (n_paths, n_models), d = step_sizes.shape, X.shape[1]
    models, warps = tile_for(d) if tile is None else tile
    W = torch.zeros((n_paths, n_models, d), dtype=torch.float32, device=X.device)
    totals = torch.zeros(W.shape, dtype=torch.float64, device=X.device)
    has_ball = bool(torch.isfinite(radii).any())
    for begin in range(0, paths.longest, _LAUNCH):
        descend_pairs[(triton.cdiv(n_models, models), n_paths)](
            X,
            X if scales is None else scales,
            paths.first,
            paths.second,
            paths.shares if paths.factors is None else paths.factors,
            paths.shares,
            paths.counts,
            step_sizes,
            radii,
            W,
            totals,
            n_models,
            d,
            paths.first.stride(0),
            begin,
            begin + _LAUNCH,
            margin,
            LOSS=LOSSES[loss],
            BALL=has_ball,
            EVEN_STEPS=paths.factors is None,
            SCALED=scales is not None,
            BK=models,
            BD=width_of(d),
            CHUNK=_CHUNK,
            AHEAD=ahead_for(d),
            num_warps=warps,
        )
    totals += paths.last[:, None, None] * W
    return totals, W
