# SPDX-License-Identifier: BSD-3-Clause
"""One private pass over the examples: the private form of the paper's online algorithm."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pairlearn.privacy.certificate import Release
from pairlearn.privacy.mechanism import Mechanism, PrivateFit, PublicSetting, relative_slack
from pairlearn.privacy.noise import NoiseSource
from pairlearn.privacy.pairs import clip_rows, logistic_slope
from pairlearn.validation import check_positive

__all__ = ["SinglePass"]

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class SinglePass(Mechanism):
    r"""Each example meets the previous one, once; the last iterate is released with noise.

    Rows are taken in their order, which may be public. Step t descends on the logistic loss of the
    pair (x_t, x_{t-1}), clipped to length C, if the labels differ, and projects on a ball of
    radius r.

    *Sensitivity.* An example is in at most two pairs, its own step and the next one. Any other step
    is the same map in both runs and, the loss being convex and (C^2/4)-smooth and the step at most
    8/C^2, does not increase their distance. A touched step adds at most eta times the difference
    of two gradients at the same point: 2 C s if the label stays, C s if it changes (the pair is
    then active in one run only), s = sigmoid(C r). Hence \|w - w'\| <= 4 C s eta for the last
    iterate, with no failure probability. An average of iterates has less signal for the same worst
    case, so the last iterate it is.

    Parameters
    ----------
    clip : float, default=0.8
        Clipping radius C in units of sqrt(d) standard units.
    radius : float, default=0.5
        Radius r of the domain in units of 1/C.
    step : float, default=4.0
        Step size in units of r/(C n): so many times the pass could cross the radius if every pair
        were active and had slope and length at their bounds.

    Examples
    --------
    >>> SinglePass().name
    'single_pass'
    """

    clip: float = 0.8
    radius: float = 0.5
    step: float = 4.0

    name = "single_pass"
    relations = ("replace",)

    def __post_init__(self) -> None:
        check_positive("clip", self.clip)
        check_positive("radius", self.radius)
        check_positive("step", self.step)
        if self.step * self.radius > 8:
            raise ValueError(
                f"step * radius must be at most 8, got {self.step * self.radius:g}: beyond, a "
                "gradient step is not proved to be non-expansive for every n."
            )

    def fit(
        self, Z: Vector, signs: Vector, *, setting: PublicSetting, noise: NoiseSource
    ) -> PrivateFit:
        """Learn privately; see `Mechanism.fit`.

        Parameters
        ----------
        Z : ndarray of shape (n, d)
            Examples in standard coordinates, in the order of the pass.
        signs : ndarray of shape (n,)
            +1 or -1.
        setting : PublicSetting
            What is public.
        noise : NoiseSource
            The source of noise.

        Returns
        -------
        PrivateFit
            What is released.
        """
        self.check(setting, noise)
        d = setting.n_features
        clip = self.clip * math.sqrt(d)
        ball = self.radius / clip
        step_size = self.step * ball / (clip * setting.n_examples)
        active = np.flatnonzero(signs[1:] != signs[:-1]) + 1
        pairs = clip_rows(signs[active, None] * (Z[active] - Z[active - 1]), clip)
        w = np.zeros(d)
        for v in pairs:
            # The slope 1/(1 + e^m); |m| <= C r is small, so nothing overflows.
            w = w + step_size / (1.0 + math.exp(float(w @ v))) * v
            length = math.sqrt(float(w @ w))
            if length > ball:
                w *= ball / length
        sensitivity = 4.0 * clip * logistic_slope(clip * ball) * step_size * relative_slack
        scale = sensitivity / (setting.mu * (1.0 - 1e-12))
        release = Release("last iterate of one pass", d, sensitivity, scale)
        return PrivateFit(
            direction=noise.protect(w, scale),
            threshold=0.0,
            releases=(release,),
            mu=release.mu,
            accounting="one Gaussian release, converted exactly",
        )
