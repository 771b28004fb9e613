# SPDX-License-Identifier: BSD-3-Clause
"""How far the sweep of a GPU is from what the device can do; part of ``--only roofline``.

A step of one model needs 2 d operations for the score, 2 d for the step and 2 d for the average;
the two rows of a step are read once for all models of its path. A plain Triton kernel multiplies
and adds in registers, and torch copies memory: the limit is the longer of the two times.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import triton
import triton.language as tl

from benchmarks import samples
from benchmarks.gpu import GRID, N_PATHS
from benchmarks.report import Effort, Row

#: Features and steps of the sweeps.
SIZES = ((22, 500_000), (256, 300_000), (780, 300_000))
_PROGRAMS, _ROUNDS, _WIDTH = 132 * 16, 4096, 1024


@triton.jit
def _multiply(OUT, rounds, WIDTH: tl.constexpr):
    """Multiply and add in registers: 8 operations on each number in a round."""
    x = tl.arange(0, WIDTH).to(tl.float32)
    a, b, c, e = x, x + 1.0, x + 2.0, x + 3.0
    for _ in range(rounds):
        a = a * 0.999 + 0.001
        b = b * 0.999 + 0.002
        c = c * 0.999 + 0.003
        e = e * 0.999 + 0.004
    tl.store(OUT + tl.program_id(0) * WIDTH + tl.arange(0, WIDTH), a + b + c + e)


def run(effort: Effort, device: Any) -> list[Row]:
    """Compare sweeps with the nearer limit of the device."""
    import torch

    out = torch.empty(_PROGRAMS * _WIDTH, device=device)
    seconds = _best(lambda: _multiply[(_PROGRAMS,)](out, _ROUNDS, WIDTH=_WIDTH, num_warps=8))
    operations = 8.0 * _PROGRAMS * _ROUNDS * _WIDTH / seconds
    here = torch.ones(2**29, device=device)
    there = torch.empty_like(here)
    bandwidth = 8.0 * len(here) / _best(lambda: there.copy_(here))
    return [_row(d, n_steps, operations, bandwidth, device) for d, n_steps in SIZES]


def _row(d: int, n_steps: int, operations: float, bandwidth: float, device: Any) -> Row:
    """Return the time of one step of one model beside its limit; drawing is not counted."""
    import torch

    from pairlearn import Constant, Hinge, PreviousExample
    from pairlearn.averaging import DelayedByStepSize
    from pairlearn.gpu.pairs import descend
    from pairlearn.gpu.paths import Path, pack
    from pairlearn.solvers.descent.sweep_gpu import Draw, Rule, draw_plans, portions_of, row_of

    X, y = samples.dense(20_000, d, positives=0.5)
    rows = torch.from_numpy(X.astype(np.float32)).to(device)
    rule = Rule.of(Constant(1.0 / np.sqrt(n_steps)), DelayedByStepSize(), n_steps)
    rng = np.random.default_rng(0)
    draws = [Draw(len(y), portions_of(n_steps), rng, y) for _ in range(N_PATHS)]
    plans = draw_plans(PreviousExample(), draws, device)
    paths = [Path(left, right, rule.shares) for left, right in plans]
    packed = pack(paths, torch.from_numpy(y).to(device))
    sizes = row_of([step for step, _ in GRID], rule, device).repeat(N_PATHS, 1)
    radii = torch.tensor([[r for _, r in GRID]] * N_PATHS, dtype=torch.float32).to(device)
    seconds = _best(
        lambda: descend(rows, packed, step_sizes=sizes, radii=radii, loss=Hinge.__name__)
    )
    n_units = float(packed.counts.sum()) * len(GRID)
    by_operations, by_bytes = 6.0 * d / operations, 8.0 * d / len(GRID) / bandwidth
    nearer = "bytes" if by_bytes >= by_operations else "operations"
    return Row(
        f"GPU sweep d={d}: {6 * d} operations at {operations / 1e12:.1f} T/s, copy "
        f"{bandwidth / 1e12:.1f} TB/s; limit of {nearer} / ours",
        1e12 * seconds / n_units, 1e12 * max(by_operations, by_bytes), "ps", 0.6, 0.8,
    )  # fmt: skip


def _best(work: Any) -> float:
    """Return the shortest of three times of some work on the device, in seconds."""
    import torch

    work()
    times = []
    for _ in range(3):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        work()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - begin)
    return min(times)
