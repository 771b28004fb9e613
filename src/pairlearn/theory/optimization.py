# SPDX-License-Identifier: BSD-3-Clause
"""Optimisation error of the average for convex losses (Theorems 6 and 7).

With ``n=None`` all bounds hold for Algorithm 2 on a stream of fresh examples, with the population
risk instead of F_S. The corrected bounds of Algorithm 1 account for sampled pairs that repeat an
example (derivations, section 2).
"""

from __future__ import annotations

import math

import numpy as np

from pairlearn.theory.conventions import (
    ConstantsChoice,
    StepSize,
    check_constants,
    check_step_size,
    self_pair_correction,
)
from pairlearn.theory.glossary import documented
from pairlearn.validation import check_count, check_fraction, check_positive


def _sums(
    step_size: StepSize, n_steps: int, buffer_size: int, *, first_is_zero: bool
) -> tuple[float, float, float]:
    """Return sum eta_j, sum eta_j^2 and sum_j eta_j (eta_{j-1} + ... + eta_{j-s})."""
    steps = check_step_size(step_size, n_steps)
    reach = min(buffer_size, n_steps)
    if isinstance(steps, float):
        pairs = float(reach * n_steps) - reach * (reach + 1.0) / 2.0
        total, squares, cross = n_steps * steps, n_steps * steps**2, pairs * steps**2
        first = steps
    else:
        total, squares = float(steps.sum()), float(steps @ steps)
        cross = sum(float(steps[lag:] @ steps[:-lag]) for lag in range(1, reach + 1))
        first = float(steps[0])
    if not first_is_zero:
        cross += first**2  # the paper leaves eta_0 open; eta_0 = eta_1 is the natural reading
    return total, squares, cross


@documented
def convex_gap(
    n_steps: int,
    *,
    lipschitz: float,
    distance: float,
    step_size: StepSize,
    n: int | None = None,
    buffer_size: int = 1,
    self_pair_gap: float = 0.0,
    constants: ConstantsChoice = "corrected",
) -> float:
    r"""Return a bound on E[F_S(average)] - F_S(w) for convex losses (Theorem 6a and its remark).

    Parameters
    ----------
    buffer_size : int, default=1
        s, the number of previous examples that each example is paired with; the average is then
        that of w_{j-s-1}. The paper gives the order sqrt(s/t); the constant is ours.
    constants : {"corrected", "paper"}, default="corrected"
        The paper states [dist^2 + G^2 sum (2 eta_j eta_{j-1} + eta_j^2)] / (2 sum eta_j) with
        eta_0 open (read as eta_1 here). Corrected: eta_0 = 0, and the factor n/(n-1).

    Returns
    -------
    float
        The bound, for any w that does not depend on the indices.

    Examples
    --------
    >>> round(convex_gap(100, lipschitz=1.0, distance=1.0, step_size=0.1), 4)
    0.199
    """
    corrected = check_constants(constants)
    check_positive("lipschitz", lipschitz)
    check_positive("distance", distance)
    check_count("buffer_size", buffer_size)
    if not corrected and buffer_size > 1:
        raise ValueError("the paper states no constant for buffer_size > 1; use 'corrected'.")
    total, squares, cross = _sums(step_size, n_steps, buffer_size, first_is_zero=corrected)
    gap = (distance**2 + lipschitz**2 * (2.0 * cross + squares)) / (2.0 * total)
    return self_pair_correction(gap, n, self_pair_gap) if corrected else gap


@documented
def convex_gap_with_confidence(
    n_steps: int,
    *,
    lipschitz: float,
    distance: float,
    supremum: float,
    failure_probability: float,
    step_size: StepSize,
    n: int | None = None,
    self_pair_gap: float = 0.0,
    constants: ConstantsChoice = "corrected",
) -> float:
    r"""Return a bound on F_S(average) - F_S(w) that fails with small probability (Theorem 7a).

    Parameters
    ----------
    supremum : float
        A bound on the loss itself over the domain; the loss is not negative.
    constants : {"corrected", "paper"}, default="corrected"
        The deviation is 2 B sqrt(2 log(2/p) sum eta_j^2) in the paper, and
        B sqrt(2 log(2/p)) (sqrt(sum over even j) + sqrt(sum over odd j)) in the corrected form.

    Examples
    --------
    >>> round(convex_gap_with_confidence(100, lipschitz=1.0, distance=1.0, supremum=1.0,
    ...                                  failure_probability=0.05, step_size=0.1), 4)
    0.5831
    """
    corrected = check_constants(constants)
    check_positive("lipschitz", lipschitz)
    check_positive("distance", distance)
    check_positive("supremum", supremum)
    doubt = math.log(2.0 / check_fraction("failure_probability", failure_probability))
    total, squares, cross = _sums(step_size, n_steps, 1, first_is_zero=corrected)
    drift = distance**2 / 2.0 + lipschitz**2 * (cross + squares / 2.0)
    if not corrected:
        return (2.0 * supremum * math.sqrt(2.0 * squares * doubt) + drift) / total
    steps = check_step_size(step_size, n_steps)
    if isinstance(steps, float):
        odd, even = steps**2 * ((n_steps + 1) // 2), steps**2 * (n_steps // 2)
    else:
        odd, even = float(np.sum(steps[::2] ** 2)), float(np.sum(steps[1::2] ** 2))
    deviation = supremum * math.sqrt(2.0 * doubt) * (math.sqrt(odd) + math.sqrt(even))
    return self_pair_correction((deviation + drift) / total, n, self_pair_gap)


def _strong_self_pair_gap(
    self_pair_gap: float | None, lipschitz: float, strong_convexity: float
) -> float:
    # A G-Lipschitz, alpha-strongly convex function falls by at most max_x (G x - alpha x^2 / 2).
    return lipschitz**2 / (2.0 * strong_convexity) if self_pair_gap is None else self_pair_gap


@documented
def strongly_convex_gap(
    n_steps: int,
    *,
    lipschitz: float,
    strong_convexity: float,
    n: int | None = None,
    self_pair_gap: float | None = None,
    constants: ConstantsChoice = "corrected",
) -> float:
    """Return a bound on E[F_S(average)] - F_S(w) for strongly convex losses (Theorem 6b).

    The steps are 2 / (alpha (j + 1)) (`pairlearn.schedules.StronglyConvex`) and the average is the
    linear one (`pairlearn.averaging.DelayedLinear`), which the proof needs.

    Parameters
    ----------
    constants : {"corrected", "paper"}, default="corrected"
        The paper's proof gives 6 G^2 / (alpha (t + 1)); corrected, this plus ``self_pair_gap``/n,
        times n/(n-1).

    Examples
    --------
    >>> strongly_convex_gap(59, lipschitz=1.0, strong_convexity=1.0)
    0.1
    """
    corrected = check_constants(constants)
    check_positive("lipschitz", lipschitz)
    check_positive("strong_convexity", strong_convexity)
    check_count("n_steps", n_steps)
    gap = 6.0 * lipschitz**2 / (strong_convexity * (n_steps + 1.0))
    if not corrected:
        return gap
    bias = _strong_self_pair_gap(self_pair_gap, lipschitz, strong_convexity)
    return self_pair_correction(gap, n, bias)


@documented
def strongly_convex_gap_with_confidence(
    n_steps: int,
    *,
    lipschitz: float,
    strong_convexity: float,
    supremum: float,
    failure_probability: float,
    n: int | None = None,
    self_pair_gap: float | None = None,
    constants: ConstantsChoice = "corrected",
) -> float:
    """Return a bound on F_S(average) - min F_S that fails with small probability (Theorem 7b).

    Parameters
    ----------
    supremum : float
        B, a bound on f(w; z, z') - f(w'; z, z').
    constants : {"corrected", "paper"}, default="corrected"
        The paper's proof arrives at (28 G^2/alpha + 8 B) log(2/p) / (t + 1) but loses one of two
        deviation terms. Corrected: [12 G^2/alpha + 16 log(2/p) max(B, 2 G^2/alpha)] / (t + 1),
        and the sampling correction of `strongly_convex_gap`.

    Examples
    --------
    >>> round(strongly_convex_gap_with_confidence(999, lipschitz=1.0, strong_convexity=1.0,
    ...                                           supremum=1.0, failure_probability=0.05), 4)
    0.13
    """
    corrected = check_constants(constants)
    check_positive("lipschitz", lipschitz)
    check_positive("strong_convexity", strong_convexity)
    check_positive("supremum", supremum)
    check_count("n_steps", n_steps)
    doubt = math.log(2.0 / check_fraction("failure_probability", failure_probability))
    curved = lipschitz**2 / strong_convexity
    if not corrected:
        return (28.0 * curved + 8.0 * supremum) * doubt / (n_steps + 1.0)
    gap = (12.0 * curved + 16.0 * doubt * max(supremum, 2.0 * curved)) / (n_steps + 1.0)
    bias = _strong_self_pair_gap(self_pair_gap, lipschitz, strong_convexity)
    return self_pair_correction(gap, n, bias)
