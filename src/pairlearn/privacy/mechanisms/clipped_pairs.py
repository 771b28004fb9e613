# SPDX-License-Identifier: BSD-3-Clause
r"""Gradients of a clipped pair loss over all pairs, and how much one example moves them.

For examples x_1, ..., x_n with labels the risk is

    F_S(w) = 1/(n (n - 1)) sum over (i, j) with y_i = 1, y_j = -1 of l(w . v_ij),
    v_ij = clip_C(x_i - x_j),

with a convex smooth l, by default the logistic l(m) = log(1 + e^-m). Clipping a *pair* to length C
keeps the loss convex and, for \|l''\| <= k, (k C^2)-smooth. Margins at w are at most C \|w\| in
absolute value, so slopes are at most s = `PairLoss.slope_bound` (C \|w\|).

**Pair lemma** (lemma 6 in ``docs/privacy/lemmas.md``). Replacing one example changes the gradient
of F_S by at most 2 C s / n; adding or removing one among at most n changes it by at most C s / n.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pairlearn.losses import LOSSES, Logistic, PairLoss
from pairlearn.typing import Vector

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
    loss.slope_bound(margin)
    if type(loss).__module__.startswith("pairlearn."):
        return
    margins = np.linspace(-1.0, 1.0, 2001) * min(margin, 50.0)
    # A mechanism uses the array form, or the scalar one that it stands for.
    for slopes in (loss.slopes(margins), PairLoss.slopes(loss, margins)):
        _check_sampled(loss, margin, margins, slopes)


def _check_sampled(loss: PairLoss, margin: float, margins: Vector, slopes: Vector) -> None:
    """Refuse slopes at margins, up to `margin`, that are not what the loss says."""
    bound = loss.slope_bound(margin)
    if not np.abs(slopes).max() <= bound * (1.0 + 1e-9):
        raise ValueError(
            f"{loss!r} says that its slopes are at most {bound:g} over margins up to {margin:g}, "
            f"but has a slope of {np.abs(slopes).max():g}; correct its slope_bound, which sets the "
            "noise."
        )
    if loss.never_increases and not slopes.max() <= 0.0:
        raise ValueError(
            f"{loss!r} says that it never increases, but has a slope of {slopes.max():g}; leave "
            "never_increases at False."
        )
    # Two runs stay as close as is proved only if no step on the loss drives them apart.
    with np.errstate(invalid="ignore"):  # infinite slopes, of which no bound is stated
        rises = np.diff(slopes) / np.diff(margins)
    rounding = 1e-9 * np.abs(slopes).max() / margins[-1]
    if loss.convex and rises.min() < -rounding:
        raise ValueError(
            f"{loss!r} is taken to be convex, but its slope falls over margins up to {margin:g}; "
            "set convex = False in its class."
        )
    curvature = loss.curvature_bound(margin)
    if rises.max() > curvature * (1.0 + 1e-9) + rounding:
        raise ValueError(
            f"{loss!r} says that its curvature is at most {curvature:g} over margins up to "
            f"{margin:g}, but its slope rises by {rises.max():g} for a margin of 1; correct its "
            "curvature_bound, which sets the step size."
        )


def average_of_descent(
    pairs: Vector,
    active: NDArray[np.int64],
    shares: Vector,
    *,
    start: Vector,
    step_size: float,
    radius: float,
    loss: PairLoss,
) -> Vector:
    """Run projected SGD on given pairs and return a weighted average of its iterates.

    Step t is w_t = Proj(w_{t-1} - eta l'(w_{t-1} . v) v) if t is active and w_t = w_{t-1} if not.
    Rows of `pairs` are the differences v, from the negative to the positive example; `active` holds
    the index of the step of each pair, from 0; `shares` are the weights of w_0, ..., w_T; `start`
    is w_0, inside the ball of the given radius.
    """
    paid = np.concatenate([[0.0], np.cumsum(shares)])
    # An iterate stays the same over inactive steps and collects their shares.
    ends = np.concatenate([[0.0], paid[active + 1]])
    average, w = _descend(pairs, np.diff(ends), start, step_size, radius, loss)
    return average + float(paid[-1] - ends[-1]) * w


def last_of_descent(
    pairs: Vector, *, start: Vector, step_size: float, radius: float, loss: PairLoss
) -> Vector:
    """Run projected SGD on given pairs, as `average_of_descent`; return the last iterate."""
    return _descend(pairs, np.zeros(len(pairs)), start, step_size, radius, loss)[1]


def _descend(
    pairs: Vector, shares: Vector, start: Vector, step_size: float, radius: float, loss: PairLoss
) -> tuple[Vector, Vector]:
    """Return sum of shares times the iterate before each step, and the last iterate."""
    from pairlearn.kernels.steps.anchored import descend_anchored

    n_pairs, d = pairs.shape
    w, average = start.copy(), np.zeros(d)
    # The kernel takes differences of rows, so every difference is paired with a row of zeros.
    rows = np.concatenate([pairs, np.zeros((1, d))]).ravel()
    labels = np.ones(n_pairs + 1)
    labels[-1] = -1.0
    status = descend_anchored(
        rows,
        labels,
        np.arange(n_pairs),
        np.full(n_pairs, n_pairs),
        np.full(n_pairs, step_size),
        np.zeros(n_pairs),
        shares,
        start,
        w,
        average,
        radius,
        loss.derivative.address,
        loss.parameter,
        loss.one_sided,
        False,
        np.zeros(1, dtype=np.int64),
    )
    if status:
        raise FloatingPointError("an iterate is not finite although steps and pairs are bounded.")
    return average, w


class PairGradient:
    """The gradient of the clipped pair risk of the module, logistic by default.

    `radius` is the clipping radius C. `n_examples` is the public n of the formula, by default the
    number of rows.
    """

    def __init__(
        self,
        Z: Vector,
        signs: Vector,
        *,
        radius: float,
        n_examples: int | None = None,
        loss: PairLoss | None = None,
    ) -> None:
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
