# SPDX-License-Identifier: BSD-3-Clause
"""The loss over comparable pairs of survival times against all pairs written out."""

import numpy as np
import pytest
from scipy.optimize import minimize

from pairlearn import Hinge, Logistic, SquaredHinge
from pairlearn.metrics.concordance import comparable_pairs, survival_times
from pairlearn.solvers.exact import survival
from pairlearn.solvers.exact.survival import SurvivalObjective
from pairlearn.solvers.rows import as_rows


def example(seed, n=25, d=3):
    rng = np.random.default_rng(seed)
    event, time = rng.random(n) < 0.6, rng.integers(0, 9, n).astype(float)
    event[0], time[0], time[1] = True, 0.0, 9.0
    return rng.normal(size=(n, d)), event, time, rng.uniform(0.1, 2.0, n), rng.uniform(1.0, 3.0, n)


def plain(loss, X, event, time, weight, mass, w):
    value = total = 0.0
    for i in np.flatnonzero(event):
        for j in range(len(time)):
            if time[j] > time[i] or (time[j] == time[i] and not event[j]):
                margin, own = (X[i] - X[j]) @ w, mass[i] * weight[j]
                one = np.logaddexp(0.0, -margin)
                if isinstance(loss, SquaredHinge):
                    one = max(loss.margin - margin, 0.0) ** 2
                value, total = value + own * one, total + own
    return value / total


def objective(loss, X, event, time, weight, mass):
    pairs = comparable_pairs(survival_times(np.column_stack((event, time))))
    return SurvivalObjective(as_rows(X), pairs, loss, weight, mass * event)


@pytest.mark.parametrize("loss", [SquaredHinge(), SquaredHinge(margin=0.3), Logistic()])
@pytest.mark.parametrize("seed", range(4))
def test_value_and_gradient_are_those_of_all_pairs(loss, seed):
    X, event, time, weight, mass = example(seed)
    X = np.round(X, 1)  # scores have ties
    w = np.array([0.5, -1.0, 0.0])
    value, gradient = objective(loss, X, event, time, weight, mass).risk(w)
    given = (loss, X, event, time, weight, mass)
    assert value == pytest.approx(plain(*given, w), rel=1e-11)
    for k, step in enumerate(1e-6 * np.eye(3)):
        slope = (plain(*given, w + step) - plain(*given, w - step)) / 2e-6
        assert gradient[k] == pytest.approx(slope, abs=1e-7)


@pytest.mark.parametrize("seed", range(3))
def test_the_scatter_is_that_of_all_pairs(seed):
    X, event, time, weight, mass = example(seed)
    found, total = np.zeros((3, 3)), 0.0
    for i in np.flatnonzero(event):
        for j in np.flatnonzero((time > time[i]) | ((time == time[i]) & ~event)):
            own = mass[i] * weight[j]
            found, total = found + own * np.outer(X[i] - X[j], X[i] - X[j]), total + own
    scatter = objective(SquaredHinge(), X, event, time, weight, mass)._scatter
    np.testing.assert_allclose(scatter, found / total, rtol=1e-11)


@pytest.mark.parametrize("loss", [SquaredHinge(), Logistic()])
def test_the_minimum_is_that_of_another_search(loss):
    X, event, time, weight, mass = example(5)
    found, _ = objective(loss, X, event, time, weight, mass).minimise(0.05)
    other = minimize(
        lambda w: plain(loss, X, event, time, weight, mass, w) + 0.05 * w @ w, np.zeros(3)
    )
    assert found == pytest.approx(other.x, abs=1e-4)


def test_sparse_rows_have_the_same_minimum():
    import scipy.sparse

    X, event, time, weight, mass = example(6)
    X[np.abs(X) < 0.5] = 0.0
    dense, _ = objective(SquaredHinge(), X, event, time, weight, mass).minimise(0.1)
    sparse = scipy.sparse.csr_array(X)
    found, _ = objective(SquaredHinge(), sparse, event, time, weight, mass).minimise(0.1)
    assert found == pytest.approx(dense, abs=1e-4)


def test_what_is_refused(monkeypatch):
    given = example(0)
    with pytest.raises(ValueError, match="Hinge"):
        objective(Hinge(), *given)
    monkeypatch.setattr(survival, "MOST_PAIRS", 10)
    with pytest.raises(ValueError, match="visits every pair"):
        objective(Logistic(), *given)
