"""Class moments in floats against exact ones, and against the table of mapped rows."""

import numpy as np
import pytest
import scipy.sparse

from pairlearn.features import Hats, Identity, RandomFourier
from pairlearn.solvers.closed_form import mapped_moments
from pairlearn.solvers.closed_form.mapped_moments import (
    FloatRows,
    MappedMoments,
    RowsProblem,
    extents_of,
    score_mapped,
)
from pairlearn.solvers.rows import as_rows
from pairlearn.validation import DivergenceError

RNG = np.random.default_rng(0)
N = 5000
X = RNG.normal(size=(N, 4)) * [1.0, 1e-6, 1e4, 3.0] + [0.0, 1.0, 1e7, -5.0]
X[:, 3] = np.round(X[:, 3])
Y = np.where(RNG.random(N) < 0.2, 1.0, -1.0)
WEIGHT = RNG.gamma(0.5, size=N) + 0.01
NONE = np.empty(0)
MAPS = {
    "linear": Identity.of(4),
    "hats": Hats(n_knots=7).fit(X),
    "waves": RandomFourier(64).fit(X, rng=0),
}


def centred_scores(rows, index, w):
    scores = np.concatenate([Z @ w for _, Z in rows.blocks(index)])
    return scores - scores.mean()


@pytest.mark.parametrize("name", MAPS)
@pytest.mark.parametrize("weighted", [False, True])
def test_models_are_those_of_exact_moments(name, weighted):
    features, weight = MAPS[name], WEIGHT if weighted else NONE
    own = weight if weighted else None
    given, train, rest = as_rows(X), np.arange(N) % 3 != 0, np.arange(N) % 3 == 0
    exact = MappedMoments.none(features, extents_of(features, given, own))
    exact = exact.plus(X[train], Y[train], None if own is None else own[train])
    expected = score_mapped(features, given, exact.problem().solve(1e-3))
    rows = FloatRows(features, given, weight)
    one, other = (rows.table(Y, np.flatnonzero(some)) for some in (train, rest))
    everything = one + other
    for table in (one, everything - other):
        found = centred_scores(rows, np.arange(N), rows.problem(table).solve(1e-3))
        np.testing.assert_allclose(found, expected - expected.mean(), atol=1e-8)
    # Exact moments as a table of these rows.
    known = rows.exact_table(exact)
    np.testing.assert_allclose(known.weights, one.weights, rtol=1e-9)
    found = centred_scores(rows, np.arange(N), rows.problem(known).solve(1e-3))
    np.testing.assert_allclose(found, expected - expected.mean(), atol=1e-8)


@pytest.mark.parametrize("count", [64, 1024])
def test_products_and_sums_of_many_blocks(monkeypatch, count):
    monkeypatch.setattr(mapped_moments, "_AT_ONCE", 64 * count)
    features, index = RandomFourier(count).fit(X, rng=0), np.arange(0, N, 3)
    rows = FloatRows(features, as_rows(X), NONE)
    assert {len(own) for own, _ in rows.blocks(index)} == {64, len(index) % 64}
    assert rows.dtype == (np.float32 if count == 1024 else np.float64)
    table, Z = rows.table(Y, index), features.transform(X)[index]
    for k, is_own in enumerate((Y[index] > 0, Y[index] < 0)):
        own = np.column_stack([np.ones(is_own.sum()), Z[is_own]])
        np.testing.assert_allclose(table.sums[k], own.T @ own, atol=1e-9 if count == 64 else 1e-3)


@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_sparse_rows(offset):
    table = X[:, :3] * (RNG.random((N, 3)) < 0.4) / [1.0, 1.0, 1e4]
    # A column without zeros, whose squares would cancel, and a constant one.
    table = np.column_stack([table, offset + RNG.random(N) + 0.5, np.full(N, 7.0)])
    features, models = Identity.of(5), []
    for rows in (table, scipy.sparse.csr_array(table)):
        given = FloatRows(features, as_rows(rows), NONE)
        w = given.problem(given.table(Y, np.arange(N))).solve(1e-4)
        models.append(centred_scores(given, np.arange(N), w))
    np.testing.assert_allclose(*models, atol=1e-7)


def test_constant_columns_and_squares_that_overflow():
    table = np.column_stack([X[:, 0], np.full(N, 1e300)])
    with pytest.raises(DivergenceError, match="squares of features overflow"):
        FloatRows(Identity.of(2), as_rows(table), NONE)
    table[:, 1] = 3.0
    rows = FloatRows(Identity.of(2), as_rows(table), NONE)
    w = rows.problem(rows.table(Y, np.arange(N))).solve(1e-4)
    assert w[1] == 0.0
    assert w[0] != 0.0


def test_both_classes_are_needed():
    rows = FloatRows(MAPS["hats"], as_rows(X), NONE)
    with pytest.raises(ValueError, match="need examples of both classes"):
        rows.problem(rows.table(Y, np.flatnonzero(Y > 0)))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("name", ["linear", "sparse", "hats", "waves"])
def test_few_rows_have_the_model_of_their_moments(name, scaled, weighted):
    n, d = 60, 80
    table = RNG.normal(size=(n, d)) * np.logspace(0, 3, d) + np.arange(d)
    if name == "sparse":
        table *= RNG.random((n, d)) < 0.2
    maps = {"hats": Hats(n_knots=5).fit(table), "waves": RandomFourier(512).fit(table, rng=0)}
    features = maps.get(name, Identity.of(d))
    given = as_rows(scipy.sparse.csr_array(table) if name == "sparse" else table)
    rows = FloatRows(features, given, WEIGHT[:n] if weighted else NONE)
    y, some = np.where(np.arange(n) % 3 == 0, 1.0, -1.0), np.flatnonzero(np.arange(n) % 5 != 1)
    assert features.n_outputs > len(some)
    own = rows.problem(rows.table(y, some), scaled=scaled)
    few = RowsProblem(rows, y, some, scaled=scaled)
    for ridge in (1.0, 1e-4):
        expected = own.solve(ridge, margin=0.7)
        found = few.solve(ridge, margin=0.7)
        np.testing.assert_allclose(found, expected, atol=1e-6 * np.abs(expected).max())


def test_few_rows_of_one_class_and_signs_are_refused():
    rows = FloatRows(MAPS["hats"], as_rows(X[:9]), NONE)
    y = np.where(np.arange(9) % 3 == 0, 1.0, -1.0)
    with pytest.raises(ValueError, match="need examples of both classes"):
        RowsProblem(rows, y, np.flatnonzero(y > 0))
    few = RowsProblem(rows, y, np.arange(9))
    with pytest.raises(ValueError, match="signs of coefficients need moments"):
        few.solve(0.1, signs=np.ones(MAPS["hats"].n_outputs, dtype=np.int64))
