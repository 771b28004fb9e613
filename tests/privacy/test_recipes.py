# SPDX-License-Identifier: BSD-3-Clause
"""The paper's private algorithms: their sensitivities by exact replay, and their noise."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from pairlearn.privacy import PRIVATE_RECIPES, NoiseSource, PublicSetting, accounting_problems
from pairlearn.privacy.accounting.gaussian import mu_of
from pairlearn.privacy.audit.neighbours import PublicNeighbours, Table
from pairlearn.privacy.audit.tape import recorded, replayed
from pairlearn.privacy.recipes import (
    LARGEST_N,
    HingeStage,
    LocalizedGradient,
    LocalizedHinge,
    LocalizedSGD,
    SinglePass,
    certified,
    descend,
)
from pairlearn.solvers.descent.localized import stage_sizes


def public(n=24, d=2, epsilon=1.0, delta=1e-3, neighbours="replace"):
    return PublicSetting.make(
        n, lower=[-3.0] * d, upper=[3.0] * d, epsilon=epsilon, delta=delta, neighbours=neighbours
    )


def data(n=24, d=2, seed=0):
    rng = np.random.default_rng(seed)
    signs = np.where(rng.random(n) < 0.4, 1.0, -1.0)
    return rng.normal(size=(n, d)) + np.outer(signs, np.eye(d)[0]), signs


class Silent(NoiseSource):
    def protect_integers(self, values, scale):
        return values


@pytest.mark.parametrize("name", PRIVATE_RECIPES)
@given(seed=st.integers(0, 2**32), corners=st.booleans())
@settings(max_examples=12, deadline=None)
def test_a_replaced_example_moves_no_stage_further_than_is_stated(
    release_distances, name, seed, corners
):
    rng = np.random.default_rng(seed)
    Z, signs = data(seed=seed)
    if corners:
        Z = 3.0 * np.sign(Z)
    other, other_signs, place = Z.copy(), signs.copy(), int(rng.integers(24))
    other[place] = -Z[place]
    other_signs[place] = rng.choice([-1.0, 1.0])
    pair = PublicNeighbours("", Table(Z, signs), Table(other, other_signs), place=place)
    found = release_distances(
        PRIVATE_RECIPES[name], pair, setting=public(), noise=NoiseSource(seed=seed)
    )
    assert all(distance <= bound * (1 + 1e-9) for distance, bound in found)
    # A replaced example lies in one stage.
    assert sum(distance > 0 for distance, _ in found) <= 1


@pytest.mark.parametrize("name", PRIVATE_RECIPES)
def test_recipes_learn_when_noise_is_small_and_are_certified(name):
    recipe, (Z, signs) = PRIVATE_RECIPES[name], data(400)
    setting = public(400, epsilon=1.0 if "paper" in name else 400.0)
    noise = NoiseSource(seed=0)
    fit = recipe.fit(Z, signs, setting=setting, noise=noise)
    if "paper" not in name:
        assert fit.direction[0] / np.linalg.norm(fit.direction) > 0.8
    certificate = certified(recipe, fit, setting=setting, noise=noise)
    assert len(fit.releases) == (1 if name == "single_pass" else len(stage_sizes(400)))
    problems = accounting_problems(replace(certificate, private=True))
    if "sgd" in name:
        assert certificate.mu is None
        assert "states no mu" in problems[0]
    else:
        assert problems == []
        assert certificate.mu == pytest.approx(setting.mu, rel=1e-6)


@pytest.mark.parametrize("seed", range(5))
def test_averages_stay_within_what_their_draws_allow(seed):
    Z, signs = 3.0 * np.sign(data(seed=seed)[0]), data(seed=seed)[1]
    other, setting, recipe = Z.copy(), public(), LocalizedSGD()
    other[5] = -Z[5]
    with recorded() as tape:
        fit = recipe.fit(Z, signs, setting=setting, noise=NoiseSource(seed=seed))
    with replayed(tape.outputs, tape.draws) as replay:
        recipe.fit(other, signs, setting=setting, noise=NoiseSource(seed=seed))
    start, eta = 0, recipe.step_size(setting)
    change = 2.0 * 0.8 * math.sqrt(2.0) / (1.0 + math.exp(-0.5))
    for k, (size, release) in enumerate(zip(stage_sizes(24), fit.releases, strict=True)):
        T = len(tape.draws[k + 1]) - 1
        mine = np.isin(tape.draws[0][start : start + size][tape.draws[k + 1]], [5])
        weights = np.maximum(T - np.arange(1, T + 1) - 1, 0) * (mine[1:] | mine[:-1])
        allowed = change * eta / 4.0 ** (k + 1) * weights.sum() / T / release.noise_scale
        assert tape.distances(replay)[k] <= allowed * (1 + 1e-6) + 1e-5
        start += size


def test_half_of_delta_pays_for_the_draws():
    setting, (n, n_steps) = public(), (12, 100)
    moved, mu = LocalizedSGD().noise_of(n, n_steps, 0.1, setting)
    assert mu == pytest.approx(mu_of(1.0, 5e-4))
    change = 2.0 * 0.8 * math.sqrt(2.0) / (1.0 + math.exp(-0.5))
    # Each draw of an example touches two steps.
    n_draws = round(moved / (2.0 * change * 0.1))
    assert moved == pytest.approx(2.0 * change * 0.1 * n_draws)
    assert binom.sf(n_draws, n_steps + 1, 1.0 / n) <= 5e-4 < binom.sf(n_draws - 1, 101, 1.0 / n)


def test_published_noise_is_as_published_and_refused_where_it_is_not_proved():
    setting, recipe = public(256, delta=1 / 256), LocalizedSGD("paper")
    Z, signs = data(256)
    fit = recipe.fit(Z, signs, setting=setting, noise=NoiseSource(seed=0))
    lipschitz = 0.8 * math.sqrt(2.0) / (1.0 + math.exp(-0.5))
    wanted = 12 * lipschitz * recipe.step_size(setting) / 4 * math.log(4 * 256)
    wanted *= math.sqrt(2 * math.log(2.5 * 256))
    assert fit.releases[0].noise_scale == pytest.approx(wanted, rel=1e-4)
    with pytest.raises(ValueError, match="proved for epsilon <= 1"):
        recipe.fit(Z, signs, setting=public(256, epsilon=2.0), noise=NoiseSource())
    with pytest.raises(ValueError, match="constants must be"):
        LocalizedSGD("classic")


def test_a_hinge_stage_reaches_its_accuracy():
    Z, signs = data(30, seed=3)
    stage = HingeStage.make(30, locality=0.3, length=1.2)
    from scipy.optimize import minimize

    centre = np.array([0.1, -0.2])
    V = (Z[signs > 0][:, None] - Z[signs < 0][None]).reshape(-1, 2)
    V *= (1.2 / np.maximum(np.linalg.norm(V, axis=1), 1.2))[:, None]

    def objective(w):
        hinge = np.maximum(0.0, 1.0 - V @ w).sum() / (30 * 29)
        return hinge + 0.5 * stage.strong_convexity * float((w - centre) @ (w - centre))

    found = stage.solve(Z, signs, centre=centre, length=1.2)
    options = {"xatol": 1e-9, "fatol": 1e-12}
    best = minimize(objective, found, method="Nelder-Mead", options=options)
    assert objective(found) - best.fun <= stage.target_gap
    moved = Z.copy()
    moved[4] = -Z[4]
    apart = np.linalg.norm(stage.solve(moved, signs, centre=centre, length=1.2) - found)
    assert apart <= stage.sensitivity


def test_a_pass_uses_each_neighbouring_pair_once():
    Z, signs = data(30, d=3)
    fit = SinglePass().fit(Z, signs, setting=public(30, 3), noise=Silent(seed=0))
    clip = 0.8 * math.sqrt(3)
    ball, w = 0.5 / clip, np.zeros(3)
    for t in range(1, 30):
        if signs[t] != signs[t - 1]:
            v = signs[t] * (Z[t] - Z[t - 1])
            v *= min(1.0, clip / np.linalg.norm(v))
            w = w + 4.0 * ball / (clip * 30) * v / (1 + math.exp(w @ v))
            w *= min(1.0, ball / np.linalg.norm(w))
    assert np.allclose(fit.direction, w, atol=1e-6)


@given(seed=st.integers(0, 2**32), place=st.integers(0, 11))
@settings(max_examples=40, deadline=None)
def test_removing_an_example_from_a_pass(seed, place):
    rng = np.random.default_rng(seed)
    Z, signs = 3.0 * np.sign(rng.normal(size=(12, 2))), np.where(rng.random(12) < 0.5, 1.0, -1.0)
    setting, kept = public(12, neighbours="add_remove"), np.arange(12) != place
    whole = SinglePass().fit(Z, signs, setting=setting, noise=Silent(seed=0))
    less = SinglePass().fit(Z[kept], signs[kept], setting=setting, noise=Silent(seed=0))
    apart = float(np.linalg.norm(whole.direction - less.direction))
    assert apart <= whole.releases[0].sensitivity


def test_iterates_are_weighted_as_asked():
    pairs, active = np.array([[1.0], [2.0]]), np.array([1, 3])
    shares = np.array([0.1, 0.2, 0.3, 0.1, 0.3])
    mean, last = descend(pairs, active, shares, start=np.zeros(1), step_size=0.5, radius=9.0)
    first = 0.25
    second = first + 0.5 * 2.0 / (1 + math.exp(2 * first))
    assert last[0] == pytest.approx(second)
    assert mean[0] == pytest.approx(0.4 * first + 0.3 * second)


@pytest.mark.parametrize("recipe", [LocalizedSGD(), LocalizedGradient(), LocalizedHinge()])
def test_only_the_secret_order_counts(recipe):
    Z, signs = data()
    rng = np.random.default_rng(0)
    order, sorting = rng.permutation(24), np.argsort(signs, kind="stable")

    class Ordered(NoiseSource):
        def __init__(self, order):
            super().__init__(seed=3)
            self._order = order

        def permutation(self, n):
            return self._order

    one = recipe.fit(Z, signs, setting=public(), noise=Ordered(order))
    undone = Ordered(np.argsort(sorting)[order])
    other = recipe.fit(Z[sorting], signs[sorting], setting=public(), noise=undone)
    assert np.array_equal(one.direction, other.direction)
    with pytest.raises(ValueError, match="shifts the others"):
        recipe.fit(Z, signs, setting=public(neighbours="add_remove"), noise=NoiseSource())


def test_what_takes_minutes_is_refused():
    n = LARGEST_N + 1
    with pytest.raises(ValueError, match="at most 1024 examples"):
        LocalizedHinge().fit(*data(n), setting=public(n), noise=NoiseSource())
    with pytest.raises(ValueError, match="more rows than"):
        SinglePass().fit(*data(24), setting=public(23), noise=NoiseSource())
