# SPDX-License-Identifier: BSD-3-Clause
r"""Private SGD over pairs by noise on gradients, for any pair loss.

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
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from pairlearn.domains import PsdCone, ball_or_whole
from pairlearn.losses import LOSSES, METRIC_LOSSES, PairLoss
from pairlearn.privacy.accounting.certificate import Release
from pairlearn.privacy.mechanisms.base import (
    Mechanism,
    PrivateFit,
    PublicSetting,
    check_constant,
    relative_slack,
)
from pairlearn.privacy.mechanisms.metric_gradient import from_upper, to_upper
from pairlearn.privacy.noise import NoiseSource
from pairlearn.privacy.persons import OneRowEach, rows_that_meet
from pairlearn.privacy.release import release_vector
from pairlearn.typing import Vector
from pairlearn.validation import check_count

#: Sums the clipped pair gradients of a batch: (rows of the table, borders of the cells, w).
PairSum = Callable[[NDArray[np.int64], NDArray[np.int64], Vector], Vector]


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
        self,
        pair_sum: PairSum,
        move: Callable[[Vector, Vector], Vector],
        start: Vector,
        *,
        clip: float,
        setting: PublicSetting,
        noise: NoiseSource,
        persons: OneRowEach | None = None,
    ) -> tuple[list[Vector], list[Release]]:
        """Take all steps; return the iterate after each pass, and one release for each pass.

        Parameters
        ----------
        pair_sum : callable
            Returns the sum of the clipped pair gradients of a batch, as a vector. It gets the
            index of the row in each place (those beyond the table are rows that are not there),
            the borders of the cells, and the iterate.
        move : callable
            Returns the next iterate, given the present one and the noisy mean over pairs.
        start : ndarray
            The first iterate.
        clip : float
            The largest length C of a pair's gradient.
        setting : PublicSetting
            The public facts.
        noise : NoiseSource
            The source of the noise and of the secret order.
        persons : OneRowEach, optional
            The persons that meet in the place of rows.
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
                    pair_sum(rows, cuts - cuts[0], w),
                    name="pair gradients",
                    sensitivity=sensitivity,
                    mu=mu,
                    noise=noise,
                )
                dimension += release.dimension
                w = move(w, noisy / count)
            iterates.append(w)
            name = f"sums of clipped pair gradients, pass {k + 1}"
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

    def check(self, setting: PublicSetting, noise: NoiseSource) -> None:
        """Refuse a setting that the proof does not cover; see `Mechanism.check`."""
        super().check(setting, noise)
        self._meetings().check(setting.n_examples)


@dataclass(frozen=True)
class NoisySGD(ByMeetings):
    r"""Passes of SGD over clipped pairs with noise on each gradient, for any pair loss.

    Each pass deals the rows to cells in a secret order, and all rows of a cell meet; see the
    module. The iterate moves by a step size times the noisy mean of the clipped gradients. The last
    iterate is the result, in which each pass has the same share. A loss that may increase with the
    margin, such as the square, can throw the iterate to and fro; then it is the mean of the
    iterates after each pass.

    *Sensitivity.* By the touching lemma 2 k C, or k C if one example is added or removed; see the
    module. The signal of a batch grows with its number of pairs, in proportion to k as the noise
    does. So k does not change the noise of a mean; more partners use the examples better, and take
    more time.

    With one batch a pass takes one step on all rows. More batches take more steps for the same
    price, but T steps have T times the noise each. They pay where one pass takes long.

    Parameters
    ----------
    n_passes : int, default=8
        Number of passes P.
    n_batches : int, default=1
        Number of batches T of a pass.
    n_partners : int, default=32
        The largest number k of others that a row meets in a pass.
    clip : float, default=0.1
        Largest length C of the gradient of a pair, in units of sqrt(d) standard units. The gradient
        is the slope of the loss times the difference of the two rows.
    step : float, default=8.0
        Largest step size, in units of 1/C^2.
    noise_limit : float, default=0.3
        The step size is reduced so that the noise of all steps together has about this length, in
        units of 1/C. It does not depend on the data.
    loss : str or PairLoss, default="logistic"
        A name of `pairlearn.losses.LOSSES`, or a loss of one's own that acts on opposite labels.
    radius : float, default=inf
        Iterates are projected on a ball of this radius in units of 1/C; free of charge.

    Examples
    --------
    >>> NoisySGD(n_passes=5, loss="hinge").name
    'noisy_sgd'
    """

    n_passes: int = 8
    n_batches: int = 1
    n_partners: int = 32
    clip: float = 0.1
    step: float = 8.0
    noise_limit: float = 0.3
    loss: str | PairLoss = "logistic"
    radius: float = math.inf

    name = "noisy_sgd"
    offers_persons = True

    def __post_init__(self) -> None:
        self._meetings()
        check_constant("clip", self.clip)
        check_constant("step", self.step)
        check_constant("noise_limit", self.noise_limit)
        check_constant("radius", self.radius, allow_infinite=True)
        check_margin_loss(self.loss)

    def fit(
        self,
        Z: Vector,
        signs: Vector,
        *,
        setting: PublicSetting,
        noise: NoiseSource,
        persons: NDArray[np.int64] | None = None,
    ) -> PrivateFit:
        """Learn privately; see `Mechanism.fit`, and `CentredStatistics.fit` for `persons`."""
        self.check(setting, noise)
        clip = self.clip * math.sqrt(setting.n_features)
        plan, domain = self._meetings(), ball_or_whole(self.radius / clip)
        loud = plan.loudness(clip, setting) * math.sqrt(setting.n_features)
        step_size = min(self.step / clip**2, self.noise_limit / (clip * loud))
        loss = LOSSES.make(self.loss)
        rows, labels, drawing = rows_that_meet(Z, signs, setting.n_examples, persons)
        iterates, releases = plan.descend(
            linear_pair_sum(rows, labels, loss=loss, clip=clip),
            lambda w, mean: domain.project(w - step_size * mean),
            np.zeros(setting.n_features),
            clip=clip,
            setting=setting,
            noise=noise,
            persons=drawing,
        )
        w = iterates[-1] if loss.never_increases else np.mean(iterates, axis=0)
        return PrivateFit.of_several(w, releases, noise)


@dataclass(frozen=True)
class NoisyMetricSGD(ByMeetings):
    r"""Passes of SGD over clipped pairs with noise on each gradient, for a metric.

    The score of a pair is the squared distance h = v' W v, v = x - x', and its gradient
    a l'(h) v v', with a = 1 for equal labels. It is clipped to the Frobenius norm C; otherwise all
    is as in `NoisySGD`. Descent starts from the Euclidean metric W = (b / r^2) I in standard units,
    where r^2 = 2 d is the usual squared distance of two rows, and each step projects on the PSD
    cone. Time grows with the number of rows, not with its square as for `MetricGradient`.

    *Step size.* It does not depend on the data, and is reduced so that the noise of all steps stays
    below `noise_limit` times the first eigenvalue of W, as in lemma 11.

    Parameters
    ----------
    n_passes, n_batches, n_partners : int, defaults 4, 1 and 32
        As for `NoisySGD`.
    clip : float, default=0.5
        Largest Frobenius norm C of the gradient of a pair, in units of d.
    loss : str or PairLoss, default="logistic"
        A name of `pairlearn.losses.METRIC_LOSSES`, or a loss of a squared distance.
    different_weight : float, default=1.0
        The weight a of pairs with different labels; 1/(K - 1) balances K classes.
    step : float, default=2.0
        Length of the path, in units of d b / (r^2 C) times the mean gradient.
    noise_limit : float, default=0.5
        Bound on the noise relative to the start.

    Examples
    --------
    >>> NoisyMetricSGD(loss="hinge").name
    'noisy_metric_sgd'
    """

    n_passes: int = 4
    n_batches: int = 1
    n_partners: int = 32
    clip: float = 0.5
    loss: str | PairLoss = "logistic"
    different_weight: float = 1.0
    step: float = 2.0
    noise_limit: float = 0.5

    name = "noisy_metric_sgd"
    learns = "metric"
    label_is_worst = True
    offers_persons = True

    def __post_init__(self) -> None:
        self._meetings()
        for name in ("clip", "different_weight", "step", "noise_limit"):
            check_constant(name, getattr(self, name))
        chosen = METRIC_LOSSES.make(self.loss)
        if chosen.kind != "distance":
            raise ValueError(
                f"loss must be a loss of a squared distance, got {chosen!r}; use one such as "
                "DistanceLogistic()."
            )

    def fit(
        self,
        Z: Vector,
        signs: Vector,
        *,
        setting: PublicSetting,
        noise: NoiseSource,
        persons: NDArray[np.int64] | None = None,
    ) -> PrivateFit:
        """Learn privately; see `MetricGradient.fit` for `signs`, `persons` and the result."""
        from pairlearn.kernels.clipped_sums import add_clipped_squares

        self.check(setting, noise)
        d, loss = setting.n_features, METRIC_LOSSES.make(self.loss)
        clip = self.clip * d
        rows, labels, drawing = rows_that_meet(Z, signs, setting.n_examples, persons)
        # A loss without a bias has none of its own that separates near from far.
        bias = loss.parameter if loss.parameter > 0.0 else 1.0
        start = bias / (2.0 * d) * np.eye(d)

        def pair_sum(places: NDArray[np.int64], cuts: NDArray[np.int64], w: Vector) -> Vector:
            total = np.zeros(d * d)
            add_clipped_squares(
                rows[places].ravel(), labels[places], cuts, w, clip, loss.derivative.address,
                loss.parameter, self.different_weight, np.zeros(d * d), total,
            )  # fmt: skip
            return to_upper(total.reshape(d, d))

        def move(w: Vector, mean: Vector) -> Vector:
            W = w.reshape(d, d) - step_size * from_upper(mean)
            return PsdCone().project(W).ravel()

        plan = self._meetings()
        step_size = self._step_size(plan, clip, float(start[0, 0]), setting)
        iterates, releases = plan.descend(
            pair_sum, move, start.ravel(), clip=clip, setting=setting, noise=noise, persons=drawing
        )
        return PrivateFit.of_several(iterates[-1], releases, noise, bias)

    def _step_size(
        self, plan: Meetings, clip: float, first: float, setting: PublicSetting
    ) -> float:
        """Return the step size for a start with the eigenvalue `first`."""
        d = setting.n_features
        loud = plan.loudness(clip, setting) * math.sqrt(2.0 * d)
        wanted = self.step * d * first / (clip * plan.n_passes * plan.n_batches)
        return min(wanted, self.noise_limit * first / loud)
