# SPDX-License-Identifier: BSD-3-Clause
"""SPAUC on the device takes the steps of the kernel of the CPU, in the same precision."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("triton")

from benchmarks.table1_on_device.draws import draw_indices, draw_keys
from benchmarks.table1_on_device.saddle import descend_saddle

from pairlearn.averaging import Tail
from pairlearn.recipes import RECIPES
from pairlearn.schedules import InverseSqrt
from pairlearn.solvers.iterates import iterate_weights


def test_two_paths_of_different_lengths(rng):
    n, d, step_sizes = 12, 3, (0.1, 1.0)
    X = rng.normal(size=(n, d)).astype(np.float32)
    y = np.where(X[:, 0] > 0.3, 1.0, -1.0)
    scales = np.array([[1.0, 1.0, 1.0], [0.5, 2.0, 0.0]])
    lengths, schedule = (12, 24), InverseSqrt(1.0)
    paths = [
        draw_indices(draw_keys(np.random.default_rng(seed), 1), [count], n, "cpu")
        for seed, count in enumerate(lengths)
    ]
    found = descend_saddle(
        torch.from_numpy(X),
        torch.from_numpy(y > 0),
        paths,
        step_sizes=torch.tensor([step_sizes] * 2, dtype=torch.float64),
        shape=schedule.step_sizes(1, max(lengths)),
        shares=[iterate_weights(Tail(0.4), schedule, count) for count in lengths],
        scales=torch.from_numpy(scales),
    )
    for seed, count in enumerate(lengths):
        for k, step_size in enumerate(step_sizes):
            expected = RECIPES["spauc"].solve(
                X.astype(np.float64) * scales[seed], y, step_size=step_size, n_passes=count / n,
                rng=seed,
            )  # fmt: skip
            assert np.abs(found[seed, k].numpy() - expected.average).max() < 1e-12
