# SPDX-License-Identifier: BSD-3-Clause
"""Published bounds, with the paper's constants, beside a transcription."""

import math
import warnings

import numpy as np
import pytest
from scipy.optimize import brentq

from pairlearn.losses import Logistic
from pairlearn.problem import Problem
from pairlearn.scores import LinearScore
from pairlearn.theory import (
    PrivateProblem,
    pl_constant,
    private_excess,
    private_nonsmooth_schedule,
    private_schedule,
    stability_nonsmooth,
)
from pairlearn.theory.excess import excess_nonsmooth, excess_smooth
from pairlearn.theory.localized import LocalizedStage, localized_distance
from pairlearn.theory.nonconvex import pl_excess, pl_gap, pl_horizon, pl_stability
from pairlearn.theory.optimization import (
    convex_gap,
    convex_gap_with_confidence,
    strongly_convex_gap,
    strongly_convex_gap_with_confidence,
)
from pairlearn.theory.sensitivity import sensitivity_with_confidence
from pairlearn.validation import AssumptionWarning


def problem(n=300, smoothness=0.01, **changes):
    facts = {"lipschitz": 2.0, "diameter": 3.0, "epsilon": 0.7, "delta": 1e-3, **changes}
    return PrivateProblem(n, 5, smoothness=smoothness, **facts)


@pytest.mark.parametrize("n", [300, 10**10])
def test_theorem_10(n):
    # With few examples the noise sets the step, with many the optimisation.
    doubt = math.log(4 / 1e-3)
    by_noise = 0.7 / (12 * doubt * math.sqrt(2 * 5 * math.log(2.5 / 1e-3)))
    eta = 3.0 / 2.0 * min(doubt / math.sqrt(n), by_noise)
    assert (doubt / math.sqrt(n) < by_noise) == (n > 300)
    n_stages = math.ceil(math.log2(n))
    wanted = 2.0 * 3.0 / 4**n_stages
    for k in range(1, n_stages + 1):
        wanted += 2.0**-k * 8 * 3.0**2 / (eta * n) + 4.0**-k * 18 * doubt * 2.0**2 * eta
    assert private_excess(problem(n), constants="paper") == pytest.approx(wanted, rel=1e-12)
    assert private_excess(problem(n), constants="paper", step_size=eta) == pytest.approx(wanted)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AssumptionWarning)
        stages = private_schedule(problem(n), constants="paper")
    for k, stage in enumerate(stages, start=1):
        assert stage.step_size == pytest.approx(eta / 4**k)
        assert stage.n_steps == math.ceil(stage.n_examples * doubt)
        assert stage.sensitivity == pytest.approx(12 * 2.0 * eta / 4**k * doubt)
        noise = stage.sensitivity * math.sqrt(2 * math.log(2.5 / 1e-3)) / 0.7
        assert stage.noise_scale == pytest.approx(noise)


@pytest.mark.parametrize("bound", [private_excess, private_schedule])
def test_theorem_10_says_what_it_assumes(bound):
    for factor, wrong in ((0.5, False), (1.0, False), (1.001, True)):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            bound(problem(smoothness=4.0), constants="paper", step_size=factor * 2 / 4.0)
        assert any("assumes step_size <= 2 / smooth" in str(one.message) for one in seen) == wrong


@pytest.mark.parametrize("smoothness", [1e-3, 1.0, 1e5])
def test_the_first_step_of_the_schedule_is_within_the_proof(smoothness):
    # eta_1 = eta / 4 is at most 2 / L; for a rough loss this is what sets it.
    first = private_schedule(problem(smoothness=smoothness))[0].step_size
    assert first <= 2.0 / smoothness * (1 + 1e-12)
    if smoothness == 1e5:
        assert first == pytest.approx(2.0 / smoothness)
    with pytest.raises(ValueError, match="smooth"):
        private_schedule(problem(smoothness=smoothness), step_size=8.01 / smoothness)


def test_theorem_9():
    t, L, mu, moment = 50, 2.0, 0.5, 3.0
    with pytest.warns(AssumptionWarning, match="Theorem 9"):
        found = pl_gap(t, smoothness=L, pl_constant=mu, gradient_moment=moment, constants="paper")
    inner = 1 / (t + 1) + math.log(math.e * t) / (mu * t * (t + 1))
    assert found == pytest.approx(32 * L * moment**2 / mu**2 * inner, rel=1e-12)
    # Corrected, for a Lipschitz loss and for a bound on the moments.
    for o in (1.0, 20.0):
        h = 1 / o + math.log((t + o - 1) / o)
        wanted = o * (o - 1) * 9 / (2 * mu) + 10 * L * 9 * t / mu**2 + 8 * L**2 * 9 * h / mu**3
        found = pl_gap(t, smoothness=L, pl_constant=mu, lipschitz=3.0, offset=o)
        assert found == pytest.approx(wanted / ((t + o) * (t + o - 1)), rel=1e-12)
    h = 1 / 20 + math.log((t + 19) / 20)
    wanted = 20 * 19 * 9 / (2 * mu) + 24 * L * 9 * t / mu**2 + 32 * L**2 * 9 * h / mu**3
    found = pl_gap(t, smoothness=L, pl_constant=mu, gradient_moment=3.0, offset=20.0)
    assert found == pytest.approx(wanted / ((t + 20) * (t + 19)), rel=1e-12)


def test_lemma_8():
    stage = LocalizedStage(50, 70, 0.03)
    found = localized_distance(stage, lipschitz=2.0, self_pair_lipschitz=0.5)
    slope = 2.5
    wanted = 0.03 * (slope / 2 + math.sqrt(slope**2 / 4 + 12 * 4.0 * 50**2 / 71))
    assert found == pytest.approx(wanted, rel=1e-12)


@pytest.mark.parametrize("change", [None, 0.3])
def test_lemma_7_by_chernoffs_bound(change):
    # P(draws >= m (1 + g)) <= exp(-m g^2 / (2 + g)) for a mean of m = (t + 1) / n draws.
    n, t, miss = 40, 99, 1e-3
    m = (t + 1) / n
    q = m * (1 + brentq(lambda g: m * g**2 / (2 + g) + math.log(miss), 0.0, 100.0))
    found = sensitivity_with_confidence(
        n, t, lipschitz=2.0, smoothness=1.0, step_size=0.5, failure_probability=miss,
        method="chernoff", gradient_change=change,
    )  # fmt: skip
    assert found == pytest.approx(2 * (change or 4.0) * 0.5 * q, rel=1e-9)


ETAS = np.array([0.5, 0.3, 0.4, 0.1, 0.2, 0.05, 0.25])


def corrected(gap, n, self_pair_gap):
    """n / (n - 1) times the gap of sampled pairs, and what repeated examples add."""
    return n / (n - 1) * (gap + self_pair_gap / n)


@pytest.mark.parametrize("steps", [0.3, ETAS])
@pytest.mark.parametrize("s", [1, 3, 50])
def test_theorem_6(steps, s):
    eta = np.broadcast_to(steps, 7)
    cross = sum(eta[j] * eta[max(j - s, 0) : j].sum() for j in range(7))
    wanted = (9.0 + 4.0 * (2 * cross + (eta**2).sum())) / (2 * eta.sum())
    options = {"lipschitz": 2.0, "distance": 3.0, "step_size": steps}
    assert convex_gap(7, buffer_size=s, **options) == pytest.approx(wanted, rel=1e-12)
    found = convex_gap(7, buffer_size=s, n=6, self_pair_gap=0.4, **options)
    assert found == pytest.approx(corrected(wanted, 6, 0.4), rel=1e-12)
    if s == 1:
        # The paper leaves eta_0 open: it is read as eta_1.
        paper = wanted + 4.0 * 2 * eta[0] ** 2 / (2 * eta.sum())
        assert convex_gap(7, constants="paper", **options) == pytest.approx(paper, rel=1e-12)


@pytest.mark.parametrize("steps", [0.3, ETAS])
def test_theorem_7(steps):
    eta, doubt = np.broadcast_to(steps, 7), math.log(2 / 0.05)
    cross = (eta[1:] * eta[:-1]).sum()
    drift = 9.0 / 2 + 4.0 * (cross + (eta**2).sum() / 2)
    options = {"lipschitz": 2.0, "distance": 3.0, "supremum": 1.5, "step_size": steps}
    options |= {"failure_probability": 0.05}
    parts = sum(math.sqrt((eta[k::2] ** 2).sum()) for k in (0, 1))
    wanted = (1.5 * math.sqrt(2 * doubt) * parts + drift) / eta.sum()
    assert convex_gap_with_confidence(7, **options) == pytest.approx(wanted, rel=1e-12)
    found = convex_gap_with_confidence(7, n=6, self_pair_gap=0.4, **options)
    assert found == pytest.approx(corrected(wanted, 6, 0.4), rel=1e-12)
    paper = 2 * 1.5 * math.sqrt(2 * doubt * (eta**2).sum()) + drift + 4.0 * eta[0] ** 2
    found = convex_gap_with_confidence(7, constants="paper", **options)
    assert found == pytest.approx(paper / eta.sum(), rel=1e-12)


@pytest.mark.parametrize("supremum", [1.5, 40.0])
def test_theorems_6_and_7_for_strong_convexity(supremum):
    t, alpha, doubt = 30, 0.5, math.log(2 / 0.05)
    options = {"lipschitz": 2.0, "strong_convexity": alpha}
    gap = 6 * 4.0 / (alpha * (t + 1))
    assert strongly_convex_gap(t, constants="paper", **options) == pytest.approx(gap)
    assert strongly_convex_gap(t, **options) == pytest.approx(gap)
    # A G-Lipschitz function falls by at most G^2 / (2 alpha).
    fall = 4.0 / (2 * alpha)
    assert strongly_convex_gap(t, n=9, **options) == pytest.approx(corrected(gap, 9, fall))
    found = strongly_convex_gap(t, n=9, self_pair_gap=0.1, **options)
    assert found == pytest.approx(corrected(gap, 9, 0.1))
    options |= {"supremum": supremum, "failure_probability": 0.05}
    paper = (28 * 4.0 / alpha + 8 * supremum) * doubt / (t + 1)
    found = strongly_convex_gap_with_confidence(t, constants="paper", **options)
    assert found == pytest.approx(paper, rel=1e-12)
    wanted = (12 * 4.0 / alpha + 16 * doubt * max(supremum, 2 * 4.0 / alpha)) / (t + 1)
    assert strongly_convex_gap_with_confidence(t, **options) == pytest.approx(wanted, rel=1e-12)
    found = strongly_convex_gap_with_confidence(t, n=9, **options)
    assert found == pytest.approx(corrected(wanted, 9, fall), rel=1e-12)


def test_theorems_1_and_2():
    n, t, eta = 40, 500, 0.003
    options = {"lipschitz": 2.0, "distance": 3.0, "step_size": eta, "constants": "paper"}
    gap = 9.0 / (2 * t * eta) + 3 * 4.0 * eta / 2
    wanted = 4 * math.sqrt(math.e) * 4.0 * eta * (math.sqrt(5 * t) + 2 * t / n) + gap
    assert excess_nonsmooth(n, t, **options) == pytest.approx(wanted, rel=1e-12)
    wanted = 8 * 4.0 * t * eta / n + gap
    assert excess_smooth(n, t, smoothness=1.0, **options) == pytest.approx(wanted, rel=1e-12)


@pytest.mark.parametrize("constants", ["corrected", "paper"])
def test_lemma_3_and_theorem_3(constants):
    n, t, G, L, mu, B = 200, 60, 2.0, 1.5, 0.7, 5.0
    options = {"lipschitz": G, "smoothness": L, "pl_constant": mu, "supremum": B}
    one = 1 if constants == "corrected" else 0

    def bound(start, mu=mu):
        growth = ((t + one) / (start + one)) ** (2 * L / mu)
        return 4 * G**2 / (n * L) * growth + B * (start + one) / n

    for start in (5, 40):
        found = pl_stability(n, t, burn_in=start, constants=constants, **options)
        assert found == pytest.approx(min(bound(start), B) if one else bound(start), rel=1e-12)
    best = min(bound(start) for start in range(1 - one, t + 1))
    assert pl_stability(n, t, constants=constants, **options) == pytest.approx(best, rel=1e-12)
    # Theorem 3: twice the stability, with the constant that the steps see, and the gap.
    seen = mu * (1 - 1 / n) if one else mu
    stability = min(bound(start, seen) for start in range(1 - one, t + 1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AssumptionWarning)
        gap = pl_gap(t, smoothness=L, pl_constant=mu, lipschitz=G, constants=constants,
                     n=n if one else None)  # fmt: skip
        found = pl_excess(n, t, constants=constants, **options)
    assert found == pytest.approx(2 * stability + gap, rel=1e-12)
    horizon = n ** ((2 * L + mu) / (4 * L + mu)) * mu ** (-(4 * L + 2 * mu) / (4 * L + mu))
    assert pl_horizon(n, smoothness=L, pl_constant=mu) == math.ceil(horizon)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: private_schedule(problem(), step_size=-0.1, constants="paper"), "got -0.1"),
        (lambda: private_excess(problem(), step_size=0.0, constants="paper"), "got 0.0"),
        (
            lambda: private_nonsmooth_schedule(problem(), locality=-1.0, constants="paper"),
            "locality must be a positive number, got -1.0",
        ),
        (lambda: problem(self_pair_lipschitz=-1.0), "self_pair_lipschitz must be at least 0"),
        (lambda: LocalizedStage(10, 10, -0.1), "locality must be a positive number, got -0.1"),
        (
            lambda: sensitivity_with_confidence(
                40, 99, lipschitz=2.0, smoothness=1.0, step_size=0.5, failure_probability=1e-3,
                method="guess", constants="paper",
            ),
            "method must be 'exact' or 'chernoff', got 'guess'",
        ),
        (
            lambda: stability_nonsmooth(
                40, 99, lipschitz=2.0, step_size=0.5, averaging="best", constants="paper"
            ),
            "averaging must be one of .* got 'best'",
        ),
        (
            lambda: pl_gap(
                50, smoothness=2.0, pl_constant=0.5, lipschitz=3.0, gradient_moment=1.0
            ),
            "lipschitz or gradient_moment, not both",
        ),
        (
            lambda: pl_constant(
                Problem(LinearScore(), Logistic()), [[0.5], [-0.5]], [1, -1], radius=1.0,
                direction=[1.0],
            ),
            "direction is for the log-link loss",
        ),
    ],
)  # fmt: skip
def test_an_argument_is_honoured_or_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("step_size", ["0.1", True])
def test_a_step_size_is_a_number(step_size):
    with pytest.raises(TypeError, match="step_size must be a number"):
        convex_gap(50, lipschitz=1.0, distance=1.0, step_size=step_size)
