# SPDX-License-Identifier: BSD-3-Clause
"""Curves of models on test parts, of AUC during training, and their means over splits.

Curves of different splits are averaged at fixed points, so only their values there are kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pairlearn.typing import Vector

if TYPE_CHECKING:
    from pairlearn.experiments.comparison.runner import Comparison

#: The false-positive rates, and recalls, at which curves are kept.
PLACES: Vector = np.linspace(0.0, 1.0, 51)
#: Number of equal bins of predicted probabilities.
BINS = 10
#: Models with more coefficients than this store none.
_MOST_COEFFICIENTS = 200


def curves_on(
    y: Vector, scores: Vector, probabilities: Vector | None = None
) -> dict[str, list[float]]:
    """Return the curves of one test part.

    "roc" is the recall at each false-positive rate of `PLACES`, "precision" the precision at each
    recall of `PLACES`; with probabilities there are "counts", "predicted" and "observed" of each
    bin.
    """
    positive = y > 0
    order = np.argsort(-scores, kind="stable")
    # Examples of equal score count as one step.
    last = np.append(np.diff(scores[order]) != 0, True)
    hits = np.cumsum(positive[order])[last]
    taken = np.arange(1, len(y) + 1)[last]
    recall = np.concatenate([[0.0], hits / positive.sum()])
    alarms = np.concatenate([[0.0], (taken - hits) / (~positive).sum()])
    # At the rate of a vertical step, the value is the top of the step.
    roc = np.interp(PLACES, alarms, recall)
    steps = np.searchsorted(alarms, PLACES, side="right") - 1
    roc = np.maximum(roc, recall[steps])
    place = np.minimum(np.searchsorted(recall[1:], PLACES - 1e-12), len(hits) - 1)
    curves = {"roc": _short(roc), "precision": _short(hits[place] / taken[place])}
    if probabilities is not None:
        bins = np.minimum((np.clip(probabilities, 0.0, 1.0) * BINS).astype(int), BINS - 1)
        counts = np.bincount(bins, minlength=BINS)
        filled = np.maximum(counts, 1)
        curves["counts"] = _short(counts)
        curves["predicted"] = _short(np.bincount(bins, probabilities, minlength=BINS) / filled)
        curves["observed"] = _short(np.bincount(bins, positive, minlength=BINS) / filled)
    return curves


def _short(values: Any) -> list[float]:
    return [round(float(value), 6) for value in values]


def coefficients(model: Any) -> dict[str, list[float]]:
    """Return the "coefficients" of a linear model with few of them; otherwise nothing."""
    found = getattr(model, "coef_", getattr(model, "coef", None))
    flat = np.asarray([] if found is None else found, dtype=np.float64).ravel()
    if not len(flat) or len(flat) > _MOST_COEFFICIENTS or not np.isfinite(flat).all():
        return {}
    return {"coefficients": [float(f"{value:.6g}") for value in flat]}


#: A bin of probabilities with fewer examples than this, over all splits, is left out.
_FEW = 10


@dataclass(frozen=True, eq=False)
class Band:
    """The mean of a curve over splits, and its standard deviation."""

    dataset: str
    method: str
    x: Vector
    mean: Vector
    sd: Vector


def bands(comparison: Comparison, kind: str) -> list[Band]:
    """Return the available bands of a kind of curve ("roc", "precision" or "calibration")."""
    found = []
    for dataset, method, results in comparison.by_method():
        curves = [result.curves for result in results if result.curves]
        if kind == "calibration":
            curves = [curve for curve in curves if "counts" in curve]
            if curves:
                found.append(_calibration(dataset, method, curves))
        elif curves:
            values = np.array([curve[kind] for curve in curves])
            found.append(Band(dataset, method, PLACES, values.mean(0), values.std(0)))
    return found


def _calibration(dataset: str, method: str, curves: Sequence[dict[str, list[float]]]) -> Band:
    """Return observed against predicted shares, over the examples of all splits."""
    counts = np.array([curve["counts"] for curve in curves])
    total = counts.sum(axis=0)
    kept = total >= _FEW
    predicted, observed = (
        (np.array([curve[name] for curve in curves]) * counts).sum(axis=0)[kept] / total[kept]
        for name in ("predicted", "observed")
    )
    # Splits share examples, so the error is that of one test part of size n. For few examples the
    # share may be 0 or 1; Laplace's (k + 1) / (n + 2) avoids an error of zero.
    size = total[kept] / len(curves)
    likely = (observed * size + 1.0) / (size + 2.0)
    error = np.sqrt(likely * (1.0 - likely) / (size + 2.0))
    return Band(dataset, method, predicted, observed, error)


def mean_coefficients(comparison: Comparison, dataset: str, method: str) -> tuple[Vector, Vector]:
    """Return the means over splits of the coefficients of scaled features, and deviations.

    Both are empty where a split has no plane, or the splits have planes of different features: a
    method may choose another model on each.
    """
    found = comparison.values(dataset, method).values()
    rows = [result.curves.get("coefficients") or [] for result in found if result.curves]
    if len({len(row) for row in rows}) != 1 or not rows[0]:
        return np.zeros(0), np.zeros(0)
    values = np.array(rows)
    return values.mean(axis=0), values.std(axis=0)


@dataclass(frozen=True, eq=False)
class Trajectory:
    """Means over splits at each checkpoint of one method on one data set (one split: sd NaN)."""

    dataset: str
    method: str
    cpu_seconds: Vector
    n_gradients: Vector
    auc_mean: Vector
    auc_sd: Vector
    n_splits: int

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
        if not paths:
            continue
        lengths = sorted({len(path) for path in paths})
        if len(lengths) > 1:
            raise ValueError(
                f"{method} recorded {', '.join(map(str, lengths))} checkpoints on different "
                f"splits of {dataset}; record at the same steps on every split."
            )
        points = np.asarray(paths, dtype=np.float64)
        n_splits = len(points)
        auc_sd = np.full(points.shape[1], np.nan)
        if n_splits > 1:
            auc_sd = points[:, :, 2].std(axis=0, ddof=1)
        seconds, gradients, auc = (points[:, :, k].mean(axis=0) for k in range(3))
        found.append(Trajectory(dataset, method, seconds, gradients, auc, auc_sd, n_splits))
    return found
