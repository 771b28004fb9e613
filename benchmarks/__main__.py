# SPDX-License-Identifier: BSD-3-Clause
"""Run the benchmarks, print a table, write JSON."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.report import Effort, Row, UnavailableError, describe_machine, table

#: One file each, in the order in which they run.
NAMES = (
    "dense",
    "native",
    "fit",
    "doors",
    "sparse",
    "sweep",
    "features",
    "moments",
    "streaming",
    "readers",
    "files",
    "river",
    "vowpal_wabbit",
    "startup",
    "rivals",
    "authors",
    "distributed",
    "roofline",
    "growth",
)
#: "files" needs long files: choosing a step size takes as long as tens of thousands of rows;
#: "distributed" starts clusters; "growth" takes minutes.
QUICK = tuple(name for name in NAMES if name not in ("files", "distributed", "growth"))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the command line asks for; return 0 unless a benchmark broke."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="smaller data and fewer rounds")
    parser.add_argument("--json", metavar="FILE", type=Path, help="also write the rows as JSON")
    parser.add_argument(
        "--only", metavar="NAME", action="append", choices=NAMES, help=f"one of {', '.join(NAMES)}"
    )
    parser.add_argument(
        "--strict", action="store_true", help="exit with 1 if a ratio is below its bar"
    )
    parser.add_argument(
        "--against",
        metavar="COMMIT",
        help="run these benchmarks of that commit too, in a folder of its own, by turns with ours, "
        "and print how our times changed; with --strict exit with 1 if a row became slower",
    )
    parser.add_argument(
        "--rounds", metavar="N", type=int, default=2, help="rounds of --against (default 2)"
    )
    options = parser.parse_args(arguments)

    from rich.console import Console
    from rich.markup import escape
    from threadpoolctl import threadpool_limits

    console = Console(width=None if sys.stdout.isatty() else 120)
    if options.rounds < 1:
        parser.error(f"--rounds must be at least 1, got {options.rounds}.")
    if options.against is not None:
        if options.json is not None:
            parser.error("--json is for a run of this version alone; leave it or --against out.")
        return _against(options, console)
    rows: list[Row] = []
    skipped: dict[str, str] = {}
    broken: dict[str, str] = {}
    begin = time.perf_counter()
    # The BLAS of NumPy and that of SciPy are loaded by now; a limit set earlier would not see them.
    import scipy.linalg.blas  # noqa: F401

    with threadpool_limits(1):
        for name in options.only or (QUICK if options.quick else NAMES):
            console.print(f"[dim]{time.perf_counter() - begin:6.1f} s  {name}", highlight=False)
            try:
                rows += importlib.import_module(f"benchmarks.{name}").run(Effort(options.quick))
            except UnavailableError as reason:
                skipped[name] = str(reason)
            except Exception:
                broken[name] = traceback.format_exc()
    console.print(table(rows))
    for name, reason in skipped.items():
        console.print(f"[yellow]{name} was left out: {escape(reason)}", highlight=False)
    for name, text in broken.items():
        console.print(f"[bold red]{name} broke:", highlight=False)
        console.print(text, markup=False, highlight=False)
    if options.json is not None:
        document = {
            "quick": options.quick,
            **describe_machine(),
            "load": os.getloadavg()[0],
            "seconds": time.perf_counter() - begin,
            "rows": [row.as_dict() for row in rows],
            "skipped": skipped,
            "broken": broken,
        }
        options.json.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    below = [row.name for row in rows if not row.ok]
    return 1 if broken or (options.strict and below) else 0


def _against(options: argparse.Namespace, console: Any) -> int:
    """Print the table of two versions; return 1 if a side broke, or a row became slower."""
    from rich.markup import escape

    from benchmarks.against import compare, table

    names = options.only or (QUICK if options.quick else NAMES)
    try:
        pairs, broken = compare(options.against, names, quick=options.quick, rounds=options.rounds)
    except UnavailableError as reason:
        console.print(escape(str(reason)), highlight=False)
        return 1
    console.print(table(options.against, pairs))
    for where, text in broken.items():
        console.print(f"[yellow]{where}:[/] {escape(text)}", highlight=False)
    return 1 if broken or (options.strict and any(pair.is_slower for pair in pairs)) else 0


if __name__ == "__main__":
    sys.exit(main())
