# SPDX-License-Identifier: BSD-3-Clause
"""Localized and private learning: schedules, invariants, and measured risk below the bounds."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from pairlearn.losses import Logistic
from pairlearn.reference import average_of, pair_gradient, pairwise_sgd
from pairlearn.theory import (
    LocalizedStage,
    PrivateProblem,
    fitted_slope,
    gaussian_privacy_loss,
    hinge_problem,
    localized_distance,
    localized_excess,
    localized_schedule,
    localized_stage_gap,
    private_excess,
    private_nonsmooth_excess,
    private_nonsmooth_schedule,
    private_schedule,
    stage_sizes,
)
from pairlearn.validation import AssumptionWarning


def run_stage(problem, sample, stage, centre, rng):
    """Run one stage of Algorithm 4 and return its path and its linear average."""
    X, y = problem.examples(sample)
    alpha = stage.strong_convexity
    etas = 2.0 / (alpha * (np.arange(1, stage.n_steps + 1) + 1.0))
    indices = rng.integers(len(y), size=stage.n_steps + 1)
    w, path = centre, [centre]
    for eta, now, before in zip(etas, indices[1:], indices[:-1], strict=True):
        gradient = pair_gradient(problem.loss, w, X[now], y[now], X[before], y[before])
        w = problem.domain.project(w - eta * (gradient + alpha * (w - centre)))
        path.append(w)
    return np.asarray(path), average_of(path, etas, "linear")


def test_a_stage_stays_near_its_centre_and_its_minimiser():
    """The invariant of the proof in every run, the distance in the root mean square of 40 runs."""
    problem = hinge_problem(1)
    rng = np.random.default_rng(0)
    lipschitz = problem.constants.lipschitz
    stage = LocalizedStage(n_examples=20, n_steps=60, locality=0.05)
    centre = np.array([0.1])
    sample = problem.draw(stage.n_examples, rng)
    grid = np.linspace(-1, 1, 8001)
    corners = np.array([-1.0, -0.5, 0.5, 1.0])  # the empirical hinge risk is linear in between
    values = np.interp(
        grid, corners, [problem.empirical_risk(np.array([c]), sample) for c in corners]
    )
    values += (grid - centre[0]) ** 2 / (stage.locality * stage.n_examples)
    minimiser = grid[np.argmin(values)]
    squares = []
    for _ in range(40):
        path, average = run_stage(problem, sample, stage, centre, rng)
        assert np.abs(path - centre).max() <= lipschitz / stage.strong_convexity * (1 + 1e-12)
        squares.append((average[0] - minimiser) ** 2)
    assert math.sqrt(np.mean(squares)) <= localized_distance(stage, lipschitz=lipschitz)


def test_localized_excess_stays_below_the_bound():
    """Mean of 15 runs for each size; a non-smooth loss with one pass over the data."""
    problem = hinge_problem(1)
    rng = np.random.default_rng(0)
    lipschitz, diameter = problem.constants.lipschitz, problem.domain.diameter
    for n in (64, 256):
        found = []
        for _ in range(15):
            sample, w = problem.draw(n, rng), np.zeros(1)
            start = 0
            for stage in localized_schedule(n, lipschitz=lipschitz, diameter=diameter):
                part = sample[start : start + stage.n_examples]
                start += stage.n_examples
                w = run_stage(problem, part, stage, w, rng)[1]
            assert start == n
            found.append(problem.excess_risk(w))
        assert np.mean(found) <= localized_excess(n, lipschitz=lipschitz, diameter=diameter)


def test_localized_bound_has_the_rate_of_theorem_11():
    sizes = [10**3, 10**5, 10**7]
    values = [localized_excess(n, lipschitz=1.0, diameter=1.0) for n in sizes]
    assert fitted_slope(sizes, values) == pytest.approx(-0.5, abs=0.02)
    more = [localized_excess(10**4, lipschitz=1.0, diameter=1.0, n_passes=c) for c in (1, 4, 16)]
    assert more == sorted(more, reverse=True)
    stage = LocalizedStage(10, 10, 0.1)
    paper = localized_stage_gap(stage, lipschitz=1.0, distance=1.0, constants="paper")
    assert localized_stage_gap(stage, lipschitz=1.0, distance=1.0) == pytest.approx(paper + 0.2)


@given(st.integers(4, 10**6))
def test_stages_use_every_example_once(n):
    sizes = stage_sizes(n)
    assert sum(sizes) == n
    assert min(sizes) >= 2
    assert list(sizes) == sorted(sizes, reverse=True)
    assert len(stage_sizes(n, constants="paper")) == math.ceil(math.log2(n))


def problem_of(n, **changes):
    options = {
        "n_features": 5,
        "lipschitz": 1.0,
        "diameter": 1.0,
        "epsilon": 1.0,
        "delta": 1e-5,
        "smoothness": 1.0,
    }
    return PrivateProblem(n, **(options | changes))


@given(st.integers(8, 5000), st.floats(0.1, 5.0), st.sampled_from([1e-6, 1e-3]), st.floats(0.5, 50))
def test_corrected_stages_are_private_and_steps_allowed(n, epsilon, delta, smoothness):
    """Failure of the sensitivity plus the loss of the noise is at most delta, stage by stage."""
    problem = problem_of(n, epsilon=epsilon, delta=delta, smoothness=smoothness)
    for stage in private_schedule(problem):
        assert stage.step_size <= 2.0 / smoothness * (1 + 1e-12)
        draws = stage.sensitivity / (4.0 * problem.lipschitz * stage.step_size)
        failure = binom.sf(round(draws), stage.n_steps + 1, 1.0 / stage.n_examples)
        loss = gaussian_privacy_loss(stage.noise_scale / stage.sensitivity, epsilon=epsilon)
        assert failure + loss <= delta * (1 + 1e-9)
    for stage in private_nonsmooth_schedule(problem):
        loss = gaussian_privacy_loss(stage.noise_scale / stage.sensitivity, epsilon=epsilon)
        assert loss <= delta / 2 * (1 + 1e-9)
        # Theorem 7b with 2 G for G, B <= 4 G^2 / alpha and failure delta/4 reaches the target.
        alpha = stage.stage.strong_convexity
        reached = (48.0 + 128.0 * math.log(8.0 / delta)) / (alpha * (stage.stage.n_steps + 1.0))
        assert reached <= stage.target_gap


def test_recommended_scales_are_best():
    problem = problem_of(2000)
    stages = private_schedule(problem)
    best = stages[0].step_size * 4
    value = private_excess(problem)
    assert value == pytest.approx(private_excess(problem, step_size=best))
    assert value <= min(private_excess(problem, step_size=f * best) for f in (0.5, 0.95, 1.05, 2))
    locality = private_nonsmooth_schedule(problem)[0].stage.locality * 4
    value = private_nonsmooth_excess(problem)
    assert value == pytest.approx(private_nonsmooth_excess(problem, locality=locality))
    assert value <= min(
        private_nonsmooth_excess(problem, locality=f * locality) for f in (0.5, 0.95, 1.05, 2)
    )


def test_rates_of_the_private_bounds():
    """Noise rules for few examples (slope -1), the statistical term for many (slope -1/2)."""
    for bound in (private_excess, private_nonsmooth_excess):
        many = [bound(problem_of(n, epsilon=100.0)) for n in (10**7, 10**9)]
        assert fitted_slope([10**7, 10**9], many) == pytest.approx(-0.5, abs=0.03)
        few = [bound(problem_of(n, epsilon=1e-4)) for n in (10**3, 10**4)]
        assert fitted_slope([10**3, 10**4], few) < -0.8
        base = problem_of(10**5)
        assert bound(problem_of(10**5, epsilon=0.5)) > bound(base)
        assert bound(problem_of(10**5, n_features=50)) > bound(base)
        assert bound(problem_of(10**5, delta=1e-7)) > bound(base)


def test_algorithm_3_stays_below_its_bound():
    """A large epsilon, so that the bound says something; mean of 5 runs."""
    data = hinge_problem(1, loss=Logistic())
    lipschitz, smoothness, _ = data.constants
    problem = PrivateProblem(
        400,
        1,
        lipschitz=lipschitz,
        diameter=data.domain.diameter,
        epsilon=50.0,
        delta=0.01,
        smoothness=smoothness,
    )
    rng = np.random.default_rng(0)
    found = []
    for _ in range(5):
        sample, w, start = data.draw(problem.n, rng), np.zeros(1), 0
        for stage in private_schedule(problem):
            X, y = data.examples(sample[start : start + stage.n_examples])
            start += stage.n_examples
            path = rng.integers(len(y), size=stage.n_steps + 1).tolist()
            etas = np.full(stage.n_steps, stage.step_size)
            iterates = pairwise_sgd(
                data.loss,
                X,
                y,
                partners=[(a, [b]) for a, b in zip(path[1:], path[:-1], strict=True)],
                step_sizes=etas,
                project=data.domain.project,
                w_start=w,
            )
            noise = stage.noise_scale * rng.normal(size=1)
            w = data.domain.project(average_of(iterates, etas) + noise)
        found.append(data.excess_risk(w))
    assert np.mean(found) <= private_excess(problem)


def test_the_missing_root_of_two_in_algorithm_5():
    """The printed noise of a stage does not reach delta, though its lemma would."""
    delta, epsilon = 1e-5, 1.0
    problem = problem_of(1024, epsilon=epsilon, delta=delta)
    printed = private_nonsmooth_schedule(problem, constants="paper")[0]
    multiplier = printed.noise_scale / printed.sensitivity
    assert gaussian_privacy_loss(multiplier, epsilon=epsilon) > delta
    corrected = private_nonsmooth_schedule(problem)[0]
    multiplier = corrected.noise_scale / corrected.sensitivity
    assert gaussian_privacy_loss(multiplier, epsilon=epsilon) <= delta / 2 * (1 + 1e-9)


def test_the_paper_schedules():
    problem = problem_of(256, delta=1 / 256, smoothness=0.01)
    with pytest.warns(AssumptionWarning, match="fewer than two examples"):
        stages = private_schedule(problem, constants="paper")
    assert [stage.n_examples for stage in stages] == [128, 64, 32, 16, 8, 4, 2, 1]
    log_term = math.log(4 * 256)
    first = stages[0]
    assert first.noise_scale == pytest.approx(
        12 * first.step_size * log_term * math.sqrt(2 * math.log(2.5 * 256))
    )
    assert first.n_steps == math.ceil(128 * log_term)
    assert first.noise_scale / first.step_size == pytest.approx(299.0, rel=2e-3)
    ours = private_schedule(problem)[0]
    assert ours.noise_scale / ours.step_size < first.noise_scale / first.step_size
    with pytest.warns(AssumptionWarning, match="fewer than two examples"):
        localized_schedule(256, lipschitz=1.0, diameter=1.0, constants="paper")
    assert private_excess(problem, constants="paper") > 0
    with pytest.warns(AssumptionWarning, match="Theorem 10 assumes"):
        private_excess(problem_of(256, smoothness=1e4), step_size=1.0, constants="paper")


def test_assumptions_are_checked():
    with pytest.raises(ValueError, match="needs a finite smoothness"):
        private_schedule(problem_of(100, smoothness=math.inf))
    with pytest.raises(ValueError, match="at most 2 / smoothness"):
        private_schedule(problem_of(100, smoothness=10.0), step_size=1.0)
    with pytest.raises(ValueError, match="sets the locality itself"):
        private_nonsmooth_excess(problem_of(100), locality=1.0, constants="paper")
    with pytest.raises(ValueError, match="delta must lie strictly"):
        problem_of(100, delta=0.0)
    with pytest.raises(ValueError, match="n must be at least 4"):
        problem_of(3)
