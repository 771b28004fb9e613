# SPDX-License-Identifier: BSD-3-Clause
r"""Bounds without convexity: gradient norms and the PL condition (Theorems 3, 8 and 9).

All bounds are for steps without projection. ``gradient_moment`` is alpha_0, with
E\|grad f(w_j; z_i, z_i')\|^2 <= alpha_0^2 over independent indices i, i'; G is always valid.
With ``n`` given, f(w; z, z) must not depend on w (AUC, metric learning), so that the risk of the
sampled pairs is (1 - 1/n) F_S plus a constant.
"""

from __future__ import annotations

import math

from pairlearn.theory.conventions import ConstantsChoice, check_constants, require, sampling_factor
from pairlearn.theory.glossary import documented
from pairlearn.validation import check_count, check_positive


@documented
def gradient_norm_nonconvex(
    n_steps: int,
    *,
    initial_risk: float,
    smoothness: float,
    gradient_moment: float,
    step_size: float,
    n: int | None = None,
    constants: ConstantsChoice = "corrected",
) -> float:
    r"""Return a bound on the mean of E\|grad F_S(w_{j-2})\|^2 over the steps (Theorem 8).

    Parameters
    ----------
    initial_risk : float
        F_S(w_0), for a loss that is not negative and, with ``n`` given, zero on pairs (z, z).
    constants : {"corrected", "paper"}, default="corrected"
        The paper states F_S(w_0)/(t eta) + 8 L eta alpha_0^2 for eta <= 1/(2 sqrt(L)). Its proof
        needs eta <= 1/(2 L) and then gives 6 instead of 8. The result needs no condition: the left
        side is at most alpha_0^2, which the right side exceeds once eta >= 1/(6 L). Corrected: the
        smaller of the two, with factors for the sampling.

    Examples
    --------
    >>> round(gradient_norm_nonconvex(1000, initial_risk=1.0, smoothness=1.0,
    ...                               gradient_moment=1.0, step_size=0.02), 4)
    0.17
    """
    corrected = check_constants(constants)
    check_count("n_steps", n_steps)
    check_positive("initial_risk", initial_risk)
    check_positive("smoothness", smoothness)
    check_positive("gradient_moment", gradient_moment)
    check_positive("step_size", step_size)
    start = initial_risk / (n_steps * step_size)
    noise = smoothness * step_size * gradient_moment**2
    if not corrected:
        limit = 0.5 / math.sqrt(smoothness)
        require(
            step_size <= limit,
            f"Theorem 8 is stated for step_size <= 1 / (2 sqrt(smoothness)) = {limit:g}, "
            f"got {step_size:g}.",
            corrected=False,
        )
        return start + 8.0 * noise
    factor = sampling_factor(n)
    return min(factor * start + factor**2 * 6.0 * noise, (factor * gradient_moment) ** 2)


@documented
def gradient_norm_step_size(
    n_steps: int,
    *,
    initial_risk: float,
    smoothness: float,
    gradient_moment: float,
    n: int | None = None,
    constants: ConstantsChoice = "corrected",
) -> float:
    """Return the step size that makes `gradient_norm_nonconvex` smallest, of order 1/sqrt(t).

    Parameters
    ----------
    initial_risk : float
        F_S(w_0).

    Examples
    --------
    >>> round(gradient_norm_step_size(1000, initial_risk=1.0, smoothness=1.0,
    ...                               gradient_moment=1.0), 4)
    0.0129
    """
    corrected = check_constants(constants)
    check_count("n_steps", n_steps)
    weight = 6.0 * sampling_factor(n) if corrected else 8.0
    risk = check_positive("initial_risk", initial_risk)
    curvature = check_positive("smoothness", smoothness)
    moment = check_positive("gradient_moment", gradient_moment)
    return math.sqrt(risk / (weight * curvature * moment**2 * n_steps))


@documented
def pl_gap(
    n_steps: int,
    *,
    smoothness: float,
    pl_constant: float,
    lipschitz: float | None = None,
    gradient_moment: float | None = None,
    offset: float = 1.0,
    n: int | None = None,
    constants: ConstantsChoice = "corrected",
) -> float:
    r"""Return a bound on E[F_S(w_t)] - min F_S under the PL condition (Theorem 9).

    The steps are eta_j = 2 / (mu' (j + offset)), with mu' = mu for a stream and mu (1 - 1/n) when
    the examples are drawn from n (the PL constant of the risk that the steps see).

    Parameters
    ----------
    lipschitz : float, optional
        G, the Lipschitz constant of the pair loss. With it any offset of at least 1 is allowed.
    gradient_moment : float, optional
        alpha_0 instead of G. Then all steps must be at most 1/(2 L), that is,
        offset >= 4 L / mu' - 1.
    offset : float, default=1.0
        Delays the decrease of the steps; the paper's steps have 1.
    constants : {"corrected", "paper"}, default="corrected"
        The paper states 32 L alpha_0^2/mu^2 (1/(t+1) + log(e t)/(mu t (t+1))); its steps are too
        long at the start for its proof, and L^2 belongs in the last term. Corrected, with o the
        offset and H = 1/o + log((t+o-1)/o):
        [o (o-1) G^2/(2 mu) + 10 L G^2 t/mu^2 + 8 L^2 G^2 H/mu^3] / ((t+o)(t+o-1)), or
        [o (o-1) alpha_0^2/(2 mu) + 24 L alpha_0^2 t/mu^2 + 32 L^2 alpha_0^2 H/mu^3] / (...).

    Examples
    --------
    >>> round(pl_gap(10_000, smoothness=1.0, pl_constant=0.5, lipschitz=1.0), 5)
    0.00401
    """
    corrected = check_constants(constants)
    check_count("n_steps", n_steps)
    check_positive("smoothness", smoothness)
    check_positive("pl_constant", pl_constant)
    if pl_constant > smoothness * (1.0 + 1e-12):
        raise ValueError(
            f"pl_constant cannot exceed smoothness, got {pl_constant!r} > {smoothness!r}."
        )
    if lipschitz is None and gradient_moment is None:
        raise ValueError("give lipschitz or gradient_moment.")
    if lipschitz is not None and gradient_moment is not None:
        raise ValueError("give lipschitz or gradient_moment, not both: each has its own bound.")
    t = float(n_steps)
    if not corrected:
        moment = gradient_moment if gradient_moment is not None else lipschitz
        scale = 32.0 * smoothness * check_positive("gradient_moment", moment or 0.0) ** 2
        limit = 4.0 * smoothness / pl_constant - 1.0
        require(
            offset == 1.0 and limit <= 1.0,
            "the paper's proof of Theorem 9 needs steps of at most 1 / (2 smoothness), which "
            f"2 / (mu (j + 1)) exceeds for j < {limit:g}.",
            corrected=False,
        )
        tail = math.log(math.e * t) / (pl_constant * t * (t + 1.0))
        return scale / pl_constant**2 * (1.0 / (t + 1.0) + tail)
    if not offset >= 1.0:
        raise ValueError(f"offset must be at least 1, got {offset!r}.")
    factor = sampling_factor(n)
    mu = pl_constant / factor
    if lipschitz is not None:
        moment, first, second = check_positive("lipschitz", lipschitz), 10.0, 8.0
    else:
        moment = check_positive("gradient_moment", gradient_moment or 0.0)
        first, second = 24.0, 32.0
        require(
            offset >= (4.0 * smoothness / mu - 1.0) * (1.0 - 1e-12),
            f"with gradient_moment the bound needs offset >= 4 L / mu - 1 = "
            f"{4.0 * smoothness / mu - 1.0:g}, got {offset:g}; or give lipschitz.",
            corrected=True,
        )
    harmonic = 1.0 / offset + math.log((t + offset - 1.0) / offset)
    total = (
        offset * (offset - 1.0) / (2.0 * mu)
        + first * smoothness * t / mu**2
        + second * smoothness**2 * harmonic / mu**3
    )
    return factor * moment**2 * total / ((t + offset) * (t + offset - 1.0))


@documented
def pl_stability(
    n: int,
    n_steps: int,
    *,
    lipschitz: float,
    smoothness: float,
    pl_constant: float,
    supremum: float,
    burn_in: int | None = None,
    constants: ConstantsChoice = "corrected",
) -> float:
    r"""Return the uniform stability of w_T with steps 2 / (mu (j + 1)) (Lemma 3, Theorem 3).

    Parameters
    ----------
    pl_constant : float
        mu, which sets the steps.
    burn_in : int, optional
        t_0: the bound conditions on the event that the first t_0 steps do not touch the example.
        By default the best t_0.
    constants : {"corrected", "paper"}, default="corrected"
        The paper states (4 G^2/(n L)) (T/t_0)^(2L/mu) + B t_0/n and omits the draw of i_0.
        Corrected: (4 G^2/(n L)) ((T+1)/(t_0+1))^(2L/mu) + B (t_0+1)/n, and never above B.

    Returns
    -------
    float
        A bound on E|f(w_T; z, z') - f(w_T'; z, z')| for neighbouring data sets.

    Examples
    --------
    >>> round(pl_stability(1000, 100, lipschitz=1.0, smoothness=1.0, pl_constant=1.0,
    ...                    supremum=1.0), 4)
    0.0651
    """
    corrected = check_constants(constants)
    check_count("n", n, minimum=2)
    check_count("n_steps", n_steps)
    scale = 4.0 * check_positive("lipschitz", lipschitz) ** 2
    scale /= check_positive("smoothness", smoothness)
    check_positive("supremum", supremum)
    power = 2.0 * smoothness / check_positive("pl_constant", pl_constant)
    shift = 1.0 if corrected else 0.0
    horizon = n_steps + shift

    def bound(start: float) -> float:
        growth = math.exp(min(power * math.log(horizon / (start + shift)), 700.0))
        return (scale * growth + supremum * (start + shift)) / n

    lowest = 0 if corrected else 1
    if burn_in is None:
        log_best = math.log(power * scale / supremum) + power * math.log(horizon)
        best = math.exp(log_best / (1.0 + power)) - shift
        around = (math.floor(best), math.ceil(best))
        value = min(bound(min(max(start, lowest), n_steps)) for start in around)
    else:
        value = bound(check_count("burn_in", burn_in, minimum=lowest))
    return min(value, supremum) if corrected else value


@documented
def pl_excess(
    n: int,
    n_steps: int,
    *,
    lipschitz: float,
    smoothness: float,
    pl_constant: float,
    supremum: float,
    constants: ConstantsChoice = "corrected",
) -> float:
    """Return a bound on the excess risk of w_T under the PL condition (Theorem 3).

    Twice the stability (Lemma 1) plus the optimisation gap (Theorem 9) with alpha_0 = G.

    Parameters
    ----------
    n_steps : int
        Number of steps, T; `pl_horizon` gives the order that the theorem recommends.
    constants : {"corrected", "paper"}, default="corrected"
        See `pl_stability` and `pl_gap`.

    Examples
    --------
    >>> options = dict(lipschitz=1.0, smoothness=1.0, pl_constant=1.0, supremum=1.0)
    >>> pl_excess(10_000, 1_000, **options) < pl_excess(1_000, 1_000, **options)
    True
    """
    corrected = check_constants(constants)
    # The steps that Algorithm 1 takes are 2 / (mu' (j + 1)) with mu' = mu (1 - 1/n) when corrected.
    seen = pl_constant / sampling_factor(n) if corrected else pl_constant
    stability = pl_stability(
        n,
        n_steps,
        lipschitz=lipschitz,
        smoothness=smoothness,
        pl_constant=seen,
        supremum=supremum,
        constants=constants,
    )
    return 2.0 * stability + pl_gap(
        n_steps,
        smoothness=smoothness,
        pl_constant=pl_constant,
        lipschitz=lipschitz,
        n=n,
        constants=constants,
    )


@documented
def pl_horizon(n: int, *, smoothness: float, pl_constant: float) -> int:
    """Return the number of steps that Theorem 3 recommends, up to a constant.

    T = n^((2L+mu)/(4L+mu)) mu^(-(4L+2mu)/(4L+mu)), rounded up.

    Examples
    --------
    >>> pl_horizon(1000, smoothness=1.0, pl_constant=1.0)
    64
    """
    check_count("n", n, minimum=2)
    check_positive("smoothness", smoothness)
    check_positive("pl_constant", pl_constant)
    whole = 4.0 * smoothness + pl_constant
    log_horizon = (2.0 * smoothness + pl_constant) / whole * math.log(n)
    log_horizon -= (4.0 * smoothness + 2.0 * pl_constant) / whole * math.log(pl_constant)
    return max(1, math.ceil(math.exp(log_horizon)))
