# SPDX-License-Identifier: BSD-3-Clause
"""Examples of the inner functions of this room."""

import numpy as np

from pairlearn.metrics._inputs import corners
from pairlearn.metrics.auc import doubled_wins
from pairlearn.metrics.limits import share_limits


def test_corners():
    found = corners(np.array([True, False, True]), np.array([3.0, 2.0, 2.0]), np.ones(3))
    assert repr((found.fpr, found.tpr)) == "(array([0., 0., 1.]), array([0. , 0.5, 1. ]))"


def test_doubled_wins():
    assert (doubled_wins(np.array([0.4, 0.8]), np.array([0.1, 0.4]))) == 7


def test_share_limits():
    low, high = share_limits(0.9, 0.3 / 10**0.5, (10.0, 10.0), 1.96)
    assert (round(low, 3), round(high, 3)) == (0.596, 0.982)
