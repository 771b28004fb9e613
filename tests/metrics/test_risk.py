# SPDX-License-Identifier: BSD-3-Clause
"""Exact pair risks and gradients against the sum over all pairs."""

# The scalar functions take (score, y, y_partner, parameter) instead of self.
# ruff: noqa: N805

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pairlearn.losses import LOSSES, Hinge, PairLoss, SmoothedHinge, Square, SquaredHinge, scalar
from pairlearn.metrics import pair_risk, pair_risk_gradient

BUILT_IN = [
    *(loss() for loss in LOSSES.values()),
    *(loss(one_sided=True) for loss in LOSSES.values()),
    Hinge(margin=0.25),
    SquaredHinge(margin=2.0),
    Square(margin=0.5),
    SmoothedHinge(width=2.0),
    SmoothedHinge(width=0.125),
]


class Lopsided(PairLoss):
    """A user's loss that depends on the order of a pair."""

    @scalar
    def value(score, y, y_partner, _):
        return score * score * (2.0 if y > y_partner else 1.0)

    @scalar
    def derivative(score, y, y_partner, _):
        return 2.0 * score * (2.0 if y > y_partner else 1.0)


class Entropy(PairLoss):
    """A user's loss of every pair, equal labels included."""

    opposite_labels_only: ClassVar[bool] = False

    @scalar
    def value(score, y, y_partner, _):
        error = y - y_partner - score
        return -math.exp(-0.5 * error * error)

    @scalar
    def derivative(score, y, y_partner, _):
        error = y - y_partner - score
        return -error * math.exp(-0.5 * error * error)


@dataclass(frozen=True)
class Steeper(Hinge):
    """A user's loss that replaces half of a built-in one."""

    @scalar
    def derivative(score, y, y_partner, margin):
        sign = 1.0 if y > y_partner else -1.0
        return -2.0 * sign if sign * score < margin else 0.0


OWN = [Lopsided(), Lopsided(one_sided=True), Entropy(), Steeper()]


def by_definition(loss, scores, y, weight=None):
    n = len(y)
    weight = np.ones(n) if weight is None else weight
    total, norm, gradient = 0.0, 0.0, np.zeros(n)
    for i in range(n):
        for j in range(n):
            if i == j:
                continue
            pair = float(weight[i] * weight[j])
            norm += pair
            if loss.opposite_labels_only and y[i] == y[j]:
                continue
            if loss.one_sided and not y[i] > y[j]:
                continue
            args = float(scores[i] - scores[j]), float(y[i]), float(y[j]), loss.parameter
            total += pair * loss.value(*args)
            slope = pair * loss.derivative(*args)
            gradient[i] += slope
            gradient[j] -= slope
    return total / norm, gradient / norm


@st.composite
def scored(draw, *, labels):
    """Return scores in eighths (exact; ties, and pairs just at the margin), labels and weights."""
    n = draw(st.integers(2, 10))
    scores = draw(st.lists(st.integers(-24, 24), min_size=n, max_size=n))
    y = draw(st.lists(st.sampled_from(labels), min_size=n, max_size=n))
    weight = draw(st.lists(st.integers(0, 4), min_size=n - 2, max_size=n - 2))
    return np.array(scores) / 8, np.array(y, dtype=float), np.array([1, 2, *weight], dtype=float)


# Each of the many losses draws the same kind of sample: half as many for each are enough.
@pytest.mark.parametrize("loss", BUILT_IN + OWN, ids=repr)
@settings(max_examples=25)
@given(sample=scored(labels=[-1, 1]))
def test_two_classes(loss, sample):
    scores, y, weight = sample
    risk, gradient = by_definition(loss, scores, y)
    assert pair_risk(loss, scores, y) == pytest.approx(risk, rel=1e-13, abs=1e-15)
    np.testing.assert_allclose(pair_risk_gradient(loss, scores, y), gradient, 1e-12, 1e-14)
    risk, gradient = by_definition(loss, scores, y, weight)
    assert pair_risk(loss, scores, y, sample_weight=weight) == pytest.approx(
        risk, rel=1e-13, abs=1e-15
    )
    found = pair_risk_gradient(loss, scores, y, sample_weight=weight)
    np.testing.assert_allclose(found, gradient, 1e-12, 1e-14)


@pytest.mark.parametrize("loss", BUILT_IN[:7] + OWN, ids=repr)
@given(sample=scored(labels=[0.0, 0.5, 2.0, 3.0]))
@pytest.mark.thorough
def test_graded_labels(loss, sample):
    scores, y, weight = sample
    risk, gradient = by_definition(loss, scores, y, weight)
    assert pair_risk(loss, scores, y, sample_weight=weight) == pytest.approx(
        risk, rel=1e-13, abs=1e-15
    )
    found = pair_risk_gradient(loss, scores, y, sample_weight=weight)
    np.testing.assert_allclose(found, gradient, 1e-12, 1e-14)


@pytest.mark.parametrize("loss", BUILT_IN, ids=repr)
@pytest.mark.parametrize("n_labels", [2, 4])
def test_gradient_is_the_finite_difference(loss, n_labels):
    rng = np.random.default_rng(0)
    n = 200
    y = rng.integers(n_labels, size=n).astype(float)
    scores = 0.5 * rng.normal(size=n)
    gradient = pair_risk_gradient(loss, scores, y)
    assert abs(gradient.sum()) < 1e-14
    for _ in range(3):
        direction = rng.normal(size=n)
        # Small enough that no pair of a kinked loss crosses its kink: the risk is then exactly
        # quadratic or linear, and rounding divided by the step is what remains.
        step = 1e-6
        change = pair_risk(loss, scores + step * direction, y) - pair_risk(
            loss, scores - step * direction, y
        )
        assert change / (2 * step) == pytest.approx(gradient @ direction, rel=1e-6, abs=1e-7)


@pytest.mark.parametrize("loss", [Hinge(), SquaredHinge(), SmoothedHinge()], ids=repr)
@pytest.mark.parametrize("distance", [2.0**10, 2.0**40])
def test_small_losses_survive_beside_distant_scores(loss, distance):
    # The two groups of one sample are far apart, and only pairs within the upper group, with
    # losses of order 1, cost anything. Prefix sums of scores would leave about 3 digits of them.
    rng = np.random.default_rng(3)
    up, down = rng.integers(-8, 8, size=(2, 20)) / 8
    scores = np.concatenate((up, down, down - distance))
    y = np.repeat([1.0, -1.0], [20, 40])
    total = sum(loss.value(u - d, 1.0, -1.0, loss.parameter) for u in up for d in down)
    risk = 2.0 * total / (60 * 59)
    for offset in (0.0, distance / 2, distance):
        assert pair_risk(loss, scores + offset, y) == pytest.approx(risk, rel=1e-13)
    # The same seen from the other end: the distant examples are now positive.
    assert pair_risk(loss, -scores, -y) == pytest.approx(risk, rel=1e-13)


@pytest.mark.parametrize("loss", BUILT_IN, ids=repr)
@pytest.mark.parametrize("size", [1e3, 1e8, 1e12, 1e100, 1e200])
def test_huge_scores_agree_with_the_definition(loss, size):
    rng = np.random.default_rng(4)
    y = np.array([1.0, -1.0, 1.0, -1.0, -1.0, 1.0])
    scores = size * rng.normal(size=6)
    risk, gradient = by_definition(loss, scores, y)
    assert pair_risk(loss, scores, y) == pytest.approx(risk, rel=1e-12)
    found = pair_risk_gradient(loss, scores, y)
    np.testing.assert_allclose(found, gradient, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("loss", BUILT_IN, ids=repr)
def test_the_largest_numbers_give_no_nan(loss):
    scores, y = np.array([-1.7e308, 1.7e308, 0.0, 1e-300]), np.array([1.0, -1.0, 1.0, -1.0])
    assert pair_risk(loss, scores, y) > 0.0
    assert pair_risk(loss, -scores, y) >= 0.0
    assert not np.isnan(pair_risk_gradient(loss, scores, y)).any()
    assert not np.isnan(pair_risk_gradient(loss, -scores, y)).any()


@pytest.mark.parametrize("loss", ["hinge", "exponential", "logistic"])
def test_weights_of_any_scale_are_a_mean(loss):
    rng = np.random.default_rng(5)
    y = rng.choice([-1.0, 1.0], size=30)
    scores, weight = rng.normal(size=(2, 30))
    weight = np.abs(weight)
    risk = pair_risk(loss, scores, y, sample_weight=weight)
    assert pair_risk(loss, scores, y, sample_weight=1e200 * weight) == pytest.approx(risk)
    assert pair_risk(loss, scores, y, sample_weight=7.0 * np.ones(30)) == pytest.approx(
        pair_risk(loss, scores, y)
    )


def test_nearly_all_weight_on_one_example():
    risk, _ = by_definition(Hinge(), [0.0, 0.5, 0.25], [-1.0, 1.0, 1.0], [1.0, 1e-20, 3e-20])
    found = pair_risk("hinge", [0.0, 0.5, 0.25], [-1, 1, 1], sample_weight=[1.0, 1e-20, 3e-20])
    assert found == pytest.approx(risk, rel=1e-12)


def test_one_class_costs_nothing():
    for loss in BUILT_IN:
        assert pair_risk(loss, [0.0, 1.0, 2.0], [1, 1, 1]) == 0.0
        assert not pair_risk_gradient(loss, [0.0, 1.0, 2.0], [1, 1, 1]).any()


def test_the_symmetric_risk_is_twice_the_one_sided_one():
    scores, y = [0.0, 0.5, 2.0], [-1, 1, 1]
    assert pair_risk(Hinge(), scores, y) == 2.0 * pair_risk(Hinge(one_sided=True), scores, y)


def test_many_examples_need_no_pairs():
    # 10^10 pairs of different labels: only a sort can answer, and the population value is known.
    rng = np.random.default_rng(6)
    y = np.repeat([-1.0, 1.0], 100_000)
    scores = rng.random(200_000)
    # E (1 - u + v)_+ = 1 for u, v uniform; the risk, about half of it, has a standard error of
    # 0.00065, and 0.004 is 6 of them (false alarms: 1e-9).
    share = 2.0 * 100_000**2 / (200_000 * 199_999)
    assert pair_risk("hinge", scores, y) == pytest.approx(share, abs=0.004)
    gradient = pair_risk_gradient("squared_hinge", scores, y)
    assert abs(gradient.sum()) < 1e-12


@pytest.mark.parametrize(
    ("arguments", "weight", "message"),
    [
        (("hinge", [0.0], [1]), None, "at least two examples to make a pair, got 1"),
        (("hinge", [0.0, np.inf], [1, -1]), None, "scores contains NaN or infinity"),
        (("hinge", [0.0, 1.0], [1, np.nan]), None, "y contains NaN or infinity"),
        (("hinge", [0.0, 1.0], [1, -1, 1]), None, "y must hold one number for each"),
        (("hinge", [[0.0, 1.0]], [1, -1]), None, r"shape \(1, 2\)"),
        (("huge", [0.0, 1.0], [1, -1]), None, "loss must be one of"),
        (("hinge", [0.0, 1.0], [1, -1]), [1.0, 0.0], "positive for at least two"),
        (
            ("hinge", [0.0, 1.0], [1, -1]),
            [1.0, -2.0],
            "sample_weight must hold finite numbers of at least 0, got -2.0; use 0",
        ),
    ],
)
def test_bad_input_is_refused(arguments, weight, message):
    for function in (pair_risk, pair_risk_gradient):
        with pytest.raises(ValueError, match=message):
            function(*arguments, sample_weight=weight)
