# SPDX-License-Identifier: BSD-3-Clause
"""One private pass over the examples: the private form of the paper's online algorithm."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from pairlearn.losses import Logistic
from pairlearn.privacy.mechanisms.base import (
    Mechanism,
    PrivateFit,
    PublicSetting,
    check_constant,
    relative_slack,
)
from pairlearn.privacy.mechanisms.clipped_pairs import clip_rows, last_of_descent
from pairlearn.privacy.noise import NoiseSource
from pairlearn.privacy.release import release_vector, rounding_drift
from pairlearn.typing import Vector

_LOSS = Logistic()


@dataclass
class Pass:
    """A pass that has begun and not ended: the iterate and the last example, both secret.

    `previous` is the last example in standard coordinates, exactly as it was given. Its sign is 0
    before the first example.
    """

    w: Vector
    previous: Vector | None = None
    previous_sign: float = 0.0
    n_seen: int = field(default=0)


@dataclass(frozen=True)
class SinglePass(Mechanism):
    r"""Each example meets the previous one, once; the last iterate is released with noise.

    Rows are taken in their order, which may be public. Step t descends on the logistic loss of the
    pair (x_t, x_{t-1}), clipped to length C, if the labels differ, and projects on a ball of
    radius r.

    *Sensitivity.* An example is in at most two pairs, and the other steps are non-expansive. So
    \|w - w'\| <= 4 C s eta for the last iterate, s = sigmoid(C r), with no failure probability, and
    2 C s eta if one example is added or removed (lemma 6). The step size depends on the public n,
    not on the number of rows. An average of iterates has less signal for the same worst case, so
    the last iterate is released.

    `begin`, `learn` and `finish` take the same steps piece by piece, for streams.

    Parameters
    ----------
    clip : float, default=0.8
        Clipping radius C in units of sqrt(d) standard units.
    radius : float, default=0.5
        Radius r of the domain in units of 1/C.
    step : float, default=4.0
        Step size in units of r/(C n). It is the number of times that the pass could cross the
        radius if every pair were active, with slope and length at their bounds.

    Examples
    --------
    >>> SinglePass().name
    'single_pass'
    """

    clip: float = 0.8
    radius: float = 0.5
    step: float = 4.0

    name = "single_pass"

    def __post_init__(self) -> None:
        check_constant("clip", self.clip)
        check_constant("radius", self.radius)
        check_constant("step", self.step)
        if self.step * self.radius > 8:
            raise ValueError(
                f"step * radius must be at most 8, got {self.step * self.radius:g}: a larger "
                "gradient step is not proved to be non-expansive for every n."
            )

    def fit(
        self, Z: Vector, signs: Vector, *, setting: PublicSetting, noise: NoiseSource
    ) -> PrivateFit:
        """Learn privately; see `Mechanism.fit`."""
        self.check(setting, noise)
        state = self.begin(setting)
        self.learn(state, Z, signs, setting=setting)
        return self.finish(state, setting=setting, noise=noise)

    def begin(self, setting: PublicSetting) -> Pass:
        """Return the state before the first of at most ``setting.n_examples`` examples."""
        return Pass(np.zeros(setting.n_features))

    def learn(self, state: Pass, Z: Vector, signs: Vector, *, setting: PublicSetting) -> None:
        """Take the steps of some further examples, in standard coordinates; `state` is changed."""
        if not len(Z):
            return
        if state.n_seen + len(Z) > setting.n_examples:
            raise ValueError(
                f"there are more rows than the public number {setting.n_examples} that sets the "
                "step size; none of the new rows was used. Release the earlier rows; another "
                "number needs a new pass."
            )
        clip, ball, step_size = self._scales(setting)
        state.n_seen += len(Z)
        last, last_sign = Z[-1].copy(), float(signs[-1])
        if state.previous is not None:
            Z = np.concatenate([state.previous[None, :], Z])
            signs = np.concatenate([[state.previous_sign], signs])
        active = np.flatnonzero(signs[1:] != signs[:-1]) + 1
        pairs = clip_rows(signs[active, None] * (Z[active] - Z[active - 1]), clip)
        state.w = last_of_descent(
            pairs, start=state.w, step_size=step_size, radius=ball, loss=_LOSS
        )
        state.previous, state.previous_sign = last, last_sign

    def finish(self, state: Pass, *, setting: PublicSetting, noise: NoiseSource) -> PrivateFit:
        """Release the last iterate with noise, once; the state must not be used again."""
        self.check(setting, noise)
        clip, ball, step_size = self._scales(setting)
        moved = 4.0 if setting.neighbours == "replace" else 2.0
        sensitivity = (
            moved * clip * Logistic().slope_bound(clip * ball) * step_size * relative_slack
        )
        drift = rounding_drift(setting.n_examples, setting.n_features, radius=ball)
        noisy, release = release_vector(
            state.w,
            name="last iterate of one pass",
            sensitivity=sensitivity + drift,
            mu=setting.mu * (1.0 - 1e-12),
            noise=noise,
        )
        return PrivateFit.of_one(noisy, release, noise)

    def _scales(self, setting: PublicSetting) -> tuple[float, float, float]:
        """Return the clipping length, the radius of the ball and the step size."""
        clip = self.clip * math.sqrt(setting.n_features)
        ball = self.radius / clip
        return clip, ball, self.step * ball / (clip * setting.n_examples)
