# SPDX-License-Identifier: BSD-3-Clause
"""Common arguments of the bounds: constants, step sizes, averages and sampling."""

from __future__ import annotations

import math
from typing import Literal, cast

import numpy as np
from numpy.typing import ArrayLike

from pairlearn.typing import Vector
from pairlearn.validation import (
    AssumptionWarning,
    check_count,
    check_number,
    check_positive,
    warn_caller,
)

ConstantsChoice = Literal["paper", "corrected"]
AverageRule = Literal["step_size", "linear", "uniform", "last"]
StepSize = float | ArrayLike
_RULES = ("step_size", "linear", "uniform", "last")


def check_constants(constants: str) -> bool:
    """Return True for the corrected constants and False for the paper's."""
    if constants not in ("paper", "corrected"):
        raise ValueError(f"constants must be 'paper' or 'corrected', got {constants!r}.")
    return constants == "corrected"


def not_negative(name: str, value: float) -> float:
    """Return `value` as a float if it is a number of at least 0."""
    number = check_number(name, value)
    if not number >= 0.0:
        raise ValueError(f"{name} must be at least 0, got {value!r}.")
    return number


def require(holds: bool, message: str, *, corrected: bool) -> None:
    """Refuse (corrected constants) or warn (the paper's) when an assumption fails."""
    if holds:
        return
    if corrected:
        raise ValueError(message)
    warn_caller(message, AssumptionWarning)


def check_step_size(step_size: StepSize, n_steps: int) -> float | Vector:
    """Return a constant step size as a float, or the step sizes of all steps as a vector.

    >>> check_step_size(0.5, 3), check_step_size([1, 0.5], 2)
    (0.5, array([1. , 0.5]))
    """
    check_count("n_steps", n_steps)
    if np.ndim(step_size) == 0:
        one = step_size.item() if isinstance(step_size, np.ndarray | np.generic) else step_size
        return check_positive("step_size", cast(float, one))
    steps = np.asarray(step_size, dtype=np.float64)
    if steps.shape != (n_steps,):
        raise ValueError(
            f"step_size must be one number or one for each of the {n_steps} steps, "
            f"got shape {steps.shape}."
        )
    if not (np.isfinite(steps).all() and (steps > 0.0).all()):
        raise ValueError("every step size must be a positive number.")
    return steps


def touch_probability(n: int) -> float:
    """Return the probability that a step touches a given example, 2/n - 1/n^2."""
    check_count("n", n, minimum=2)
    return 2.0 / n - 1.0 / n**2


def sampling_factor(n: int | None) -> float:
    """Return n / (n - 1), or 1 for a stream of fresh examples (``n=None``).

    Algorithm 1 draws i_t = i_{t-1} with probability 1/n, so its pairs have the expected loss
    (1 - 1/n) F_S(w) + (1/n) Q(w), where Q is the mean of f(w; z_i, z_i).

    >>> sampling_factor(5), sampling_factor(None)
    (1.25, 1.0)
    """
    return 1.0 if n is None else check_count("n", n, minimum=2) / (n - 1.0)


def self_pair_correction(gap: float, n: int | None, self_pair_gap: float) -> float:
    """Turn a bound for the risk of the sampled pairs into one for F_S.

    F_S(v) - F_S(w) = n/(n-1) [P(v) - P(w)] + [Q(w) - Q(v)]/(n-1), see derivations, section 2.
    """
    not_negative("self_pair_gap", self_pair_gap)
    if n is None:
        return gap
    return sampling_factor(n) * (gap + self_pair_gap / n)


def check_rule(averaging: str) -> None:
    """Refuse an average that the bounds do not know."""
    if averaging not in _RULES:
        names = ", ".join(repr(rule) for rule in _RULES)
        raise ValueError(f"averaging must be one of {names}, got {averaging!r}.")


def iterate_weights(step_sizes: Vector, averaging: AverageRule) -> Vector:
    """Return the weights of w_0, ..., w_T in the average, as `reference.average_of` forms it."""
    check_rule(averaging)
    n_steps = len(step_sizes)
    weights = np.zeros(n_steps + 1)
    if averaging == "last":
        weights[-1] = 1.0
    elif averaging == "uniform":
        weights[1:] = 1.0
    else:
        raw = step_sizes if averaging == "step_size" else np.arange(1.0, n_steps + 1.0)
        weights[: max(n_steps - 1, 1)] += raw[1:] if n_steps > 1 else 0.0
        weights[0] += raw[0]
    return np.asarray(weights / weights.sum(), dtype=np.float64)


def tail_mass(step_sizes: Vector, averaging: AverageRule) -> Vector:
    """Return, for each step j = 1, ..., T, the weight of w_j, ..., w_T in the average.

    It is the share of a change made at step j that reaches the average.
    """
    weights = iterate_weights(step_sizes, averaging)
    return np.asarray(np.cumsum(weights[::-1])[::-1][1:])


def total_tail(step_size: float | Vector, n_steps: int, averaging: AverageRule) -> float:
    """Return the sum of eta_j times its tail mass over all steps."""
    check_rule(averaging)
    if not isinstance(step_size, float):
        return float(step_size @ tail_mass(step_size, averaging))
    t = float(n_steps)
    if averaging == "last":
        total = t
    elif averaging == "uniform":
        total = (t + 1.0) / 2.0
    elif averaging == "step_size":
        total = (t - 1.0) * (t - 2.0) / (2.0 * t)
    else:
        total = (2.0 * t + 1.0) / 3.0 - 2.0 + 2.0 / (t * (t + 1.0))
    return step_size * max(total, 0.0)


def largest(step_size: float | Vector) -> float:
    """Return the largest step size."""
    return step_size if isinstance(step_size, float) else float(step_size.max())


def require_contraction(step_size: float | Vector, smoothness: float, *, corrected: bool) -> None:
    """Refuse or warn unless every step size is at most 2 / smoothness."""
    check_positive("smoothness", smoothness, allow_infinite=True)
    limit = 0.0 if math.isinf(smoothness) else 2.0 / smoothness
    require(
        largest(step_size) <= limit * (1.0 + 1e-12),
        f"the bound needs step sizes of at most 2 / smoothness = {limit:g}, "
        f"got {largest(step_size):g}; take smaller steps or the bound for non-smooth losses.",
        corrected=corrected,
    )


def balance(at_one: float, inverse: float) -> float:
    """Return the minimiser of a s + b / s, given a + b and b.

    >>> balance(5.0, 4.0)
    2.0
    """
    return math.sqrt(inverse / (at_one - inverse))
