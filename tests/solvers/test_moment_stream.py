# SPDX-License-Identifier: BSD-3-Clause
"""Tables of sums, the past of a stream, and the stream that learns them in blocks."""

import numpy as np
import pytest
import scipy.sparse

from pairlearn.features.base import Identity
from pairlearn.solvers.closed_form.moments import ClassMoments
from pairlearn.solvers.closed_form.past import (
    RECENT,
    Block,
    Choice,
    Past,
    RecentScores,
    Settings,
    directions,
    half_lives_for,
)
from pairlearn.solvers.closed_form.stream import MomentStream
from pairlearn.solvers.closed_form.table import Table


def past_of(d, half_lives, *, free=False, scaled=True):
    return Past.none(Settings(Identity.of(d), half_lives, None, 1.0, scaled, free))


def block(X, y, weight=None, scores=None):
    scores = np.zeros((len(y), 1)) if scores is None else scores
    return Block(X, y, np.ones(len(y)) if weight is None else weight, scores)


def table_of(X, code, n_classes=2, weight=None):
    return Table.none(X.shape[1], n_classes).plus(X, code, weight)


def stream_of(d, half_lives=(np.inf, 200.0, 50.0), **settings):
    given = {"ridge": None, "margin": 1.0, "scaled": True, **settings}
    return MomentStream(Identity.of(d), half_lives, **given)


@pytest.mark.parametrize("sparse", [False, True])
def test_tables_add_subtract_decay_and_are_seen_through_a_matrix(rng, sparse):
    X, code, weight = rng.normal(size=(80, 4)), rng.integers(0, 3, 80), rng.random(80)
    rows = scipy.sparse.csr_array(X) if sparse else X
    whole = table_of(rows, code, 3, weight=weight)
    parts = [
        table_of(rows[now], code[now], 3, weight=weight[now]) for now in (slice(30), slice(30, 80))
    ]
    np.testing.assert_allclose((parts[0] + parts[1]).sums, whole.sums, rtol=1e-12)
    np.testing.assert_allclose((whole - parts[1]).sums, parts[0].sums, rtol=1e-9, atol=1e-12)
    half = table_of(X, code, 3, weight=weight / 2)
    np.testing.assert_allclose(whole.decayed(0.5).sums, half.sums, rtol=1e-12)
    for k in range(3):
        own = weight * (code == k)
        mean = own @ X / own.sum()
        np.testing.assert_allclose(whole.means[k], mean, rtol=1e-12)
        expected = (X - mean).T @ ((X - mean) * own[:, None]) / own.sum()
        np.testing.assert_allclose(whole.means_and_covariances[1][k], expected, rtol=1e-9)
        np.testing.assert_allclose(whole.variances[k], np.diag(expected), rtol=1e-9)
    # A map that is linear: (1, x) A = (1, b + x B).
    B, b = rng.normal(size=(4, 2)), rng.normal(size=2)
    A = np.block([[np.ones((1, 1)), b[None]], [np.zeros((4, 1)), B]])
    mapped = table_of(X @ B + b, code, 3, weight=weight)
    np.testing.assert_allclose(whole.seen_through(A).sums, mapped.sums, rtol=1e-9)


def test_memories_are_the_discounted_sums(rng):
    X, y = rng.normal(3.0, 1.0, size=(60, 3)), rng.choice([-1.0, 1.0], 60)
    weight, past = rng.random(60), past_of(3, (np.inf, 20.0))
    for begin in range(0, 60, 15):
        now = slice(begin, begin + 15)
        past = past.plus(block(X[now], y[now], weight[now]))
    age = 15.0 * (3 - np.arange(60) // 15)
    for place, half_life in enumerate((np.inf, 20.0)):
        own = weight * 0.5 ** (age / half_life)
        expected = ClassMoments(3).add(X, y, example_weight=own)
        found = past.table[place].values(past.origin)
        np.testing.assert_allclose(found.counts, expected.counts, rtol=1e-12)
        np.testing.assert_allclose(found.means, expected.means, rtol=1e-12)
        np.testing.assert_allclose(found.scatters, expected.scatters, rtol=1e-9)


@pytest.mark.parametrize("pooled", [False, True])
@pytest.mark.parametrize("d", [5, 60])
def test_directions_solve_the_equations(d, pooled, rng):
    X, y = rng.normal(2.0, 1.0, size=(400, d)), rng.choice([-1.0, 1.0], 400)
    X[y > 0, 0] += 1.0
    table = table_of(X, y < 0)
    scale, ridges = rng.uniform(0.5, 2.0, d), np.array([0.1, 0.4])
    counts = table.weights if pooled else None
    found, values = directions(table, scale, ridges, counts=counts), table.values()
    D, C = np.diag(scale), values.covariance
    if pooled:
        C = 2.0 * values.scatters.sum(axis=0) / values.counts.sum()
    for place, ridge in enumerate(ridges):
        v = np.linalg.solve(D @ C @ D + ridge * np.eye(d), D @ values.difference)
        size = np.sqrt(D @ values.difference @ v)
        np.testing.assert_allclose(found.sizes[place], size, rtol=1e-9)
        np.testing.assert_allclose(found.weights[place], D @ v / size, rtol=1e-8, atol=1e-12)
        middle = found.weights[place] @ values.means.mean(axis=0)
        np.testing.assert_allclose(found.middle[place], middle, rtol=1e-9)
        w = found.weights[place] * found.factor(place, 1.0)
        if not pooled and ridge == ridges[0]:
            system = C + np.outer(values.difference, values.difference) + ridge * np.diag(scale**-2)
            np.testing.assert_allclose(w, np.linalg.solve(system, values.difference), rtol=1e-8)


def test_a_ridge_that_is_too_small_has_no_direction_and_others_have(rng):
    X, y = rng.normal(size=(50, 3)), rng.choice([-1.0, 1.0], 50)
    X[:, 2] = X[:, 1]
    found = directions(table_of(X, y < 0), np.ones(3), np.array([1.0, -0.1])).weights
    alone = directions(table_of(X, y < 0), np.ones(3), np.array([1.0])).weights
    np.testing.assert_allclose(found[0], alone[0], rtol=1e-12)
    assert np.isnan(found[1]).all()


@pytest.mark.parametrize("pooled", [False, True])
def test_the_next_longer_memory_speaks_for_one_without_a_class(pooled, rng):
    past = past_of(5, (np.inf, 20.0, 400.0, 10.0))
    past = past.plus(block(rng.normal(size=(300, 5)), np.tile([1.0, -1.0], 150)))
    past = past.plus(block(rng.normal(size=(200, 5)), np.full(200, -1.0)))
    assert (past.counts[:, 0] < 2.0).tolist() == [False, True, False, True]
    found = past.directions(Choice(100.0, pooled))
    assert np.isfinite(found.weights).all()
    for own in (found.weights, found.middle, found.sizes):
        np.testing.assert_array_equal(own[0], own[1])
        np.testing.assert_array_equal(own[2], own[3])
    assert not np.allclose(found.weights[0], found.weights[2])


@pytest.mark.parametrize("half_life", [np.inf, 300.0])
def test_a_past_without_a_fold_is_that_of_the_other_rows(half_life, rng):
    """Rows count less as they grow older, and a fold takes away what they still count."""
    X, y, weight = rng.normal(size=(500, 2)), rng.choice([-1.0, 1.0], 500), rng.random(500)
    past = past_of(2, (half_life,))
    for begin in range(0, 500, 100):
        now = slice(begin, begin + 100)
        past = past.plus(block(X[now], y[now], weight[now]))
    left = weight * 0.5 ** ((400 - np.arange(500) // 100 * 100) / half_life)
    folds = list(past.folds(repeated=False, every=True))
    assert len(folds) == 5
    for rest, counts, held in folds:
        others = ~(X[:, None] == held.Z).all(axis=2).any(axis=1)
        expected = table_of(X[others] - past.origin, y[others] < 0, weight=left[others])
        np.testing.assert_allclose(rest.sums, expected.sums, rtol=1e-9, atol=1e-9)
        number = [(left / weight)[others & (y == sign)].sum() for sign in (1, -1)]
        np.testing.assert_allclose(counts, number, rtol=1e-9)


def test_what_is_tried_depends_on_the_rarer_class(rng):
    X = rng.normal(size=(2000, 30))
    y = np.where(np.arange(2000) % 100 == 0, 1.0, -1.0)
    X[y > 0, 0] += 1.0
    free, bound = (past_of(30, (np.inf,), free=f).plus(block(X, y)) for f in (True, False))
    # Few positives: stronger ridges are tried, too, and the covariance of all examples.
    assert free.best_choice(repeated=True).auc > bound.best_choice(repeated=True).auc
    assert free.best_choice(repeated=True).ridge == 10.0
    once = bound.best_choice(repeated=False)
    assert once.auc != bound.best_choice(repeated=True).auc


@pytest.mark.parametrize("before", [1, 5, 20, 100, 700])
def test_a_wider_stream_goes_on_as_if_new_features_had_been_zero(before, rng):
    n, lives = 1500, (np.inf, 200.0, 50.0)
    X = rng.normal(size=(n, 3))
    y = np.where(X.sum(axis=1) + rng.normal(size=n) > 0.5, 1.0, -1.0)
    X[:before, 2] = 0.0
    wide, late = stream_of(3, lives), stream_of(2, lives)
    for stream, d in ((wide, 3), (late, 2)):
        stream.learn(X[:before, :d], y[:before], np.ones(before))
    late.widen(Identity.of(3), lives)
    for begin, stop in ((before, before + 3), (before + 3, before + 50), (before + 50, n)):
        assert late.until_refresh == wide.until_refresh
        part = X[begin:stop], y[begin:stop], np.ones(stop - begin)
        np.testing.assert_allclose(late.learn(*part), wide.learn(*part), rtol=1e-7, atol=1e-9)
    assert late.n == wide.n == n


@pytest.mark.parametrize("half_lives", [(np.inf, 200.0, 50.0), (80.0,)])
@pytest.mark.parametrize("at", [3, 60, 128, 700])
def test_a_restored_stream_goes_on(half_lives, at, rng):
    X = rng.normal(size=(1200, 3))
    y = np.where(X[:, 0] + rng.normal(size=1200) > 0.5, 1.0, -1.0)
    weight = rng.random(1200)
    stream, again = (stream_of(3, half_lives) for _ in range(2))
    stream.learn(X[:at], y[:at], weight[:at])
    again.restore(stream.state())
    rest = X[at:], y[at:], weight[at:]
    np.testing.assert_array_equal(stream.learn(*rest), again.learn(*rest))
    np.testing.assert_array_equal(stream.model()[0].coef, again.model()[0].coef)
    with pytest.raises(ValueError, match="the saved sums"):
        stream_of(4, half_lives).restore(stream.state())


def test_rows_that_fail_leave_the_stream_as_it_was(rng):
    X, y = rng.normal(size=(300, 3)), rng.choice([-1.0, 1.0], 300)
    stream = stream_of(3)
    stream.learn(X, y, np.ones(300))
    before = stream.model()[0].coef
    with pytest.raises(ValueError, match=r"dimension|mismatch|size|align"):
        stream.learn(rng.normal(size=(300, 4)), y, np.ones(300))
    assert stream.n == 300
    np.testing.assert_array_equal(stream.model()[0].coef, before)


def test_a_restart_keeps_the_ranges_of_the_open_block(rng):
    X, y = rng.normal(size=(140, 2)), rng.choice([-1.0, 1.0], 140)
    X[135, 1] = 50.0  # in the open block: blocks end with 128 rows
    stream = stream_of(2, (np.inf,))
    stream.learn(X, y, np.ones(140))
    stream.restart()
    assert stream.state()["reach"][2][1] == 50.0
    assert stream.model() is not None


@pytest.mark.parametrize(("d", "shortest"), [(1, 250.0), (62, 250.0), (100, 400.0)])
def test_half_lives_are_four_times_apart(d, shortest):
    lives = (np.inf, 16.0 * shortest, 4.0 * shortest, shortest)
    assert half_lives_for(d) == lives
    assert half_lives_for(d, memory=7.0) == (7.0,)
    table = 2 * 8 * (d + 1) ** 2
    for n_tables, kept in ((0, 1), (2, 1), (3, 2), (4, 3), (5, 4), (6, 4)):
        assert half_lives_for(d, max_memory=n_tables * table) == lives[:kept]


def test_recent_scores_are_ranked_exactly(rng):
    scores = np.round(rng.normal(size=(900, 3)) * 2.0) / 2.0
    y = np.where(rng.random(900) < 0.3, 1.0, -1.0)
    recent = RecentScores.none(3)
    for begin in range(0, 900, 77):
        now = slice(begin, begin + 77)
        recent = recent.plus(block(scores[now], y[now], scores=scores[now]))
    p, q = scores[y > 0][-RECENT:], scores[y < 0][-RECENT:]
    wins = (p[:, None] > q[None]) + 0.5 * (p[:, None] == q[None])
    for k in range(3):
        assert recent.auc(k) == pytest.approx(wins[:, :, k].mean())


def test_the_longest_memory_as_good_as_the_best_is_taken(rng):
    y = np.where(rng.random(2000) < 0.5, 1.0, -1.0)
    good, noise = y + rng.normal(size=2000), rng.normal(size=2000)
    for columns, place in (
        ((good, good, noise), 0),
        ((noise, good, good), 1),
        ((noise, noise, good), 2),
    ):
        scores = np.column_stack(columns)
        assert RecentScores.none(3).plus(block(scores, y, scores=scores)).best() == place
