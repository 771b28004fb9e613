# SPDX-License-Identifier: BSD-3-Clause
r"""Private minimum error entropy: noise on clipped gradients of pairs, then on the mean error.

The loss of a pair is a window of the difference of two errors, r = (y - y') - <w, x - x'>
(`pairlearn.losses.entropy`), and its gradient l'(r) (x - x'). By the touching lemma
(`privacy.mechanisms.noisy_sgd`, lemma 22) its slopes need no bound and it need not be convex, so
passes over pairs that meet in cells serve it too.

The loss is not convex, and descent needs a start in the right valley. So the passes have four
stages, with windows of 8, 4, 2 and 1 times the bandwidth: a wide window is nearly least squares on
differences. The stages are public, and each pass has the same part of the budget.

The entropy does not see a constant added to all errors. The intercept b is found afterwards: with
b_0 = 0, for the clip lengths c_1 = 1 and c_2 = min(1, 3 gamma) in units of half the target's range,

    b_j = b_{j-1} + sum_i clip(e_i - b_{j-1}, c_j) / n,    e_i = y_i - <w, x_i>,

with noise on the sum and on the number of examples with a known target. In units of c_j, replacing
an example changes the sum by at most 2 and the count by nothing, or both by at most 1 where the
target is unknown in one of the tables; adding or removing it changes both by at most 1. So the
sensitivity of the two numbers is 2, or sqrt 2. A person with several rows adds the means over them:
both numbers are then in the triangle of those of single rows, whose sides are no longer.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from pairlearn.losses import WINDOWS, PairLoss
from pairlearn.privacy.accounting.certificate import Release
from pairlearn.privacy.mechanisms.base import (
    PrivateFit,
    PublicSetting,
    check_constant,
    relative_slack,
)
from pairlearn.privacy.mechanisms.noisy_sgd import ByMeetings, Meetings, linear_pair_sum
from pairlearn.privacy.noise import NoiseSource
from pairlearn.privacy.persons import rows_that_meet
from pairlearn.privacy.release import release_vector
from pairlearn.typing import Vector
from pairlearn.validation import check_fraction

#: Windows of the stages, in units of the bandwidth.
_STAGES = (8.0, 4.0, 2.0, 1.0)
#: Errors further from the first intercept than this many bandwidths count as that far.
_SECOND_CLIP = 3.0


@dataclass(frozen=True)
class NoisyEntropySGD(ByMeetings):
    """Passes of SGD over clipped pairs of errors with noise on each gradient, for a regression.

    Targets are in units of half their public range, -1 to 1; see the module.

    *Step size.* Where gradients are clipped, a step has the length `step`, in predicted targets for
    a row one standard unit long. It is reduced so that the noise of all steps together is
    below `noise_limit`. It does not depend on the data.

    Parameters
    ----------
    n_passes : int, default=16
        Number of passes P, dealt to the four stages.
    n_batches, n_partners : int, defaults 1 and 32
        As for `NoisySGD`.
    clip : float, default=0.02
        Largest length C of the gradient of a pair, in units of sqrt(d).
    window : str, default="gaussian"
        "gaussian" or "epanechnikov", a name of `pairlearn.losses.WINDOWS`.
    bandwidth : float, default=0.1
        The bandwidth gamma, in units of half the target's range.
    step : float, default=0.06
        Largest step.
    noise_limit : float, default=0.03
        Bound on the noise of all steps together, in the same unit.
    intercept_share : float, default=0.1
        The share of mu^2 for the intercept.

    Examples
    --------
    >>> NoisyEntropySGD(n_passes=8, window="epanechnikov").name
    'noisy_entropy_sgd'
    """

    n_passes: int = 16
    n_batches: int = 1
    n_partners: int = 32
    clip: float = 0.02
    window: str = "gaussian"
    bandwidth: float = 0.1
    step: float = 0.06
    noise_limit: float = 0.03
    intercept_share: float = 0.1

    name = "noisy_entropy_sgd"
    learns = "regression"
    offers_persons = True

    def __post_init__(self) -> None:
        self._meetings()
        for name in ("clip", "bandwidth", "step", "noise_limit"):
            check_constant(name, getattr(self, name))
        check_fraction("intercept_share", self.intercept_share)
        WINDOWS.make(self.window)

    def fit(
        self,
        Z: Vector,
        signs: Vector,
        *,
        setting: PublicSetting,
        noise: NoiseSource,
        persons: NDArray[np.int64] | None = None,
    ) -> PrivateFit:
        """Learn privately from targets `signs`, NaN where unknown; see `CentredStatistics.fit`."""
        self.check(setting, noise)
        clip = self.clip * math.sqrt(setting.n_features)
        budget = setting.mu * (1.0 - 1e-12)
        for_steps = replace(setting, budget=budget * math.sqrt(1.0 - self.intercept_share))
        plan = self._meetings()
        loud = plan.loudness(clip, for_steps) * math.sqrt(setting.n_features)
        step_size = min(self.step / clip, self.noise_limit / loud)
        rows, targets, drawing = rows_that_meet(Z, signs, setting.n_examples, persons)
        w, releases = np.zeros(setting.n_features), []
        for window, n_passes in self.stages():
            # Each pass has the same part of the budget.
            part = for_steps.mu * math.sqrt(n_passes / self.n_passes)
            iterates, made = Meetings(n_passes, self.n_batches, self.n_partners).descend(
                linear_pair_sum(rows, targets, loss=window, clip=clip),
                lambda w, mean: w - step_size * mean,
                w,
                clip=clip,
                setting=replace(setting, budget=part),
                noise=noise,
                persons=drawing,
            )
            w = iterates[-1]
            releases += made
        named = [
            replace(release, name=f"sums of clipped pair gradients, pass {k + 1}")
            for k, release in enumerate(releases)
        ]
        left = budget * math.sqrt(self.intercept_share)
        # Each error is computed from its row alone, whatever stands in other rows.
        errors = signs - np.einsum("ij,j->i", Z, w)
        shares = np.ones(len(Z)) if persons is None else 1.0 / np.bincount(persons)[persons]
        b, found = self._intercept(errors, shares, left, setting, noise)
        return PrivateFit.of_several(w, named + found, noise, threshold=b)

    def stages(self) -> list[tuple[PairLoss, int]]:
        """Return the window and the number of passes of each stage that has any."""
        kind, k = WINDOWS.make(self.window), len(_STAGES)
        ends = [self.n_passes * j // k for j in range(k + 1)]
        return [
            (kind.with_params(bandwidth=factor * self.bandwidth), ends[j + 1] - ends[j])
            for j, factor in enumerate(_STAGES)
            if ends[j + 1] > ends[j]
        ]

    def _intercept(
        self,
        errors: Vector,
        shares: Vector,
        mu: float,
        setting: PublicSetting,
        noise: NoiseSource,
    ) -> tuple[float, list[Release]]:
        """Return the intercept in two rounds and their releases; shares of a person add to 1."""
        known = ~np.isnan(errors)
        b, releases = 0.0, []
        for k, length in enumerate((1.0, min(1.0, _SECOND_CLIP * self.bandwidth))):
            parts = np.clip((errors[known] - b) / length, -1.0, 1.0)
            # A sum that does not depend on the order of the rows, to the last bit.
            exact = np.array([math.fsum(parts * shares[known]), math.fsum(shares[known])])
            moved = 2.0 if setting.neighbours == "replace" else math.sqrt(2.0)
            noisy, release = release_vector(
                exact,
                name=f"sum of clipped errors and number of examples, round {k + 1} of 2",
                sensitivity=moved * relative_slack,
                mu=mu * math.sqrt(0.5),
                noise=noise,
            )
            releases.append(release)
            # The number is public within a unit of noise; less than half of it says nothing.
            count = max(float(noisy[1]), 0.5 * release.noise_scale, 1.0)
            b += length * min(max(float(noisy[0]) / count, -1.0), 1.0)
        return b, releases
