# SPDX-License-Identifier: BSD-3-Clause
"""Confidence, low noise and Markov chains: the bounds hold where everything can be counted.

A problem on four values of an example and n = 4 or 5 has 256 or 1,024 data sets. All of them are
run, so expectations and probabilities are exact sums, and a bound that fails does so without doubt.
"""

import itertools

import numpy as np
import pytest

from pairlearn.losses import Logistic, SquaredHinge
from pairlearn.reference import average_of
from pairlearn.theory import (
    convex_gap_with_confidence,
    excess_low_noise,
    excess_markov,
    excess_with_confidence,
    generalization_gap_with_confidence,
    hinge_problem,
    markov_gap,
    on_average_gap,
    on_average_stability,
    realized_stability,
    run_path,
    square_problem,
    step_size_low_noise,
)


def models(problem, n, path, eta):
    """Return all samples of n examples, their probabilities and the averages learned from them."""
    steps = np.full(len(path) - 1, eta)
    samples = np.array(list(itertools.product(range(len(problem.points)), repeat=n)))
    chances = problem.probabilities[samples].prod(axis=1)
    averages = np.array(
        [average_of(run_path(problem, sample, path, steps), steps) for sample in samples]
    )
    return samples, chances, averages


def gaps(problem, samples, averages):
    """Return F_S and F of every model."""
    empirical = [problem.empirical_risk(w, s) for w, s in zip(averages, samples, strict=True)]
    return np.array(empirical), np.array([problem.population_risk(w) for w in averages])


def replaced(samples, n_values, i):
    """Return, for each sample, the places of the samples with another value of example i."""
    base = n_values ** (samples.shape[1] - 1 - i)
    place = np.arange(len(samples)) - samples[:, i] * base
    return place[:, None] + base * np.arange(n_values)


def pair_losses(problem, w):
    """Return f(w; z, z') for all pairs of values that cost something."""
    first, second, differences = problem._ordered
    labels = problem.labels[first], problem.labels[second]
    return problem.loss.value.many(differences @ w, *labels, problem.loss.parameter)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("loss", [None, Logistic()])
def test_generalisation_with_confidence_over_all_data_sets(loss, seed):
    n, problem = 5, hinge_problem(loss=loss)
    path = np.random.default_rng(seed).integers(n, size=9)
    samples, chances, averages = models(problem, n, path, 0.05)
    empirical, population = gaps(problem, samples, averages)
    losses = np.array([pair_losses(problem, w) for w in averages])
    stability = max(
        np.abs(losses[replaced(samples, 4, i)] - losses[:, None]).max() for i in range(n)
    )
    assert chances.sum() == pytest.approx(1.0)
    assert chances @ (population - empirical) <= 2.0 * stability + 1e-12
    for p in (0.9, 0.7, 0.5, 0.3, 0.1):
        bound = generalization_gap_with_confidence(
            n, uniform_stability=stability, supremum=problem.constants.supremum,
            failure_probability=p,
        )  # fmt: skip
        assert chances[population - empirical > bound].sum() <= p


def test_the_two_forms_of_the_confidence_bound():
    """Bounded differences are smaller at first; moments have the better order."""
    given = {"supremum": 1.0, "failure_probability": 0.1}
    small = generalization_gap_with_confidence(1000, uniform_stability=1e-4, **given)
    doubt = np.log(10.0)
    assert small == pytest.approx(2e-4 + (1e-4 + 1e-3) * np.sqrt(2000 * doubt))
    n, half, q = 10**13, 5 * 10**12, doubt
    huge = generalization_gap_with_confidence(n, uniform_stability=1e-6, **given)
    rounds = 48 * np.sqrt(6) * q * np.ceil(np.log2(half))
    assert huge == pytest.approx(np.e * ((4 + rounds) * 1e-6 + 3 * np.sqrt(2 * q / half)))
    assert generalization_gap_with_confidence(10, uniform_stability=1.0, **given) == 1.0


def test_excess_with_confidence_is_rarely_exceeded():
    """40 runs: the bound may fail in a share p, and fails in none; a path's own one is smaller."""
    problem, n, n_steps, eta, p = hinge_problem(), 60, 400, 0.01, 0.1
    rng = np.random.default_rng(0)
    constants = problem.constants
    given = {
        "lipschitz": constants.lipschitz, "distance": problem.domain.radius,
        "supremum": constants.supremum, "step_size": eta, "failure_probability": p,
    }  # fmt: skip
    bound = excess_with_confidence(n, n_steps, **given)
    above = 0
    for run in range(40):
        sample, path = problem.draw(n, rng), rng.integers(n, size=n_steps + 1)
        steps = np.full(n_steps, eta)
        average = average_of(run_path(problem, sample, path, steps), steps)
        moved = realized_stability(path, steps, n=n, lipschitz=constants.lipschitz).max()
        own = excess_with_confidence(n, n_steps, stability=moved, **given)
        above += problem.excess_risk(average) > min(bound, own)
        if run == 0:
            assert own <= bound
    assert above == 0
    # One pass over fresh examples has no generalisation term, and the smaller bound.
    once = {**given, "n_steps": 10**6, "step_size": 1e-3}
    assert convex_gap_with_confidence(**once) < excess_with_confidence(10**6, **once)
    with pytest.raises(ValueError, match="not both"):
        excess_with_confidence(n, n_steps, stability=1.0, gradient_change=1.0, **given)
    with pytest.raises(ValueError, match="at most 2 / smoothness"):
        excess_with_confidence(n, n_steps, smoothness=1e6, **given)


def smooth_problems():
    return {
        "logistic": hinge_problem(loss=Logistic()),
        "separable": hinge_problem(flip=0.01, loss=SquaredHinge()),
        "square": square_problem(1),
    }


@pytest.mark.parametrize("kind", smooth_problems())
def test_low_noise_over_all_streams(kind):
    """Algorithm 2 on all streams of 5 examples: the expected risk is an exact sum."""
    problem, n = smooth_problems()[kind], 5
    L, least = problem.constants.smoothness, problem.population_risk(problem.minimizer)
    distance = float(np.linalg.norm(problem.minimizer))
    for share in (0.05, 0.3, 0.6):
        eta = share / L
        _, chances, averages = models(problem, n, np.arange(n), eta)
        risks = np.array([problem.population_risk(w) for w in averages])
        bound = excess_low_noise(
            n - 1, smoothness=L, distance=distance, least_risk=least, step_size=eta
        )
        assert chances @ risks - least <= bound


def test_without_noise_the_rate_is_one_over_the_number_of_steps():
    given = {"smoothness": 2.0, "distance": 1.5, "least_risk": 0.0}
    bounds = []
    for n_steps in (100, 1000, 10_000):
        eta = step_size_low_noise(n_steps, **given)
        assert eta == pytest.approx(1 / 6, rel=1e-4)
        bounds.append(excess_low_noise(n_steps, step_size=eta, **given))
        for factor in (0.9, 1.1):
            assert bounds[-1] <= excess_low_noise(n_steps, step_size=factor * eta, **given)
    assert bounds[0] / bounds[2] == pytest.approx(100.0)
    noisy = {**given, "least_risk": 0.3}
    rate = [
        excess_low_noise(t, step_size=step_size_low_noise(t, **noisy), **noisy)
        for t in (10**5, 10**7)
    ]
    assert rate[0] / rate[1] == pytest.approx(10.0, rel=0.1)
    with pytest.raises(ValueError, match="below 1 / smoothness"):
        excess_low_noise(10, step_size=0.5, **given)
    with pytest.raises(ValueError, match="least_risk"):
        excess_low_noise(10, step_size=0.1, **{**given, "least_risk": -1.0})


@pytest.mark.parametrize("kind", smooth_problems())
@pytest.mark.parametrize("path", [[0, 1, 2, 3], [0, 1, 0, 2, 3, 1, 0]])
def test_on_average_stability_over_all_data_sets(kind, path):
    """Both sides of section 15 by exact sums: the stability, and the gap that it bounds."""
    problem, n, path = smooth_problems()[kind], 4, np.array(path)
    L, least = problem.constants.smoothness, problem.population_risk(problem.minimizer)
    eta, n_steps = 0.3 / L, len(path) - 1
    samples, chances, averages = models(problem, n, path, eta)
    stability = 0.0
    for i in range(n):
        others = averages[replaced(samples, len(problem.points), i)]
        squares = ((others - averages[:, None]) ** 2).sum(axis=2)
        stability += float(chances @ squares @ problem.probabilities) / n
    touches = [int(((path[1:] == i) | (path[:-1] == i)).sum()) for i in range(n)]
    bound = on_average_stability(
        n, n_steps, smoothness=L, distance=float(np.linalg.norm(problem.minimizer)),
        least_risk=least, step_size=eta, most_touches=max(touches),
    )  # fmt: skip
    assert 0.0 < stability <= bound
    empirical, population = gaps(problem, samples, averages)
    gap = chances @ (population - empirical)
    assert gap <= on_average_gap(stability, smoothness=L, empirical_risk=chances @ empirical)
    assert on_average_gap(0.0, smoothness=L, empirical_risk=1.0) == 0.0


def chain(problem, stay):
    """Return the matrix of a chain that stays where it is, or draws from the stationary law."""
    m = len(problem.points)
    return stay * np.eye(m) + (1.0 - stay) * np.tile(problem.probabilities, (m, 1))


@pytest.mark.parametrize(("stay", "gap"), [(0.5, 1), (0.5, 3), (0.9, 8), (0.0, 1)])
def test_every_kth_example_of_a_chain_is_nearly_independent(stay, gap):
    """All paths of 5 kept examples: their law, and the expected excess risk, are exact sums."""
    problem, kept = hinge_problem(), 5
    matrix = np.linalg.matrix_power(chain(problem, stay), gap)
    tau = stay**gap
    distance = 0.5 * np.abs(matrix - problem.probabilities).sum(axis=1).max()
    assert distance <= tau + 1e-12
    constants, radius = problem.constants, problem.domain.radius
    given = {"lipschitz": constants.lipschitz, "distance": radius, "supremum": constants.supremum}
    from pairlearn.theory import step_size_online

    eta = step_size_online(kept - 1, lipschitz=constants.lipschitz, distance=radius)
    samples, independent, averages = models(problem, kept, np.arange(kept), eta)
    # The chain starts where its first kept example is the worst value, k steps before.
    worst = int(distance_from(matrix, problem).argmax())
    chances = matrix[worst, samples[:, 0]]
    for t in range(1, kept):
        chances = chances * matrix[samples[:, t - 1], samples[:, t]]
    assert chances.sum() == pytest.approx(1.0)
    assert 0.5 * np.abs(chances - independent).sum() <= kept * tau + 1e-12
    excess = np.array([problem.excess_risk(w) for w in averages])
    bound = excess_markov(gap * kept, gap, mixing=tau, **given)
    assert chances @ excess <= bound + 1e-12


def distance_from(matrix, problem):
    return np.abs(matrix - problem.probabilities).sum(axis=1)


def test_successive_examples_of_a_chain_have_another_risk():
    """A chain that stays 19 times of 20 hardly ever pairs opposite labels: its risk is near 0."""
    problem, stay = hinge_problem(), 0.95
    matrix = chain(problem, stay)
    losses = np.zeros_like(matrix)
    first, second, _ = problem._ordered
    losses[first, second] = pair_losses(problem, np.zeros(1))
    successive = float((problem.probabilities[:, None] * matrix * losses).sum())
    independent = problem.population_risk(np.zeros(1))
    assert successive == pytest.approx((1 - stay) * independent)
    assert abs(successive - independent) <= problem.constants.supremum * stay


def test_the_best_gap_grows_with_the_logarithm():
    given = {"lipschitz": 1.0, "distance": 1.0, "supremum": 1.0}
    gaps = [markov_gap(n, rate=0.5, **given) for n in (10**3, 10**4, 10**5, 10**6)]
    assert np.all(np.diff(gaps) > 0)
    assert np.ptp(np.diff(gaps)) <= 1
    n = 10**4
    best = min(range(1, 60), key=lambda k: excess_markov(n, k, mixing=0.5**k, **given))
    assert gaps[1] == best
    with pytest.raises(ValueError, match="take a smaller gap"):
        excess_markov(10, 6, mixing=0.1, **given)
    with pytest.raises(ValueError, match="mixing"):
        excess_markov(10, 2, mixing=1.5, **given)
