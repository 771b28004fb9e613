# SPDX-License-Identifier: BSD-3-Clause
"""Private learners that use gradients over all pairs, of any convex smooth loss of a clipped pair.

For linear AUC the mechanism of `privacy.mechanisms.centred` needs less noise; these are the generic
alternatives and the baselines of the paper's tables. A step takes time proportional to the number
of pairs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from pairlearn.domains import ball_or_whole
from pairlearn.losses import Logistic, PairLoss
from pairlearn.privacy.mechanisms.base import (
    Mechanism,
    PrivateFit,
    PublicSetting,
    check_constant,
    relative_slack,
)
from pairlearn.privacy.mechanisms.clipped_pairs import PairGradient, check_smooth
from pairlearn.privacy.mechanisms.localized import LocalizedMechanism
from pairlearn.privacy.noise import NoiseSource
from pairlearn.privacy.release import release_vector, rounding_drift
from pairlearn.solvers.descent.localized import stage_sizes
from pairlearn.typing import Vector
from pairlearn.validation import check_count, check_number

#: Least ridge of output perturbation, in units of C^2; its inverse is the largest.
_SMALLEST_RIDGE = 1e-5


@dataclass(frozen=True)
class AllPairsGradient(Mechanism):
    r"""Noisy gradient descent on the pair risk of a convex smooth loss.

    Each step releases the gradient of F_S (`privacy.mechanisms.clipped_pairs`) at the current
    iterate with Gaussian noise.

    *Sensitivity.* The iterate w_t is a function of earlier releases, so the bound s_t on slopes at
    w_t is public, and by the pair lemma (lemma 6) step t has sensitivity 2 C s_t / n, or C s_t / n
    if one example is added or removed. T steps with mu / sqrt(T) each compose to mu.

    The proof uses the slope bound alone. The step size needs a convex and smooth loss; other losses
    are refused, because descent with a fixed step may then end anywhere. At w = 0 all pairs have
    the same slope, which cancels between signal and noise: with one step the loss makes no
    difference.

    Parameters
    ----------
    n_steps : int, default=1
        Number of steps T. One step is the noisy difference of the class means, with each pair
        clipped; more steps pay when noise is small.
    clip : float, default=0.8
        Clipping radius C in units of sqrt(d) standard units.
    step : float, default=16.0
        Step size in units of 1/(4 k C^2), where k is the largest curvature of the loss (1/4 for the
        logistic loss, hence 1/C^2); the risk is (k C^2/4) n/(n-1)-smooth.
    loss : str or PairLoss, default="logistic"
        "logistic", "smoothed_hinge", "squared_hinge", "square", "exponential" (with a finite
        `radius`), or your own convex smooth loss. The guarantee relies on its `slope_bound`.
    radius : float, default=inf
        Iterates are projected on a ball of this radius in units of 1/C, which is post-processing:
        margins stay within it. This helps over many steps with a loss whose slope grows with the
        margin, since noise grows with the slope.

    Examples
    --------
    >>> AllPairsGradient(n_steps=5).name
    'all_pairs'
    >>> AllPairsGradient(loss="hinge")
    Traceback (most recent call last):
        ...
    ValueError: loss must be convex and smooth ...
    """

    n_steps: int = 1
    clip: float = 0.8
    step: float = 16.0
    loss: str | PairLoss = "logistic"
    radius: float = math.inf

    name = "all_pairs"

    def __post_init__(self) -> None:
        check_count("n_steps", self.n_steps)
        check_constant("clip", self.clip)
        check_constant("step", self.step)
        check_constant("radius", self.radius, allow_infinite=True)
        check_smooth(self.loss, self.radius)

    def fit(
        self, Z: Vector, signs: Vector, *, setting: PublicSetting, noise: NoiseSource
    ) -> PrivateFit:
        """Learn privately; see `Mechanism.fit`."""
        self.check(setting, noise)
        d = setting.n_features
        length = self.clip * math.sqrt(d)
        loss = check_smooth(self.loss, self.radius)
        gradient = PairGradient(Z, signs, radius=length, n_examples=setting.n_examples, loss=loss)
        moved = 2.0 if setting.neighbours == "replace" else 1.0
        mu = setting.mu * (1.0 - 1e-12) / math.sqrt(self.n_steps)
        step_size = self.step / (4.0 * loss.curvature_bound(self.radius)) / length**2
        domain = ball_or_whole(self.radius / length)
        w = np.zeros(d)
        releases = []
        for t in range(self.n_steps):
            slope = loss.slope_bound(length * float(np.linalg.norm(w)))
            noisy, release = release_vector(
                gradient(w),
                name=f"pair gradient, step {t + 1}",
                sensitivity=moved * length * slope / setting.n_examples * relative_slack,
                mu=mu,
                noise=noise,
            )
            releases.append(release)
            w = domain.project(w - step_size * noisy)
        return PrivateFit.of_several(w, releases, noise)


@dataclass(frozen=True)
class LocalizedGradient(LocalizedMechanism):
    r"""Localized full-gradient descent with output noise: DPEGD of Xue et al. (2021), corrected.

    Stage k takes n_k = floor(n / 2^k) examples that no other stage sees (the first stage also gets
    the remainder). It runs T_k = n_k steps of projected gradient descent on their pair risk from
    the last centre with step size 4^-k step, averages, and adds Gaussian noise. Stages stop when
    fewer than two examples are left.

    *Sensitivity.* A step of at most 8/C^2 is non-expansive, so by lemma 6 the average over the
    T_k steps changes by at most C s eta (T_k + 1) / n_k, s = sigmoid(C r) in a ball of radius r. A
    replaced example lies in one stage only, so each stage may spend the whole budget.

    The released code of the published method has no Lipschitz constant in its noise; here the
    constant is proved and the noise is that of the analytic Gaussian mechanism.

    Parameters
    ----------
    clip : float, default=0.8
        Clipping radius C in units of sqrt(d) standard units.
    radius : float, default=0.5
        Radius of the domain, in units of 1/C.
    step : float, default=16.0
        Step size before localization, in units of 1/(C^2 n), so that n steps cross the domain
        about once; at most 32, so that the first stage's step is within 8/C^2 for every n.

    Examples
    --------
    >>> LocalizedGradient().name
    'localized_gradient'
    """

    clip: float = 0.8
    radius: float = 0.5
    step: float = 16.0

    name = "localized_gradient"

    def __post_init__(self) -> None:
        check_constant("clip", self.clip)
        check_constant("radius", self.radius)
        if not 0 < self.step <= 32:
            raise ValueError(
                f"step must lie in (0, 32], got {self.step}: a larger gradient step is not proved "
                "to be non-expansive."
            )

    def fit(
        self, Z: Vector, signs: Vector, *, setting: PublicSetting, noise: NoiseSource
    ) -> PrivateFit:
        """Learn privately, from stages of rows in a secret order; see `Mechanism.fit`."""
        self.check(setting, noise)
        d = setting.n_features
        clip = self.clip * math.sqrt(d)
        ball = self.radius / clip
        domain = ball_or_whole(ball)
        slope = Logistic().slope_bound(clip * ball)
        mu = setting.mu * (1.0 - 1e-12)
        w = np.zeros(d)
        releases = []
        stages = self.blocks(Z, signs, stage_sizes(setting.n_examples), noise)
        for k, (rows, sides) in enumerate(stages, start=1):
            size = len(rows)
            gradient = PairGradient(rows, sides, radius=clip)
            step_size = 4.0**-k * self.step / (clip**2 * setting.n_examples)
            centre, total = w, np.zeros(d)
            for _ in range(size):
                centre = domain.project(centre - step_size * gradient(centre))
                total += centre
            sensitivity = clip * slope * step_size * (size + 1) / size * relative_slack
            noisy, release = release_vector(
                total / size,
                name=f"centre of stage {k}",
                sensitivity=sensitivity + rounding_drift(size, d, radius=ball),
                mu=mu,
                noise=noise,
            )
            releases.append(release)
            # Projection after the noise is post-processing.
            w = domain.project(noisy)
        return PrivateFit.of_stages(w, releases, noise)


@dataclass(frozen=True)
class OutputPerturbation(Mechanism):
    r"""Noise on the minimiser of the regularised pair risk F_S(w) + (lambda / 2) \|w\|^2.

    *Sensitivity.* By strong convexity and the pair lemma, 2 C s / (n lambda), or half of it if one
    example is added or removed; lemma 6 bounds s and chooses the number of steps of gradient
    descent in advance. The error of the minimiser is at most 1e-9 of the sensitivity; twice that
    is added to it.

    Parameters
    ----------
    clip : float, default=0.8
        Clipping radius C in units of sqrt(d) standard units.
    ridge : float, default=0.5
        lambda in units of C^2.

    Examples
    --------
    >>> OutputPerturbation().name
    'output_perturbation'
    """

    clip: float = 0.8
    ridge: float = 0.5

    name = "output_perturbation"

    def __post_init__(self) -> None:
        check_constant("clip", self.clip)
        if not _SMALLEST_RIDGE <= check_number("ridge", self.ridge) <= 1.0 / _SMALLEST_RIDGE:
            raise ValueError(
                f"ridge must lie between {_SMALLEST_RIDGE:g} and {1.0 / _SMALLEST_RIDGE:g}, got "
                f"{self.ridge!r}: the number of steps grows as its inverse, and a large one leaves "
                "nothing to learn."
            )

    def fit(
        self, Z: Vector, signs: Vector, *, setting: PublicSetting, noise: NoiseSource
    ) -> PrivateFit:
        """Learn privately; see `Mechanism.fit`."""
        self.check(setting, noise)
        n, d = setting.n_examples, setting.n_features
        clip = self.clip * math.sqrt(d)
        ridge = self.ridge * clip**2
        active = n / (4.0 * max(1, n - 1))
        largest = clip * active / ridge
        moved = 2.0 if setting.neighbours == "replace" else 1.0
        sensitivity = moved * clip * Logistic().slope_bound(clip * largest) / (n * ridge)
        smoothness = 0.25 * clip**2 * active + ridge
        rate = (smoothness - ridge) / (smoothness + ridge)
        n_steps = math.ceil(math.log(1e-9 * sensitivity / largest) / math.log(rate))
        gradient = PairGradient(Z, signs, radius=clip, n_examples=n)
        w = np.zeros(d)
        for _ in range(n_steps):
            w = w - 2.0 / (smoothness + ridge) * (gradient(w) + ridge * w)
        noisy, release = release_vector(
            w,
            name="minimiser of the regularised pair risk",
            sensitivity=sensitivity * (1.0 + 2e-9) * relative_slack,
            mu=setting.mu * (1.0 - 1e-12),
            noise=noise,
        )
        return PrivateFit.of_one(noisy, release, noise)
