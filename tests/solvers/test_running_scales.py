# SPDX-License-Identifier: BSD-3-Clause
"""Scales that are found while examples arrive."""

import pickle

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from pairlearn import (
    Ball,
    Box,
    DistanceHinge,
    DivergenceError,
    Exponential,
    FifoBuffer,
    Hinge,
    InverseSqrt,
    LinearScore,
    MahalanobisScore,
    PairwiseSGD,
    PreviousExample,
    PreviousOpposite,
    Problem,
)
from pairlearn.domains import PsdCone
from pairlearn.pairings import ClassReservoirs
from pairlearn.solvers.rows import CsrRows, DenseRows, as_rows
from pairlearn.solvers.streams import running_scales
from pairlearn.solvers.streams.running_scales import RunningScales

N, D = 300, 6
HINGE = Problem(LinearScore(), Hinge())
#: The rows of a table that hold no moments.
SHIFT, LAST, SCALE, CENTRE, FACTOR = range(12, 17)


def sample(n=N, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, D)) * 10.0 ** np.array([0, 3, -4, 0, 0, 6])
    X[:, 3] = rng.random(n) < 0.1
    X[:, 4] = 7.0
    X[:, 5] += 1e7
    return X, np.where(X[:, 0] + X[:, 1] / 1e3 + rng.normal(size=n) > 0, 1.0, -1.0)


def seen(X, *, start="zero"):
    """Return the scales after X, and X in the scales that each row was seen in."""
    scales, found = RunningScales(X.shape[1], start=start), []
    rows = as_rows(X)
    for part, _ in scales.segments(rows):
        found.append(scales.apply(rows.part(part)).X.copy())
    return scales, np.concatenate(found)


def test_scales_are_spreads_with_a_floor():
    X, _ = sample(1000)
    scales, _ = seen(X)
    table = scales.state()["table"]
    noted = X[: scales.n_seen]
    # The last look before the 1000th example.
    n = max(k for k in looks(1000))
    deviation = np.maximum(noted[:n].std(axis=0), 0.1 * np.ptp(noted[:n], axis=0))
    assert table[SCALE][4] == 0.0
    varies = [0, 1, 2, 3, 5]
    assert np.allclose(table[SCALE][varies], deviation[varies], rtol=1e-9)
    variance = (noted[:n] * scales.factor).var(axis=0).sum()
    assert np.isclose(variance, 1.0, rtol=1e-9)


def looks(n):
    """Return the examples up to the n-th at whose arrival scales are looked at, while young."""
    found, k = [], 2
    while k <= n:
        found.append(k)
        k += max(k // 4, 1)
    return found


def test_rare_values_are_not_blown_up_and_outliers_are_cut_off():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=3000), rng.random(3000) < 0.002])
    X[2500, 0] = 1e9
    scales, found = seen(X)
    assert np.abs(found).max() <= 10.0 * np.sqrt(2.0)
    assert scales.factor[1] * 0.1 <= 1.0 + 1e-12


def test_later_scales_have_slack_and_follow():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 1))
    X[6000:12000] *= 1.5
    X[12000:] *= 30.0
    scales, factors = RunningScales(1), []
    for begin in range(0, 20_000, 1000):
        for _ in scales.segments(DenseRows(X[begin : begin + 1000])):
            pass
        factors.append(float(scales.factor[0]))
    assert factors[2] == factors[11]
    assert factors[-1] < factors[2] / 10


@pytest.mark.parametrize("start", ["zero", "given"])
def test_a_late_change_leaves_the_function_as_it_is(start):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(9000, 3)), rng.choice([-1.0, 1.0], 9000)
    X[2000:, 1] *= 100.0
    scales = RunningScales(3, start=start)
    changes, before = 0, scales.factor.copy()
    for part, change in scales.segments(DenseRows(X)):
        if change is not None and part.start > 1024:
            changes += 1
            assert np.allclose(change * scales.factor, before)
        before = scales.factor.copy()
    assert changes
    assert len(y) == scales.n_seen


@pytest.mark.parametrize(
    "pairing",
    [PreviousExample(), PreviousOpposite(), FifoBuffer(3), ClassReservoirs(4, 4)],
    ids=lambda pairing: type(pairing).__name__,
)
@given(
    storage=st.sampled_from(["dense", "sparse", "single"]),
    cut=st.lists(st.integers(1, 150), max_size=6).map(sorted),
)
@settings(max_examples=16)
def test_chunks_of_any_sizes_give_the_same(storage, pairing, cut):
    X, y = sample(150)
    dtype = np.float64
    if storage == "single":
        X, dtype = X.astype(np.float32), np.float32
    if storage == "sparse":
        X = scipy.sparse.csr_array(X)
    solver = PairwiseSGD(pairing, InverseSqrt(3.0), Ball(3.0))
    make = lambda: solver.start(HINGE, D, rng=0, dtype=dtype, scales=RunningScales(D))  # noqa: E731
    whole = make().learn_many(X, y)
    stream = make()
    for k, (a, b) in enumerate(zip([0, *cut], [*cut, 150], strict=True)):
        if k % 2 and storage != "sparse":
            for x, label in zip(X[a:b], y[a:b], strict=True):
                stream.learn_one(x, label)
        else:
            stream.learn_many(X[a:b], y[a:b])
        stream = pickle.loads(pickle.dumps(stream))
        other = make()
        other.restore(stream.state())
        stream = other
    near = {"rtol": 1e-3, "atol": 1e-4} if storage == "single" else {"rtol": 1e-9, "atol": 1e-12}
    np.testing.assert_allclose(stream.w, whole.w, **near)
    np.testing.assert_allclose(stream.average, whole.average, **near)


@pytest.mark.parametrize("storage", ["dense", "sparse"])
def test_units_do_not_matter(storage):
    X, y = sample(1500)
    units = 10.0 ** np.array([-6, 6, 2, -3, 0, 1])
    solver = PairwiseSGD(schedule=InverseSqrt(3.0))

    def scores(Z):
        rows = scipy.sparse.csr_array(Z) if storage == "sparse" else Z
        stream = solver.start(HINGE, D, scales=RunningScales(D)).learn_many(rows, y)
        found = Z @ stream.average
        return found - found.mean()

    expected = scores(X)
    assert np.allclose(scores(X * units), expected, rtol=1e-6, atol=1e-8)
    if storage == "dense":
        assert np.allclose(scores(X + 1e3 * np.sign(X[0])), expected, rtol=1e-5, atol=1e-6)


def test_dense_and_sparse_rows_are_scaled_alike():
    X, y = sample(1500)
    X[np.abs(X) < 0.3] = 0.0
    solver = PairwiseSGD(schedule=InverseSqrt(3.0))
    dense, sparse = (
        solver.start(HINGE, D, scales=RunningScales(D)).learn_many(rows, y).average
        for rows in (X, scipy.sparse.csr_array(X))
    )
    assert np.allclose(dense, sparse, rtol=1e-6)


@pytest.mark.parametrize("size", [1e-45, 1e200, 1e307])
@pytest.mark.parametrize("storage", ["dense", "sparse"])
def test_extreme_values_are_scaled_too(size, storage):
    rng = np.random.default_rng(0)
    y = rng.choice([-1.0, 1.0], 400)
    X = np.column_stack([(y + 0.3 * rng.normal(size=400)) / 4 * size, rng.normal(size=400)])
    rows = scipy.sparse.csr_array(X) if storage == "sparse" else X
    stream = PairwiseSGD(schedule=InverseSqrt(3.0)).start(HINGE, 2, scales=RunningScales(2))
    with np.errstate(over="ignore"):
        stream.learn_many(rows, y)
    other = PairwiseSGD(schedule=InverseSqrt(3.0)).start(HINGE, 2, scales=RunningScales(2))
    other.restore(stream.state())
    assert np.array_equal(other.w, stream.w)
    # In units of the examples the smallest have no coefficient that is a number.
    assert stream._descent.w[0] > 5 * abs(stream._descent.w[1])


def test_what_no_scale_helps_is_said():
    X, y = sample()
    X[:, 2] *= 1e-70
    stream = PairwiseSGD().start(HINGE, D, scales=RunningScales(D))
    with pytest.warns(UserWarning, match="feature 2 varies by less than 1e-50.*smaller unit"):
        stream.learn_many(X, y)
    assert stream.w[2] == 0.0
    assert stream.w[0] != 0.0


@pytest.mark.parametrize("parameterization", ["full", "diagonal", "low_rank"])
def test_a_metric_in_other_units_gives_the_same_distances(parameterization):
    X, y = sample(1500)
    X = X[:, [0, 1, 2, 5]]
    score = MahalanobisScore(parameterization, 2 if parameterization == "low_rank" else None)
    start = np.eye(4)[:, :2] if parameterization == "low_rank" else np.eye(4)
    if parameterization == "diagonal":
        start = np.ones(4)
    solver = PairwiseSGD(schedule=InverseSqrt(0.2), domain=PsdCone())

    def distances(Z):
        scales = RunningScales(4, start="scaled")
        stream = solver.start(Problem(score, DistanceHinge()), 4, w_start=start, scales=scales)
        w = stream.learn_many(Z, y).average
        return score.of_pairs(w, as_rows(Z[:700]), as_rows(Z[700:1400]))

    expected = distances(X)
    assert expected.max() > 0
    assert np.allclose(distances(X * 10.0 ** np.array([-6, 6, 2, 0])), expected, rtol=1e-6)


def test_given_coefficients_keep_their_function_until_something_is_learned():
    X, y = sample()
    start = np.array([1.0, 2e-3, 30.0, 0.5, 4.0, 1e-6])
    solver = PairwiseSGD(schedule=InverseSqrt(1e-12))
    scales = RunningScales(D, start="given")
    stream = solver.start(HINGE, D, w_start=start, scales=scales).learn_many(X, y)
    assert np.allclose(stream.average, start, rtol=1e-6)


def test_a_chunk_that_fails_leaves_the_scales_as_they_were():
    X, y = sample()
    stream = PairwiseSGD(schedule=InverseSqrt(1e6)).start(
        Problem(LinearScore(), Exponential()), D, scales=RunningScales(D)
    )
    stream.learn_many(X[:1], y[:1])
    before = stream.state()["scales"]
    with pytest.raises(DivergenceError), np.errstate(all="ignore"):
        stream.learn_many(X, y)
    after = stream.state()["scales"]
    assert after["n_seen"] == before["n_seen"] == 1
    assert np.array_equal(after["table"], before["table"])


def test_large_chunks_are_cut_for_the_cache(monkeypatch):
    X, y = sample(4000)
    whole = PairwiseSGD().start(HINGE, D, scales=RunningScales(D)).learn_many(X, y)
    monkeypatch.setattr(running_scales, "_NUMBERS", 600)
    monkeypatch.setattr(running_scales, "_LEAST_ROWS", 1)
    cut = PairwiseSGD().start(HINGE, D, scales=RunningScales(D)).learn_many(X, y)
    np.testing.assert_allclose(cut.average, whole.average, rtol=1e-10)


def test_parts_of_sparse_rows():
    X = scipy.sparse.random_array(
        (20, 5), density=0.4, random_state=np.random.default_rng(0), format="csr"
    )
    rows = as_rows(X)
    assert isinstance(rows, CsrRows)
    part = rows.part(slice(3, 9))
    dense = scipy.sparse.csr_array((part.data, part.indices, part.indptr), shape=part.shape)
    assert np.array_equal(dense.toarray(), X.toarray()[3:9])


@pytest.mark.parametrize("domain", [Ball(1.0), Box(-0.5, 0.5)])
@pytest.mark.parametrize("sparse", [False, True])
def test_iterate_and_average_stay_in_the_domain_when_the_units_change(domain, sparse):
    """Scales that grow twentyfold take earlier iterates out of a ball in the units of now."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 3)) * np.exp(np.linspace(0, 3, 2000))[:, np.newaxis]
    y = np.where(X[:, 0] > 0, 1.0, -1.0)
    solver = PairwiseSGD(schedule=InverseSqrt(0.5), domain=domain)
    stream = solver.start(HINGE, 3, rng=0, scales=RunningScales(3))
    for begin in range(0, 2000, 50):
        part = X[begin : begin + 50]
        stream.learn_many(scipy.sparse.csr_array(part) if sparse else part, y[begin : begin + 50])
        for w in (stream.scaled_average, stream.state()["descent"]["w"]):
            np.testing.assert_allclose(domain.project(w), w, rtol=1e-12)
        units = stream.scales.unit
        np.testing.assert_allclose(stream.average, stream.scaled_average * units, rtol=1e-12)
