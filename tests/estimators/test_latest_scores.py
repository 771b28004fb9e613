# SPDX-License-Identifier: BSD-3-Clause
"""The latest scores of a stream: whoever holds some of them keeps them, whatever comes later."""

import pickle

import numpy as np
import pytest

from pairlearn.estimators.auc.ways.grid import WINDOW, LatestScores


def sample(n, n_models=2):
    rng = np.random.default_rng(5)
    return rng.normal(size=(n_models, n)), rng.random(n) < 0.3, rng.random(n)


def begun(n_models=2):
    return LatestScores(np.empty((n_models, 0)), np.empty(0, dtype=bool), np.empty(0))


@pytest.mark.parametrize("size", [1000, 999, 4096, 5000, 13_000])
def test_the_window_is_the_end_of_what_came(size):
    scores, positive, weight = sample(13_000)
    latest, held = begun(), []
    for begin in range(0, 13_000, size):
        now = slice(begin, begin + size)
        latest.add(scores[:, now], positive[now], weight[now])
        stop = min(begin + size, 13_000)
        held.append((latest.scores, slice(max(0, stop - WINDOW), stop)))
    for found, now in held:
        assert np.array_equal(found, scores[:, now])
    last = held[-1][1]
    assert np.array_equal(latest.positive, positive[last])
    assert np.array_equal(latest.weight, weight[last])


def test_no_weights_mean_one_and_one_model_is_kept():
    scores, positive, weight = sample(60)
    latest = begun()
    latest.add(scores[:, :20], positive[:20], np.empty(0))
    latest.keep(1)
    latest.add(scores[1:, 20:40], positive[20:40], weight[20:40])
    latest.add(scores[1:, 40:], positive[40:], np.empty(0))
    assert np.array_equal(latest.scores, scores[1:])
    expected = np.concatenate([np.ones(20), weight[20:40], np.ones(20)])
    assert np.array_equal(latest.weight, expected)


def test_weights_that_come_later_count_beside_ones():
    scores, positive, _ = sample(3 * WINDOW, 1)
    latest = begun(1)
    latest.add(scores[:, :WINDOW], positive[:WINDOW], np.empty(0))
    assert np.array_equal(latest.counts, np.ones(WINDOW))
    twice = np.full(WINDOW // 2, 2.0)
    latest.add(scores[:, : WINDOW // 2], positive[: WINDOW // 2], twice)
    assert np.array_equal(latest.weight, np.repeat([1.0, 2.0], WINDOW // 2))
    np.testing.assert_allclose(latest.counts, latest.weight / 1.5, rtol=1e-15)
    # Enough for a new room.
    latest.add(scores[:, WINDOW : 2 * WINDOW - 2], positive[: WINDOW - 2], np.empty(0))
    assert np.array_equal(latest.weight, np.append([2.0, 2.0], np.ones(WINDOW - 2)))
    assert np.array_equal(latest.scores[:, 2:], scores[:, WINDOW : 2 * WINDOW - 2])


def test_a_copy_goes_its_own_way():
    scores, positive, weight = sample(30)
    latest = begun()
    latest.add(scores[:, :10], positive[:10], weight[:10])
    other = pickle.loads(pickle.dumps(latest))
    latest.add(scores[:, 10:20], positive[10:20], weight[10:20])
    other.add(scores[:, 20:], positive[20:], weight[20:])
    assert np.array_equal(latest.scores, scores[:, :20])
    assert np.array_equal(other.scores, scores[:, [*range(10), *range(20, 30)]])
