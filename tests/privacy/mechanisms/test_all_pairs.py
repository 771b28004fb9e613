# SPDX-License-Identifier: BSD-3-Clause
import math
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pairlearn.privacy.mechanisms.all_pairs as pairs_module
from pairlearn.losses import (
    LOSSES,
    DistanceLogistic,
    Logistic,
    PairLoss,
    SmoothedHinge,
    Square,
    SquaredHinge,
    scalar,
)
from pairlearn.privacy.audit.mechanism import MechanismEntry
from pairlearn.privacy.audit.neighbours import PublicNeighbours, Table
from pairlearn.privacy.mechanisms.all_pairs import AllPairsGradient, PairGradient, clip_rows
from pairlearn.privacy.mechanisms.base import PublicSetting
from pairlearn.privacy.mechanisms.noisy_sgd import NoisySGD
from pairlearn.privacy.noise import NoiseSource
from pairlearn.privacy.recipes import PRIVATE_RECIPES

SMOOTH = [
    Logistic(),
    SmoothedHinge(width=0.3),
    SquaredHinge(margin=2.0),
    Square(),
    LOSSES.make("exponential"),
]


class OwnLoss(PairLoss):
    """A loss that the library has no array form of: log(1 + e^-m) twice over."""

    @scalar
    def value(score, y, y_partner, _):  # noqa: N805
        m = score if y > y_partner else -score
        return 2.0 * math.log1p(math.exp(-m))

    @scalar
    def derivative(score, y, y_partner, _):  # noqa: N805
        sign = 1.0 if y > y_partner else -1.0
        return -2.0 * sign / (1.0 + math.exp(sign * score))

    def slope_bound(self, margin_bound):
        return 2.0

    def curvature_bound(self, margin_bound):
        return 0.5


def data(n=40, d=3, seed=0, gap=1.0):
    rng = np.random.default_rng(seed)
    signs = np.where(rng.random(n) < 0.4, 1.0, -1.0)
    Z = rng.normal(size=(n, d))
    Z[:, 0] += gap * signs
    return Z, signs


def setting(n, d, epsilon=1.0):
    return PublicSetting.make(
        n, lower=np.full(d, -3.0), upper=np.full(d, 3.0), epsilon=epsilon, delta=1e-4
    )


def risk(w, Z, signs, radius):
    n = len(Z)
    total = 0.0
    for i in range(n):
        for j in range(n):
            if signs[i] > 0 > signs[j]:
                v = clip_rows((Z[i] - Z[j])[None, :], radius)[0]
                total += math.log1p(math.exp(-float(w @ v)))
    return total / (n * (n - 1))


def test_gradient_is_the_derivative_of_the_risk():
    Z, signs = data(n=12)
    w = np.array([0.3, -0.2, 0.1])
    gradient = PairGradient(Z, signs, radius=1.3)(w)
    for k in range(3):
        step = np.eye(3)[k] * 1e-5
        slope = (risk(w + step, Z, signs, 1.3) - risk(w - step, Z, signs, 1.3)) / 2e-5
        assert gradient[k] == pytest.approx(slope, abs=1e-8)


def test_chunks_change_nothing(monkeypatch):
    Z, signs = data(n=30)
    w = np.full(3, 0.2)
    whole = PairGradient(Z, signs, radius=1.0)(w)
    monkeypatch.setattr(pairs_module, "_STORED_NUMBERS", 100)
    assert np.allclose(PairGradient(Z, signs, radius=1.0)(w), whole, atol=1e-15)


@pytest.mark.parametrize("loss", [*SMOOTH, OwnLoss()])
@given(seed=st.integers(0, 2**32), flip=st.booleans(), far=st.booleans())
@settings(max_examples=80, deadline=None)
def test_pair_lemma(loss, seed, flip, far):
    rng = np.random.default_rng(seed)
    n, d, radius = int(rng.integers(2, 12)), 2, 1.5
    Z = rng.normal(size=(n, d)) * (10.0 if far else 1.0)
    signs = np.where(rng.random(n) < rng.random(), 1.0, -1.0)
    other, other_signs = Z.copy(), signs.copy()
    other[0] = -Z[0] if far else rng.normal(size=d)
    if flip:
        other_signs[0] *= -1
    w = rng.normal(size=d)
    slope = loss.slope_bound(radius * float(np.linalg.norm(w)))
    apart = PairGradient(Z, signs, radius=radius, loss=loss)(w) - PairGradient(
        other, other_signs, radius=radius, loss=loss
    )(w)
    assert np.linalg.norm(apart) <= 2 * radius * slope / n * (1 + 1e-9)


def loss_mechanism(loss, **options):
    return AllPairsGradient(loss=loss, radius=1.5, **options)


@pytest.mark.parametrize("loss", [*SMOOTH, OwnLoss()])
@given(seed=st.integers(0, 2**32), epsilon=st.floats(0.1, 8.0), removed=st.booleans())
@settings(max_examples=30, deadline=None)
def test_every_loss_keeps_its_sensitivity(release_distances, loss, seed, epsilon, removed):
    rng = np.random.default_rng(seed)
    public = PublicSetting.make(
        12,
        lower=[-3] * 2,
        upper=[3] * 2,
        epsilon=epsilon,
        delta=1e-3,
        neighbours="add_remove" if removed else "replace",
    )
    Z, signs = 3 * np.sign(rng.normal(size=(12, 2))), np.where(rng.random(12) < 0.3, 1.0, -1.0)
    other, other_signs = Z.copy(), signs.copy()
    other[4], other_signs[4] = -Z[4], rng.choice([-1.0, 1.0])
    if removed:
        other, other_signs = np.delete(Z, 4, axis=0), np.delete(signs, 4)
    mine = PublicNeighbours("", Table(Z, signs), Table(other, other_signs), place=4)
    pairs = [mine, MechanismEntry(NoisySGD(), public).pairs()[0]]
    for pair in pairs:
        for distance, bound in release_distances(
            loss_mechanism(loss, n_steps=3),
            pair,
            setting=public,
            noise=NoiseSource(seed=seed),
        ):
            assert distance <= bound * (1 + 1e-9)


@pytest.mark.parametrize("loss", [*SMOOTH, OwnLoss()])
@pytest.mark.parametrize("n_steps", [1, 10])
def test_every_loss_learns_when_noise_is_small(loss, n_steps):
    Z, signs = data(n=300, gap=1.0)
    fit = loss_mechanism(loss, n_steps=n_steps).fit(
        Z, signs, setting=setting(300, 3, epsilon=100.0), noise=NoiseSource(seed=0)
    )
    assert fit.direction[0] / np.linalg.norm(fit.direction) > 0.95
    assert np.linalg.norm(fit.direction) <= 1.5 / (0.8 * math.sqrt(3)) * (1 + 1e-12)


def test_descent_finds_the_minimiser_of_the_square_loss():
    class Silent(NoiseSource):
        def protect_integers(self, values, scale):
            return values

    Z, signs = data(n=20)
    fit = AllPairsGradient(n_steps=3000, loss="square").fit(
        Z, signs, setting=setting(20, 3), noise=Silent(seed=0)
    )
    V = clip_rows((Z[signs > 0][:, None] - Z[signs < 0][None]).reshape(-1, 3), 0.8 * math.sqrt(3))
    best = np.linalg.lstsq(V, np.ones(len(V)), rcond=None)[0]
    assert np.allclose(fit.direction, best, atol=1e-3)


@pytest.mark.parametrize(
    ("loss", "message"),
    [
        ("hinge", "slope jumps"),
        ("loglink", "not convex"),
        ("exponential", "finite radius"),
        (DistanceLogistic(), "labels are equal"),
        (PairLoss(), "does not state its slope_bound"),
        ("nothing", "loss must be one of"),
    ],
)
def test_losses_that_are_refused(loss, message):
    with pytest.raises(ValueError, match=message):
        AllPairsGradient(loss=loss)


@pytest.mark.parametrize(
    "mechanism",
    [AllPairsGradient(n_steps=2), *PRIVATE_RECIPES.values()],
)
@pytest.mark.parametrize("label", [-1.0, 1.0])
def test_one_class_and_one_example_run_through(mechanism, label):
    for n in (1, 5):
        fit = mechanism.fit(
            np.zeros((n, 2)),
            np.full(n, label),
            setting=setting(n, 2),
            noise=NoiseSource(seed=0),
        )
        assert np.isfinite(fit.direction).all()


@dataclass(frozen=True)
class Steep(Logistic):
    """A loss of a user whose slope is 2 beyond an edge, on one side, and 1/2 before it."""

    edge: float = 1.0
    side: float = 1.0

    def slope_bound(self, margin_bound):
        return 1.0

    def slopes(self, margins):
        return -np.where(self.side * margins > self.edge, 2.0, 0.5)


@pytest.mark.parametrize("side", [-1.0, 1.0])
@pytest.mark.parametrize("margin", [0.5, 2.0])
def test_slopes_of_a_users_loss_are_tried_over_all_margins_and_no_others(side, margin):
    pairs_module.check_slopes(Steep(edge=margin, side=side), margin)
    with pytest.raises(ValueError, match="has a slope of 2; correct its slope_bound"):
        pairs_module.check_slopes(Steep(edge=0.998 * margin, side=side), margin)


@pytest.mark.parametrize("mechanism", [AllPairsGradient, NoisySGD])
@pytest.mark.parametrize("clip", [1e-300, 1e-61, 1e61, 1e300])
def test_constants_beside_which_sums_overflow_are_refused(mechanism, clip):
    # An error in the sums would tell of the data, and come after the budget is paid.
    with pytest.raises(ValueError, match="clip must lie between 1e-60 and 1e"):
        mechanism(clip=clip)
