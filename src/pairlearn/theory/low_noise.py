# SPDX-License-Identifier: BSD-3-Clause
r"""Smooth losses that are small at the minimiser: on-average stability and fast rates.

The loss is convex, at least 0, and L-smooth on the whole space. Then \|grad f\|^2 <= 2 L f: small
losses have small gradients, and no Lipschitz constant is needed (derivations, section 15).
"""

from __future__ import annotations

import math

from pairlearn.theory.conventions import not_negative
from pairlearn.theory.glossary import documented
from pairlearn.validation import check_count, check_positive


def _training_loss(
    n_steps: int, smoothness: float, distance: float, least_risk: float, step_size: float
) -> float:
    """Return a bound on the mean of E f(w_{j-1}; z_j, z_{j-1}) over the steps."""
    check_count("n_steps", n_steps)
    product = check_positive("smoothness", smoothness) * check_positive("step_size", step_size)
    if not product < 1.0:
        raise ValueError(
            f"the bound needs a step size below 1 / smoothness = {1.0 / smoothness:g}, got "
            f"{step_size:g}."
        )
    start = check_positive("distance", distance) ** 2 / (2.0 * step_size * n_steps)
    return (not_negative("least_risk", least_risk) + start) / (1.0 - product)


@documented
def excess_low_noise(
    n_steps: int, *, smoothness: float, distance: float, least_risk: float, step_size: float
) -> float:
    r"""Return a bound on E[F(average)] - F(w*) for Algorithm 2 and a loss that is small at w*.

    E F(average) <= (1 + eta L)^2 / (1 - eta L) (F(w*) + dist^2 / (2 eta T)), for fresh examples and
    the paper's average of w_{j-2}. With F(w*) = 0 the rate is L dist^2 / T, against 1 / sqrt(T) in
    general.

    Parameters
    ----------
    smoothness : float
        L, on the whole space; the step size must be below 1 / L.

    Returns
    -------
    float
        The bound.

    Notes
    -----
    The faster rate at low noise is that of Lei, Liu and Ying (2021) for random pairs. The proof for
    the previous example is ours.

    Examples
    --------
    >>> options = dict(smoothness=1.0, distance=1.0, step_size=0.25)
    >>> round(excess_low_noise(1000, least_risk=0.0, **options), 5)
    0.00417
    >>> round(excess_low_noise(1000, least_risk=0.01, **options), 5)
    0.015
    """
    loss = _training_loss(n_steps, smoothness, distance, least_risk, step_size)
    return (1.0 + step_size * smoothness) ** 2 * loss - least_risk


@documented
def step_size_low_noise(
    n_steps: int, *, smoothness: float, distance: float, least_risk: float
) -> float:
    """Return the step size that makes `excess_low_noise` smallest.

    Returns
    -------
    float
        The step size, below 1 / L.

    Examples
    --------
    >>> round(step_size_low_noise(1000, smoothness=1.0, distance=1.0, least_risk=0.0), 4)
    0.3333
    """
    from scipy.optimize import minimize_scalar

    check_positive("smoothness", smoothness)
    given = {"smoothness": smoothness, "distance": distance, "least_risk": least_risk}

    def bound(log_product: float) -> float:
        step_size = math.exp(log_product) / smoothness
        return excess_low_noise(n_steps, step_size=step_size, **given)

    # In the logarithm of eta L the bound falls and then rises, as a sum of such functions.
    found = minimize_scalar(bound, bounds=(-40.0, -1e-6), method="bounded")
    return math.exp(float(found.x)) / smoothness


@documented
def on_average_stability(
    n: int,
    n_steps: int,
    *,
    smoothness: float,
    distance: float,
    least_risk: float,
    step_size: float,
    most_touches: int = 2,
) -> float:
    r"""Bound the mean over i of E\|A(S) - A(S^i)\|^2, where S^i has a fresh i-th example.

    (16 L eta^2 N T / n) times the mean training loss, which is at most
    (F(w*) + dist^2 / (2 eta T)) / (1 - eta L): the smaller the losses, the more stable the model.
    It holds for the last iterate and for every average, given a path of indices.

    Parameters
    ----------
    smoothness : float
        L, on the whole space; the step size must be below 1 / L.
    most_touches : int, default=2
        N, the largest number of steps that touch one example: 2 in one pass; otherwise count them
        on the path.

    Returns
    -------
    float
        The bound; f(w; z, z) must be 0 (AUC, metric learning), or the path without repeats.

    Examples
    --------
    >>> round(on_average_stability(1000, 999, smoothness=1.0, distance=1.0, least_risk=0.0,
    ...                            step_size=0.1), 5)
    0.00178
    """
    check_count("n", n, minimum=2)
    check_count("most_touches", most_touches)
    loss = _training_loss(n_steps, smoothness, distance, least_risk, step_size)
    return 16.0 * smoothness * step_size**2 * most_touches * n_steps / n * loss


@documented
def on_average_gap(stability: float, *, smoothness: float, empirical_risk: float) -> float:
    r"""Return a bound on E[F(A(S)) - F_S(A(S))] by on-average stability.

    2 L s + 2 sqrt(2 L s R), with s the stability and R = E F_S(A(S)). Where the training risk is
    small, so is the gap (Lei, Liu and Ying, 2021; proof in derivations, section 15).

    Parameters
    ----------
    stability : float
        s, the mean over i of E\|A(S) - A(S^i)\|^2; see `on_average_stability`.
    empirical_risk : float
        R, the expected risk on the training data.

    Returns
    -------
    float
        The bound.

    References
    ----------
    Lei, Liu, Ying. Generalization guarantee of SGD for pairwise learning. NeurIPS 2021.

    Examples
    --------
    >>> on_average_gap(0.02, smoothness=1.0, empirical_risk=0.01)
    0.08
    """
    scaled = check_positive("smoothness", smoothness) * not_negative("stability", stability)
    return 2.0 * scaled + 2.0 * math.sqrt(
        2.0 * scaled * not_negative("empirical_risk", empirical_risk)
    )
