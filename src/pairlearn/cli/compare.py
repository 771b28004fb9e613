# SPDX-License-Identifier: BSD-3-Clause
"""``pairlearn compare``: methods side by side on the same splits."""

from __future__ import annotations

import contextlib
import json
import math
import shlex
import sys
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pairlearn.cli.output import json_option, result_options
from pairlearn.cli.shared.paths import announce, read_argument
from pairlearn.cli.shared.reading import (
    Reading,
    format_of,
    sources_of,
    spelled,
    split_names,
    training_options,
)
from pairlearn.cli.shared.settings import Settings
from pairlearn.cli.wording import in_options, options_of

if TYPE_CHECKING:
    from pairlearn.data import Dataset
    from pairlearn.experiments import Comparison, Method


@dataclass(frozen=True)
class Options:
    """What the command line says."""

    datasets: tuple[str, ...]
    reading: Reading
    settings: Settings
    methods: str
    estimators: tuple[str, ...]
    splits: int | None
    seed: int
    workers: int
    protocol: str
    store: Path
    report: Path | None
    as_json: bool
    quiet: bool


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
def command(**given: Any) -> None:
    r"""Compare methods on data sets by test AUC, time and memory.

    DATA are names of `python -m pairlearn.data list`, tables of your own (CSV, Parquet, Arrow:
    name the label with --label; columns are read as by `pairlearn train`). Of tables, by default,
    the model that
    `train` would make (auto) is compared with each kind of model, and with logistic regression and
    tuned boosted trees of scikit-learn. Tables get a report, in NAME-report unless --report names
    another folder. --set adds `AUCClassifier` with these settings to the
    methods. The exit status is 1 if a cell failed.

    A file may be a DuckDB database: --query "SELECT ..." then says which rows to take.

    \b
    Examples:
      pairlearn compare customers.csv --label churned
      pairlearn compare breast_cancer digits --splits 5 --report report
      pairlearn compare german --methods ours,spauc,logistic --workers 2
      pairlearn compare german --methods linear --set objective=push --set objective.power=4
    """
    options = Options(**given)
    folders = [name for name in options.datasets if Path(name).is_dir()]
    if options.methods == "list":
        from pairlearn.experiments import method_names

        click.echo("\n".join(method_names()))
    elif not options.datasets:
        raise click.UsageError("name data sets or files; see `python -m pairlearn.data list`.")
    elif folders:
        raise click.UsageError(
            f"{folders[0]} is a folder; name its files. `python -m benchmarks.league` of the "
            "source compares all data sets of a folder."
        )
    else:
        _compare(options)


@contextlib.contextmanager
def _told() -> Iterator[None]:
    """Turn errors of data and methods into one line in the words of the program."""
    from pairlearn.data.errors import DataError
    from pairlearn.experiments.comparison.runner import ComparisonError
    from pairlearn.experiments.comparison.store import StoreError

    try:
        yield
    except (DataError, StoreError, ComparisonError, ValueError) as error:
        raise click.ClickException(
            in_options(str(error), options_of(click.get_current_context().command))
        ) from error


def _compare(options: Options) -> None:
    """Compare on data sets and tables; print the result and write the report."""
    from pairlearn.data import load
    from pairlearn.experiments import HONEST, PAPER, compare
    from pairlearn.progress import Progress

    as_json, report, store = options.as_json, options.report, options.store
    typed = shlex.join(["pairlearn", *sys.argv[1:]])
    # A file exists, or its name ends like that of a table.
    files = [
        name for name in options.datasets
        if Path(name).exists() or Path(name).suffix in (".csv", ".tsv", ".parquet")
    ]  # fmt: skip
    try:
        with _told():
            chosen = _methods(options, files=bool(files))
            loaded = [_table(name, options.reading, as_json) if name in files else load(name)
                      for name in options.datasets]  # fmt: skip
            if not files:  # after loading: a file whose name is mistyped is no data set
                _refuse_reading(options)
            if report is None and files:
                report = Path(f"{loaded[0].name}-report")
                announce("write", report, "--report", kind="page", folder=True)
            with Progress(unit="cells", quiet=options.quiet or as_json) as bar:
                comparison = compare(
                    loaded,
                    chosen,
                    store=store,
                    n_splits=options.splits or (5 if files else 25),
                    seed=options.seed,
                    workers=options.workers,
                    protocol=HONEST if options.protocol == "honest" else PAPER,
                    command=typed,
                    progress=bar.update,
                )
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"stopped; the same command goes on from {store}") from None
    from pairlearn.experiments.comparison.tables import headline

    if as_json:
        click.echo(json.dumps(_as_json(comparison), indent=2))
    elif comparison.results:
        _print(comparison)
        click.echo(headline(comparison))
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


def _refuse_reading(options: Options) -> None:
    """Refuse options about columns where every data set has a name: nothing would read them."""
    for field in fields(Reading):
        if getattr(options.reading, field.name) != field.default:
            raise click.UsageError(
                f"{spelled(field.name)} is for tables of your own, and {options.datasets[0]} is a "
                "data set of `python -m pairlearn.data list`; leave it out."
            )


def _table(name: str, reading: Reading, as_json: bool) -> Dataset:
    """Return a table as a data set, and say what its columns were taken for."""
    import numpy as np

    from pairlearn.cli.shared.table_files import TABLES, decided_lines, table_options
    from pairlearn.data import Dataset
    from pairlearn.data.dataset import array_digest
    from pairlearn.tables.copies import copies_line
    from pairlearn.tables.fitting import load_table

    form = format_of([name], reading)
    if form not in TABLES:
        raise click.UsageError(
            f"{name} is {form}; tables (csv, tsv, parquet, arrow) and folders are compared."
        )
    table = load_table(
        sources_of([name], form, reading.query), table_options([name], reading, "auc")
    )
    if not as_json:
        click.echo("\n".join([f"{name}:", *decided_lines(table.plan, len(table.y)), ""]))
    told = [*([str(table.refusals)] if table.refusals.count else []), *table.odd.lines()]
    for line in [*told, *copies_line(table.X)]:
        click.echo(f"pairlearn: {line}", err=True)
    label = table.plan.encoder.label
    assert label is not None
    X = table.X.toarray() if hasattr(table.X, "toarray") else table.X
    y = np.where(table.y > 0, 1.0, -1.0)
    return Dataset(
        X=X,
        y=y,
        name=Path(name).name.split(".")[0],
        rule=f"{label.column}: {label.values[1]} is positive",
        classes=(0.0, 1.0),
        origin=name,
        sha256=array_digest(X, y),
        feature_names=table.plan.encoder.feature_names,
    )


def _methods(options: Options, *, files: bool) -> list[Method]:
    """Return the methods by name, by import path and by settings."""
    from pairlearn.experiments.methods.base import parse_estimator
    from pairlearn.experiments.methods.table import find_method

    named = split_names(options.methods, "--methods") if options.methods else []
    if not named and not options.estimators:
        named = ["ours", "linear", "logistic", "sgd"]
        if files:
            named = ["auto", "linear", "curves", "trees", "stack", "logistic", "gradient-boosting"]
    found: list[Method] = [find_method(name) for name in named]
    found += [parse_estimator(text) for text in options.estimators]
    if options.settings:
        from pairlearn.cli.shared.set_method import SetMethod

        found.append(SetMethod.of(options.settings))
    return found


def _print(comparison: Comparison) -> None:
    """Print the tables of a comparison: AUC, differences and costs."""
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
        seconds = f"{costs[row.dataset, row.method].all_cpu_seconds:.3g}"
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
