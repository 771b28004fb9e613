# SPDX-License-Identifier: BSD-3-Clause
"""Stability: measured distances stay below the bounds, and grow as the theory says."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pairlearn.losses import Exponential, Hinge, Logistic, LogLink, SmoothedHinge, Square
from pairlearn.problem import Problem
from pairlearn.reference import average_of, pair_gradient
from pairlearn.scores import LinearScore
from pairlearn.solvers.descent.localized import LocalizedStage
from pairlearn.theory import (
    auc_gradient_change,
    binomial_upper,
    fitted_slope,
    generalization_gap,
    hinge_problem,
    localized_distance,
    localized_excess,
    localized_stage_gap,
    measure_stability,
    realized_stability,
    run_path,
    square_problem,
    stability_nonsmooth,
    stability_smooth,
)
from pairlearn.theory.conventions import (
    iterate_weights,
    tail_mass,
    total_tail,
    touch_probability,
)
from pairlearn.validation import AssumptionWarning

PROBLEMS = {
    "hinge": hinge_problem(2),
    "hinge in one dimension": hinge_problem(1, flip=0.1),
    "logistic": hinge_problem(2, loss=Logistic()),
    "smoothed hinge": hinge_problem(3, loss=SmoothedHinge()),
    "square": square_problem(2),
}
RULES = ("step_size", "linear", "uniform", "last")


@pytest.mark.parametrize("averaging", ["last", "step_size"])
@pytest.mark.parametrize("step_size", [0.01, 0.5])
@pytest.mark.parametrize("name", PROBLEMS)
def test_every_run_stays_below_the_bound_of_its_path(name, step_size, averaging):
    """A sure bound: no run may exceed it, whatever the seed."""
    measured = measure_stability(
        PROBLEMS[name], 12, n_steps=150, step_size=step_size, averaging=averaging, n_runs=15, rng=3
    )
    assert np.all(measured.distances <= measured.realized * (1 + 1e-12) + 1e-14)
    # The expectation of the realised bound is the expected one; the mean of 15 runs of a
    # smaller quantity stays below with a wide margin.
    assert np.all(measured.mean <= measured.expected)
    assert np.all(measured.expected <= measured.paper * (1 + 1e-12))


@pytest.mark.parametrize("averaging", RULES)
@pytest.mark.parametrize("smoothness", [1.0, math.inf])
@pytest.mark.thorough
def test_expected_bound_is_above_the_mean_of_the_realised_one(averaging, smoothness):
    """4000 paths; the margin is five standard errors, false alarm about 3e-7."""
    rng = np.random.default_rng(0)
    n, n_steps = 7, 30
    etas = 0.2 / np.sqrt(np.arange(1, n_steps + 1))
    draws = np.array(
        [
            realized_stability(
                rng.integers(n, size=n_steps + 1),
                etas,
                n=n,
                lipschitz=1.0,
                smoothness=smoothness,
                averaging=averaging,
            )[0]
            for _ in range(4000)
        ]
    )
    error = 5 * draws.std() / math.sqrt(len(draws))
    options = {"lipschitz": 1.0, "step_size": etas, "averaging": averaging}
    if math.isinf(smoothness):
        assert draws.mean() - error <= stability_nonsmooth(n, n_steps, **options)
    else:
        bound = stability_smooth(n, n_steps, smoothness=smoothness, **options)
        assert abs(draws.mean() - bound) <= error


@pytest.mark.thorough
def test_distance_grows_linearly_with_steps_and_falls_with_examples():
    """Slopes 1 in t and -1 in n, within 0.2, while the steps are too small for curvature.

    The standard error of the second slope is 0.04; small n adds a little to it.
    """
    problem = hinge_problem(1, flip=0.1, loss=Logistic())
    options = {"n_steps": 400, "step_size": 1e-4, "averaging": "last"}
    over_steps = measure_stability(problem, 10, n_runs=100, n_points=8, rng=0, **options)
    late = over_steps.steps >= 20
    assert abs(fitted_slope(over_steps.steps[late], over_steps.mean[late]) - 1.0) < 0.2
    sizes = [10, 20, 40]
    ends = [
        measure_stability(problem, n, n_runs=300, n_points=2, rng=0, **options).mean[-1]
        for n in sizes
    ]
    assert abs(fitted_slope(sizes, ends) + 1.0) < 0.2


def test_the_bound_of_a_path_is_attained():
    """Hinge in its linear part: each touch moves the model by exactly G eta."""
    problem = hinge_problem(1, flip=0.25, loss=Hinge(margin=100.0), radius=50.0)
    # A positive at +1 among negatives at -1, replaced by a negative at -1.
    positive = int(np.flatnonzero((problem.points[:, 0] > 0) & (problem.labels > 0))[0])
    negative = int(np.flatnonzero((problem.points[:, 0] < 0) & (problem.labels < 0))[0])
    sample = np.full(9, negative)
    sample[0] = positive
    neighbour = np.full(9, negative)
    # Nothing else ever moves the model, and no step has the example twice.
    indices = np.array([0, 1, 2, 0, 3, 4, 5, 0, 6])
    etas = np.full(len(indices) - 1, 0.01)
    ends = [run_path(problem, data, indices, etas)[-1] for data in (sample, neighbour)]
    change = auc_gradient_change(Problem(LinearScore(), problem.loss), norm_bound=1.0)
    bound = realized_stability(
        indices,
        etas,
        n=9,
        lipschitz=problem.constants.lipschitz,
        smoothness=1e-9,  # a linear loss
        averaging="last",
        gradient_change=change,
    )[0]
    assert np.linalg.norm(ends[0] - ends[1]) == pytest.approx(bound, rel=1e-12)


@given(
    st.sampled_from([Hinge(), Logistic(), LogLink(), SmoothedHinge(), Exponential()]),
    st.integers(0, 2**32 - 1),
    st.booleans(),
)
def test_replacing_an_example_changes_a_pair_gradient_by_at_most_g(loss, seed, swap):
    rng = np.random.default_rng(seed)
    radius = 1.5

    def point():
        x = rng.normal(size=2)
        return x / np.linalg.norm(x) * rng.choice([1.0, rng.uniform()])

    def model():
        w = rng.normal(size=2)
        return w / np.linalg.norm(w) * radius * rng.uniform()

    partner, y_partner = point(), rng.choice([-1.0, 1.0])
    gradients = []
    for _ in range(2):
        pair = [(point(), rng.choice([-1.0, 1.0])), (partner, y_partner)]
        (x, y), (u, v) = pair[::-1] if swap else pair
        gradients.append(pair_gradient(loss, model(), x, y, u, v))
    bound = auc_gradient_change(Problem(LinearScore(), loss), norm_bound=1.0, radius=radius)
    assert np.linalg.norm(gradients[0] - gradients[1]) <= bound * (1 + 1e-12)


def test_the_square_loss_needs_twice_the_lipschitz_constant():
    """Its derivative changes sign, so the argument for G fails, and so does the conclusion."""
    loss = Square()
    problem = Problem(LinearScore(), loss)
    radius = 5.0
    lipschitz = problem.constants(norm_bound=1.0, radius=radius).lipschitz
    w, u = np.array([radius]), np.array([-1.0])
    up = pair_gradient(loss, w, np.array([1.0]), 1.0, u, -1.0)
    down = pair_gradient(loss, -w, np.array([1.0]), 1.0, u, -1.0)
    assert np.linalg.norm(up - down) > 1.5 * lipschitz
    assert auc_gradient_change(problem, norm_bound=1.0, radius=radius) == 2 * lipschitz
    assert (
        auc_gradient_change(problem, norm_bound=1.0, radius=0.5)
        == problem.constants(norm_bound=1.0, radius=0.5).lipschitz
    )


@given(st.integers(2, 10_000), st.integers(1, 10**7), st.floats(1e-6, 10))
def test_corrected_constants_are_never_larger_and_bounds_are_monotone(n, n_steps, step_size):
    options = {"lipschitz": 1.0, "step_size": step_size}
    for averaging in ("last", "step_size"):
        corrected = stability_nonsmooth(n, n_steps, averaging=averaging, **options)
        assert corrected <= stability_nonsmooth(n, n_steps, constants="paper", **options)
        assert corrected <= stability_nonsmooth(n, n_steps + 1, averaging=averaging, **options)
        smooth = stability_smooth(
            n, n_steps, smoothness=2 / step_size, averaging=averaging, **options
        )
        assert smooth <= corrected * (1 + 1e-12)
        assert smooth >= stability_smooth(
            n + 1, n_steps, smoothness=2 / step_size, averaging=averaging, **options
        )


@given(st.integers(1, 60), st.sampled_from(RULES), st.floats(0.01, 2.0))
def test_constant_steps_are_a_special_case(n_steps, averaging, step_size):
    path = np.full(n_steps, step_size)
    closed = total_tail(step_size, n_steps, averaging)
    assert closed == pytest.approx(total_tail(path, n_steps, averaging), abs=1e-12)
    scalar = stability_nonsmooth(
        10, n_steps, lipschitz=1.0, step_size=step_size, averaging=averaging
    )
    vector = stability_nonsmooth(10, n_steps, lipschitz=1.0, step_size=path, averaging=averaging)
    assert vector <= scalar * (1 + 1e-12)


@given(st.integers(1, 12), st.sampled_from(RULES), st.integers(0, 2**32 - 1))
def test_weights_are_those_of_the_reference_average(n_steps, averaging, seed):
    rng = np.random.default_rng(seed)
    iterates, etas = list(rng.normal(size=(n_steps + 1, 2))), rng.uniform(0.1, 1, size=n_steps)
    weights = iterate_weights(etas, averaging)
    assert weights.sum() == pytest.approx(1.0)
    assert weights @ np.asarray(iterates) == pytest.approx(average_of(iterates, etas, averaging))
    assert tail_mass(etas, averaging)[0] == pytest.approx(1.0 - weights[0])


def test_two_examples_are_enough():
    """A step has two indices, and misses one of two examples with probability 1/4."""
    assert touch_probability(2) == 0.75
    for smoothness in (1.0, math.inf):
        constants = {"lipschitz": 1.0, "smoothness": smoothness}
        path, steps = [0, 1, 1, 0, 1], [0.5, 0.25, 1.0, 0.125]
        two, four = (realized_stability(path, steps, n=n, **constants) for n in (2, 4))
        assert two.tolist() == four[:2].tolist()
        assert not four[2:].any()
    for call in (touch_probability, lambda n: realized_stability([0, 0], [1.0], n=n, lipschitz=1)):
        with pytest.raises(ValueError, match="n must be"):
            call(1)


def test_assumptions_are_checked():
    options = {"lipschitz": 1.0, "smoothness": 4.0, "step_size": 0.6}
    with pytest.raises(ValueError, match="at most 2 / smoothness"):
        stability_smooth(10, 10, **options)
    with pytest.warns(AssumptionWarning, match="at most 2 / smoothness"):
        stability_smooth(10, 10, constants="paper", **options)
    with pytest.raises(ValueError, match="at most 2 / smoothness"):
        stability_smooth(10, 10, lipschitz=1.0, smoothness=math.inf, step_size=1e-9)
    with pytest.raises(ValueError, match="'paper' or 'corrected'"):
        stability_smooth(10, 10, constants="tight", **options)
    with pytest.raises(ValueError, match="one number more"):
        realized_stability([0, 1], [0.1, 0.1], n=2, lipschitz=1.0)
    with pytest.raises(ValueError, match="between 0 and n - 1"):
        realized_stability([0, 2], [0.1], n=2, lipschitz=1.0)
    assert generalization_gap(0.0, lipschitz=1.0) == 0.0


@pytest.mark.parametrize("less", [-1.0, math.nan])
def test_no_bound_shrinks_by_less_than_nothing(less):
    stage = LocalizedStage(100, 100, 0.01)
    with pytest.raises(ValueError, match="stability must be at least 0"):
        generalization_gap(less, lipschitz=1.0)
    with pytest.raises(ValueError, match="self_pair_lipschitz must be at least 0"):
        localized_distance(stage, lipschitz=1.0, self_pair_lipschitz=less)
    with pytest.raises(ValueError, match="self_pair_lipschitz must be at least 0"):
        localized_excess(1000, lipschitz=1.0, diameter=1.0, self_pair_lipschitz=less)
    with pytest.raises(ValueError, match="distance must be at least 0"):
        localized_stage_gap(stage, lipschitz=1.0, distance=less)
    with pytest.raises(ValueError, match="probability must lie between 0 and 1"):
        binomial_upper(100, less, failure_probability=0.05)


def test_the_bounds_take_the_ends_of_their_ranges():
    assert generalization_gap(0.0, lipschitz=1.0) == 0.0
    assert binomial_upper(100, 0.0, failure_probability=0.05) == 0
    assert binomial_upper(100, 1.0, failure_probability=0.05) == 100
