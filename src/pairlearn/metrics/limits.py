# SPDX-License-Identifier: BSD-3-Clause
r"""Limits of a value from few examples that matter: the method behind all intervals of areas.

The usual interval, value +- 1.96 standard errors, also on the logit scale, fails where a score is
good. At an AUC of .99 most positives lose to no negative, and a few lose to many: often the sample
holds too few of them, the value is then too high *and* the standard error too small. Three things
repair it.

**The variance depends on the truth** (a score interval). The limits are the ends of

.. math:: \{t : (\hat a - t)^2 \le z^2 V(t)\},

with :math:`V(t)` the variance of the estimate if t were the truth. Its shape is that of Newcombe's
method 5: a class of size p that meets another of size q adds

.. math::

    N(t) = \frac1p \left[c(t) \left(1 - \frac1q\right) + \frac{t (1 - t)}{2 q}\right], \quad
    c(t) = \frac{t (1 - t)}2 \left[\frac{1 - t}{2 - t} + \frac{t}{1 + t}\right],

which is Hanley and McNeil's variance for exponential scores, made symmetric in the two classes.
Where an example counts all or nothing, as a positive does in a small part of a curve, its variance
is that of a share. So c is :math:`(1 - b) \, c(t) + b \, t (1 - t)` for a class whose examples
count all or nothing with the share b; b = 0 for the AUC.

**The number of examples that matter.** Let :math:`x_i` be the influences of one class (for the AUC
DeLong's placements). The *effective number*

.. math::

    e = \min\left\{\frac{(\sum_i y_i)^2}{\sum_i y_i^2} : y_i = \max x - x_i \text{ or }
        y_i = x_i - \min x\right\}

is the participation ratio of the losses, or of the gains: five positives that lose alike among
1,000 that lose nothing give e = 5. With weights :math:`y_i` is multiplied by the weight, with
groups it is summed in each group, and if nothing varies e = 0.

**A variance of few examples is corrected.** The estimated part A of a class is averaged with
Newcombe's, as if k more examples had shown that one,

.. math:: A' = \frac{e A + k N(\hat a)}{e + k}, \qquad
          V(t) = \sum_{classes} N(t) \, A' / N(\hat a),

and z is Student's quantile with Satterthwaite's degrees of freedom
:math:`(\sum A')^2 / \sum ((1 - b)^2 A'^2 / (e + 3))`: the variance of a share is known. The limit
on the side of 1/2 takes k = 3 and Student's quantile: it is the one that few losses leave too
close. The other limit takes k = 1 and the normal quantile, and goes over to the first kind by the
weight :math:`w = (4 \hat a (1 - \hat a))^4`, so that no limit jumps where the value passes 1/2.

A perfect score, constant scores and a single example of a class need no case of their own: there
e = 0, and the variance is Newcombe's. The numbers 3, 1 and 4 were chosen on simulated normal
scores; ``python -m benchmarks.coverage`` prints how often the intervals hold the truth.

References
----------
R. Newcombe, Confidence intervals for an effect size measure based on the Mann-Whitney statistic,
part 2, Statistics in Medicine 25, 2006.
J. Hanley and B. McNeil, The meaning and use of the area under a receiver operating characteristic
curve, Radiology 143, 1982.
F. Satterthwaite, An approximate distribution of estimates of variance components, Biometrics
Bulletin 2, 1946.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from pairlearn.typing import Vector

#: Pseudo-examples of the limit on the side of 1/2, and of the other one.
_INNER, _OUTER = 3.0, 1.0
#: How fast the other limit becomes of the first kind, towards 1/2.
_BLEND = 4
#: A class whose influences differ by less than this part of the range does not vary.
_NOISE = 1e-12


@dataclass(frozen=True)
class Part:
    """What one class adds to the variance of a value.

    `effective` is the number of examples (or groups) that matter, 0 if nothing varies; `size` the
    number of independent examples of the class.
    """

    variance: float
    effective: float
    size: float


@dataclass(frozen=True)
class Spread:
    """The standard error of a value, and the parts of its variance.

    `common` is the whole variance divided by the sum of the parts, 1 unless groups hold examples of
    several classes.
    """

    error: float
    parts: tuple[Part, ...]
    common: float = 1.0

    def scaled(self, factor: float) -> Spread:
        """Return the spread of the value times a factor."""
        parts = (replace(part, variance=part.variance * factor**2) for part in self.parts)
        return Spread(self.error * factor, tuple(parts), self.common)

    @property
    def degrees(self) -> float:
        """Satterthwaite's degrees of freedom of the variance; infinite if there is none."""
        parts = [part for part in self.parts if part.variance > 0.0]
        if not parts:
            return math.inf
        total = sum(part.variance for part in parts)
        return total**2 / sum(part.variance**2 / max(part.effective, 1.0) for part in parts)


def spread_of(
    members: NDArray[np.intp],
    influence: Vector,
    weight: Vector,
    groups: NDArray[np.int64] | None,
    width: float,
) -> Spread | None:
    r"""Return the spread of a value, from the influences of its examples; None for one group.

    `members` has the class of each example and `groups` its group, both from 0 without gaps.
    `width` is the range of the value; what varies by 1e-12 of it does not vary.

    Let :math:`P_{cg}` be the sum of the influences of class c in group g, and :math:`G_c` the
    number of groups that hold class c. The variance is Obuchowski's,

    .. math:: \sum_c \frac{G_c}{G_c - 1} \sum_g P_{cg}^2
              + \frac{G}{G - 1} \sum_{c \ne d} \sum_g P_{cg} P_{dg},

    which is DeLong's if each example is a group of its own. The size of a class is the number of
    its examples divided by the design effect: how many times larger the variance is than that of
    independent examples. It comes from the influences, averaged with the design effect of equal
    examples in each group as if three more groups had shown that one, since with few groups a
    smaller one may be chance.
    """
    n_groups = len(members) if groups is None else int(groups.max()) + 1
    if groups is not None and n_groups < 2:
        return None
    of_all = np.zeros(n_groups)
    parts, total, squares, known = [], 0.0, 0.0, True
    for code in range(int(members.max()) + 1):
        rows = members == code
        psi, v = influence[rows], weight[rows]
        x, unit = psi / v, _NOISE * width / float(v.sum())
        least, most = float(x.min()), float(x.max())
        if max(-least, most) <= unit:
            psi = np.zeros_like(psi)
        weights, counts = v, len(v)
        sums, ways = psi, [v * (most - x), v * (x - least)]
        if groups is not None:
            place = groups[rows]
            held = np.flatnonzero(np.bincount(place, minlength=n_groups))
            counts = len(held)
            sums, weights, *ways = (
                np.bincount(place, one, n_groups)[held] for one in (psi, v, *ways)
            )
            of_all[held] += sums
        raw = float(sums @ sums)
        known = known and counts > 1
        variance = raw * counts / (counts - 1.0) if counts > 1 else 0.0
        effective = 0.0
        if variance > 0.0:
            # equal influences that are not 0 come from the size of the class, which is random
            ways = ways if most - least > unit else [weights]
            effective = min(float(y.sum()) ** 2 / float(y @ y) for y in ways)
        # the design effect, from 1 for independent examples to that of equal ones in each group
        most = float(weights @ weights) / float(v @ v)
        design = min(max(raw / float(psi @ psi), 1.0), most) if raw else most
        design = (effective * design + _INNER * most) / (effective + _INNER)
        parts.append(Part(variance, effective, float(v.sum()) ** 2 / float(v @ v) / design))
        total += variance
        squares += raw
    whole = total
    if groups is not None:
        whole += (float(of_all @ of_all) - squares) * n_groups / (n_groups - 1.0)
    error = math.sqrt(max(whole, 0.0)) if known else math.nan
    return Spread(error, tuple(parts), max(whole, 0.0) / total if total > 0.0 else 1.0)


def score_limits(
    share: float,
    spread: Spread,
    reach: Sequence[float],
    confidence: float,
    all_or_nothing: Sequence[float] | None = None,
    *,
    extra: tuple[float, float] = (_INNER, _OUTER),
    by_factor: bool = False,
) -> tuple[float, float]:
    """Return the limits of a value between 0 and 1; see the top of this module.

    `reach` says for each class how much one of n examples can change the value at most, in units
    of 1/n: 1 for the AUC; the class counts as one of size n / reach. `all_or_nothing` has the share
    b of each class, and `extra` the numbers k of examples that show Newcombe's variance, of the
    limit on the side of 1/2 and of the other one. With `by_factor` they show the geometric mean of
    both variances, for values whose variance is far from Newcombe's.

    A perfect AUC of 10 positives and 200 negatives:

    >>> perfect = Spread(0.0, (Part(0.0, 0.0, 200.0), Part(0.0, 0.0, 10.0)))
    >>> low, high = score_limits(1.0, perfect, (1.0, 1.0), 0.95)
    >>> round(low, 3), high
    (0.77, 1.0)
    """
    sizes = [max(part.size / one, 1.0) for part, one in zip(spread.parts, reach, strict=True)]
    others = [min(sizes[:i] + sizes[i + 1 :]) for i in range(len(sizes))]
    edge = 0.5 / math.prod(sorted(sizes)[:2])
    centre = min(max(share, edge), 1.0 - edge)
    whole = all_or_nothing or [0.0] * len(sizes)
    level = 0.5 + 0.5 * confidence
    normal = NormalDist().inv_cdf(level)

    def curved(t: float) -> float:
        return 0.5 * t * (1.0 - t) * ((1.0 - t) / (2.0 - t) + t / (1.0 + t))

    def limit(k: float, student: float, end: float) -> float:
        # V(t) is bent * c(t) + flat * t (1 - t)
        bent = flat = total = below = 0.0
        for part, size, other, b in zip(spread.parts, sizes, others, whole, strict=True):
            curves = (1.0 - b) * (1.0 - 1.0 / other) / size
            evens = (b * (1.0 - 1.0 / other) + 0.5 / other) / size
            prior = curves * curved(centre) + evens * centre * (1.0 - centre)
            shown = prior
            if by_factor and part.variance > 0.0:
                shown = math.sqrt(prior * part.variance)
            shrunk = (part.effective * part.variance + k * shown) / (part.effective + k)
            bent += shrunk / prior * curves
            flat += shrunk / prior * evens
            total += shrunk
            # The variance of a share is known.
            below += ((1.0 - b) * shrunk) ** 2 / (part.effective + _INNER)
        least = min(part.effective for part in spread.parts)
        common = (least * spread.common + k) / (least + k)
        quantile = normal
        if student > 0.0:
            quantile += student * (student_quantile(level, total**2 / below) - normal)
        scale = quantile**2 * common
        inside, outside = share, end
        for _ in range(60):
            t = 0.5 * (inside + outside)
            if (share - t) ** 2 <= scale * (bent * curved(t) + flat * t * (1.0 - t)):
                inside = t
            else:
                outside = t
        return 0.5 * (inside + outside)

    near = (4.0 * centre * (1.0 - centre)) ** _BLEND
    inner, outer = extra
    settings = [(inner, 1.0), (outer + near * (inner - outer), near)]
    if share < 0.5:
        settings.reverse()
    low = limit(*settings[0], 0.0) if share > 0.0 else 0.0
    high = limit(*settings[1], 1.0) if share < 1.0 else 1.0
    return low, high


def share_limits(
    share: float, error: float, size: tuple[float, float], z: float
) -> tuple[float, float]:
    r"""Return the limits of a share whose variance is partly that of a binomial.

    Wilson's score interval holds the shares p with

    .. math:: (share - p)^2 \le z^2 \, (p (1 - p) / m + excess).

    The binomial part of the variance depends on p; `excess`, the rest of the estimated variance,
    is constant. The number of independent draws m, from ``size[0]`` to ``size[1]``, is the one that
    explains the standard error best.
    """
    spread = share * (1.0 - share)
    m = size[0]
    if error > 0.0:
        m = min(max(spread / error**2, size[0]), size[1])
    excess = max(error**2 - spread / m, 0.0)
    shift = z * z / m
    middle = (share + 0.5 * shift) / (1.0 + shift)
    # the roots of (1 + shift) p^2 - (2 share + shift) p + share^2 - z^2 excess
    constant = (share * share - z * z * excess) / (1.0 + shift)
    half = math.sqrt(max(middle * middle - constant, 0.0))
    return max(middle - half, 0.0), min(middle + half, 1.0)


def count_limit(share: float, error: float, confidence: float, degrees: float) -> float:
    r"""Return a lower limit of a share in (0, 1) that few examples may have made.

    If far less than one example is expected where the share counts, one that is there by chance
    makes the share R too high, and no standard error knows. The limit must then be that of a count.
    With m = R (1 - R) / error^2 equal draws a binomial share has the standard error (Korn and
    Graubard, Survey Methodology 24, 1998), so the limit is Jeffreys', the quantile of
    :math:`\mathrm{Beta}(m R + \tfrac12, m (1 - R) + \tfrac12)`. Where Student's quantile is c times
    the normal one, m is divided by c^2; `degrees` are infinite for independent examples.

    >>> round(count_limit(0.01, 0.01, 0.95, math.inf), 5)
    0.00107
    """
    from scipy.special import betaincinv

    level = 0.5 + 0.5 * confidence
    longer = student_quantile(level, degrees) / NormalDist().inv_cdf(level)
    m = share * (1.0 - share) / (longer * error) ** 2
    return float(betaincinv(m * share + 0.5, m * (1.0 - share) + 0.5, 1.0 - level))


def recall_limits(
    share: float, error: float, crowding: float, size: float, confidence: float, degrees: float
) -> tuple[float, float]:
    r"""Return the limits of the share R of a class of `size` that stands in the top share of all.

    They are symmetric on the logit scale, except for three things. Few members may have been found,
    or few missed: each limit reaches as far as `count_limit` of R, or of 1 - R.

    The top may be full. If every example at the cut is a member of the class, R = alpha / pi
    depends on the share pi of members alone, with a bend at pi = alpha, below which it is 1. Its
    logarithm then has the error of that of pi, so the upper limit is
    :math:`R \exp(z \, error / R)`, or 1. With a share `crowding` of members at the cut, the upper
    limit is the mean of both, with that weight for this one.

    A sample where ties at the cut make all of R may hold none of the members that stand above: the
    influences of N members have a variance of R (1 - R) (1 - 2 crowding) / N or more (see
    `pairlearn.metrics.top`), and the standard error counts as no smaller.

    >>> [round(end, 3) for end in recall_limits(1 / 30, 0.033, 0.0, 30, 0.95, math.inf)]
    [0.004, 0.204]
    >>> [round(end, 3) for end in recall_limits(0.75, 0.2, 1.0, 12, 0.95, math.inf)]
    [0.271, 1.0]
    """
    least = share * (1.0 - share) * max(1.0 - 2.0 * crowding, 0.0) / size
    error = max(error, math.sqrt(least))
    half = student_quantile(0.5 + 0.5 * confidence, degrees) * error
    low, high = logit_limits(share, half)
    low = min(low, count_limit(share, error, confidence, degrees))
    high = max(high, 1.0 - count_limit(1.0 - share, error, confidence, degrees))
    full = min(share * math.exp(min(half / share, 700.0)), 1.0)
    return low, (1.0 - crowding) * high + crowding * full


def logit_limits(share: float, half: float) -> tuple[float, float]:
    """Return limits that are `half` away from the share, to first order, and symmetric in logits.

    >>> [round(end, 3) for end in logit_limits(0.9, 0.1)]
    [0.748, 0.965]
    """
    from scipy.special import expit

    logit, way = math.log(share) - math.log1p(-share), half / (share * (1.0 - share))
    return float(expit(logit - way)), float(expit(logit + way))


def student_quantile(level: float, degrees: float) -> float:
    """Return the quantile of Student's distribution, or of the normal one for infinite degrees."""
    if math.isinf(degrees):
        return NormalDist().inv_cdf(level)
    from scipy.special import stdtrit

    return float(stdtrit(degrees, level))
