# SPDX-License-Identifier: BSD-3-Clause
"""Differentially private localized SGD for smooth pair losses: the paper's Algorithm 3."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pairlearn.domains import ball_or_whole
from pairlearn.losses import Logistic, PairLoss
from pairlearn.privacy.accounting.certificate import Release
from pairlearn.privacy.accounting.touches import touch_noise
from pairlearn.privacy.mechanisms.base import (
    PrivateFit,
    PublicSetting,
    check_constant,
    relative_slack,
)
from pairlearn.privacy.mechanisms.clipped_pairs import average_of_descent, check_slopes, clip_rows
from pairlearn.privacy.mechanisms.localized import LocalizedMechanism
from pairlearn.privacy.noise import NoiseSource
from pairlearn.privacy.release import GRID_STEPS, protect_on_grid, rounding_drift
from pairlearn.solvers.descent.localized import stage_sizes
from pairlearn.typing import Vector


@dataclass(frozen=True)
class PairBounds:
    """The public constants of a pair loss on clipped pairs.

    A pair has at most the length C, and the domain the radius r. `lipschitz` is C times the largest
    slope for margins within C r, `smoothness` C^2 times the largest curvature, and `change` bounds
    the change of a pair's gradient when one of its examples is replaced.
    """

    length: float
    radius: float
    lipschitz: float
    smoothness: float
    change: float


@dataclass(frozen=True)
class _Stage:
    """The public constants of one stage, and its noise.

    `worst` bounds the change of an iterate in a touched step, and `drift` what rounding adds.
    `scale` is the standard deviation of the noise, and `grid` the step of discrete noise.
    """

    n_steps: int
    step_size: float
    worst: float
    drift: float
    scale: float
    grid: float


@dataclass(frozen=True)
class LocalizedPairSGD(LocalizedMechanism):
    r"""Stages of pairwise SGD on disjoint examples, each followed by noise (Algorithm 3).

    Stage k has n_k = floor(n / 2^k) examples that no other stage sees (the first also gets the
    remainder; stages of fewer than two are left out). It draws T_k + 1 indices with
    T_k = ceil(n_k log(4/delta)) and makes T_k steps of size eta_k = eta / 4^k from the last centre
    on the pairs (i_t, i_{t-1}), each followed by projection on a ball of radius r. It averages
    w_{j-2} over j = 1, ..., T_k, adds Gaussian noise and projects. This projection is
    post-processing and keeps the next stage in the ball.

    *Sensitivity.* Given the indices, two runs have averages at most

        D = c eta_k (1/T_k) sum_t (T_k - t - 1)_+ 1[step t touches the example]

    apart (lemma 7), where c, at most 2 G, bounds the change of the gradient of one pair.

    *calibration="exact"*: the indices are secret and do not depend on the data, so by the mixture
    lemma noise s is (epsilon, delta)-DP if E delta(epsilon, D/s) <= delta. The law of the sum is
    computed exactly (`privacy.accounting.touches`). No part of delta is reserved, and every epsilon
    is allowed.

    *calibration="paper"*: the published sigma_k = 12 G eta_k log(4/delta) sqrt(2 log(2.5/delta)) /
    epsilon. Its proof needs epsilon <= 1, so larger values are refused. The tail bound behind the
    12 holds for T_k <= n_k log(4/delta) only, which rounding up breaks. So each stage compares the
    formula with the exact noise and refuses it if it is smaller.

    A replaced example lies in one stage, and later stages see that stage's noisy centre only, so
    every stage may spend all of (epsilon, delta).

    With few examples this mechanism is close to chance: sampling with replacement, halving the
    data and averaging each cost signal. It is here to reproduce the paper and is not the default.

    Parameters
    ----------
    calibration : {"exact", "paper"}, default="exact"
        Which noise to use; see above.
    loss : PairLoss, default=Logistic()
        A smooth convex loss, such as ``Logistic()`` or ``SmoothedHinge(width)``.
    clip : float or None, default=0.8
        Clipping length C of pairs in units of sqrt(d) standard units; None for no clipping.
    radius : float, default=0.5
        Radius r of the domain in units of 1/C.
    step : float, optional
        eta in units of D/G = 2 r/G. By default the paper's
        min(log(4/delta)/sqrt(n), epsilon/(12 log(4/delta) sqrt(2 d log(2.5/delta)))), or with
        exact noise min(2/(3 sqrt(n) log(4/delta)), G/(sqrt(d) nu)), where nu is the noise of the
        first stage for a step of 1. In any case eta <= 8/L.

    Examples
    --------
    >>> LocalizedPairSGD(calibration="paper").name
    'localized_sgd'
    """

    calibration: str = "exact"
    loss: PairLoss = field(default_factory=Logistic)
    clip: float | None = 0.8
    radius: float = 0.5
    step: float | None = None

    name = "localized_sgd"
    secret_draws = True

    def __post_init__(self) -> None:
        if self.calibration not in ("exact", "paper"):
            raise ValueError(f"calibration must be 'exact' or 'paper', got {self.calibration!r}.")
        if self.clip is not None:
            check_constant("clip", self.clip)
        check_constant("radius", self.radius)
        if self.step is not None:
            check_constant("step", self.step)
        if not isinstance(self.loss, PairLoss) or not (
            self.loss.convex
            and self.loss.opposite_labels_only
            and math.isfinite(self.loss.curvature_bound(self.radius))
        ):
            raise ValueError(
                f"loss must be convex and smooth and act on opposite labels, got {self.loss!r}: "
                "with a kink two runs may drift apart. Use SmoothedHinge(width), or the mechanism "
                "'localized_nonsmooth'."
            )
        check_slopes(self.loss, self.radius)

    def bounds(self, setting: PublicSetting) -> PairBounds:
        """Return the public constants, among them the G that the noise is calibrated to."""
        # Both ends: between bounds that are close and far from 0 the middle is one of them.
        low, high = setting.to_standard([setting.lower, setting.upper])
        longest = float(np.linalg.norm(high - low))
        length = longest
        if self.clip is not None:
            length = min(longest, self.clip * math.sqrt(setting.n_features))
        # Margins of clipped pairs in the ball are within the radius in units of 1/C.
        slope = self.loss.slope_bound(self.radius)
        one_sign = self.loss.never_increases
        return PairBounds(
            length=length,
            radius=self.radius / length,
            lipschitz=length * slope,
            smoothness=length**2 * self.loss.curvature_bound(self.radius),
            change=(min(2.0 * length, longest) if one_sign else 2.0 * length) * slope,
        )

    def cost(self, setting: PublicSetting) -> dict[str, float]:
        """Return epsilon and delta: a mixture has no mu; see `Mechanism.cost`."""
        return {"epsilon": setting.epsilon, "delta": setting.delta}

    def check(self, setting: PublicSetting, noise: NoiseSource) -> None:
        """Refuse a setting that the proof does not cover; see `Mechanism.check`."""
        super().check(setting, noise)
        if self.calibration == "paper" and setting.epsilon > 1:
            raise ValueError(
                f"the published noise is proved for epsilon <= 1, got {setting.epsilon:g}; use "
                "calibration='exact'."
            )
        self._stages(setting)

    def fit(
        self, Z: Vector, signs: Vector, *, setting: PublicSetting, noise: NoiseSource
    ) -> PrivateFit:
        """Learn privately, from stages of rows in a secret order; see `Mechanism.fit`."""
        self.check(setting, noise)
        d = setting.n_features
        bounds = self.bounds(setting)
        centre = np.zeros(d)
        releases = []
        blocks = self.blocks(Z, signs, stage_sizes(setting.n_examples), noise)
        stages = self._stages(setting)
        for k, (stage, (rows, sides)) in enumerate(zip(stages, blocks, strict=True), start=1):
            n_steps, drift = stage.n_steps, stage.drift
            average = self._average(
                rows,
                sides,
                noise.draw_indices(len(rows), n_steps + 1),
                centre=centre,
                step_size=stage.step_size,
                bounds=bounds,
            )
            if noise.secure:
                noisy = protect_on_grid(average, scale=stage.scale, step=stage.grid, noise=noise)
                drift += stage.grid * math.sqrt(d)
            else:
                noisy = noise.protect(average, stage.scale)
            # The worst draw, in which every step touches the example.
            surely = stage.worst * (n_steps - 1) * (n_steps - 2) / (2.0 * n_steps) + drift
            releases.append(Release(f"average of stage {k}", d, surely, stage.scale))
            centre = ball_or_whole(bounds.radius).project(noisy)
        return PrivateFit(
            direction=centre,
            threshold=None,
            releases=tuple(releases),
            mu=None,
            accounting=self._accounting(bounds),
            secure=noise.secure,
            details={"lipschitz": bounds.lipschitz, "gradient_change": bounds.change},
            composition="mixture",
        )

    def _stages(self, setting: PublicSetting) -> list[_Stage]:
        """Return the stages of a fit; refuse noise that the proof does not cover."""
        bounds, sizes = self.bounds(setting), stage_sizes(setting.n_examples)
        eta = self._step_size(bounds, sizes, setting)
        stages = []
        for k, size in enumerate(sizes, start=1):
            n_steps = math.ceil(size * math.log(4.0 / setting.delta))
            step_size = eta / 4.0**k
            drift = rounding_drift(n_steps, setting.n_features, radius=bounds.radius)
            worst = bounds.change * step_size * relative_slack
            noise = self._noise(size, n_steps, worst, drift, step_size, bounds, setting)
            stages.append(_Stage(n_steps, step_size, worst, drift, *noise))
        return stages

    def _step_size(
        self, bounds: PairBounds, sizes: tuple[int, ...], setting: PublicSetting
    ) -> float:
        """Return eta: `step`, or the default of the calibration, and at most 8/L."""
        if not sizes:
            return 0.0
        n, d = setting.n_examples, setting.n_features
        passes = math.log(4.0 / setting.delta)
        if self.step is not None:
            share = self.step
        elif self.calibration == "paper":
            width = math.sqrt(2.0 * d * math.log(2.5 / setting.delta))
            share = min(passes / math.sqrt(n), setting.epsilon / (12.0 * passes * width))
        else:
            first = math.ceil(sizes[0] * passes)
            unit = touch_noise(sizes[0], first, setting.epsilon, setting.delta)
            loudness = math.sqrt(d) * unit * bounds.change
            share = min(2.0 / (3.0 * math.sqrt(n) * passes), bounds.lipschitz / loudness)
        return min(share * 2.0 * bounds.radius / bounds.lipschitz, 8.0 / bounds.smoothness)

    def _noise(
        self,
        size: int,
        n_steps: int,
        worst: float,
        drift: float,
        step_size: float,
        bounds: PairBounds,
        setting: PublicSetting,
    ) -> tuple[float, float]:
        """Return the noise of a stage and the grid for discrete noise."""
        budget = setting.epsilon, setting.delta * (1.0 - 1e-9)
        exact = worst * touch_noise(size, n_steps, *budget, rounding=drift / worst)
        grid = exact / GRID_STEPS
        rounded = drift + grid * math.sqrt(setting.n_features)
        exact = worst * touch_noise(size, n_steps, *budget, rounding=rounded / worst)
        if self.calibration == "exact":
            return exact, grid
        published = 12.0 * bounds.lipschitz * step_size * math.log(4.0 / setting.delta)
        published *= math.sqrt(2.0 * math.log(2.5 / setting.delta)) / setting.epsilon
        if published < exact:
            raise ValueError(
                f"the published noise {published:g} of a stage with {size} examples is below "
                f"what is needed, {exact:g}; use calibration='exact'."
            )
        return published, published / GRID_STEPS

    def _average(
        self,
        Z: Vector,
        signs: Vector,
        indices: NDArray[np.int64],
        *,
        centre: Vector,
        step_size: float,
        bounds: PairBounds,
    ) -> Vector:
        """Return the average of w_{j-2}."""
        left, right = indices[1:], indices[:-1]
        active = np.flatnonzero(signs[left] != signs[right])
        i, j = left[active], right[active]
        pairs = clip_rows(signs[i, None] * (Z[i] - Z[j]), bounds.length)
        n_steps = len(left)
        # w_0 stands for w_{-1} too; the last two iterates are not averaged.
        shares = np.full(n_steps + 1, 1.0 / n_steps)
        shares[0] += 1.0 / n_steps
        shares[n_steps - 1 :] = 0.0
        return average_of_descent(
            pairs,
            active,
            shares,
            start=centre,
            step_size=step_size,
            radius=bounds.radius,
            loss=self.loss,
        )

    def _accounting(self, bounds: PairBounds) -> str:
        stated = f"pairs of length at most {bounds.length:.6g}, Lipschitz constant G = "
        stated += f"{bounds.lipschitz:.6g}, change of a pair's gradient at most {bounds.change:.6g}"
        parallel = "disjoint stages, each with all of (epsilon, delta); listed sensitivities are "
        parallel += "those of the worst draw of indices"
        if self.calibration == "paper":
            return (
                "published formula 12 G eta log(4/delta) sqrt(2 log(2.5/delta)) / epsilon, "
                f"checked to be no less than the exact noise; {stated}; {parallel}"
            )
        return f"exact mixture over secret index sequences; {stated}; {parallel}"
