# SPDX-License-Identifier: BSD-3-Clause
"""Average the test curves of a comparison over its splits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pairlearn.experiments.comparison.curve_points import PLACES
from pairlearn.experiments.comparison.runner import Comparison
from pairlearn.typing import Vector

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
    # A result of an older store has no curves.
    rows = [result.curves.get("coefficients") or [] for result in found if result.curves]
    if len({len(row) for row in rows}) != 1 or not rows[0]:
        return np.zeros(0), np.zeros(0)
    values = np.array(rows)
    return values.mean(axis=0), values.std(axis=0)
