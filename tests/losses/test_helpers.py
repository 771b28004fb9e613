# SPDX-License-Identifier: BSD-3-Clause
"""Examples of the inner functions of this room."""

import numpy as np

from pairlearn.losses.sums import near_moments, walk_down


def test_walk_down():
    count, ramp, bowl = walk_down(np.array([1.0]), np.array([1.0, 2.0, 4.0]), np.ones(3))
    assert repr((count, ramp, bowl)) == "(array([2.]), array([4.]), array([5.]))"


def test_near_moments():
    assert (
        repr(near_moments(np.array([1.0]), np.array([1.0, 2.0, 4.0]), np.ones(3), 2.0))
        == "(array([3.]), array([5.]))"
    )
