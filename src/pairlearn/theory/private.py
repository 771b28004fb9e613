# SPDX-License-Identifier: BSD-3-Clause
r"""Private learning: Algorithm 3 (Theorem 10) and Algorithm 5 (Theorem 12).

Every corrected utility bound is a sum of proved terms over the actual stages, with their integer
numbers of examples and steps. As a function of the scale s of the steps it has the form
a s + b / s, and the schedule takes the best s. Each stage of Algorithm 5, for losses with a kink,
is solved so accurately that its model is close to the minimiser, which moves little when an example
is replaced.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from pairlearn.solvers.descent.localized import LocalizedStage
from pairlearn.theory.conventions import (
    ConstantsChoice,
    balance,
    check_constants,
    not_negative,
    require,
    require_contraction,
    sampling_factor,
)
from pairlearn.theory.glossary import documented
from pairlearn.theory.localized import stage_sizes
from pairlearn.theory.optimization import convex_gap
from pairlearn.theory.sensitivity import (
    gaussian_noise_scale,
    sensitivity_with_confidence,
)
from pairlearn.theory.stability import generalization_gap, stability_smooth
from pairlearn.validation import (
    AssumptionWarning,
    check_count,
    check_fraction,
    check_positive,
    warn_caller,
)


@dataclass(frozen=True)
class PrivateProblem:
    """The public constants of the private bounds.

    Parameters
    ----------
    n : int
        Number of examples.
    n_features : int
        Number of features, d.
    lipschitz : float
        G, the Lipschitz constant of the pair loss.
    diameter : float
        D, the diameter of the domain.
    epsilon, delta : float
        The privacy parameters.
    smoothness : float, default=inf
        L, the Lipschitz constant of the gradient; Algorithm 5 does not need it.
    self_pair_lipschitz : float, default=0.0
        Lipschitz constant of f(w; z, z); zero for AUC and metric learning.

    Examples
    --------
    >>> PrivateProblem(1000, 8, lipschitz=2.0, diameter=1.0, epsilon=1.0, delta=1e-4).epsilon
    1.0
    """

    n: int
    n_features: int
    lipschitz: float
    diameter: float
    epsilon: float
    delta: float
    smoothness: float = math.inf
    self_pair_lipschitz: float = 0.0

    def __post_init__(self) -> None:
        checked = {
            "n": check_count("n", self.n, minimum=4),
            "n_features": check_count("n_features", self.n_features),
            "lipschitz": check_positive("lipschitz", self.lipschitz),
            "diameter": check_positive("diameter", self.diameter),
            "epsilon": check_positive("epsilon", self.epsilon),
            "delta": check_fraction("delta", self.delta),
            "smoothness": check_positive("smoothness", self.smoothness, allow_infinite=True),
            "self_pair_lipschitz": not_negative("self_pair_lipschitz", self.self_pair_lipschitz),
        }
        for name, value in checked.items():  # Python's numbers, which do not overflow
            object.__setattr__(self, name, value)


@dataclass(frozen=True)
class PrivateStage:
    """One stage of Algorithm 3.

    Parameters
    ----------
    n_examples, n_steps : int
        n_k and T_k.
    step_size : float
        eta_k.
    sensitivity : float
        A bound on the change of the stage's average, valid with probability 1 - delta/2.
    noise_scale : float
        sigma_k.
    """

    n_examples: int
    n_steps: int
    step_size: float
    sensitivity: float
    noise_scale: float


def _stages(problem: PrivateProblem, step_size: float) -> tuple[PrivateStage, ...]:
    """Return the corrected stages of Algorithm 3 for a given scale of the steps."""
    doubt = math.log(4.0 / problem.delta)
    noise = gaussian_noise_scale(1.0, epsilon=problem.epsilon, delta=problem.delta)
    stages = []
    for k, size in enumerate(stage_sizes(problem.n), start=1):
        n_steps = math.ceil(size * doubt)
        step = step_size / 4.0**k
        # The caller has checked the true smoothness.
        sensitivity = sensitivity_with_confidence(
            size, n_steps, lipschitz=problem.lipschitz, smoothness=2.0 / step, step_size=step,
            failure_probability=problem.delta / 2.0,
        )  # fmt: skip
        stages.append(PrivateStage(size, n_steps, step, sensitivity, noise * sensitivity))
    return tuple(stages)


def _utility(problem: PrivateProblem, stages: tuple[PrivateStage, ...]) -> float:
    """Sum the corrected utility bound over the stages (derivations, section 10)."""
    total, distance = 0.0, problem.diameter
    for stage in stages:
        stability = stability_smooth(
            stage.n_examples, stage.n_steps, lipschitz=problem.lipschitz,
            smoothness=2.0 / stage.step_size, step_size=stage.step_size,
        )  # fmt: skip
        total += generalization_gap(stability, lipschitz=problem.lipschitz)
        total += convex_gap(
            stage.n_steps, lipschitz=problem.lipschitz, distance=distance,
            step_size=stage.step_size, n=stage.n_examples,
            self_pair_gap=problem.self_pair_lipschitz * problem.diameter,
        )  # fmt: skip
        distance = math.sqrt(problem.n_features) * stage.noise_scale
    return total + problem.lipschitz * distance


@documented
def private_schedule(
    problem: PrivateProblem, *, step_size: float | None = None,
    constants: ConstantsChoice = "corrected",
) -> tuple[PrivateStage, ...]:  # fmt: skip
    r"""Return the stages of Algorithm 3, differentially private SGD for smooth convex losses.

    Parameters
    ----------
    step_size : float, optional
        eta, with eta_k = eta / 4^k. By default the theorem's choice: the paper's formula, or the
        minimiser of the corrected bound, in any case with eta_1 <= 2 / L.
    constants : {"corrected", "paper"}, default="corrected"
        The paper: sigma_k = 12 G eta_k log(4/delta) sqrt(2 log(2.5/delta)) / epsilon. Corrected:
        the exact quantile of the number of draws and the analytic Gaussian mechanism, each with
        delta/2. Models must be projected after the noise is added.

    Examples
    --------
    >>> problem = PrivateProblem(256, 8, lipschitz=2.0, diameter=1.0, epsilon=1.0, delta=1/256,
    ...                          smoothness=1.0)
    >>> [(stage.n_examples, stage.n_steps) for stage in private_schedule(problem)][:3]
    [(130, 902), (64, 444), (32, 222)]
    """
    corrected = check_constants(constants)
    if math.isinf(problem.smoothness):
        raise ValueError(
            "Algorithm 3 needs a finite smoothness; for a loss with a kink use a smooth "
            "surrogate or private_nonsmooth_schedule."
        )
    if corrected:
        if step_size is None:
            at_one = _utility(problem, _stages(problem, 1.0))
            sizes = stage_sizes(problem.n)
            n_steps = math.ceil(sizes[0] * math.log(4.0 / problem.delta))
            inverse = sampling_factor(sizes[0]) * problem.diameter**2 / (2.0 * n_steps * 0.25)
            gap = problem.self_pair_lipschitz * problem.diameter
            constant = sum(gap / (size - 1.0) for size in sizes)
            step_size = min(balance(at_one - constant, inverse), 8.0 / problem.smoothness)
        check_positive("step_size", step_size)
        require_contraction(step_size / 4.0, problem.smoothness, corrected=True)
        return _stages(problem, step_size)
    doubt = math.log(4.0 / problem.delta)
    width = math.sqrt(2.0 * math.log(2.5 / problem.delta))
    step_size = _paper_step_size(problem, step_size)
    _require_classical(problem)
    stages = []
    for k, size in enumerate(stage_sizes(problem.n, constants="paper"), start=1):
        step = step_size / 4.0**k
        sensitivity = 12.0 * problem.lipschitz * step * doubt
        noise = sensitivity * width / problem.epsilon
        stages.append(PrivateStage(size, math.ceil(size * doubt), step, sensitivity, noise))
    if stages[-1].n_examples < 2:
        warn_caller(
            "the last stages of the paper's schedule have fewer than two examples, hence no pair.",
            AssumptionWarning,
        )
    return tuple(stages)


def _paper_step_size(problem: PrivateProblem, step_size: float | None) -> float:
    if step_size is None:
        doubt = math.log(4.0 / problem.delta)
        width = math.sqrt(2.0 * problem.n_features * math.log(2.5 / problem.delta))
        reach = min(doubt / math.sqrt(problem.n), problem.epsilon / (12.0 * doubt * width))
        step_size = problem.diameter / problem.lipschitz * reach
    require(
        check_positive("step_size", step_size) <= 2.0 / problem.smoothness,
        f"Theorem 10 assumes step_size <= 2 / smoothness = {2.0 / problem.smoothness:g}, "
        f"got {step_size:g}.",
        corrected=False,
    )
    return step_size


def _require_classical(problem: PrivateProblem) -> None:
    require(
        problem.epsilon <= 1.0,
        f"the classical Gaussian mechanism is proved for epsilon <= 1, got {problem.epsilon:g}.",
        corrected=False,
    )


@documented
def private_excess(
    problem: PrivateProblem, *, step_size: float | None = None,
    constants: ConstantsChoice = "corrected",
) -> float:  # fmt: skip
    """Return a bound on the expected excess risk of Algorithm 3 (Theorem 10).

    Parameters
    ----------
    step_size : float, optional
        eta; see `private_schedule`.
    constants : {"corrected", "paper"}, default="corrected"
        The paper's proof: the sum over k of 2^-k 8 D^2/(eta n) + 4^-k 18 log(4/delta) G^2 eta, plus
        4^-K G D. Corrected: generalisation, optimisation and noise of each stage of
        `private_schedule`, with its integer sizes.

    Examples
    --------
    >>> values = [private_excess(PrivateProblem(n, 8, lipschitz=1.0, diameter=1.0, epsilon=1.0,
    ...                                         delta=1e-6, smoothness=1.0))
    ...           for n in (10_000, 1_000_000)]
    >>> values[0] / values[1] > 10
    True
    """
    if check_constants(constants):
        return _utility(problem, private_schedule(problem, step_size=step_size))
    step_size = _paper_step_size(problem, step_size)
    doubt = math.log(4.0 / problem.delta)
    n_stages = math.ceil(math.log2(problem.n))
    start = 8.0 * problem.diameter**2 / (step_size * problem.n)
    drift = 18.0 * doubt * problem.lipschitz**2 * step_size
    total = sum(start / 2.0**k + drift / 4.0**k for k in range(1, n_stages + 1))
    return total + problem.lipschitz * problem.diameter / 4.0**n_stages


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
    problem: PrivateProblem, *, locality: float | None = None,
    constants: ConstantsChoice = "corrected",
) -> tuple[PrivateLocalizedStage, ...]:  # fmt: skip
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
    _require_classical(problem)
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
    problem: PrivateProblem, *, locality: float | None = None,
    constants: ConstantsChoice = "corrected",
) -> float:  # fmt: skip
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
