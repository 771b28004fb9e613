# SPDX-License-Identifier: BSD-3-Clause
"""Run fuzzed inputs, kills, long runs or large files; print a table and what was found."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from fuzzing.campaign import Budget, Tally, Target, run_campaign, run_one
from fuzzing.files import Checkpoints, ModelFiles
from fuzzing.growing import Growing
from fuzzing.lines import JsonLines
from fuzzing.tables import ArrowTable, NpyArray
from fuzzing.texts import CsvText, SvmlightText

#: One of each, in the order in which they take turns.
TARGETS: tuple[type[Target], ...] = (
    CsvText, SvmlightText, ArrowTable, NpyArray, JsonLines, ModelFiles, Checkpoints,
    Growing,
)  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the command line asks for; return 1 if anything was found."""
    by_name = {target.name: target for target in TARGETS}
    parser = argparse.ArgumentParser(prog="python -m fuzzing", description=__doc__)
    parser.add_argument("--inputs", type=int, default=40_000, help="inputs in all (40000)")
    parser.add_argument("--kills", type=int, help="kills, of all formats (40, or 0 with --only)")
    parser.add_argument("--seed", type=int, default=0, help="another seed, other inputs (0)")
    parser.add_argument("--only", action="append", choices=list(by_name), metavar="NAME",
                        help=f"one of {', '.join(by_name)}")  # fmt: skip
    parser.add_argument("--first", type=int, default=0, help="number of the first input (0)")
    parser.add_argument("--index", type=int, help="run this one input here, with its traceback")
    parser.add_argument(
        "--long",
        nargs="?",
        type=float,
        const=1.0,
        metavar="SHARE",
        help="long runs alone, all of their calls or a share of them",
    )
    parser.add_argument("--large", nargs="?", type=float, const=1.0, metavar="GB",
                        help="large files alone, so many gigabytes each (1)")  # fmt: skip
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures as JSON")
    options = parser.parse_args(arguments)
    if options.only and options.kills:
        parser.error("--kills is about all formats; leave out --only, or --kills.")
    kills = options.kills if options.kills is not None else 0 if options.only else 40
    if options.long is not None or options.large is not None:
        return _endure(options.long, options.large, options.json)
    targets = [by_name[name]() for name in options.only or by_name]
    if options.index is not None:
        return _replay(targets, options.seed, options.index)
    tallies: dict[str, Tally] = {}
    if options.inputs:
        tallies = run_campaign(
            targets, options.inputs, options.seed, first=options.first, budget=Budget(), tell=_tell
        )
        _tell(table(tallies))
    document = {
        "seed": options.seed,
        "targets": {name: {**asdict(tally), "n_inputs": tally.n_inputs}
                    for name, tally in tallies.items()},
    }  # fmt: skip
    failed = any(tally.findings for tally in tallies.values())
    if kills:
        from fuzzing.kills import run_kills

        with tempfile.TemporaryDirectory() as folder:
            found = run_kills(Path(folder), kills, options.seed, tell=_tell)
        document["kills"] = found
        failed = failed or any(entry["differences"] + entry["failures"] for entry in found.values())
    if options.json is not None:
        options.json.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    return int(failed)


def _endure(share: float | None, gigabytes: float | None, path: Path | None) -> int:
    """Run long runs and large files; print a table of each."""
    document: dict[str, Any] = {}
    failed = False
    if share is not None:
        from fuzzing.long import long_table, run_long

        runs = run_long(share, tell=_tell)
        _tell(long_table(runs))
        document["long"] = [asdict(one) for one in runs]
        failed = any(one.leaks for one in runs)
    if gigabytes is not None:
        from fuzzing.large import large_table, run_large

        files = run_large(gigabytes, tell=_tell)
        _tell(large_table(files))
        document["large"] = [asdict(one) for one in files]
        failed = failed or any(one.grew for one in files)
    if path is not None:
        path.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    return int(failed)


def _tell(text: str) -> None:
    print(text, flush=True)


def _replay(targets: list[Target], seed: int, index: int) -> int:
    import faulthandler

    faulthandler.enable(2)  # a person looks there, whatever sys.stderr has become
    for target in targets:
        with tempfile.TemporaryDirectory() as folder:
            target.prepare(Path(folder))
            used = run_one(target, seed, index, Path(folder))
        _tell(f"{target.name} {index}: {'used' if used else 'refused'}")
    return 0


def table(tallies: dict[str, Tally]) -> str:
    """Return the tallies as lines of a Markdown table."""
    rows = ["| input | tried | used | refused | found | per second |",
            "| --- | ---: | ---: | ---: | ---: | ---: |"]  # fmt: skip
    for name, tally in tallies.items():
        rate = tally.n_inputs / max(tally.seconds, 1e-9)
        rows.append(
            f"| {name} | {tally.n_inputs:,} | {tally.n_used:,} | {tally.n_refused:,} | "
            f"{len(tally.findings)} | {rate:,.0f} |"
        )
    total = sum(tally.n_inputs for tally in tallies.values())
    rows.append(f"| all | {total:,} | {sum(t.n_used for t in tallies.values()):,} | "
                f"{sum(t.n_refused for t in tallies.values()):,} | "
                f"{sum(len(t.findings) for t in tallies.values())} | |")  # fmt: skip
    return "\n".join(rows)


if __name__ == "__main__":
    sys.exit(main())
