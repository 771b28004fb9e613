# SPDX-License-Identifier: BSD-3-Clause
"""The numbers of a comparison over its splits: AUC, differences, costs and ranks."""

from __future__ import annotations

import statistics as plain
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from pairlearn.experiments.comparison.runner import Comparison
from pairlearn.experiments.comparison.statistics import Interval, holm, resampled_mean
from pairlearn.experiments.published import Beside, beside, published_table
from pairlearn.typing import Vector


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
    """The cost of one method on one data set: medians over splits."""

    dataset: str
    method: str
    cpu_seconds: float
    tune_cpu_seconds: float
    all_cpu_seconds: float
    n_gradients: float | None
    state_bytes: float | None


@dataclass(frozen=True)
class Place:
    """The rank of a method on a data set.

    `best` marks the highest mean. `tied` marks a method whose paired difference to the best has an
    interval that contains zero. With one split there is no interval, and nothing is told apart.
    """

    auc: float
    best: bool
    tied: bool


def auc_rows(comparison: Comparison, *, confidence: float = 0.95) -> list[AucRow]:
    """Return mean test AUC with its corrected interval, by data set and method."""
    return [AucRow(*row) for row in comparison.aucs(confidence)]


def difference_rows(
    comparison: Comparison, *, baseline: str | None = None, confidence: float = 0.95
) -> list[DifferenceRow]:
    """Return paired differences to a baseline, by default the first method, over shared splits.

    Positive differences favour the method. p-values are adjusted by Holm's rule over all rows.
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
            other = comparison.values(dataset, method)
            shared = sorted(base.keys() & other.keys())
            if method == baseline or not shared:
                continue
            gaps = np.array([other[split].auc - base[split].auc for split in shared])
            one = base[shared[0]]
            gap = resampled_mean(
                gaps, n_train=one.n_train, n_test=one.n_test, confidence=confidence
            )
            found.append((dataset, method, gap, int((gaps > 0).sum())))
    adjusted = holm([gap.p_value for _, _, gap, _ in found])
    return [
        DifferenceRow(dataset, method, baseline, gap, wins, p)
        for (dataset, method, gap, wins), p in zip(found, adjusted, strict=True)
    ]


def cost_rows(comparison: Comparison) -> list[CostRow]:
    """Return the median costs of training over splits, by data set and method."""
    return [
        CostRow(
            dataset,
            method,
            cpu_seconds=plain.median(r.cpu_seconds for r in found),
            tune_cpu_seconds=plain.median(r.tune_cpu_seconds for r in found),
            all_cpu_seconds=plain.median(r.cpu_seconds + r.tune_cpu_seconds for r in found),
            n_gradients=_median(r.n_gradients for r in found),
            state_bytes=_median(r.state_bytes for r in found),
        )
        for dataset, method, found in comparison.by_method()
    ]


def _median(values: Iterable[int | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(plain.median(known)) if known else None


def paper_rows(comparison: Comparison, *, table: str = "table-rs1") -> list[Beside]:
    """Return our means beside the paper's, for methods and data sets that both have."""
    ours = {(row.method, row.dataset): (row.auc.mean, row.auc.sd) for row in auc_rows(comparison)}
    return beside(published_table(table), ours)


# ---------------------------------------------------------------------------------- who is best


def matrix(comparison: Comparison) -> dict[str, dict[str, Place]]:
    """Return the place of each method on each data set, if it has results."""
    means: dict[str, dict[str, float]] = {}
    for row in auc_rows(comparison):
        means.setdefault(row.dataset, {})[row.method] = row.auc.mean
    found: dict[str, dict[str, Place]] = {}
    for dataset, by_method in means.items():
        # the first of equal means, in the requested order, counts as the best
        best = max(by_method, key=by_method.__getitem__)
        gaps = {
            row.method: row.difference
            for row in difference_rows(comparison, baseline=best)
            if row.dataset == dataset
        }
        found[dataset] = {
            method: Place(
                auc,
                method == best,
                # NaN with one split, and no gap without a shared one
                method != best and not (method in gaps and gaps[method].high < 0.0),
            )
            for method, auc in by_method.items()
        }
    return found


def headline(comparison: Comparison) -> str:
    """Return the result in a sentence or two, about the first method."""
    ours, places = comparison.methods[0], matrix(comparison)
    alone = {dataset: row[ours].auc for dataset, row in places.items() if ours in row}
    if not alone:
        return f"{ours} has no result, and the others are not compared with it."
    # a data set on which all others failed compares nothing
    with_ours = {dataset: places[dataset] for dataset in alone if len(places[dataset]) > 1}
    if not with_ours:
        means = ", ".join(f"{auc:.4f} on {dataset}" for dataset, auc in alone.items())
        return f"{ours} has a mean test AUC of {means}."
    if comparison.n_splits == 1:
        means = "; ".join(
            f"on {dataset} " + ", ".join(f"{method} {p.auc:.4f}" for method, p in row.items())
            for dataset, row in with_ours.items()
        )
        return (
            f"Test AUC {means}. One split cannot tell these apart from chance: take --splits 5 or "
            "more."
        )
    if len(with_ours) == 1:
        return _about_one(ours, *next(iter(with_ours.items())))
    best = sum(row[ours].best for row in with_ours.values())
    tied = sum(row[ours].tied for row in with_ours.values())
    worst = min(
        (row[ours].auc - max(p.auc for p in row.values()), d) for d, row in with_ours.items()
    )
    said = f"{ours} has the highest mean test AUC on {best} of {len(with_ours)} data sets"
    if tied:
        said += f", and on {tied} more no method is clearly above it"
    behind = len(with_ours) - best - tied
    if behind:
        said += f"; on {behind} it is behind, at most by {-worst[0]:.4f} ({worst[1]})"
    return said + "."


def _about_one(ours: str, dataset: str, row: dict[str, Place]) -> str:
    best = next(method for method, place in row.items() if place.best)
    top = f"{row[best].auc:.4f}"
    if best == ours:
        others = [m for m, place in row.items() if place.tied]
        verb = "is" if len(others) == 1 else "are"
        rest = f"{', '.join(others)} {verb} not clearly below it"
        if not others:
            rest = "all others are clearly below"
        return f"On {dataset} {ours} has the highest mean test AUC, {top}; {rest}."
    how = "not clearly below it" if row[ours].tied else "clearly below"
    return (
        f"On {dataset} {best} has the highest mean test AUC, {top}; {ours} has "
        f"{row[ours].auc:.4f}, {how}."
    )


# --------------------------------------------------------------------- AUC during training


@dataclass(frozen=True, eq=False)
class Trajectory:
    """Means over splits at each checkpoint of one method on one data set (one split: sd NaN)."""

    dataset: str
    method: str
    cpu_seconds: Vector
    n_gradients: Vector
    auc_mean: Vector
    auc_sd: Vector

    @property
    def as_published(self) -> tuple[float, float]:
        """The highest mean and the lowest standard deviation over all checkpoints."""
        return float(self.auc_mean.max()), float(self.auc_sd.min())


def trajectories(comparison: Comparison) -> list[Trajectory]:
    """Return the trajectories of a comparison, for methods that record checkpoints.

    Raises `ValueError` if a method recorded different numbers of checkpoints on different splits,
    since there is then no common time to average at.
    """
    found = []
    for dataset, method, results in comparison.by_method():
        paths = [result.checkpoints for result in results if result.checkpoints]
        lengths = sorted({len(path) for path in paths})
        if len(lengths) > 1:
            raise ValueError(
                f"{method} recorded {', '.join(map(str, lengths))} checkpoints on different "
                f"splits of {dataset}; record at the same steps on every split."
            )
        if paths:
            points = np.asarray(paths, dtype=np.float64)
            sd = np.full(lengths[0], np.nan)
            if len(points) > 1:
                sd = points[:, :, 2].std(axis=0, ddof=1)
            seconds, gradients, auc = points.mean(axis=0).T
            found.append(Trajectory(dataset, method, seconds, gradients, auc, sd))
    return found
