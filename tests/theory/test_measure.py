# SPDX-License-Identifier: BSD-3-Clause
"""The compiled solver gives the measurements the models of the plain reference."""

import numpy as np
import pytest

from pairlearn.losses import Logistic
from pairlearn.reference import average_of
from pairlearn.theory import hinge_problem, run_path, square_problem
from pairlearn.theory.measure import _models


@pytest.mark.parametrize(
    "problem",
    [hinge_problem(2), square_problem(), hinge_problem(3, loss=Logistic())],
    ids=["hinge", "square", "logistic"],
)
@pytest.mark.parametrize("averaging", ["step_size", "last"])
def test_measured_models_are_those_of_the_reference(problem, averaging, rng):
    sample, step_size, n_steps = problem.draw(30, rng), 0.3, 400
    indices = rng.integers(30, size=n_steps + 1)
    steps = np.array([1, 2, 3, 17, 399, 400])
    found = _models(problem, sample, indices, step_size, steps, averaging)
    etas = np.full(n_steps, step_size)
    iterates = run_path(problem, sample, indices, etas)
    for row, t in enumerate(steps.tolist()):
        expected = average_of(iterates[: t + 1], etas[:t], averaging)
        np.testing.assert_allclose(found[row], expected, rtol=1e-12, atol=1e-13)
