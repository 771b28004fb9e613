# SPDX-License-Identifier: BSD-3-Clause
"""Generalisation and excess risk with confidence 1 - p, by uniform stability.

The indices do not depend on the data. So the path can be held fixed while the data are random, and
the stability of the path is a sure number (derivations, section 14).
"""

from __future__ import annotations

import math

from pairlearn.theory.conventions import require_contraction
from pairlearn.theory.glossary import documented
from pairlearn.theory.optimization import convex_gap_with_confidence
from pairlearn.theory.sensitivity import binomial_upper
from pairlearn.validation import check_count, check_fraction, check_positive


@documented
def generalization_gap_with_confidence(
    n: int, *, uniform_stability: float, supremum: float, failure_probability: float
) -> float:
    r"""Return a bound on F(A(S)) - F_S(A(S)) that fails with probability at most p.

    The smaller of two proved bounds, and never above the supremum B of the loss:

    1. 2 b + (b + B/n) sqrt(2 n log(1/p)), by bounded differences;
    2. e [4 b + 48 sqrt(6) q b ceil(log2 m) + 3 sqrt(2) B sqrt(q/m)], q = max(2, log(1/p)),
       m = floor(n/2), by the moments of Bousquet, Klochkov and Zhivotovskiy (2020), with pairs
       taken as examples. Their theorem is cited with 12 sqrt(2) and with 12 sqrt(6), and with 4 and
       with 3 sqrt(2); the larger constants are taken, with which it holds either way.

    The first is smaller unless n is very large; the second has the better order, log n instead of
    sqrt(n) times b. It is the rate of Lei, Ledent and Kloft (2020), with other constants.

    Parameters
    ----------
    uniform_stability : float
        b, a bound on \|f(A(S); z, z') - f(A(S'); z, z')\| for all neighbours and all z, z'. For the
        path of a run it is G times the largest `realized_stability`.

    Returns
    -------
    float
        The bound.

    References
    ----------
    Lei, Ledent, Kloft. Sharper generalization bounds for pairwise learning. NeurIPS 2020.

    Bousquet, Klochkov, Zhivotovskiy. Sharper bounds for uniformly stable algorithms. COLT 2020.
    Theorem 4.

    Examples
    --------
    >>> round(generalization_gap_with_confidence(10_000, uniform_stability=1e-4, supremum=1.0,
    ...                                          failure_probability=0.05), 4)
    0.0492
    """
    check_count("n", n, minimum=4)
    check_positive("supremum", supremum)
    check_fraction("failure_probability", failure_probability)
    if not uniform_stability >= 0.0:
        raise ValueError(f"uniform_stability must be at least 0, got {uniform_stability!r}.")
    doubt, half = math.log(1.0 / failure_probability), n // 2
    spread = (uniform_stability + supremum / n) * math.sqrt(2.0 * n * doubt)
    power = max(2.0, doubt)
    rounds = 48.0 * math.sqrt(6.0) * power * math.ceil(math.log2(half))
    moments = (4.0 + rounds) * uniform_stability + 3.0 * supremum * math.sqrt(2.0 * power / half)
    return min(2.0 * uniform_stability + spread, math.e * moments, supremum)


@documented
def excess_with_confidence(
    n: int,
    n_steps: int,
    *,
    lipschitz: float,
    distance: float,
    supremum: float,
    step_size: float,
    failure_probability: float,
    smoothness: float = math.inf,
    gradient_change: float | None = None,
    stability: float | None = None,
) -> float:
    r"""Return a bound on F(average) - F(w*) of Algorithm 1 that fails with probability at most p.

    It joins `generalization_gap_with_confidence` with Theorem 7a (`convex_gap_with_confidence`) and
    with Hoeffding's inequality for F_S(w*) - F(w*), each at an equal share of p.

    Parameters
    ----------
    smoothness : float, default=inf
        L; when finite, the step size must be at most 2 / L.
    stability : float, optional
        How far replacing an example can move the average on the path of the run: the largest
        `realized_stability`. By default a bound that all but a share p/4 of the paths have.

    Returns
    -------
    float
        The bound; f(w; z, z) must not depend on w (AUC, metric learning). It may exceed the
        supremum of the loss, and is then vacuous.

    Notes
    -----
    Its order is n^(-1/4) up to very large n, since bounded differences cost sqrt(n) times the
    stability. One pass over fresh examples needs no generalisation term, and has the order
    n^(-1/2): `convex_gap_with_confidence` with ``n=None``.

    Examples
    --------
    >>> round(excess_with_confidence(10**6, 10**7, lipschitz=1.0, smoothness=1.0, distance=1.0,
    ...                              supremum=1.0, step_size=5e-7, failure_probability=0.05), 3)
    0.296
    """
    check_count("n", n, minimum=4)
    check_count("n_steps", n_steps)
    check_positive("step_size", step_size)
    check_positive("lipschitz", lipschitz)
    check_positive("supremum", supremum)
    smooth = not math.isinf(smoothness)
    if smooth:
        require_contraction(step_size, smoothness, corrected=True)
    share = check_fraction("failure_probability", failure_probability)
    share /= 4.0 if stability is None else 3.0
    if stability is None:
        change = 2.0 * lipschitz if gradient_change is None else gradient_change
        draws = binomial_upper(n_steps + 1, 1.0 / n, failure_probability=share / n)
        drift = 0.0 if smooth else math.sqrt(n_steps)
        stability = check_positive("gradient_change", change) * step_size * (drift + 2.0 * draws)
    elif gradient_change is not None:
        raise ValueError("give stability or gradient_change, not both: the first contains it.")
    gap = generalization_gap_with_confidence(
        n,
        uniform_stability=lipschitz * stability,
        supremum=supremum,
        failure_probability=share,
    )
    gap += convex_gap_with_confidence(
        n_steps,
        lipschitz=lipschitz,
        distance=distance,
        supremum=supremum,
        failure_probability=share,
        step_size=step_size,
        n=n,
    )
    return gap + supremum * math.sqrt(math.log(1.0 / share) / (2.0 * (n // 2)))
