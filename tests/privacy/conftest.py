# SPDX-License-Identifier: BSD-3-Clause
import numpy as np
import pytest

from pairlearn.metrics.auc import doubled_wins_weighted
from pairlearn.privacy.records import is_label, read_table


@pytest.fixture
def pair_utility():
    """Return a function from scores and signs to each model's share of correctly ordered pairs."""

    def utility(scores, signs):
        table = read_table(scores)
        positive, once = is_label(signs, 1), np.ones(len(table), dtype=np.int64)
        wins = np.array([doubled_wins_weighted(one, positive, once) for one in table.T])
        return 0.5 * wins / (len(table) * (len(table) - 1))

    return utility
