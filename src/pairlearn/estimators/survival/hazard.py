# SPDX-License-Identifier: BSD-3-Clause
r"""From a risk score to chances of survival: one slope, and Breslow's cumulative hazard.

A ranker's score has an order and no scale. A proportional hazard with the score as its only feature
gives it one:

.. math:: P(T > t \mid s) = \exp\left(-H(t) \, e^{b (s - c) / r}\right), \qquad
          H(t) = \sum_{t_i \le t} \frac{v_i}{\sum_{j : t_j \ge t_i} v_j e^{b (s_j - c) / r}},

with c and r the mean and the standard deviation of the training scores, v the weights, and the sum
over events. The slope b maximises Cox's partial likelihood (ties by Breslow's method) with a normal
prior of standard deviation 5. The prior keeps b finite where the score separates all pairs, and
changes nothing that matters elsewhere.

References
----------
N. Breslow, Discussion of Professor Cox's paper, Journal of the Royal Statistical Society B 34,
1972.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pairlearn.typing import Vector

#: The standard deviation of the prior of the slope.
_PRIOR = 5.0
_MOST_STEPS = 200
#: The most that the first step changes the slope; a search that goes on doubles it.
_LONGEST_STEP = 2.0
#: The largest difference of two exponents whose sums may be made without their logarithms.
_RANGE = 600.0


@dataclass(frozen=True, eq=False)
class Hazard:
    """The hazard of a score: its slope by the score, and the cumulative baseline hazard.

    `times` are the times of events, in order, and `cumulative` the hazard until each, of an example
    with the score `centre`.
    """

    slope: float
    centre: float
    times: Vector
    cumulative: Vector

    def survival(self, scores: Vector, times: Vector) -> Vector:
        """Return the chance to survive each of the times, in a row for each score."""
        place = np.searchsorted(self.times, times, side="right")
        hazard = np.concatenate(([0.0], self.cumulative))[place]
        # a risk beyond e^700 leaves no chance, and one below e^-700 no danger
        risk = np.exp(np.clip(self.slope * (scores - self.centre), -700.0, 700.0))
        with np.errstate(over="ignore"):
            return np.asarray(np.exp(-np.multiply.outer(risk, hazard)))


def fit_hazard(scores: Vector, event: NDArray[np.bool_], time: Vector, weight: Vector) -> Hazard:
    """Return the hazard of training scores."""
    total = float(weight.sum())
    centre = float(weight @ scores) / total
    spread = float(np.sqrt(weight @ (scores - centre) ** 2 / total))
    order = np.argsort(-time, kind="stable")
    z = (scores[order] - centre) / spread if spread > 0.0 else np.zeros(len(scores))
    v, times = weight[order], time[order]
    # the last position of each time: all who are still there at it come until then
    until = np.searchsorted(-times, -times, side="right") - 1
    at = np.flatnonzero(event[order])
    n_events = float(v[at].sum())

    def moments(slope: float) -> tuple[float, float, Vector]:
        """Return the first two derivatives of the log likelihood, and the sums over those there."""
        lift = float((slope * z).max())
        if lift - float((slope * z).min()) <= _RANGE:
            risk = v * np.exp(slope * z - lift)
            sums = [np.cumsum(risk * power)[until[at]] for power in (np.ones(len(z)), z, z * z)]
            mean, square = sums[1] / sums[0], sums[2] / sums[0]
            logs = np.log(sums[0]) + lift
        else:  # beside an outlier all others would count as nothing
            with np.errstate(divide="ignore"):
                height, risk = np.log(z - z.min()), np.log(v) + slope * z
            powers = (risk, risk + height, risk + 2.0 * height)
            sums = [np.logaddexp.accumulate(power)[until[at]] for power in powers]
            logs, up, square = sums[0], np.exp(sums[1] - sums[0]), np.exp(sums[2] - sums[0])
            mean = up + z.min()
            square = square - up**2 + mean**2
        first = float(v[at] @ (z[at] - mean)) - slope / _PRIOR**2
        second = float(v[at] @ np.maximum(square - mean**2, 0.0)) + 1.0 / _PRIOR**2
        return first, second, np.asarray(logs)

    slope, longest, low, high = 0.0, _LONGEST_STEP, -np.inf, np.inf
    for _ in range(_MOST_STEPS):
        first, second, _sums = moments(slope)
        low, high = (slope, high) if first > 0.0 else (low, slope)
        step = float(np.clip(first / second, -longest, longest))
        if abs(first / second) > longest:
            longest *= 2.0
        settled = abs(first) <= 1e-10 * n_events or abs(step) <= 1e-12
        if not settled and not low < slope + step < high:
            step = 0.5 * (low + high) - slope  # the likelihood is concave: its top lies between
        slope += step
        if settled:
            break
    there = moments(slope)[2]
    jumps = v[at] * np.exp(-there)
    distinct, place = np.unique(times[at], return_inverse=True)
    cumulative = np.asarray(np.cumsum(np.bincount(place, jumps, len(distinct))), dtype=np.float64)
    return Hazard(slope / spread if spread > 0.0 else 0.0, centre, distinct, cumulative)
