# SPDX-License-Identifier: BSD-3-Clause
r"""Areas under parts of the ROC curve, exact with ties, in O(n log n).

Let R(t) be the true positive rate at the false positive rate t. The area for rates up to
alpha = `max_fpr` and above beta = `min_tpr` is the integral of (R(t) - beta)_+ over [0, alpha].

Its derivatives with respect to the weights come from the curve in parametric form (F(u), T(u)):
shifting it by (dF, dT) changes R by dT - R' dF at a fixed t, hence the area by the integrals of
dT dF and -dF dT over the part that counts. The part's ends add nothing: one stays at alpha, at the
other the integrand is 0. If an example of share a(u) among the accepted gains weight, then
dT = (a - T) / W+, or dF = (a - F) / W-. For alpha = 1 and beta = 0 these are DeLong's placements.

A part of the curve is not estimated without bias: the j-th largest of n- negatives stands at the
rate j / (n- + 1) on average, while its step ends at j / n-. To second order the area is too high by
alpha (1 - alpha) R'(alpha) / (2 n-). The lower limit of the interval is that of the area less this
bias, with the slope R' of the curve between alpha / 2 and 3 alpha / 2.

References
----------
D. McClish, Analyzing a portion of the ROC curve, Medical Decision Making 9, 1989.
H. Yang, K. Lu, X. Lyu and F. Hu, Two-way partial AUC and its properties, Statistical Methods in
Medical Research 28, 2019.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from pairlearn.metrics._inputs import ROUNDING, corners
from pairlearn.metrics.metric import Measured, TwoClassMetric
from pairlearn.typing import Mask, Vector
from pairlearn.validation import check_flag, check_number


@dataclass(frozen=True)
class PartialAUC(TwoClassMetric):
    """The area under a part of the ROC curve.

    Parameters
    ----------
    max_fpr : float, default=1.0
        The largest false positive rate that counts; 1 for the whole AUC.
    min_tpr : float, default=0.0
        The smallest true positive rate that counts (the two-way partial AUC).
    standardised : bool, default=True
        Whether to map chance to 1/2 and perfection to 1, by McClish's formula
        (1 + (area - chance) / (best - chance)) / 2, with best = max_fpr (1 - min_tpr) and
        chance = (max_fpr - min_tpr)_+^2 / 2. It equals scikit-learn's
        ``roc_auc_score(max_fpr=...)``.

    Notes
    -----
    The interval is that of the AUC (`pairlearn.metrics.limits`), for a class of max_fpr n-
    negatives; its lower limit allows for the bias of a part, and for a count of few positives
    (`count_limit`). In a small part a positive is above nearly all of the negatives there or below
    nearly all of them, so it counts nearly all or nothing, with the share 1 - max_fpr.

    With n- negatives, the best of them stands beyond the part, at a rate above max_fpr, with
    probability (1 - max_fpr)^n-: .35 for ten negatives and max_fpr = .1. The value is then made by
    the curve beyond the part alone, which may rise there as steeply as it likes. So below
    `fewest_negatives`, where this probability is above .025, no lower limit that tells anything
    holds for every curve, and `interval` and `compare` give an `AssumptionWarning`. Here it holds
    for curves that bend downwards. If positives spread half as widely as negatives the curve bends
    upwards first, and with ten negatives the interval holds the truth in .86 of all samples for a
    nominal .95; with 30 negatives it is .95.

    Examples
    --------
    >>> y, scores = [0, 0, 0, 0, 1, 1, 1], [1, 2, 3, 6, 4, 5, 7]
    >>> PartialAUC(max_fpr=0.25, standardised=False)(y, scores)
    0.08333333333333333
    >>> round(PartialAUC()(y, scores), 4)
    0.8333
    """

    max_fpr: float = 1.0
    min_tpr: float = 0.0
    standardised: bool = True

    def __post_init__(self) -> None:
        check_flag("standardised", self.standardised)
        for name in ("max_fpr", "min_tpr"):
            # Python's number: one of NumPy's would give its few digits to the area
            object.__setattr__(self, name, check_number(name, getattr(self, name)))
        if not 0.0 < self.max_fpr <= 1.0:
            raise ValueError(
                f"max_fpr must lie in (0, 1], got {self.max_fpr!r}; 1 is the whole AUC."
            )
        if not 0.0 <= self.min_tpr < 1.0:
            raise ValueError(
                f"min_tpr must lie in [0, 1), got {self.min_tpr!r}; 0 is the one-way partial AUC."
            )

    @property
    def fewest_negatives(self) -> int:
        """The fewest negatives of which one stands in the part with probability .975 or more.

        >>> PartialAUC(0.1).fewest_negatives, PartialAUC().fewest_negatives
        (36, 1)
        """
        if self.max_fpr == 1.0:
            return 1
        return math.ceil(math.log(0.025) / math.log1p(-self.max_fpr))

    def measure_classes(self, positive: Mask, scores: Vector, weight: Vector) -> Measured:
        """Return the area and its influences."""
        found = corners(positive, scores, weight)
        fpr, tpr = found.fpr, found.tpr
        rise, run = np.diff(tpr), np.diff(fpr)
        begin, end = self._part(fpr, tpr)
        length, square = end - begin, 0.5 * (end**2 - begin**2)
        under = float(run @ (tpr[:-1] * length + rise * square))
        beside = float(rise @ (fpr[:-1] * length + run * square))
        area = under - self.min_tpr * float(run @ length)
        # integrals of a(u): half a square within its own step, all of the later ones
        own = [side * square + _later(side * length) for side in (run, rise)]
        influence = np.where(
            positive,
            (own[0][found.step] - under) / found.accepted_positive[-1],
            (beside - own[1][found.step]) / found.accepted_negative[-1],
        )
        n_positive = int(np.count_nonzero(positive))
        n_negative = len(positive) - n_positive
        n_terms = min(n_positive, math.ceil(self.max_fpr * n_negative))
        best = self.max_fpr * (1.0 - self.min_tpr)
        scale, floor = 1.0, 0.0
        if self.standardised:
            chance = 0.5 * max(self.max_fpr - self.min_tpr, 0.0) ** 2
            scale = 0.5 / (best - chance)
            floor = 0.5 - scale * chance
        area = min(max(area, 0.0), best)
        bias = self._bias(fpr, tpr) * float(weight[~positive] @ weight[~positive])
        bias /= float(found.accepted_negative[-1]) ** 2
        return Measured(
            value=floor + scale * area,
            influence=scale * weight * influence,
            n_terms=n_terms,
            floor=floor,
            ceiling=floor + scale * best,
            # the mean of max(R, min_tpr) up to max_fpr lies between 0 and 1
            reach=(1.0 / self.max_fpr, 1.0),
            all_or_nothing=(0.0, 1.0 - self.max_fpr),
            base=floor - scale * self.max_fpr * self.min_tpr,
            cautious=floor + scale * max(area - bias, 0.0) if bias > 0.0 else None,
            few=self.max_fpr < 1.0,
            caution=self._caution(n_negative),
        )

    def _caution(self, n_negative: int) -> str | None:
        if n_negative >= self.fewest_negatives:
            return None
        return (
            f"the part of the curve up to max_fpr={self.max_fpr:g} holds about "
            f"{self.max_fpr * n_negative:.2g} of {n_negative} negatives; below "
            f"{self.fewest_negatives} negatives its interval holds only if the curve bends "
            "downwards. Measure more negatives, or a larger part."
        )

    def _bias(self, fpr: Vector, tpr: Vector) -> float:
        """Return how much too high the area is, times the number of negatives."""
        near = 0.5 * min(self.max_fpr, 1.0 - self.max_fpr)
        ends = self.max_fpr + np.array([-near, 0.0, near])
        # where the curve is vertical its top counts, up to rounding
        low, middle, high = np.interp(ends * (1.0 + ROUNDING), fpr, tpr).tolist()
        if near == 0.0 or middle <= self.min_tpr:
            return 0.0
        return float(0.25 * self.max_fpr * (1.0 - self.max_fpr) * (high - low) / near)

    def _part(self, fpr: Vector, tpr: Vector) -> tuple[Vector, Vector]:
        """Return where the part begins and ends within each step, from 0 to 1."""
        n_steps = len(fpr) - 1
        steps = np.arange(n_steps)
        # a corner is met up to rounding: on its other side the influences differ
        last = int(np.searchsorted(fpr, self.max_fpr * (1.0 + ROUNDING), side="right")) - 1
        first = int(np.searchsorted(tpr, self.min_tpr * (1.0 + ROUNDING), side="right")) - 1
        end, begin = (steps < last).astype(np.float64), (steps < first).astype(np.float64)
        if last < n_steps:
            end[last] = max(self.max_fpr - fpr[last], 0.0) / (fpr[last + 1] - fpr[last])
        if first < n_steps:
            begin[first] = max(self.min_tpr - tpr[first], 0.0) / (tpr[first + 1] - tpr[first])
        return np.minimum(begin, end), end


def _later(values: Vector) -> Vector:
    """Return the sum of all later entries, for each entry."""
    return np.append(np.cumsum(values[::-1])[::-1][1:], 0.0)
