# SPDX-License-Identifier: BSD-3-Clause
"""The page of one model of many classes on one test set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairlearn.experiments.report.evaluation import Measure, curve_figure, measures_table, thinned
from pairlearn.experiments.report.page import Cell, Facts, Figure, Page, Part, Table, number
from pairlearn.metrics.bands import roc_band
from pairlearn.metrics.calibration import CalibrationError, calibration_curve
from pairlearn.metrics.hand_till import HandTill
from pairlearn.metrics.metric import Measured, Metric
from pairlearn.metrics.partial import PartialAUC
from pairlearn.typing import Places, Vector

#: Number of ROC curves to draw, those of the lowest AUC; the table has all classes.
_CURVES = 12
#: Smaller probabilities are raised to this, so that one example cannot make the mean infinite.
_LEAST = 1e-12


@dataclass(frozen=True)
class ClassEvidence:
    """Labelled examples of many classes that a model has judged.

    `codes` numbers the class of each example. `probabilities` has a column for each class, and
    `pair_scores` one for each pair of classes, if the model has them. All intervals have the level
    `confidence`.
    """

    classes: tuple[Any, ...]
    codes: Places
    probabilities: Vector
    pair_scores: Vector | None
    confidence: float = 0.95

    @property
    def predicted(self) -> Places:
        """The number of the most probable class of each example."""
        return np.asarray(self.probabilities.argmax(axis=1))

    @property
    def confusion(self) -> NDArray[np.int64]:
        """Counts of examples by true class (rows) and predicted class (columns)."""
        k = len(self.classes)
        return np.bincount(k * self.codes + self.predicted, minlength=k * k).reshape(k, k)


@dataclass(frozen=True)
class _Mean(Metric):
    """The mean of one number per example, passed in place of the scores."""

    ceiling: float
    larger_is_better: bool

    def measure(self, labels: NDArray[Any], scores: Vector, weight: Vector) -> Measured:
        total = float(weight.sum())
        value = min(max(float(weight @ scores) / total, 0.0), self.ceiling)
        influence = weight * (scores - value) / total
        return Measured(value, influence, len(scores), ceiling=self.ceiling)


@dataclass(frozen=True)
class Classwise:
    """One class against the others."""

    label: Any
    n_examples: int
    recall: float
    #: None if the class was never predicted.
    precision: float | None
    #: None if all examples, or none, are of the class; likewise the calibration error.
    auc: Measure | None
    calibration_error: float | None


def class_measures(evidence: ClassEvidence) -> list[Measure]:
    """Return the measures over all classes, with their intervals.

    >>> codes = np.repeat(np.arange(3), 20)
    >>> p = np.full((60, 3), 0.1)
    >>> p[np.arange(60), codes] = 0.8
    >>> found = class_measures(ClassEvidence(("a", "b", "c"), codes, p, None))
    >>> [(one.name, round(one.value, 4)) for one in found][:2]
    [("Hand and Till's M", 1.0), ('accuracy', 1.0)]
    """
    codes, p = evidence.codes, evidence.probabilities
    own = p[np.arange(len(codes)), codes]
    known = tuple(range(len(evidence.classes)))
    right = (evidence.predicted == codes).astype(np.float64)
    squares = (p**2).sum(axis=1) - 2.0 * own + 1.0
    wanted: list[tuple[str, Metric, Vector]] = []
    if evidence.pair_scores is not None:
        name = "Hand and Till's M, scores of the pairs"
        wanted.append((name, HandTill(pairs=True, classes=known), evidence.pair_scores))
    wanted += [
        ("Hand and Till's M", HandTill(classes=known), p),
        ("accuracy", _Mean(1.0, True), right),
        ("log loss", _Mean(-np.log(_LEAST), False), -np.log(np.maximum(own, _LEAST))),
        ("Brier score", _Mean(2.0, False), np.clip(squares, 0.0, 2.0)),
    ]
    found = []
    for name, metric, values in wanted:
        # Means do not use labels; equal labels allow a class with a single example.
        labels = codes if isinstance(metric, HandTill) else np.zeros(len(codes))
        one = metric.interval(labels, values, confidence=evidence.confidence)
        found.append(Measure(name, one.value, one.low, one.high, metric.larger_is_better))
    return found


def classwise(evidence: ClassEvidence) -> list[Classwise]:
    """Return the measures of each class against the others."""
    confusion, found = evidence.confusion, []
    for k, label in enumerate(evidence.classes):
        is_k, p = evidence.codes == k, evidence.probabilities[:, k]
        n, n_said = int(is_k.sum()), int(confusion[:, k].sum())
        auc = error = None
        if 0 < n < len(p):
            one = PartialAUC().interval(is_k, p, confidence=evidence.confidence)
            auc = Measure(f"AUC of {label}", one.value, one.low, one.high, True)
            error = CalibrationError()(is_k, p)
        hits = int(confusion[k, k])
        recall = hits / n if n else float("nan")
        found.append(Classwise(label, n, recall, hits / n_said if n_said else None, auc, error))
    return found


def class_page(
    evidence: ClassEvidence,
    measures: Sequence[Measure],
    classes: Sequence[Classwise],
    *,
    title: str,
    facts: Mapping[str, str],
) -> Page:
    """Return the page: measures, each class against the others, confusions, curves with bands."""
    level = f"{100 * evidence.confidence:g} %"
    first = measures[0]
    parts: list[Part] = [
        measures_table(measures, level),
        _class_table(classes, level),
        _confusion_table(evidence),
        *_roc_figures(evidence, classes, level),
        _calibration_figure(evidence, level),
    ]
    return Page(
        title,
        f"{len(evidence.codes)} examples of {len(evidence.classes)} classes. Figures hold for "
        "examples like these, if the model has not seen them in training.",
        [*parts, Facts("What was measured", tuple(facts.items()))],
        headline=f"Hand and Till's M {first.value:.4f}, {level} interval [{first.low:.4f}, "
        f"{first.high:.4f}]",
    )


def _class_table(classes: Sequence[Classwise], level: str) -> Table:
    """Return the table of each class against the others."""
    rows: list[list[str | Cell]] = []
    for one in classes:
        auc = (None,) * 3 if one.auc is None else (one.auc.value, one.auc.low, one.auc.high)
        values = (one.recall, one.precision, *auc, one.calibration_error)
        rows.append([str(one.label), number(one.n_examples, "d"), *map(number, values)])
    columns = ("class", "examples", "recall", "precision", "AUC", "low", "high",
               "calibration error")  # fmt: skip
    return Table(
        "Each class against the others", columns, rows, "classes",
        note=f"The AUC is that of the probability of the class, with its {level} interval.",
    )  # fmt: skip


def _confusion_table(evidence: ClassEvidence) -> Table:
    names = [str(label) for label in evidence.classes]
    rows: list[list[str | Cell]] = [
        [name, *(number(n, "d", strong=k == j) for j, n in enumerate(row))]
        for k, (name, row) in enumerate(zip(names, evidence.confusion.tolist(), strict=True))
    ]
    return Table(
        "Confusions", ("class", *(f"taken for {name}" for name in names)), rows, "confusions",
        note="How many examples of each class are taken for each class.",
    )  # fmt: skip


def _roc_figures(evidence: ClassEvidence, classes: Sequence[Classwise], level: str) -> list[Figure]:
    """Return the ROC curves, with bands, of the classes with the lowest AUC."""
    known = [(k, one.auc) for k, one in enumerate(classes) if one.auc is not None]
    hardest = sorted(known, key=lambda entry: entry[1].value)[:_CURVES]
    figures = []
    for k, auc in sorted(hardest, key=lambda entry: entry[0]):
        roc = roc_band(
            evidence.codes == k, evidence.probabilities[:, k], confidence=evidence.confidence
        )
        kept = thinned(roc.fpr + roc.tpr)
        figures.append(
            curve_figure(
                f"ROC curve of {evidence.classes[k]} against the others (AUC {auc.value:.4f})",
                f"roc-{k}", ("false positive rate", "true positive rate"),
                (roc.fpr[kept], roc.tpr[kept], roc.low[kept], roc.high[kept]), level, diagonal=True,
            )
        )  # fmt: skip
    return figures


def _calibration_figure(evidence: ClassEvidence, level: str) -> Figure:
    n, k = evidence.probabilities.shape
    # All probabilities of all classes; those of one example depend on each other.
    came_true = (evidence.codes[:, None] == np.arange(k)).astype(int).ravel()
    found = calibration_curve(
        came_true,
        evidence.probabilities.ravel(),
        groups=np.repeat(np.arange(n), k),
        confidence=evidence.confidence,
    )
    return curve_figure(
        "Calibration of all classes", "calibration", ("probability", "share that came true"),
        (found.predicted, found.observed, found.low, found.high), level, diagonal=True, points=True,
    )  # fmt: skip
