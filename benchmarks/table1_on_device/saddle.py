# SPDX-License-Identifier: BSD-3-Clause
"""Run SPAUC with many step sizes on many paths, in one launch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import triton

from benchmarks.table1_on_device.pairs import Tile, width_of
from benchmarks.table1_on_device.saddle_kernel import descend_spauc
from pairlearn.typing import Vector

__all__ = ["descend_saddle"]

Tensor = Any


def descend_saddle(
    X: Tensor,
    positive: Tensor,
    paths: Sequence[Tensor],
    *,
    step_sizes: Tensor,
    shape: Vector,
    shares: Sequence[Vector],
    scales: Tensor,
    tile: Tile | None = None,
) -> Tensor:
    """Train all models on their paths, without a ball; class means are estimated on the way.

    Parameters
    ----------
    X : tensor of float32, shape (n, d)
        Examples, contiguous.
    positive : tensor of bool, shape (n,)
        Which examples are positive.
    paths : sequence of tensors
        One per path: the example of each step.
    step_sizes : tensor of float64, shape (n_paths, n_models)
        The step size of each model.
    shape : ndarray
        The factor of the step sizes at step t = 1, 2, ..., at least as long as the longest path.
    shares : sequence of ndarray
        One per path: the weights of w_0, ..., w_T in the average.
    scales : tensor of float64, shape (n_paths, d)
        Factors of the features, a row for each path.
    tile : Tile, optional
        Models and warps of a program.

    Returns
    -------
    tensor of float64, shape (n_paths, n_models, d)
        The averages; NaN or infinity for a model that diverged.
    """
    (n_paths, n_models), d, device = step_sizes.shape, X.shape[1], X.device
    counts = [len(path) for path in paths]
    # The kernel loads examples this many steps ahead.
    room = (n_paths, max(counts) + 4)
    packed = torch.zeros(room, dtype=torch.int32, device=device)
    for row, path in enumerate(paths):
        packed[row, : len(path)] = path
    labels = positive[packed]
    entries, near, far = _rates(labels, torch.from_numpy(shape).to(device))
    # Paths of equal length share their weights.
    rules = {count: row for row, count in enumerate(dict.fromkeys(counts))}
    weights = torch.zeros((len(rules), max(counts) + 1), dtype=torch.float64, device=device)
    for count, share in zip(counts, shares, strict=True):
        weights[rules[count], : count + 1] = torch.from_numpy(share).to(device)
    width = width_of(d, 32)
    models, warps = tile_for_saddle(width) if tile is None else tile
    averages = torch.empty((n_paths, n_models, d), dtype=torch.float64, device=device)
    descend_spauc[(triton.cdiv(n_models, models), n_paths)](
        X,
        labels.to(torch.int8),
        scales,
        packed,
        entries,
        near,
        far,
        weights,
        torch.tensor([rules[count] for count in counts], device=device),
        torch.tensor(counts, device=device),
        step_sizes,
        averages,
        n_models,
        d,
        packed.stride(0),
        weights.stride(0),
        BK=models,
        BD=width,
        num_warps=warps,
    )
    return averages


def tile_for_saddle(width: int) -> Tile:
    """Return the tile for so many columns, the best or nearly the best of those tried on an H200.

    The class means are the same for all models of a path, so a program of narrow rows has two. The
    iterate and the average of wide rows fill the registers.
    """
    return Tile(2, 1) if width <= 128 else Tile(1, max(2, width // 256))


def _rates(labels: Tensor, shape: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return what each step of each path needs beside its example, from the labels of the paths.

    With n examples of the own class so far and the share p of positives: 1 / n, then the step size
    times 1 - p or p (that of the other class), and the step size times p (1 - p).
    """
    n_positive = torch.cumsum(labels, 1).double()
    n_all = torch.arange(1, labels.shape[1] + 1, dtype=torch.float64, device=labels.device)
    p = n_positive / n_all
    n_own = torch.where(labels, n_positive, n_all - n_positive)
    # Nothing moves before both classes have been seen.
    begun = (n_positive > 0) & (n_positive < n_all)
    steps = torch.zeros_like(n_all)
    steps[: len(shape)] = shape[: len(steps)]
    steps = torch.where(begun, steps, 0.0)
    return 1.0 / n_own, steps * torch.where(labels, 1.0 - p, p), steps * p * (1.0 - p)
