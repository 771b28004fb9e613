# SPDX-License-Identifier: BSD-3-Clause
"""Many models on many paths on one graphics processor; the bars are seconds on one H200.

The rival of each row is what it may take. The table needs the paper's data sets, see
PAIRLEARN_DATA; its first row holds compilation too.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks import samples
from benchmarks.report import Effort, Row, UnavailableError

#: Features, steps and seconds that 125 paths of 49 models may take.
SWEEPS = ((8, 500_000, 0.12), (22, 500_000, 0.12), (256, 300_000, 0.4), (780, 300_000, 1.0))
#: Methods of table 1 and seconds that they may take on all six sets together.
TABLES = ((("ours",), 4.0), (("ours", "sgd-pair", "spauc"), 14.0))
N_PATHS = 125
GRID = [(10.0**a, 10.0**b) for a in range(-3, 4) for b in range(-3, 4)]


def find_cuda() -> Any:
    """Return the device, or say why there is none."""
    from pairlearn.gpu import DeviceError, find_device

    try:
        device = find_device("cuda")
    except DeviceError as error:
        raise UnavailableError(str(error)) from error
    if device.type != "cuda":
        raise UnavailableError("TRITON_INTERPRET is set, which runs the kernels on the CPU.")
    return device


def run(effort: Effort) -> list[Row]:
    """Measure the sweep, and the table if its data sets are here."""
    device = find_cuda()
    rows = [sweep(*size, effort, device) for size in SWEEPS]
    datasets = paper_sets()
    return rows + (table(datasets, device) if datasets and not effort.quick else [])


def sweep(d: int, n_steps: int, allowed: float, effort: Effort, device: Any) -> Row:
    """Measure 125 paths x 49 models from their keys to their averages."""
    import torch

    from pairlearn import Constant, Hinge, PreviousExample
    from pairlearn.averaging import DelayedByStepSize
    from pairlearn.gpu.paths import Path
    from pairlearn.solvers.descent.sweep_gpu import (
        Draw,
        Rule,
        draw_plans,
        portions_of,
        row_of,
        sweep_paths,
    )

    X, y = samples.dense(20_000, d, positives=0.1 if d == 22 else 0.5)
    rows = torch.from_numpy(X.astype(np.float32)).to(device)
    labels = torch.from_numpy(y).to(device)
    rule = Rule.of(Constant(1.0 / np.sqrt(n_steps)), DelayedByStepSize(), n_steps)
    sizes = row_of([step for step, _ in GRID], rule, device).repeat(N_PATHS, 1)
    radii = torch.tensor([[r for _, r in GRID]] * N_PATHS, dtype=torch.float32).to(device)

    def once() -> float:
        rng = np.random.default_rng(0)
        torch.cuda.synchronize()
        begin = time.perf_counter()
        draws = [Draw(len(y), portions_of(n_steps), rng, y) for _ in range(N_PATHS)]
        plans = draw_plans(PreviousExample(), draws, device)
        paths = [Path(left, right, rule.shares) for left, right in plans]
        sweep_paths(rows, labels, paths, Hinge(), step_sizes=sizes, radii=radii)
        torch.cuda.synchronize()
        return time.perf_counter() - begin

    once()
    best = min(once() for _ in range(effort.pick(1, 3)))
    name = f"GPU: {N_PATHS} paths x {len(GRID)} models x {n_steps:,} steps d={d}, against allowed"
    return Row(name, best, allowed, "s", 1, 2)


def paper_sets() -> list[Any]:
    """Return the paper's data sets if all of them are here."""
    from pairlearn.data import PAPER_SETS, DataError, load

    try:
        return [load(name) for name in PAPER_SETS]
    except DataError:
        return []


def table(datasets: Sequence[Any], device: Any) -> list[Row]:
    """Measure the whole protocol of table 1, data loaded: all splits, folds and candidates."""
    from benchmarks.table1_on_device.fits import compare_on_device
    from pairlearn.experiments.methods.table import TABLE

    rows = []
    for names, allowed in TABLES:
        begin = time.perf_counter()
        methods: list[Any] = [TABLE[name] for name in names]
        compare_on_device(datasets, methods, device=device, n_splits=25)
        seconds = time.perf_counter() - begin
        name = f"GPU: table 1, {', '.join(names)}, {len(datasets)} sets, against allowed"
        rows.append(Row(name, seconds, allowed, "s", 1, 2))
    return rows
