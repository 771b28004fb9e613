# SPDX-License-Identifier: BSD-3-Clause
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from pairlearn.privacy.mechanisms.sufficient_statistics import (
    Weights,
    clip_to_ball,
    record_statistics,
    release_moments,
)
from pairlearn.privacy.noise import NoiseSource

weights_strategy = st.builds(
    lambda b, k, r, share: Weights(b, k, r, share * (1 + b * b) / 2),
    st.floats(0.05, 5.0),
    st.floats(0.05, 3.0),
    st.floats(0.05, 3.0),
    st.floats(0.0, 1.0),
)
vectors = arrays(np.float64, 3, elements=st.floats(-2.0, 2.0))
signs_strategy = st.sampled_from([-1.0, 1.0])


@given(weights_strategy, vectors, vectors, signs_strategy, signs_strategy)
@settings(max_examples=400, deadline=None)
@pytest.mark.thorough
def test_replacing_a_record_stays_within_the_sensitivity(weights, v, w, y, z):
    rows = record_statistics(np.stack([v, w]), np.array([y, z]), weights=weights)
    bound = weights.sensitivity("replace")
    assert np.linalg.norm(rows[0] - rows[1]) <= bound * (1 + 1e-9)
    assert np.linalg.norm(rows[0]) <= weights.sensitivity("add_remove") * (1 + 1e-9)


@given(weights_strategy)
@settings(max_examples=150, deadline=None)
def test_adversarial_neighbours_reach_but_do_not_pass_the_sensitivity(weights):
    # A fine grid of lengths and angles, both label cases: the closed form is the true maximum.
    angles = np.linspace(0.0, math.pi, 181)
    lengths = np.linspace(0.0, 1.0, 21)
    angle, length = (a.ravel() for a in np.meshgrid(angles, lengths))
    ones = np.ones_like(angle)
    first = np.stack([ones, 0 * ones], axis=1)
    second = length[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    worst = 0.0
    for label in (-1.0, 1.0):
        difference = record_statistics(first, ones, weights=weights) - record_statistics(
            second, label * ones, weights=weights
        )
        worst = max(worst, float(np.linalg.norm(difference, axis=1).max()))
    bound = weights.sensitivity("replace")
    assert worst <= bound * (1 + 1e-9)
    assert worst >= bound * 0.999


@pytest.mark.parametrize("b", [0.1, 0.5, 1.0, 2.0, 10.0])
@pytest.mark.parametrize("second", [False, True])
def test_free_weights_cost_nothing(b, second):
    weights = Weights.free(b, second_moments=second)
    assert weights.sensitivity("replace") == pytest.approx(2 * math.sqrt(1 + b * b), rel=1e-12)
    dearer = Weights(b, weights.label * 1.05, weights.length, weights.second)
    assert dearer.sensitivity("replace") > weights.sensitivity("replace") * 1.0001


def test_unproved_weights_are_refused():
    with pytest.raises(ValueError, match="not proved"):
        Weights(1.0, 0.5, 1.0, 1.1)
    with pytest.raises(ValueError, match="positive"):
        Weights(0.0, 0.5, 1.0, 0.1)
    with pytest.raises(ValueError, match="neighbours"):
        Weights.free(1.0).sensitivity("other")


def release(seed=0, mu=1e6, n=300, **changes):
    rng = np.random.default_rng(1)
    Z = rng.normal(size=(n, 3)) + 0.3
    signs = np.where(rng.random(n) < 0.3, 1.0, -1.0)
    values = dict(
        centre=np.full(3, 0.2),
        radius=2.0,
        weights=Weights.free(0.6),
        mu=mu,
        n_examples=n,
        neighbours="replace",
        noise=NoiseSource(seed=seed),
    )
    return Z, signs, release_moments(Z, signs, **(values | changes))


def test_without_noise_the_moments_are_the_moments():
    Z, signs, moments = release(mu=1e4)
    V, lengths = clip_to_ball((Z - 0.2) / 2.0)
    tolerance = 1e-5
    assert np.allclose(moments.label_mean, (V * signs[:, None]).mean(0), atol=tolerance)
    assert np.allclose(moments.mean, V.mean(0), atol=tolerance)
    assert np.allclose(moments.second, V.T @ V / len(V), atol=tolerance)
    assert moments.label == pytest.approx(signs.mean(), abs=tolerance)
    assert moments.length == pytest.approx(lengths.mean(), abs=tolerance)


def test_noise_has_the_stated_size():
    # Mean of 200 x 14 squared normals; 5 standard errors, false-alarm rate below 1e-6.
    mu = 0.5
    draws = []
    for seed in range(200):
        Z, signs, moments = release(seed=seed, mu=mu)
        V, lengths = clip_to_ball((Z - 0.2) / 2.0)
        w = moments.weights
        exact = (V * signs[:, None]).mean(0), V.mean(0), signs.mean(), lengths.mean()
        draws.append(
            np.concatenate(
                [
                    moments.label_mean - exact[0],
                    w.mean * (moments.mean - exact[1]),
                    [w.label * (moments.label - exact[2]), w.length * (moments.length - exact[3])],
                    math.sqrt(w.second) * np.diag(moments.second - V.T @ V / len(V)),
                    math.sqrt(2 * w.second)
                    * (moments.second - V.T @ V / len(V))[np.triu_indices(3, 1)],
                ]
            )
            / moments.deviation
        )
    z = np.array(draws)
    assert abs((z**2).mean() - 1) < 5 * math.sqrt(2 / z.size)
    assert abs(z.mean()) < 5 / math.sqrt(z.size)
    assert moments.release.mu == pytest.approx(mu, rel=1e-9)
    assert moments.deviation * len(Z) == pytest.approx(moments.release.noise_scale)


def test_a_release_lies_on_the_grid():
    *_, moments = release(mu=0.5)
    step = moments.release.noise_scale / (1 << 20)
    cells = moments.label_mean * 300 / step
    assert np.allclose(cells, np.rint(cells), atol=1e-3)
