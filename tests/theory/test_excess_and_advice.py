# SPDX-License-Identifier: BSD-3-Clause
"""Excess risk: measurement below bound, rates, and what `advise` recommends."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pairlearn.averaging import DelayedByStepSize, DelayedLinear
from pairlearn.losses import Hinge, Logistic, LogLink, SmoothedHinge
from pairlearn.problem import Problem
from pairlearn.schedules import Constant, StronglyConvex
from pairlearn.scores import LinearScore
from pairlearn.theory import (
    Advice,
    advise,
    advise_auc,
    excess_nonsmooth,
    excess_online,
    excess_smooth,
    fitted_slope,
    hinge_problem,
    measure_excess,
    plot_excess,
    plot_stability,
    square_problem,
    step_size_nonsmooth,
    step_size_online,
    step_size_smooth,
)
from pairlearn.theory.finite_problems import FiniteProblem
from pairlearn.theory.measure import measure_stability


def test_online_excess_of_the_hinge_falls_as_one_over_root_n():
    """A sharp minimum: slope -1/2 within 0.12 (mean of 40 runs, standard error about 0.04)."""
    measured = measure_excess(hinge_problem(1), [50, 200, 800], n_runs=40, rng=0)
    assert np.all(measured.mean <= measured.bounds)
    assert np.all(measured.bounds <= measured.paper)
    assert abs(fitted_slope(measured.sizes, measured.mean) + 0.5) < 0.12
    assert fitted_slope(measured.sizes, measured.bounds) == pytest.approx(-0.5, abs=0.01)


@pytest.mark.parametrize(
    ("problem", "sizes", "setting"),
    [
        (square_problem(2), [40, 160, 640], "offline"),
        (square_problem(2), [40, 160, 640], "online"),
        (hinge_problem(2, loss=Logistic()), [40, 160, 640], "offline"),
        (hinge_problem(2, loss=SmoothedHinge()), [40, 160], "online"),
        (hinge_problem(2), [10, 20, 40], "offline"),
    ],
    ids=["square", "square online", "logistic", "smoothed hinge", "hinge"],
)
def test_excess_stays_below_the_bound(problem, sizes, setting):
    measured = measure_excess(problem, sizes, setting=setting, n_runs=12, rng=0)
    assert np.all(measured.excess >= -1e-12)  # the minimiser is one
    assert np.all(measured.mean <= measured.bounds)
    assert np.all(measured.excess <= measured.bounds)  # far below, in every single run
    assert np.all(np.diff(measured.mean) < 0)
    assert fitted_slope(sizes, measured.bounds) == pytest.approx(-0.5, abs=0.05)


@pytest.mark.parametrize(
    "problem",
    [
        square_problem(1),
        square_problem(4, shift=0.3),
        hinge_problem(1),
        hinge_problem(3, flip=0.1),
        hinge_problem(2, loss=Logistic()),
    ],
)
def test_the_known_minimiser_is_one(problem: FiniteProblem):
    rng = np.random.default_rng(0)
    lowest = problem.population_risk(problem.minimizer)
    for scale in (1e-3, 0.1, 1.0):
        for _ in range(40):
            w = problem.domain.project(
                problem.minimizer + scale * rng.normal(size=problem.n_features)
            )
            assert problem.population_risk(w) >= lowest - 1e-12


def test_closed_forms_of_the_risks():
    problem = square_problem(2, shift=0.5, spread=1.0)
    w = np.array([0.3, -0.2])
    expected = ((1 - 2 * w[0] * 0.5) ** 2 + 2 * float(w @ w) / 2) / 2
    assert problem.population_risk(w) == pytest.approx(expected)
    hinge = hinge_problem(1, flip=0.2)
    value = (0.8**2 * (1 - 2 * 0.3) + 2 * 0.2 * 0.8 + 0.2**2 * (1 + 2 * 0.3)) / 2
    assert hinge.population_risk(np.array([0.3])) == pytest.approx(value)


def test_empirical_risk_is_the_mean_over_ordered_pairs():
    problem = square_problem(2)
    sample = problem.draw(9, np.random.default_rng(0))
    X, y = problem.examples(sample)
    w = np.array([0.4, 0.1])
    total = sum(
        problem.loss.value(float(w @ (X[i] - X[j])), y[i], y[j], problem.loss.parameter)
        for i in range(9)
        for j in range(9)
        if y[i] != y[j]
    )
    assert problem.empirical_risk(w, sample) == pytest.approx(total / 72)
    step = 1e-6
    numeric = [
        (
            problem.empirical_risk(w + step * unit, sample)
            - problem.empirical_risk(w - step * unit, sample)
        )
        / (2 * step)
        for unit in np.eye(2)
    ]
    assert problem.empirical_gradient(w, sample) == pytest.approx(np.array(numeric), abs=1e-6)
    assert problem.population_gradient(problem.minimizer) == pytest.approx(np.zeros(2), abs=1e-12)


POSITIVE = st.floats(0.1, 10.0)


@given(st.integers(3, 10_000), st.integers(1, 10**6), POSITIVE, POSITIVE, POSITIVE)
def test_recommended_steps_are_best(n, n_steps, lipschitz, distance, smoothness):
    options = {"lipschitz": lipschitz, "distance": distance}
    for constants in ("paper", "corrected"):
        cases = [
            (
                lambda eta, c=constants: excess_nonsmooth(
                    n, n_steps, step_size=eta, constants=c, **options
                ),
                step_size_nonsmooth(n, n_steps, constants=constants, **options),
                math.inf,
            ),
            (
                lambda eta, c=constants: excess_online(
                    n_steps, step_size=eta, constants=c, **options
                ),
                step_size_online(n_steps, constants=constants, **options),
                math.inf,
            ),
            (
                lambda eta, c=constants: excess_smooth(
                    n, n_steps, smoothness=smoothness, step_size=eta, constants=c, **options
                ),
                step_size_smooth(n, n_steps, smoothness=smoothness, constants=constants, **options),
                2.0 / smoothness,
            ),
        ]
        for bound, best, limit in cases:
            assert best <= limit
            for factor in (0.5, 0.98, 1.02, 2.0):
                if factor * best <= limit:
                    assert bound(best) <= bound(factor * best) * (1 + 1e-9)


@given(st.integers(10, 5000), POSITIVE, POSITIVE, st.sampled_from([0.5, 5.0, math.inf]))
def test_advice_obeys_its_laws(n, lipschitz, diameter, smoothness):
    options = {"lipschitz": lipschitz, "diameter": diameter, "smoothness": smoothness}
    advice = advise(n, **options)
    assert isinstance(advice, Advice)
    assert advice.averaging == DelayedByStepSize()
    assert isinstance(advice.schedule, Constant)
    assert advice.n_steps == (n * n if math.isinf(smoothness) else n)
    assert advice.step_size == advice.schedule.step_size
    assert advise(2 * n, **options).bound < advice.bound
    assert advise(n, distance=diameter / 2, **options).bound < advice.bound
    assert advice.bound <= advise(n, constants="paper", **options).bound * (1 + 2 / n)
    scaled = advise(n, lipschitz=lipschitz, diameter=2 * diameter, smoothness=smoothness)
    assert scaled.bound >= 2 * advice.bound * (1 - 1e-9) or not math.isinf(smoothness)
    online = advise(n, setting="online", **options)
    assert online.bound < advice.bound  # one pass over fresh examples promises more
    assert online.bound <= math.sqrt(3.0 / (n - 1)) * lipschitz * diameter * (1 + 1e-12)


def test_values_of_the_notes():
    """Theorem 2 at T = n: sqrt(19) G D / sqrt(n) in the paper's constants, sqrt(11) corrected."""
    n = 10**6
    options = {"lipschitz": 1.0, "diameter": 1.0, "smoothness": 1.0}
    assert advise(n, constants="paper", **options).bound == pytest.approx(
        math.sqrt(19 / n), rel=1e-4
    )
    assert advise(n, **options).bound == pytest.approx(math.sqrt(11 / n), rel=1e-4)


def test_strongly_convex_advice_and_bad_input():
    options = {"lipschitz": 1.0, "diameter": 1.0}
    advice = advise(100, strong_convexity=0.5, setting="online", **options)
    assert advice.schedule == StronglyConvex.of(0.5)
    assert advice.averaging == DelayedLinear()
    assert advice.n_steps == 99
    with pytest.raises(ValueError, match="no excess-risk bound for strongly convex"):
        advise(100, strong_convexity=0.5, **options)
    with pytest.raises(ValueError, match="at most n - 1 = 99"):
        advise(100, setting="online", n_steps=200, **options)
    with pytest.raises(ValueError, match="'offline' or 'online'"):
        advise(100, setting="batch", **options)
    with pytest.raises(ValueError, match="at most the diameter"):
        advise(100, distance=2.0, **options)
    with pytest.raises(ValueError, match="diameter must be a positive number"):
        advise(100, lipschitz=1.0, diameter=math.inf)
    with pytest.raises(ValueError, match="radius must be at least"):
        square_problem(2, radius=0.1)
    with pytest.raises(ValueError, match="flip must be below 1/2"):
        hinge_problem(flip=0.6)


def test_pictures_show_measurement_and_bound():
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.switch_backend("Agg")
    stability = measure_stability(hinge_problem(2), 10, n_steps=60, step_size=0.05, n_runs=3, rng=0)
    excess = measure_excess(hinge_problem(1), [20, 40], n_runs=3, rng=0)
    for axes, measured in ((plot_stability(stability), stability), (plot_excess(excess), excess)):
        assert axes.get_xscale() == axes.get_yscale() == "log"
        labels = [text.get_text() for text in axes.get_legend().get_texts()]
        assert any("slope" in label and "measured" in label for label in labels)
        assert any("corrected bound" in label for label in labels)
        assert any("paper" in label for label in labels)
        drawn = [line for line in axes.get_lines() if "corrected" in line.get_label()]
        expected = measured.expected if measured is stability else measured.bounds
        assert drawn[0].get_ydata() == pytest.approx(expected[expected > 0])
        plt.close(axes.figure)


def test_advice_for_auc_takes_its_constants_from_the_problem():
    problem = Problem(LinearScore(), Logistic())
    advice = advise_auc(problem, 1000, norm_bound=1.0, radius=2.0)
    lipschitz, smoothness, _ = problem.constants(norm_bound=1.0, radius=2.0)
    plain = advise(1000, lipschitz=lipschitz, smoothness=smoothness, diameter=4.0, distance=2.0)
    assert advice.bound < plain.bound  # a replaced example changes the gradient by G, not 2 G
    assert advice.step_size > plain.step_size
    assert advise_auc(problem, 1000, norm_bound=1.0, radius=2.0, setting="online").n_steps == 999
    kink = advise_auc(Problem(LinearScore(), Hinge()), 50, norm_bound=1.0, radius=2.0)
    assert kink.theorem == "Theorem 1"
    with pytest.raises(ValueError, match="LogLink is not convex"):
        advise_auc(Problem(LinearScore(), LogLink()), 50, norm_bound=1.0, radius=2.0)
    with pytest.raises(ValueError, match="radius must be a positive number"):
        advise_auc(problem, 50, norm_bound=1.0, radius=math.inf)
