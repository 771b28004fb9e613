# SPDX-License-Identifier: BSD-3-Clause
"""Non-convex bounds: gradient norms, the PL condition, and stability without convexity."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pairlearn.domains import Ball
from pairlearn.losses import LogLink, Square
from pairlearn.reference import pair_gradient
from pairlearn.theory import (
    fitted_slope,
    gradient_norm_nonconvex,
    gradient_norm_step_size,
    pl_excess,
    pl_gap,
    pl_horizon,
    pl_stability,
    run_path,
    square_problem,
)
from pairlearn.theory.finite_problems import FiniteProblem
from pairlearn.validation import AssumptionWarning


def loglink_problem() -> FiniteProblem:
    base = square_problem(2)
    return FiniteProblem(
        loss=LogLink(),
        points=base.points,
        labels=base.labels,
        probabilities=base.probabilities,
        domain=Ball(1e6),  # the statements are for steps without projection
        minimizer=base.minimizer,
    )


def moment(problem, w, sample):
    """Return sqrt(E |grad f(w; z_i, z_i')|^2) over independent indices."""
    X, y = problem.examples(sample)
    total = 0.0
    for i in range(len(y)):
        for j in range(len(y)):
            gradient = pair_gradient(problem.loss, w, X[i], y[i], X[j], y[j])
            total += float(gradient @ gradient)
    return math.sqrt(total / len(y) ** 2)


@pytest.mark.parametrize("step_size", [0.05, 0.5, 3.0])
def test_gradient_norms_stay_below_the_bound(step_size):
    problem = loglink_problem()
    rng = np.random.default_rng(0)
    sample = problem.draw(12, rng)
    lipschitz, smoothness, _ = problem.constants
    n_steps, means = 150, []
    for _ in range(10):
        indices = rng.integers(12, size=n_steps + 1)
        path = run_path(problem, sample, indices, np.full(n_steps, step_size))
        delayed = [path[0], *path[: n_steps - 1]]
        norms = [float(np.sum(problem.empirical_gradient(w, sample) ** 2)) for w in delayed]
        means.append(np.mean(norms))
    bound = gradient_norm_nonconvex(
        n_steps,
        initial_risk=problem.empirical_risk(np.zeros(2), sample),
        smoothness=smoothness,
        gradient_moment=lipschitz,
        step_size=step_size,
        n=12,
    )
    assert np.mean(means) <= bound


def test_the_trivial_bound_makes_the_step_condition_of_theorem_8_superfluous():
    """At 1/(6 L) the noise term reaches alpha_0^2, which bounds every gradient norm anyway."""
    smoothness = 3.0
    limit = 1.0 / (6.0 * smoothness)
    for step_size in (limit, 2 * limit, 100 * limit):
        value = gradient_norm_nonconvex(
            10**9,
            initial_risk=1.0,
            smoothness=smoothness,
            gradient_moment=0.5,
            step_size=step_size,
        )
        assert value == pytest.approx(0.25)
    assert limit < 1.0 / (2.0 * smoothness)


@given(st.integers(10, 10**8), st.floats(0.1, 10), st.floats(0.1, 10), st.floats(0.1, 10))
def test_the_recommended_step_is_best(n_steps, risk, smoothness, moment_bound):
    options = {"initial_risk": risk, "smoothness": smoothness, "gradient_moment": moment_bound}
    best = gradient_norm_step_size(n_steps, **options)
    value = gradient_norm_nonconvex(n_steps, step_size=best, **options)
    for factor in (0.5, 0.9, 1.1, 2.0):
        assert value <= gradient_norm_nonconvex(n_steps, step_size=factor * best, **options) * (
            1 + 1e-9
        )
    horizons = [10**8, 10**10, 10**12]
    values = [
        gradient_norm_nonconvex(t, step_size=gradient_norm_step_size(t, **options), **options)
        for t in horizons
    ]
    if value < moment_bound**2:
        assert fitted_slope(horizons, values) == pytest.approx(-0.5, abs=1e-6)


@pytest.mark.thorough
def test_pl_gaps_stay_below_the_bound_and_fall_as_one_over_t():
    """The square loss satisfies PL; with the offset the steps are short enough from the start.

    Mean of 40 runs; slope -1 within 0.3.
    """
    base = square_problem(2, shift=0.2, spread=0.5)
    problem = FiniteProblem(
        loss=Square(),
        points=base.points,
        labels=base.labels,
        probabilities=base.probabilities,
        domain=Ball(1e6),
        minimizer=base.minimizer,
    )
    rng = np.random.default_rng(0)
    n = 20
    # Each value of an example about equally often, so that the empirical risk is well curved.
    sample = np.resize(np.arange(len(problem.points)), n)
    hessian = np.array(
        [
            problem.empirical_gradient(unit, sample)
            - problem.empirical_gradient(np.zeros(2), sample)
            for unit in np.eye(2)
        ]
    )
    pl_constant = float(np.linalg.eigvalsh(hessian)[0])
    best = -np.linalg.solve(hessian, problem.empirical_gradient(np.zeros(2), sample))
    lowest = problem.empirical_risk(best, sample)
    smoothness = 8.0 * float(np.linalg.norm(problem.points, axis=1).max()) ** 2
    seen = pl_constant * (1 - 1 / n)
    offset = 4.0 * smoothness / seen
    horizons, means, largest = [100, 400, 1600], [], 0.0
    for n_steps in horizons:
        etas = 2.0 / (seen * (np.arange(1, n_steps + 1) + offset))
        found = []
        for _ in range(40):
            path = run_path(problem, sample, rng.integers(n, size=n_steps + 1), etas)
            found.append(problem.empirical_risk(path[-1], sample) - lowest)
            for w in path[:: n_steps // 5]:
                largest = max(largest, moment(problem, w, sample))
        means.append(np.mean(found))
    for n_steps, mean in zip(horizons, means, strict=True):
        assert mean <= pl_gap(
            n_steps,
            smoothness=smoothness,
            pl_constant=pl_constant,
            gradient_moment=largest,
            offset=offset,
            n=n,
        )
    assert abs(fitted_slope(horizons[1:], means[1:]) + 1.0) < 0.3


def test_losses_of_neighbours_stay_below_the_pl_stability():
    problem = loglink_problem()
    lipschitz, smoothness, supremum = problem.constants
    mu, n, n_steps = smoothness, 60, 40
    etas = 2.0 / (mu * (np.arange(1, n_steps + 1) + 1.0))
    rng = np.random.default_rng(0)
    differences = []
    for _ in range(40):
        sample = problem.draw(n, rng)
        neighbour = sample.copy()
        neighbour[0] = (neighbour[0] + rng.integers(1, len(problem.points))) % len(problem.points)
        indices = rng.integers(n, size=n_steps + 1)
        ends = [run_path(problem, data, indices, etas)[-1] for data in (sample, neighbour)]
        scores = problem._ordered[2] @ np.array(ends).T
        values = np.vectorize(lambda m: LogLink().value(m, 1.0, -1.0))(scores)
        differences.append(np.abs(values[:, 0] - values[:, 1]).max())
    bound = pl_stability(
        n,
        n_steps,
        lipschitz=lipschitz,
        smoothness=smoothness,
        pl_constant=mu,
        supremum=supremum,
    )
    assert np.mean(differences) <= bound < supremum


def test_lemma_3_forgets_the_first_draw():
    """With t_0 = 1 the models differ with probability 2/n - 1/n^2 when a touch matters, not 1/n.

    Exact count over all pairs (i_1, i_0) of a data set of opposite labels.
    """
    problem = loglink_problem()
    positive, negative = np.flatnonzero(problem.labels > 0), np.flatnonzero(problem.labels < 0)
    n = 6
    sample = np.concatenate([[positive[0]], np.full(n - 1, negative[0])])
    neighbour = sample.copy()
    neighbour[0] = positive[1]
    differ = 0
    for now in range(n):
        for before in range(n):
            ends = [
                run_path(problem, data, np.array([before, now]), np.array([0.1]))[-1]
                for data in (sample, neighbour)
            ]
            differ += not np.array_equal(*ends)
    probability = differ / n**2
    assert probability > 1 / n  # what the paper's lemma allows for t_0 = 1
    assert probability <= 2 / n  # (t_0 + 1) / n


@given(st.integers(3, 10**6), st.floats(0.05, 1.0), st.integers(10, 10**5))
def test_laws(n, ratio, n_steps):
    options = {"lipschitz": 1.0, "smoothness": 1.0, "pl_constant": ratio, "supremum": 1.0}
    best = pl_stability(n, n_steps, **options)
    for burn_in in (0, 1, n_steps // 2, n_steps):
        assert best <= pl_stability(n, n_steps, burn_in=burn_in, **options) * (1 + 1e-9)
    assert best <= 1.0
    assert pl_stability(n + 1, n_steps, **options) <= best
    assert pl_excess(n, n_steps, **options) >= 2 * best
    gap = {"smoothness": 1.0, "pl_constant": ratio, "lipschitz": 1.0}
    assert pl_gap(2 * n_steps, **gap) <= pl_gap(n_steps, **gap)
    assert pl_gap(n_steps, n=n, **gap) >= pl_gap(n_steps, **gap)
    assert pl_horizon(n, smoothness=1.0, pl_constant=ratio) >= 1


def test_the_stability_under_pl_has_the_rate_of_theorem_3():
    """With the recommended horizon the excess falls as n^-(2L+mu)/(4L+mu)."""
    sizes = [10**4, 10**6, 10**8]
    values = [
        pl_excess(
            n,
            pl_horizon(n, smoothness=1.0, pl_constant=1.0),
            lipschitz=1.0,
            smoothness=1.0,
            pl_constant=1.0,
            supremum=1.0,
        )
        for n in sizes
    ]
    assert fitted_slope(sizes, values) == pytest.approx(-3 / 5, abs=0.05)


def test_assumptions_are_checked():
    options = {"smoothness": 1.0, "pl_constant": 0.5, "gradient_moment": 1.0}
    with pytest.raises(ValueError, match="offset >= 4 L / mu - 1"):
        pl_gap(100, **options)
    assert pl_gap(100, offset=7.0, **options) > 0
    with pytest.warns(AssumptionWarning, match="exceeds for j < 7"):
        pl_gap(100, constants="paper", **options)
    with pytest.raises(ValueError, match="cannot exceed smoothness"):
        pl_gap(100, smoothness=1.0, pl_constant=2.0, lipschitz=1.0)
    with pytest.raises(ValueError, match="give lipschitz or gradient_moment"):
        pl_gap(100, smoothness=1.0, pl_constant=1.0)
    with pytest.raises(ValueError, match="offset must be at least 1"):
        pl_gap(100, smoothness=1.0, pl_constant=1.0, lipschitz=1.0, offset=0.5)
    with pytest.warns(AssumptionWarning, match="stated for step_size"):
        gradient_norm_nonconvex(
            10,
            initial_risk=1.0,
            smoothness=100.0,
            gradient_moment=1.0,
            step_size=0.06,
            constants="paper",
        )
