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
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairlearn.domains import ball_or_whole
from pairlearn.losses import Logistic, PairLoss, SmoothedHinge
from pairlearn.privacy.accounting.certificate import Certificate
from pairlearn.privacy.mechanisms.all_pairs import PairGradient, check_slopes, clip_rows
from pairlearn.privacy.mechanisms.base import PrivateFit, PublicSetting, certify, relative_slack
from pairlearn.privacy.noise import NoiseSource
from pairlearn.privacy.release import GRID_STEPS, release_vector, rounding_drift
from pairlearn.solvers.descent.localized import stage_sizes
from pairlearn.typing import Vector

#: Clipping length C of pairs in units of sqrt(d), and the radius r of the domain in units of 1/C.
_CLIP, _RADIUS = 0.8, 0.5
#: Largest number of examples of Algorithm 5: beyond it the first stage alone takes minutes.
LARGEST_N = 1024
#: Error of its inner solver as a share of the sensitivity, which grows by twice that.
_TOLERANCE = 1e-6
#: Steps are grouped by weight in about so many classes to count how often an example is touched.
_WEIGHTS = 128


def _blocks(
    Z: Vector, signs: Vector, sizes: Iterable[int], noise: NoiseSource
) -> Iterator[tuple[Vector, Vector]]:
    """Yield the rows and signs of each stage, from all rows in a secret order."""
    order, start = noise.permutation(len(Z)), 0
    for size in sizes:
        part = order[start : start + size]
        start += size
        yield Z[part], signs[part]


def _refuse(setting: PublicSetting, name: str) -> None:
    if setting.neighbours != "replace":
        raise ValueError(
            f"{name} is proved for neighbours='replace', got {setting.neighbours!r}: adding or "
            "removing a row shifts the others."
        )


def descend(
    pairs: Vector, active: NDArray[np.int64], shares: Vector, *, start: Vector, step_size: float,
    radius: float, loss: PairLoss,
) -> tuple[Vector, Vector]:  # fmt: skip
    """Run projected SGD on differences of pairs; return a weighted mean of iterates, and the last.

    Step t is w_t = Proj(w_{t-1} - eta l'(w_{t-1} . v) v) if t is active and w_t = w_{t-1} if not.
    `active` holds the index of the step of each pair; `shares` are the weights of w_0, ..., w_T.
    """
    domain, w, mean, before = ball_or_whole(radius), start, np.zeros_like(start), 0
    for v, step in zip(pairs, active.tolist(), strict=True):
        mean = mean + shares[before : step + 1].sum() * w
        before = step + 1
        w = domain.project(w - step_size * float(loss.slopes(np.array([w @ v]))[0]) * v)
    return mean + shares[before:].sum() * w, w


@lru_cache(maxsize=64)
def touch_law(n: int, n_steps: int) -> tuple[Vector, Vector]:
    """Return values and probabilities of H, or a little above it: how a draw weighs an example.

    Indices i_0, ..., i_T are uniform on n examples and step t uses the pair (i_t, i_{t-1}). A
    change c eta in each step that touches example k moves the average of w_{j-2} by at most
    c eta H, H = (1/T) sum_t (T - t - 1)_+ 1[i_t = k or i_{t-1} = k]. Weights are rounded up. The
    last value is infinity, with the probability of all that is not counted.

    >>> values, chances = touch_law(3, 4)
    >>> values.tolist(), round(float(chances.sum()), 12)
    ([0.0, 0.25, 0.5, 0.75, inf], 1.0)
    """
    block = math.ceil(n_steps / _WEIGHTS)
    weights = [math.ceil(max(n_steps - t - 1, 0) / block) for t in range(1, n_steps + 1)]
    mean = 2.0 * sum(weights) / n
    top = min(sum(weights), math.ceil(4.0 * mean + 40.0 * max(weights)))
    hit, lost = 1.0 / n, 1e-18
    # Row 0: the last index is another example; row 1: it is the example.
    state = np.zeros((2, top + 1))
    state[:, 0] = 1.0 - hit, hit
    for weight in weights:
        moved = np.zeros_like(state)
        moved[:, weight:] = state[:, : top + 1 - weight]
        lost += float(state[:, top + 1 - weight :].sum())
        # Nothing is touched only if neither this index nor the last one is the example.
        state = np.stack([(state[0] + moved[1]) * (1.0 - hit), (moved[0] + moved[1]) * hit])
    values = np.append(np.arange(top + 1) * (block / n_steps), np.inf)
    # Each probability is a sum of products of at most n_steps rounded factors.
    return values, np.append(state.sum(axis=0) * (1.0 + n_steps * 1e-15), lost)


@lru_cache(maxsize=256)
def touch_noise(n: int, n_steps: int, epsilon: float, delta: float, rounding: float) -> float:
    """Return the noise that keeps (epsilon, delta) if each touched step moves by 1 (lemma 3).

    The draws are secret and do not depend on the data, so the delta of noise s is the mean of that
    of Gaussian-DP with mu = H / s. `rounding` is added to every H above 0.
    """
    from scipy.special import log_ndtr

    values, chances = touch_law(n, n_steps)
    if delta <= chances[-1]:
        raise ValueError(f"delta must be above {chances[-1]:g}, got {delta:g}.")
    seen = (chances > 0.0) & (values > 0.0)
    apart, chances = values[seen] + rounding, chances[seen]

    def enough(scale: float) -> bool:
        mu = apart / scale
        first, second = log_ndtr(0.5 * mu - epsilon / mu), log_ndtr(-0.5 * mu - epsilon / mu)
        each = -np.exp(first) * np.expm1(np.minimum(0.0, epsilon + second - first))
        return float(np.dot(np.maximum(each, 0.0), chances)) <= delta

    low, high = 1e-9, 1.0
    while not enough(high):
        high *= 2.0
    while high > low * (1.0 + 1e-9):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high * (1.0 + 1e-9)


@dataclass(frozen=True)
class LocalizedSGD:
    r"""Stages of pairwise SGD, each followed by noise: Algorithm 3, for smooth convex losses.

    Stage k draws T_k + 1 indices, T_k = ceil(n_k log(4/delta)), makes T_k steps of size eta / 4^k
    from the last centre on the pairs (i_t, i_{t-1}), averages w_{j-2}, adds noise and projects.
    Given the indices, two runs have averages at most c eta_k H apart (lemma 7), H of `touch_law`
    and c the largest change of the gradient of a pair.

    Parameters
    ----------
    calibration : {"exact", "paper"}, default="exact"
        "exact" takes the noise from the law of H. "paper" takes the published 12 G eta_k
        log(4/delta) sqrt(2 log(2.5/delta)) / epsilon, which is proved for epsilon <= 1, and is
        refused where the exact noise is larger.
    loss : PairLoss, default=Logistic()
        A smooth convex loss.

    Examples
    --------
    >>> LocalizedSGD("paper").name
    'localized_sgd'
    """

    calibration: str = "exact"
    loss: PairLoss = field(default_factory=Logistic)

    name = "localized_sgd"

    def __post_init__(self) -> None:
        if self.calibration not in ("exact", "paper"):
            raise ValueError(f"calibration must be 'exact' or 'paper', got {self.calibration!r}.")
        if not (self.loss.convex and math.isfinite(self.loss.curvature_bound(_RADIUS))):
            raise ValueError(
                f"loss must be convex and smooth, got {self.loss!r}: with a kink two runs may "
                "drift apart. Use SmoothedHinge(width), or LocalizedHinge."
            )
        check_slopes(self.loss, _RADIUS)

    def fit(
        self, Z: Vector, signs: Vector, *, setting: PublicSetting, noise: NoiseSource
    ) -> PrivateFit:
        """Learn privately from examples in standard coordinates."""
        _refuse(setting, self.name)
        if self.calibration == "paper" and setting.epsilon > 1:
            raise ValueError(
                f"the published noise is proved for epsilon <= 1, got {setting.epsilon:g}; use "
                "calibration='exact'."
            )
        d, passes = setting.n_features, math.log(4.0 / setting.delta)
        sizes = stage_sizes(setting.n_examples)
        length, lipschitz, change = self._constants(setting)
        radius = _RADIUS / length
        eta = self._step_size(sizes, length, lipschitz, change, setting)
        centre, releases = np.zeros(d), []
        for k, (rows, sides) in enumerate(_blocks(Z, signs, sizes, noise), start=1):
            n_steps = math.ceil(len(rows) * passes)
            step_size = eta / 4.0**k
            worst = change * step_size * relative_slack
            scale = self._noise(len(rows), n_steps, worst, step_size * lipschitz, radius, setting)
            average = self._average(rows, sides, n_steps, centre, step_size, length, noise)
            # The worst draw, in which every step touches the example.
            surely = worst * (n_steps - 1) * (n_steps - 2) / (2.0 * n_steps)
            noisy, release = release_vector(
                average, name=f"average of stage {k}", sensitivity=surely, mu=surely / scale,
                noise=noise,
            )  # fmt: skip
            releases.append(release)
            centre = ball_or_whole(radius).project(noisy)
        return PrivateFit(centre, tuple(releases))

    def _constants(self, setting: PublicSetting) -> tuple[float, float, float]:
        """Return the length C of a pair, the Lipschitz constant G, and the change c."""
        low, high = setting.to_standard([setting.lower, setting.upper])
        longest = float(np.linalg.norm(high - low))
        length = min(longest, _CLIP * math.sqrt(setting.n_features))
        slope = self.loss.slope_bound(_RADIUS)
        moved = min(2.0 * length, longest) if self.loss.never_increases else 2.0 * length
        return length, length * slope, moved * slope

    def _step_size(
        self, sizes: tuple[int, ...], length: float, lipschitz: float, change: float,
        setting: PublicSetting,
    ) -> float:  # fmt: skip
        """Return eta: the default of the calibration, and at most 8/L."""
        if not sizes:
            return 0.0
        n, d = setting.n_examples, setting.n_features
        passes = math.log(4.0 / setting.delta)
        if self.calibration == "paper":
            width = math.sqrt(2.0 * d * math.log(2.5 / setting.delta))
            share = min(passes / math.sqrt(n), setting.epsilon / (12.0 * passes * width))
        else:
            first = math.ceil(sizes[0] * passes)
            unit = touch_noise(sizes[0], first, setting.epsilon, setting.delta, 0.0)
            loudness = math.sqrt(d) * unit * change
            share = min(2.0 / (3.0 * math.sqrt(n) * passes), lipschitz / loudness)
        smoothness = length**2 * self.loss.curvature_bound(_RADIUS)
        return min(share * 2.0 * _RADIUS / length / lipschitz, 8.0 / smoothness)

    def _noise(
        self, size: int, n_steps: int, worst: float, moved: float, radius: float,
        setting: PublicSetting,
    ) -> float:  # fmt: skip
        """Return the noise of a stage; `moved` is the step size times G."""
        drift = rounding_drift(n_steps, setting.n_features, radius=radius)
        budget = setting.epsilon, setting.delta * (1.0 - 1e-9)
        exact = worst * touch_noise(size, n_steps, *budget, drift / worst)
        # The vector is rounded to the grid of the noise.
        drift += exact / GRID_STEPS * math.sqrt(setting.n_features)
        exact = worst * touch_noise(size, n_steps, *budget, drift / worst)
        if self.calibration == "exact":
            return exact
        published = 12.0 * moved * math.log(4.0 / setting.delta)
        published *= math.sqrt(2.0 * math.log(2.5 / setting.delta)) / setting.epsilon
        if published < exact:
            raise ValueError(
                f"the published noise {published:g} of a stage with {size} examples is below "
                f"what is needed, {exact:g}; use calibration='exact'."
            )
        return published

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
        radius = _RADIUS / length
        return descend(
            pairs, active, shares, start=centre, step_size=step_size, radius=radius, loss=self.loss
        )[0]


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
        _refuse(setting, self.name)
        d = setting.n_features
        clip = _CLIP * math.sqrt(d)
        ball = _RADIUS / clip
        domain, slope = ball_or_whole(ball), Logistic().slope_bound(_RADIUS)
        w, releases = np.zeros(d), []
        stages = _blocks(Z, signs, stage_sizes(setting.n_examples), noise)
        for k, (rows, sides) in enumerate(stages, start=1):
            size = len(rows)
            gradient = PairGradient(rows, sides, radius=clip)
            step_size = 4.0**-k * 16.0 / (clip**2 * setting.n_examples)
            centre, total = w, np.zeros(d)
            for _ in range(size):
                centre = domain.project(centre - step_size * gradient(centre))
                total += centre
            sensitivity = clip * slope * step_size * (size + 1) / size * relative_slack
            noisy, release = release_vector(
                total / size, name=f"centre of stage {k}",
                sensitivity=sensitivity + rounding_drift(size, d, radius=ball),
                mu=setting.mu * (1.0 - 1e-12), noise=noise,
            )  # fmt: skip
            releases.append(release)
            w = domain.project(noisy)
        return PrivateFit(w, tuple(releases))


@dataclass(frozen=True)
class HingeStage:
    """The public constants of one stage of Algorithm 5.

    The strong convexity is 2 / (zeta_k n_k), and `target_gap` the accuracy C^2 zeta_k / n_k that
    the algorithm asks for. The solver rounds off the hinge over `width`; `smoothness` is that of
    the rounded objective, and `sensitivity` includes the solver's error.
    """

    n_examples: int
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
        sensitivity *= (1.0 + 2.0 * _TOLERANCE) * relative_slack
        return cls(n, alpha, gap, width, smoothness, max(n_steps, 1), sensitivity)

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

    def stages(self, setting: PublicSetting) -> list[HingeStage]:
        """Return the stages of a fit."""
        n, d = setting.n_examples, setting.n_features
        length = _CLIP * math.sqrt(d)
        reach = min(4.0 / math.sqrt(n), setting.mu / math.sqrt(d))
        zeta = 2.0 * _RADIUS / length**2 * reach
        return [
            HingeStage.make(size, locality=zeta / 4.0**k, length=length)
            for k, size in enumerate(stage_sizes(n), start=1)
        ]

    def fit(
        self, Z: Vector, signs: Vector, *, setting: PublicSetting, noise: NoiseSource
    ) -> PrivateFit:
        """Learn privately from examples in standard coordinates."""
        _refuse(setting, self.name)
        if setting.n_examples > LARGEST_N:
            raise ValueError(
                f"localized_nonsmooth accepts at most {LARGEST_N} examples, got "
                f"{setting.n_examples}; use LocalizedSGD(loss=SmoothedHinge(0.5))."
            )
        d = setting.n_features
        length = _CLIP * math.sqrt(d)
        centre, releases, stages = np.zeros(d), [], self.stages(setting)
        blocks = _blocks(Z, signs, (stage.n_examples for stage in stages), noise)
        for k, (stage, (rows, sides)) in enumerate(zip(stages, blocks, strict=True), start=1):
            noisy, release = release_vector(
                stage.solve(rows, sides, centre=centre, length=length),
                name=f"minimiser of stage {k}", sensitivity=stage.sensitivity,
                mu=setting.mu * (1.0 - 1e-12), noise=noise,
            )  # fmt: skip
            releases.append(release)
            centre = ball_or_whole(_RADIUS / length).project(noisy)
        return PrivateFit(centre, tuple(releases))


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
        w = descend(
            pairs, active, np.zeros(len(Z) + 1), start=np.zeros(d), step_size=step_size,
            radius=ball, loss=Logistic(),
        )[1]  # fmt: skip
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
    sensitivities are those of the worst draw.
    """
    facts: dict[str, Any] = {}
    if not isinstance(recipe, SinglePass):
        facts = {
            "composition": "disjoint", "mu": max((one.mu for one in fit.releases), default=0.0),
            "accounting": "disjoint stages, each with the whole budget",
        }  # fmt: skip
    if isinstance(recipe, LocalizedSGD):
        how = {
            "exact": "exact mixture over secret index sequences",
            "paper": "published formula 12 G eta log(4/delta) sqrt(2 log(2.5/delta)) / epsilon",
        }
        how_many = "disjoint stages, each with all of (epsilon, delta)"
        facts = {
            "composition": "mixture", "mu": None,
            "accounting": f"{how[recipe.calibration]}; {how_many}",
        }  # fmt: skip
    return certify(fit, recipe.name, setting=setting, noise=noise, **facts)
