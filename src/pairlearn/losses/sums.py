# SPDX-License-Identifier: BSD-3-Clause
r"""Sums of a margin loss over one class, for every example of the other, without visiting pairs.

Each function takes thresholds p_i, points q_j with weights b_j > 0 and the parameter of a loss l,
and returns sum_j b_j l(p_i - q_j) and sum_j b_j l'(p_i - q_j) for every i.

Losses made of straight lines and parabolas. Let u = p - margin; as u descends, the point q_j comes
into reach at u = q_j. Then

    count(u) = sum of b_j over q_j > u,
    ramp(u)  = sum of b_j (q_j - u)_+        = integral of count from u upward,
    bowl(u)  = sum of b_j (q_j - u)_+^2 / 2  = integral of ramp from u upward,

and the sum of the loss is ramp (hinge) or 2 bowl (squared hinge). Walking down the sorted places
adds positive terms only, so nothing cancels, whatever the spread of the scores. A prefix-sum
formula such as (margin - p) B + sum b q would lose all digits of a small loss of large scores.
The Huberised hinge is (g - width)_+ + min(g_+, width)^2 / (2 width) for the gap g = q - u: a hinge,
and a near part in which only points within `width` of u differ from each other.
"""

from __future__ import annotations

import math

import numpy as np

from pairlearn.typing import Vector

#: The exponent at which `pairlearn.losses.Exponential` is cut.
_EXPONENT_CUT = 700.0

#: In the unit of `_rescaled`, in which the largest score is about 1.
_SMALLEST_WIDTH = 2.0**-80


def walk_down(thresholds: Vector, points: Vector, weights: Vector) -> tuple[Vector, Vector, Vector]:
    """Return count, ramp and bowl at each threshold (see the module docstring)."""
    n = len(thresholds)
    places = np.concatenate((thresholds, points))
    # Thresholds come first among equals: a point counts only strictly above u.
    order = np.argsort(-places, kind="stable")
    places = places[order]
    count = np.cumsum(np.concatenate((np.zeros(n), weights))[order])
    drop = places[:-1] - places[1:]
    ramp = np.concatenate(([0.0], np.cumsum(drop * count[:-1])))
    bowl = np.concatenate(([0.0], np.cumsum(drop * (ramp[:-1] + 0.5 * drop * count[:-1]))))
    asked = np.flatnonzero(order < n)
    result = np.empty((3, n))
    result[:, order[asked]] = count[asked], ramp[asked], bowl[asked]
    return result[0], result[1], result[2]


def near_moments(
    thresholds: Vector, points: Vector, weights: Vector, width: float
) -> tuple[Vector, Vector]:
    """Return the sums of b_j min(g, width) and b_j min(g, width)^2 for the gaps g = (q_j - u)_+.

    Points are counted from the left end of their cell of length `width`: a window (u, u + width]
    meets two cells, and prefix sums of such short lengths round on the scale of the width, however
    large the scores.
    """
    order = np.argsort(points, kind="stable")
    points, weights = points[order], weights[order]
    cell = np.floor(points / width)
    local = points - cell * width
    prefix = [
        np.concatenate(([0.0], np.cumsum(term)))
        for term in (weights, weights * local, weights * local**2)
    ]
    cell_u = np.floor(thresholds / width)
    local_u = thresholds - cell_u * width
    start = np.searchsorted(points, thresholds, side="right")
    middle = np.searchsorted(cell, cell_u, side="right")
    stop = np.minimum(
        np.searchsorted(points, thresholds + width, side="right"),
        # Rounding must not let a point of a third cell in.
        np.searchsorted(cell, cell_u + 1.0, side="right"),
    )
    stop = np.maximum(stop, start)
    middle = np.clip(middle, start, stop)
    far = prefix[0][-1] - prefix[0][stop]
    first, second = width * far, width * width * far
    for begin, end, shift in ((start, middle, -local_u), (middle, stop, width - local_u)):
        mass, mean, square_ = (sums[end] - sums[begin] for sums in prefix)
        first = first + (mean + shift * mass)
        second = second + (square_ + shift * (2.0 * mean + shift * mass))
    return np.maximum(first, 0.0), np.maximum(second, 0.0)


def hinge(p: Vector, q: Vector, b: Vector, margin: float) -> tuple[Vector, Vector]:
    """Return the sums of (margin - m)_+ and of its derivative."""
    p, q, (margin,), unit = _rescaled(p, q, margin)
    count, ramp, _ = walk_down(p - margin, q, b)
    return unit * ramp, -count


def squared_hinge(p: Vector, q: Vector, b: Vector, margin: float) -> tuple[Vector, Vector]:
    """Return the sums of (margin - m)_+^2 and of its derivative."""
    p, q, (margin,), unit = _rescaled(p, q, margin)
    _, ramp, bowl = walk_down(p - margin, q, b)
    return 2.0 * (unit * (unit * bowl)), -2.0 * (unit * ramp)


def smoothed_hinge(p: Vector, q: Vector, b: Vector, width: float) -> tuple[Vector, Vector]:
    """Return the sums of the Huberised hinge of margin 1 and of its derivative."""
    p, q, (margin, width), unit = _rescaled(p, q, 1.0, width)
    # A width far below the resolution of the scores only needs to stay positive.
    width = max(width, _SMALLEST_WIDTH)
    u = p - margin
    _, far, _ = walk_down(u + width, q, b)
    first, second = near_moments(u, q, b, width)
    return unit * (far + second / (2.0 * width)), -first / width


def square(p: Vector, q: Vector, b: Vector, margin: float) -> tuple[Vector, Vector]:
    """Return the sums of (margin - m)^2 and of its derivative, in O(n) by mean and variance."""
    p, q, (margin,), unit = _rescaled(p, q, margin)
    total = float(b.sum())
    centre = float(b @ q) / total
    spread = float(b @ (q - centre) ** 2) / total
    gap = margin - (p - centre)
    return total * (unit * (unit * (gap * gap + spread))), -2.0 * total * (unit * gap)


def exponential(p: Vector, q: Vector, b: Vector, _: float) -> tuple[Vector, Vector]:
    """Return the sums of exp(min(-m, 700)) and of its derivative (the exponential again)."""
    top = float(q.max())
    if top - float(p.min()) <= _EXPONENT_CUT:
        total = np.exp(top - p) * float(b @ np.exp(q - top))
        return total, -total
    # Some pairs are cut: sum the others in the logarithm, in order of q.
    order = np.argsort(q, kind="stable")
    q, b = q[order], b[order]
    logs = np.concatenate(([-np.inf], np.logaddexp.accumulate(np.log(b) + q)))
    heavy = np.concatenate((np.cumsum(b[::-1])[::-1], [0.0]))
    uncut = np.searchsorted(q, p + _EXPONENT_CUT, side="right")
    total = np.exp(logs[uncut] - p) + math.exp(_EXPONENT_CUT) * heavy[uncut]
    return total, -total


def _rescaled(
    p: Vector, q: Vector, *lengths: float
) -> tuple[Vector, Vector, tuple[float, ...], float]:
    """Return scores and lengths in a unit that keeps squares finite, about a common centre.

    The unit is a power of two, and the scores are centred only where their common offset exceeds
    their spread, so that neither step rounds: ties stay ties.
    """
    largest = max(float(np.abs(p).max()), float(np.abs(q).max()), *lengths)
    exponent = math.frexp(largest)[1] - 1
    p, q = np.ldexp(p, -exponent), np.ldexp(q, -exponent)
    low, high = min(p.min(), q.min()), max(p.max(), q.max())
    middle = 0.5 * (low + high)
    if abs(middle) > high - low:
        p, q = p - middle, q - middle
    return p, q, tuple(math.ldexp(length, -exponent) for length in lengths), 2.0**exponent
