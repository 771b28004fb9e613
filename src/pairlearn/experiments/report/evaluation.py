# SPDX-License-Identifier: BSD-3-Clause
"""The page of one model on one test set: all metrics with intervals, and curves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pairlearn.experiments.report.figures import histogram_figure, limits_figure
from pairlearn.experiments.report.page import Facts, Figure, Page, Part, Table, number
from pairlearn.metrics.bands import precision_recall_band, roc_band
from pairlearn.metrics.calibration import BrierScore, CalibrationError, calibration_curve
from pairlearn.metrics.costs import ExpectedCost
from pairlearn.metrics.metric import Metric
from pairlearn.metrics.partial import PartialAUC
from pairlearn.metrics.top import AveragePrecision, EnrichmentFactor, PrecisionAt, RecallAt
from pairlearn.typing import Mask, Places, Vector

#: False positive rates at which the top of the list ends.
_RATES = (0.05, 0.1)
#: Numbers of examples at the top of the list.
_COUNTS = (10, 100)
#: Shares of all examples at the top of the list.
_SHARES = (0.01, 0.05)
#: The limit on points of a drawn curve.
_POINTS = 400
_N_BINS = 40


@dataclass(frozen=True)
class Evidence:
    """Labelled examples that a model has scored.

    Both classes are present. The model predicts positive for scores above 0. `costs` are those of a
    false positive and of a false negative. All intervals have the level `confidence`.
    """

    positive: Mask
    scores: Vector
    probabilities: Vector | None
    costs: tuple[float, float] = (1.0, 1.0)
    confidence: float = 0.95


@dataclass(frozen=True)
class Measure:
    """One metric of a model: name, value, interval, and whether larger is better."""

    name: str
    value: float
    low: float
    high: float
    larger_is_better: bool

    def plain(self) -> dict[str, Any]:
        """Return the measure as JSON values."""
        return {"name": self.name, "value": self.value, "low": self.low, "high": self.high}


def measures_of(evidence: Evidence) -> list[Measure]:
    """Return every suitable metric, with its interval.

    A count at the top of the list appears if there are at least twice as many examples, a share if
    it holds at least ten examples, and metrics of probabilities if there are probabilities.

    >>> y = np.arange(40) >= 20
    >>> found = measures_of(Evidence(y, np.arange(40.0), None))
    >>> found[0].name, round(found[0].value, 6), found[0].high
    ('AUC', 1.0, 1.0)
    """
    n = len(evidence.scores)
    wanted: list[tuple[str, Metric]] = [("AUC", PartialAUC())]
    n_negative = n - int(evidence.positive.sum())
    wanted += [
        (f"partial AUC, fpr <= {part.max_fpr:g}", part)
        for part in map(PartialAUC, _RATES)
        if part.fewest_negatives <= n_negative
    ]
    wanted.append(("average precision", AveragePrecision()))
    for k in _COUNTS:
        if 2 * k <= n:
            wanted += [(f"precision at {k}", PrecisionAt(k)), (f"recall at {k}", RecallAt(k))]
    wanted += [
        (f"enrichment of the top {100 * share:g} %", EnrichmentFactor(share))
        for share in _SHARES
        if share * n >= 10
    ]
    false_positive, false_negative = evidence.costs
    title = f"cost at the model's threshold ({false_positive:g}, {false_negative:g})"
    wanted.append((title, ExpectedCost(false_positive, false_negative, 0.0)))
    measured = [(name, metric, evidence.scores) for name, metric in wanted]
    if evidence.probabilities is not None:
        measured += [
            ("Brier score", BrierScore(), evidence.probabilities),
            ("calibration error", CalibrationError(), evidence.probabilities),
        ]
    found = []
    for name, metric, values in measured:
        one = metric.interval(evidence.positive, values, confidence=evidence.confidence)
        found.append(Measure(name, one.value, one.low, one.high, metric.larger_is_better))
    return found


def evaluation_page(
    evidence: Evidence,
    measures: Sequence[Measure],
    *,
    title: str,
    facts: Mapping[str, str],
    thresholds: Sequence[Mapping[str, Any]],
) -> Page:
    """Return the page: measures, decisions at some thresholds, curves with bands, histograms.

    `thresholds` are rows of decisions, as ``pairlearn evaluate`` prints them.
    """
    level = f"{100 * evidence.confidence:g} %"
    auc = measures[0]
    rows = [[v if isinstance(v, str) else number(v, ".4g") for v in row.values()]
            for row in thresholds]  # fmt: skip
    decisions = Table(
        "Decisions", [name.replace("_", " ") for name in thresholds[0]], rows, "decisions",
        note="What saying positive above a threshold does, on these examples.",
    )  # fmt: skip
    parts: list[Part] = [measures_table(measures, level), decisions, *_curves(evidence, level)]
    return Page(
        title,
        f"{len(evidence.scores)} examples, {int(evidence.positive.sum())} of them positive. "
        "Figures hold for examples like these, if the model has not seen them in training.",
        [*parts, Facts("What was measured", tuple(facts.items()))],
        headline=f"AUC {auc.value:.4f}, {level} interval [{auc.low:.4f}, {auc.high:.4f}]",
    )


def measures_table(measures: Sequence[Measure], level: str) -> Table:
    """Return the measures with their intervals as a table of a page."""
    rows = [
        [one.name, number(one.value, strong=True), number(one.low), number(one.high),
         "larger" if one.larger_is_better else "smaller"]
        for one in measures
    ]  # fmt: skip
    return Table(
        "Measures", ("measure", "value", "low", "high", "better is"), rows, "measures",
        note=f"Each with its {level} interval, on the examples of this page alone.",
    )  # fmt: skip


def _curves(evidence: Evidence, level: str) -> list[Figure]:
    """Return the ROC, precision-recall and calibration curves, and histograms of the scores."""
    y, scores = evidence.positive, evidence.scores
    roc = roc_band(y, scores, confidence=evidence.confidence)
    kept = thinned(roc.fpr + roc.tpr)
    figures = [
        curve_figure(
            "ROC curve", "roc", ("false positive rate", "true positive rate"),
            (roc.fpr[kept], roc.tpr[kept], roc.low[kept], roc.high[kept]), level, diagonal=True,
        )
    ]  # fmt: skip
    precision = precision_recall_band(y, scores, confidence=evidence.confidence)
    kept = thinned(precision.recall + np.linspace(0.0, 1.0, len(precision.recall)))
    figures.append(
        curve_figure(
            "Precision and recall", "precision-recall", ("recall", "precision"),
            (precision.recall[kept], precision.precision[kept], precision.low[kept],
             precision.high[kept]), level,
        )
    )  # fmt: skip
    if evidence.probabilities is not None:
        found = calibration_curve(y, evidence.probabilities, confidence=evidence.confidence)
        figures.append(
            curve_figure(
                "Calibration", "calibration", ("probability", "share of positives"),
                (found.predicted, found.observed, found.low, found.high), level,
                diagonal=True, points=True,
            )
        )  # fmt: skip
    edges = np.histogram_bin_edges(scores, bins=_N_BINS)
    shares = [np.histogram(scores[y == label], edges)[0] / (y == label).sum()
              for label in (False, True)]  # fmt: skip
    figures.append(
        Figure(
            "Scores", histogram_figure(edges, shares, ("negative", "positive"), name="scores",
                                       xlabel="score; the model says positive above 0"),
            "scores", ("from", "to", "share of negatives", "share of positives"),
            np.column_stack([edges[:-1], edges[1:], *shares]).tolist(),
            "Histograms of the scores of both classes.",
        )
    )  # fmt: skip
    return figures


def curve_figure(
    title: str,
    name: str,
    axes: tuple[str, str],
    columns: tuple[Vector, Vector, Vector, Vector],
    level: str,
    *,
    diagonal: bool = False,
    points: bool = False,
) -> Figure:
    """Return a curve with its band as a figure of a page."""
    x, y, low, high = columns
    drawing = limits_figure(
        x, y, low, high, name=name, xlabel=axes[0], ylabel=axes[1], diagonal=diagonal, points=points
    )
    return Figure(
        title, drawing, name, (*axes, "low", "high"), np.column_stack(columns).tolist(),
        f"{title} with its {level} {'bars' if points else 'band'}.",
        note=f"The {'bars hold' if points else 'band holds'} everywhere at once with {level} "
        "confidence.",
    )  # fmt: skip


def thinned(path: Vector) -> Places:
    """Return the positions of at most `_POINTS` points along a rising path, with both ends."""
    if len(path) <= _POINTS:
        return np.arange(len(path))
    places = np.searchsorted(path, np.linspace(path[0], path[-1], _POINTS))
    return np.unique(np.append(places, len(path) - 1).clip(0, len(path) - 1))
