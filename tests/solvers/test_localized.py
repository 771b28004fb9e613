# SPDX-License-Identifier: BSD-3-Clause
"""Algorithm 4 against its reference, and its stages."""

import math

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

from pairlearn import (
    Ball,
    DivergenceError,
    Hinge,
    LinearScore,
    Logistic,
    PreviousExample,
    Problem,
    reference,
    scalar,
)
from pairlearn.metrics import roc_auc
from pairlearn.solvers.descent.localized import LocalizedSGD, localized_stages


def sample(n=60, d=5, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.7)
    y = np.where(X[:, 0] + 0.5 * rng.normal(size=n) > 0, 1.0, -1.0)
    return X, y


def expected(loss, X, y, solver, seed):
    """Deal and draw as the solver does, then run the reference."""
    rng = np.random.default_rng(seed)
    n = len(y)
    order = rng.permutation(n)
    stages = []
    for stage in localized_stages(n, locality=solver.locality, n_passes=solver.n_passes):
        members, order = order[: stage.n_examples], order[stage.n_examples :]
        plan = PreviousExample().offline(len(members), rng).draw(stage.n_steps)
        pairs = list(zip(members[plan.left], members[plan.right], strict=True))
        stages.append((pairs, stage.locality, stage.n_examples))
    return reference.localized_sgd(
        loss, X, y, stages=stages, project=Ball(solver.radius).project, w_start=np.zeros(X.shape[1])
    )


@pytest.mark.parametrize("storage", ["dense", "csr"])
@pytest.mark.parametrize("n_passes", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("radius", [0.3, 100.0])
@pytest.mark.parametrize("loss", [Hinge(), Hinge(one_sided=True), Logistic()], ids=repr)
def test_equals_the_reference(loss, radius, n_passes, storage):
    X, y = sample()
    solver = LocalizedSGD(radius, locality=0.2, n_passes=n_passes)
    given_rows = scipy.sparse.csr_array(X) if storage == "csr" else X
    found = solver.solve(Problem(LinearScore(), loss), given_rows, y, rng=5)
    wanted = expected(loss, X, y, solver, 5)[-1]
    np.testing.assert_allclose(found.average, wanted, rtol=1e-12, atol=1e-14)


class BreaksFarOut(Logistic):
    """A loss that is NaN where a score is large."""

    @scalar
    def derivative(score, y, y_partner, _):  # noqa: N805
        if abs(score) > 50.0:
            return math.nan
        return -0.5 if y > y_partner else 0.5


@pytest.mark.parametrize("storage", ["dense", "csr"])
def test_a_loss_that_breaks_is_named_with_its_step(storage):
    X, y = sample()
    X[7] = 1e6  # the first pair of this example, once w has moved, has a large score
    rows = scipy.sparse.csr_array(X) if storage == "csr" else X
    solver = LocalizedSGD(100.0, locality=0.2)
    rng = np.random.default_rng(1)
    stage = localized_stages(len(y), locality=0.2, n_passes=1.0)[0]
    members = rng.permutation(len(y))[: stage.n_examples]
    plan = PreviousExample().offline(len(members), rng).draw(stage.n_steps)
    pairs = np.column_stack([members[plan.left], members[plan.right]])
    active = y[pairs[:, 0]] != y[pairs[:, 1]]
    step = 1 + int(np.argmax(active & (pairs == 7).any(axis=1)))
    assert step > 5
    with pytest.raises(DivergenceError, match=f"BreaksFarOut returned NaN at step {step};"):
        solver.solve(Problem(LinearScore(), BreaksFarOut()), rows, y, rng=1)


def test_float32():
    X, y = sample()
    solver = LocalizedSGD(1.0, locality=0.2)
    found = solver.solve(Problem(LinearScore(), Hinge()), X.astype(np.float32), y, rng=5)
    wanted = expected(Hinge(), X.astype(np.float32).astype(float), y, solver, 5)[-1]
    np.testing.assert_allclose(found.average, wanted, rtol=1e-4, atol=1e-5)


@given(st.integers(4, 5000))
def test_stages_use_each_example_once(n):
    stages = localized_stages(n, locality=1.0)
    sizes = [stage.n_examples for stage in stages]
    assert sum(sizes) == n
    assert min(sizes) >= 2
    assert sizes[1:] == [n >> k for k in range(2, len(sizes) + 1)]
    assert n >> (len(sizes) + 1) < 2
    assert [stage.locality for stage in stages] == [0.5**k for k in range(1, len(sizes) + 1)]
    assert sum(stage.n_steps for stage in stages) == n


def test_gradients_and_default_locality():
    X, y = sample(n=2000)
    solver = LocalizedSGD(5.0)
    solution = solver.solve(Problem(LinearScore(), Hinge()), X, y, rng=0)
    assert solution.trace.n_gradients <= solution.trace.n_steps <= 2 * len(y)
    assert roc_auc(y, X @ solution.average) > roc_auc(y, X[:, 0]) - 0.01


@pytest.mark.parametrize("n", [2, 3])
def test_too_few_examples(n):
    with pytest.raises(ValueError, match=f"at least 4 examples, got {n}"):
        localized_stages(n, locality=1.0)


def test_bad_parameters():
    with pytest.raises(ValueError, match="radius must be a positive number"):
        LocalizedSGD(0.0)
    with pytest.raises(ValueError, match="locality must be a positive number"):
        LocalizedSGD(1.0, locality=-1.0)
    with pytest.raises(ValueError, match="nothing to learn"):
        LocalizedSGD(1.0).solve(Problem(LinearScore(), Hinge()), np.zeros((8, 2)), np.ones(8))


@pytest.mark.parametrize("radius", [0.3, 4.0])
def test_the_default_locality_is_the_diameter_over_g_and_the_root_of_n(radius):
    # The paper's D is the diameter of the ball, and the slope of a hinge pair at most 2 max |x|.
    X, y = sample()
    lipschitz = 2.0 * np.linalg.norm(X, axis=1).max()
    zeta = 2.0 * radius / (lipschitz * np.sqrt(len(y)))
    problem = Problem(LinearScore(), Hinge())
    found = LocalizedSGD(radius).solve(problem, X, y, rng=5)
    wanted = LocalizedSGD(radius, locality=zeta).solve(problem, X, y, rng=5)
    np.testing.assert_allclose(found.average, wanted.average, rtol=1e-12)
