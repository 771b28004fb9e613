# SPDX-License-Identifier: BSD-3-Clause
"""The ROC, precision-recall and calibration curves of a model on its test part.

Curves of different splits are averaged at fixed points, so only their values there are kept.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pairlearn.typing import Vector

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


def coefficients(model: Any) -> list[float]:
    """Return the coefficients of a linear model with few of them; otherwise an empty list."""
    found = getattr(model, "coef_", getattr(model, "coef", None))
    flat = np.asarray([] if found is None else found, dtype=np.float64).ravel()
    if not len(flat) or len(flat) > _MOST_COEFFICIENTS or not np.isfinite(flat).all():
        return []
    return [float(f"{value:.6g}") for value in flat]
