# SPDX-License-Identifier: BSD-3-Clause
import numpy as np
import pytest

from pairlearn.privacy.records import is_label, read_table
from pairlearn.privacy.selection import _half_wins


def touch_distribution(n, weights, largest=None):
    """Return the exact law of H = sum_t a_t 1[i_t = k or i_{t-1} = k] for weights a_t and fixed k.

    The state of the dynamic programme is the value of H so far and whether i_{t-1} = k. With
    `largest`, the last cell holds the probability of H >= largest.
    """
    top = int(np.sum(weights)) if largest is None else min(int(np.sum(weights)), largest)
    hit = 1.0 / n
    # Row 0: i_{t-1} is another example; row 1: it is k.
    state = np.zeros((2, top + 1))
    state[:, 0] = 1.0 - hit, hit
    for weight in weights:
        grown = np.zeros_like(state)
        at = np.minimum(np.arange(top + 1) + int(weight), top)
        for row in range(2):
            grown[row] = np.bincount(at, state[row], minlength=top + 1)
        # H stays in the event (other, other) only.
        state = np.stack([state[0] * (1.0 - hit) + grown[1] * (1.0 - hit), grown.sum(0) * hit])
    return state.sum(axis=0)


@pytest.fixture(name="touch_distribution")
def touch_distribution_fixture():
    return touch_distribution


@pytest.fixture
def pair_utility():
    """Return a function from scores and signs to each model's share of correctly ordered pairs."""

    def utility(scores, signs):
        table = read_table(scores)
        return 0.5 * _half_wins(table, is_label(signs, 1)) / (len(table) * (len(table) - 1))

    return utility
