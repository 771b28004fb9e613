# SPDX-License-Identifier: BSD-3-Clause
"""The loop in C runs the algorithm that it is compared for."""

import numpy as np
import pytest
from benchmarks.c_loop import compiled, hinge_steps
from benchmarks.report import UnavailableError

from pairlearn.averaging import DelayedByStepSize
from pairlearn.domains import Ball
from pairlearn.losses import Hinge
from pairlearn.reference import pairwise_sgd
from pairlearn.schedules import Constant


@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-12), ("float32", 1e-4)])
@pytest.mark.parametrize("ahead", [0, 6])
@pytest.mark.parametrize("radius", [0.5, 1e6])
@pytest.mark.parametrize("d", [1, 8, 33])
def test_c_agrees_with_the_reference(dtype, tolerance, ahead, radius, d):
    try:
        descend = compiled(dtype, ahead)
    except UnavailableError as reason:
        pytest.skip(str(reason))
    rng = np.random.default_rng(0)
    n, n_steps, step_size = 40, 300, 0.1
    X = rng.normal(size=(n, d)).astype(dtype)
    y = rng.choice([-1.0, 1.0], size=n)
    path = rng.integers(n, size=n_steps + 1)
    steps = hinge_steps(X, y, path, step_size)
    descend(steps, radius, 1.0)

    step_sizes = np.full(n_steps, step_size)
    iterates = pairwise_sgd(
        Hinge(),
        X.astype(np.float64),
        y,
        partners=[(int(i), [int(j)]) for i, j in zip(path[1:], path[:-1], strict=True)],
        step_sizes=step_sizes,
        project=Ball(radius).project,
        w_start=np.zeros(d),
    )
    if radius < 1.0:
        assert np.isclose(np.linalg.norm(iterates, axis=1), radius).mean() > 0.3
    np.testing.assert_allclose(steps.w, iterates[-1], rtol=tolerance, atol=tolerance)
    owed = DelayedByStepSize().owed(Constant(step_size), 1, n_steps)
    expected = owed @ np.array(iterates[:-1])
    found = steps.weighted_sum + (steps.paid[-1] - steps.state[0]) * steps.w
    # The last iterate has no weight of its own yet; w_0 = 0 is owed eta_1 more, which adds 0.
    np.testing.assert_allclose(
        found, expected, rtol=tolerance, atol=tolerance * np.abs(expected).max()
    )
