# SPDX-License-Identifier: BSD-3-Clause
"""Coordinatewise domains: their check, streams, copies, and what is refused."""

# ruff: noqa: N805

import math
import pickle
from dataclasses import dataclass

import numpy as np
import pytest
import scipy.sparse

from pairlearn import (
    Ball,
    Box,
    Constant,
    DivergenceError,
    ElasticNet,
    FifoBuffer,
    Hinge,
    InverseSqrt,
    LastIterate,
    LinearScore,
    Logistic,
    NonNegative,
    PairwiseSGD,
    Problem,
    Uniform,
    scalar,
)
from pairlearn.domains import CoordinatewiseDomain
from pairlearn.models.parts import decode, encode
from pairlearn.testing import check_domain

DOMAINS = [Box(-0.02, 0.05), NonNegative(), ElasticNet(0.1, 0.2)]
PROBLEM = Problem(LinearScore(), Logistic())


def sample(n=60, d=9, dtype=np.float64):
    rng = np.random.default_rng(0)
    X = (0.5 * rng.normal(size=(n, d))).astype(dtype)
    return X, np.where(X[:, 0] + 0.3 * rng.normal(size=n) > 0, 1.0, -1.0)


# ------------------------------------------------------------------------------- the check


@pytest.mark.parametrize("domain", [*DOMAINS, Box(-math.inf, 1.0), Box(0.5, 2.0), ElasticNet(1.0)])
def test_the_library_s_own_domains_pass(domain):
    check_domain(domain)


class Growing(CoordinatewiseDomain):
    @scalar
    def proximal(value, step_size, first, second):
        return 1.5 * value


class Turning(CoordinatewiseDomain):
    @scalar
    def proximal(value, step_size, first, second):
        return -value if value > 3.0 else value


class Forgetful(CoordinatewiseDomain):
    """A proximal step that says it is a projection."""

    @scalar
    def proximal(value, step_size, first, second):
        return value / (1.0 + step_size)


class Halving(CoordinatewiseDomain):
    @scalar
    def proximal(value, step_size, first, second):
        return 0.5 * value


class WrongWindow(CoordinatewiseDomain):
    """Coordinates of a narrow window are moved too far."""

    @scalar
    def proximal(value, step_size, first, second):
        return 1.0 if 2.01 < value < 2.05 else max(value, 0.0)


class NotANumber(CoordinatewiseDomain):
    @scalar
    def proximal(value, step_size, first, second):
        return value if value < 0.1 else math.nan


class LateNaN(CoordinatewiseDomain):
    """NaN from the fifth step of size 1 / sqrt(t) on."""

    @scalar
    def proximal(value, step_size, first, second):
        return math.nan if 0.0 < step_size < 0.46 else value


class Undecorated(CoordinatewiseDomain):
    def proximal(value, step_size, first, second):
        return value


@pytest.mark.parametrize(
    ("domain", "reason"),
    [
        (Growing(), r"must not move coordinates apart"),
        (Turning(), r"must keep the order"),
        (Forgetful(), r"is a projection but depends on the step size"),
        (WrongWindow(), "must keep the order"),
        (Halving(), "is a projection but moves a point twice"),
        (NotANumber(), "must give finite numbers"),
        (Undecorated(), "must be a function decorated with @scalar"),
        (CoordinatewiseDomain(), "must be a function decorated with @scalar"),
    ],
)
def test_bad_domains_are_refused_with_the_worst_point(domain, reason):
    with pytest.raises(ValueError, match=reason):
        check_domain(domain)


def test_only_coordinatewise_domains_are_checked():
    with pytest.raises(TypeError, match="needs a CoordinatewiseDomain"):
        check_domain(Ball(1.0))
    with pytest.raises(TypeError, match="an instance, not a class"):
        check_domain(NonNegative)


@pytest.mark.parametrize("bounds", [(1.0, 1.0), (2.0, 1.0), (-math.inf, math.inf), (math.nan, 1.0)])
def test_bad_bounds(bounds):
    with pytest.raises(ValueError, match="Box needs lower < upper, one of them finite, got"):
        Box(*bounds)


@pytest.mark.parametrize("weights", [(-1.0, 1.0), (0.0, 0.0), (math.inf, 0.0), (1.0, math.nan)])
def test_bad_weights(weights):
    with pytest.raises(ValueError, match="ElasticNet needs finite l1 and l2 of at least 0"):
        ElasticNet(*weights)


def test_bounds_for_each_coordinate_are_refused():
    with pytest.raises(TypeError, match=r"lower must be one number for all coordinates.*Scale"):
        Box(np.zeros(3), 1.0)
    with pytest.raises(TypeError, match="l1 must be a number, got 'much'"):
        ElasticNet("much")


# ------------------------------------------------------------------------- streams and copies


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("pairing", [None, FifoBuffer(3)])
@pytest.mark.parametrize("domain", DOMAINS)
@pytest.mark.parametrize("averaging", [None, Uniform(), LastIterate()])
def test_streams_do_not_depend_on_chunks(domain, pairing, averaging, dtype):
    X, y = sample(dtype=dtype)
    parts = {"pairing": pairing, "averaging": averaging}
    parts = {name: part for name, part in parts.items() if part is not None}
    solver = PairwiseSGD(schedule=Constant(0.3), domain=domain, **parts)
    start = solver.start(PROBLEM, X.shape[1], rng=0, dtype=dtype)
    whole = pickle.loads(pickle.dumps(start)).learn_many(X, y)
    one_by_one = pickle.loads(pickle.dumps(start))
    for k, (x, label) in enumerate(zip(X, y, strict=True)):
        one_by_one.learn_one(x, label)
        if k == 20:
            one_by_one = pickle.loads(pickle.dumps(one_by_one))
        if k == 40:
            other = pickle.loads(pickle.dumps(start))
            other.restore(one_by_one.state())
            one_by_one = other
    for stream in (one_by_one, start.learn_many(X[:17], y[:17]).learn_many(X[17:], y[17:])):
        near = 1e-9 if dtype == np.float64 else 1e-4
        np.testing.assert_allclose(stream.w, whole.w, rtol=near, atol=near)
        np.testing.assert_allclose(stream.average, whole.average, rtol=near, atol=near)
        assert stream.n_steps == whole.n_steps == len(y) - 1
        assert stream.n_gradients == whole.n_gradients


def test_a_step_that_fails_is_undone():
    stream = PairwiseSGD(schedule=Constant(100.0), domain=Box(-1.0, 1.0)).start(PROBLEM, 2)
    stream.learn_one([1.0, 0.0], 1.0).learn_one([0.0, 0.5], -1.0)
    before = stream.w, stream.average
    with pytest.raises(DivergenceError, match="stopped being finite at step 2"):
        stream.learn_one([-1e153, 1e153], 1.0)
    assert np.array_equal(before, (stream.w, stream.average))
    assert np.isfinite(stream.learn_one([0.3, 0.1], 1.0).w).all()
    # the step of a chunk is named, too
    start = PairwiseSGD(schedule=Constant(100.0), domain=Box(-1.0, 1.0)).start(PROBLEM, 2)
    rows = np.array([[1.0, 0.0], [0.0, 0.5], [-1e153, 1e153]])
    with pytest.raises(DivergenceError, match="stopped being finite at step 2"):
        start.learn_many(rows, np.array([1.0, -1.0, 1.0]))


@pytest.mark.parametrize("storage", [np.asarray, scipy.sparse.csr_array])
def test_the_step_of_a_chunk_that_overflows_is_named(storage):
    rows = np.array([[1.0, 0.0], [0.0, 0.5], [0.5, 0.2], [0.1, 0.1], [-1e153, 1e153]])
    start = PairwiseSGD(schedule=Constant(100.0), domain=Box(-1.0, 1.0)).start(PROBLEM, 2)
    with pytest.raises(DivergenceError, match="stopped being finite at step 4"):
        start.learn_many(storage(rows), np.array([1.0, -1.0, 1.0, -1.0, 1.0]))


@pytest.mark.parametrize("pairing", [{}, {"pairing": FifoBuffer(2)}])
@pytest.mark.parametrize("storage", [np.asarray, scipy.sparse.csr_array])
def test_a_domain_that_gives_nan_is_noticed(pairing, storage):
    X, y = sample()
    solver = PairwiseSGD(schedule=Constant(10.0), domain=NotANumber(), **pairing)
    with pytest.raises(DivergenceError, match=r"NotANumber\(\) returned NaN.*check_domain"):
        solver.solve(PROBLEM, storage(X), y, n_steps=100, rng=0)


@pytest.mark.parametrize("pairing", [{}, {"pairing": FifoBuffer(2)}])
@pytest.mark.parametrize("storage", [np.asarray, scipy.sparse.csr_array])
def test_the_last_step_that_a_domain_spoils_is_named(pairing, storage):
    X, y = sample()
    y[:6] = [1.0, -1.0, 1.0, -1.0, 1.0, -1.0]
    stream = PairwiseSGD(schedule=InverseSqrt(1.0), domain=LateNaN(), **pairing).start(PROBLEM, 9)
    with pytest.raises(DivergenceError, match="returned NaN or infinity by step 5;"):
        stream.learn_many(storage(X[:6]), y[:6])


def test_elastic_net_finds_sparse_models_and_decays_without_gradients():
    X, y = sample(n=400)
    solver = PairwiseSGD(schedule=Constant(0.1), domain=ElasticNet(0.05), averaging=LastIterate())
    w = solver.solve(Problem(LinearScore(), Hinge()), X, y, n_steps=4000, rng=0).w
    assert w[0] > 0.5
    assert np.count_nonzero(w) < len(w)
    # Pairs of one label have no gradient; the penalty pulls all the same.
    stream = solver.start(PROBLEM, 2, w_start=[1.0, -0.2])
    for _ in range(31):
        stream.learn_one([1.0, 2.0], 1.0)
    assert np.allclose(stream.w, [1.0 - 30 * 0.1 * 0.05, -0.05], rtol=1e-13)


# ----------------------------------------------------------------------------------- parts


@pytest.mark.parametrize("domain", [*DOMAINS, Box(-math.inf, 1.0)])
def test_domains_are_stored_in_model_files(domain):
    assert decode(encode(domain, "domain"), "domain") == domain


@dataclass(frozen=True)
class Soft(CoordinatewiseDomain):
    """Beyond c a coordinate keeps half of its excess."""

    c: float = 1.0
    is_projection = False

    @property
    def parameters(self):
        return (self.c, 0.0)

    @scalar
    def proximal(value, step_size, c, _):
        inside = min(max(value, -c), c)
        return inside + 0.5 * (value - inside)


def test_a_domain_of_one_s_own():
    X, y = sample()
    check_domain(Soft(0.3))
    solution = PairwiseSGD(schedule=Constant(0.5), domain=Soft(0.3)).solve(
        PROBLEM, X, y, n_steps=2000, rng=0
    )
    free = PairwiseSGD(schedule=Constant(0.5)).solve(PROBLEM, X, y, n_steps=2000, rng=0)
    assert 0.3 < abs(solution.w).max() < abs(free.w).max()


@dataclass(frozen=True)
class Bounded(Box):
    """A box that changes its array form only."""

    def project(self, w):
        return np.zeros_like(w)


def test_an_array_form_that_no_kernel_calls_is_refused():
    with pytest.raises(ValueError, match="Bounded changes project of CoordinatewiseDomain"):
        PairwiseSGD(domain=Bounded(0.0, 1.0)).start(PROBLEM, 3)
    with pytest.raises(TypeError, match=r"Undecorated.proximal must be a function decorated"):
        PairwiseSGD(domain=Undecorated()).start(PROBLEM, 3)


@pytest.mark.parametrize("given", [(), 0.5, (math.nan,), (math.inf,), ("a",)])
@pytest.mark.parametrize("name", ["values", "step_sizes"])
def test_a_check_of_no_points_does_not_pass(name, given):
    with pytest.raises(ValueError, match=f"{name} must be a list of finite numbers"):
        check_domain(NonNegative(), **{name: given})


def test_steps_do_not_go_backwards():
    with pytest.raises(ValueError, match="step_sizes must not be negative, got -1"):
        check_domain(NonNegative(), step_sizes=(0.5, -1.0))
