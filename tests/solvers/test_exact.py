# SPDX-License-Identifier: BSD-3-Clause
"""Exact minimisers of the pair risk."""

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from pairlearn import Hinge, Logistic, SmoothedHinge, Square, SquaredHinge
from pairlearn.losses import LogLink
from pairlearn.metrics import pair_risk, pair_risk_gradient
from pairlearn.solvers.exact import batch
from pairlearn.solvers.exact.batch import ExactSolver, PairObjective, pair_mean
from pairlearn.solvers.rows import DenseRows, as_rows
from pairlearn.solvers.top.objectives import PartialArea, TopObjective

LOSSES = [
    SquaredHinge(),
    SquaredHinge(margin=0.3),
    SquaredHinge(one_sided=True),
    Square(),
    SmoothedHinge(),
    Logistic(),
]


def sample(n=150, d=4, seed=0):
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(n) < 0.3, 1.0, -1.0)
    X = rng.normal(size=(n, d)) * np.logspace(0, 2, d)
    X[:, 0] += y
    return X, y


def brute_force(loss, scores, positive):
    """Return the mean loss over opposite pairs and its derivatives, pair by pair."""
    total, slopes = 0.0, np.zeros(len(scores))
    up, down = np.flatnonzero(positive), np.flatnonzero(~positive)
    for i in up:
        for j in down:
            gap = float(scores[i] - scores[j])
            total += loss.value(gap, 1.0, -1.0, loss.parameter)
            slope = loss.derivative(gap, 1.0, -1.0, loss.parameter)
            slopes[i] += slope
            slopes[j] -= slope
    n_pairs = len(up) * len(down)
    return total / n_pairs, slopes / n_pairs


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@settings(deadline=None)
@given(
    hnp.arrays(float, st.integers(2, 12), elements=st.floats(-3, 3, width=32)),
    st.integers(0, 2**12 - 1),
)
def test_mean_over_pairs_against_brute_force(loss, scores, bits):
    positive = np.array([bits >> k & 1 for k in range(len(scores))], dtype=bool)
    positive[0], positive[-1] = True, False
    value, slopes = pair_mean(loss, positive)(scores)
    wanted, wanted_slopes = brute_force(loss, scores, positive)
    np.testing.assert_allclose(value, wanted, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(slopes, wanted_slopes, rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("spread", ["normal", "ties", "outlier", "constant"])
def test_squared_hinge_whatever_the_spread(spread):
    """Ties and outliers go another way through the sort."""
    rng = np.random.default_rng(0)
    scores = rng.normal(size=2000)
    if spread == "ties":
        scores = np.round(scores)
    elif spread == "outlier":
        scores[0] = 1e9
    elif spread == "constant":
        scores[:] = 0.25
    y = np.where(rng.random(2000) < 0.2, 1.0, -1.0)
    y[0] = -1.0
    n, up = 2000, np.count_nonzero(y > 0)
    factor = n * (n - 1) / (2 * up * (n - up))
    value, slopes = pair_mean(SquaredHinge(), y > 0)(scores)
    np.testing.assert_allclose(value, factor * pair_risk("squared_hinge", scores, y), rtol=1e-12)
    wanted = factor * pair_risk_gradient("squared_hinge", scores, y)
    np.testing.assert_allclose(slopes, wanted, rtol=1e-11, atol=1e-18)


@pytest.mark.parametrize("ridge", [0.0, 0.01])
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_gradient_vanishes_at_the_minimiser(loss, ridge):
    X, y = sample()
    solution = ExactSolver(loss, ridge=ridge, tolerance=1e-15).solve(X, y)
    w = solution.w
    _, slopes = pair_mean(loss, y > 0)(X @ w)
    gradient = X.T @ slopes + 2 * ridge * w
    scale = np.abs(X).T @ np.abs(slopes)
    assert (np.abs(gradient) <= 1e-5 * scale).all()
    assert solution.trace.n_gradients > 0


def test_sparse_rows_and_float32_give_the_same():
    X, y = sample()
    X[np.abs(X) < 0.3] = 0.0
    dense = ExactSolver(tolerance=1e-14).solve(X, y).w
    sparse = ExactSolver(tolerance=1e-14).solve(scipy.sparse.csr_array(X), y).w
    np.testing.assert_allclose(sparse, dense, rtol=1e-4, atol=1e-7)
    single = ExactSolver(tolerance=1e-14).solve(X.astype(np.float32), y).w
    np.testing.assert_allclose(single, dense, rtol=1e-3, atol=1e-6)


def test_without_preconditioner(monkeypatch):
    X, y = sample()
    X /= np.logspace(0, 2, 4)
    wanted = ExactSolver(tolerance=1e-14).solve(X, y).w
    monkeypatch.setattr(batch, "_MOST_PRECONDITIONED", 1)
    found = ExactSolver(tolerance=1e-14).solve(X, y).w
    np.testing.assert_allclose(found, wanted, rtol=1e-4)
    found = ExactSolver(tolerance=1e-14).solve(X, y, w_start=wanted).w
    np.testing.assert_allclose(found, wanted, rtol=1e-4)


def test_a_feature_that_is_constant():
    X, y = sample()
    X = np.column_stack([X, np.ones(len(y))])
    found = ExactSolver(tolerance=1e-14).solve(X, y).w
    wanted = ExactSolver(tolerance=1e-14).solve(X[:, :4], y).w
    np.testing.assert_allclose(found[:4], wanted, rtol=1e-4)
    np.testing.assert_allclose(found[4], 0.0, atol=1e-6)


def test_bad_input():
    X, y = sample()
    with pytest.raises(ValueError, match="kink"):
        ExactSolver(Hinge())
    with pytest.raises(ValueError, match="convex"):
        ExactSolver(LogLink())
    with pytest.raises(ValueError, match="ridge"):
        ExactSolver(ridge=-1.0)
    with pytest.raises(ValueError, match="both of them"):
        ExactSolver().solve(X, np.ones(150))
    with pytest.warns(RuntimeWarning, match="max_iterations"):
        ExactSolver(max_iterations=1, tolerance=1e-15).solve(X, y)


# ------------------------------------------------------------------- fewer rows than features


def objectives(rows, y, loss):
    """The pair risk and, on it, an objective for the top with and without an anchor."""
    anchor = np.random.default_rng(1).normal(size=rows.shape[1])
    pairs = PairObjective(rows, y, loss)
    return {
        "pairs": pairs,
        "top": TopObjective(rows, y, loss, None, PartialArea(0.4)),
        "anchored": TopObjective(rows, y, loss, None, PartialArea(0.4), anchor),
    }


@pytest.mark.parametrize("name", ["pairs", "top", "anchored"])
@pytest.mark.parametrize("loss", [SquaredHinge(), Logistic()], ids=repr)
@pytest.mark.parametrize("sparse", [False, True])
def test_wide_rows_are_searched_in_their_span(monkeypatch, sparse, name, loss):
    """The same minimiser as in the space of all features, for a ridge that makes it unique."""
    X, y = sample(n=12, d=40)
    X[:, 7:15] = 0.0
    X[5] = X[4]  # rows that do not span as many directions as they are
    rows, precise = DenseRows(X), {"tolerance": 1e-15, "max_iterations": 5000}
    with monkeypatch.context() as without:
        without.setattr(batch, "_FEW", 0)
        plain, _ = objectives(rows, y, loss)[name].minimise(0.3, **precise)
    monkeypatch.setattr(batch, "_MANY", 20)
    if sparse:
        rows = as_rows(scipy.sparse.csr_array(X))
    wide = objectives(rows, y, loss)[name]
    w, _ = wide.minimise(0.3, **precise)
    # L-BFGS in all features ends at about eight digits of the risk, which is four of w
    assert wide._in_span is not None
    np.testing.assert_allclose(w, plain, rtol=1e-3, atol=1e-5 * np.abs(plain).max())


def test_what_no_row_sees_stays_without_a_ridge():
    X, y = sample(n=12, d=40)
    start = np.random.default_rng(1).normal(size=40)
    w, _ = PairObjective(DenseRows(X), y, SquaredHinge()).minimise(0.0, start)
    unseen = scipy.linalg.null_space(X)
    np.testing.assert_allclose(unseen.T @ w, unseen.T @ start, atol=1e-9)
    assert pair_mean(SquaredHinge(), y > 0)(X @ w)[0] < 1e-6


def test_rows_are_few_beside_twice_as_many_columns():
    X, y = sample(n=12, d=24)
    assert PairObjective(DenseRows(X), y, SquaredHinge())._in_span is not None
    assert PairObjective(DenseRows(X[:, 1:].copy()), y, SquaredHinge())._in_span is None


def test_moments_of_a_search_need_weight_in_both_classes():
    X, y = sample(n=90, d=40)
    with pytest.raises(ValueError, match="need examples of both classes"):
        ExactSolver().solve(X, y, example_weight=np.where(y > 0, 0.0, 1.0))


@pytest.mark.parametrize("d", [4, 40])
def test_classes_apart_without_a_ridge_end_at_no_loss_without_a_warning(d):
    X = np.random.default_rng(0).normal(size=(8, d))
    y = np.where(X[:, 0] > 0, 1.0, -1.0)
    w = ExactSolver(ridge=0.0).solve(X, y).w
    assert pair_mean(SquaredHinge(), y > 0)(X @ w)[0] < 1e-8
