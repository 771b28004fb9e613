# SPDX-License-Identifier: BSD-3-Clause
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pairlearn.privacy.mechanisms.metric_gradient as module
from pairlearn.losses import DistanceLogistic
from pairlearn.privacy.audit.attack import audit
from pairlearn.privacy.audit.replay import Neighbours, release_distances, worst_case_neighbours
from pairlearn.privacy.mechanisms.base import PublicSetting
from pairlearn.privacy.mechanisms.by_name import get_mechanism
from pairlearn.privacy.mechanisms.clipped_pairs import clip_rows
from pairlearn.privacy.mechanisms.metric_gradient import (
    MetricGradient,
    MetricPairGradient,
    PairLengths,
    from_upper,
    to_upper,
)
from pairlearn.privacy.noise import NoiseSource


def make_setting(n=12, d=2, epsilon=1.0, neighbours="replace", delta=1e-2):
    return PublicSetting.make(
        n, lower=[-3] * d, upper=[3] * d, epsilon=epsilon, delta=delta, neighbours=neighbours
    )


def psd(rng, d, scale=1.0):
    factor = rng.normal(size=(d, int(rng.integers(1, d + 1))))
    return scale * factor @ factor.T


def risk(W, Z, labels, radius, bias, weight):
    loss, n, total = DistanceLogistic(bias=bias), len(Z), 0.0
    for i in range(n):
        for j in range(i):
            if np.isnan(labels[i]) or np.isnan(labels[j]):
                continue
            v = clip_rows((Z[i] - Z[j])[None, :], radius)[0]
            cost = loss.value(float(v @ W @ v), labels[i], labels[j], bias)
            total += cost * (1.0 if labels[i] == labels[j] else weight)
    return 2.0 * total / (n * (n - 1))


def test_gradient_is_the_derivative_of_the_risk():
    rng = np.random.default_rng(0)
    Z, labels = rng.normal(size=(9, 3)), np.array([0, 0, 1, 1, 2, 2, np.nan, 0, 2.0])
    W = psd(rng, 3)
    options = {"radius": 1.4, "bias": 0.7}
    gradient = MetricPairGradient(Z, labels, different_weight=0.4, **options)(W)
    assert np.array_equal(gradient, gradient.T)
    for _ in range(5):
        step = rng.normal(size=(3, 3))
        step = 1e-5 * (step + step.T)
        slope = risk(W + step, Z, labels, weight=0.4, **options)
        slope -= risk(W - step, Z, labels, weight=0.4, **options)
        assert 2.0 * np.vdot(gradient, step) == pytest.approx(slope, abs=1e-11)


def test_chunks_change_nothing(monkeypatch):
    rng = np.random.default_rng(1)
    Z, labels = rng.normal(size=(23, 3)), rng.integers(0, 3, 23).astype(float)
    W = psd(rng, 3)
    whole = MetricPairGradient(Z, labels, radius=1.0)(W)
    monkeypatch.setattr(module, "_CHUNK_NUMBERS", 200)
    assert np.allclose(MetricPairGradient(Z, labels, radius=1.0)(W), whole, atol=1e-15)
    monkeypatch.setattr(module, "_STORED_NUMBERS", 100)
    assert np.allclose(MetricPairGradient(Z, labels, radius=1.0)(W), whole, atol=1e-15)


@given(seed=st.integers(0, 2**32), d=st.integers(1, 6))
@settings(max_examples=50, deadline=None)
def test_the_upper_triangle_keeps_lengths(seed, d):
    M = np.random.default_rng(seed).normal(size=(d, d))
    M = M + M.T
    v = to_upper(M)
    assert len(v) == d * (d + 1) // 2
    assert np.linalg.norm(v) == pytest.approx(np.linalg.norm(M), rel=1e-12)
    assert np.allclose(from_upper(v), M, atol=1e-14)


@given(
    seed=st.integers(0, 2**32),
    bias=st.floats(0.1, 6.0),
    scale=st.floats(0.01, 10.0),
    weight=st.floats(0.05, 1.0),
)
@settings(max_examples=150, deadline=None)
@pytest.mark.thorough
def test_lengths_bound_every_pair_and_are_attained(seed, bias, scale, weight):
    rng = np.random.default_rng(seed)
    W = psd(rng, 3, scale)
    radius = 1.7
    lengths = PairLengths.at(W, radius=radius, bias=bias, different_weight=weight)
    loss = DistanceLogistic(bias=bias)
    _, vectors = np.linalg.eigh(W)
    sizes = np.linspace(0.0, 1.0, 2001)[:, None] * radius
    random = clip_rows(2 * rng.normal(size=(50, 3)), radius)
    V = np.concatenate([random, sizes * vectors[:, 0], sizes * vectors[:, -1]])
    squared, distances = (V * V).sum(axis=1), ((V @ W) * V).sum(axis=1).tolist()
    for bound, other, share in ((lengths.equal, 0.0, 1.0), (lengths.different, 2.0, weight)):
        slopes = [loss.derivative(h, 0.0, other, bias) for h in distances]
        size = share * float((np.abs(slopes) * squared).max())
        assert size <= bound * (1 + 1e-9)
        assert size >= bound * (1 - 1e-4)


@given(
    seed=st.integers(0, 2**32),
    kind=st.sampled_from(["random", "across", "flip", "unknown"]),
    far=st.booleans(),
    weight=st.sampled_from([1.0, 0.5, 0.1]),
    scale=st.floats(0.01, 3.0),
)
@settings(max_examples=120)
def test_pair_lemma_for_metrics(seed, kind, far, weight, scale):
    rng = np.random.default_rng(seed)
    n, d, radius, bias = int(rng.integers(2, 12)), 2, 1.5, 1.0
    Z = rng.normal(size=(n, d)) * (10.0 if far else 1.0)
    labels = rng.integers(0, 3, n).astype(float)
    if kind == "across":
        # All partners in one place: the example moves to the side at a right angle.
        Z[1:], labels[1:] = 0.0, rng.integers(0, 2)
        Z[0], labels[0] = (0.0, 5.0), 0.0
    other, other_labels = Z.copy(), labels.copy()
    other[0] = (5.0, 0.0) if kind == "across" else rng.normal(size=d)
    if kind == "flip":
        other[0], other_labels[0] = Z[0], (labels[0] + 1) % 3
    if kind == "unknown":
        other_labels[0] = np.nan
    W = psd(rng, d, scale)
    options = {"radius": radius, "bias": bias, "different_weight": weight}
    apart = MetricPairGradient(Z, labels, **options)(W)
    apart -= MetricPairGradient(other, other_labels, **options)(W)
    lengths = PairLengths.at(W, **options)
    assert np.linalg.norm(apart) <= 2 * lengths.change / n * (1 + 1e-9)
    options["n_examples"] = n
    apart = MetricPairGradient(Z, labels, **options)(W)
    apart -= MetricPairGradient(Z[1:], labels[1:], **options)(W)
    assert np.linalg.norm(apart) <= 2 * lengths.largest / n * (1 + 1e-9)


def test_the_lemma_is_tight_where_descent_starts():
    for neighbours in ("replace", "add_remove"):
        setting = make_setting(n=10, d=3, neighbours=neighbours)
        pair = worst_case_neighbours(setting, label_is_worst=True)
        ((distance, bound),) = release_distances(
            MetricGradient(), pair, setting=setting, noise=NoiseSource(secure=False, seed=0)
        )
        assert distance <= bound
        assert distance >= bound * (1 - 1e-8)


@given(seed=st.integers(0, 2**32), corners=st.booleans(), epsilon=st.floats(0.1, 8.0))
@settings(max_examples=60, deadline=None)
def test_every_step_keeps_its_sensitivity(seed, corners, epsilon):
    rng = np.random.default_rng(seed)
    for neighbours in ("replace", "add_remove"):
        setting = make_setting(d=3, epsilon=epsilon, neighbours=neighbours)
        Z = rng.uniform(-3, 3, (12, 3))
        Z = 3 * np.sign(Z) if corners else Z
        labels = rng.integers(0, 3, 12).astype(float)
        other, other_labels = Z.copy(), labels.copy()
        other[3], other_labels[3] = rng.uniform(-3, 3, 3), rng.choice([0.0, 1.0, np.nan])
        if neighbours == "add_remove":
            other, other_labels = np.delete(Z, 3, axis=0), np.delete(labels, 3)
        mechanism = MetricGradient(n_steps=4, noise_limit=10.0, different_weight=0.5)
        for secure in (False, seed % 10 == 0):
            distances = release_distances(
                mechanism,
                Neighbours(Z, labels, other, other_labels),
                setting=setting,
                noise=NoiseSource(seed=seed, secure=secure),
            )
            assert len(distances) == 4
            assert all(distance <= bound * (1 + 1e-9) for distance, bound in distances)


def sound(run):
    return NoiseSource(secure=False, seed=[7, run])


@pytest.mark.parametrize("n_steps", [1, 3])
@pytest.mark.thorough
def test_sound_copies_pass_and_sabotaged_ones_do_not(n_steps, monkeypatch):
    setting = make_setting(n=16, epsilon=3.0)
    mechanism = MetricGradient(n_steps=n_steps)
    options = {"n_runs": 800, "confidence": 0.999, "make_source": sound}
    result = audit(mechanism, setting, **options)
    assert result.passed, result.statement()
    assert result.mu_lower > 0.5 * setting.mu
    honest, options["n_runs"] = PairLengths.change.fget, 400

    # As if a pair that turns from near to far moved by one length only.
    monkeypatch.setattr(PairLengths, "change", property(lambda lengths: honest(lengths) / 2))
    result = audit(mechanism, setting, **options)
    assert not result.passed, result.statement()
    monkeypatch.undo()

    # As if a pair had length 1, not C^2.
    monkeypatch.setattr(
        PairLengths, "change", property(lambda lengths: honest(lengths) / (0.64 * 4))
    )
    result = audit(mechanism, setting, **options)
    assert not result.passed, result.statement()
    monkeypatch.undo()

    # As if an example were in one pair's share of 1/n^2 of the sum.
    monkeypatch.setattr(
        MetricGradient,
        "_sensitivity",
        lambda self, W, public, real=MetricGradient._sensitivity: real(self, W, public) / 16,
    )
    result = audit(mechanism, setting, **options)
    assert not result.passed, result.statement()


def test_off_diagonal_entries_without_the_root_of_two_are_caught(monkeypatch):
    # A matrix whose off-diagonal part carries the change: noise must not be less there.
    def plain(M):
        upper = M[np.triu_indices(len(M))]
        return upper * math.sqrt(2.0)

    honest = to_upper(np.ones((8, 8)))
    assert np.linalg.norm(plain(np.ones((8, 8)))) > np.linalg.norm(honest)
    monkeypatch.setattr(module, "to_upper", plain)
    setting = make_setting(n=16, d=2)
    pair = worst_case_neighbours(setting, label_is_worst=True)
    ((distance, bound),) = release_distances(
        MetricGradient(), pair, setting=setting, noise=NoiseSource(secure=False, seed=0)
    )
    assert distance > bound


def clouds(n=600, d=5, seed=0):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 3, n).astype(float)
    Z = rng.normal(size=(n, d))
    Z[:, 0] = 2.0 * (labels - 1) + 0.3 * rng.normal(size=n)
    return Z, labels


@pytest.mark.parametrize("neighbours", ["replace", "add_remove"])
@pytest.mark.parametrize("n_steps", [1, 5])
def test_learns_when_noise_is_small(neighbours, n_steps):
    Z, labels = clouds()
    setting = make_setting(n=600, d=5, epsilon=100.0, neighbours=neighbours)
    fit = MetricGradient(n_steps=n_steps, different_weight=0.5).fit(
        Z, labels, setting=setting, noise=NoiseSource(secure=False, seed=0)
    )
    W = fit.direction.reshape(5, 5)
    assert np.linalg.eigvalsh(W)[0] > -1e-12
    assert W[0, 0] > 1.5 * W.diagonal()[1:].max()
    assert fit.mu == pytest.approx(setting.mu, rel=1e-9)
    assert fit.mu <= setting.mu
    assert [release.dimension for release in fit.releases] == [15] * n_steps


def test_little_budget_leaves_the_metric_near_the_start():
    d = 6
    setting = make_setting(n=50, d=d, epsilon=0.05)
    start = 1.0 / (0.64 * d)
    for seed in range(20):
        Z, labels = clouds(50, d, seed)
        for n_steps in (1, 4):
            fit = MetricGradient(n_steps=n_steps).fit(
                Z, labels, setting=setting, noise=NoiseSource(secure=False, seed=seed)
            )
            values = np.linalg.eigvalsh(fit.direction.reshape(d, d)) / start
            assert values[0] > 0.1
            assert values[-1] < 2.1


@pytest.mark.parametrize("label", [0.0, np.nan])
@pytest.mark.parametrize("n", [1, 2, 5])
def test_one_class_and_few_examples_run_through(label, n):
    fit = MetricGradient(n_steps=2).fit(
        np.zeros((n, 2)),
        np.full(n, label),
        setting=make_setting(n),
        noise=NoiseSource(secure=False, seed=0),
    )
    assert np.isfinite(fit.direction).all()


def test_refusals():
    Z, labels = clouds(20)
    with pytest.raises(ValueError, match="more rows than the public number"):
        MetricGradient().fit(
            Z, labels, setting=make_setting(19, 5), noise=NoiseSource(secure=False, seed=0)
        )
    with pytest.raises(ValueError, match="at most 1"):
        MetricGradient(different_weight=1.5)
    with pytest.raises(ValueError, match="learns a metric"):
        get_mechanism(MetricGradient())
    with pytest.raises(ValueError, match="mechanism must be one of"):
        get_mechanism("metric_gradient")
    with pytest.raises(ValueError, match="learns a score"):
        get_mechanism(get_mechanism("statistics"), learns="metric")
