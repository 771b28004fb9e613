# SPDX-License-Identifier: BSD-3-Clause
"""The survival ranker by steps over compared pairs: stored examples, streams, refusals."""

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse

from pairlearn import (
    SGD,
    ConcordanceIndex,
    Constant,
    Exact,
    FifoBuffer,
    LinearScore,
    Logistic,
    Moments,
    PairwiseSGD,
    Problem,
    SurvivalRanker,
)
from pairlearn.comparisons import EarlierEvent, signed_times
from pairlearn.estimators.survival import pair_labels
from pairlearn.metrics.concordance import censoring_free, comparable_pairs, survival_times
from pairlearn.solvers.exact.survival import SurvivalObjective
from pairlearn.solvers.rows import DenseRows

SLOPES = np.array([1.0, -0.5, 0.0])


def simulated(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    time, end = rng.exponential(np.exp(-X @ SLOPES)), rng.exponential(2.0, size=n)
    return X, np.column_stack((time <= end, np.minimum(time, end)))


X, Y = simulated(900)
GIVEN = SGD(step_size=0.05, n_passes=5)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "logistic"])
@pytest.mark.parametrize("pairing", ["previous", "shuffled", "random"])
@pytest.mark.thorough
def test_each_loss_and_pairing_orders_as_the_exact_solver_does(loss, pairing):
    exact = SurvivalRanker(random_state=0).fit(X[:600], Y[:600])
    steps = SurvivalRanker(loss, solver=SGD(pairing=pairing, n_passes=50), random_state=0)
    steps.fit(X[:600], Y[:600])
    best = exact.score(X[600:], Y[600:])
    assert steps.score(X[600:], Y[600:]) == pytest.approx(best, abs=0.01)
    assert steps.solver_ == "sgd"
    assert steps.ridge_ is None
    assert steps.held_out_concordance_ == max(one.auc for one in steps.choice_.tried)
    assert steps.predict_survival_function(X[:2], [0.1, 0.5]).shape == (2, 2)


def test_it_is_the_core_solver_with_the_comparison():
    ranker = SurvivalRanker("logistic", solver=GIVEN, scaling=None, tau=1.5, random_state=3)
    found = ranker.fit(X, Y)
    problem = Problem(LinearScore(), Logistic(), EarlierEvent(1.5))
    alike = [
        PairwiseSGD(schedule=Constant(0.05))
        .solve(problem, X, signed_times(Y[:, 0], Y[:, 1]), n_steps=4500, rng=seed)
        .average
        for seed in range(5)
    ]
    far = max(np.linalg.norm(a - b) for a, b in pairwise(alike))
    assert np.linalg.norm(found.coef_ - np.mean(alike, axis=0)) < 2.0 * far
    assert found.n_steps_ == 4500
    assert 0 < found.n_gradients_ < 4500
    assert found.n_events_ == int(((Y[:, 0] == 1.0) & (Y[:, 1] < 1.5)).sum())


@pytest.mark.parametrize(("ipcw", "tau"), [(True, None), (True, 0.8), (False, 0.8)])
@pytest.mark.parametrize("rounded", [False, True])
def test_the_mean_over_pairs_is_the_objective_of_the_exact_solver(ipcw, tau, rounded):
    rng = np.random.default_rng(1)
    y = survival_times(Y[:120])
    if rounded:
        y["time"] = np.round(y["time"], 1)
    weight, w = rng.uniform(0.5, 2.0, 120), rng.normal(size=X.shape[1])
    labels = pair_labels(y, ConcordanceIndex(ipcw, tau), weight)
    problem = Problem(LinearScore(), Logistic(), EarlierEvent(weighed=ipcw))
    first, second = (side.ravel() for side in np.indices((120, 120)))
    scores, both = X[:120] @ w, weight[first] * weight[second]
    costs = problem.value.many(scores[first] - scores[second], labels[first], labels[second])
    shares = np.abs(problem.comparison.directions(labels[first], labels[second]))
    pairs = comparable_pairs(y, tau)
    mass = weight * pairs.event * (censoring_free(y, weight) ** -2.0 if ipcw else 1.0)
    exact = SurvivalObjective(DenseRows(X[:120]), pairs, Logistic(), weight, mass)
    assert both @ costs / (both @ shares) == pytest.approx(exact.risk(w)[0], rel=1e-12)
    # and each pair weighs what the exact solver gives it, but for one common factor
    ratio = np.abs(labels[pairs.event]) / (mass / weight)[pairs.event]
    assert np.ptp(ratio) < 1e-12 * ratio.max() if ipcw else True
    assert (pairs.event == ~np.signbit(labels)).all()


def test_steps_over_weighed_pairs_come_to_the_exact_minimum():
    y = np.column_stack((Y[:, 0], Y[:, 1]))
    # the effect of the first feature fades, so that weights of late pairs matter
    late = y[:, 1] > np.median(y[:, 1])
    Z = np.where(late[:, None], X[:, ::-1], X)
    common = {"loss": "logistic", "tau": 1.5, "scaling": None}
    solver = SGD(step_size=0.02, n_passes=2000, pairing="random")
    found = {}
    for ipcw in (False, True):
        exact = SurvivalRanker(solver=Exact(ridge=0.0), ipcw=ipcw, **common).fit(Z, y).coef_
        steps = SurvivalRanker(solver=solver, ipcw=ipcw, random_state=0, **common).fit(Z, y).coef_
        assert steps == pytest.approx(exact, abs=0.1 * np.linalg.norm(exact))
        found[ipcw] = exact, steps
    apart = np.linalg.norm(found[True][0] - found[False][0])
    assert apart > 2.0 * np.linalg.norm(found[True][1] - found[True][0])
    chosen = SurvivalRanker(solver="sgd", ipcw=True, tau=1.5, random_state=0).fit(Z, y)
    assert chosen.held_out_concordance_ == max(one.auc for one in chosen.choice_.tried)
    assert chosen.score(Z, y) == ConcordanceIndex(True, 1.5)(y, chosen.predict(Z))


def test_times_of_any_sign_have_an_order():
    ranker = SurvivalRanker(solver=GIVEN, random_state=0, tau=2.0)
    late = np.column_stack((Y[:, 0], Y[:, 1] - 5.0))
    expected = ranker.fit(X, Y).coef_
    moved = SurvivalRanker(solver=GIVEN, random_state=0, tau=-3.0).fit(X, late)
    assert moved.coef_ == pytest.approx(expected, rel=1e-12)


def test_sparse_rows_maps_and_weights():
    dense = SurvivalRanker(solver=GIVEN, scaling=None, random_state=0).fit(X, Y)
    rows = scipy.sparse.csr_array(X)
    sparse = SurvivalRanker(solver=GIVEN, scaling=None, random_state=0).fit(rows, Y)
    assert sparse.coef_ == pytest.approx(dense.coef_, rel=1e-9)
    weight = np.where(np.arange(len(X)) % 3 > 0, 2.0, 0.0)
    some = weight > 0
    one = SurvivalRanker(solver=GIVEN, random_state=0).fit(X, Y, sample_weight=weight)
    other = SurvivalRanker(solver=GIVEN, random_state=0).fit(X[some], Y[some])
    assert one.coef_ == pytest.approx(other.coef_, rel=1e-9)
    slow = SGD(step_size=1e-3, n_passes=5)
    curve = SurvivalRanker(features="hats", solver=slow, random_state=0).fit(X, Y)
    assert len(curve.coef_) > 3
    buffer = SGD(step_size=0.05, n_passes=5, pairing=FifoBuffer(5))
    near = SurvivalRanker(solver=buffer, random_state=0).fit(X, Y)
    assert near.score(X, Y) == pytest.approx(dense.score(X, Y), abs=0.01)


def test_what_is_refused():
    for solver, message in (
        (Moments(), "needs two classes; use solver='exact' or 'sgd'"),
        (SGD(step_size="theory"), "SurvivalRanker has no such bound"),
        (SGD(pairing="opposite"), "pairs by classes"),
        (SGD(pairing="class_reservoirs"), "pairs by classes"),
        (SGD(pairing=FifoBuffer(3)), "give a step size"),
    ):
        with pytest.raises(ValueError, match=message):
            SurvivalRanker(solver=solver).fit(X, Y)
    with pytest.raises(ValueError, match=r"too few events \(1\) to choose a step size"):
        SurvivalRanker(solver="sgd").fit(X[:9], np.column_stack((np.arange(9) == 0, np.arange(9))))
    assert SurvivalRanker(solver=Exact(ridge=0.1)).fit(X, Y).step_size_ is None
