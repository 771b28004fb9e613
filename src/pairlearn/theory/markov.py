# SPDX-License-Identifier: BSD-3-Clause
"""Examples along a Markov chain: learn from every k-th one.

Successive examples of a chain depend on each other, and so do the examples of a pair: the previous
example is no independent partner. After k steps the chain has nearly forgotten, and every k-th
example is nearly independent (derivations, section 16). `OrderWarning` tells of such a stream.
"""

from __future__ import annotations

from pairlearn.theory.excess import excess_online, step_size_online
from pairlearn.theory.glossary import documented
from pairlearn.validation import check_count, check_fraction, check_positive


@documented
def excess_markov(
    n: int, gap: int, *, lipschitz: float, distance: float, supremum: float, mixing: float
) -> float:
    r"""Return a bound on E[F(average)] - F(w*) for Algorithm 2 on every k-th example of a chain.

    With m = floor(n / k) examples it is `excess_online` for m - 1 steps at its best step size, plus
    m B tau_k: the m examples differ from independent ones with probability at most m tau_k. F is
    the risk of independent pairs of the stationary law.

    Parameters
    ----------
    n : int
        Number of examples of the chain, of which every k-th is learned.
    gap : int
        k, the number of steps of the chain between two learned examples.
    mixing : float
        tau_k: the law of the chain after k steps is this close to the stationary law in total
        variation, from wherever it starts.

    Returns
    -------
    float
        The bound; above B it is vacuous.

    Notes
    -----
    Without gaps nothing of the kind can hold. The pairs of the previous example have the expected
    loss E f(w; z', z) with z' one step of the chain after z. That is another risk, which differs
    from F by up to B tau_1, however many examples there are.

    Examples
    --------
    >>> options = dict(lipschitz=1.0, distance=1.0, supremum=1.0)
    >>> round(excess_markov(100_000, 20, mixing=0.5**20, **options), 4)
    0.0293
    >>> excess_markov(100_000, 5, mixing=0.5**5, **options) > 1.0
    True
    """
    if not 0.0 <= mixing <= 1.0:
        raise ValueError(f"mixing must lie between 0 and 1, got {mixing!r}.")
    check_positive("supremum", supremum)
    kept = check_count("n", n) // check_count("gap", gap)
    if kept < 2:
        raise ValueError(
            f"{n} examples with gaps of {gap} leave {kept}, and a pair needs 2; take a smaller gap."
        )
    eta = step_size_online(kept - 1, lipschitz=lipschitz, distance=distance)
    fresh = excess_online(kept - 1, lipschitz=lipschitz, distance=distance, step_size=eta)
    return fresh + kept * supremum * mixing


@documented
def markov_gap(
    n: int, *, lipschitz: float, distance: float, supremum: float, rate: float, scale: float = 1.0
) -> int:
    """Return the gap k that makes `excess_markov` smallest, for tau_k <= scale rate^k.

    It grows with the logarithm of n, so the price of the dependence is a logarithm.

    Parameters
    ----------
    n : int
        Number of examples of the chain.
    rate : float
        The factor by which the distance to the stationary law falls in a step, below 1.
    scale : float, default=1.0
        The constant before it.

    Returns
    -------
    int
        The gap k.

    Examples
    --------
    >>> markov_gap(100_000, lipschitz=1.0, distance=1.0, supremum=1.0, rate=0.5)
    22
    """
    check_count("n", n, minimum=2)
    check_fraction("rate", rate)
    check_positive("scale", scale)
    given = {"lipschitz": lipschitz, "distance": distance, "supremum": supremum}
    best, least = 1, float("inf")
    for gap in range(1, n // 2 + 1):
        tau = min(scale * rate**gap, 1.0)
        bound = excess_markov(n, gap, mixing=tau, **given)
        if bound < least:
            best, least = gap, bound
        elif supremum * (n // gap) * tau < 1e-9 * least:
            break  # from here on longer gaps only lose examples
    return best
