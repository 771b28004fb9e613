# SPDX-License-Identifier: BSD-3-Clause
"""``pairlearn compare``: methods side by side on the same splits."""

from __future__ import annotations

import json
import math
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pairlearn.cli.output import json_option, result_options

if TYPE_CHECKING:
    from pairlearn.experiments import Comparison, Method

__all__ = ["command"]


@click.command("compare")
@click.argument("datasets", nargs=-1, required=True, metavar="DATA...")
@click.option("--methods", default="", metavar="A,B,...",
              help="Methods by name, the first being the baseline; `--methods list` prints all "
                   "names.")  # fmt: skip
@click.option("--estimator", "estimators", multiple=True, metavar="'[NAME=]PATH {JSON}'",
              help="A scikit-learn estimator by import path; lists in the JSON are tuned "
                   "over.")  # fmt: skip
@click.option("--splits", default=25, show_default=True, help="Random splits of each data set.")
@click.option("--seed", default=0, show_default=True, help="Determines all numbers but times.")
@click.option("--workers", default=1, show_default=True, help="Processes.")
@click.option("--protocol", type=click.Choice(["honest", "paper"]), default="honest",
              show_default=True, help="honest: scaled and tuned on the training part; paper: on "
                                      "all examples, as published.")  # fmt: skip
@result_options("pairlearn-compare.sqlite")
@json_option
def command(
    datasets: tuple[str, ...],
    methods: str,
    estimators: tuple[str, ...],
    splits: int,
    seed: int,
    workers: int,
    protocol: str,
    store: Path,
    report: Path | None,
    as_json: bool,
    quiet: bool,
) -> None:
    r"""Compare methods on data sets by test AUC, time and memory.

    DATA are names of `pairlearn data list`. Exit status 1 if a cell failed.

    \b
    Examples:
      pairlearn compare breast_cancer digits --splits 5 --report report
      pairlearn compare german --methods ours,spauc,logistic --workers 2
    """
    from pairlearn.data import load
    from pairlearn.data.errors import DataError
    from pairlearn.experiments import HONEST, PAPER, compare, method_names
    from pairlearn.experiments.comparison.runner import ComparisonError
    from pairlearn.experiments.comparison.store import StoreError
    from pairlearn.progress import Progress

    if methods == "list":
        click.echo("\n".join(method_names()))
        return
    typed = shlex.join(["pairlearn", *sys.argv[1:]])
    try:
        chosen = _methods(methods, estimators)
        loaded = [load(name) for name in datasets]
        with Progress(unit="cells", quiet=quiet or as_json) as bar:
            comparison = compare(
                loaded,
                chosen,
                store=store,
                n_splits=splits,
                seed=seed,
                workers=workers,
                protocol=HONEST if protocol == "honest" else PAPER,
                command=typed,
                progress=bar.update,
            )
    except (DataError, StoreError, ComparisonError, ValueError) as error:
        raise click.ClickException(str(error)) from error
    except KeyboardInterrupt:
        click.echo(f"stopped; the same command goes on from {store}", err=True)
        sys.exit(130)
    if as_json:
        click.echo(json.dumps(_as_json(comparison), indent=2))
    elif comparison.results:
        _print(comparison)
        computed = comparison.n_computed
        click.echo(f"{computed} cells computed, {len(comparison.results)} in all, in {store}")
    if report is not None and comparison.results:
        from pairlearn.experiments.report.sections import write_report

        page = write_report(comparison, report, commands=[typed])
        click.echo(f"report: {page}", err=as_json)
    for failure in comparison.failures:
        click.echo(failure.line, err=True)
    if comparison.failures:
        sys.exit(1)


def _methods(methods: str, estimators: tuple[str, ...]) -> list[Method]:
    from pairlearn.experiments.methods.base import parse_estimator
    from pairlearn.experiments.methods.table import find_method

    named = [name.strip() for name in methods.split(",") if name.strip()]
    if not named and not estimators:
        named = ["ours", "ours-auto", "logistic", "sgd"]
    return [*(find_method(name) for name in named), *(parse_estimator(text) for text in estimators)]


def _print(comparison: Comparison) -> None:
    from pairlearn.experiments.comparison.tables import auc_rows, cost_rows, difference_rows
    from pairlearn.experiments.plain_text import text_table

    costs = {(row.dataset, row.method): row for row in cost_rows(comparison)}
    gaps = {(row.dataset, row.method): row for row in difference_rows(comparison)}
    lines = []
    for row in auc_rows(comparison):
        gap = gaps.get((row.dataset, row.method))
        difference = ""
        if gap is not None:
            interval = gap.difference
            difference = f"{interval.mean:+.4f}"
            if not math.isnan(interval.low):
                difference += f" [{interval.low:+.4f}, {interval.high:+.4f}]"
        sd = "-" if math.isnan(row.auc.sd) else f"{row.auc.sd:.4f}"
        seconds = f"{costs[row.dataset, row.method].cpu_seconds:.3g}"
        lines.append((row.dataset, row.method, f"{row.auc.mean:.4f}", sd, difference, seconds))
    head = ("data set", "method", "AUC", "sd", f"less {comparison.methods[0]}", "CPU s")
    click.echo(text_table(head, lines))


def _as_json(comparison: Comparison) -> dict[str, Any]:
    from dataclasses import asdict

    from pairlearn.experiments.comparison.tables import auc_rows, cost_rows, difference_rows

    found = {
        "seed": comparison.seed,
        "splits": comparison.n_splits,
        "protocol": asdict(comparison.protocol),
        "auc": [asdict(row) for row in auc_rows(comparison)],
        "differences": [asdict(row) for row in difference_rows(comparison)],
        "costs": [asdict(row) for row in cost_rows(comparison)],
        "failures": [asdict(failure) for failure in comparison.failures],
    }
    return _without_nan(found)  # type: ignore[no-any-return]


def _without_nan(value: Any) -> Any:
    """Replace NaN, which JSON does not have, by null."""
    if isinstance(value, dict):
        return {key: _without_nan(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_without_nan(entry) for entry in value]
    return None if isinstance(value, float) and math.isnan(value) else value
