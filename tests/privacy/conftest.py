# SPDX-License-Identifier: BSD-3-Clause
import pytest

from pairlearn.privacy.records import is_label, read_table
from pairlearn.privacy.selection import _half_wins


@pytest.fixture
def pair_utility():
    """Return a function from scores and signs to each model's share of correctly ordered pairs."""

    def utility(scores, signs):
        table = read_table(scores)
        return 0.5 * _half_wins(table, is_label(signs, 1)) / (len(table) * (len(table) - 1))

    return utility
