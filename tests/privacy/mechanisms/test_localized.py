# SPDX-License-Identifier: BSD-3-Clause
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pairlearn.losses import Hinge, Logistic, LogLink, SmoothedHinge
from pairlearn.privacy.accounting.gaussian import mixture_noise_scale
from pairlearn.privacy.accounting.touches import touch_law, touch_noise
from pairlearn.privacy.audit.tape import recorded, replayed
from pairlearn.privacy.mechanisms.base import PublicSetting
from pairlearn.privacy.mechanisms.clipped_pairs import (
    average_of_descent,
    clip_rows,
    last_of_descent,
)
from pairlearn.privacy.mechanisms.localized_hinge import LARGEST_N, HingeStage, LocalizedHinge
from pairlearn.privacy.mechanisms.localized_sgd import LocalizedPairSGD
from pairlearn.privacy.noise import NoiseSource
from pairlearn.solvers.descent.localized import stage_sizes


def make_setting(n, d=3, epsilon=1.0, delta=1e-3, neighbours="replace"):
    return PublicSetting.make(
        n,
        lower=np.full(d, -1.0),
        upper=np.full(d, 1.0),
        epsilon=epsilon,
        delta=delta,
        neighbours=neighbours,
    )


def data(n, d=3, seed=0, gap=1.0):
    rng = np.random.default_rng(seed)
    signs = np.where(rng.random(n) < 0.4, 1.0, -1.0)
    Z = rng.normal(size=(n, d))
    Z[:, 0] += gap * signs
    return Z, signs


def tail(values, chances, at):
    return float(chances[values >= at - 1e-12].sum())


@pytest.mark.parametrize(("n", "n_steps"), [(2, 3), (2, 9), (5, 40), (13, 78), (20, 300)])
def test_touch_law_is_the_exact_law_or_above(n, n_steps, touch_distribution):
    weights = np.maximum(n_steps - np.arange(1, n_steps + 1) - 1, 0)
    exact = touch_distribution(n, weights)
    true = np.arange(len(exact)) / n_steps
    values, chances = touch_law(n, n_steps)
    assert chances.sum() == pytest.approx(1.0, abs=1e-11)
    for at in true[:: max(1, len(true) // 50)]:
        # Stochastically larger, and equal while blocks are single steps.
        assert tail(values, chances, at) >= tail(true, exact, at) * (1 - 1e-9)
        if n_steps <= 128:
            assert tail(values, chances, at) == pytest.approx(tail(true, exact, at), rel=1e-9)
    for epsilon in (0.2, 2.0):
        needed = mixture_noise_scale(true, exact, epsilon=epsilon, delta=1e-3)
        taken = touch_noise(n, n_steps, epsilon, 1e-3)
        assert needed * (1 - 1e-9) <= taken <= needed * 1.03


def test_touch_law_matches_simulation():
    # 20,000 draws: the mean is within 5 standard errors (false alarm below 1e-6).
    n, n_steps = 30, 150
    rng = np.random.default_rng(3)
    indices = rng.integers(n, size=(20_000, n_steps + 1))
    touched = (indices[:, 1:] == 0) | (indices[:, :-1] == 0)
    weights = np.maximum(n_steps - np.arange(1, n_steps + 1) - 1, 0) / n_steps
    found = touched @ weights
    values, chances = touch_law(n, n_steps)
    mean = float(values[:-1] @ chances[:-1])
    error = 5 * found.std() / math.sqrt(len(found))
    # At most one block of two steps too heavy.
    assert found.mean() - error <= mean <= found.mean() * (1 + 2 / 75) + error


def test_long_runs_are_quick_and_lose_nothing():
    values, chances = touch_law(200_000, 3_000_000)
    assert chances[-1] < 1e-12
    assert float(values[:-1] @ chances[:-1]) == pytest.approx(15.0, rel=0.02)


def reference_fit(mechanism, Z, signs, setting, draws):
    """Algorithm 3 in plain NumPy, noiseless, with given indices."""
    bounds = mechanism.bounds(setting)
    sizes = stage_sizes(setting.n_examples)
    eta = mechanism._step_size(bounds, sizes, setting)
    centre, start, averages = np.zeros(Z.shape[1]), 0, []
    for k, (size, indices) in enumerate(zip(sizes, draws, strict=True), start=1):
        X, y = Z[start : start + size], signs[start : start + size]
        start += size
        iterates = [centre]
        for t in range(1, len(indices)):
            i, j = indices[t], indices[t - 1]
            w = iterates[-1]
            if y[i] != y[j]:
                v = clip_rows((X[i] - X[j])[None, :], bounds.length)[0]
                slope = mechanism.loss.derivative(
                    float(w @ v), y[i], y[j], mechanism.loss.parameter
                )
                w = w - eta / 4**k * slope * v
                w = w * min(1.0, bounds.radius / max(np.linalg.norm(w), 1e-300))
            iterates.append(w)
        n_steps = len(indices) - 1
        averages.append(sum(iterates[max(j - 2, 0)] for j in range(1, n_steps + 1)) / n_steps)
        centre = averages[-1]
        centre = centre * min(1.0, bounds.radius / max(np.linalg.norm(centre), 1e-300))
    return averages


class Silent(NoiseSource):
    def protect(self, values, scale):
        return values


@pytest.mark.parametrize("loss", [Logistic(), SmoothedHinge(0.5)])
@pytest.mark.parametrize("clip", [0.8, None])
def test_is_algorithm_3(loss, clip):
    Z, signs = data(21)
    setting = make_setting(21)
    mechanism = LocalizedPairSGD(loss=loss, clip=clip, step=0.3)
    with recorded() as record:
        fit = mechanism.fit(Z, signs, setting=setting, noise=Silent(secure=False, seed=4))
    order, *draws = record.draws
    assert [len(draw) for draw in draws] == [
        math.ceil(size * math.log(4 / 1e-3)) + 1 for size in stage_sizes(21)
    ]
    averages = reference_fit(mechanism, Z[order], signs[order], setting, draws)
    for mine, theirs in zip(record.values, averages, strict=True):
        assert np.allclose(mine, theirs, atol=1e-13)
    assert np.linalg.norm(fit.direction) <= mechanism.bounds(setting).radius * (1 + 1e-12)


@given(
    seed=st.integers(0, 2**32),
    corners=st.booleans(),
    smooth=st.booleans(),
    clip=st.sampled_from([None, 0.3, 0.8, 5.0]),
    radius=st.sampled_from([0.1, 2.0]),
)
@settings(max_examples=120, deadline=None)
@pytest.mark.thorough
def test_sensitivity_given_the_indices(seed, corners, smooth, clip, radius):
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(2, 25)), 2
    Z = rng.uniform(-3, 3, (n, d))
    if corners:
        Z = 3 * np.sign(Z)
    signs = np.where(rng.random(n) < 0.5, 1.0, -1.0)
    place = int(rng.integers(n))
    other, other_signs = Z.copy(), signs.copy()
    other[place] = -Z[place]
    if rng.random() < 0.3:
        other_signs[place] *= -1
    setting = make_setting(n, d)
    mechanism = LocalizedPairSGD(
        loss=SmoothedHinge(0.4) if smooth else Logistic(), clip=clip, radius=radius, step=10.0
    )
    bounds = mechanism.bounds(setting)
    noise = NoiseSource(secure=False, seed=seed)
    with recorded() as record:
        fit = mechanism.fit(Z, signs, setting=setting, noise=noise)
    with replayed(record.outputs, record.draws) as replay:
        mechanism.fit(other, other_signs, setting=setting, noise=noise)
    eta = mechanism._step_size(bounds, stage_sizes(n), setting)
    start = 0
    order, *draws = record.draws
    place = int(np.flatnonzero(order == place)[0])
    for k, indices in enumerate(draws, start=1):
        size = stage_sizes(n)[k - 1]
        touched = (indices[1:] == place - start) | (indices[:-1] == place - start)
        start += size
        n_steps = len(touched)
        weights = np.maximum(n_steps - np.arange(1, n_steps + 1) - 1, 0) / n_steps
        bound = bounds.change * eta / 4**k * float(touched @ weights)
        apart = float(np.linalg.norm(record.values[k - 1] - replay.values[k - 1]))
        assert apart <= bound * (1 + 1e-9) + 1e-12 * bounds.radius
        assert apart <= fit.releases[k - 1].sensitivity


class Dealt(NoiseSource):
    """No noise, rows in their order, and stages that take the given indices round and round."""

    def __init__(self, indices):
        super().__init__(secure=False, seed=0)
        self.indices = indices

    def protect(self, values, scale):
        return values

    def permutation(self, n):
        return np.arange(n)

    def draw_indices(self, n, size):
        return np.resize(self.indices, size) if n > max(self.indices) else np.zeros(size, int)


@pytest.mark.parametrize("loss", [Logistic(), SmoothedHinge(2.0), SmoothedHinge(0.3)])
@pytest.mark.parametrize("calibration", ["exact", "paper"])
def test_no_step_is_longer_than_the_proof_allows(loss, calibration):
    # A step of 2/L at most keeps two runs as close as they are (lemma 7).
    setting = make_setting(64)
    mechanism = LocalizedPairSGD(calibration, loss=loss, step=1e9)
    bounds = mechanism.bounds(setting)
    first = mechanism._step_size(bounds, stage_sizes(64), setting) / 4
    assert first * bounds.smoothness == pytest.approx(2.0, rel=1e-12)
    assert LocalizedPairSGD(calibration, loss=loss, step=1e-9)._step_size(
        bounds, stage_sizes(64), setting
    ) == pytest.approx(2e-9 * bounds.radius / bounds.lipschitz)


def test_sensitivity_at_the_longest_step():
    # The step that touches the example pushes the two runs apart along all axes. Then a pair along
    # each axis, where the loss is curved most, turns their distance round. With steps of 4/L these
    # pairs would treble it, to 1.4 times the bound.
    d, clip = 16, 0.5
    length = clip * math.sqrt(d)
    n = 80
    Z, signs = np.zeros((n, d)), -np.ones(n)
    Z[:d] = length * np.eye(d)
    signs[: d + 1] = 1.0
    touched, origin = d, d + 1
    Z[touched] = length / math.sqrt(d)
    other = Z.copy()
    other[touched] *= -1.0
    n_steps = math.ceil(stage_sizes(n)[0] * math.log(4 / 1e-3))
    # Two negatives are no pair: the iterate rests for the remainder of the stage.
    axes = [place for axis in range(d) for place in (origin, axis)]
    indices = [touched, *axes, *[origin] * (n_steps - 2 * d)]
    setting = make_setting(n, d)
    mechanism = LocalizedPairSGD(loss=SmoothedHinge(2.0), clip=clip, radius=50.0, step=1e9)
    bounds = mechanism.bounds(setting)
    averages = []
    for rows in (Z, other):
        with recorded() as record:
            fit = mechanism.fit(rows, signs, setting=setting, noise=Dealt(indices))
        averages.append(record.values[0])
    apart = float(np.linalg.norm(averages[0] - averages[1]))
    # The certificate says how far apart the runs are if every step touches the example.
    each = fit.releases[0].sensitivity / (0.5 * (n_steps - 1) * (n_steps - 2))
    assert each == pytest.approx(bounds.change * 2.0 / bounds.smoothness / n_steps, rel=1e-6)
    assert 0.45 * each * (n_steps - 2) < apart <= each * (n_steps - 2)


@pytest.mark.parametrize("width", [2.0, 4.0, 6.0])
@pytest.mark.parametrize("start", [0.0, 1e16, 1e16 + 2.0])
def test_the_longest_pair_is_that_of_the_two_corners(start, width):
    # Above 2^53 the middle of two bounds may be one of them, and rows lie on one side of it.
    setting = PublicSetting.make(
        50, lower=[start, -1.0], upper=[start + width, 1.0], epsilon=1.0, delta=1e-2
    )
    rows = setting.to_standard([[start, -1.0], [start + width, 1.0]])
    found = LocalizedPairSGD(clip=None).bounds(setting)
    assert found.length >= np.linalg.norm(rows[1] - rows[0]) * (1 - 1e-12)
    assert found.change >= found.length * Logistic().slope_bound(0.5) * (1 - 1e-12)


def test_gradient_change_is_g_without_clipping_and_twice_g_with():
    setting = make_setting(50, 2)
    free, clipped = LocalizedPairSGD(clip=None), LocalizedPairSGD(clip=0.5)
    assert free.bounds(setting).change == pytest.approx(free.bounds(setting).lipschitz)
    assert free.bounds(setting).length == pytest.approx(2 * 3 * math.sqrt(2))
    assert clipped.bounds(setting).change == pytest.approx(2 * clipped.bounds(setting).lipschitz)


def test_paper_calibration():
    Z, signs = data(256)
    setting = make_setting(256, delta=1 / 256)
    paper = LocalizedPairSGD("paper")
    fit = paper.fit(Z, signs, setting=setting, noise=NoiseSource(secure=False, seed=0))
    bounds = paper.bounds(setting)
    share = 1.0 / (12 * math.log(1024) * math.sqrt(2 * 3 * math.log(640)))
    eta = 2 * bounds.radius / bounds.lipschitz * min(share, math.log(1024) / 16)
    sigma = 12 * bounds.lipschitz * eta / 4 * math.log(1024) * math.sqrt(2 * math.log(640))
    assert fit.releases[0].noise_scale == pytest.approx(sigma)
    assert f"G = {bounds.lipschitz:.6g}" in fit.accounting
    with pytest.raises(ValueError, match="epsilon <= 1"):
        paper.fit(
            Z,
            signs,
            setting=make_setting(256, epsilon=1.1),
            noise=NoiseSource(secure=False, seed=0),
        )


@pytest.mark.parametrize("n", [2, 3, 5, 30, 1000])
@pytest.mark.parametrize("delta", [0.1, 1 / 256, 1e-8])
@pytest.mark.parametrize("clip", [0.8, None])
@pytest.mark.thorough
def test_published_noise_is_never_below_the_exact_noise(n, delta, clip):
    # The fit refuses otherwise.
    setting = make_setting(n, epsilon=1.0, delta=delta)
    Z, signs = data(n)
    fits = [
        LocalizedPairSGD(name, clip=clip, step=0.01).fit(
            Z, signs, setting=setting, noise=NoiseSource(secure=False, seed=0)
        )
        for name in ("paper", "exact")
    ]
    for published, exact in zip(fits[0].releases, fits[1].releases, strict=True):
        assert published.noise_scale >= exact.noise_scale


def test_claims_epsilon_and_delta_only():
    setting = make_setting(40)
    mechanism = LocalizedPairSGD()
    fit = mechanism.fit(*data(40), setting=setting, noise=NoiseSource(secure=False, seed=0))
    assert fit.mu is None
    assert mechanism.cost(setting) == {"epsilon": 1.0, "delta": 1e-3}


@pytest.mark.thorough
def test_learns_when_noise_is_small():
    Z, signs = data(4000)
    fit = LocalizedPairSGD().fit(
        Z, signs, setting=make_setting(4000, epsilon=100.0), noise=NoiseSource(secure=False, seed=0)
    )
    assert fit.direction[0] / np.linalg.norm(fit.direction) > 0.95


def test_discrete_noise():
    Z, signs = data(1000)
    setting = make_setting(1000, epsilon=100.0)
    fit = LocalizedPairSGD().fit(Z, signs, setting=setting, noise=NoiseSource(secure=True, seed=0))
    plain = LocalizedPairSGD().fit(
        Z, signs, setting=setting, noise=NoiseSource(secure=False, seed=0)
    )
    assert fit.secure
    assert fit.direction[0] / np.linalg.norm(fit.direction) > 0.95
    for ours, theirs in zip(fit.releases, plain.releases, strict=True):
        assert ours.noise_scale == pytest.approx(theirs.noise_scale, rel=1e-3)


def test_refusals():
    with pytest.raises(ValueError, match="SmoothedHinge"):
        LocalizedPairSGD(loss=Hinge())
    with pytest.raises(ValueError, match="convex"):
        LocalizedPairSGD(loss=LogLink())
    with pytest.raises(ValueError, match="calibration"):
        LocalizedPairSGD("classic")
    with pytest.raises(ValueError, match="shifts the rows"):
        LocalizedPairSGD().fit(
            *data(10),
            setting=make_setting(10, neighbours="add_remove"),
            noise=NoiseSource(secure=False, seed=0),
        )


@pytest.mark.parametrize("label", [-1.0, 1.0])
@pytest.mark.parametrize("n", [1, 2, 3, 9])
def test_one_class_runs_through(label, n):
    fit = LocalizedPairSGD().fit(
        np.zeros((n, 3)),
        np.full(n, label),
        setting=make_setting(n),
        noise=NoiseSource(secure=False, seed=0),
    )
    assert np.isfinite(fit.direction).all()


def hinge_objective(w, pairs, n, centre, alpha):
    losses = np.maximum(1.0 - pairs @ w, 0.0).sum() / (n * (n - 1))
    return losses + 0.5 * alpha * float((w - centre) @ (w - centre))


@given(seed=st.integers(0, 2**32), locality=st.floats(0.01, 20.0), far=st.booleans())
@settings(max_examples=50, deadline=None)
def test_solver_reaches_the_gap_that_algorithm_5_asks_for(seed, locality, far):
    rng = np.random.default_rng(seed)
    n, d, length = int(rng.integers(2, 20)), 2, 1.3
    Z = rng.normal(size=(n, d)) * (5.0 if far else 0.5)
    signs = np.where(rng.random(n) < 0.5, 1.0, -1.0)
    centre = rng.normal(size=d)
    stage = HingeStage.make(n, locality=locality, length=length)
    w = stage.solve(Z, signs, centre=centre, length=length)
    positive, negative = Z[signs > 0], Z[signs < 0]
    pairs = (positive[:, None, :] - negative[None, :, :]).reshape(-1, d)
    pairs = clip_rows(pairs, length)
    alpha, weight = stage.strong_convexity, 1.0 / (n * (n - 1))
    # Any b in [0, weight] bounds the minimum of the true hinge objective from below.
    b = weight * np.clip((1.0 - pairs @ w) / stage.width, 0.0, 1.0)
    pull = b @ pairs
    dual = float(b.sum() - b @ (pairs @ centre)) - float(pull @ pull) / (2 * alpha)
    gap = hinge_objective(w, pairs, n, centre, alpha) - dual
    assert -1e-9 <= gap <= stage.target_gap
    # The computable certificate of distance: the gradient of the rounded objective.
    gradient = alpha * (w - centre) - pull
    assert np.linalg.norm(gradient) / alpha <= 1.01e-6 * stage.sensitivity + 1e-14


@given(seed=st.integers(0, 2**32), locality=st.floats(0.01, 20.0))
@settings(max_examples=60, deadline=None)
def test_minimisers_of_neighbours_are_close(seed, locality):
    rng = np.random.default_rng(seed)
    n, d, length = int(rng.integers(2, 14)), 2, 1.3
    Z = 3 * np.sign(rng.normal(size=(n, d)))
    signs = np.where(rng.random(n) < 0.3, 1.0, -1.0)
    other, other_signs = Z.copy(), signs.copy()
    other[0] = -Z[0]
    if rng.random() < 0.5:
        other_signs[0] *= -1
    stage = HingeStage.make(n, locality=locality, length=length)
    centre = 0.1 * rng.normal(size=d)
    mine = stage.solve(Z, signs, centre=centre, length=length)
    theirs = stage.solve(other, other_signs, centre=centre, length=length)
    assert np.linalg.norm(mine - theirs) <= stage.sensitivity


def test_the_bound_of_the_hinge_stage_is_attained():
    # One positive against negatives: turning it round turns every pair round.
    n, length = 8, 1.0
    Z, signs = np.zeros((n, 1)), -np.ones(n)
    Z[0], signs[0] = 5.0, 1.0
    stage = HingeStage.make(n, locality=0.01, length=length)
    mine = stage.solve(Z, signs, centre=np.zeros(1), length=length)
    theirs = stage.solve(-Z, signs, centre=np.zeros(1), length=length)
    assert abs(float(mine[0] - theirs[0])) > 0.95 * stage.sensitivity


def test_hinge_stages_are_cheaper_than_the_horizon_of_the_proof():
    setting = make_setting(256, delta=1 / 256)
    stages = LocalizedHinge().stages(setting)
    assert tuple(stage.n_examples for stage in stages) == stage_sizes(256)
    assert all(stage.n_steps <= 12 * stage.n_examples for stage in stages)
    length = 0.8 * math.sqrt(3)
    for k, stage in enumerate(stages, start=1):
        zeta = 2 * 0.5 / length**2 * min(4 / 16, setting.mu / math.sqrt(3)) / 4**k
        assert stage.sensitivity == pytest.approx(length * zeta, rel=1e-5)


def test_hinge_learns_when_noise_is_small_and_refuses_large_n():
    Z, signs = data(400)
    fit = LocalizedHinge().fit(
        Z, signs, setting=make_setting(400, epsilon=50.0), noise=NoiseSource(secure=False, seed=0)
    )
    assert fit.direction[0] / np.linalg.norm(fit.direction) > 0.9
    assert fit.mu == pytest.approx(make_setting(400, epsilon=50.0).mu, rel=1e-9)
    n = LARGEST_N + 1
    with pytest.raises(ValueError, match=r"at most 1024 .*SmoothedHinge"):
        LocalizedHinge().fit(
            *data(n), setting=make_setting(n), noise=NoiseSource(secure=False, seed=0)
        )


@pytest.mark.parametrize("n", [1, 2, 3, 9])
def test_hinge_one_class_runs_through(n):
    fit = LocalizedHinge().fit(
        np.zeros((n, 3)),
        np.ones(n),
        setting=make_setting(n),
        noise=NoiseSource(secure=False, seed=0),
    )
    assert np.isfinite(fit.direction).all()


@pytest.mark.parametrize("clip", [None, 0.5])
def test_constants_of_a_pair(clip):
    # f(w) = l(w . v) with |v| <= L: |grad f| <= L |l'| and |hess f| <= L^2 |l''|; a change of one
    # example changes v by at most 2 L, or by the longest difference of two rows.
    setting = make_setting(20, d=4)
    corner = float(np.linalg.norm(setting.to_standard(setting.upper[None, :])))
    length = 2.0 * corner if clip is None else 0.5 * math.sqrt(4)
    found = LocalizedPairSGD(clip=clip, radius=3.0).bounds(setting)
    loss = Logistic()
    assert found.length == pytest.approx(length)
    assert found.radius == pytest.approx(3.0 / length)
    assert found.lipschitz == pytest.approx(length * loss.slope_bound(3.0))
    assert found.smoothness == pytest.approx(length**2 * loss.curvature_bound(3.0))
    longest = min(2.0 * length, 2.0 * corner)
    assert found.change == pytest.approx(longest * loss.slope_bound(3.0))


@pytest.mark.parametrize("active", [[0, 1, 2, 3, 4, 5], [1, 4], [2], []])
def test_the_average_is_that_of_every_iterate(active):
    rng = np.random.default_rng(len(active))
    pairs, shares = rng.normal(size=(len(active), 3)), rng.random(7)
    start, loss = 0.1 * rng.normal(size=3), Logistic()
    options = {"start": start, "step_size": 0.7, "radius": 0.6, "loss": loss}
    w, average, given_pairs = start.copy(), shares[0] * start, iter(pairs)
    for t in range(6):
        if t in active:
            v = next(given_pairs)
            w = w - 0.7 * float(loss.slopes(np.array([w @ v]))[0]) * v
            w = w * min(1.0, 0.6 / np.linalg.norm(w))
        average = average + shares[t + 1] * w
    found = average_of_descent(pairs, np.array(active, dtype=np.int64), shares, **options)
    np.testing.assert_allclose(found, average, rtol=1e-12)
    np.testing.assert_allclose(last_of_descent(pairs, **options), w, rtol=1e-12)
