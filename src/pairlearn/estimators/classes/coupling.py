# SPDX-License-Identifier: BSD-3-Clause
r"""From probabilities of pairs of classes to probabilities of classes.

Pairs are coupled by Wu, Lin and Weng's second method: p minimises the sum over a != b of
(r_ba p_a - r_ab p_b)^2, r_ab being the probability of a against b. Coupled probabilities are too
cautious where many pairs agree. One power of them, p_a^t / sum_b p_b^t, found by maximum likelihood
on held-out examples, corrects this (temperature scaling) and keeps the most probable class.

References
----------
T.-F. Wu, C.-J. Lin and R. Weng, Probability estimates for multi-class classification by pairwise
coupling, JMLR 5, 2004.
C. Guo, G. Pleiss, Y. Sun and K. Weinberger, On calibration of modern neural networks, ICML 2017.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np

from pairlearn.estimators.shared.decisions import Sigmoid, fit_sigmoid
from pairlearn.typing import Places, Vector

#: Examples whose classes are coupled at once.
_BLOCK = 4_096
#: Powers beyond these are a sign of too few examples, not of probabilities.
_POWERS = (0.2, 5.0)


def couple(pairs: Vector, n_classes: int) -> Vector:
    """Return class probabilities from those of pairs (Wu, Lin and Weng's second method).

    `pairs` holds the probability of the later class of each pair, in a column for each pair.
    """
    # Certainty would make the system singular.
    later = np.clip(pairs, 1e-7, 1.0 - 1e-7)
    if n_classes == 2:
        return np.column_stack((1.0 - later[:, 0], later[:, 0]))
    first, second = np.triu_indices(n_classes, 1)
    result = np.empty((len(pairs), n_classes))
    for start in range(0, len(pairs), _BLOCK):
        block = later[start : start + _BLOCK]
        r = np.zeros((len(block), n_classes, n_classes))
        r[:, second, first], r[:, first, second] = block, 1.0 - block
        # Q_aa = sum over b of r_ba^2, Q_ab = -r_ba r_ab; Q p is the same for all classes.
        system = -r * r.transpose(0, 2, 1)
        diagonal = np.arange(n_classes)
        system[:, diagonal, diagonal] = (r**2).sum(axis=1)
        ones = np.ones((len(block), n_classes, 1))
        p = np.linalg.solve(system + np.ones((n_classes, n_classes)), ones)[:, :, 0]
        p = np.maximum(p, 1e-12)
        result[start : start + _BLOCK] = p / p.sum(axis=1, keepdims=True)
    return result


def raise_to(probabilities: Vector, power: float) -> Vector:
    """Return p_a^t / sum_b p_b^t."""
    logs = np.log(probabilities)
    logs -= logs.max(axis=1, keepdims=True)
    with np.errstate(over="ignore"):
        logs *= power  # a probability of almost nothing, raised to a large power
    raised = np.maximum(np.exp(logs), 1e-12)
    return np.asarray(raised / raised.sum(axis=1, keepdims=True))


def find_power(probabilities: Vector, codes: Places, weight: Vector) -> float:
    """Return the power with the largest likelihood of held-out classes.

    The likelihood is concave in the power, and so has one maximum.
    """
    logs = np.log(probabilities)
    own = logs[np.arange(len(codes)), codes]
    power = 1.0
    for _ in range(50):
        p = raise_to(probabilities, power)
        mean = (p * logs).sum(axis=1)
        slope = float(weight @ (own - mean))
        curvature = float(weight @ ((p * logs**2).sum(axis=1) - mean**2))
        if not curvature > 0.0:
            break
        # Newton's step may overshoot where the likelihood is flat.
        step = min(max(slope / curvature, -0.5 * power), power)
        power = min(max(power + step, _POWERS[0]), _POWERS[1])
        if abs(step) < 1e-10:
            break
    return power


def pair_sigmoids(codes: Places, weight: Vector, scores: Vector) -> Vector:
    """Return slope and intercept of each pair of classes, from held-out scores."""
    found = []
    for column, (first, second) in enumerate(combinations(range(codes.max() + 1), 2)):
        index = np.flatnonzero((codes == first) | (codes == second))
        sigmoid = fit_sigmoid(scores[index, column], codes[index] == second, weight[index])
        found.append((sigmoid.slope, sigmoid.intercept))
    return np.array(found)


def pair_probabilities(scores: Vector, sigmoids: Vector) -> Vector:
    """Return the probability of each column of scores: of a label, or the later class of a pair."""
    return np.column_stack(
        [
            Sigmoid(slope, intercept)(scores[:, column])
            for column, (slope, intercept) in enumerate(sigmoids.tolist())
        ]
    )
