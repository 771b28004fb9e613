# SPDX-License-Identifier: BSD-3-Clause
"""The report of a comparison on one page: tables, figures, environment, seeds and commands."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pairlearn.experiments.comparison.runner import Comparison, environment
from pairlearn.experiments.comparison.tables import (
    Place,
    auc_rows,
    cost_rows,
    difference_rows,
    headline,
    matrix,
    paper_rows,
    trajectories,
)
from pairlearn.experiments.methods.table import explain
from pairlearn.experiments.published import CITATION, Beside, mean_sd
from pairlearn.experiments.report.figures import Curve, curves_figure, intervals_figure
from pairlearn.experiments.report.page import Cell, Facts, Figure, Page, Part, Table, write_page

_INTERVAL_NOTE = (
    "Intervals are 95 % t intervals whose variance is (1/J + n_test/n_train) s^2 for J splits: "
    "training parts of different splits overlap, and the usual s^2/J would be too small (Nadeau "
    "and Bengio, Machine Learning 52, 2003)."
)
_SAID = {
    "random": "Random splits with {:.0%} for testing",
    "folds": "Repeated 5-fold splits",
    "train": "features scaled to [-1, 1] by the training part",
    "paper": "features scaled to [-1, 1] by all examples, test ones included",
    "none": "features not scaled",
}
_TUNED = {
    "train": "parameters chosen by cross-validation inside the training part",
    "all": "parameters chosen once on all examples, test ones included",
}


def write_report(
    comparison: Comparison,
    folder: str | Path,
    *,
    commands: Sequence[str] = (),
    baseline: str | None = None,
) -> Path:
    """Write the page of a comparison and its CSV files into a folder; return the page's path.

    `commands` are the commands that were run. Differences are taken to the method `baseline`, by
    default the first.
    """
    if not comparison.results:
        raise ValueError("no cell of the comparison has a result, so there is nothing to report.")
    settings = {
        "seed": str(comparison.seed),
        "splits": str(comparison.n_splits),
        "protocol": json.dumps(asdict(comparison.protocol)),
        "data sets": ", ".join(comparison.datasets),
        "methods": ", ".join(comparison.methods),
    }
    protocol = comparison.protocol
    counts = [
        f"{n} {what}{'s' * (n != 1)}"
        for n, what in (
            (len(comparison.methods), "method"),
            (len(comparison.datasets), "data set"),
            (comparison.n_splits, "split"),
        )
    ]
    page = Page(
        title="Comparison of methods by test AUC",
        introduction=f"{counts[0]} on {counts[1]}, {counts[2]} each, seed {comparison.seed}. "
        f"{_SAID[protocol.splits].format(protocol.test_fraction)}; {_SAID[protocol.scaling]}; "
        f"{_TUNED[protocol.tuning]}.",
        parts=[
            *comparison_parts(comparison, baseline=baseline),
            *how_it_was_run(settings, commands=commands),
        ],
        headline=headline(comparison),
    )
    return write_page(page, folder)


def comparison_parts(
    comparison: Comparison, *, baseline: str | None = None, beside_paper: bool = True
) -> list[Table | Figure]:
    """Return the tables and figures of a comparison that has results, in the order of the page."""
    aucs = {(row.dataset, row.method): row.auc for row in auc_rows(comparison)}
    interval = {"mean": ".4f", "sd": ".4f", "low": ".4f", "high": ".4f", "splits": "d"}
    auc_table = Table(
        "Test AUC with intervals, as a table",
        "auc",
        {"data set": "", "method": "", **interval},
        [[*key, auc.mean, auc.sd, auc.low, auc.high, auc.n] for key, auc in aucs.items()],
        note=_INTERVAL_NOTE,
        folded=True,
    )
    parts: list[Table | Figure] = [
        _matrix_table(comparison),
        Figure(
            "Test AUC with intervals",
            "figure-auc",
            intervals_figure(aucs, methods=comparison.methods, what="test AUC"),
            auc_table.csv,
            "Mean test AUC and its 95 % interval for each data set and method.",
            _INTERVAL_NOTE,
        ),
    ]
    if len(comparison.methods) > 1:
        parts += _differences(comparison, baseline)
    published = paper_rows(comparison) if beside_paper else []
    if published:
        parts.append(beside_table(published))
    parts += curve_figures(comparison)
    parts.append(_cost_table(comparison))
    methods = [[method, explain(method)] for method in comparison.methods]
    parts.append(Table("The methods", "methods", {"method": "", "what it is": ""}, methods))
    return [*parts, auc_table, _all_results(comparison), *_troubles(comparison)]


def how_it_was_run(settings: Mapping[str, str], *, commands: Sequence[str]) -> list[Part]:
    """Return the parts that let a reader repeat a run: settings, commands, environment."""
    parts: list[Part] = [Facts("Settings", tuple(settings.items()))]
    if commands:
        numbered = tuple((f"command {k}", text) for k, text in enumerate(commands, start=1))
        parts.append(Facts("Commands", numbered))
    parts.append(Facts("Environment", tuple(environment().items())))
    return parts


def _matrix_table(comparison: Comparison) -> Table:
    places = matrix(comparison)

    def cell(place: Place | None) -> Cell:
        if place is None:
            return Cell("-", math.nan)
        return Cell(f"{place.auc:.4f}{' =' if place.tied else ''}", place.auc, strong=place.best)

    return Table(
        "Test AUC by data set and method",
        "matrix",
        {"data set": "", **dict.fromkeys(comparison.methods, ".4f")},
        [
            [dataset, *(cell(row.get(method)) for method in comparison.methods)]
            for dataset, row in places.items()
        ],
        note="Means over splits, the highest of a row in bold. An equals sign marks a method whose "
        "paired difference to the best has a 95 % interval that contains zero: these splits do "
        "not tell the two apart.",
        data=(
            ["dataset", "method", "mean", "best", "tied"],
            [
                [dataset, method, place.auc, place.best, place.tied]
                for dataset, row in places.items()
                for method, place in row.items()
            ],
        ),
    )


def _differences(comparison: Comparison, baseline: str | None) -> list[Table | Figure]:
    rows = difference_rows(comparison, baseline=baseline)
    if not rows:
        return []
    base = rows[0].baseline
    columns = {"data set": "", "method": "", "difference": "+.4f", "low": "+.4f", "high": "+.4f",
               "p (Holm)": ".3g", "splits won": "d", "splits": "d"}  # fmt: skip
    gaps = {(r.dataset, r.method): r.difference for r in rows}
    table = Table(
        f"Paired differences to {base}",
        "differences",
        columns,
        [[r.dataset, r.method, g.mean, g.low, g.high, r.p_adjusted, r.wins, g.n]
         for r, g in zip(rows, gaps.values(), strict=True)],
        note="Positive: the method's test AUC is higher. Differences are taken split by split, 95 "
        "% intervals are corrected as above, and p-values are adjusted by Holm's rule over all "
        "rows of this table.",
    )  # fmt: skip
    figure = Figure(
        f"Differences to {base} with intervals",
        "figure-differences",
        intervals_figure(
            gaps, methods=comparison.methods, what="difference in test AUC", zero=True
        ),
        table.csv,
        f"Difference in test AUC to {base} with its 95 % interval; the line marks zero.",
    )
    return [table, figure]


def beside_table(
    rows: Sequence[Beside],
    *,
    title: str = "Beside the paper's numbers",
    name: str = "beside-the-paper",
    judged: bool = True,
) -> Table:
    """Return the table of our numbers beside the published ones.

    Without `judged`, differences get no verdict: on parts of the data they mean nothing.
    """
    verdict = " A row is 'within' if the difference is at most one published standard deviation."
    columns = {"method": "", "data set": "", "here": ".3f", "paper": ".3f"}
    shown = [
        [row.row, row.column, Cell(mean_sd(row.mean, row.sd), row.mean),
         Cell(mean_sd(row.published.mean, row.published.sd), row.published.mean),
         *([row.difference, row.verdict] if judged else [])]
        for row in rows
    ]  # fmt: skip
    return Table(
        title,
        name,
        columns | ({"difference": "+.3f", "within sd": ""} if judged else {}),
        shown,
        note=f"Published: {CITATION}" + (verdict if judged else ""),
        data=(
            ["dataset", "method", "mean", "sd", "published_mean", "published_sd"],
            [[r.column, r.row, r.mean, r.sd, r.published.mean, r.published.sd] for r in rows],
        ),
    )


def curve_figures(comparison: Comparison) -> list[Figure]:
    """Return the figure of AUC during training, for methods that recorded it."""
    paths = trajectories(comparison)
    if not paths:
        return []
    curves = {(p.dataset, p.method): Curve(p.cpu_seconds.clip(1e-6), p.auc_mean) for p in paths}
    columns = ["dataset", "method", "cpu_seconds", "n_gradients", "auc_mean", "auc_sd"]
    rows = [
        [p.dataset, p.method, *point]
        for p in paths
        for point in zip(p.cpu_seconds, p.n_gradients, p.auc_mean, p.auc_sd, strict=True)
    ]
    return [
        Figure(
            "AUC during training",
            "figure-curves",
            curves_figure(
                curves,
                series=comparison.methods,
                xlabel="training CPU seconds (log)",
                ylabel="test AUC",
            ),
            (columns, rows),
            "Mean test AUC against training CPU seconds on a log axis, a curve per method.",
            "Means over splits at each checkpoint; evaluation is not timed.",
        )
    ]


def _cost_table(comparison: Comparison) -> Table:
    return Table(
        "What training costs",
        "costs",
        {"data set": "", "method": "", "CPU s in all": ".3g", "training": ".3g", "tuning": ".3g",
         "gradients": ",.0f", "state bytes": ",.0f"},
        [
            [row.dataset, row.method, row.all_cpu_seconds, row.cpu_seconds, row.tune_cpu_seconds,
             row.n_gradients, row.state_bytes]
            for row in cost_rows(comparison)
        ],
        note="Medians over splits, without compilation and evaluation. Methods that choose their "
        "settings themselves do so while training; for the others that is tuning (not counted "
        "where it was done once for all splits). Gradients and state are what a method reports of "
        "itself.",
    )  # fmt: skip


def _all_results(comparison: Comparison) -> Table:
    plain = [asdict(result) for result in comparison.results]
    return Table(
        "Every split",
        "results",
        {"data set": "", "split": "d", "method": "", "AUC": ".4f", "CPU s": ".3g",
         "parameters": ""},
        [
            [r.dataset, r.split, r.method, r.auc, r.cpu_seconds,
             ", ".join(f"{name}={value:.6g}" if isinstance(value, float) else f"{name}={value}"
                       for name, value in r.params.items()) or "-"]
            for r in comparison.results
        ],
        folded=True,
        data=(
            list(plain[0]),
            [[json.dumps(v) if isinstance(v, (dict, list)) else v for v in row.values()]
             for row in plain],
        ),
    )  # fmt: skip


def _troubles(comparison: Comparison) -> list[Table]:
    failed = [(f.dataset, f.method, f.message) for f in comparison.failures]
    warned = [(r.dataset, r.method, text) for r in comparison.results for text in r.warnings]
    columns = {"data set": "", "method": "", "splits": "d", "message": ""}
    return [
        Table(
            title,
            name,
            columns,
            [[data, method, n, text] for (data, method, text), n in Counter(entries).items()],
        )
        for title, name, entries in (
            ("Cells that failed", "failures", failed),
            ("Warnings that methods gave", "warnings", warned),
        )
        if entries
    ]


def cost_table(comparison: Comparison) -> Table:
    """Return the median CPU seconds of training and tuning, methods by data sets."""
    found = {(row.method, row.dataset): row for row in cost_rows(comparison)}
    rows: list[Any] = []
    for method in comparison.methods:
        cells = [found.get((method, dataset)) for dataset in comparison.datasets]
        rows.append([method, *(
            "-" if cell is None else Cell(
                f"{cell.cpu_seconds:.3g} ({cell.tune_cpu_seconds:.3g})", cell.cpu_seconds
            ) for cell in cells
        )])  # fmt: skip
    columns = {"method": "", **dict.fromkeys(comparison.datasets, ".3g")}
    return Table("CPU seconds of training (of tuning)", "seconds", columns, rows)
