# SPDX-License-Identifier: BSD-3-Clause
"""What a stream of moments does in machine code, against its steps in Python."""

import pickle

import numpy as np
import pytest

from pairlearn import AUCClassifier
from pairlearn.features.base import Identity
from pairlearn.solvers.closed_form.block_stream import BlockStream


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
