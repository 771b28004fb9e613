# SPDX-License-Identifier: BSD-3-Clause
"""Log odds of a private linear score, from released moments and public numbers alone.

Moments are released of rows that are clipped to a ball; scores are of rows that are not. Released
lengths of rows say how much was clipped: `kept_by_clipping` finds the normal law whose clipped
lengths are the released ones, and the shares of its moments that clipping keeps. Lemma 5 in
``docs/privacy/lemmas.md`` derives these shares, and what noise adds to the moments of a score.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from pairlearn.privacy.mechanisms.sufficient_statistics import Moments
from pairlearn.typing import Vector

# Error of the normal model in a mean clipped length, as a share of the radius.
_MODEL_ERROR = 0.02
# A priori mean of the length of a row, in units of sqrt(d) standard units.
_EXPECTED_LENGTH = 0.75
# A priori standard deviation of its logarithm.
_LENGTH_DEVIATION = 0.5
# The lengths that are tried, in units of sqrt(d) standard units.
_LENGTHS = np.geomspace(0.02, 4.0, 240)
# Lower bound on the corrected distance between the classes, as a share of the released one.
_LEAST_APART = 0.1
# Lower bound on the variance within a class, as a share of the mean released variance.
_LEAST_WITHIN = 0.05


def kept_by_clipping(moments: list[Moments], centre: Vector, spread: Vector) -> tuple[float, float]:
    """Return the shares of first and of second moments that clipping kept in the last round.

    Parameters
    ----------
    moments : list of Moments
        The releases.
    centre : ndarray
        The estimated mean of all rows, in standard coordinates.
    spread : ndarray
        The estimated covariance of clipped rows, up to a factor.
    """
    d = len(centre)
    trace = float(np.trace(spread))
    k = min(max(trace**2 / max(float(np.sum(spread**2)), 1e-300), 1.0), float(d))
    squares = d * _LENGTHS**2
    misfit = (np.log(_LENGTHS / _EXPECTED_LENGTH) / _LENGTH_DEVIATION) ** 2
    for m in moments:
        # Rows scatter about their mean, which lies off the centre of a round.
        moved = float(np.sum((centre - m.centre) ** 2))
        first, second, _ = clipped_lengths((squares + moved) / m.radius**2, k)
        error = math.hypot(m.deviation / m.weights.length, _MODEL_ERROR)
        misfit += ((m.length - first) / error) ** 2
        if m.second is not None and m.weights.second:
            error = math.hypot(m.deviation * math.sqrt(d / m.weights.second), _MODEL_ERROR)
            misfit += ((float(np.trace(m.second)) - second) / error) ** 2
    likely = squares[int(np.argmin(misfit))] / moments[-1].radius ** 2
    _, second, mixed = clipped_lengths(np.array([likely]), k)
    return float(mixed[0] / likely), float(second[0] / likely)


def clipped_lengths(mean_square: Vector, k: float) -> tuple[Vector, Vector, Vector]:
    """Return the means of min(r, 1), min(r, 1)^2 and r min(r, 1) of random lengths r.

    r^2 is `mean_square` / k times a chi-square with k degrees of freedom.

    >>> first, second, mixed = clipped_lengths(np.array([1e-4]), 3.0)
    >>> bool(np.isclose(second, 1e-4)[0] and np.isclose(mixed, 1e-4)[0])
    True
    """
    from scipy.special import gammainc, gammaln

    scale = mean_square / k
    inside, inside_1, inside_2 = (gammainc(0.5 * (k + j), 0.5 / scale) for j in range(3))
    mean = np.sqrt(2.0 * scale) * math.exp(gammaln(0.5 * (k + 1.0)) - gammaln(0.5 * k))
    first = mean * inside_1 + 1.0 - inside
    second = mean_square * inside_2 + 1.0 - inside
    mixed = mean_square * inside_2 + mean * (1.0 - inside_1)
    return first, second, mixed


def read_scores(
    direction: Vector,
    solver: Vector,
    spread: Vector,
    last: Moments,
    *,
    covariance: Vector,
    variance: float,
    label: float,
    kept: tuple[float, float],
    n: int,
) -> tuple[float, tuple[float, float]]:
    """Return how far apart the classes score, and their log odds.

    The log odds are slope and offset over the score minus the middle of the two class means.

    Parameters
    ----------
    direction : ndarray
        w, the coefficients of the score.
    solver, spread : ndarray
        (S + lambda I)^{-1} and S, in units of the last radius.
    last : Moments
        The last release.
    covariance, variance : ndarray, float
        Cov(x, y) of clipped rows, and the variance of its noise.
    label : float
        The mean of the label.
    kept : tuple of float
        What `kept_by_clipping` returns.
    n : int
        The number of examples.
    """
    radius, both = last.radius, 1.0 - label**2
    total = float(direction @ covariance)
    trace = float(np.trace(solver))
    sampled = radius * both * float(np.sum(solver * spread)) / n
    noise = variance * trace / radius + sampled
    apart = max(total - noise, _LEAST_APART * total) / (0.5 * both) / kept[0]
    length = float(direction @ direction)
    chosen = trace * length + float(direction @ solver @ direction)
    chosen *= last.deviation**2 / last.weights.second
    scores = radius**2 * (float(direction @ spread @ direction) + chosen) / kept[1]
    # Noise may make the variance 0 or negative, so it keeps a share of the mean variance.
    usual = radius**2 * max(float(np.trace(spread)), 1e-3) / len(direction) * length
    least = max(_LEAST_WITHIN * usual / kept[1], 1e-300)
    slope = apart / max(scores - (total / kept[0]) ** 2 / both, least)
    nodes, weights = _normal_nodes()
    odds = slope * (0.5 * label * apart + math.sqrt(max(scores, least)) * nodes)
    low, high = -50.0 - float(np.abs(odds).max()), 50.0 + float(np.abs(odds).max())
    for _ in range(40):
        offset = 0.5 * (low + high)
        shown = 0.5 + 0.5 * float(weights @ np.tanh(0.5 * (odds + offset)))
        low, high = (low, offset) if shown > 0.5 * (1.0 + label) else (offset, high)
    return apart, (slope, 0.5 * (low + high))


@lru_cache(maxsize=1)
def _normal_nodes() -> tuple[Vector, Vector]:
    """Return nodes and weights of a quadrature over the standard normal law."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(41)
    return nodes, weights / weights.sum()
