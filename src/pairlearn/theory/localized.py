# SPDX-License-Identifier: BSD-3-Clause
r"""Localized learning: stages on disjoint data, each near the one before (Algorithm 4, Theorem 11).

Stage k minimises F_k(w) = F_{S_k}(w) + \|w - c\|^2 / (zeta_k n_k), where c is the model of the
stage before, by steps zeta_k n_k / (j + 1) and the linear average. After a number of steps of order
n, the excess risk is of order G D / sqrt(n) for non-smooth losses.
"""

from __future__ import annotations

import math

from pairlearn.solvers.descent import localized
from pairlearn.solvers.descent.localized import LocalizedStage
from pairlearn.theory.conventions import ConstantsChoice, check_constants, not_negative
from pairlearn.theory.glossary import documented
from pairlearn.validation import AssumptionWarning, check_count, check_positive, warn_caller


@documented
def stage_sizes(n: int, *, constants: ConstantsChoice = "corrected") -> tuple[int, ...]:
    """Return the number of examples of each stage.

    Parameters
    ----------
    constants : {"corrected", "paper"}, default="corrected"
        The paper: n / 2^k for k = 1, ..., ceil(log2 n), here rounded down; the last has at most
        one example, hence no pair. Corrected: stages of fewer than two examples are left out, and
        the remaining examples go to the first stage.

    Returns
    -------
    tuple of int
        n_1, n_2, ...; corrected, they add up to n.

    Examples
    --------
    >>> stage_sizes(20)
    (13, 5, 2)
    >>> stage_sizes(20, constants="paper")
    (10, 5, 2, 1, 0)
    """
    check_count("n", n, minimum=4)
    if check_constants(constants):
        return localized.stage_sizes(n)
    return tuple(n >> k for k in range(1, math.ceil(math.log2(n)) + 1))


@documented
def localized_schedule(
    n: int,
    *,
    lipschitz: float,
    diameter: float,
    n_passes: float = 1.0,
    constants: ConstantsChoice = "corrected",
) -> tuple[LocalizedStage, ...]:
    """Return the stages of Algorithm 4 with zeta = D / (G sqrt(n)) and zeta_k = zeta / 2^k.

    Examples
    --------
    >>> localized_schedule(16, lipschitz=1.0, diameter=2.0)[1]
    LocalizedStage(n_examples=4, n_steps=4, locality=0.125)
    """
    check_positive("n_passes", n_passes)
    zeta = check_positive("diameter", diameter) / check_positive("lipschitz", lipschitz)
    zeta /= math.sqrt(check_count("n", n, minimum=4))
    sizes = stage_sizes(n, constants=constants)
    if sizes[-1] < 2:
        warn_caller(
            "the last stages of the paper's schedule have fewer than two examples, hence no pair.",
            AssumptionWarning,
        )
    return tuple(
        LocalizedStage(size, math.ceil(n_passes * size), zeta / 2.0**k)
        for k, size in enumerate(sizes, start=1)
    )


@documented
def localized_distance(
    stage: LocalizedStage, *, lipschitz: float, self_pair_lipschitz: float = 0.0
) -> float:
    r"""Return a bound on sqrt(E\|average - minimiser of F_k\|^2) after a stage (Lemma 8).

    The regularised loss is not G-Lipschitz. But along the path \|w - c\| <= G / alpha, so its
    gradients are at most 2 G (derivations, section 8). With l = G + ``self_pair_lipschitz`` for
    the repeated examples, the bound is zeta (l/2 + sqrt(l^2/4 + 12 G^2 n^2/(T + 1))).

    Returns
    -------
    float
        The bound. The paper gives the order G zeta sqrt(n), without a constant.

    Examples
    --------
    >>> round(localized_distance(LocalizedStage(100, 100, 0.01), lipschitz=1.0), 4)
    0.3497
    """
    check_positive("lipschitz", lipschitz)
    slope = lipschitz + not_negative("self_pair_lipschitz", self_pair_lipschitz)
    spread = 12.0 * lipschitz**2 * stage.n_examples**2 / (stage.n_steps + 1.0)
    return stage.locality * (slope / 2.0 + math.sqrt(slope**2 / 4.0 + spread))


@documented
def localized_stage_gap(
    stage: LocalizedStage,
    *,
    lipschitz: float,
    distance: float,
    constants: ConstantsChoice = "corrected",
) -> float:
    r"""Return a bound on E[F(minimiser of F_k) - F(w)] for w independent of the stage (Lemma 9).

    Parameters
    ----------
    distance : float
        A bound on sqrt(E\|c - w\|^2), where c is the centre of the stage.
    constants : {"corrected", "paper"}, default="corrected"
        The paper states distance^2/(zeta n) + 2 G^2 zeta, with the constant of pointwise learning.
        Corrected: 4 G^2 zeta instead of 2 G^2 zeta, for pairs.

    Examples
    --------
    >>> localized_stage_gap(LocalizedStage(100, 100, 0.01), lipschitz=1.0, distance=1.0)
    1.04
    """
    factor = 4.0 if check_constants(constants) else 2.0
    check_positive("lipschitz", lipschitz)
    near = not_negative("distance", distance) ** 2 / (stage.locality * stage.n_examples)
    return near + factor * lipschitz**2 * stage.locality


@documented
def localized_excess(
    n: int,
    *,
    lipschitz: float,
    diameter: float,
    n_passes: float = 1.0,
    self_pair_lipschitz: float = 0.0,
) -> float:
    r"""Return a bound on E[F(last average)] - F(w*) for Algorithm 4 (Theorem 11).

    It sums `localized_stage_gap` over the stages, with `localized_distance` of the stage before
    (D for the first stage), and adds G times the distance of the last stage. The paper gives the
    order G D / sqrt(n) without a constant, so there is only one set of constants.

    Examples
    --------
    >>> small, large = (localized_excess(n, lipschitz=1.0, diameter=1.0) for n in (1_000, 100_000))
    >>> round(small / large)
    10
    """
    stages = localized_schedule(n, lipschitz=lipschitz, diameter=diameter, n_passes=n_passes)
    total, distance = 0.0, float(diameter)
    for stage in stages:
        total += localized_stage_gap(stage, lipschitz=lipschitz, distance=distance)
        reached = localized_distance(
            stage, lipschitz=lipschitz, self_pair_lipschitz=self_pair_lipschitz
        )
        distance = min(reached, diameter)
    return total + lipschitz * distance
