# SPDX-License-Identifier: BSD-3-Clause
"""Kinks are found where they are, however coarse the grid around each of them is."""

import numpy as np
import pytest
from pairlearn.losses.slopes import JumpError, compare_slopes

KINKS = np.array([-2.3, 0.1234567, 0.5 + 3e-5, 7.77])


def value(x):
    return sum((k + 1.0) * np.abs(x - kink) for k, kink in enumerate(KINKS))


def slope(x):
    return sum((k + 1.0) * np.sign(x - kink) for k, kink in enumerate(KINKS))


def test_kinks_between_points_at_all_distances():
    coarse = np.linspace(-10.0, 12.0, 12)
    grid = np.unique(np.concatenate((coarse, np.linspace(0.4999, 0.5001, 201), [0.1, 0.13])))
    found = compare_slopes(value, slope, grid, grid)
    assert len(found.kinks) == len(KINKS)
    np.testing.assert_allclose(found.kinks, KINKS, atol=2e-8)
    assert found.error.max() < 1e-6


def test_a_jump_between_points_is_told_with_its_place():
    with pytest.raises(JumpError) as told:
        compare_slopes(lambda x: np.abs(x) + (x > 0.3), np.sign, np.linspace(-1.0, 1.0, 9), KINKS)
    assert told.value.place == pytest.approx(0.3, abs=1e-7)
    assert (told.value.before, told.value.after) == pytest.approx((0.3, 1.3), abs=1e-6)
