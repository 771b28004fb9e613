# SPDX-License-Identifier: BSD-3-Clause
"""The metric kernels against the reference with a full eigendecomposition each step."""

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from pairlearn import (
    Ball,
    Constant,
    DistanceHinge,
    DistanceLogistic,
    FifoBuffer,
    InverseSqrt,
    LastIterate,
    LinearScore,
    MahalanobisScore,
    PairwiseSGD,
    PreviousExample,
    Problem,
    Tail,
    Uniform,
    WholeSpace,
    reference,
)
from pairlearn.averaging import DelayedByStepSize
from pairlearn.domains import PsdBall, PsdCone
from pairlearn.kernels.steps.eigenpair import negative_eigenpair
from pairlearn.solvers.descent.descent import Parts
from pairlearn.solvers.descent.mahalanobis import MahalanobisDescent

LOSSES = [DistanceHinge(), DistanceHinge(bias=0.0), DistanceLogistic()]
RULES = {
    "step_size": DelayedByStepSize(),
    "uniform": Uniform(),
    "tail:0.5": Tail(0.5),
    "last": LastIterate(),
}


def task(d=6, n=40, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n).astype(float)
    X = rng.normal(size=(n, d)) * np.linspace(0.3, 1.5, d) + rng.normal(size=(3, d))[y.astype(int)]
    return X, y


def start_of(kind, d, rng):
    if kind == "full":
        return np.eye(d) / (3 * d)
    if kind == "diagonal":
        return np.full(d, 1.0 / (3 * d))
    return rng.normal(size=(d, 2)) / d


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("radius", [np.inf, 0.3])
@pytest.mark.parametrize("loss", LOSSES, ids=["hinge", "hinge_no_bias", "logistic"])
@pytest.mark.parametrize("kind", ["full", "diagonal", "low_rank", "every"])
def test_solver_is_the_reference(kind, loss, radius, rule):
    X, y = task()
    period = 1
    if kind == "every":
        kind, period = "full", 7
    score = MahalanobisScore(kind, rank=2 if kind == "low_rank" else None)
    start = start_of(kind, 6, np.random.default_rng(1))
    choice = {"projection": "every", "period": period} if period > 1 else {}
    domain = PsdCone(**choice) if np.isinf(radius) else PsdBall(radius, **choice)
    schedule = InverseSqrt(0.1)
    solver = PairwiseSGD(PreviousExample(), schedule, domain, RULES[rule])
    n_steps = 150
    solution = solver.solve(Problem(score, loss), X, y, n_steps=n_steps, rng=5, w_start=start)
    plan = PreviousExample().offline(len(y), np.random.default_rng(5)).draw(n_steps)
    steps = schedule.step_sizes(1, n_steps)
    iterates = reference.mahalanobis_sgd(
        loss,
        X,
        y,
        pairs=list(zip(plan.left, plan.right, strict=True)),
        step_sizes=steps,
        start=start,
        parameterization=kind,
        radius=radius,
        period=period,
    )
    np.testing.assert_allclose(solution.w, iterates[-1].ravel(), atol=1e-10)
    expected = reference.average_of(iterates, steps, rule)
    np.testing.assert_allclose(solution.average, expected.ravel(), atol=1e-10)


@pytest.mark.parametrize(("d", "step_size"), [(20, 0.002), (40, 0.02)])
def test_exact_projection_over_many_steps(d, step_size):
    X, y = task(d=d, n=200)
    n_steps = 2000
    solver = PairwiseSGD(
        schedule=Constant(step_size / d), domain=PsdCone(), averaging=LastIterate()
    )
    problem = Problem(MahalanobisScore(), DistanceHinge())
    start = np.eye(d) / d
    found = solver.solve(problem, X, y, n_steps=n_steps, rng=0, w_start=start).w.reshape(d, d)
    plan = PreviousExample().offline(len(y), np.random.default_rng(0)).draw(n_steps)
    expected = reference.mahalanobis_sgd(
        DistanceHinge(),
        X,
        y,
        pairs=list(zip(plan.left, plan.right, strict=True)),
        step_sizes=np.full(n_steps, step_size / d),
        start=start,
    )[-1]
    np.testing.assert_allclose(found, expected, atol=1e-8 * np.abs(expected).max())
    np.testing.assert_array_equal(found, found.T)
    assert np.linalg.eigvalsh(found)[0] >= -1e-10 * np.abs(found).max()


@given(
    seed=st.integers(0, 10**6),
    d=st.integers(1, 12),
    rank=st.integers(0, 12),
    log_c=st.floats(-6.0, 3.0),
    along=st.sampled_from(["any", "range", "eigenvector", "null"]),
)
@settings(max_examples=300)
def test_the_negative_eigenpair(seed, d, rank, log_c, along):
    """One step equals a full eigendecomposition, for singular and regular W and any direction."""
    rng = np.random.default_rng(seed)
    rank = min(rank, d)
    Q = np.linalg.qr(rng.normal(size=(d, d)))[0]
    values = np.concatenate([rng.exponential(size=rank), np.zeros(d - rank)])
    W = (Q * values) @ Q.T
    W = 0.5 * (W + W.T)
    v = rng.normal(size=d)
    if along == "range" and rank:
        v = W @ v
    elif along == "eigenvector":
        v = Q[:, 0].copy()
    elif along == "null" and rank < d:
        v = Q[:, -1].copy()
    c = 10.0**log_c
    q, counts = np.zeros(d), np.zeros(2, dtype=np.int64)
    scratch = [np.zeros(d) for _ in range(3)]
    mu = negative_eigenpair(
        W.ravel(), v, W @ v, float(v @ v), c, d, np.zeros(d * d), *scratch, q, counts
    )
    A = W - c * np.outer(v, v)
    eigenvalues, vectors = np.linalg.eigh(A)
    size = max(np.abs(eigenvalues).max(), 1e-300)
    # The law behind the method: at most one eigenvalue is negative.
    assert np.count_nonzero(eigenvalues < -1e-12 * size) <= 1
    expected = (vectors * np.maximum(eigenvalues, 0.0)) @ vectors.T
    found = A + mu * np.outer(q, q) if mu > 0 else A
    np.testing.assert_allclose(found, expected, atol=2e-11 * size)
    assert counts[1] <= d


@given(
    seed=st.integers(0, 10**6),
    d=st.integers(2, 8),
    log_gap=st.floats(-6.0, -1.0),
    sign=st.sampled_from([-1.0, 1.0]),
)
@settings(max_examples=150)
def test_a_small_negative_eigenvalue_is_not_missed(seed, d, log_gap, sign):
    """W - c v v' is singular for c = 1 / v' inv(W) v; just beyond, one eigenvalue is negative."""
    rng = np.random.default_rng(seed)
    Q = np.linalg.qr(rng.normal(size=(d, d)))[0]
    W = (Q * rng.uniform(0.1, 1.0, size=d)) @ Q.T
    W = 0.5 * (W + W.T)
    v = rng.normal(size=d)
    c = (1.0 + sign * 10.0**log_gap) / float(v @ np.linalg.solve(W, v))
    q, counts = np.zeros(d), np.zeros(2, dtype=np.int64)
    scratch = [np.zeros(d) for _ in range(3)]
    mu = negative_eigenpair(
        W.ravel(), v, W @ v, float(v @ v), c, d, np.zeros(d * d), *scratch, q, counts
    )
    smallest = np.linalg.eigvalsh(W - c * np.outer(v, v))[0]
    assert mu == pytest.approx(max(-smallest, 0.0), rel=1e-6, abs=1e-13)


def test_a_full_eigenvalue_costs_no_iterations():
    X, y = task(d=8)
    parts = Parts(
        Problem(MahalanobisScore(), DistanceHinge()), Constant(1e-6), PsdCone(), LastIterate()
    )
    descent = MahalanobisDescent(parts, 8, w_start=np.eye(8), horizon=500)
    plan = PreviousExample().offline(len(y), np.random.default_rng(0)).draw(500)
    from pairlearn.solvers.rows import as_rows

    descent.advance(as_rows(X), y, plan)
    assert descent.counts.tolist() == [0, 0]
    assert 0.9 < descent._floor[0] < 1.0


@pytest.mark.parametrize("kind", ["full", "diagonal", "low_rank", "every"])
def test_a_stream_does_not_depend_on_its_chunks(kind):
    X, y = task(n=120)
    domain = PsdCone(projection="every", period=7) if kind == "every" else PsdCone()
    kind = "full" if kind == "every" else kind
    score = MahalanobisScore(kind, rank=2 if kind == "low_rank" else None)
    start = start_of(kind, 6, np.random.default_rng(1))
    results = []
    for size in (120, 50, 7, 0):
        stream = PairwiseSGD(schedule=Constant(0.02), domain=domain).start(
            Problem(score, DistanceHinge()), 6, rng=0, w_start=start
        )
        if size:
            for begin in range(0, 120, size):
                stream.learn_many(X[begin : begin + size], y[begin : begin + size])
        else:
            for row, label in zip(X, y, strict=True):
                stream.learn_one(row, label)
        results.append((stream.w, stream.average))
    # Between projections steps are made four at a time, and a chunk may end within the four.
    tolerance = 1e-14 if domain.projection == "every" else 0.0
    for w, average in results[1:]:
        np.testing.assert_allclose(w, results[0][0], rtol=0.0, atol=tolerance)
        np.testing.assert_allclose(average, results[0][1], atol=1e-14)


@given(seed=st.integers(0, 10**6), d=st.integers(1, 6), radius=st.floats(0.1, 5.0))
def test_projection_is_idempotent_and_nonexpansive(seed, d, radius):
    rng = np.random.default_rng(seed)
    A, B = (M + M.T for M in rng.normal(size=(2, d, d)))
    for domain in (PsdCone(), PsdBall(radius)):
        PA, PB = domain.project(A), domain.project(B)
        assert np.linalg.eigvalsh(PA)[0] >= -1e-12
        assert np.linalg.norm(PA) <= domain.radius * (1 + 1e-12)
        np.testing.assert_allclose(domain.project(PA), PA, atol=1e-12)
        assert np.linalg.norm(PA - PB) <= np.linalg.norm(A - B) * (1 + 1e-9)


def test_callbacks_see_the_risk():
    X, y = task()
    seen = []
    PairwiseSGD(schedule=Constant(0.01), domain=PsdCone()).solve(
        Problem(MahalanobisScore(), DistanceHinge()),
        X,
        y,
        n_steps=100,
        rng=0,
        callbacks=[lambda run: seen.append((run.step, run.risk, run.average.shape))],
    )
    assert seen[0][0] == 100
    assert np.isfinite(seen[0][1])
    assert seen[0][2] == (X.shape[1] ** 2,)


def test_bad_combinations_are_refused():
    X, y = task()
    metric = Problem(MahalanobisScore(), DistanceHinge())
    for domain in (WholeSpace(), Ball(1.0)):
        with pytest.raises(ValueError, match=r"use PsdCone\(\) or PsdBall"):
            PairwiseSGD(domain=domain).solve(metric, X, y, n_steps=1)
    with pytest.raises(ValueError, match="one pair at a step"):
        PairwiseSGD(FifoBuffer(3), domain=PsdCone()).solve(metric, X, y, n_steps=5)
    with pytest.raises(ValueError, match="is a set of matrices"):
        PairwiseSGD(domain=PsdCone()).solve(
            Problem(LinearScore(), DistanceHinge()), X, y, n_steps=1
        )
    low = Problem(MahalanobisScore("low_rank", rank=2), DistanceHinge())
    with pytest.raises(ValueError, match="cannot leave zero"):
        PairwiseSGD(domain=PsdCone()).solve(low, X, y, n_steps=1)
    with pytest.raises(ValueError, match="rank must be at most"):
        MahalanobisScore("low_rank", rank=9).n_parameters(6)
    with pytest.raises(ValueError, match="needs the rank"):
        MahalanobisScore("low_rank")
    with pytest.raises(ValueError, match='needs parameterization="low_rank"'):
        MahalanobisScore("full", rank=2)
    with pytest.raises(ValueError, match="parameterization must be one of"):
        MahalanobisScore("sparse")
    with pytest.raises(ValueError, match="quadratic in the factor"):
        low.constants(norm_bound=1.0)
    with pytest.raises(ValueError, match='needs projection="every"'):
        PsdCone(period=5)
    with pytest.raises(ValueError, match='"exact" or "every"'):
        PsdCone(projection="sometimes")
    with pytest.raises(ValueError, match="square matrix"):
        PsdCone().project(np.ones(3))
    with pytest.raises(ValueError, match="dense rows"):
        PairwiseSGD(domain=PsdCone()).solve(metric, scipy.sparse.csr_array(X), y, n_steps=1)


def test_constants():
    constants = Problem(MahalanobisScore(), DistanceLogistic()).constants(
        norm_bound=1.0, radius=2.0
    )
    assert constants.lipschitz == 4.0
    assert constants.smoothness == 4.0
    assert constants.supremum == pytest.approx(np.log1p(np.exp(7.0)))


def test_a_start_is_projected_or_refused(rng):
    X, y = rng.normal(size=(10, 2)), np.arange(10) % 2.0
    lopsided = np.array([[2.0, 1.0], [0.0, 2.0]])
    projected = PsdCone().project(lopsided)
    assert np.array_equal(projected, [[2.0, 0.5], [0.5, 2.0]])
    assert PsdCone().project(projected) is projected
    solver = PairwiseSGD(schedule=Constant(0.01), domain=PsdBall(1.0))
    for start in (lopsided, -lopsided, [[0.0, 3.0], [3.0, 0.0]]):
        found = solver.solve(
            Problem(MahalanobisScore(), DistanceHinge()), X, y, w_start=start, n_steps=1, rng=0
        )
        W = found.average.reshape(2, 2)
        assert np.array_equal(W, W.T)
        assert np.linalg.norm(W) <= 1.0 + 1e-12
        assert np.linalg.eigvalsh(W)[0] >= -1e-12
    low_rank = Problem(MahalanobisScore("low_rank", 1), DistanceHinge())
    with pytest.raises(ValueError, match="w_start is zero"):
        solver.solve(low_rank, X, y, w_start=np.zeros((2, 1)), n_steps=1)
