# SPDX-License-Identifier: BSD-3-Clause
"""Laws of the losses: derivatives, bounds, symmetry, safety at the ends of the range."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pairlearn import (
    DistanceHinge,
    Exponential,
    Hinge,
    LinearScore,
    Logistic,
    PairLoss,
    Problem,
    SmoothedHinge,
    Square,
    SquaredHinge,
    scalar,
)
from pairlearn.losses import LOSSES, GapWeighted, LogLink, Welsch

ALL = [
    Hinge(),
    Hinge(margin=0.3),
    SquaredHinge(),
    SquaredHinge(margin=2.0),
    Square(),
    Square(margin=3.0),
    Logistic(),
    Exponential(),
    LogLink(),
    SmoothedHinge(),
    SmoothedHinge(width=2.0),
]
LABELS = [(1.0, -1.0), (-1.0, 1.0), (3.0, 2.0), (0.0, 5.0)]

losses = st.sampled_from(ALL)
labels = st.sampled_from(LABELS)
margins = st.floats(-30, 30)


def value(loss, score, y, y_partner):
    return loss.value(score, y, y_partner, loss.parameter)


def derivative(loss, score, y, y_partner):
    return loss.derivative(score, y, y_partner, loss.parameter)


def compiled(function):
    """Return the machine code behind an address as a Python function."""
    import ctypes

    signature = ctypes.CFUNCTYPE(ctypes.c_double, *[ctypes.c_double] * 4)
    return signature(function.address)


@given(losses, labels, margins)
def test_derivative_is_the_slope(loss, pair, score):
    # Only the hinge has a kink; the others have a continuous derivative.
    if type(loss) is Hinge:
        assume(abs(abs(score) - loss.margin) > 1e-3)
    h = 1e-5
    slope = (value(loss, score + h, *pair) - value(loss, score - h, *pair)) / (2 * h)
    assert slope == pytest.approx(derivative(loss, score, *pair), rel=1e-4, abs=1e-4)


@pytest.mark.parametrize("loss", ALL, ids=repr)
def test_the_array_form_is_the_scalar_one(loss):
    # Far margins too: neither form may overflow or lose a small slope.
    m = np.concatenate([np.linspace(-40.0, 40.0, 321), [-800.0, -600.0, 600.0, 690.0]])
    assert loss.has_array_form
    with np.errstate(over="raise", invalid="raise"):
        found = loss.values(m), loss.slopes(m)
    expected = (
        [value(loss, s, 1.0, -1.0) for s in m.tolist()],
        [derivative(loss, s, 1.0, -1.0) for s in m.tolist()],
    )
    np.testing.assert_allclose(found, expected, rtol=1e-13, atol=1e-300)
    by_address = PairLoss.values(loss, m), PairLoss.slopes(loss, m)
    np.testing.assert_allclose(by_address, expected, rtol=1e-13, atol=1e-300)


def test_a_loss_that_replaces_a_function_does_not_inherit_its_array_form():
    class Steep(Hinge):
        @scalar
        def derivative(score, y, y_partner, margin):  # noqa: N805
            return -3.0 if y > y_partner else 3.0

    assert not Steep().has_array_form
    np.testing.assert_array_equal(Steep().slopes(np.zeros((2, 2))), np.full((2, 2), -3.0))
    np.testing.assert_array_equal(Steep(2.0).values(np.ones(3)), Hinge(2.0).values(np.ones(3)))


@pytest.mark.parametrize(
    ("positional", "named"),
    [
        (Hinge(0.5), Hinge(margin=0.5)),
        (Square(0.5), Square(margin=0.5)),
        (SmoothedHinge(0.25), SmoothedHinge(width=0.25)),
        (Welsch(2.0), Welsch(bandwidth=2.0)),
        (DistanceHinge(0.0), DistanceHinge(bias=0.0)),
        (GapWeighted(Square()), GapWeighted(base=Square())),
    ],
    ids=repr,
)
def test_the_first_number_is_the_option_of_the_loss(positional, named):
    assert positional == named
    assert positional.one_sided is False


def test_one_sided_is_given_by_name():
    assert Logistic(one_sided=True).one_sided
    with pytest.raises(TypeError, match="positional"):
        Logistic(True)


@given(losses, labels, margins, margins)
def test_derivative_is_a_subgradient_of_a_convex_loss(loss, pair, score, other):
    assume(loss.convex)
    kinks = [score, loss.parameter, -loss.parameter, 1.0, -1.0]
    for at in kinks:
        bound = value(loss, at, *pair) + derivative(loss, at, *pair) * (other - at)
        assert value(loss, other, *pair) >= bound - 1e-9 * (1 + abs(bound))


def test_loglink_is_not_convex():
    loss = LogLink()
    assert not loss.convex
    middle = value(loss, -2.5, 1.0, -1.0)
    assert middle > (value(loss, -5.0, 1.0, -1.0) + value(loss, 0.0, 1.0, -1.0)) / 2


@given(losses, margins)
def test_a_pair_costs_the_same_in_either_order(loss, score):
    assert value(loss, score, 1.0, -1.0) == value(loss, -score, -1.0, 1.0)
    assert derivative(loss, score, 1.0, -1.0) == -derivative(loss, -score, -1.0, 1.0)


@given(losses, labels, st.floats(-50, 50))
def test_machine_code_equals_python(loss, pair, score):
    parameter = loss.parameter
    for function in (loss.value, loss.derivative):
        found = compiled(function)(score, *pair, parameter)
        assert found == pytest.approx(function(score, *pair, parameter), rel=1e-14, abs=1e-300)


@pytest.mark.parametrize("loss", ALL, ids=repr)
@pytest.mark.parametrize("pair", LABELS)
def test_losses_stay_finite_where_their_values_can_be_written(loss, pair):
    for sign, size in itertools.product((-1.0, 1.0), (0.0, 1e-300, 1.0, 700.0, 750.0, 1e5, 1e300)):
        score = sign * size
        # A square of 1e300 is beyond float64, and is infinite, not NaN and not an error.
        square_overflows = isinstance(loss, SquaredHinge) and size > 1e150
        for function in (loss.value, compiled(loss.value)):
            found = function(score, *pair, loss.parameter)
            assert found >= 0.0
            assert math.isfinite(found) or square_overflows
        for function in (loss.derivative, compiled(loss.derivative)):
            assert math.isfinite(function(score, *pair, loss.parameter))


@given(losses, labels, st.floats(0, 20), st.floats(-1, 1))
def test_bounds_hold(loss, pair, bound, share):
    score = bound * share
    slack = 1 + 1e-12
    assert value(loss, score, *pair) <= loss.value_bound(bound) * slack
    assert abs(derivative(loss, score, *pair)) <= loss.slope_bound(bound) * slack
    other = bound * share / 2
    change = abs(derivative(loss, score, *pair) - derivative(loss, other, *pair))
    if change > 0:
        assert change <= loss.curvature_bound(bound) * abs(score - other) * slack + 1e-12


@pytest.mark.parametrize("loss", ALL, ids=repr)
def test_bounds_are_not_loose(loss):
    """Over a fine grid of margins the suprema are nearly reached."""
    bound = 3.0 if isinstance(loss, LogLink) else 5.0
    grid = np.linspace(-bound, bound, 20001)
    slopes = np.array([derivative(loss, s, 1.0, -1.0) for s in grid])
    assert np.abs(slopes).max() == pytest.approx(loss.slope_bound(bound), rel=1e-3)
    if type(loss) is not Hinge:
        curvature = np.abs(np.diff(slopes)).max() / (grid[1] - grid[0])
        assert curvature == pytest.approx(loss.curvature_bound(bound), rel=0.01) or isinstance(
            loss, Exponential | Logistic
        )
    values = np.array([value(loss, s, 1.0, -1.0) for s in grid])
    assert values.max() >= 0.8 * loss.value_bound(bound)


@pytest.mark.parametrize("loss", ALL, ids=repr)
@pytest.mark.parametrize("bound", [1e3, 1e200, math.inf])
def test_bounds_of_huge_margins_are_numbers(loss, bound):
    for name in ("slope_bound", "curvature_bound", "value_bound"):
        found = getattr(loss, name)(bound)
        assert found > 0
        assert not math.isnan(found)


def test_constants_of_an_unbounded_problem():
    constants = Problem(LinearScore(), SquaredHinge()).constants(norm_bound=1.0)
    assert constants.lipschitz == math.inf
    assert constants.smoothness == 8.0
    constants = Problem(LinearScore(), Logistic()).constants(norm_bound=2.0)
    assert constants.lipschitz == 4.0
    assert constants.smoothness == 4.0


@given(losses, st.integers(0, 2**32 - 1))
def test_constants_bound_gradients(loss, seed):
    rng = np.random.default_rng(seed)
    norm_bound, radius = 1.5, 2.0
    x, other = (v * norm_bound / np.linalg.norm(v) for v in rng.normal(size=(2, 3)))
    w, w_other = (radius * rng.random() * v / np.linalg.norm(v) for v in rng.normal(size=(2, 3)))
    constants = Problem(LinearScore(), loss).constants(norm_bound=norm_bound, radius=radius)
    gradients = [
        derivative(loss, float(v @ (x - other)), 1.0, -1.0) * (x - other) for v in (w, w_other)
    ]
    assert np.linalg.norm(gradients[0]) <= constants.lipschitz * (1 + 1e-12)
    change = np.linalg.norm(gradients[0] - gradients[1])
    assert change <= constants.smoothness * np.linalg.norm(w - w_other) * (1 + 1e-9)
    assert value(loss, float(w @ (x - other)), 1.0, -1.0) <= constants.supremum * (1 + 1e-12)


def test_smoothed_hinge_is_close_to_the_hinge():
    for width in (0.1, 1.0):
        for score in np.linspace(-3, 3, 601):
            gap = value(Hinge(), score, 1.0, -1.0) - value(SmoothedHinge(width=width), score, 1, -1)
            assert -1e-12 <= gap <= width / 2 + 1e-12


def test_names():
    for name, cls in LOSSES.items():
        assert LOSSES.make(name) == cls()
    assert LOSSES.make(Hinge(margin=2.0)) == Hinge(margin=2.0)
    with pytest.raises(ValueError, match=r"loss must be one of 'hinge'.* got 'hinges'"):
        LOSSES.make("hinges")
    with pytest.raises(ValueError, match="got 3"):
        LOSSES.make(3)


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
def test_bad_parameters(bad):
    with pytest.raises(ValueError, match=r"margin must be a positive number.*choose margin > 0"):
        Hinge(margin=bad)
    with pytest.raises(ValueError, match="width must be a positive number"):
        SmoothedHinge(width=bad)


def test_a_loss_without_bounds_says_so():
    class Silent(PairLoss):
        @scalar
        def value(score, y, y_partner, _):  # noqa: N805
            return 0.0

    for name in ("slope_bound", "curvature_bound", "value_bound"):
        with pytest.raises(ValueError, match=rf"define Silent\.{name}\(margin_bound\)"):
            getattr(Silent(), name)(1.0)
