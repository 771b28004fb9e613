# SPDX-License-Identifier: BSD-3-Clause
"""Excess risk F(average) - F(w*) in expectation: Theorems 1 and 2, and Algorithm 2.

Excess risk <= generalisation (2 G times the stability, Lemma 1) + optimisation (Theorem 6a). With
a constant step size eta every bound has the form a eta + b / eta, so the best step is sqrt(b / a).
"""

from __future__ import annotations

from typing import TypedDict

from pairlearn.theory.conventions import ConstantsChoice, balance
from pairlearn.theory.glossary import documented
from pairlearn.theory.optimization import convex_gap
from pairlearn.theory.stability import generalization_gap, stability_nonsmooth, stability_smooth
from pairlearn.validation import check_count, check_positive


class _Shared(TypedDict):
    """The arguments that the parts of an excess risk share."""

    lipschitz: float
    step_size: float
    constants: ConstantsChoice


@documented
def excess_nonsmooth(
    n: int,
    n_steps: int,
    *,
    lipschitz: float,
    distance: float,
    step_size: float,
    gradient_change: float | None = None,
    constants: ConstantsChoice = "corrected",
) -> float:
    r"""Return a bound on E[F(average)] - F(w*) for convex losses (Theorem 1).

    Parameters
    ----------
    n_steps : int
        Number of steps, T; the theorem recommends the order n^2.
    constants : {"corrected", "paper"}, default="corrected"
        The paper's constants give
        4 sqrt(e) G^2 eta (sqrt(5T) + 2T/n) + D^2/(2 T eta) + 3 G^2 eta/2.

    Returns
    -------
    float
        The bound; f(w; z, z) must not depend on w (AUC, metric learning).

    Examples
    --------
    >>> round(excess_nonsmooth(100, 10_000, lipschitz=1.0, distance=1.0, step_size=0.001), 3)
    0.714
    """
    both = _Shared(lipschitz=lipschitz, step_size=step_size, constants=constants)
    stability = stability_nonsmooth(n, n_steps, gradient_change=gradient_change, **both)
    gap = convex_gap(n_steps, distance=distance, n=n, **both)
    return generalization_gap(stability, lipschitz=lipschitz) + gap


@documented
def excess_smooth(
    n: int,
    n_steps: int,
    *,
    lipschitz: float,
    smoothness: float,
    distance: float,
    step_size: float,
    gradient_change: float | None = None,
    constants: ConstantsChoice = "corrected",
) -> float:
    r"""Return a bound on E[F(average)] - F(w*) for convex smooth losses (Theorem 2).

    Parameters
    ----------
    n_steps : int
        Number of steps, T; the theorem recommends the order n.
    smoothness : float
        L, the Lipschitz constant of its gradient; the step size must be at most 2 / L.
    constants : {"corrected", "paper"}, default="corrected"
        The paper's constants give 8 G^2 T eta/n + D^2/(2 T eta) + 3 G^2 eta/2; the corrected ones
        use the stability of the average, half of that of the last iterate.

    Returns
    -------
    float
        The bound; f(w; z, z) must not depend on w (AUC, metric learning).

    Examples
    --------
    >>> round(excess_smooth(100, 100, lipschitz=1.0, smoothness=1.0, distance=1.0,
    ...                     step_size=0.03), 3)
    0.329
    """
    both = _Shared(lipschitz=lipschitz, step_size=step_size, constants=constants)
    stability = stability_smooth(
        n, n_steps, smoothness=smoothness, gradient_change=gradient_change, **both
    )
    gap = convex_gap(n_steps, distance=distance, n=n, **both)
    return generalization_gap(stability, lipschitz=lipschitz) + gap


@documented
def excess_online(
    n_steps: int,
    *,
    lipschitz: float,
    distance: float,
    step_size: float,
    buffer_size: int = 1,
    constants: ConstantsChoice = "corrected",
) -> float:
    r"""Return a bound on E[F(average)] - F(w*) for Algorithm 2 on fresh examples.

    There is no generalisation term: the bound of Theorem 6a holds for the population risk itself. A
    single pass in random order over n independent examples is such a stream with T = n - 1.

    Returns
    -------
    float
        The bound, sqrt(3) G D / sqrt(T) at the best step size.

    Examples
    --------
    >>> eta = step_size_online(300, lipschitz=1.0, distance=1.0)
    >>> round(excess_online(300, lipschitz=1.0, distance=1.0, step_size=eta), 4)
    0.0999
    """
    both = _Shared(lipschitz=lipschitz, step_size=step_size, constants=constants)
    return convex_gap(n_steps, distance=distance, buffer_size=buffer_size, **both)


def _inverse_part(n_steps: int, distance: float, n: int | None, constants: str) -> float:
    factor = n / (n - 1.0) if n is not None and constants == "corrected" else 1.0
    return factor * check_positive("distance", distance) ** 2 / (2.0 * n_steps)


@documented
def step_size_nonsmooth(
    n: int,
    n_steps: int,
    *,
    lipschitz: float,
    distance: float,
    gradient_change: float | None = None,
    constants: ConstantsChoice = "corrected",
) -> float:
    """Return the step size that makes `excess_nonsmooth` smallest, of order T^(-3/4).

    Examples
    --------
    >>> round(step_size_nonsmooth(100, 10_000, lipschitz=1.0, distance=1.0), 6)
    0.000276
    """
    both = _Shared(lipschitz=lipschitz, step_size=1.0, constants=constants)
    at_one = excess_nonsmooth(
        n, n_steps, distance=distance, gradient_change=gradient_change, **both
    )
    return balance(at_one, _inverse_part(n_steps, distance, n, constants))


@documented
def step_size_smooth(
    n: int,
    n_steps: int,
    *,
    lipschitz: float,
    smoothness: float,
    distance: float,
    gradient_change: float | None = None,
    constants: ConstantsChoice = "corrected",
) -> float:
    """Return the step size that makes `excess_smooth` smallest, at most 2 / L.

    Examples
    --------
    >>> round(step_size_smooth(100, 100, lipschitz=1.0, smoothness=1.0, distance=1.0), 4)
    0.0307
    """
    check_count("n_steps", n_steps)
    # The bound is linear in eta apart from D^2 / (2 T eta). Evaluate it at eta = 1 to get the
    # slope, with a smoothness that allows eta = 1.
    both = _Shared(lipschitz=lipschitz, step_size=1.0, constants=constants)
    at_one = excess_smooth(
        n, n_steps, smoothness=2.0, distance=distance, gradient_change=gradient_change, **both
    )
    best = balance(at_one, _inverse_part(n_steps, distance, n, constants))
    return min(best, 2.0 / check_positive("smoothness", smoothness))


@documented
def step_size_online(
    n_steps: int,
    *,
    lipschitz: float,
    distance: float,
    buffer_size: int = 1,
    constants: ConstantsChoice = "corrected",
) -> float:
    """Return the step size that makes `excess_online` smallest, about D / (G sqrt(3 T)).

    Examples
    --------
    >>> round(step_size_online(300, lipschitz=1.0, distance=1.0), 4)
    0.0334
    """
    both = _Shared(lipschitz=lipschitz, step_size=1.0, constants=constants)
    at_one = excess_online(n_steps, distance=distance, buffer_size=buffer_size, **both)
    return balance(at_one, _inverse_part(n_steps, distance, None, constants))
