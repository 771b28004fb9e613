# SPDX-License-Identifier: BSD-3-Clause
"""Step sizes and weights of blocks, against those of one long run cut into pieces."""

import numpy as np
import pytest

from pairlearn.averaging import ByStepSize, DelayedByStepSize, DelayedLinear, LastIterate, Uniform
from pairlearn.schedules import Constant, InverseSqrt
from pairlearn.solvers.block_sizes import BLOCK, BlockSizes

HORIZON = 3 * BLOCK + 1_234


@pytest.mark.parametrize("horizon", [HORIZON, None])
@pytest.mark.parametrize("schedule", [Constant(0.1), InverseSqrt(0.1)])
@pytest.mark.parametrize(
    "rule", [DelayedByStepSize(), ByStepSize(), DelayedLinear(), Uniform(), LastIterate()]
)
def test_each_block_has_its_own_part_of_the_whole(rule, schedule, horizon):
    sizes = BlockSizes(schedule, rule, horizon)
    steps = schedule.step_sizes(1, HORIZON)
    owed = rule.owed(schedule, 1, HORIZON, horizon=HORIZON)
    for block in range(4):
        first, stop = block * BLOCK, min((block + 1) * BLOCK, HORIZON)
        for reached in (100, stop - first):
            sizes.open(block, reached)
            assert len(sizes.paid) >= reached
            np.testing.assert_array_equal(
                sizes.step_sizes[:reached], steps[first : first + reached]
            )
            expected = np.add.accumulate(owed[first : first + reached])
            np.testing.assert_array_equal(sizes.paid[:reached], expected)
