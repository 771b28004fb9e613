# SPDX-License-Identifier: BSD-3-Clause
"""The proportional odds model: probabilities of ordered grades from one score."""

from __future__ import annotations

import numpy as np

from pairlearn.typing import Places, Vector

__all__ = ["fit_cuts", "odds_above"]


def fit_cuts(scores: Vector, codes: Places, weight: Vector) -> tuple[float, Vector]:
    """Return slope and cuts of the proportional odds model, by maximum likelihood.

    The share of each grade is smoothed by one example, and the slope stays positive and bounded,
    so that scores that separate the grades do not send it to infinity.

    `codes` are the numbers of the grades, 0, 1, ..., all of them present. The cuts rise.

    >>> rng = np.random.default_rng(0)
    >>> scores = rng.normal(size=4000)
    >>> grades = (2.0 * scores + rng.logistic(size=4000) > 1.0).astype(int)
    >>> slope, cuts = fit_cuts(scores, grades, np.ones(4000))
    >>> round(slope, 1), cuts.round(1)
    (2.0, array([1.]))
    """
    from scipy.optimize import minimize

    centre, spread = float(scores.mean()), float(scores.std())
    unit = spread if spread > 0.0 else 1.0
    s = (scores - centre) / unit
    n_grades = int(codes.max()) + 1
    shares = np.bincount(codes, weight, minlength=n_grades) / weight.mean() + 1.0
    above = 1.0 - np.cumsum(shares)[:-1] / shares.sum()
    start = np.log(1.0 - above) - np.log(above)

    def unpack(parameters: Vector) -> tuple[float, Vector]:
        gaps = np.exp(parameters[2:])
        cuts = parameters[1] + np.concatenate(([0.0], np.cumsum(gaps)))
        return float(np.exp(parameters[0])), cuts

    rows = np.arange(len(codes))
    total = float(weight.sum())

    def objective(parameters: Vector) -> tuple[float, Vector]:
        slope, cuts = unpack(parameters)
        higher = odds_above(slope, cuts, s)
        padded = np.hstack((np.ones((len(s), 1)), higher, np.zeros((len(s), 1))))
        upper, lower = padded[rows, codes], padded[rows, codes + 1]
        p = np.maximum(upper - lower, 1e-300)
        # d sigmoid = sigmoid (1 - sigmoid), and both ends are constants.
        by_upper = weight / total * upper * (1.0 - upper) / p
        by_lower = weight / total * lower * (1.0 - lower) / p
        slope_gradient = float((by_upper - by_lower) @ s) * slope
        cut_gradient = np.zeros(n_grades + 1)
        np.subtract.at(cut_gradient, codes, by_upper)
        np.add.at(cut_gradient, codes + 1, by_lower)
        inner = cut_gradient[1:-1]
        tails = np.cumsum(inner[::-1])[::-1]
        gradient = np.concatenate(([slope_gradient, tails[0]], np.exp(parameters[2:]) * tails[1:]))
        # As strong as one example that every grade might have had.
        ridge = 0.5 * parameters[0] ** 2 / len(s)
        gradient[0] -= parameters[0] / len(s)
        return -float(weight @ np.log(p)) / total + ridge, -gradient

    first = np.concatenate(([0.0, start[0]], np.log(np.maximum(np.diff(start), 1e-6))))
    bounds = [(-14.0, 14.0), (None, None), *[(-20.0, 20.0)] * (n_grades - 2)]
    found = minimize(objective, first, jac=True, method="L-BFGS-B", bounds=bounds)
    slope, cuts = unpack(found.x)
    return slope / unit, cuts + slope * centre / unit


def odds_above(slope: float, cuts: Vector, scores: Vector) -> Vector:
    """Return the probabilities of more than each grade, of shape (n, n_grades - 1)."""
    with np.errstate(over="ignore"):
        t = np.clip(slope * scores[:, None] - cuts, -700.0, 700.0)
    return np.asarray(1.0 / (1.0 + np.exp(-t)))
