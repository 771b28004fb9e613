# SPDX-License-Identifier: BSD-3-Clause
"""How often intervals hold the truth: ``python -m benchmarks.coverage [--trials N] [--form NAME]``.

Scores are normal. Negatives have mean 0 and standard deviation 1; positives have the mean that
gives the wanted AUC and the standard deviation 1 ("equal"), 1/2 ("narrow") or 2 ("wide"); "ties"
are equal ones rounded to halves. Printed is, for each form of interval and each kind of scores, the
share of trials whose interval of level .95 holds the truth: its mean over all AUCs and sizes, the
least and where it is, and the most. The share of N trials at one place has a standard deviation of
.22 / sqrt(N), so the least of many places is a little too low and the most too high. Places with
10,000 examples have a quarter of the trials.
"""

from __future__ import annotations

import argparse
import math
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

SPREAD = {"equal": 1.0, "ties": 1.0, "narrow": 0.5, "wide": 2.0}
#: The least coverage that is promised, and the most where the spread is equal.
LEAST = {"equal": 0.935, "ties": 0.935, "narrow": 0.93, "wide": 0.90}
MOST = 0.975
AUCS = (0.6, 0.8, 0.95, 0.99, 0.995)
#: Positives and negatives.
SIZES = ((10, 10), (10, 200), (30, 30), (30, 300), (100, 2000), (10, 9990))
#: In the form "groups": groups of positives, of negatives, and examples of each.
GROUPS = ((10, 50, 5), (5, 20, 10), (30, 100, 5), (20, 20, 30))
#: The correlation of two examples of a group, and of two scores of an example.
WITHIN, BETWEEN = 0.5, 0.7
#: From this number of examples on, a quarter of the trials is made.
LARGE = 5000
#: How far the second score of the form "difference" is behind, in standard deviations.
BEHIND = 0.7


@dataclass(frozen=True)
class Cell:
    """One place of the grid."""

    form: str
    kind: str
    auc: float
    size: tuple[int, ...]


def mean_of(kind: str, auc: float) -> float:
    """Return the mean of the positives."""
    from scipy.special import ndtri

    return float(ndtri(auc)) * math.hypot(1.0, SPREAD[kind])


def scores_of(cell: Cell, y: Any, noise: Any, shift: float = 0.0) -> Any:
    """Return scores with this standard normal noise."""
    mean = mean_of(cell.kind, cell.auc) - shift
    found = np.where(y == 1, mean + SPREAD[cell.kind] * noise, noise)
    return np.round(2.0 * found) / 2.0 if cell.kind == "ties" else found


def fine(cell: Cell, metric: Any, shift: float = 0.0) -> float:
    """Return the true value: that of 40,000 quantiles of each class, weighted."""
    from scipy.special import ndtri

    n_positive, n_negative = cell.size[:2]
    grid = ndtri((np.arange(40_000) + 0.5) / 40_000)
    y = np.repeat([0, 1], len(grid))
    weight = np.where(y == 1, n_positive, n_negative)
    return float(metric(y, scores_of(cell, y, np.tile(grid, 2), shift), sample_weight=weight))


def drawn_alone(metric: Any, *, together: bool) -> Callable[[Cell], Any]:
    """Return the form of a metric; `together` draws the classes of the examples too."""

    def prepare(cell: Cell) -> Any:
        truth = fine(cell, metric)
        n_positive, n_negative = cell.size
        n = n_positive + n_negative

        def trial(rng: np.random.Generator) -> tuple[float, float, float]:
            y = np.repeat([0, 1], [n_negative, n_positive])
            while together:
                y = (rng.random(n) < n_positive / n).astype(int)
                if 1 < y.sum() < n - 1:
                    break
            found = metric.interval(y, scores_of(cell, y, rng.normal(size=n)))
            return found.low, found.high, truth

        return trial

    return prepare


def grouped(cell: Cell) -> Any:
    """Return the form of groups of one class each."""
    from pairlearn.metrics import PartialAUC

    first, second, each = cell.size
    groups = np.repeat(np.arange(first + second), each)
    y = (groups < first).astype(int)
    truth = fine(cell, PartialAUC())

    def trial(rng: np.random.Generator) -> tuple[float, float, float]:
        noise = math.sqrt(WITHIN) * rng.normal(size=first + second)[groups]
        noise += math.sqrt(1.0 - WITHIN) * rng.normal(size=len(y))
        found = PartialAUC().interval(y, scores_of(cell, y, noise), groups=groups)
        return found.low, found.high, truth

    return trial


def difference(cell: Cell) -> Any:
    """Return the form of the difference of two correlated scores."""
    from pairlearn.metrics import PartialAUC, compare_auc

    y = np.repeat([1, 0], cell.size)
    truth = fine(cell, PartialAUC()) - fine(cell, PartialAUC(), BEHIND)

    def trial(rng: np.random.Generator) -> tuple[float, float, float]:
        common, a, b = rng.normal(size=(3, len(y)))
        a, b = (math.sqrt(BETWEEN) * common + math.sqrt(1.0 - BETWEEN) * own for own in (a, b))
        found = compare_auc(y, scores_of(cell, y, a), scores_of(cell, y, b, BEHIND))
        return found.low, found.high, truth

    return trial


def mean_of_parts(cell: Cell) -> Any:
    """Return the form of the mean AUC of five parts."""
    from pairlearn.metrics import PartialAUC, mean_auc_interval, roc_auc_interval

    y = np.repeat([1, 0], cell.size)
    truth = fine(cell, PartialAUC())

    def trial(rng: np.random.Generator) -> tuple[float, float, float]:
        noises = rng.normal(size=(5, len(y)))
        parts = [roc_auc_interval(y, scores_of(cell, y, noise)) for noise in noises]
        found = mean_auc_interval(parts)
        return found.low, found.high, truth

    return trial


def many_classes(cell: Cell) -> Any:
    """Return the form of Hand and Till's M: three classes, each ahead of the one before."""
    from scipy.special import ndtr

    from pairlearn.metrics import HandTill

    y = np.repeat([0, 1, 2], (cell.size[1], cell.size[0], cell.size[0]))
    step = mean_of("equal", cell.auc)
    truth = float(np.mean(ndtr(np.array([1.0, 2.0, 1.0]) * step / math.sqrt(2.0))))

    def trial(rng: np.random.Generator) -> tuple[float, float, float]:
        scores = rng.normal(size=len(y)) + step * y
        found = HandTill(pairs=True).interval(y, np.column_stack([scores] * 3))
        return found.low, found.high, truth

    return trial


def forms() -> dict[str, Callable[[Cell], Any]]:
    """Return every form of interval by its name."""
    from pairlearn.metrics import AveragePrecision, EnrichmentFactor, PartialAUC

    return {
        "AUC": drawn_alone(PartialAUC(), together=False),
        "partial AUC": drawn_alone(PartialAUC(0.1), together=False),
        "two-way": drawn_alone(PartialAUC(0.3, 0.5), together=False),
        "average precision": drawn_alone(AveragePrecision(), together=True),
        "enrichment": drawn_alone(EnrichmentFactor(0.05), together=True),
        "groups": grouped,
        "mean of five": mean_of_parts,
        "difference": difference,
        "Hand-Till": many_classes,
    }


def cells(form: str) -> Iterator[Cell]:
    """Yield the places of the grid of one form."""
    sizes: Sequence[tuple[int, ...]] = GROUPS if form == "groups" else SIZES
    kinds = {"Hand-Till": ("equal",), "groups": ("equal", "narrow", "wide")}.get(form, SPREAD)
    for kind in kinds:
        for auc in AUCS:
            for size in sizes:
                if form in ("mean of five", "Hand-Till") and max(size) > 2000:
                    continue
                # the top 5 % of a small sample, and positives below .1 % of the list, are no share
                if form == "enrichment" and sum(size) < 100:
                    continue
                yield Cell(form, kind, auc, size)


def trials_of(cell: Cell, n_trials: int) -> int:
    """Return the number of trials at a place."""
    return n_trials // (4 if sum(cell.size) >= LARGE else 1)


def coverage(cell: Cell, n_trials: int, seed: int = 0) -> tuple[float, float, float]:
    """Return the shares of trials that hold the truth, lie above it, and lie below it."""
    from pairlearn.validation import AssumptionWarning

    trial = forms()[cell.form](cell)
    rng = np.random.default_rng([seed, *cell.size, round(1000 * cell.auc)])
    with warnings.catch_warnings():
        # The grid has places where an interval says that it may not hold.
        warnings.simplefilter("ignore", AssumptionWarning)
        found = np.array([trial(rng) for _ in range(trials_of(cell, n_trials))])
    low, high, truth = found.T
    above, below = float(np.mean(low > truth + 1e-9)), float(np.mean(high < truth - 1e-9))
    return 1.0 - above - below, above, below


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.coverage", description=__doc__)
    parser.add_argument("--trials", type=int, default=2000, help="trials of each place")
    parser.add_argument("--form", action="append", choices=sorted(forms()), help="only this form")
    parser.add_argument("--all", action="store_true", help="print every place, too")
    options = parser.parse_args(arguments)
    print("| interval of | scores | mean | least | at AUC, sizes | most |")
    print("| --- | --- | --- | --- | --- | --- |")
    for form in options.form or forms():
        found: dict[str, list[tuple[float, Cell]]] = {}
        for cell in cells(form):
            share, above, below = coverage(cell, options.trials)
            found.setdefault(cell.kind, []).append((share, cell))
            if options.all:
                line = f"{cell} {share:.3f}, above the truth {above:.3f}, below {below:.3f}"
                print(line, flush=True)
        for kind, rows in found.items():
            share, cell = min(rows, key=lambda row: row[0])
            size = " / ".join(map(str, cell.size))
            mean, most = np.mean([row[0] for row in rows]), max(row[0] for row in rows)
            line = f"{mean:.3f} | {share:.3f} | {cell.auc}, {size} | {most:.3f}"
            print(f"| {form} | {kind} | {line} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
