# SPDX-License-Identifier: BSD-3-Clause
"""Losses of errors and of distances against finite differences and their stated bounds."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pairlearn.losses import Epanechnikov, Welsch

REAL = st.floats(-5.0, 5.0)
WIDTH = st.floats(0.1, 10.0)


@pytest.mark.parametrize("kind", [Welsch, Epanechnikov])
@given(s=REAL, y=REAL, other=REAL, width=WIDTH)
def test_derivative_is_a_finite_difference(kind, s, y, other, width):
    loss = kind(bandwidth=width)
    r = (y - other) - s
    if kind is Epanechnikov and abs(abs(r) - width) < 1e-4:
        return
    h = 1e-6
    slope = (loss.value(s + h, y, other, width) - loss.value(s - h, y, other, width)) / (2 * h)
    assert loss.derivative(s, y, other, width) == pytest.approx(slope, abs=1e-7)


@pytest.mark.parametrize("kind", [Welsch, Epanechnikov])
@given(s=REAL, y=REAL, other=REAL, width=WIDTH)
def test_bounds_and_symmetry(kind, s, y, other, width):
    loss = kind(bandwidth=width)
    value, slope = loss.value(s, y, other, width), loss.derivative(s, y, other, width)
    assert 0.0 <= value <= loss.value_bound(np.inf) * (1 + 1e-12)
    assert abs(slope) <= loss.slope_bound(np.inf) * (1 + 1e-12)
    # A pair costs the same in either order.
    assert loss.value(-s, other, y, width) == value
    assert loss.derivative(-s, other, y, width) == -slope


@given(s=REAL, y=REAL, other=REAL, shift=REAL)
def test_a_shift_of_both_targets_changes_nothing(s, y, other, shift):
    before = Welsch().value(s, y, other, 1.0)
    assert Welsch().value(s, y + shift, other + shift, 1.0) == pytest.approx(before, abs=1e-12)


def test_wide_window_is_least_squares():
    assert Welsch().value(0.5, 2.0, 0.0, 1e6) == pytest.approx(0.5 * 1.5**2, rel=1e-9)


@pytest.mark.parametrize("bandwidth", [0.0, -1.0, float("nan"), float("inf")])
def test_bandwidth_must_be_positive(bandwidth):
    with pytest.raises(ValueError, match="bandwidth must be a positive number"):
        Welsch(bandwidth=bandwidth)


def test_losses_survive_pickling():
    assert pickle.loads(pickle.dumps(Welsch(bandwidth=2.0))) == Welsch(bandwidth=2.0)
