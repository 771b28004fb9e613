# SPDX-License-Identifier: BSD-3-Clause
"""The pages of one model on one test set: all metrics with intervals, and curves.

A measure is a mapping with name, value, low, high and better ("larger" or "smaller"), as
``pairlearn evaluate --json`` prints it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairlearn.experiments.report.figures import Curve, histogram_figure, limits_figure
from pairlearn.experiments.report.page import Cell, Facts, Figure, Page, Part, Table
from pairlearn.metrics.bands import precision_recall_band, roc_band
from pairlearn.metrics.calibration import BrierScore, CalibrationError, calibration_curve
from pairlearn.metrics.costs import ExpectedCost
from pairlearn.metrics.hand_till import HandTill
from pairlearn.metrics.metric import Measured, Metric
from pairlearn.metrics.partial import PartialAUC
from pairlearn.metrics.top import AveragePrecision, EnrichmentFactor, PrecisionAt, RecallAt
from pairlearn.typing import Mask, Places, Vector

#: False positive rates at which the top of the list ends, and its numbers and shares of examples.
_RATES, _COUNTS, _SHARES = (0.05, 0.1), (10, 100), (0.01, 0.05)
#: The limit on points of a drawn curve, and the bins of a histogram.
_POINTS, _N_BINS = 400, 40
#: Number of ROC curves to draw, those of the lowest AUC; the table has all classes.
_CURVES = 12
#: Smaller probabilities are raised to this, so that one example cannot make the mean infinite.
_LEAST = 1e-12
#: Where a page says what it is about.
_ABOUT = "Figures hold for examples like these, if the model has not seen them in training."


def _measured(
    name: str, metric: Metric, labels: Any, values: Vector, confidence: float
) -> dict[str, Any]:
    one = metric.interval(labels, values, confidence=confidence)
    better = "larger" if metric.larger_is_better else "smaller"
    return {"name": name, "value": one.value, "low": one.low, "high": one.high, "better": better}


# ---------------------------------------------------------------------------------- two classes


def measures_of(
    positive: Mask,
    scores: Vector,
    probabilities: Vector | None,
    *,
    costs: tuple[float, float] = (1.0, 1.0),
    confidence: float = 0.95,
) -> list[dict[str, Any]]:
    """Return every suitable metric, with its interval.

    A count at the top of the list appears if there are at least twice as many examples, a share if
    it holds at least ten examples, and metrics of probabilities if there are probabilities. `costs`
    are those of a false positive and of a false negative.

    >>> found = measures_of(np.arange(40) >= 20, np.arange(40.0), None)
    >>> found[0]["name"], round(found[0]["value"], 6), found[0]["high"]
    ('AUC', 1.0, 1.0)
    """
    n = len(scores)
    n_negative = n - int(positive.sum())
    wanted: list[tuple[str, Metric]] = [("AUC", PartialAUC())]
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
    title = f"cost at the model's threshold ({costs[0]:g}, {costs[1]:g})"
    wanted.append((title, ExpectedCost(*costs, 0.0)))
    found = [_measured(*one, positive, scores, confidence) for one in wanted]
    if probabilities is not None:
        found += [
            _measured("Brier score", BrierScore(), positive, probabilities, confidence),
            _measured("calibration error", CalibrationError(), positive, probabilities, confidence),
        ]
    return found


def evaluation_page(
    values: Mapping[str, Any],
    positive: Mask,
    scores: Vector,
    probabilities: Vector | None,
    *,
    title: str,
    facts: Mapping[str, str],
) -> Page:
    """Return the page: measures, decisions at some thresholds, curves with bands, histograms.

    `values` are those that ``pairlearn evaluate`` prints.
    """
    confidence = values["confidence"]
    thresholds = values["thresholds"]
    columns = {name.replace("_", " "): "" if name == "at" else ".4g" for name in thresholds[0]}
    decisions = Table(
        "Decisions", "decisions", columns, [list(row.values()) for row in thresholds],
        "What saying positive above a threshold does, on these examples.",
    )  # fmt: skip
    roc = roc_band(positive, scores, confidence=confidence)
    precision = precision_recall_band(positive, scores, confidence=confidence)
    kept = thinned(precision.recall + np.linspace(0.0, 1.0, len(precision.recall)))
    parts: list[Part] = [
        _measures_table(values["measures"], confidence),
        decisions,
        _roc_figure("ROC curve", "roc", roc, confidence),
        _curve_figure(
            "Precision and recall", "precision-recall", ("recall", "precision"),
            Curve(precision.recall[kept], precision.precision[kept], precision.low[kept],
                  precision.high[kept]),
            confidence,
        ),
    ]  # fmt: skip
    if probabilities is not None:
        found = calibration_curve(positive, probabilities, confidence=confidence)
        parts.append(_calibration("Calibration", "share of positives", found, confidence))
    edges = np.histogram_bin_edges(scores, bins=_N_BINS)
    shares = [
        np.histogram(scores[positive == label], edges)[0] / (positive == label).sum()
        for label in (False, True)
    ]
    parts.append(
        Figure(
            "Scores", "scores",
            histogram_figure(edges, shares, ("negative", "positive"),
                             xlabel="score; the model says positive above 0"),
            (("from", "to", "share of negatives", "share of positives"),
             np.column_stack([edges[:-1], edges[1:], *shares]).tolist()),
            "Histograms of the scores of both classes.",
        )
    )  # fmt: skip
    n, n_positive = len(scores), int(positive.sum())
    about = f"{n} examples, {n_positive} of them positive. {_ABOUT}"
    return _page(title, about, parts, facts, "AUC", values["measures"][0], confidence)


def thinned(path: Vector) -> Places:
    """Return the positions of at most `_POINTS` points along a rising path, with both ends."""
    if len(path) <= _POINTS:
        return np.arange(len(path))
    places = np.searchsorted(path, np.linspace(path[0], path[-1], _POINTS))
    return np.unique(np.append(places, len(path) - 1).clip(0, len(path) - 1))


# --------------------------------------------------------------------------------- many classes


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


def class_values(
    classes: Sequence[Any],
    codes: Places,
    probabilities: Vector,
    pair_scores: Vector | None,
    confidence: float = 0.95,
) -> dict[str, Any]:
    """Return the measures over all classes, each class against the others, and the confusions.

    `codes` numbers the class of each example. `probabilities` has a column for each class, and
    `pair_scores` one for each pair of classes, if the model has them.

    >>> codes = np.repeat(np.arange(3), 20)
    >>> p = np.full((60, 3), 0.1)
    >>> p[np.arange(60), codes] = 0.8
    >>> found = class_values("abc", codes, p, None)
    >>> [(one["name"], round(one["value"], 4)) for one in found["measures"]][:2]
    [("Hand and Till's M", 1.0), ('accuracy', 1.0)]
    """
    p, k, predicted = probabilities, len(classes), probabilities.argmax(axis=1)
    own = p[np.arange(len(codes)), codes]
    squares = np.clip((p**2).sum(axis=1) - 2.0 * own + 1.0, 0.0, 2.0)
    known = tuple(range(k))
    measures = []
    if pair_scores is not None:
        name = "Hand and Till's M, scores of the pairs"
        pairs = HandTill(pairs=True, classes=known)
        measures.append(_measured(name, pairs, codes, pair_scores, confidence))
    measures.append(_measured("Hand and Till's M", HandTill(classes=known), codes, p, confidence))
    # Means do not use labels; equal labels allow a class with a single example.
    equal, logs = np.zeros(len(codes)), -np.log(np.maximum(own, _LEAST))
    measures += [
        _measured("accuracy", _Mean(1.0, True), equal, 1.0 * (predicted == codes), confidence),
        _measured("log loss", _Mean(-np.log(_LEAST), False), equal, logs, confidence),
        _measured("Brier score", _Mean(2.0, False), equal, squares, confidence),
    ]
    confusion = np.bincount(k * codes + predicted, minlength=k * k).reshape(k, k)
    each = []
    for code, label in enumerate(classes):
        is_it, n = codes == code, int(confusion[code].sum())
        hits, n_said = int(confusion[code, code]), int(confusion[:, code].sum())
        auc = {"value": None, "low": None, "high": None}
        error = None
        if 0 < n < len(codes):
            auc = _measured("", PartialAUC(), is_it, p[:, code], confidence)
            error = CalibrationError()(is_it, p[:, code])
        each.append({
            "class": label, "examples": n, "recall": hits / n if n else None,
            "precision": hits / n_said if n_said else None, "auc": auc["value"],
            "low": auc["low"], "high": auc["high"], "calibration_error": error,
        })  # fmt: skip
    return {"confidence": confidence, "measures": measures, "classes": each,
            "confusion": confusion.tolist()}  # fmt: skip


def class_page(
    values: Mapping[str, Any],
    codes: Places,
    probabilities: Vector,
    *,
    title: str,
    facts: Mapping[str, str],
) -> Page:
    """Return the page: measures, each class against the others, confusions, curves with bands.

    `values` are those of `class_values`.
    """
    confidence = values["confidence"]
    names = [str(one["class"]) for one in values["classes"]]
    columns = {"class": "", "examples": "d", "recall": ".4f", "precision": ".4f", "AUC": ".4f",
               "low": ".4f", "high": ".4f", "calibration error": ".4f"}  # fmt: skip
    parts: list[Part] = [
        _measures_table(values["measures"], confidence),
        Table(
            "Each class against the others", "classes", columns,
            [[name, *list(one.values())[1:]]
             for name, one in zip(names, values["classes"], strict=True)],
            f"The AUC is that of the probability of the class, with its {_level(confidence)} "
            "interval.",
        ),
        Table(
            "Confusions", "confusions", {"class": "", **{f"taken for {x}": "d" for x in names}},
            [[name, *(Cell(str(n), n, strong=k == j) for j, n in enumerate(row))]
             for k, (name, row) in enumerate(zip(names, values["confusion"], strict=True))],
            "How many examples of each class are taken for each class.",
        ),
    ]  # fmt: skip
    known = [(one["auc"], k) for k, one in enumerate(values["classes"]) if one["auc"] is not None]
    for auc, k in sorted(sorted(known)[:_CURVES], key=lambda entry: entry[1]):
        heading = f"ROC curve of {names[k]} against the others (AUC {auc:.4f})"
        roc = roc_band(codes == k, probabilities[:, k], confidence=confidence)
        parts.append(_roc_figure(heading, f"roc-{k}", roc, confidence))
    n, k = probabilities.shape
    # All probabilities of all classes; those of one example depend on each other.
    came_true = (codes[:, None] == np.arange(k)).astype(int).ravel()
    found = calibration_curve(
        came_true, probabilities.ravel(), groups=np.repeat(np.arange(n), k), confidence=confidence
    )
    heading = "Calibration of all classes"
    parts.append(_calibration(heading, "share that came true", found, confidence))
    about = f"{n} examples of {k} classes. {_ABOUT}"
    first = values["measures"][0]
    return _page(title, about, parts, facts, "Hand and Till's M", first, confidence)


# ------------------------------------------------------------------------------ parts of a page


def _level(confidence: float) -> str:
    return f"{100 * confidence:g} %"


def _page(
    title: str, about: str, parts: list[Part], facts: Mapping[str, str], name: str,
    first: Mapping[str, Any], confidence: float,
) -> Page:  # fmt: skip
    return Page(
        title,
        about,
        [*parts, Facts("What was measured", tuple(facts.items()))],
        headline=f"{name} {first['value']:.4f}, {_level(confidence)} interval "
        f"[{first['low']:.4f}, {first['high']:.4f}]",
    )


def _measures_table(measures: Sequence[Mapping[str, Any]], confidence: float) -> Table:
    return Table(
        "Measures",
        "measures",
        {"measure": "", "value": ".4f", "low": ".4f", "high": ".4f", "better is": ""},
        [
            [one["name"], Cell(f"{one['value']:.4f}", one["value"], strong=True), one["low"],
             one["high"], one["better"]]
            for one in measures
        ],
        f"Each with its {_level(confidence)} interval, on the examples of this page alone.",
    )  # fmt: skip


def _roc_figure(title: str, name: str, roc: Any, confidence: float) -> Figure:
    kept = thinned(roc.fpr + roc.tpr)
    curve = Curve(roc.fpr[kept], roc.tpr[kept], roc.low[kept], roc.high[kept])
    axes = ("false positive rate", "true positive rate")
    return _curve_figure(title, name, axes, curve, confidence, diagonal=True)


def _calibration(title: str, share: str, found: Any, confidence: float) -> Figure:
    curve = Curve(found.predicted, found.observed, found.low, found.high)
    axes = ("probability", share)
    return _curve_figure(title, "calibration", axes, curve, confidence, diagonal=True, points=True)


def _curve_figure(
    title: str, name: str, axes: tuple[str, str], curve: Curve, confidence: float, **look: bool
) -> Figure:
    shape = ("bars", "hold") if look.get("points") else ("band", "holds")
    return Figure(
        title, name, limits_figure(curve, xlabel=axes[0], ylabel=axes[1], **look),
        ((*axes, "low", "high"), np.column_stack(curve).tolist()),
        f"{title} with its {_level(confidence)} {shape[0]}.",
        f"The {shape[0]} {shape[1]} everywhere at once with {_level(confidence)} confidence.",
    )  # fmt: skip
