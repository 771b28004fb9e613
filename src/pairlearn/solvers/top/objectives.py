# SPDX-License-Identifier: BSD-3-Clause
r"""Objectives for the top of the list, as smooth functions of the scores with exact gradients.

With a_i and b_j the weights of positives and negatives, each class adding up to 1, and l a loss
that falls with the margin, negative j costs L_j = sum_i a_i l(s_i - s_j), and all pairs cost sum_j
b_j L_j. The negatives with the highest scores have the largest L_j, so objectives for the top of
the list emphasise the largest L_j:

- **push**: (sum_j b_j L_j^p)^(1/p), the p-norm push (Rudin 2009, there for the exponential loss and
  without the root, which makes the ridge mean the same for every p);
- **partial AUC**: the mean of L_j over the worst share alpha = `max_fpr` of the negatives,

      max of (sum_j b_j u_j (L_j - tau u_j / 2)) / alpha
      over 0 <= u_j <= 1 with sum_j b_j u_j = alpha,

  a conditional value at risk, smoothed by tau so that its gradient does not jump when two
  negatives swap places (Zhu et al. 2022 use the same formulation). The maximiser is u_j =
  clip((L_j - c) / tau, 0, 1). With `min_tpr` = beta, only the worst share 1 - beta of the
  positives counts, by weights v alike (the two-way partial AUC); u and v are maximised in turn.

Both are convex in the scores, and L_j, its slope and the gradient at the positives, which is a sum
of l' with weights dF/dL_j, come from sorted sums: O(n log n).

- **average precision**: sum_i a_i T_i / (T_i + F_i), where T_i and F_i are soft counts of the
  weights of positives and negatives at or above s_i (Brown et al. 2020; Qi et al. 2021 descend a
  similar surrogate stochastically). The soft step rises from 0 to 1 over [-1, 1] in two parabolas,

      S(x) = ((x + 1)_+^2 - 2 x_+^2 + (x - 1)_+^2) / 2,

  so its sums are sorted sums as well. It is not convex: by default the search starts from the
  minimiser of the pair loss, and a ridge may pull towards that (`TopObjective`'s `anchor`) instead
  of zero, since a few dozen positives do not determine the solution.

References
----------
C. Rudin, The P-norm Push, JMLR 10, 2009.
D. Zhu, G. Li, B. Wang, X. Wu and T. Yang, When AUC meets DRO: optimizing partial AUC for deep
learning with non-convex convergence guarantee, ICML 2022.
A. Brown, W. Xie, V. Kalogeiton and A. Zisserman, Smooth-AP: smoothing the path towards large-scale
image retrieval, ECCV 2020.
Q. Qi, Y. Luo, Z. Xu, S. Ji and T. Yang, Stochastic optimization of areas under precision-recall
curves with provable convergence, NeurIPS 2021.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from pairlearn.losses import PairLoss
from pairlearn.metrics.risk import blocked_sums
from pairlearn.register import Part, Register
from pairlearn.solvers.exact.batch import PairObjective, ScoreLoss, Span, pair_mean
from pairlearn.solvers.rows import Rows
from pairlearn.typing import Mask, Vector
from pairlearn.validation import AssumptionWarning, check_positive, warn_caller

if TYPE_CHECKING:
    from pairlearn.metrics.metric import Metric

#: The power of a push where nothing is chosen.
_STRONG = 8.0
#: The power that is compared with it where a ridge is chosen.
_MILD = 2.0
#: With fewer positives the average precision of a fold is noise.
_FEW_POSITIVES = 20
#: How soft the edge of the worst negatives is, in units of the loss.
_SOFTNESS = 0.1
#: Initial standard deviation of the scores for soft counts, in units of half a soft step.
SHARPNESS = 4.0
#: The limit on alternations of u and v; each raises the same bounded function.
_ROUNDS = 200
#: Alternation stops when no v_i changes by more than this.
_SETTLED = 1e-13


class Objective(Part, ABC):
    """What a classifier is to be good at: what it minimises, and the metric that it is judged by.

    A subclass is a frozen dataclass that defines `of_scores`. `check_objective` tries it.

    Examples
    --------
    >>> from pairlearn import Push
    >>> Push(4.0).title, Push(4.0).convex
    ('average precision', True)
    """

    #: Whether the objective is the mean over all pairs, which sees no list and no top of it.
    over_pairs: ClassVar[bool] = False
    #: Whether every start leads to the same minimum. If not, the ridge pulls towards the minimiser
    #: for all pairs (the anchor) in place of zero.
    convex: ClassVar[bool] = True
    #: The power of ten of the strongest ridge that is worth trying, for rows of mean variance 1.
    strongest_ridge: ClassVar[int] = 2
    #: The name of the metric, for a person.
    title: ClassVar[str] = "average precision"

    @property
    def metric(self) -> Metric:
        """The metric on held-out examples that chooses ridge and step size."""
        from pairlearn.metrics.top import AveragePrecision

        return AveragePrecision()

    @property
    def candidates(self) -> tuple[Objective, ...]:
        """The objectives to choose from by the metric; a fit without a choice takes the first."""
        return (self,)

    def check_loss(self, loss: PairLoss) -> None:
        """Refuse a loss that the objective cannot use."""
        smooth = loss.falls() and math.isfinite(loss.curvature_bound(1.0))
        if not smooth:
            raise ValueError(
                f"{self!r} needs a smooth loss that never increases with the margin, got {loss!r}; "
                'use loss="squared_hinge", "smoothed_hinge", "logistic" or "exponential".'
            )

    def check_data(self, y: Vector) -> None:
        """Warn where the examples are too few for what is asked."""

    @abstractmethod
    def of_scores(self, loss: PairLoss, positive: Mask, weight: Vector | None) -> ScoreLoss:
        """Return the objective as a function of the scores: value and derivatives."""

    def on(
        self,
        rows: Rows,
        y: Vector,
        loss: PairLoss,
        weight: Vector | None,
        anchor: Vector | None = None,
    ) -> PairObjective:
        """Return the objective on a data set, to be minimised for any ridge."""
        if self.over_pairs:
            return PairObjective(rows, y, loss, weight)
        return TopObjective(rows, y, loss, weight, self, anchor)


OBJECTIVES: Register[Objective] = Register("objective", Objective)


@OBJECTIVES.add("auc")
@dataclass(frozen=True, repr=False)
class AllPairs(Objective):
    """The mean loss over all opposite pairs: every pair counts the same.

    Examples
    --------
    >>> AllPairs().metric
    PartialAUC(max_fpr=1.0, min_tpr=0.0, standardised=True)
    """

    over_pairs = True
    title = "AUC"

    @property
    def metric(self) -> Metric:
        """The AUC."""
        from pairlearn.metrics.partial import PartialAUC

        return PartialAUC()

    def check_loss(self, loss: PairLoss) -> None:
        """Take any loss: the solver decides."""

    def of_scores(self, loss: PairLoss, positive: Mask, weight: Vector | None) -> ScoreLoss:
        """Return the mean loss over pairs."""
        return pair_mean(loss, positive, weight)


@OBJECTIVES.add("push")
@dataclass(frozen=True, repr=False)
class Push(Objective):
    """The p-norm push: a power of the pair loss, summed for each negative.

    Parameters
    ----------
    power : float or "auto", default="auto"
        The larger, the more the highest negatives count; 1 is the mean over pairs. "auto" takes
        the better of 8 and 2 where a ridge is chosen on held-out examples, else 8.

    Examples
    --------
    >>> Push().candidates
    (Push(power=8.0), Push(power=2.0))
    """

    power: float | str = "auto"

    def __post_init__(self) -> None:
        is_number = not isinstance(self.power, str)
        if self.power != "auto" and not (is_number and 1.0 <= float(self.power) <= 64.0):
            raise ValueError(f'power must lie in [1, 64] or be "auto", got {self.power!r}.')

    @property
    def candidates(self) -> tuple[Objective, ...]:
        """The strong and the mild push, unless the power is given."""
        return (Push(_STRONG), Push(_MILD)) if self.power == "auto" else (self,)

    def of_scores(self, loss: PairLoss, positive: Mask, weight: Vector | None) -> ScoreLoss:
        """Return the norm of the losses of the negatives."""
        sums = _Sums(loss, positive, weight)
        p = _STRONG if self.power == "auto" else float(self.power)

        def evaluate(scores: Vector) -> tuple[float, Vector]:
            costs, slopes = sums.of_negatives(scores, sums.a)
            largest = float(costs.max())
            if largest == 0.0:
                return 0.0, np.zeros(len(scores))
            # Divided by the largest, powers neither overflow nor vanish.
            shares = costs / largest
            mean = float(sums.b @ shares**p)
            value = largest * mean ** (1.0 / p)
            steepness = sums.b * shares ** (p - 1.0) * mean ** (1.0 / p - 1.0)
            return value, sums.gradient(scores, sums.a, steepness, slopes)

        return evaluate


@OBJECTIVES.add("partial_auc")
@dataclass(frozen=True, repr=False)
class PartialArea(Objective):
    """The mean loss of pairs among the worst negatives, and the worst positives if asked.

    Parameters
    ----------
    max_fpr : float, default=0.1
        The share of negatives, those of the highest scores, that counts.
    min_tpr : float, default=0.0
        The share of positives that does not count: those with the highest scores.
    softness : float, default=0.1
        The range of losses over which an example passes from counting to not counting.

    Examples
    --------
    >>> PartialArea(0.05).metric
    PartialAUC(max_fpr=0.05, min_tpr=0.0, standardised=True)
    """

    max_fpr: float = 0.1
    min_tpr: float = 0.0
    softness: float = _SOFTNESS

    title = "partial AUC"

    @property
    def metric(self) -> Metric:
        """The partial AUC of the same shares."""
        from pairlearn.metrics.partial import PartialAUC

        return PartialAUC(self.max_fpr, self.min_tpr)

    def __post_init__(self) -> None:
        if not 0.0 < self.max_fpr <= 1.0:
            raise ValueError(f"max_fpr must lie in (0, 1], got {self.max_fpr!r}.")
        if not 0.0 <= self.min_tpr < 1.0:
            raise ValueError(f"min_tpr must lie in [0, 1), got {self.min_tpr!r}.")
        check_positive("softness", self.softness)

    def of_scores(self, loss: PairLoss, positive: Mask, weight: Vector | None) -> ScoreLoss:
        """Return the smoothed mean over the pairs that count."""
        sums = _Sums(loss, positive, weight)
        a, b, tau = sums.a, sums.b, self.softness
        alpha, gamma = self.max_fpr, 1.0 - self.min_tpr

        def evaluate(scores: Vector) -> tuple[float, Vector]:
            v = np.full(len(a), gamma)
            if gamma == 1.0:
                costs, slopes = sums.of_negatives(scores, a)
                u = worst_share(costs, b, alpha, tau)
            else:
                for _ in range(_ROUNDS):
                    costs, slopes = sums.of_negatives(scores, a * v)
                    u = worst_share(costs, b, alpha, tau * gamma)
                    new = worst_share(sums.of_positives(scores, b * u)[0], a, gamma, tau * alpha)
                    settled = float(np.abs(new - v).max()) <= _SETTLED
                    v = new
                    if settled:
                        break
                costs, slopes = sums.of_negatives(scores, a * v)
            value = float((b * u) @ costs)
            value -= 0.5 * tau * gamma * float(b @ u**2)
            if gamma < 1.0:
                value -= 0.5 * tau * alpha * float(a @ v**2)
            scale = 1.0 / (alpha * gamma)
            return scale * value, scale * sums.gradient(scores, a * v, b * u, slopes)

        return evaluate


@OBJECTIVES.add("average_precision")
@dataclass(frozen=True, repr=False)
class SmoothPrecision(Objective):
    """One minus the average precision, with soft counts.

    A positive counts at its own place with its whole weight, and one that ties with it with half of
    its weight. So a weight of k is not quite k copies, of which each ties with the others. Counts
    without such a jump at a tie would not come to the average precision where scores lie far apart.

    Examples
    --------
    >>> SmoothPrecision().convex
    False
    """

    convex = False
    # Stronger ridges shrink the scores below the soft step, so they all give one direction.
    strongest_ridge = 0

    def check_data(self, y: Vector) -> None:
        """Warn where there are few positives: their average precision is noise."""
        n_positive = int(np.count_nonzero(y > 0))
        if n_positive < _FEW_POSITIVES:
            warn_caller(
                f'objective="average_precision" has {n_positive} positives to go by; below '
                f'{_FEW_POSITIVES} it is often worse than objective="auc".',
                AssumptionWarning,
            )

    def of_scores(self, loss: PairLoss, positive: Mask, weight: Vector | None) -> ScoreLoss:
        """Return one minus the soft average precision; the loss is for the start only."""
        w = np.ones(len(positive)) if weight is None else weight
        own, other = w[positive], w[~positive]
        share = own / own.sum()
        positives, negatives = np.flatnonzero(positive), np.flatnonzero(~positive)

        def evaluate(scores: Vector) -> tuple[float, Vector]:
            p, q = scores[positive], scores[~positive]
            up, down = np.argsort(p), np.argsort(q)
            p, q, v, b, a = p[up], q[down], own[up], other[down], share[up]
            among = _SoftCounts(p, p)
            # An example counts at its own place with its full weight, not half of it.
            true, true_slopes = among(v)
            false, false_slopes = _SoftCounts(p, q)(b)
            true = true + 0.5 * v
            accepted = true + false
            value = float(a @ (true / accepted))
            by_true, by_false = a * false / accepted**2, a * true / accepted**2
            gradient = np.empty(len(scores))
            # S' is even: a pair changes the counts of both sides equally.
            gradient[negatives[down]] = b * _SoftCounts(q, p).slopes(by_false)
            gradient[positives[up]] = (
                by_true * true_slopes - by_false * false_slopes - v * among.slopes(by_true)
            )
            return 1.0 - value, gradient

        return evaluate


class TopObjective(PairObjective):
    """An objective for the top of the list on one data set, minimised for any ridge.

    Parameters
    ----------
    rows : DenseRows or CsrRows
        Examples.
    y : ndarray of shape (n,)
        Labels -1 and +1, both present.
    loss : PairLoss
        A loss that falls with the margin.
    weight : ndarray of shape (n,), optional
        Weights of the examples.
    objective : Objective
        What is minimised.
    anchor : ndarray of shape (d,), optional
        Where the ridge pulls to instead of zero, and where the search starts: the minimiser over
        all pairs, which is rescaled so that soft counts resolve single positions.

    Examples
    --------
    >>> from pairlearn.losses import SquaredHinge
    >>> from pairlearn.solvers.rows import DenseRows
    >>> rows = DenseRows(np.array([[0.0], [0.5], [1.0]]))
    >>> y = np.array([-1.0, -1.0, 1.0])
    >>> w, _ = TopObjective(rows, y, SquaredHinge(), None, PartialArea(0.5)).minimise(0.1)
    >>> bool(w[0] > PairObjective(rows, y, SquaredHinge()).minimise(0.1)[0][0])
    True
    """

    def __init__(
        self,
        rows: Rows,
        y: Vector,
        loss: PairLoss,
        weight: Vector | None,
        objective: Objective,
        anchor: Vector | None = None,
    ) -> None:
        objective.check_loss(loss)
        super().__init__(rows, y, loss, weight)
        self._objective = objective
        self._pairs = PairObjective(rows, y, loss, weight)
        self.anchor = None if anchor is None else self._sharpened(anchor)

    def _within(self, span: Span) -> TopObjective:
        inner = TopObjective(span.rows, self._y, self._loss, self._weight, self._objective)
        inner.anchor = None if self.anchor is None else span.inside(self.anchor)
        return inner

    _by_newton = False

    @cached_property
    def _mean(self) -> ScoreLoss:
        return self._objective.of_scores(self._loss, self._y > 0, self._weight)

    def minimise(
        self, ridge: float, w_start: Vector | None = None, **settings: Any
    ) -> tuple[Vector, int]:
        """Return the minimiser, and the number of evaluations of objective and pair loss.

        By default the search starts from the anchor, or else from the minimiser of the pair loss.
        """
        n_before = 0
        if w_start is None:
            w_start = self.anchor
        if w_start is None:
            w_start, n_before = self._pairs.minimise(ridge, **settings)
            if not self._objective.convex:
                w_start = self._sharpened(w_start)
        w, n_evaluations = super().minimise(ridge, w_start, **settings)
        return w, n_before + n_evaluations

    def _risk(self, w: Vector, ridge: float) -> tuple[float, Vector]:
        value, slope = super()._risk(w, ridge)
        if self.anchor is None:
            return value, slope
        # ||w - anchor||^2 without ||w||^2, which the caller adds.
        value += ridge * float((self.anchor - 2.0 * w) @ self.anchor)
        return value, slope - (2.0 * ridge) * self.anchor

    def _sharpened(self, w: Vector) -> Vector:
        """Rescale w so that soft counts resolve single positions."""
        spread = float(np.asarray(self._matrix @ w).std())
        return w * (SHARPNESS / spread if spread > 0.0 else 1.0)


def worst_share(costs: Vector, weights: Vector, share: float, softness: float) -> Vector:
    """Return u = clip((cost - c) / softness, 0, 1), with c such that sum b u = share."""
    if share >= 1.0:
        return np.ones(len(costs))
    order = np.argsort(costs, kind="stable")
    x, b = costs[order], weights[order]
    # sum b (x - c)_+ for any c, from sums of the sorted costs about their middle.
    middle = float(x[len(x) // 2])
    mass = np.concatenate((np.cumsum(b[::-1])[::-1], [0.0]))
    moment = np.concatenate((np.cumsum((b * (x - middle))[::-1])[::-1], [0.0]))

    def above(c: Vector) -> Vector:
        k = np.searchsorted(x, c)
        return moment[k] - (c - middle) * mass[k]

    knots = np.sort(np.concatenate((x - softness, x)))
    counted = (above(knots) - above(knots + softness)) / softness
    k = min(max(int(np.searchsorted(-counted, -share * mass[0])), 1), len(knots) - 1)
    high, low = float(counted[k - 1]), float(counted[k])
    part = 0.0 if high <= low else (high - share * float(mass[0])) / (high - low)
    c = knots[k - 1] + min(max(part, 0.0), 1.0) * (knots[k] - knots[k - 1])
    found = np.clip((costs - c) / softness, 0.0, 1.0)
    # Beside huge costs the softness is lost in rounding, and c may be the largest of them.
    return np.asarray(found if (weights * found).any() else costs == x[-1], dtype=np.float64)


class _Sums:
    """Sums of a loss over one class for each example of the other class, for given weights."""

    def __init__(self, loss: PairLoss, positive: Mask, weight: Vector | None) -> None:
        self._sums = loss.sums if loss.by_sorting else partial(_visit_pairs, loss)
        self._positive = positive
        w = np.ones(len(positive)) if weight is None else weight
        self.a, self.b = (w[members] / w[members].sum() for members in (positive, ~positive))

    def of_negatives(self, scores: Vector, a: Vector) -> tuple[Vector, Vector]:
        """Return sum_i a_i l(s_i - s_j) and sum_i a_i l'(s_i - s_j) for each negative j."""
        # l(p - q) = l((-q) - (-p)): with negated scores, the classes swap roles.
        kept = a > 0.0
        return self._sums(-scores[~self._positive], -scores[self._positive][kept], a[kept])

    def of_positives(self, scores: Vector, b: Vector) -> tuple[Vector, Vector]:
        """Return sum_j b_j l(s_i - s_j) and sum_j b_j l'(s_i - s_j) for each positive i."""
        kept = b > 0.0
        return self._sums(scores[self._positive], scores[~self._positive][kept], b[kept])

    def gradient(self, scores: Vector, a: Vector, b: Vector, slopes: Vector) -> Vector:
        """Return the derivatives of sum_ij a_i b_j l(s_i - s_j) for constant a and b."""
        gradient = np.empty(len(scores))
        gradient[~self._positive] = -b * slopes
        gradient[self._positive] = a * self.of_positives(scores, b)[1]
        return gradient


def _visit_pairs(loss: PairLoss, p: Vector, q: Vector, b: Vector) -> tuple[Vector, Vector]:
    """Return sum_j b_j l(p_i - q_j) and sum_j b_j l'(p_i - q_j) for each i, pair by pair."""
    return blocked_sums(loss.values, p, q, b), blocked_sums(loss.slopes, p, q, b)


class _SoftCounts:
    """Soft counts of weighted points at each place, both sorted.

    The step S(q - p) is a parabola on either side of p, over a length of 1 each; its slope is
    linear. Sums over this window are differences of cumulated sums. Numbers are measured from the
    left end of their cell [k, k + 1), and a window meets three cells. So rounding errors are
    relative to the window, however large the scores are.
    """

    def __init__(self, places: Vector, points: Vector) -> None:
        cell = np.floor(places)
        of_points = np.floor(points)
        self._u, self._local = places - cell, points - of_points
        ends = np.array(
            [
                np.searchsorted(points, places - 1.0),
                np.searchsorted(of_points, cell),
                np.searchsorted(points, places),
                np.searchsorted(of_points, cell, side="right"),
                np.searchsorted(points, places + 1.0),
            ]
        )
        # If scores are so large that rounding swallows a step of 1, ends must not cross.
        self._ends = np.maximum.accumulate(ends, axis=0)

    def __call__(self, weights: Vector) -> tuple[Vector, Vector]:
        """Return sum_j b_j S(q_j - p_i) and sum_j b_j S'(q_j - p_i) for each place p_i."""
        mass, first, second = (self._sums(weights * self._local**k) for k in range(3))
        counts, slopes = float(weights.sum()) - mass[-1], np.zeros(len(self._u))
        for part, v, rises in self._parts():
            m, line = mass[part + 1] - mass[part], first[part + 1] - first[part]
            bowl = 0.5 * (second[part + 1] - second[part] - v * (2.0 * line - v * m))
            line = line - v * m
            counts += bowl if rises else m - bowl
            slopes += line if rises else -line
        return np.maximum(counts, 0.0), np.maximum(slopes, 0.0)

    def slopes(self, weights: Vector) -> Vector:
        """Return sum_j b_j S'(q_j - p_i) for each place p_i."""
        mass, first = self._sums(weights), self._sums(weights * self._local)
        slopes = np.zeros(len(self._u))
        for part, v, rises in self._parts():
            line = first[part + 1] - first[part] - v * (mass[part + 1] - mass[part])
            slopes += line if rises else -line
        return np.maximum(slopes, 0.0)

    def _sums(self, terms: Vector) -> Vector:
        """Return, for each end, the sum of the terms of all points before it."""
        sums = np.zeros(len(terms) + 1)
        np.cumsum(terms, out=sums[1:])
        return sums[self._ends]

    def _parts(self) -> tuple[tuple[int, Vector, bool], ...]:
        """Return the four parts of a window, from the left: S' is local - v, or v - local."""
        u = self._u
        return (0, u, True), (1, u - 1.0, True), (2, u + 1.0, False), (3, u, False)
