# SPDX-License-Identifier: BSD-3-Clause
"""Reproduce the paper's tables of test AUC, with our numbers beside them."""

from __future__ import annotations

from pairlearn.data import PAPER_SETS
from pairlearn.experiments.comparison.runner import Comparison
from pairlearn.experiments.comparison.tables import auc_rows, trajectories
from pairlearn.experiments.methods.table import TABLE
from pairlearn.experiments.paper.outcome import Outcome, Settings, Shelf
from pairlearn.experiments.published import Beside, beside, mean_sd, published_table
from pairlearn.experiments.report.comparison import beside_table, comparison_parts, cost_table
from pairlearn.experiments.report.page import Cell, Table

_REPORTING = (
    "The published code reports the highest mean AUC over the recorded times, and the lowest "
    "standard deviation over these times, which may be another time. The second table holds the "
    "final AUC of the same runs, with its deviation. Published tuning also scored a candidate by "
    "its highest AUC during training; here the final AUC counts."
)
#: What a quick look takes where none of the paper's data sets can be had: sets of scikit-learn.
EMBEDDED = ("breast_cancer", "digits", "digits_8")


def auc_table(name: str, settings: Settings, shelf: Shelf) -> Outcome:
    """Reproduce table1 or table-rs1: our means and deviations, the paper's, and the differences."""
    table = published_table(name)
    methods = settings.chosen([TABLE[row] for row in table.rows])
    datasets = shelf.take(PAPER_SETS)
    title = f"{table.caption} ({table.where})"
    embedded = not datasets and settings.quick and not settings.datasets
    if embedded:
        datasets = shelf.take(EMBEDDED)
        settings.say(f"none of the paper's data sets is here; taken: {', '.join(EMBEDDED)}")
    if not datasets:
        cure = "" if settings.quick else "; --quick runs on data that ship with scikit-learn"
        why = f"no data set is available, so nothing was run{cure}."
        return Outcome(name, title, nothing=why)
    for data in datasets:
        # The comparison of all data sets below finds these results in the store.
        rows = auc_rows(settings.run([data], methods, n_splits=25))
        found = ", ".join(f"{row.method} {row.auc.mean:.3f}" for row in rows)
        settings.say(f"{data.name}: {found or 'no method got through'}")
    comparison = settings.run(datasets, methods, n_splits=25)
    ours = {(row.method, row.dataset): (row.auc.mean, row.auc.sd) for row in auc_rows(comparison)}
    judged = not settings.quick
    remarks = _remarks(comparison, settings, embedded=embedded)
    printed: list[Table] = []
    if settings.protocol == "paper":
        remarks.append(_REPORTING)
        paths = trajectories(comparison)
        # A method without records reports its end only.
        records = {(path.method, path.dataset): path.as_published for path in paths}
        if reported := beside(table, {**ours, **records}):
            names = {"title": "As the published code reports", "name": "reported-as-published"}
            printed.append(beside_table(reported, judged=judged, **names))
    at_end = beside(table, ours)
    if at_end:
        printed.append(beside_table(at_end, judged=judged))
    printed += [*unpublished(comparison, at_end), cost_table(comparison)]
    return Outcome(
        name,
        title,
        remarks,
        printed,
        comparison_parts(comparison, beside_paper=False) if comparison.results else (),
        [failure.line for failure in comparison.failures],
    )


def _remarks(comparison: Comparison, settings: Settings, *, embedded: bool) -> list[str]:
    remarks = [
        f"Here over {comparison.n_splits} splits, protocol {settings.protocol}, seed "
        f"{settings.seed}; the published numbers are over 25."
    ]
    once = [name for name in comparison.methods if TABLE[name].tuned_once]
    if settings.protocol == "honest" and once:
        limit = max(TABLE[name].max_tuning_examples or 0 for name in once)
        remarks.append(
            f"Tuned once for each data set, on at most {limit:,} training examples of the first "
            f"split: {', '.join(once)}. The others are tuned by 5-fold cross-validation on every "
            "split."
        )
    if embedded:
        remarks.append(
            "None of the paper's six data sets is on this machine, nor could one be fetched. These "
            "are sets that ship with scikit-learn, so no published number stands beside ours."
        )
    if settings.quick:
        remarks.append(
            "Quick: parts of the data and few splits; a look, not a result, so differences from "
            "the published numbers are not judged."
        )
    return remarks


def unpublished(comparison: Comparison, published: list[Beside]) -> list[Table]:
    """Return the means of data sets that the paper's table does not have."""
    known = {(entry.row, entry.column) for entry in published}
    rows = [
        [row.method, row.dataset, Cell(mean_sd(row.auc.mean, row.auc.sd), row.auc.mean)]
        for row in auc_rows(comparison)
        if (row.method, row.dataset) not in known
    ]
    columns = {"method": "", "data set": "", "AUC": ".3f"}
    return [Table("Data sets that the paper does not have", "others", columns, rows)] * bool(rows)
