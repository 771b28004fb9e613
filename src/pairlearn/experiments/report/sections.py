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

from pairlearn.experiments.comparison.curves import bands, mean_coefficients, trajectories
from pairlearn.experiments.comparison.runner import Comparison, environment
from pairlearn.experiments.comparison.statistics import Interval
from pairlearn.experiments.comparison.tables import (
    Place,
    auc_rows,
    cost_rows,
    difference_rows,
    headline,
    matrix,
    paper_rows,
)
from pairlearn.experiments.methods.table import explain
from pairlearn.experiments.plain_text import mean_sd
from pairlearn.experiments.published import CITATION, Beside, Published
from pairlearn.experiments.report.figures import (
    bands_figure,
    intervals_figure,
    time_figure,
)
from pairlearn.experiments.report.page import (
    Cell,
    Facts,
    Figure,
    Page,
    Part,
    Table,
    Text,
    number,
    write_page,
)

#: Number of coefficients to list for each data set.
_LARGEST = 10

_INTERVAL_NOTE = (
    "Intervals are 95 % t intervals whose variance is (1/J + n_test/n_train) s^2 for J splits: "
    "training parts of different splits overlap, and the usual s^2/J would be too small (Nadeau "
    "and Bengio, Machine Learning 52, 2003)."
)


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
    page = comparison_page(comparison, commands=commands, baseline=baseline)
    return write_page(page, folder)


def comparison_page(
    comparison: Comparison, *, commands: Sequence[str] = (), baseline: str | None = None
) -> Page:
    """Return the page of a comparison; see `write_report`."""
    if not comparison.results:
        raise ValueError("no cell of the comparison has a result, so there is nothing to report.")
    parts: list[Part] = [*comparison_parts(comparison, baseline=baseline)]
    parts += how_it_was_run(
        {
            "seed": str(comparison.seed),
            "splits": str(comparison.n_splits),
            "protocol": json.dumps(asdict(comparison.protocol)),
            "data sets": ", ".join(comparison.datasets),
            "methods": ", ".join(comparison.methods),
        },
        commands=commands,
    )
    n_methods, n_sets = len(comparison.methods), len(comparison.datasets)
    return Page(
        title="Comparison of methods by test AUC",
        introduction=(
            f"{n_methods} method{'s' * (n_methods != 1)} on {n_sets} data "
            f"set{'s' * (n_sets != 1)}, {comparison.n_splits} "
            f"split{'s' * (comparison.n_splits != 1)} each, seed {comparison.seed}. "
            + _protocol_text(comparison)
        ),
        parts=parts,
        headline=headline(comparison),
    )


def comparison_parts(
    comparison: Comparison, *, baseline: str | None = None, beside_paper: bool = True
) -> list[Table | Figure]:
    """Return the tables and figures of a comparison that has results, in the order of the page."""
    auc_table, auc_figure = _auc_parts(comparison)
    parts: list[Table | Figure] = [_matrix_table(comparison), auc_figure]
    parts += _band_figures(comparison)
    parts += _coefficient_tables(comparison)
    if len(comparison.methods) > 1:
        parts += _differences(comparison, baseline)
    published = paper_rows(comparison) if beside_paper else []
    if published:
        parts.append(beside_table(published))
    parts += curve_figures(comparison)
    parts += [_trade_off(comparison), _cost_table(comparison), _method_table(comparison)]
    parts += [auc_table, _all_results(comparison)]
    return parts + _troubles(comparison)


def how_it_was_run(settings: Mapping[str, str], *, commands: Sequence[str]) -> list[Text | Facts]:
    """Return the parts that let a reader repeat a run: settings, commands, environment."""
    parts: list[Text | Facts] = [Facts("Settings", tuple(settings.items()))]
    if commands:
        numbered = tuple((f"command {k}", text) for k, text in enumerate(commands, start=1))
        parts.append(Facts("Commands", numbered))
    parts.append(Facts("Environment", tuple(environment().items())))
    return parts


def _protocol_text(comparison: Comparison) -> str:
    """Return a sentence about splits, scaling and tuning."""
    protocol = comparison.protocol
    splits = (
        f"Random splits with {protocol.test_fraction:.0%} for testing"
        if protocol.splits == "random"
        else "Repeated 5-fold splits"
    )
    scaling = {
        "train": "features scaled to [-1, 1] by the training part",
        "paper": "features scaled to [-1, 1] by all examples, test ones included",
        "none": "features not scaled",
    }[protocol.scaling]
    tuning = (
        "parameters chosen by cross-validation inside the training part"
        if protocol.tuning == "train"
        else "parameters chosen once on all examples, test ones included"
    )
    return f"{splits}; {scaling}; {tuning}."


def _ends(interval: Interval, sign: str = "") -> Cell:
    if math.isnan(interval.low):
        return Cell("one split", interval.low)
    return Cell(f"[{interval.low:{sign}.4f}, {interval.high:{sign}.4f}]", interval.low)


def _mean_sd(number: Beside | Published) -> Cell:
    return Cell(mean_sd(number.mean, number.sd).replace("+-", "±"), number.mean)


def _seconds(value: float) -> Cell:
    return Cell("<0.001" if value < 1e-3 else f"{value:.3g}", value)


def _matrix_table(comparison: Comparison) -> Table:
    """Return the table of mean test AUC, data sets by methods, with ties marked."""
    places = matrix(comparison)

    def cell(place: Place | None) -> Cell:
        if place is None:
            return Cell("-", math.nan)
        return Cell(f"{place.auc:.4f}{' =' if place.tied else ''}", place.auc, strong=place.best)

    return Table(
        title="Test AUC by data set and method",
        name="matrix",
        note=(
            "Means over splits, the highest of a row in bold. An equals sign marks a method whose "
            "paired difference to the best has a 95 % interval that contains zero: these splits do "
            "not tell the two apart."
        ),
        columns=["data set", *comparison.methods],
        rows=[
            [dataset, *(cell(row.get(method)) for method in comparison.methods)]
            for dataset, row in places.items()
        ],
        csv_columns=["dataset", "method", "mean", "best", "tied"],
        csv_rows=[
            [dataset, method, place.auc, place.best, place.tied]
            for dataset, row in places.items()
            for method, place in row.items()
        ],
    )


def _method_table(comparison: Comparison) -> Table:
    return Table(
        title="The methods",
        name="methods",
        columns=["method", "what it is"],
        rows=[[method, explain(method)] for method in comparison.methods],
    )


def _band_figures(comparison: Comparison) -> list[Figure]:
    """Return ROC, precision-recall and calibration figures for results with curves."""
    figures = []
    for kind, title, xlabel, ylabel, note in (
        ("roc", "ROC curves", "false-positive rate", "recall",
         "Means over splits with bands of one standard deviation; the dashes are chance."),
        ("precision", "Precision and recall", "recall", "precision",
         "Means over splits with bands of one standard deviation."),
        ("calibration", "Calibration", "predicted probability", "observed share",
         "Of test examples whose predicted probability lies in one of ten bins, the share that is "
         "positive, with the standard error of one test part; on the dashes both agree. Methods "
         "without probabilities are left out."),
    ):  # fmt: skip
        found = bands(comparison, kind)
        if not found:
            continue
        svg = bands_figure(
            found, series=comparison.methods, name=kind, xlabel=xlabel, ylabel=ylabel,
            diagonal=kind != "precision", points=kind == "calibration",
        )  # fmt: skip
        figures.append(
            Figure(
                title=title,
                svg=svg,
                name=f"figure-{kind}",
                csv_columns=["dataset", "method", xlabel.replace(" ", "_"),
                             ylabel.replace(" ", "_"), "sd"],
                csv_rows=[
                    [band.dataset, band.method, *map(float, point)]
                    for band in found
                    for point in zip(band.x, band.mean, band.sd, strict=True)
                ],
                alt=f"{title}: {ylabel} against {xlabel} for each data set and method.",
                note=note,
            )
        )  # fmt: skip
    return figures


def _coefficient_tables(comparison: Comparison) -> list[Table]:
    """Return the largest coefficients of the first method, for data with feature names."""
    method = comparison.methods[0]
    rows: list[list[str | Cell]] = []
    for dataset, names in comparison.feature_names.items():
        mean, sd = mean_coefficients(comparison, dataset, method)
        if len(mean) != len(names):
            continue
        order = sorted(range(len(mean)), key=lambda k: -abs(mean[k]))[:_LARGEST]
        rows += [
            [dataset, names[k], number(float(mean[k]), "+.4g"), number(float(sd[k]), ".2g")]
            for k in order
        ]
    if not rows:
        return []
    return [
        Table(
            title=f"Largest coefficients of {method}",
            name="coefficients",
            note=(
                "Means and standard deviations over splits, for features that were scaled to "
                "[-1, 1]: a positive one raises the score."
            ),
            columns=["data set", "feature", "coefficient", "sd"],
            rows=rows,
        )
    ]


def _auc_parts(comparison: Comparison) -> tuple[Table, Figure]:
    """Return test AUC with intervals as a folded table and as a figure."""
    rows = [(row.dataset, row.method, row.auc) for row in auc_rows(comparison)]
    columns = ["dataset", "method", "mean", "sd", "low", "high", "n_splits"]
    data = [[d, m, auc.mean, auc.sd, auc.low, auc.high, auc.n] for d, m, auc in rows]
    table = Table(
        title="Test AUC with intervals, as a table",
        name="auc",
        folded=True,
        note=_INTERVAL_NOTE,
        columns=["data set", "method", "mean", "sd", "95 % interval", "splits"],
        rows=[
            [d, m, number(auc.mean), number(auc.sd), _ends(auc), number(auc.n, "d")]
            for d, m, auc in rows
        ],
        csv_columns=columns,
        csv_rows=data,
    )
    drawn = {(d, m): auc for d, m, auc in rows}
    figure = Figure(
        title="Test AUC with intervals",
        svg=intervals_figure(drawn, methods=comparison.methods, name="auc", what="test AUC"),
        name="figure-auc",
        csv_columns=columns,
        csv_rows=data,
        alt="Mean test AUC and its 95 % interval for each data set and method.",
    )
    return table, figure


def _differences(comparison: Comparison, baseline: str | None) -> list[Table | Figure]:
    """Return the table and the figure of paired differences; none for a single method."""
    rows = difference_rows(comparison, baseline=baseline)
    if not rows:
        return []
    base = rows[0].baseline
    columns = ["dataset", "method", "baseline", "mean", "low", "high", "p_holm", "wins", "n_splits"]
    pairs = [(row, row.difference) for row in rows]
    data = [
        [r.dataset, r.method, base, gap.mean, gap.low, gap.high, r.p_adjusted, r.wins, gap.n]
        for r, gap in pairs
    ]
    table = Table(
        title=f"Paired differences to {base}",
        name="differences",
        note=(
            "Positive: the method's test AUC is higher. Differences are taken split by split, "
            "intervals are corrected as above, and p-values are adjusted by Holm's rule over all "
            "rows of this table."
        ),
        columns=["data set", "method", "difference", "95 % interval", "p (Holm)", "splits won"],
        rows=[
            [
                r.dataset, r.method, number(gap.mean, "+.4f"), _ends(gap, "+"),
                number(r.p_adjusted, ".3g"), Cell(f"{r.wins} of {gap.n}", r.wins / gap.n),
            ]
            for r, gap in pairs
        ],
        csv_columns=columns,
        csv_rows=data,
    )  # fmt: skip
    figure = Figure(
        title=f"Differences to {base} with intervals",
        svg=intervals_figure(
            {(r.dataset, r.method): gap for r, gap in pairs}, methods=comparison.methods,
            name="differences", what="difference in test AUC", zero=True,
        ),
        name="figure-differences",
        csv_columns=columns,
        csv_rows=data,
        alt=f"Difference in test AUC to {base} with its 95 % interval; the line marks zero.",
    )  # fmt: skip
    return [table, figure]


def beside_table(
    rows: Sequence[Beside], *, name: str = "beside-the-paper", judged: bool = True
) -> Table:
    """Return the table of our numbers beside the published ones, as in `format_beside`."""
    verdict = " A row is 'within' if the difference is at most one published standard deviation."
    columns = ["data set", "method", "here", "paper", "difference", "one published sd"]
    csv = ["dataset", "method", "mean", "sd", "published_mean", "published_sd", "difference",
           "verdict"]  # fmt: skip
    shown: list[list[str | Cell]] = []
    plain: list[list[Any]] = []
    for row in rows:
        ours, paper = _mean_sd(row), _mean_sd(row.published)
        gap = number(row.difference, "+.3f")
        shown.append([row.column, row.row, ours, paper, gap, row.verdict])
        plain.append([row.column, row.row, row.mean, row.sd, row.published.mean, row.published.sd,
                      row.difference, row.verdict])  # fmt: skip
    # Without a judgement the last two columns are left out.
    end = None if judged else -2
    return Table(
        title="Beside the paper's numbers",
        name=name,
        note=f"Published: {CITATION}" + (verdict if judged else ""),
        columns=columns[:end],
        rows=[line[:end] for line in shown],
        csv_columns=csv[:end],
        csv_rows=[line[:end] for line in plain],
    )


def _trade_off(comparison: Comparison) -> Figure:
    """Return the figure of mean test AUC against median CPU seconds."""
    auc = {(row.dataset, row.method): row.auc.mean for row in auc_rows(comparison)}
    points = {
        # A time below the clock's resolution still needs a position on a log axis.
        (row.dataset, row.method): (max(row.all_cpu_seconds, 1e-6), auc[row.dataset, row.method])
        for row in cost_rows(comparison)
    }
    return Figure(
        title="AUC against training time",
        svg=time_figure(
            {key: [point] for key, point in points.items()},
            series=comparison.methods,
            name="trade-off",
        ),
        name="figure-trade-off",
        csv_columns=["dataset", "method", "cpu_seconds", "auc"],
        csv_rows=[[*key, *point] for key, point in points.items()],
        alt="Mean test AUC against median training CPU seconds on a log axis.",
        note=(
            "Median CPU seconds from data to model on one thread: the choice of parameters and the "
            "training with them, whether a method chooses itself or is tuned from outside. "
            "Compilation is not counted."
        ),
    )


def curve_figures(comparison: Comparison) -> list[Figure]:
    """Return the figures of AUC during training, for methods that recorded it."""
    paths = trajectories(comparison)
    if not paths:
        return []
    curves = {
        (path.dataset, path.method): [
            (max(float(seconds), 1e-6), float(auc))
            for seconds, auc in zip(path.cpu_seconds, path.auc_mean, strict=True)
        ]
        for path in paths
    }
    return [
        Figure(
            title="AUC during training",
            svg=time_figure(curves, series=comparison.methods, name="curves"),
            name="figure-curves",
            csv_columns=["dataset", "method", "cpu_seconds", "n_gradients", "auc_mean", "auc_sd"],
            csv_rows=[
                [path.dataset, path.method, *point]
                for path in paths
                for point in zip(
                    path.cpu_seconds, path.n_gradients, path.auc_mean, path.auc_sd, strict=True
                )
            ],
            alt="Mean test AUC against training CPU seconds on a log axis, a curve per method.",
            note="Means over splits at each checkpoint; evaluation is not timed.",
        )
    ]


def _cost_table(comparison: Comparison) -> Table:
    """Return the table of median costs: seconds, gradients, memory."""
    rows = cost_rows(comparison)
    return Table(
        title="What training costs",
        name="costs",
        note=(
            "Medians over splits, without compilation and evaluation. Methods that choose their "
            "settings themselves do so while training; for the others that is tuning (not counted "
            "where it was done once for all splits). Gradients "
            "and state are what a method reports of itself; peak memory is resident memory above "
            "that at the start of training, where the system tells."
        ),
        columns=[
            "data set", "method", "CPU s in all", "training", "tuning", "gradients", "peak MiB",
            "state KiB",
        ],
        rows=[
            [
                row.dataset, row.method, _seconds(row.all_cpu_seconds), _seconds(row.cpu_seconds),
                _seconds(row.tune_cpu_seconds),
                number(row.n_gradients, ",.0f"),
                number(None if row.peak_bytes is None else row.peak_bytes / 2**20, ".1f"),
                number(None if row.state_bytes is None else row.state_bytes / 2**10, ".1f"),
            ]
            for row in rows
        ],
        csv_columns=list(asdict(rows[0])),
        csv_rows=[list(asdict(row).values()) for row in rows],
    )  # fmt: skip


def _all_results(comparison: Comparison) -> Table:
    """Return the folded table of all cells, one row each."""
    return Table(
        title="Every split",
        name="results",
        folded=True,
        columns=["data set", "split", "method", "AUC", "CPU s", "parameters"],
        rows=[
            [
                r.dataset, number(r.split, "d"), r.method, number(r.auc),
                _seconds(r.cpu_seconds),
                ", ".join(f"{name}={value:.6g}" if isinstance(value, float) else f"{name}={value}"
                          for name, value in r.params.items()) or "-",
            ]
            for r in comparison.results
        ],
        csv_columns=list(asdict(comparison.results[0])),
        csv_rows=[
            [
                json.dumps(value) if isinstance(value, (dict, list)) else value
                for value in asdict(r).values()
            ]
            for r in comparison.results
        ],
    )  # fmt: skip


def _troubles(comparison: Comparison) -> list[Table]:
    """Return tables of failures and of warnings, if there are any."""
    failed = [(f.dataset, f.method, f.message) for f in comparison.failures]
    warned = [
        (result.dataset, result.method, message)
        for result in comparison.results
        for message in result.warnings
    ]
    return [
        Table(
            title=title,
            name=name,
            columns=["data set", "method", "splits", "message"],
            rows=[
                [dataset, method, number(count, "d"), message]
                for (dataset, method, message), count in Counter(entries).items()
            ],
        )
        for title, name, entries in (
            ("Cells that failed", "failures", failed),
            ("Warnings that methods gave", "warnings", warned),
        )
        if entries
    ]
