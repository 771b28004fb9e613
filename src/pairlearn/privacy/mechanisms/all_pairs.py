# SPDX-License-Identifier: BSD-3-Clause
r"""Noisy gradient descent over all pairs, of any convex smooth loss of a clipped pair.

For examples x_1, ..., x_n with labels the risk is

    F_S(w) = 1/(n (n - 1)) sum over (i, j) with y_i = 1, y_j = -1 of l(w . v_ij),
    v_ij = clip_C(x_i - x_j),

with a convex smooth l, by default the logistic l(m) = log(1 + e^-m). Clipping a *pair* to length C
keeps the loss convex and, for \|l''\| <= k, (k C^2)-smooth. Margins at w are at most C \|w\| in
absolute value, so slopes are at most s = `PairLoss.slope_bound` (C \|w\|).

**Pair lemma** (lemma 6 in ``docs/privacy/lemmas.md``). Replacing one example changes the gradient
of F_S by at most 2 C s / n; adding or removing one among at most n changes it by at most C s / n.

For linear AUC the mechanism of `privacy.mechanisms.centred` needs less noise. A step takes time in
proportion to the number of pairs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from pairlearn.domains import ball_or_whole
from pairlearn.losses import LOSSES, Logistic, PairLoss
from pairlearn.privacy.mechanisms.base import (
    Mechanism,
    PrivateFit,
    PublicSetting,
    check_constant,
    relative_slack,
)
from pairlearn.privacy.noise import NoiseSource
from pairlearn.privacy.release import release_vector
from pairlearn.typing import Vector
from pairlearn.validation import check_count

# All differences are stored if they take at most this many numbers (128 MiB); more are recomputed
# in chunks.
_STORED_NUMBERS = 1 << 24

# A loss with a larger curvature has a kink for all practical purposes.
_LARGEST_CURVATURE = 1e6


def clip_rows(V: Vector, radius: float) -> Vector:
    """Return rows scaled down to length at most `radius`."""
    lengths = np.sqrt(np.einsum("ij,ij->i", V, V))
    clipped: Vector = V * (radius / np.maximum(lengths, radius))[:, None]
    return clipped


def check_smooth(loss: str | PairLoss, margin: float) -> PairLoss:
    """Return the loss if gradient descent over pairs can use it; raise otherwise.

    It must be convex, act on opposite labels, and be smooth over margins of at most `margin`,
    which may be infinite.

    >>> check_smooth("square", np.inf)
    Square(one_sided=False, margin=1.0)
    >>> check_smooth("hinge", np.inf)
    Traceback (most recent call last):
        ...
    ValueError: loss must be convex and smooth ..., got Hinge(...): its slope jumps or ...
    """
    chosen = LOSSES.make(loss)
    wanted = f"loss must be convex and smooth and act on opposite labels, got {chosen!r}"
    if not chosen.convex:
        raise ValueError(f"{wanted}: it is not convex, so descent may end anywhere.")
    if not chosen.opposite_labels_only:
        raise ValueError(f"{wanted}: it also costs something where labels are equal.")
    check_slopes(chosen, margin)
    if not chosen.curvature_bound(margin) <= _LARGEST_CURVATURE:
        raise ValueError(
            f"{wanted}: its slope jumps or changes without bound over margins up to {margin:g}. "
            "Use 'smoothed_hinge' in place of 'hinge', and a finite radius for 'exponential'."
        )
    return chosen


def check_slopes(loss: PairLoss, margin: float) -> None:
    """Refuse a user's loss whose slopes are not what it says of them: the noise rests on that.

    They must not exceed `slope_bound`, nor rise faster than `curvature_bound`, nor fall if the loss
    is convex, nor be above 0 if it never increases. The check samples 2,001 margins; the losses of
    this library are proved.
    """
    bound, curvature = loss.slope_bound(margin), loss.curvature_bound(margin)
    if type(loss).__module__.startswith("pairlearn."):
        return
    margins = np.linspace(-1.0, 1.0, 2001) * min(margin, 50.0)
    # A mechanism uses the array form, or the scalar one that it stands for.
    for slopes in (loss.slopes(margins), PairLoss.slopes(loss, margins)):
        steepest = np.abs(slopes).max()
        # Two runs stay as close as is proved only if no step on the loss drives them apart.
        with np.errstate(invalid="ignore"):  # infinite slopes, of which no bound is stated
            rises = np.diff(slopes) / np.diff(margins)
        rounding = 1e-9 * steepest / margins[-1]
        wrong = ""
        if not steepest <= bound * (1.0 + 1e-9):
            wrong = (
                f"says that its slopes are at most {bound:g} over margins up to {margin:g}, but "
                f"has a slope of {steepest:g}; correct its slope_bound, which sets the noise."
            )
        elif loss.never_increases and not slopes.max() <= 0.0:
            wrong = (
                f"says that it never increases, but has a slope of {slopes.max():g}; leave "
                "never_increases at False."
            )
        elif loss.convex and rises.min() < -rounding:
            wrong = (
                f"is taken to be convex, but its slope falls over margins up to {margin:g}; set "
                "convex = False in its class."
            )
        elif rises.max() > curvature * (1.0 + 1e-9) + rounding:
            wrong = (
                f"says that its curvature is at most {curvature:g} over margins up to "
                f"{margin:g}, but its slope rises by {rises.max():g} for a margin of 1; correct "
                "its curvature_bound, which sets the step size."
            )
        if wrong:
            raise ValueError(f"{loss!r} {wrong}")


class PairGradient:
    """The gradient of the clipped pair risk of the module, logistic by default.

    `radius` is the clipping radius C. `n_examples` is the public n of the formula, by default the
    number of rows.
    """

    def __init__(
        self, Z: Vector, signs: Vector, *, radius: float, n_examples: int | None = None,
        loss: PairLoss | None = None,
    ) -> None:  # fmt: skip
        self._loss = Logistic() if loss is None else loss
        self._positive = Z[signs > 0]
        self._negative = Z[signs < 0]
        self._radius = radius
        self._n_features = Z.shape[1]
        n = len(Z) if n_examples is None else n_examples
        if n < len(Z):
            raise ValueError(f"there are more rows than the public number {n}.")
        self._scale = 1.0 / max(1, n * (n - 1))
        self._stored: Vector | None = None
        if len(self._positive) * len(self._negative) * Z.shape[1] <= _STORED_NUMBERS:
            self._stored = self._differences(self._positive)

    def _differences(self, positive: Vector) -> Vector:
        flat = (positive[:, None, :] - self._negative[None, :, :]).reshape(-1, self._n_features)
        return clip_rows(flat, self._radius)

    def __call__(self, w: Vector) -> Vector:
        """Return the gradient at `w`."""
        if self._stored is not None:
            return self._scale * self._sum(self._stored, w)
        chunk = max(1, _STORED_NUMBERS // max(1, len(self._negative) * self._n_features))
        total = np.zeros(self._n_features)
        for start in range(0, len(self._positive), chunk):
            total += self._sum(self._differences(self._positive[start : start + chunk]), w)
        return self._scale * total

    def _sum(self, V: Vector, w: Vector) -> Vector:
        total: Vector = self._loss.slopes(V @ w) @ V
        return total


@dataclass(frozen=True)
class AllPairsGradient(Mechanism):
    r"""Noisy gradient descent on the pair risk of a convex smooth loss.

    Each step releases the gradient of F_S (see the module) at the current
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
        self.check(setting)
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
                gradient(w), name=f"pair gradient, step {t + 1}",
                sensitivity=moved * length * slope / setting.n_examples * relative_slack,
                mu=mu, noise=noise,
            )  # fmt: skip
            releases.append(release)
            w = domain.project(w - step_size * noisy)
        return PrivateFit(w, tuple(releases))
