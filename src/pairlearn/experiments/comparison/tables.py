# SPDX-License-Identifier: BSD-3-Clause
"""The tables of a comparison as data: the program prints them, the report shows them."""

from __future__ import annotations

import statistics as plain
from dataclasses import dataclass, replace

import numpy as np

from pairlearn.experiments.comparison.runner import Comparison
from pairlearn.experiments.comparison.statistics import (
    Interval,
    holm,
    paired_difference,
    resampled_mean,
)
from pairlearn.experiments.comparison.store import Result
from pairlearn.experiments.published import Beside, beside, published_table

__all__ = [
    "AucRow", "CostRow", "DifferenceRow", "auc_rows", "cost_rows", "difference_rows", "paper_rows",
]  # fmt: skip


@dataclass(frozen=True)
class AucRow:
    """Test AUC of one method on one data set."""

    dataset: str
    method: str
    auc: Interval


@dataclass(frozen=True)
class DifferenceRow:
    """Paired difference in test AUC of a method and the baseline on one data set."""

    dataset: str
    method: str
    baseline: str
    difference: Interval
    wins: int
    p_adjusted: float


@dataclass(frozen=True)
class CostRow:
    """What one method costs on one data set: medians over splits."""

    dataset: str
    method: str
    cpu_seconds: float
    tune_cpu_seconds: float
    n_gradients: float | None
    peak_bytes: float | None
    state_bytes: float | None


def _sizes(results: list[Result]) -> dict[str, int]:
    return {"n_train": results[0].n_train, "n_test": results[0].n_test}


def auc_rows(comparison: Comparison, *, confidence: float = 0.95) -> list[AucRow]:
    """Return mean test AUC with its corrected interval, by data set and method."""
    rows = []
    for dataset in comparison.datasets:
        for method in comparison.methods:
            found = list(comparison.values(dataset, method).values())
            if found:
                interval = resampled_mean(
                    [result.auc for result in found], confidence=confidence, **_sizes(found)
                )
                # A t interval does not know that an AUC lies between 0 and 1.
                interval = replace(
                    interval,
                    low=float(np.clip(interval.low, 0.0, 1.0)),
                    high=float(np.clip(interval.high, 0.0, 1.0)),
                )
                rows.append(AucRow(dataset, method, interval))
    return rows


def difference_rows(
    comparison: Comparison, *, baseline: str | None = None, confidence: float = 0.95
) -> list[DifferenceRow]:
    """Return paired differences to a baseline, by default the first method, over shared splits.

    Positive differences favour the method over the baseline. p-values are adjusted by Holm's rule
    over all rows.
    """
    baseline = comparison.methods[0] if baseline is None else baseline
    if baseline not in comparison.methods:
        raise ValueError(
            f"the baseline {baseline!r} is not among the methods {', '.join(comparison.methods)}."
        )
    found = []
    for dataset in comparison.datasets:
        base = comparison.values(dataset, baseline)
        for method in comparison.methods:
            if method == baseline:
                continue
            other = comparison.values(dataset, method)
            shared = sorted(base.keys() & other.keys())
            if shared:
                first = [other[split].auc for split in shared]
                second = [base[split].auc for split in shared]
                gap = paired_difference(
                    first, second, confidence=confidence, **_sizes([base[s] for s in shared])
                )
                wins = sum(a > b for a, b in zip(first, second, strict=True))
                found.append((dataset, method, gap, wins))
    adjusted = holm([gap.p_value for _, _, gap, _ in found])
    return [
        DifferenceRow(dataset, method, baseline, gap, wins, p)
        for (dataset, method, gap, wins), p in zip(found, adjusted, strict=True)
    ]


def _median(values: list[float | None] | list[int | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(plain.median(known)) if known else None


def cost_rows(comparison: Comparison) -> list[CostRow]:
    """Return medians over splits of what training costs, by data set and method."""
    rows = []
    for dataset in comparison.datasets:
        for method in comparison.methods:
            found = list(comparison.values(dataset, method).values())
            if found:
                rows.append(
                    CostRow(
                        dataset=dataset,
                        method=method,
                        cpu_seconds=plain.median(r.cpu_seconds for r in found),
                        tune_cpu_seconds=plain.median(r.tune_cpu_seconds for r in found),
                        n_gradients=_median([r.n_gradients for r in found]),
                        peak_bytes=_median([r.peak_bytes for r in found]),
                        state_bytes=_median([r.state_bytes for r in found]),
                    )
                )
    return rows


def paper_rows(comparison: Comparison, *, table: str = "table-rs1") -> list[Beside]:
    """Return our means beside the paper's, for the methods and data sets that both have."""
    ours = {(row.method, row.dataset): (row.auc.mean, row.auc.sd) for row in auc_rows(comparison)}
    return beside(published_table(table), ours)
