# SPDX-License-Identifier: BSD-3-Clause
r"""Slope and cuts of the proportional odds model, by Newton's method.

With t the slope times the score, grade number k lies between the cuts c_{k-1} and c_k, and

.. math:: P(k) = \sigma(t - c_{k-1}) - \sigma(t - c_k)
               = \sigma(t - c_{k-1}) \, \sigma(c_k - t) \, (1 - e^{-(c_k - c_{k-1})}),

where the factors beyond the first and the last cut are 1. So minus the log likelihood is a sum of
convex terms: the logistic loss of each example against the cuts next to its grade, and

.. math:: -\sum_k m_k \log(1 - e^{-(c_k - c_{k-1})})

over the grades between two cuts, of share m_k, which keeps the cuts in order. Its Hessian is
tridiagonal in the cuts, with one dense row for the slope. A step costs O(n + grades).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pairlearn.typing import Places, Vector

#: The logarithm of the slope, for scores of unit spread, lies between minus this and this.
_MOST_LOG_SLOPE = 14.0
#: The least share of a grade in the term that keeps its cuts apart: two cuts never meet.
_LEAST_SHARE = 1e-9
#: Steps end after one that promised to lower the objective by less than this.
_TOLERANCE = 1e-12
_MOST_STEPS = 500


class _Shape(NamedTuple):
    """The objective at one point, its gradient, and its Hessian in parts."""

    value: float
    #: Derivatives by the slope and by each cut.
    by_slope: float
    by_cuts: Vector
    #: The Hessian of minus the log likelihood: slope, slope and cuts, cuts (as bands, upper form).
    slopes: float
    border: Vector
    bands: Vector


class _Likelihood:
    """Minus the mean log likelihood of standardised scores, plus log(slope)^2 / (2 n)."""

    def __init__(self, s: Vector, codes: Places, share: Vector, n_grades: int) -> None:
        # Each example is compared with the cut below its grade, and with the cut above.
        above, below = np.flatnonzero(codes > 0), np.flatnonzero(codes < n_grades - 1)
        rows = np.concatenate((above, below))
        self._s, self._share = s[rows], share[rows]
        self._cut = np.concatenate((codes[above] - 1, codes[below]))
        self._side = np.repeat([1.0, -1.0], [len(above), len(below)])
        inner = np.bincount(codes, share, minlength=n_grades)[1:-1]
        self._inner = np.maximum(inner, _LEAST_SHARE)
        self._n, self._n_cuts = len(s), n_grades - 1

    def at(self, slope: float, cuts: Vector) -> _Shape:
        """Return value and derivatives."""
        t = self._side * (slope * self._s - cuts[self._cut])
        # exp(-|t|) neither overflows nor loses digits.
        small = np.exp(-np.abs(t))
        loss = np.log1p(small) + np.maximum(-t, 0.0)
        pull = self._share * self._side * np.where(t > 0.0, small, 1.0) / (1.0 + small)
        curve = self._share * small / (1.0 + small) ** 2

        gaps = np.diff(cuts)
        # Cuts that rounding has made one have no finite value, and such a step is not taken.
        with np.errstate(divide="ignore", invalid="ignore"):
            apart = -np.expm1(-gaps)
            push = self._inner * np.exp(-gaps) / apart
            bend = push / apart
            closeness = -float(self._inner @ np.log(apart))

        by_cuts = self._sums(pull)
        by_cuts[:-1] += push
        by_cuts[1:] -= push
        bands = np.zeros((2, self._n_cuts))
        bands[0, 1:] = -bend
        # Far from all examples the curvature underflows.
        bands[1] = self._sums(curve) + 1e-15
        bands[1, :-1] += bend
        bands[1, 1:] += bend
        # Cuts that almost meet bend so much that rounding would hide the rest.
        bands[1] *= 1.0 + 1e-14

        # As strong as one example that every grade might have had.
        log_slope = float(np.log(slope))
        return _Shape(
            float(self._share @ loss) + closeness + 0.5 * log_slope**2 / self._n,
            log_slope / (slope * self._n) - float(pull @ self._s),
            by_cuts,
            float(curve @ self._s**2),
            -self._sums(curve * self._s),
            bands,
        )

    def _sums(self, values: Vector) -> Vector:
        """Return the sum of the values at each cut."""
        return np.bincount(self._cut, values, minlength=self._n_cuts).astype(np.float64)

    def step(self, slope: float, at: _Shape) -> tuple[float, Vector]:
        """Return the step of Newton's method for slope and cuts.

        The cuts are eliminated first: of ``[[h, v'], [v, T]]`` with T tridiagonal, the slope has
        the curvature ``h - v' inv(T) v``, plus that of its penalty.
        """
        from scipy.linalg import solveh_banded

        right = np.column_stack((-at.by_cuts, at.border))
        # A single cut has no second band.
        free, tied = solveh_banded(at.bands[-self._n_cuts :], right, check_finite=False).T
        curvature = max(at.slopes - float(at.border @ tied), 0.0)
        unit = 1.0 / (self._n * slope**2)
        whole = curvature + (1.0 - np.log(slope)) * unit
        if whole < 0.1 * unit:
            # The penalty is concave for large slopes; this curvature is that by log(slope).
            whole = curvature + unit
        wanted = (-at.by_slope - float(at.border @ free)) / whole
        # A slope that shrinks stays positive. The cuts below are the best ones for this slope.
        low = max(float(np.exp(-_MOST_LOG_SLOPE)), 0.1 * slope)
        change = float(np.clip(slope + wanted, low, np.exp(_MOST_LOG_SLOPE))) - slope
        return change, free - change * tied


def fit_cuts(scores: Vector, codes: Places, weight: Vector) -> tuple[float, Vector]:
    r"""Return slope and cuts of the proportional odds model, by maximum likelihood.

    For scores of unit spread they minimise

    .. math:: -\frac{1}{\sum_i w_i} \sum_i w_i \log P(k_i) + \frac{1}{2n} \log^2(\text{slope}).

    The penalty and the bounds exp(-14) and exp(14) keep the slope positive and finite where the
    scores separate the grades or order them the wrong way.

    `codes` are the numbers of the grades, 0, 1, ..., all of them present. The cuts rise.
    """
    # Scores near the largest or the smallest number have no variance, such weights no sum.
    peak = float(np.abs(scores).max())
    peak = 1.0 if peak == 0.0 or 1e-100 < peak < 1e100 else peak
    s = scores / peak
    centre, spread = float(s.mean()), float(s.std())
    unit = spread if spread > 0.0 else 1.0
    n_grades = int(codes.max()) + 1
    share = weight / weight.max()
    share /= share.sum()
    smoothed = np.bincount(codes, share, minlength=n_grades) * len(s) + 1.0
    below = np.cumsum(smoothed)[:-1] / smoothed.sum()
    slope, cuts = 1.0, np.log(below) - np.log1p(-below)

    likelihood = _Likelihood((s - centre) / unit, codes, share, n_grades)
    here = likelihood.at(slope, cuts)
    for _ in range(_MOST_STEPS):
        by_slope, by_cuts = likelihood.step(slope, here)
        gain = -(here.by_slope * by_slope + float(here.by_cuts @ by_cuts))
        # The cuts stay in order: no gap loses more than 99 percent.
        lost = float(np.max(-np.diff(by_cuts) / np.diff(cuts), initial=0.0))
        length, noise = 0.99 / max(lost, 0.99), 1e-15 * max(here.value, 1.0)
        while length > 1e-10:
            there = slope + length * by_slope, cuts + length * by_cuts
            found = likelihood.at(*there)
            if found.value <= here.value - 1e-4 * length * gain + noise:
                (slope, cuts), here = there, found
                break
            length *= 0.5
        else:
            # Rounding hides what is left to gain.
            break
        if gain < _TOLERANCE:
            break
    return _in_units(slope, cuts, centre, unit, peak)


def _in_units(
    slope: float, cuts: Vector, centre: float, unit: float, peak: float
) -> tuple[float, Vector]:
    """Return slope and cuts for scores as they were given."""
    slope /= unit
    real = np.finfo(np.float64)
    # Scores near the smallest number would have an infinite slope.
    return float(np.clip(slope / peak, real.tiny, real.max)), cuts + slope * centre
