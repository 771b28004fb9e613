# SPDX-License-Identifier: BSD-3-Clause
"""What a stream of moments does in machine code, against its steps in Python."""

import pickle

import numpy as np
import pytest

from pairlearn import AUCClassifier
from pairlearn.features.base import Identity
from pairlearn.solvers.closed_form.block_stream import BlockStream
from pairlearn.solvers.closed_form.mapped_moments import scale_for
from pairlearn.solvers.closed_form.memories import Memories, spreads_of
from pairlearn.solvers.closed_form.stream_model import chosen_for_models
from pairlearn.solvers.closed_form.stream_ridge import (
    candidates,
    fold_aucs,
    held_folds,
    small_fold_aucs,
)


# With the rarest, a short memory knows less than one example of a class at times.
@pytest.mark.parametrize("share", [0.5, 0.1, 0.001, 0.999])
def test_compiled_blocks_leave_the_directions_of_python(share):
    rng = np.random.default_rng(0)
    n, d, n_compiled = 6000, 4, 0
    X = rng.normal(size=(n, d))
    y = np.where(X[:, 0] + rng.normal(size=n) > np.quantile(X[:, 0], 1 - share), 1.0, -1.0)
    stream = BlockStream(Identity.of(d), (np.inf, 200.0, 50.0), ridge=None, margin=1.0, scaled=True)
    side = stream._block.side
    for at in range(0, n - n % side, side):
        now = slice(at, at + side)
        n_compiled += stream._compiled is not None
        stream.learn(X[now], y[now], np.ones(side))
        if at > side and stream._block.n == 0:
            expected = stream._learned.directions()
            np.testing.assert_allclose(stream._directions.weights, expected.weights, rtol=1e-9)
            np.testing.assert_allclose(stream._directions.middle, expected.middle, rtol=1e-9)
    assert n_compiled > 30


def _numbers(state, path=""):
    """Yield the numbers and arrays of a state, with their names."""
    if isinstance(state, dict):
        for name, inner in state.items():
            yield from _numbers(inner, f"{path}.{name}")
    elif state is not None:
        yield path, np.asarray(state)


def test_compiled_blocks_leave_the_state_of_python(monkeypatch):
    rng = np.random.default_rng(0)
    n, d = 3000, 4
    X = rng.normal(size=(n, d))
    y = np.where(X[:, 0] + rng.normal(size=n) > 0.5, 1.0, -1.0)

    def states():
        lives = (np.inf, 200.0, 50.0)
        stream = BlockStream(Identity.of(d), lives, ridge=None, margin=1.0, scaled=True)
        for at in range(0, n, 500):
            now = slice(at, at + 500)
            scores = stream.learn(X[now], y[now], np.ones(500))
            yield dict(_numbers({"state": stream.state(), "scores": scores}))

    compiled = list(states())
    monkeypatch.setattr(BlockStream, "_prepare", lambda self: None)
    for own, expected in zip(compiled, states(), strict=True):
        assert own.keys() == expected.keys()
        for name, values in own.items():
            if values.dtype.kind == "f":
                np.testing.assert_allclose(values, expected[name], rtol=1e-9, err_msg=name)
            else:
                np.testing.assert_array_equal(values, expected[name], err_msg=name)


def test_a_feature_that_wakes_late_has_a_unit_of_its_own():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 2))
    y = (X[:, 1] + 0.3 * X[:, 0] + rng.normal(size=3000) > 0).astype(int)
    X[:600, 1] = 0.0

    def scores(unit):
        rows, model = X * [1.0, unit], AUCClassifier()
        for at in range(0, 3000, 300):
            model.partial_fit(rows[at : at + 300], y[at : at + 300], classes=[0, 1])
        return model.decision_function(rows)

    np.testing.assert_array_equal(scores(2.0**600), scores(1.0))


def test_a_pickle_from_before_what_is_learned_stood_apart_goes_on():
    rng = np.random.default_rng(0)
    X, weight = rng.normal(size=(900, 3)), np.ones(900)
    y = np.where(X[:, 0] + rng.normal(size=900) > 0.5, 1.0, -1.0)
    stream = BlockStream(Identity.of(3), (np.inf, 200.0), ridge=None, margin=1.0, scaled=True)
    stream.learn(X[:500], y[:500], weight[:500])
    parts = pickle.loads(pickle.dumps(stream)).__getstate__()
    learned = vars(parts.pop("_learned"))
    parts |= {"features": learned.pop("features"), "_start": learned.pop("n")}
    parts |= {f"_{name}": value for name, value in learned.items()}
    older = BlockStream.__new__(BlockStream)
    older.__setstate__(parts)
    assert vars(older).keys() == vars(stream).keys()
    for one in (stream, older):
        one.learn(X[500:], y[500:], weight[500:])
    expected = dict(_numbers(stream.state()))
    for name, values in _numbers(older.state()):
        np.testing.assert_array_equal(values, expected[name], err_msg=name)
    np.testing.assert_array_equal(older.model()[0].coef, stream.model()[0].coef)


def test_a_restart_knows_the_ranges_of_the_open_block():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(140, 2))
    y = np.where(rng.random(140) < 0.5, 1.0, -1.0)
    X[135, 1] = 50.0  # in the open block: blocks end with 128 rows
    stream = BlockStream(Identity.of(2), (np.inf,), ridge=None, margin=1.0, scaled=True)
    stream.learn(X, y, np.ones(140))
    stream.restart()
    assert stream.state()["high"][1] == 50.0


@pytest.mark.parametrize("before", [1, 5, 20, 100, 700])
def test_a_wider_stream_goes_on_as_if_new_features_had_been_zero(before):
    rng = np.random.default_rng(0)
    n, lives = 1500, (np.inf, 200.0, 50.0)
    X = rng.normal(size=(n, 3))
    y = np.where(X.sum(axis=1) + rng.normal(size=n) > 0.5, 1.0, -1.0)
    X[:before, 2] = 0.0
    wide, late = (
        BlockStream(Identity.of(d), lives, ridge=None, margin=1.0, scaled=True) for d in (3, 2)
    )
    for stream, d in ((wide, 3), (late, 2)):
        stream.learn(X[:before, :d], y[:before], np.ones(before))
    late.widen(Identity.of(3), lives)
    for begin, stop in ((before, before + 3), (before + 3, before + 50), (before + 50, n)):
        assert late.until_refresh == wide.until_refresh
        part = X[begin:stop], y[begin:stop], np.ones(stop - begin)
        np.testing.assert_allclose(late.learn(*part), wide.learn(*part), rtol=1e-9, atol=1e-12)
    assert late.n == wide.n == n


@pytest.mark.parametrize("least", [0.0, 0.5])
def test_a_fold_leaves_weight_of_both_classes(least):
    """Examples without weight count, but nothing can be learned from them."""
    rng = np.random.default_rng(0)
    Z, y = rng.normal(size=(30, 2)), np.where(np.arange(30) < 6, 1.0, -1.0)
    # If one positive example alone has a weight, the only fold holds it; others were not kept.
    weight = np.where((y > 0) & (np.arange(30) > 0), least, 1.0)
    memories = Memories(2, [np.inf])
    memories.add(Z, y, weight)
    memories.add(rng.normal(size=(30, 2)), np.full(30, -1.0))
    folds = list(held_folds(memories, None, (Z, y, weight), 60, every=True))
    assert len(folds) == (3 if least else 0)
    for train, (_, labels, held) in folds:
        assert (train.sums[0, :, 0, 0] > 0.0).all()
        for kind, sign in enumerate((1.0, -1.0)):
            others = 0.0 if sign > 0 else 30.0
            left = others + weight[y == sign].sum() - held[labels == sign].sum()
            assert train.sums[0, kind, 0, 0] == pytest.approx(left)


def test_what_is_tried_depends_on_the_rarer_class():
    ridges = (1.0, 0.1)
    assert candidates(ridges, 10.0, free=False) == (ridges, [False])
    assert candidates(ridges, 10.0, free=True) == ((100.0, 10.0, 1.0, 0.1), [False, True])
    assert candidates(ridges, 200.0, free=True) == (ridges, [False, True])
    assert candidates(ridges, 300.0, free=True) == (ridges, [False])


def test_models_deal_the_folds_of_a_rare_class_repeatedly():
    rng = np.random.default_rng(3)
    n = 640
    X, y = rng.normal(size=(n, 4)), np.where(np.arange(n) % 32 == 0, 1.0, -1.0)
    X[y > 0, 0] += 0.7
    stream = BlockStream(Identity.of(4), (np.inf,), ridge=None, margin=1.0, scaled=True)
    stream.learn(X, y, np.ones(n))
    aucs = []
    for repeated in (False, True):
        twin = stream._learned.copy()
        twin.choose_ridge_if_due(always=n + 1, repeated=repeated)
        aucs.append(twin.ridge_auc)
    assert aucs[0] != aucs[1]
    assert chosen_for_models(stream._learned).learned.ridge_auc == aucs[1]


@pytest.mark.parametrize("d", [1, 2, 9, 17, 48])
@pytest.mark.parametrize("share", [0.02, 0.5])
@pytest.mark.parametrize(("weight", "alone"), [(2.0, 1 << 18), (1.0, 100)])
def test_few_features_choose_as_many_do(d, share, weight, alone, monkeypatch):
    monkeypatch.setattr("pairlearn.solvers.closed_form.stream_ridge._ALONE", alone)
    rng, n = np.random.default_rng(d), 3000
    X = rng.normal(size=(n, d)) * np.exp(3.0 * rng.normal(size=d)) + 5.0 * rng.normal(size=d)
    X[:, d // 2] = np.where(rng.random(n) < 0.01, 3.0, 1.0)
    score = X[:, 0] + X[:, 0].std() * rng.normal(size=n)
    y = np.where(score > np.quantile(score, 1.0 - share), 1.0, -1.0)
    learned = BlockStream(
        Identity.of(d), (np.inf, 500.0), ridge=None, margin=1.0, scaled=True, free=True
    )
    learned.learn(X, y, np.full(n, weight))
    now = learned._learned
    rows, tried = now.held.latest(), ((100.0, 1.0, -1e6, 1e-4), [False, True])
    folds = list(held_folds(now.memories, None, rows, now.n, repeated=True))
    given = now.memories, rows, now.n, now._scale_for
    few = small_fold_aucs(*given, *tried, repeated=True)
    assert len(few) == len(folds) > 0
    # A ridge that is too small has no AUC.
    assert np.isnan(few[0]).tolist() == [False, False, True, False] * 2
    np.testing.assert_allclose(few, fold_aucs(folds, now.scale_of, *tried), atol=1e-12)
    for train, _ in folds:
        found = spreads_of(train.sums[0], now.memories.origin)
        wide = scale_for(now.features, *found, now.low, now.high)
        assert now.scale_of(train).tobytes() == wide.tobytes()
    assert small_fold_aucs(given[0], (*rows[:2], rows[0][:, 0] ** 2 + 1.0), *given[2:], *tried,
                           repeated=True) is None  # fmt: skip
