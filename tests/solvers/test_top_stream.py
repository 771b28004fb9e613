# SPDX-License-Identifier: BSD-3-Clause
"""Descent for the top of the list is its reference, step by step."""

import numpy as np
import pytest
import scipy.sparse
from scipy.optimize import approx_fprime

from pairlearn import reference
from pairlearn.losses import Hinge, SquaredHinge
from pairlearn.solvers.rows import DenseRows, as_rows
from pairlearn.solvers.top.objectives import PartialArea, Push, SmoothPrecision
from pairlearn.solvers.top.stream import TopStream

LOSS = SquaredHinge()


def sample(rng, n=64):
    X = rng.normal(size=(n, 3)) * [1.0, 10.0, 0.1] + [0.0, 5.0, 0.0]
    y = np.where(X[:, 0] + rng.normal(size=n) > 0.7, 1.0, -1.0)
    return X, y


@pytest.mark.parametrize("radius", [np.inf, 0.5])
def test_steps_are_those_of_the_reference(rng, radius):
    X, y = sample(rng)
    stream = TopStream(Push(4.0), LOSS, 3, step_size=0.7, radius=radius, batch_size=8, memory=5,
                       seed=3)  # fmt: skip

    def slopes(scores, positive):
        if not (positive.any() and not positive.all()):
            return np.zeros(len(scores))
        return approx_fprime(scores, lambda s: reference.p_norm_push(LOSS, s, positive, 4.0), 1e-6)

    wanted = reference.top_of_list_sgd(
        slopes, X, y > 0, batch_size=8, memory=5, step_size=0.7, radius=radius,
        draws=lambda t: np.random.default_rng((3, t)).random(8),
    )  # fmt: skip
    for t, average in enumerate(wanted):
        part = slice(8 * t, 8 * t + 8)
        stream.learn(DenseRows(X[part]), y[part], np.empty(0))
        np.testing.assert_allclose(stream.average, average, rtol=2e-3, atol=1e-4)


def test_the_sample_of_the_past_is_uniform_and_bounded():
    counts = np.zeros(40)
    for seed in range(100):
        stream = TopStream(Push(2.0), LOSS, 1, batch_size=4, memory=8, seed=seed)
        X = np.arange(40.0)[:, None]
        # All negative but the first: nothing is learned, the sample is kept.
        y = np.where(np.arange(40) == 0, 1.0, -1.0)
        stream.learn(DenseRows(X), y, np.empty(0))
        scores, positive, weight = stream.window()
        assert len(scores) == 9
        assert weight[~positive].sum() == pytest.approx(39.0)
        kept = stream.state()["negatives"]["X"][:, 0].astype(int)
        assert len(set(kept)) == 8
        counts[kept] += 1
    np.testing.assert_allclose(counts[1:], 100 * 8 / 39, atol=4.5 * np.sqrt(20.5))


@pytest.mark.parametrize("objective", [Push(8.0), PartialArea(0.3), SmoothPrecision()], ids=str)
def test_weights_chunks_and_breaks(rng, objective):
    X, y = sample(rng, 400)
    weight = rng.uniform(0.5, 2.0, 400)

    def learn(cuts, as_sparse=False, break_at=None):
        stream = TopStream(objective, LOSS, 3, batch_size=16, memory=50)
        data = scipy.sparse.csr_array(X) if as_sparse else X
        begin = 0
        for stop in [*cuts, 400]:
            part = slice(begin, stop)
            stream.learn(as_rows(data[part]), y[part], weight[part])
            begin = stop
            if stop == break_at:
                state = stream.state()
                stream = TopStream(objective, LOSS, 3, batch_size=16, memory=50)
                stream.restore(state)
        return stream

    whole = learn([])
    assert np.isfinite(whole.average).all()
    assert whole.average[0] > 0.0
    for other in (learn([7, 8, 200]), learn([201], break_at=201)):
        np.testing.assert_array_equal(other.average, whole.average)
    sparse, broken = learn([], as_sparse=True), learn([201], as_sparse=True, break_at=201)
    np.testing.assert_array_equal(broken.average, sparse.average)
    np.testing.assert_allclose(sparse.average, whole.average, rtol=1e-6)


def test_refusals():
    with pytest.raises(ValueError, match="needs a smooth loss that never increases"):
        TopStream(Push(2.0), Hinge(), 2)
    with pytest.raises(ValueError, match="step_size"):
        TopStream(Push(2.0), LOSS, 2, step_size=0.0)
    stream = TopStream(Push(2.0), LOSS, 2, batch_size=4, memory=4)
    stream.learn(DenseRows(np.eye(2)), np.array([1.0, -1.0]), np.empty(0))
    state = stream.state()
    with pytest.raises(ValueError, match="saved average"):
        TopStream(Push(2.0), LOSS, 3).restore(state)
