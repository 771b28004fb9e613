# SPDX-License-Identifier: BSD-3-Clause
"""Compare the derivative of a function of one number with its differences, on both sides of kinks.

A derivative that is wrong only near a kink passes a test at a few points. So kinks are searched:
at a kink the secants of a grid change abruptly. The largest changes are followed into ever smaller
intervals, down to 1e-8, and the derivative is then tried at several distances on both sides.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pairlearn.typing import Vector

Function = Callable[[Vector], Vector]

#: Step of the differences.
STEP = 1e-6
#: Length of the interval in which a kink is known to lie, for points near 0.
_NARROW = 1e-8
#: Distances from a kink at which the derivative is tried; the steps must not cross the kink.
_SIDES = np.array([2.0 * STEP, 1e-5, 1e-4, 1e-3, 3e-3, 1e-2, 2e-2])
#: A change of the slope by less than this part of its size is no kink.
_KINK = 1e-3


class JumpError(ValueError):
    """The value jumps at a place."""

    def __init__(self, place: float, before: float, after: float) -> None:
        super().__init__(f"the value jumps from {before:.6g} to {after:.6g} at {place:.6g}")
        self.place, self.before, self.after = place, before, after


@dataclass(frozen=True)
class Slopes:
    """Points, the derivative and the differences there, and the kinks."""

    points: Vector
    slope: Vector
    #: The differences to the left and to the right, per unit.
    left: Vector
    right: Vector
    #: How far the slope lies outside its two differences, beyond their rounding error.
    error: Vector
    kinks: Vector


def compare_slopes(
    value: Function, slope: Function, grid: Vector, others: Vector, *, n_peaks: int = 24
) -> Slopes:
    """Return how far a derivative is from the differences of the value.

    Parameters
    ----------
    value, slope : callable
        The function and its derivative, of an array of points. They are called up to 1e-6 beyond
        the grid.
    grid : ndarray
        Points in rising order, between which kinks are searched.
    others : ndarray
        Further points to try.
    n_peaks : int, default=24
        The number of changes of the secants that are followed, each by about 100 values.

    Returns
    -------
    Slopes
        The findings at the points of the grid, the others, and both sides of each kink.

    Raises
    ------
    JumpError
        If the value jumps.

    Examples
    --------
    >>> grid = np.linspace(-2.0, 2.0, 65)
    >>> found = compare_slopes(np.abs, np.sign, grid + 0.001, grid)
    >>> abs(found.kinks.round(6)), float(found.error.max())
    (array([0.]), 0.0)
    """
    kinks = _kinks(value, grid, n_peaks)
    sides = (kinks[:, None] + np.concatenate((-_SIDES, _SIDES))).ravel()
    sides = sides[(sides >= grid[0]) & (sides <= grid[-1])]
    points = np.unique(np.concatenate((grid, others, sides)))
    left, right, noise = _differences(value, points, points)
    found = slope(points)
    outside = np.maximum(np.minimum(left, right) - found, found - np.maximum(left, right))
    return Slopes(points, found, left, right, np.maximum(outside - noise, 0.0), kinks)


def _differences(value: Function, a: Vector, b: Vector) -> tuple[Vector, Vector, Vector]:
    """Return the slopes to the left of a and to the right of b, and their rounding error."""
    before, after = a - STEP, b + STEP
    here, there = value(a), value(b)
    left = (here - value(before)) / (a - before)
    right = (value(after) - there) / (after - b)
    size = np.maximum(np.abs(here), np.abs(there))
    return left, right, 8.0 * float(np.finfo(float).eps) * size / STEP


def _kinks(value: Function, grid: Vector, n_peaks: int) -> Vector:
    """Return the points at which the slope of the value changes abruptly, in rising order."""
    x = np.concatenate(([grid[0] - STEP], grid, [grid[-1] + STEP]))
    change = np.abs(np.diff(np.diff(value(x)) / np.diff(x)))
    around = np.concatenate(([-1.0], change, [-1.0]))
    peaks = np.flatnonzero((change >= around[:-2]) & (change >= around[2:]) & (change > 0.0))
    peaks = peaks[np.argsort(-change[peaks], kind="stable")[:n_peaks]]
    if not len(peaks):
        return np.empty(0)
    # all intervals at once, cut into four, the two parts with the largest change kept
    a, b = x[peaks], x[peaks + 2]
    for _ in range(60):
        open_ = b - a > _NARROW * (1.0 + np.abs(a))
        if not open_.any():
            break
        cuts = a[:, None] + (b - a)[:, None] * np.linspace(0.0, 1.0, 5)
        bend = np.abs(np.diff(value(cuts.ravel()).reshape(cuts.shape), n=2, axis=1))
        best = bend.argmax(axis=1)
        rows = np.arange(len(a))
        a, b = np.where(open_, cuts[rows, best], a), np.where(open_, cuts[rows, best + 2], b)
    left, right, noise = _differences(value, a, b)
    size = 1.0 + np.maximum(np.abs(left), np.abs(right))
    rise = np.abs(value(b) - value(a))
    jumps = rise > 1e3 * size * (b - a) + noise * STEP
    if jumps.any():
        k = int(np.argmax(np.where(jumps, rise, 0.0)))
        raise JumpError(float(a[k]), float(value(a)[k]), float(value(b)[k]))
    found = 0.5 * (a + b)[np.abs(right - left) > noise + _KINK * size]
    found.sort()
    return found[np.concatenate(([True], np.diff(found) > 4.0 * STEP))] if len(found) else found
