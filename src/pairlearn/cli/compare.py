# SPDX-License-Identifier: BSD-3-Clause
"""``pairlearn compare``: methods on data sets and tables, by test AUC, time and memory."""

from __future__ import annotations

import math
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pairlearn.cli.shared.files import check_output, read_argument, result_options
from pairlearn.cli.shared.output import emit, json_option, safe_lines, tell
from pairlearn.cli.shared.reading import (
    TABLES,
    Reading,
    format_of,
    sources_of,
    split_names,
    table_options,
    training_options,
)
from pairlearn.cli.shared.settings import Settings

if TYPE_CHECKING:
    from pairlearn.data import Dataset
    from pairlearn.experiments import Comparison


@click.command("compare")
@read_argument("datasets", nargs=-1, metavar="DATA...")
@click.option("--methods", default="", metavar="A,B,...",
              help="Methods by name. The first is the baseline; `--methods list` prints all "
                   "names.")  # fmt: skip
@click.option("--estimator", "estimators", multiple=True, metavar="'[NAME=]PATH {JSON}'",
              help="A scikit-learn estimator by import path; lists in the JSON are tuned "
                   "over.")  # fmt: skip
@click.option("--splits", type=click.IntRange(1), metavar="N",
              help="Splits of each data set; by default 25, for files and folders 5.")  # fmt: skip
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True,
              help="Determines all numbers but times.")  # fmt: skip
@click.option("--workers", type=click.IntRange(1), default=1, show_default=True,
              help="Processes.")  # fmt: skip
@click.option("--protocol", type=click.Choice(["honest", "paper"]), default="honest",
              show_default=True, help="honest: scaled and tuned on the training part; paper: on "
                                      "all examples, as published.")  # fmt: skip
@result_options("pairlearn-compare.jsonl")
@training_options
@json_option
def command(
    datasets: tuple[str, ...], reading: Reading, settings: Settings, methods: str,
    estimators: tuple[str, ...], splits: int | None, seed: int, workers: int, protocol: str,
    store: Path, report: Path | None, as_json: bool, quiet: bool,
) -> None:  # fmt: skip
    r"""Compare methods on data sets by test AUC, time and memory.

    DATA are names of `python -m pairlearn.data list`, tables of your own (CSV, Parquet, Arrow:
    name the label with --label; columns are read as by `pairlearn train`). Of tables, by default,
    the model that
    `train` would make (auto) is compared with each kind of model, and with logistic regression and
    tuned boosted trees of scikit-learn. Tables get a report, in NAME-report unless --report names
    another folder. The exit status is 1 if a cell failed.

    A file may be a DuckDB database: --query "SELECT ..." then says which rows to take.

    \b
    Examples:
      pairlearn compare customers.csv --label churned
      pairlearn compare breast_cancer digits --splits 5 --report report
      pairlearn compare german --methods ours,spauc,logistic --workers 2
      pairlearn compare german --estimator 'pairlearn.AUCClassifier {"loss": "hinge"}'
    """
    from pairlearn.data import DataError, load
    from pairlearn.experiments import HONEST, PAPER, compare, method_names
    from pairlearn.experiments.comparison.runner import ComparisonError
    from pairlearn.experiments.comparison.store import StoreError
    from pairlearn.experiments.methods.base import parse_estimator
    from pairlearn.experiments.methods.table import find_method
    from pairlearn.progress import Progress

    for setting in settings.values():
        raise setting.refuse("compare has settings of reading only; use --estimator.")
    if methods == "list":
        click.echo("\n".join(method_names()))
        return
    if not datasets:
        raise click.UsageError("name data sets or files; see `python -m pairlearn.data list`.")
    tables = (".csv", ".tsv", ".parquet")
    files = [name for name in datasets if Path(name).exists() or Path(name).suffix in tables]
    named = split_names(methods, "--methods") if methods else []
    if not named and not estimators:
        named = (["auto", "linear", "curves", "trees", "stack", "logistic", "gradient-boosting"]
                 if files else ["ours", "linear", "logistic", "sgd"])  # fmt: skip
    chosen = [*map(find_method, named), *map(parse_estimator, estimators)]
    typed = shlex.join(["pairlearn", *sys.argv[1:]])
    try:
        loaded = [
            _table(name, reading, as_json) if name in files else load(name) for name in datasets
        ]
        if not files and reading != Reading():
            raise click.UsageError("options about columns are for tables of your own; leave them "
                                   "out.")  # fmt: skip
        if report is None and files:
            report = Path(f"{loaded[0].name}-report")
            check_output(str(report), "--report", folder=True)
        with Progress(unit="cells", quiet=quiet or as_json) as bar:
            comparison = compare(
                loaded, chosen, store=store, n_splits=splits or (5 if files else 25), seed=seed,
                workers=workers, protocol=HONEST if protocol == "honest" else PAPER,
                command=typed, progress=bar.update,
            )  # fmt: skip
    except (DataError, StoreError, ComparisonError) as error:
        raise click.ClickException(str(error)) from error
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"stopped; the same command goes on from {store}") from None
    if as_json or comparison.results:
        emit(_values(comparison) if as_json else {}, _text(comparison, store), as_json=as_json)
    if report is not None and comparison.results:
        from pairlearn.experiments.report.comparison import write_report

        page = write_report(comparison, report, commands=[typed])
        click.echo(f"report: {page}", err=as_json)
    for failure in comparison.failures:
        click.echo(failure.line, err=True)
    if comparison.failures:
        sys.exit(1)


def _table(name: str, reading: Reading, as_json: bool) -> Dataset:
    import numpy as np

    from pairlearn.cli.fit_report import decided_lines
    from pairlearn.data import Dataset
    from pairlearn.data.dataset import array_digest
    from pairlearn.tables.copies import copies_line
    from pairlearn.tables.fitting import load_table

    form = "a folder" if Path(name).is_dir() else format_of([name], reading)
    if form not in TABLES:
        raise click.UsageError(f"{name} is {form}; tables (csv, tsv, parquet, arrow) are compared.")
    options = table_options([name], reading, "auc")
    table = load_table(sources_of([name], form, reading.query), options)
    if not as_json:
        click.echo(safe_lines([f"{name}:", *decided_lines(table.plan, len(table.y)), ""]))
    tell(*([table.refusals] if table.refusals.count else []), *table.odd.lines(),
         *copies_line(table.X))  # fmt: skip
    label = table.plan.encoder.label
    assert label is not None
    X = table.X.toarray() if hasattr(table.X, "toarray") else table.X
    y = np.where(table.y > 0, 1.0, -1.0)
    return Dataset(
        X=X, y=y, name=Path(name).name.split(".")[0],
        rule=f"{label.column}: {label.values[1]} is positive", classes=(0.0, 1.0), origin=name,
        sha256=array_digest(X, y), feature_names=table.plan.encoder.feature_names,
    )  # fmt: skip


def _text(comparison: Comparison, store: Path) -> str:
    from pairlearn.experiments.comparison.tables import (
        auc_rows,
        cost_rows,
        difference_rows,
        headline,
    )
    from pairlearn.shown import text_table

    seconds = [f"{row.all_cpu_seconds:.3g}" for row in cost_rows(comparison)]
    gaps = {(row.dataset, row.method): row.difference for row in difference_rows(comparison)}
    lines = []
    for row, spent in zip(auc_rows(comparison), seconds, strict=True):
        gap, difference = gaps.get((row.dataset, row.method)), ""
        if gap is not None:
            ends = "" if math.isnan(gap.low) else f" [{gap.low:+.4f}, {gap.high:+.4f}]"
            difference = f"{gap.mean:+.4f}{ends}"
        sd = "-" if math.isnan(row.auc.sd) else f"{row.auc.sd:.4f}"
        lines.append((row.dataset, row.method, f"{row.auc.mean:.4f}", sd, difference, spent))
    head = ("data set", "method", "AUC", "sd", f"less {comparison.methods[0]}", "CPU s")
    n = len(comparison.results)
    counted = f"{comparison.n_computed} cells computed, {n} in all, in {store}"
    return "\n".join([text_table(head, lines), headline(comparison), counted])


def _values(comparison: Comparison) -> dict[str, Any]:
    from dataclasses import asdict

    from pairlearn.experiments.comparison.tables import auc_rows, cost_rows, difference_rows

    return _without_nan({  # type: ignore[no-any-return]
        "seed": comparison.seed, "splits": comparison.n_splits,
        "protocol": asdict(comparison.protocol),
        "auc": [asdict(row) for row in auc_rows(comparison)],
        "differences": [asdict(row) for row in difference_rows(comparison)],
        "costs": [asdict(row) for row in cost_rows(comparison)],
        "failures": [asdict(failure) for failure in comparison.failures],
    })  # fmt: skip


def _without_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nan(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_without_nan(entry) for entry in value]
    return None if isinstance(value, float) and math.isnan(value) else value
