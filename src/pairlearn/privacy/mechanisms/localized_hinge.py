# SPDX-License-Identifier: BSD-3-Clause
"""Private localized learning with the hinge loss: the paper's Algorithm 5, with its gap closed."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from pairlearn.domains import ball_or_whole
from pairlearn.losses import SmoothedHinge
from pairlearn.privacy.mechanisms.base import (
    PrivateFit,
    PublicSetting,
    check_constant,
    relative_slack,
)
from pairlearn.privacy.mechanisms.clipped_pairs import PairGradient
from pairlearn.privacy.mechanisms.localized import LocalizedMechanism
from pairlearn.privacy.noise import NoiseSource
from pairlearn.privacy.release import release_vector
from pairlearn.solvers.descent.localized import stage_sizes
from pairlearn.typing import Vector

#: Largest number of examples: beyond it the first stage alone takes minutes.
LARGEST_N = 1024
# Error of the inner solver as a share of the sensitivity; the sensitivity grows by twice that.
_TOLERANCE = 1e-6


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
    def make(cls, n_examples: int, *, locality: float, length: float) -> HingeStage:
        """Return the stage for n_k >= 2 examples, zeta_k and pairs of length at most C."""
        n = n_examples
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
        sensitivity = sensitivity * (1.0 + 2.0 * _TOLERANCE) * relative_slack
        return cls(n, alpha, gap, width, smoothness, max(n_steps, 1), sensitivity)

    def solve(self, Z: Vector, signs: Vector, *, centre: Vector, length: float) -> Vector:
        """Minimise the rounded objective about `centre` by the fixed number of accelerated steps.

        The result is within 1e-6 of the sensitivity of the minimiser.
        """
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
class LocalizedHinge(LocalizedMechanism):
    r"""Localized regularised risk minimisation with the hinge loss, and noise on each centre.

    Stage k has n_k = floor(n / 2^k) examples that no other stage sees (the first also gets the
    remainder) and, with zeta_k = zeta / 4^k, the objective

        F_k(w) = F_{S_k}(w) + (alpha_k / 2) \|w - c\|^2,    alpha_k = 2 / (zeta_k n_k),

    where F_{S_k} is the mean over ordered pairs of the hinge loss of the clipped pair, and c the
    projected noisy centre of the stage before.

    *Inner solver.* The hinge is rounded off over a width h, and Nesterov's method makes a number of
    steps that is fixed in advance, about 6 n_k. The result is within 1e-6 of the sensitivity of the
    minimiser, and the gap that the paper requires holds surely.

    *Sensitivity.* The minimiser changes by at most 2 C/(n_k alpha_k) = C zeta_k, and 2e-6 of it is
    added for the solver (lemma 8). No failure probability is spent. Noise is that of the analytic
    Gaussian mechanism; the published one lacks a factor sqrt 2. A replaced example lies in one
    stage, so each stage may spend the whole budget.

    *Cost.* Stage k takes about 6 n_k steps of n_k^2 d / 4 operations. More than `LARGEST_N`
    examples are refused; use ``LocalizedPairSGD(loss=SmoothedHinge(width))`` for them.

    Parameters
    ----------
    clip : float, default=0.8
        Clipping length C of pairs in units of sqrt(d) standard units.
    radius : float, default=0.5
        Radius r to which noisy centres are projected, in units of 1/C.
    locality : float, default=1.0
        zeta in units of (2 r/C) min(4/sqrt(n), mu/sqrt(d)).

    Examples
    --------
    >>> LocalizedHinge().name
    'localized_nonsmooth'
    """

    clip: float = 0.8
    radius: float = 0.5
    locality: float = 1.0

    name = "localized_nonsmooth"

    def __post_init__(self) -> None:
        check_constant("clip", self.clip)
        check_constant("radius", self.radius)
        check_constant("locality", self.locality)

    def check(self, setting: PublicSetting, noise: NoiseSource) -> None:
        """Refuse a setting that is not proved or not affordable; see `Mechanism.check`."""
        super().check(setting, noise)
        if setting.n_examples > LARGEST_N:
            raise ValueError(
                f"localized_nonsmooth accepts at most {LARGEST_N} examples, got "
                f"{setting.n_examples}: its work grows like n^3 d. Use a smooth loss: "
                "LocalizedPairSGD(loss=SmoothedHinge(0.5)), or the mechanism 'statistics'."
            )

    def stages(self, setting: PublicSetting) -> list[HingeStage]:
        """Return the stages of a fit."""
        n, d = setting.n_examples, setting.n_features
        length = self.clip * math.sqrt(d)
        reach = min(4.0 / math.sqrt(n), setting.mu / math.sqrt(d))
        zeta = self.locality * 2.0 * self.radius / length**2 * reach
        return [
            HingeStage.make(size, locality=zeta / 4.0**k, length=length)
            for k, size in enumerate(stage_sizes(n), start=1)
        ]

    def fit(
        self, Z: Vector, signs: Vector, *, setting: PublicSetting, noise: NoiseSource
    ) -> PrivateFit:
        """Learn privately, from stages of rows in a secret order; see `Mechanism.fit`."""
        self.check(setting, noise)
        d = setting.n_features
        length = self.clip * math.sqrt(d)
        centre = np.zeros(d)
        stages = self.stages(setting)
        blocks = self.blocks(Z, signs, (stage.n_examples for stage in stages), noise)
        releases = []
        for k, (stage, (rows, sides)) in enumerate(zip(stages, blocks, strict=True), start=1):
            noisy, release = release_vector(
                stage.solve(rows, sides, centre=centre, length=length),
                name=f"minimiser of stage {k}",
                sensitivity=stage.sensitivity,
                mu=setting.mu * (1.0 - 1e-12),
                noise=noise,
            )
            releases.append(release)
            centre = ball_or_whole(self.radius / length).project(noisy)
        return PrivateFit.of_stages(centre, releases, noise)
