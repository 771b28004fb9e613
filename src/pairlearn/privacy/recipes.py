# SPDX-License-Identifier: BSD-3-Clause
r"""The paper's private algorithms, and a rival's, as recipes: for its tables, not for use.

`PRIVATE_RECIPES` has them by name: Algorithm 3 (`LocalizedSGD`), Algorithm 5 (`LocalizedHinge`),
one noisy pass of Algorithm 2 (`SinglePass`), and DPEGD of Xue et al. (2021) with a corrected
sensitivity (`LocalizedGradient`). A recipe has ``fit(Z, signs, setting=..., noise=...)`` on
examples in standard coordinates and returns a `PrivateFit`; `certified` says what is promised.
They protect one example that is replaced, and need more noise than the mechanisms.

Stage k of a localized algorithm has n_k = floor(n / 2^k) examples that no other stage sees (the
first also gets the remainder), in a secret order. A replaced example lies in one stage, and later
stages see that stage's noisy centre only, so every stage may spend the whole budget. Pairs are
clipped to length C, and the domain is a ball of radius r/C (r = 1/2). Lemmas 6 to 9 in
``docs/privacy/lemmas.md`` have the proofs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairlearn.domains import ball_or_whole
from pairlearn.losses import Logistic, SmoothedHinge
from pairlearn.privacy.accounting.certificate import Certificate
from pairlearn.privacy.accounting.gaussian import mu_of
from pairlearn.privacy.mechanisms.all_pairs import PairGradient, clip_rows
from pairlearn.privacy.mechanisms.base import PrivateFit, PublicSetting, certify, relative_slack
from pairlearn.privacy.noise import NoiseSource
from pairlearn.privacy.release import release_vector, rounding_drift
from pairlearn.solvers.descent.localized import stage_sizes
from pairlearn.typing import Vector

#: Clipping length C of pairs in units of sqrt(d), and the radius r of the domain in units of 1/C.
_CLIP, _RADIUS = 0.8, 0.5
#: Largest number of examples of Algorithm 5: beyond it the first stage alone takes minutes.
LARGEST_N = 1024
#: Error of its inner solver as a share of the sensitivity, which grows by twice that.
_TOLERANCE = 1e-6


def _in_stages(
    Z: Vector, signs: Vector, solve: Callable[..., tuple[Vector, float, float]],
    setting: PublicSetting, noise: NoiseSource, *, name: str,
) -> PrivateFit:  # fmt: skip
    """Run `solve(k, rows, signs, centre)` in all stages: a vector, its sensitivity, and mu."""
    if setting.neighbours != "replace":
        raise ValueError(
            f"{name} is proved for neighbours='replace', got {setting.neighbours!r}: adding or "
            "removing a row shifts the others."
        )
    d, releases = setting.n_features, []
    domain, centre = ball_or_whole(_RADIUS / (_CLIP * math.sqrt(d))), np.zeros(d)
    order = noise.permutation(len(Z))
    for k, size in enumerate(stage_sizes(setting.n_examples), start=1):
        part, order = order[:size], order[size:]
        found, sensitivity, mu = solve(k, Z[part], signs[part], centre)
        noisy, release = release_vector(
            found, name=f"centre of stage {k}", sensitivity=sensitivity * relative_slack,
            mu=mu * (1.0 - 1e-12), noise=noise,
        )  # fmt: skip
        releases.append(release)
        centre = domain.project(noisy)
    return PrivateFit(centre, tuple(releases))


def descend(
    pairs: Vector, active: NDArray[np.int64], shares: Vector, *, start: Vector, step_size: float,
    radius: float,
) -> tuple[Vector, Vector]:  # fmt: skip
    """Run projected SGD on differences of pairs; return a weighted mean of iterates, and the last.

    Step t is w_t = Proj(w_{t-1} - eta l'(w_{t-1} . v) v) if t is active and w_t = w_{t-1} if not,
    l being the logistic loss. `active` holds the index of the step of each pair; `shares` are the
    weights of w_0, ..., w_T.
    """
    domain, w, mean, before = ball_or_whole(radius), start, np.zeros_like(start), 0
    for v, step in zip(pairs, active.tolist(), strict=True):
        mean = mean + shares[before : step + 1].sum() * w
        before = step + 1
        w = domain.project(w - step_size * float(Logistic().slopes(np.array([w @ v]))[0]) * v)
    return mean + shares[before:].sum() * w, w


@dataclass(frozen=True)
class LocalizedSGD:
    r"""Stages of pairwise SGD with the logistic loss, each followed by noise: Algorithm 3.

    Stage k draws T_k + 1 indices, T_k = ceil(n_k log(4/delta)), makes T_k steps of size eta / 4^k
    from the last centre on the pairs (i_t, i_{t-1}), averages w_{j-2}, adds noise and projects.

    Parameters
    ----------
    constants : {"corrected", "paper"}, default="corrected"
        "corrected" bounds how far the average moves by the exact quantile of the number of draws,
        with half of delta, and takes the analytic Gaussian mechanism with the other half. "paper"
        takes the published noise 12 G eta_k log(4/delta) sqrt(2 log(2.5/delta)) / epsilon, which is
        proved for epsilon <= 1, and is refused where the corrected noise is larger.

    Examples
    --------
    >>> LocalizedSGD("paper").name
    'localized_sgd'
    """

    constants: str = "corrected"

    name = "localized_sgd"

    def __post_init__(self) -> None:
        if self.constants not in ("corrected", "paper"):
            raise ValueError(f"constants must be 'corrected' or 'paper', got {self.constants!r}.")

    def fit(
        self, Z: Vector, signs: Vector, *, setting: PublicSetting, noise: NoiseSource
    ) -> PrivateFit:
        """Learn privately from examples in standard coordinates."""
        if self.constants == "paper" and setting.epsilon > 1:
            raise ValueError(
                f"the published noise is proved for epsilon <= 1, got {setting.epsilon:g}; use "
                "constants='corrected'."
            )
        length, eta = _CLIP * math.sqrt(setting.n_features), self.step_size(setting)

        def solve(k: int, rows: Vector, sides: Vector, centre: Vector) -> tuple[Any, ...]:
            n_steps = math.ceil(len(rows) * math.log(4.0 / setting.delta))
            average = self._average(rows, sides, n_steps, centre, eta / 4.0**k, length, noise)
            return average, *self.noise_of(len(rows), n_steps, eta / 4.0**k, setting)

        return _in_stages(Z, signs, solve, setting, noise, name=self.name)

    def step_size(self, setting: PublicSetting) -> float:
        """Return the theorem's eta, at most 8/L."""
        length, doubt = _CLIP * math.sqrt(setting.n_features), math.log(4.0 / setting.delta)
        width = math.sqrt(2.0 * setting.n_features * math.log(2.5 / setting.delta))
        share = min(doubt / math.sqrt(setting.n_examples), setting.epsilon / (12.0 * doubt * width))
        slope, curvature = Logistic().slope_bound(_RADIUS), Logistic().curvature_bound(_RADIUS)
        return min(share * 2.0 * _RADIUS / slope, 8.0 / curvature) / length**2

    def noise_of(
        self, size: int, n_steps: int, step_size: float, setting: PublicSetting
    ) -> tuple[float, float]:
        """Return how far the average of a stage moves, but for half of delta, and its mu."""
        from pairlearn.theory.sensitivity import sensitivity_with_confidence

        d, delta = setting.n_features, setting.delta
        length = _CLIP * math.sqrt(d)
        lipschitz = length * Logistic().slope_bound(_RADIUS)
        moved = sensitivity_with_confidence(
            size, n_steps, lipschitz=lipschitz, step_size=step_size,
            smoothness=length**2 * Logistic().curvature_bound(_RADIUS),
            failure_probability=0.5 * delta,
        ) + rounding_drift(n_steps, d, radius=_RADIUS / length)  # fmt: skip
        mu = mu_of(setting.epsilon, 0.5 * delta)
        if self.constants == "corrected":
            return moved, mu
        published = 12.0 * lipschitz * step_size * math.log(4.0 / delta)
        classical = setting.epsilon / math.sqrt(2.0 * math.log(2.5 / delta))
        if published / classical < moved / mu:
            raise ValueError(
                f"the published noise {published / classical:g} of a stage with {size} examples is "
                f"below what is needed, {moved / mu:g}; use constants='corrected'."
            )
        return published, classical

    def _average(
        self, Z: Vector, signs: Vector, n_steps: int, centre: Vector, step_size: float,
        length: float, noise: NoiseSource,
    ) -> Vector:  # fmt: skip
        """Return the average of w_{j-2} over drawn pairs."""
        indices = noise.draw_indices(len(Z), n_steps + 1)
        left, right = indices[1:], indices[:-1]
        active = np.flatnonzero(signs[left] != signs[right])
        i, j = left[active], right[active]
        pairs = clip_rows(signs[i, None] * (Z[i] - Z[j]), length)
        # w_0 stands for w_{-1} too; the last two iterates are not averaged.
        shares = np.full(n_steps + 1, 1.0 / n_steps)
        shares[0] += 1.0 / n_steps
        shares[n_steps - 1 :] = 0.0
        options: dict[str, Any] = {
            "start": centre,
            "step_size": step_size,
            "radius": _RADIUS / length,
        }
        return descend(pairs, active, shares, **options)[0]


@dataclass(frozen=True)
class LocalizedGradient:
    r"""Localized full-gradient descent with output noise: DPEGD of Xue et al. (2021), corrected.

    Stage k runs n_k steps of projected gradient descent on its logistic pair risk with step size
    4^-k 16/(C^2 n), averages, and adds noise. A step of at most 8/C^2 is non-expansive, so by
    lemma 6 the average changes by at most C s eta (n_k + 1) / n_k, s = sigmoid(r). The released
    code of the published method has no Lipschitz constant in its noise; here it is proved.

    Examples
    --------
    >>> LocalizedGradient().name
    'localized_gradient'
    """

    name = "localized_gradient"

    def fit(
        self, Z: Vector, signs: Vector, *, setting: PublicSetting, noise: NoiseSource
    ) -> PrivateFit:
        """Learn privately from examples in standard coordinates."""
        d = setting.n_features
        clip = _CLIP * math.sqrt(d)
        domain, slope = ball_or_whole(_RADIUS / clip), Logistic().slope_bound(_RADIUS)

        def solve(k: int, rows: Vector, sides: Vector, centre: Vector) -> tuple[Any, ...]:
            size, w, total = len(rows), centre, np.zeros(d)
            gradient = PairGradient(rows, sides, radius=clip)
            step_size = 4.0**-k * 16.0 / (clip**2 * setting.n_examples)
            for _ in range(size):
                w = domain.project(w - step_size * gradient(w))
                total += w
            moved = clip * slope * step_size * (size + 1) / size
            return total / size, moved + rounding_drift(size, d, radius=_RADIUS / clip), setting.mu

        return _in_stages(Z, signs, solve, setting, noise, name=self.name)


@dataclass(frozen=True)
class HingeStage:
    """The public constants of one stage of Algorithm 5.

    The strong convexity is 2 / (zeta_k n_k), and `target_gap` the accuracy C^2 zeta_k / n_k that
    the algorithm asks for. The solver rounds off the hinge over `width`; `smoothness` is that of
    the rounded objective, and `sensitivity` includes the solver's error.
    """

    strong_convexity: float
    target_gap: float
    width: float
    smoothness: float
    n_steps: int
    sensitivity: float

    @classmethod
    def make(cls, n: int, *, locality: float, length: float) -> HingeStage:
        """Return the stage for n_k >= 2 examples, zeta_k and pairs of length at most C."""
        # Total weight of the active pairs: at most (n^2 / 4) of n (n - 1).
        mass = n / (4.0 * (n - 1.0))
        alpha = 2.0 / (locality * n)
        gap = length**2 * locality / n
        width = gap / mass
        smoothness = length**2 * mass / width + alpha
        sensitivity = 2.0 * length / (n * alpha)
        shrink = -math.log1p(-math.sqrt(alpha / smoothness))
        start = math.sqrt(3.0) * length * mass / alpha
        n_steps = math.ceil(2.0 * math.log(start / (_TOLERANCE * sensitivity)) / shrink)
        sensitivity *= 1.0 + 2.0 * _TOLERANCE
        return cls(alpha, gap, width, smoothness, max(n_steps, 1), sensitivity)

    def solve(self, Z: Vector, signs: Vector, *, centre: Vector, length: float) -> Vector:
        """Minimise the rounded objective about `centre` by a fixed number of accelerated steps."""
        risk = PairGradient(Z, signs, radius=length, loss=SmoothedHinge(self.width))
        root = math.sqrt(self.smoothness / self.strong_convexity)
        momentum = (root - 1.0) / (root + 1.0)
        w = ahead = centre
        for _ in range(self.n_steps):
            gradient = risk(ahead) + self.strong_convexity * (ahead - centre)
            moved = ahead - gradient / self.smoothness
            ahead = moved + momentum * (moved - w)
            w = moved
        return w


@dataclass(frozen=True)
class LocalizedHinge:
    r"""Localized regularised risk minimisation with the hinge loss: Algorithm 5.

    With zeta_k = zeta / 4^k, stage k minimises F_{S_k}(w) + (alpha_k / 2) \|w - c\|^2 with
    alpha_k = 2 / (zeta_k n_k) about the noisy centre c of the stage before. Nesterov's method on a
    hinge that is rounded off makes a number of steps that is fixed in advance, and ends within 1e-6
    of the sensitivity of the minimiser, which is 2 C/(n_k alpha_k) = C zeta_k (lemma 8). No failure
    probability is spent. Noise is that of the analytic Gaussian mechanism; the published one lacks
    a factor sqrt 2. Work grows like n^3 d, so at most `LARGEST_N` examples are taken.

    Examples
    --------
    >>> LocalizedHinge().name
    'localized_nonsmooth'
    """

    name = "localized_nonsmooth"

    def fit(
        self, Z: Vector, signs: Vector, *, setting: PublicSetting, noise: NoiseSource
    ) -> PrivateFit:
        """Learn privately from examples in standard coordinates."""
        n, length = setting.n_examples, _CLIP * math.sqrt(setting.n_features)
        if n > LARGEST_N:
            raise ValueError(f"{self.name} accepts at most {LARGEST_N} examples, got {n}.")
        reach = min(4.0 / math.sqrt(n), setting.mu / math.sqrt(setting.n_features))
        zeta = 2.0 * _RADIUS / length**2 * reach

        def solve(k: int, rows: Vector, sides: Vector, centre: Vector) -> tuple[Any, ...]:
            stage = HingeStage.make(len(rows), locality=zeta / 4.0**k, length=length)
            found = stage.solve(rows, sides, centre=centre, length=length)
            return found, stage.sensitivity, setting.mu

        return _in_stages(Z, signs, solve, setting, noise, name=self.name)


@dataclass(frozen=True)
class SinglePass:
    r"""Each example meets the previous one, once; the last iterate is released with noise.

    Rows are taken in their order, which may be public. Step t descends on the logistic loss of the
    pair (x_t, x_{t-1}) with step size 4 r/(C n), and projects. An example is in at most two pairs,
    and the other steps are non-expansive, so \|w - w'\| <= 4 C s eta, s = sigmoid(r), with no
    failure probability (lemma 6), and half of it if one example is added or removed.

    Examples
    --------
    >>> SinglePass().name
    'single_pass'
    """

    name = "single_pass"

    def fit(
        self, Z: Vector, signs: Vector, *, setting: PublicSetting, noise: NoiseSource
    ) -> PrivateFit:
        """Learn privately from examples in standard coordinates."""
        n, d = setting.n_examples, setting.n_features
        clip = _CLIP * math.sqrt(d)
        ball, step_size = _RADIUS / clip, 4.0 * _RADIUS / (clip**2 * n)
        if len(Z) > n:
            raise ValueError(f"there are more rows than the public number {n}.")
        active = np.flatnonzero(signs[1:] != signs[:-1]) + 1
        pairs = clip_rows(signs[active, None] * (Z[active] - Z[active - 1]), clip)
        options: dict[str, Any] = {"start": np.zeros(d), "step_size": step_size, "radius": ball}
        w = descend(pairs, active, np.zeros(len(Z) + 1), **options)[1]
        moved = 4.0 if setting.neighbours == "replace" else 2.0
        sensitivity = moved * clip * Logistic().slope_bound(_RADIUS) * step_size * relative_slack
        noisy, release = release_vector(
            w, name="last iterate of one pass",
            sensitivity=sensitivity + rounding_drift(n, d, radius=ball),
            mu=setting.mu * (1.0 - 1e-12), noise=noise,
        )  # fmt: skip
        return PrivateFit(noisy, (release,))


Recipe = LocalizedSGD | LocalizedGradient | LocalizedHinge | SinglePass

#: The recipes by name. The published noise of Algorithm 3 refuses an epsilon above 1.
PRIVATE_RECIPES: dict[str, Recipe] = {
    "localized_sgd": LocalizedSGD(),
    "localized_sgd (paper noise)": LocalizedSGD("paper"),
    "localized_gradient": LocalizedGradient(),
    "localized_nonsmooth": LocalizedHinge(),
    "single_pass": SinglePass(),
}


def certified(
    recipe: Recipe, fit: PrivateFit, *, setting: PublicSetting, noise: NoiseSource
) -> Certificate:
    """Return the certificate of a fit: as published, or as corrected.

    The stages of a localized algorithm see disjoint examples, so the largest mu counts. Algorithm 3
    is an average over secret draws: it claims (epsilon, delta) and no mu, and its listed
    sensitivities hold but for half of delta.
    """
    facts: dict[str, Any] = {}
    if not isinstance(recipe, SinglePass):
        facts = {
            "composition": "disjoint", "mu": max((one.mu for one in fit.releases), default=0.0),
            "accounting": "disjoint stages, each with the whole budget",
        }  # fmt: skip
    if isinstance(recipe, LocalizedSGD):
        facts |= {"composition": "mixture", "mu": None}
        facts["accounting"] += f"; {recipe.constants} constants, half of delta for the draws"
    return certify(fit, recipe.name, setting=setting, noise=noise, **facts)
