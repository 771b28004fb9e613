# SPDX-License-Identifier: BSD-3-Clause
"""Private learning of losses with a kink: Algorithm 5 (Theorem 12).

The stages are those of `pairlearn.theory.localized`. Each is solved so accurately that its model is
close to the minimiser, which moves little when an example is replaced. Then noise is added.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from pairlearn.solvers.descent.localized import LocalizedStage
from pairlearn.theory.conventions import ConstantsChoice, balance, check_constants, require
from pairlearn.theory.glossary import documented
from pairlearn.theory.localized import stage_sizes
from pairlearn.theory.private import PrivateProblem
from pairlearn.theory.sensitivity import gaussian_noise_scale
from pairlearn.validation import check_positive


@dataclass(frozen=True)
class PrivateLocalizedStage:
    """One stage of Algorithm 5.

    Parameters
    ----------
    stage : LocalizedStage
        n_k, T_k and zeta_k.
    target_gap : float
        The accuracy that the stage must reach, G^2 zeta_k / n_k.
    sensitivity : float
        4 G zeta_k.
    noise_scale : float
        sigma_k.
    """

    stage: LocalizedStage
    target_gap: float
    sensitivity: float
    noise_scale: float


def _localized_stages(problem: PrivateProblem, zeta: float) -> tuple[PrivateLocalizedStage, ...]:
    # Both runs must be accurate, so each may fail with probability delta / 4.
    accuracy = 24.0 + 64.0 * math.log(8.0 / problem.delta)
    noise = gaussian_noise_scale(1.0, epsilon=problem.epsilon, delta=problem.delta)
    stages = []
    for k, size in enumerate(stage_sizes(problem.n), start=1):
        stage = LocalizedStage(size, math.ceil(size**2 * accuracy), zeta / 4.0**k)
        sensitivity = 4.0 * problem.lipschitz * stage.locality
        gap = problem.lipschitz**2 * stage.locality / size
        stages.append(PrivateLocalizedStage(stage, gap, sensitivity, noise * sensitivity))
    return tuple(stages)


def _localized_utility(problem: PrivateProblem, stages: tuple[PrivateLocalizedStage, ...]) -> float:
    grow = 5.0 * problem.lipschitz**2
    grow += problem.lipschitz * (problem.lipschitz + problem.self_pair_lipschitz) / 2.0
    total, distance = 0.0, problem.diameter
    for private in stages:
        stage = private.stage
        total += distance**2 / (stage.locality * stage.n_examples) + grow * stage.locality
        distance = math.sqrt(problem.n_features) * private.noise_scale
    return total + problem.lipschitz * distance


@documented
def private_nonsmooth_schedule(
    problem: PrivateProblem,
    *,
    locality: float | None = None,
    constants: ConstantsChoice = "corrected",
) -> tuple[PrivateLocalizedStage, ...]:
    r"""Return the stages of Algorithm 5, private localized SGD for losses with a kink.

    Parameters
    ----------
    locality : float, optional
        zeta, with zeta_k = zeta / 4^k. By default the paper's formula, or the minimiser of the
        corrected bound.
    constants : {"corrected", "paper"}, default="corrected"
        The paper: sigma_k = 4 G zeta_k sqrt(log(2.5/delta)) / epsilon and T_k of the order
        n_k^2 log(1/delta), evaluated here with the constant 1. It lacks the factor sqrt(2) of its
        own Gaussian lemma. Corrected: T_k = n_k^2 (24 + 64 log(8/delta)) steps reach the accuracy
        with probability 1 - delta/4 in each of two neighbouring runs, and the analytic Gaussian
        mechanism gets the other half of delta.

    Returns
    -------
    tuple of PrivateLocalizedStage
        The stages. The proof needs these numbers of steps in advance; a solver that certifies its
        accuracy needs fewer.

    Examples
    --------
    >>> problem = PrivateProblem(256, 8, lipschitz=2.0, diameter=1.0, epsilon=1.0, delta=1/256)
    >>> first = private_nonsmooth_schedule(problem)[0]
    >>> first.stage.n_examples, first.stage.n_steps
    (130, 8652388)
    """
    corrected = check_constants(constants)
    if corrected:
        if locality is None:
            at_one = _localized_utility(problem, _localized_stages(problem, 1.0))
            inverse = problem.diameter**2 / (0.25 * stage_sizes(problem.n)[0])
            locality = balance(at_one, inverse)
        return _localized_stages(problem, check_positive("locality", locality))
    require(
        problem.epsilon <= 1.0,
        f"the classical Gaussian mechanism is proved for epsilon <= 1, got {problem.epsilon:g}.",
        corrected=False,
    )
    width = math.sqrt(math.log(2.5 / problem.delta))
    steps = math.log(1.0 / problem.delta)
    if locality is None:
        reach = problem.epsilon / (4.0 * math.sqrt(problem.n_features * steps))
        locality = problem.diameter / problem.lipschitz * min(4.0 / math.sqrt(problem.n), reach)
    check_positive("locality", locality)
    stages = []
    for k, size in enumerate(stage_sizes(problem.n, constants="paper"), start=1):
        stage = LocalizedStage(size, math.ceil(size**2 * steps), locality / 4.0**k)
        sensitivity = 4.0 * problem.lipschitz * stage.locality
        gap = problem.lipschitz**2 * stage.locality / max(size, 1)
        noise = sensitivity * width / problem.epsilon
        stages.append(PrivateLocalizedStage(stage, gap, sensitivity, noise))
    return tuple(stages)


@documented
def private_nonsmooth_excess(
    problem: PrivateProblem,
    *,
    locality: float | None = None,
    constants: ConstantsChoice = "corrected",
) -> float:
    """Return a bound on the expected excess risk of Algorithm 5 (Theorem 12).

    Parameters
    ----------
    locality : float, optional
        zeta; see `private_nonsmooth_schedule`.
    constants : {"corrected", "paper"}, default="corrected"
        The paper: 9 G D (1/sqrt(n) + sqrt(d log(1/delta))/(n epsilon)) + G D/n^2, for its own
        zeta. Corrected: the sum over the stages from derivations, section 11.

    Examples
    --------
    >>> problem = PrivateProblem(10_000, 8, lipschitz=1.0, diameter=1.0, epsilon=1.0, delta=1e-6)
    >>> private_nonsmooth_excess(problem) > private_nonsmooth_excess(problem, constants="paper")
    True
    """
    if check_constants(constants):
        return _localized_utility(problem, private_nonsmooth_schedule(problem, locality=locality))
    if locality is not None:
        raise ValueError("the paper's Theorem 12 sets the locality itself; leave it out.")
    scale = problem.lipschitz * problem.diameter
    private = math.sqrt(problem.n_features * math.log(1.0 / problem.delta))
    private /= problem.n * problem.epsilon
    return 9.0 * scale * (1.0 / math.sqrt(problem.n) + private) + scale / problem.n**2
