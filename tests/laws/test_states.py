# SPDX-License-Identifier: BSD-3-Clause
"""Statistics that merge: any partition of the rows says what one pass says."""

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from pairlearn.cluster import (
    ColumnExtents,
    LabelMoments,
    Mapped,
    RowContent,
    RowSample,
    ScoreHistogram,
    Together,
    score_edges,
)
from pairlearn.cluster.passes import ColumnSpreads, scaling_from
from pairlearn.estimators.shared.scaling import fit_scaling
from pairlearn.features import Hats
from pairlearn.solvers import Extents, ForgettingCertificate, Grid
from pairlearn.solvers.rows import as_rows

D = 3
LABELS = np.array(["no", "yes"])
#: Statistics whose states are whole numbers: any partition gives the same bytes.
EXACT = ("moments", "mapped moments", "extents")


def extents_for(n_features):
    """Extents of columns between -1e5 and 1e5 whose weights are halves."""
    none = np.zeros(n_features, dtype=np.int64)
    return Extents(np.full(n_features, -1e5), np.full(n_features, 1e5), none, none, 1.5, False)


GRID = Grid.of(extents_for(D))


@st.composite
def tables(draw):
    """Rows of three kinds of columns, labels, weights, and the rows of each partition."""
    n = draw(st.integers(4, 40))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    X = np.column_stack(
        [
            rng.normal(size=n) * 10.0 ** draw(st.integers(-3, 3)) + draw(st.integers(-50, 50)),
            (rng.random(n) < draw(st.sampled_from([0.02, 0.3, 0.9]))) * 1.0,
            rng.integers(0, 3, n),
        ]
    )
    labels = LABELS[rng.integers(0, 2, n)]
    labels[:2] = LABELS
    weight = rng.integers(0, 4, n) / 2.0 if draw(st.booleans()) else np.ones(n)
    weight[:2] = 1.0
    part = rng.integers(0, draw(st.integers(1, 6)), n)
    sparse = draw(st.booleans())
    return (scipy.sparse.csr_array(X) if sparse else X), labels, weight, part


def statistics():
    w, edges = np.array([0.01, 1.0, -0.5]), np.linspace(-3.0, 3.0, 9)
    rng = np.random.default_rng(0)
    curves = Hats(n_knots=3).fit(rng.normal(size=(50, D)))
    return {
        "moments": LabelMoments(grid=GRID),
        "mapped moments": Mapped(LabelMoments(grid=Grid.of(extents_for(curves.n_outputs))), curves),
        "mapped": Mapped(ScoreHistogram(np.ones(curves.n_outputs), edges, LABELS), curves),
        "extents": ColumnExtents(),
        "spreads": ColumnSpreads(),
        "content": RowContent(),
        "histogram": ScoreHistogram(w, edges, LABELS),
        "together": Together({"a": LabelMoments(grid=GRID), "b": ScoreHistogram(w, edges, LABELS)}),
    }


def parts_of(table):
    X, labels, weight, part = table
    for k in range(part.max() + 1):
        kept = np.flatnonzero(part == k)
        yield X[kept], labels[kept], weight[kept]


def assert_same(a, b):
    assert a.keys() == b.keys()
    for name in a:
        if a[name].dtype.kind in "fi":
            finite = np.abs(a[name][np.isfinite(a[name])])
            size = float(finite.max(initial=1e-300))
            # Columns that nearly cancel keep the rounding of their terms, a few units.
            np.testing.assert_allclose(a[name], b[name], rtol=1e-12, atol=4e-12 * size)
        else:
            np.testing.assert_array_equal(a[name], b[name])


def assert_same_bytes(a, b):
    assert a.keys() == b.keys()
    for name in a:
        assert a[name].dtype == b[name].dtype
        assert a[name].shape == b[name].shape
        assert a[name].tobytes() == b[name].tobytes()


@given(table=tables())
@settings(max_examples=25)
def test_a_state_without_some_rows_never_saw_them(table):
    X, labels, weight, part = table
    statistic = LabelMoments(grid=GRID)
    gone = part == 0
    whole = statistic.partial_state(X, labels, weight)
    some = statistic.partial_state(X[gone], labels[gone], weight[gone])
    never = statistic.partial_state(X[~gone], labels[~gone], weight[~gone])
    assert_same_bytes(statistic.without(whole, some), never)
    if some and never:
        certificate = ForgettingCertificate.of(whole, some, never, n_rows=int(gone.sum()))
        certificate.verify(after=statistic.without(whole, some))
    if some:
        with pytest.raises(ValueError, match="not all among"):
            statistic.without(some, statistic.merge(whole, whole))
        with pytest.raises(ValueError, match="not all among"):
            statistic.without({}, some)


@pytest.mark.parametrize("name", statistics())
@given(table=tables())
@settings(max_examples=25)
def test_any_partition_says_what_one_pass_says(name, table):
    statistic = statistics()[name]
    same = assert_same_bytes if name in EXACT else assert_same
    X, labels, weight, _ = table
    whole = statistic.partial_state(X, labels, weight)
    states = [statistic.partial_state(*part) for part in parts_of(table)]
    same(whole, statistic.merge_all(states))
    # In another order, and one after the other.
    total = {}
    for state in reversed(states):
        total = statistic.merge(total, state)
    same(whole, total)


# The content counts rows without weight, too: it tells whether a source gave the same rows again.
@pytest.mark.parametrize("name", [name for name in statistics() if name != "content"])
def test_the_state_of_no_examples_is_neutral(name):
    statistic = statistics()[name]
    X, labels = np.eye(D), np.array(["no", "yes", "no"])
    state = statistic.partial_state(X, labels)
    for nothing in (
        {},
        statistic.partial_state(X[:0], labels[:0]),
        statistic.partial_state(X, labels, np.zeros(D)),
    ):
        assert nothing == {}
        assert statistic.merge(state, nothing) is state
        assert statistic.merge(nothing, state) is state
    assert statistic.merge_all([]) == {}


@pytest.mark.parametrize("name", ["moments", "histogram", "extents"])
def test_nothing_has_no_result(name):
    with pytest.raises(ValueError, match="has seen no example"):
        statistics()[name].finish({})


@given(table=tables())
def test_scales_are_those_of_one_machine(table):
    X, _, weight, _ = table
    X = X.toarray() if hasattr(X, "toarray") else X
    X[:, 1] = X[:, 0] + X[:, 2]  # columns of rare values have scales of their own in memory
    statistic = ColumnSpreads()
    states = [statistic.partial_state(X[k::3], None, weight[k::3]) for k in range(3)]
    found = scaling_from(statistic.finish(statistic.merge_all(states)), scaled=True)
    expected = fit_scaling(as_rows(X), weight)
    np.testing.assert_allclose(found.factor[:2], expected.factor[:2], rtol=1e-10)
    np.testing.assert_array_equal(found.inverse, expected.inverse)


@given(table=tables(), size=st.integers(1, 5))
def test_a_sample_does_not_depend_on_the_partitioning(table, size):
    X, labels, weight, _ = table
    statistic = RowSample(size, seed=1)
    states = [statistic.partial_state(*part) for part in parts_of(table)]
    whole = statistic.partial_state(X, labels, weight)
    for order in (states, states[::-1]):
        merged = statistic.merge_all(order)
        # Sums of weights may round, all else is the same.
        assert_same(whole, merged)
        for name in ("hashes", "rows", "labels", "copies", "total"):
            np.testing.assert_array_equal(whole[name], merged[name])
    rows = X.toarray() if hasattr(X, "toarray") else X
    for label in LABELS:
        kinds = np.unique(rows[(labels == label) & (weight > 0)] + 0.0, axis=0)
        assert np.count_nonzero(whole["labels"] == label) == min(size, len(kinds))


@given(table=tables())
def test_fingerprints_follow_what_examples_hold(table):
    X, labels, weight, _ = table
    statistic = RowSample(3)

    def fingerprint(*parts):
        return statistic.finish(statistic.merge_all(map(statistic.partial_state, *parts)))

    known = fingerprint([X], [labels], [weight]).fingerprint
    parts = [list(one) for one in zip(*parts_of(table), strict=True)]
    assert known == fingerprint(*parts).fingerprint
    other = np.where(labels == "no", "yes", "no")
    assert known != fingerprint([X], [other], [weight]).fingerprint


def test_edges_cover_the_scores_and_are_fine_where_they_are(rng):
    scores = rng.standard_t(2, size=1000)
    edges = score_edges(scores, -1e9, 1e9, 512)
    assert len(edges) == 511
    assert (np.diff(edges) > 0).all()
    middle = np.searchsorted(edges, np.quantile(scores, [0.25, 0.75]))
    assert np.diff(middle)[0] >= 20
