# SPDX-License-Identifier: BSD-3-Clause
"""The dense kernel rounds alike wherever its arrays lie in memory."""

import numpy as np
import pytest

from pairlearn import Square
from pairlearn.kernels.dense import descend

N = 2_000


def descend_in(memory, gap, d):
    """Run over a stream with all written arrays `gap` numbers apart, directly behind the rows."""
    rng = np.random.default_rng(0)
    X = memory[: N * d]
    X[:] = rng.normal(size=N * d)
    written, begin = [], N * d + gap
    for _ in range(4):
        written.append(memory[begin : begin + d])
        written[-1][:] = 0.0
        begin += d + gap
    steps = np.full(N - 1, 0.02)
    status = descend(
        X,
        np.tile([1.0, -1.0], N // 2),
        np.arange(1, N),
        np.arange(N - 1),
        steps,
        np.cumsum(steps),
        np.arange(N - 1, dtype=np.int32),
        N - 1,
        *written,
        np.zeros(1),
        0.8,
        Square().derivative.address,
        1.0,
    )
    assert status == 0
    w, weighted_sum, left_iterate, _ = written
    return np.concatenate([w, weighted_sum, left_iterate])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("d", [1, 3, 5, 8, 22, 40])
def test_neighbours_in_memory_do_not_change_a_bit(d, dtype):
    """Compiled for arrays that may overlap, close ones take a loop that rounds differently."""
    memory = np.zeros(N * d + 4 * (d + 200) + 200, dtype=dtype)
    apart = descend_in(memory, 200, d)
    for gap in (0, 1, 3, 8, 16, 31):
        assert np.array_equal(descend_in(memory, gap, d), apart), gap
