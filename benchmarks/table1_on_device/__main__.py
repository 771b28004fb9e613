# SPDX-License-Identifier: BSD-3-Clause
"""The paper's tables of test AUC on a GPU: ``python -m benchmarks.table1_on_device``.

Needs the extra `torch`, Triton and a CUDA device. The rows ``ours``, ``sgd-pair`` and ``spauc`` are
those of ``pairlearn reproduce table1``; the other methods keep buffers and run on the CPU only.
"""

from __future__ import annotations

import argparse
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.table1_on_device.device import DeviceError, find_device
from benchmarks.table1_on_device.reading import by_size, reading
from pairlearn.data import PAPER_SETS, lookup
from pairlearn.experiments.comparison.tables import auc_rows
from pairlearn.experiments.methods.table import TABLE
from pairlearn.experiments.paper.auc_tables import unpublished
from pairlearn.experiments.paper.outcome import Settings, Shelf
from pairlearn.experiments.published import beside, published_table
from pairlearn.experiments.report.comparison import beside_table
from pairlearn.shown import text_table


def device_table(name: str, settings: Settings, shelf: Shelf, device: Any) -> str:
    """Train every split, fold and candidate at once; return the table beside the paper's.

    Parameters
    ----------
    name : str
        "table1" or "table-rs1".
    settings : Settings
        As `pairlearn reproduce` takes them; nothing is stored.
    shelf : Shelf
        Where the data sets come from.
    device : torch.device
        Where to train.

    Returns
    -------
    str
        The text for the terminal.
    """
    from benchmarks.table1_on_device.fits import compare_on_device, runs_on_device
    from benchmarks.table1_on_device.warming import compile_beside

    table = published_table(name)
    methods = settings.chosen([TABLE[row] for row in table.rows])
    able = [method for method in methods if runs_on_device(method)]
    unable = [method.name for method in methods if method not in able]
    if not able or (unable and settings.methods):
        raise ValueError(
            f"{', '.join(unable or settings.methods)} cannot run on a device, which takes one pair "
            f"a step or SPAUC; use `pairlearn reproduce {name}`."
        )
    n_splits = settings.splits(25)
    if device.type == "cuda":
        compile_beside(
            sorted({lookup(name).d for name in settings.datasets or PAPER_SETS}), able, device
        )
    comparison, times = compare_on_device(
        shelf.take(by_size(PAPER_SETS)),
        able,
        device=device,
        n_splits=n_splits,
        seed=settings.seed,
        protocol=settings.rules,
    )
    if not comparison.datasets:
        raise ValueError(
            f"no data set is at hand ({'; '.join(shelf.missing.values())}); name a folder of them "
            "in PAIRLEARN_DATA."
        )
    remarks = [
        f"{n_splits} splits, protocol {settings.protocol}, seed {settings.seed}: splits, folds and "
        "sample paths are those of the CPU, pairs are trained in float32. Nothing is stored."
    ]
    if unable:
        remarks.append(
            f"Left out, since a device takes one pair a step: {', '.join(unable)}. "
            f"`pairlearn reproduce {name}` runs them."
        )
    if settings.quick:
        remarks.append("Quick: parts of the data and few splits; a look, not a result.")
    found = beside(
        table,
        {(row.method, row.dataset): (row.auc.mean, row.auc.sd) for row in auc_rows(comparison)},
    )
    rows = [[t.method, t.dataset, f"{t.tuning:.2f}", f"{t.training:.2f}"] for t in times]
    for method in able:
        own = [t for t in times if t.method == method.name]
        sums = (sum(t.tuning for t in own), sum(t.training for t in own))
        rows.append([method.name, "all", f"{sums[0]:.2f}", f"{sums[1]:.2f}"])
    blocks = [
        f"{name}: {table.caption} ({table.where})",
        *(textwrap.fill(remark, 100) for remark in remarks),
        beside_table(found).text if found else "",
        *(table.text for table in unpublished(comparison, found)),
        text_table(("method", "data set", "tuning s", "training s"), rows),
    ]
    return "\n".join(block for block in blocks if block)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables; return 1 if one cannot be had."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.table1_on_device", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("names", nargs="*", default=["table1"], metavar="table1|table-rs1")
    parser.add_argument("--quick", action="store_true", help="parts of the data, few splits")
    parser.add_argument("--splits", type=int, help="splits; 25 as in the paper")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--data", default="", help="other data sets: A,B,...")
    parser.add_argument("--methods", default="", help="only these methods: A,B,...")
    options = parser.parse_args(arguments)
    settings = Settings(
        store=Path(),
        quick=options.quick,
        n_splits=options.splits,
        seed=options.seed,
        datasets=tuple(filter(None, options.data.split(","))),
        methods=tuple(filter(None, options.methods.split(","))),
    )
    try:
        with reading(settings.datasets or PAPER_SETS) as loader:
            shelf = Shelf(settings, loader)
            device = find_device()
            for name in options.names:
                print(device_table(name, settings, shelf, device), flush=True)
    except (DeviceError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    for line in shelf.missing.items():
        print("missing: {}: {}".format(*line), file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
