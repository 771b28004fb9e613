# SPDX-License-Identifier: BSD-3-Clause
r"""Private SGD over pairs by noise on gradients: of a score, a metric or a regression.

In each pass the rows are dealt, in a secret order, to batches, and the rows of a batch to cells of
at most k + 1 rows. All rows of a cell meet. The gradient of each pair is clipped to length C, and
the sum over a batch is released with Gaussian noise:

    g = sum over pairs (i, j) of a cell of  clip_C(grad f(w; z_i, z_j)) + noise.

**Touching lemma** (lemma 22 in ``docs/privacy/lemmas.md``). An example is in at most k pairs of a
pass, all of one batch. So replacing it changes the sums of a pass by at most 2 k C in one batch and
nothing in the others; adding or removing it by at most k C. P passes with mu / sqrt(P) each compose
to mu. The loss need not be convex or smooth, and its slopes need no bound. Persons with several
rows meet in the place of rows, each with one row that is drawn anew for each pass.

This is the gradient perturbation of Wang, Lei, Ying and Zhou (2022, arXiv 2209.04188), with each
example in a bounded number of pairs. No amplification by subsampling is claimed.

*Regression.* The loss is a window of the difference of two errors (`pairlearn.losses.entropy`). It
is not convex, and descent needs a start in the right valley: four public stages have windows of 8,
4, 2 and 1 times the bandwidth. The entropy does not see a constant added to all errors. The
intercept b is found afterwards: with b_0 = 0, for the clip lengths c_1 = 1 and c_2 = min(1, 3
gamma) in units of half the target's range,

    b_j = b_{j-1} + sum_i clip(e_i - b_{j-1}, c_j) / n,    e_i = y_i - <w, x_i>,

with noise on the sum and on the number of examples with a known target. In units of c_j, replacing
an example changes the sum by at most 2 and the count by nothing, or both by at most 1 where the
target is unknown in one of the tables; adding or removing it changes both by at most 1. So the
sensitivity of the two numbers is 2, or sqrt 2. A person with several rows adds the means over them:
both numbers are then in the triangle of those of single rows, whose sides are no longer.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from pairlearn.domains import PsdCone, ball_or_whole
from pairlearn.losses import LOSSES, PairLoss
from pairlearn.privacy.accounting.certificate import Release
from pairlearn.privacy.mechanisms.base import (
    Mechanism,
    PrivateFit,
    PublicSetting,
    check_constant,
    from_upper,
    relative_slack,
    to_upper,
)
from pairlearn.privacy.noise import NoiseSource
from pairlearn.privacy.persons import OneRowEach, rows_that_meet
from pairlearn.privacy.release import release_vector
from pairlearn.typing import Vector
from pairlearn.validation import check_count

#: Sums the clipped pair gradients of a batch: (rows of the table, borders of the cells, w).
PairSum = Callable[[NDArray[np.int64], NDArray[np.int64], Vector], Vector]


#: The number of the person of each row, if persons are protected.
Persons = NDArray[np.int64] | None


@dataclass(frozen=True)
class Meetings:
    """Who meets whom: P passes of T batches, in which a row meets at most k others.

    >>> plan = Meetings(n_passes=4, n_batches=2, n_partners=3)
    >>> [cuts.tolist() for cuts in plan.batches(11)]
    [[0, 2, 5], [5, 8, 11]]
    >>> plan.touches(11), plan.n_pairs(11)
    (2, [4, 6])
    """

    n_passes: int
    n_batches: int
    n_partners: int

    def __post_init__(self) -> None:
        for name in ("n_passes", "n_batches", "n_partners"):
            check_count(name, getattr(self, name))

    def batches(self, n: int) -> list[NDArray[np.int64]]:
        """Return the borders of the cells of each batch, for n rows in a row."""
        edges = [n * t // self.n_batches for t in range(self.n_batches + 1)]
        found = []
        for begin, end in pairwise(edges):
            n_cells = max(1, -(-(end - begin) // (self.n_partners + 1)))
            found.append(begin + (end - begin) * np.arange(n_cells + 1) // n_cells)
        return found

    def touches(self, n: int) -> int:
        """Return the largest number of pairs of a pass that an example is in."""
        return max(1, *(int(np.diff(cuts).max()) - 1 for cuts in self.batches(n)))

    def n_pairs(self, n: int) -> list[int]:
        """Return the number of pairs in each batch, those that count nothing among them."""
        sizes = (np.diff(cuts) for cuts in self.batches(n))
        return [max(1, int((size * (size - 1)).sum()) // 2) for size in sizes]

    def check(self, n: int) -> None:
        """Refuse batches without a pair."""
        if n < 2 * self.n_batches and self.n_batches > 1:
            raise ValueError(
                f"n_batches={self.n_batches} batches of {n} examples would have no pairs; use at "
                f"most {max(1, n // 2)}."
            )

    def descend(
        self, pair_sum: PairSum, move: Callable[[Vector, Vector], Vector], start: Vector, *,
        clip: float, setting: PublicSetting, noise: NoiseSource,
        persons: OneRowEach | None = None, first: int = 0,
    ) -> tuple[list[Vector], list[Release]]:  # fmt: skip
        """Take all steps; return the iterate after each pass, and one release for each pass.

        `pair_sum` gets the index of the row in each place (those beyond the table are rows that are
        not there), the borders of the cells, and the iterate. `move` returns the next iterate,
        given the present one and the noisy mean over pairs. `clip` is the largest length C of a
        pair's gradient, `persons` meet in the place of rows, and `first` passes were made before.
        """
        n = setting.n_examples
        batches, counts = self.batches(n), self.n_pairs(n)
        mu = setting.mu * (1.0 - 1e-12) / math.sqrt(self.n_passes)
        sensitivity = self.sensitivity(clip, setting)
        w, iterates, releases = start, [], []
        for k in range(self.n_passes):
            order = noise.permutation(n)
            order = order if persons is None else persons.drawn(order, noise)
            dimension = 0
            for cuts, count in zip(batches, counts, strict=True):
                rows = order[cuts[0] : cuts[-1]]
                noisy, release = release_vector(
                    pair_sum(rows, cuts - cuts[0], w), name="pair gradients",
                    sensitivity=sensitivity, mu=mu, noise=noise,
                )  # fmt: skip
                dimension += release.dimension
                w = move(w, noisy / count)
            iterates.append(w)
            name = f"sums of clipped pair gradients, pass {first + k + 1}"
            # Given the noisy sums before it, the example changes one of the sums.
            releases.append(Release(name, dimension, release.sensitivity, release.noise_scale))
        return iterates, releases

    def loudness(self, clip: float, setting: PublicSetting) -> float:
        """Return the deviation of the noise of all steps together, for a step size of 1.

        With the noise of a step in proportion to the root of P, it is that of one pass with the
        whole budget, times P and times the root of T.
        """
        n = setting.n_examples
        once = self.sensitivity(clip, setting) / setting.mu / min(self.n_pairs(n))
        return once * self.n_passes * math.sqrt(self.n_batches)

    def sensitivity(self, clip: float, setting: PublicSetting) -> float:
        """Return the bound of the touching lemma, rounding in the sums included."""
        n = setting.n_examples
        moved = 2.0 if setting.neighbours == "replace" else 1.0
        # Rounding in a sum of vectors of length at most C, in any order, in two runs (lemma 22).
        drift = 2.0 * max(self.n_pairs(n)) ** 2 * 2.0**-52
        return clip * (moved * self.touches(n) * relative_slack + drift)


def linear_pair_sum(Z: Vector, labels: Vector, *, loss: PairLoss, clip: float) -> PairSum:
    """Return the sums of clipped gradients of a loss of the score <w, x - x'>."""
    from pairlearn.kernels.clipped_sums import add_clipped_differences

    def pair_sum(rows: NDArray[np.int64], cuts: NDArray[np.int64], w: Vector) -> Vector:
        total = np.zeros(len(w))
        add_clipped_differences(
            Z[rows].ravel(), labels[rows], cuts, w, clip, loss.derivative.address, loss.parameter,
            not loss.opposite_labels_only, np.zeros(len(w)), total,
        )  # fmt: skip
        return total

    return pair_sum


def check_margin_loss(loss: str | PairLoss) -> None:
    """Refuse a loss that is not one of a margin between opposite labels."""
    chosen = LOSSES.make(loss)
    if chosen.kind != "margin" or not chosen.opposite_labels_only:
        raise ValueError(
            f"loss must be a loss of a margin that acts on opposite labels, got {chosen!r}; "
            "use a loss such as Logistic() or Hinge()."
        )


class ByMeetings(Mechanism):
    """A mechanism whose rows meet in passes, batches and cells (lemma 22)."""

    n_passes: int
    n_batches: int
    n_partners: int

    def _meetings(self) -> Meetings:
        return Meetings(self.n_passes, self.n_batches, self.n_partners)

    def check(self, setting: PublicSetting) -> None:
        """Refuse a setting that the proof does not cover; see `Mechanism.check`."""
        super().check(setting)
        self._meetings().check(setting.n_examples)


#: Passes and other constants by the kind of loss, for those that are None.
_PASSES = {"margin": 8, "distance": 4, "difference": 16}
_DEFAULTS = {
    "margin": {"clip": 0.1, "step": 8.0, "noise_limit": 0.3},
    "distance": {"clip": 0.5, "step": 2.0, "noise_limit": 0.5},
    "difference": {"clip": 0.02, "step": 0.06, "noise_limit": 0.03},
}
#: Windows of the stages of a regression, in units of the bandwidth.
_STAGES = (8.0, 4.0, 2.0, 1.0)
#: The share of mu^2 for the intercept of a regression.
_INTERCEPT_SHARE = 0.1
#: Errors further from the first intercept than this many bandwidths count as that far.
_SECOND_CLIP = 3.0


@dataclass(frozen=True)
class NoisySGD(ByMeetings):
    r"""Passes of SGD over clipped pairs with noise on each gradient, for any pair loss.

    Each pass deals the rows to cells in a secret order, and all rows of a cell meet; see the
    module. The iterate moves by a step size times the noisy mean of the clipped gradients, and the
    last one is the result. A loss of a score that may increase with the margin, such as the square,
    can throw the iterate to and fro; then it is the mean of the iterates after each pass.

    The kind of the loss says what is learned: a loss of a margin a linear score, a loss of a
    squared distance (`DistanceLogistic`) a metric W, a window of the difference of two errors
    (`Welsch`) a regression. A metric starts from the Euclidean one, W = b / (2 d) I in standard
    units, and each step projects on the PSD cone; `PrivateFit.direction` holds its rows. Of a
    regression `PrivateFit.threshold` is the intercept, and targets lie between -1 and 1.

    *Sensitivity.* By the touching lemma 2 k C, or k C if one example is added or removed. The
    signal of a batch grows with its number of pairs, in proportion to k as the noise does. So k
    does not change the noise of a mean; more partners use the examples better, and take more time.

    With one batch a pass takes one step on all rows. More batches take more steps for the same
    price, but T steps have T times the noise each. They pay where one pass takes long.

    Parameters
    ----------
    n_passes : int, optional
        Number of passes P: 8, of a metric 4, of a regression 16 by default.
    n_batches : int, default=1
        Number of batches T of a pass.
    n_partners : int, default=32
        The largest number k of others that a row meets in a pass.
    clip : float, optional
        Largest length C of the gradient of a pair: in units of sqrt(d) standard units (.1, of a
        regression .02 by default), of a metric in units of d (.5).
    step : float, optional
        Largest step size: in units of 1/C^2 (8 by default); of a metric the length of the path in
        units of b / (2 C) times the mean gradient (2); of a regression the largest step in
        predicted targets (.06).
    noise_limit : float, optional
        The step size is reduced so that the noise of all steps together has about this length: in
        units of 1/C (.3 by default), of the first eigenvalue of a metric (.5), of the target (.03).
        It does not depend on the data.
    loss : str or PairLoss, default="logistic"
        A name of `pairlearn.losses.LOSSES`, or a loss of any kind.
    radius : float, default=inf
        Scores only: iterates are projected on a ball of this radius in units of 1/C.
    different_weight : float, default=1.0
        Metrics only: the weight of pairs with different labels; 1/(K - 1) balances K classes.

    Examples
    --------
    >>> NoisySGD(n_passes=5, loss="hinge").name
    'noisy_sgd'
    """

    n_passes: int | None = None  # type: ignore[assignment]
    n_batches: int = 1
    n_partners: int = 32
    clip: float | None = None
    step: float | None = None
    noise_limit: float | None = None
    loss: str | PairLoss = "logistic"
    radius: float = math.inf
    different_weight: float = 1.0

    name = "noisy_sgd"
    offers_persons = True

    def __post_init__(self) -> None:
        chosen = LOSSES.make(self.loss) if isinstance(self.loss, str) else self.loss
        if not isinstance(chosen, PairLoss) or chosen.kind not in _DEFAULTS:
            raise ValueError(f"loss must be a pair loss, got {self.loss!r}.")
        if chosen.kind == "margin":
            check_margin_loss(chosen)
        for name in ("clip", "step", "noise_limit"):
            check_constant(name, self._constant(name))
        check_constant("different_weight", self.different_weight)
        check_constant("radius", self.radius, allow_infinite=True)
        self._meetings()

    @property
    def kind(self) -> str:
        """The kind of the loss, which says what is learned."""
        return self._loss().kind

    def _loss(self) -> PairLoss:
        return LOSSES.make(self.loss) if isinstance(self.loss, str) else self.loss

    def _constant(self, name: str) -> float:
        value = getattr(self, name)
        return _DEFAULTS[self.kind][name] if value is None else value

    def _meetings(self) -> Meetings:
        n_passes = _PASSES[self.kind] if self.n_passes is None else self.n_passes
        return Meetings(n_passes, self.n_batches, self.n_partners)

    def fit(
        self, Z: Vector, signs: Vector, *, setting: PublicSetting, noise: NoiseSource,
        persons: Persons = None,
    ) -> PrivateFit:  # fmt: skip
        """Learn privately; see `Mechanism.fit`, and `CentredStatistics.fit` for `persons`."""
        self.check(setting)
        learn = {"margin": self._score, "distance": self._metric, "difference": self._regression}
        return learn[self.kind](Z, signs, setting, noise, persons)

    def _score(
        self, Z: Vector, signs: Vector, setting: PublicSetting, noise: NoiseSource, persons: Persons
    ) -> PrivateFit:
        d, loss, plan = setting.n_features, self._loss(), self._meetings()
        clip = self._constant("clip") * math.sqrt(d)
        loud = plan.loudness(clip, setting) * math.sqrt(d)
        step = min(self._constant("step") / clip**2, self._constant("noise_limit") / (clip * loud))
        domain = ball_or_whole(self.radius / clip)
        rows, labels, drawing = rows_that_meet(Z, signs, setting.n_examples, persons)
        iterates, releases = plan.descend(
            linear_pair_sum(rows, labels, loss=loss, clip=clip),
            lambda w, mean: domain.project(w - step * mean),
            np.zeros(d), clip=clip, setting=setting, noise=noise, persons=drawing,
        )  # fmt: skip
        w = iterates[-1] if loss.never_increases else np.mean(iterates, axis=0)
        return PrivateFit(w, tuple(releases))

    def _metric(
        self, Z: Vector, signs: Vector, setting: PublicSetting, noise: NoiseSource, persons: Persons
    ) -> PrivateFit:
        from pairlearn.kernels.clipped_sums import add_clipped_squares

        d, loss, plan = setting.n_features, self._loss(), self._meetings()
        clip = self._constant("clip") * d
        # A loss without a bias has none of its own that separates near from far.
        bias = loss.parameter if loss.parameter > 0.0 else 1.0
        first = bias / (2.0 * d)
        loud = plan.loudness(clip, setting) * math.sqrt(2.0 * d)
        wanted = self._constant("step") * d * first / (clip * plan.n_passes * plan.n_batches)
        step = min(wanted, self._constant("noise_limit") * first / loud)
        rows, labels, drawing = rows_that_meet(Z, signs, setting.n_examples, persons)

        def pair_sum(places: NDArray[np.int64], cuts: NDArray[np.int64], w: Vector) -> Vector:
            total = np.zeros(d * d)
            add_clipped_squares(
                rows[places].ravel(), labels[places], cuts, w, clip, loss.derivative.address,
                loss.parameter, self.different_weight, np.zeros(d * d), total,
            )  # fmt: skip
            return to_upper(total.reshape(d, d))

        def move(w: Vector, mean: Vector) -> Vector:
            return PsdCone().project(w.reshape(d, d) - step * from_upper(mean)).ravel()

        iterates, releases = plan.descend(
            pair_sum, move, (first * np.eye(d)).ravel(), clip=clip, setting=setting, noise=noise,
            persons=drawing,
        )  # fmt: skip
        return PrivateFit(iterates[-1], tuple(releases), bias)

    def _regression(
        self, Z: Vector, signs: Vector, setting: PublicSetting, noise: NoiseSource, persons: Persons
    ) -> PrivateFit:
        d, plan = setting.n_features, self._meetings()
        clip = self._constant("clip") * math.sqrt(d)
        budget = setting.mu * (1.0 - 1e-12)
        for_steps = replace(setting, budget=budget * math.sqrt(1.0 - _INTERCEPT_SHARE))
        loud = plan.loudness(clip, for_steps) * math.sqrt(d)
        step = min(self._constant("step") / clip, self._constant("noise_limit") / loud)
        rows, targets, drawing = rows_that_meet(Z, signs, setting.n_examples, persons)
        w, releases = np.zeros(d), list[Release]()
        for window, n_passes in self.stages():
            # Each pass has the same part of the budget.
            part = for_steps.mu * math.sqrt(n_passes / plan.n_passes)
            iterates, made = replace(plan, n_passes=n_passes).descend(
                linear_pair_sum(rows, targets, loss=window, clip=clip),
                lambda w, mean: w - step * mean,
                w, clip=clip, setting=replace(setting, budget=part), noise=noise, persons=drawing,
                first=len(releases),
            )  # fmt: skip
            w = iterates[-1]
            releases += made
        left = budget * math.sqrt(_INTERCEPT_SHARE)
        # Each error is computed from its row alone, whatever stands in other rows.
        errors = signs - np.einsum("ij,j->i", Z, w)
        shares = np.ones(len(Z)) if persons is None else 1.0 / np.bincount(persons)[persons]
        b, found = self._intercept(errors, shares, left, setting, noise)
        return PrivateFit(w, (*releases, *found), b)

    def stages(self) -> list[tuple[PairLoss, int]]:
        """Return the window and the number of passes of each stage of a regression that has any."""
        window, n_passes = self._loss(), self._meetings().n_passes
        ends = [n_passes * j // len(_STAGES) for j in range(len(_STAGES) + 1)]
        return [
            (window.with_params(bandwidth=factor * window.parameter), after - before)
            for factor, (before, after) in zip(_STAGES, pairwise(ends), strict=True)
            if after > before
        ]

    def _intercept(
        self, errors: Vector, shares: Vector, mu: float, setting: PublicSetting, noise: NoiseSource
    ) -> tuple[float, list[Release]]:
        """Return the intercept in two rounds and their releases; shares of a person add to 1."""
        known = ~np.isnan(errors)
        b, releases = 0.0, []
        for k, length in enumerate((1.0, min(1.0, _SECOND_CLIP * self._loss().parameter))):
            parts = np.clip((errors[known] - b) / length, -1.0, 1.0)
            # A sum that does not depend on the order of the rows, to the last bit.
            exact = np.array([math.fsum(parts * shares[known]), math.fsum(shares[known])])
            moved = 2.0 if setting.neighbours == "replace" else math.sqrt(2.0)
            noisy, release = release_vector(
                exact, name=f"sum of clipped errors and number of examples, round {k + 1} of 2",
                sensitivity=moved * relative_slack, mu=mu * math.sqrt(0.5), noise=noise,
            )  # fmt: skip
            releases.append(release)
            # The number is public within a unit of noise; less than half of it says nothing.
            count = max(float(noisy[1]), 0.5 * release.noise_scale, 1.0)
            b += length * min(max(float(noisy[0]) / count, -1.0), 1.0)
        return b, releases
