# SPDX-License-Identifier: BSD-3-Clause
"""Exact class moments on a grid against the same moments in floats."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.report import Effort, Row
from benchmarks.timing import best_of
from pairlearn.solvers import ClassMoments, Extents, Grid

#: Numbers of the table.
_NUMBERS = 2_000_000


def float_moments(X: Any, positive: Any) -> list[tuple[Any, Any]]:
    """Return mean and scatter of both classes, by products about a point near the mean.

    Products are taken of all rows and of the rarer class; the other class is the rest. Ranges are
    found too, as the scale of a feature needs its range.
    """
    low, high = X.min(axis=0), X.max(axis=0)
    origin = X[:1000].mean(axis=0)
    Z = X - origin
    part = Z[np.flatnonzero(positive)]
    products, sums = [part.T @ part, Z.T @ Z], [part.sum(axis=0), Z.sum(axis=0)]
    counts = len(part), len(X) - len(part)
    found = []
    for count, total, product in (
        (counts[0], sums[0], products[0]),
        (counts[1], sums[1] - sums[0], products[1] - products[0]),
    ):
        mean = total / count
        found.append((origin + mean, product - count * np.outer(mean, mean)))
    return [*found, (low, high)]


def run(effort: Effort) -> list[Row]:
    """Compare one pass over rows of 8, 22 and 128 features, ranges included."""
    rows = []
    for d in (8, 22, 128):
        n = effort.pick(_NUMBERS // 4, _NUMBERS) // d
        rng = np.random.default_rng(0)
        X, y = rng.normal(size=(n, d)), np.where(rng.random(n) < 0.5, 1.0, -1.0)

        def exact(bits: int, X: Any = X, y: Any = y) -> Any:
            grid = Grid.of(Extents.of(X), bits=bits)
            return ClassMoments(X.shape[1], grid).add(X, y).values

        best = best_of(
            {
                "floats": lambda X=X, y=y: float_moments(X, y > 0),
                "22": lambda exact=exact: exact(22),
                "44": lambda exact=exact: exact(44),
            },
            seconds=effort.seconds,
        )
        # The fine grid is for few rows.
        for bits, bar in (("22", 1.5), ("44", 4.0)):
            rows.append(
                Row(
                    f"exact moments of {d} features, {bits} bits, against floats, per row",
                    best[bits] * 1e6 / n,
                    best["floats"] * 1e6 / n,
                    "us",
                    bar,
                    1,
                    at_most=True,
                )
            )
    return rows
