# SPDX-License-Identifier: BSD-3-Clause
r"""How well a risk score orders survival times: the concordance index, with intervals.

Some times are censored: the event had not happened when the observation ended. Two examples can be
compared if the one with the earlier time had its event. The concordance index C is the share of
these pairs in which that one has the higher score; equal scores count one half.

**Ties in time.** An example that is censored at time t has outlived an event at t, so the two can
be compared. Two events at one time cannot. scikit-survival counts pairs in the same way.

**Interval.** An example plays two roles: as the earlier one of its pairs, if it had its event, and
as the later one. With the pairs that it is in as its weight, C is the AUC between the earlier and
the later roles, and an example is a group of the two roles it plays. The limits are those of
`pairlearn.metrics.limits` for two such classes: few events, or few that carry the variance, widen
the interval. The variance comes from the influences

.. math:: \psi_k = \frac{v_k}{D} \left[g_k (a_k - C d_k) + (b_k - C e_k)\right] + \gamma_k,

where :math:`a_k` and :math:`b_k` are the weights of the pairs that k wins as the earlier and as the
later one, :math:`d_k` and :math:`e_k` those of all of its pairs, :math:`g_k` is the weight of an
event (1 for Harrell's index), and D the weight of all pairs. :math:`\gamma_k` is 0 for Harrell's
index; for Uno's it is how the example changes the estimate of the censoring.

Their sum of squares counts the noise of single pairs twice, once for each example of a pair. A sum
of deviations :math:`h_{ij}` of pairs has the variance

.. math:: \sum_{i<j} h_{ij}^2 + \sum_i \sum_{j \ne k} h_{ij} h_{ik}
          = \sum_i \left(\sum_j h_{ij}\right)^2 - \sum_{i<j} h_{ij}^2 .

So the variance is :math:`\max\{\sum_k \psi_k^2 - Q, \, Q\}` with Q the sum of the squared
deviations of the comparable pairs over D^2. Where C is near 1 most of the variance is noise of
single pairs. With groups nothing is taken off.

The limits take the geometric mean of Newcombe's variance and the estimated one as that of 4 more
examples (`by_factor`), and of 1/4 on the other side: times that depend on a risk vary less than
scores of two classes do. ``python -m benchmarks.concordance_coverage`` prints how often intervals
hold the truth.

References
----------
F. Harrell, R. Califf, D. Pryor, K. Lee and R. Rosati, Evaluating the yield of medical tests, JAMA
247, 1982.
H. Uno, T. Cai, M. Pencina, R. D'Agostino and L. Wei, On the C-statistics for evaluating overall
adequacy of risk prediction procedures with censored survival data, Statistics in Medicine 30, 2011.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pairlearn.metrics._inputs import Sample
from pairlearn.metrics.limits import Spread, score_limits, spread_of
from pairlearn.metrics.metric import Interval, Measured, Metric, limits_of
from pairlearn.typing import Mask, Places, Vector
from pairlearn.validation import check_flag, check_number, float_array, refuse_masked

#: More examples of the limit on the side of 1/2, and of the other one.
_EXTRA = (4.0, 0.25)
#: How events and times are held.
SURVIVAL = np.dtype([("event", np.bool_), ("time", np.float64)])


def survival_times(y: Any) -> NDArray[Any]:
    """Return events and times as an array with the fields "event" and "time".

    `y` is an array with two fields, as scikit-survival has it, a frame with the columns "event" and
    "time", or two columns, the event first. An event is true or 1, a censored example false or 0.

    >>> survival_times([[1, 2.5], [0, 4.0]])
    array([( True, 2.5), (False, 4. )],
          dtype=[('event', '?'), ('time', '<f8')])
    """
    event, time = _columns(y)
    refuse_masked("y", time)
    spans = np.asarray(time)
    if spans.dtype.kind in "mM":  # a missing span would become the least whole number
        time = np.where(np.isnat(spans), np.nan, spans.astype(np.float64))
    try:
        codes, time = float_array("y", event), float_array("y", time, ordered=True)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{error} It has the event (0 or 1) and the time of each row.") from None
    found = np.empty(len(time), dtype=SURVIVAL)
    found["time"] = time
    if not np.isfinite(found["time"]).all():
        raise ValueError(
            "y holds a time that is NaN or infinite; give every example the time of its event, or "
            "the time at which it was last seen."
        )
    wrong = codes[~((codes == 0.0) | (codes == 1.0))]
    if len(wrong):
        raise ValueError(
            f"the events of y must be true or false (1 or 0), got {wrong[0]:g}; give the event "
            "first and the time second."
        )
    found["event"] = codes == 1.0
    return found


def _columns(y: Any) -> tuple[Any, Any]:
    """Return the events and the times of y, not checked yet."""
    columns = getattr(y, "columns", None)
    names = None if columns is None else [str(name) for name in columns]
    if names is None:
        # An array of NumPy would lose the mask.
        y = np.ma.asarray(y) if isinstance(y, np.ma.MaskedArray) else np.asarray(y)
        names = None if y.dtype.names is None else list(y.dtype.names)
    if names is not None:
        if "event" in names and "time" in names and len(names) == 2:
            event, time = y["event"], y["time"]
            return (event, time) if columns is None else (np.asarray(event), np.asarray(time))
        if len(names) == 2 and columns is None:
            first, second = (y[name] for name in names)
            return (second, first) if second.dtype.kind == "b" else (first, second)
        if len(names) == 2:
            raise ValueError(
                f'y is a frame with the columns {names!r}; name them "event" and "time".'
            )
        shape: Any = f"the columns {names!r}"
    else:
        if y.ndim == 2 and y.shape[1] == 2:
            return y[:, 0], y[:, 1]
        shape = f"an array of shape {y.shape}"
    raise ValueError(
        "y must hold two columns, the event (true or false) and the time, or be an array with "
        f"these two fields; got {shape}. A third column, such as a time of entry (left "
        "truncation) or a kind of event (competing risks), is not supported."
    )


@dataclass(frozen=True, eq=False)
class ComparablePairs:
    """Which examples can be compared: the order of times, with the stages of both sweeps.

    `event` marks those that may be the earlier one of a pair.
    """

    event: Mask
    time: Vector

    @cached_property
    def forward(self) -> tuple[Places, Places]:
        """The order from early to late, at one time events first, and where stages begin."""
        order = np.argsort(self.time)
        time = self.time[order]
        if (time[1:] == time[:-1]).any():  # sorting by two keys takes longer
            order = np.lexsort((~self.event, self.time))
        event = self.event[order]
        new = (time[1:] != time[:-1]) | (event[1:] != event[:-1])
        begins = np.concatenate(([0], np.flatnonzero(new) + 1, [len(order)]))
        return order.astype(np.int64), begins.astype(np.int64)

    @cached_property
    def backward(self) -> tuple[Places, Places]:
        """The same from late to early."""
        order, begins = self.forward
        return order[::-1].copy(), (len(order) - begins[::-1]).copy()

    @cached_property
    def everyone(self) -> Mask:
        """A mask of all examples."""
        return np.ones(len(self.event), dtype=np.bool_)


def comparable_pairs(labels: NDArray[Any], tau: float | None = None) -> ComparablePairs:
    """Return the pairs of examples with events before `tau`, or raise if there is none."""
    event, time = labels["event"], np.ascontiguousarray(labels["time"])
    # an event at or after tau can only be the later one of a pair
    event = event & (time < tau) if tau is not None else np.ascontiguousarray(event)
    if event.any():
        first = float(time[event].min())
        if ((time > first) | ((time == first) & ~event)).any():
            return ComparablePairs(event, time)
    raise ValueError(
        f"no pair can be compared: {int(event.sum())} of {len(time)} examples have an event"
        + ("" if tau is None else f" before tau={tau:g}")
        + ", and none of them is followed by a later time; a pair needs an event and an example "
        "that outlives it."
    )


def censoring_free(labels: NDArray[Any], weight: Vector) -> Vector:
    r"""Return Kaplan and Meier's estimate of P(not censored before t) at the time of each example.

    At one time events come before censoring, so that this is the chance that an event at that time
    is seen. It is positive at the time of every example.
    """
    return _Censoring(labels, weight, np.argsort(labels["time"])).chance


class _Censoring:
    """Kaplan and Meier's estimate for the censoring, and its derivatives by weights.

    `order` sorts the examples by time.
    """

    def __init__(self, labels: NDArray[Any], weight: Vector, order: Places) -> None:
        time = labels["time"][order]
        later = np.concatenate(([0], np.cumsum(time[1:] != time[:-1])))
        self._place = np.empty(len(order), dtype=np.int64)
        self._place[order] = later
        self._censored, self._weight = ~labels["event"], weight
        n = int(later[-1]) + 1
        all_at = np.bincount(self._place, weight, n)
        lost = np.bincount(self._place, weight * self._censored, n)
        after = np.append(np.cumsum(all_at[::-1])[::-1][1:], 0.0)
        # at risk of being censored: whoever comes later, and those who are censored now
        self._after, self._at_risk = after, after + lost
        held = np.divide(after, self._at_risk, out=np.ones(n), where=(lost > 0.0) & (after > 0.0))
        until = np.concatenate(([1.0], np.cumprod(held[:-1])))
        self.chance: Vector = np.asarray(until[self._place])

    def influence(self, pull: Vector) -> Vector:
        """Return the influence of each example on sum_i pull_i log G(t_i)."""
        n = len(self._after)
        at = np.bincount(self._place, pull, n)
        beyond = np.append(np.cumsum(at[::-1])[::-1][1:], 0.0)
        some = self._after > 0.0
        ratio = np.divide(beyond, self._at_risk, out=np.zeros(n), where=some & (self._at_risk > 0))
        kept = np.divide(beyond, self._after, out=np.zeros(n), where=some) - ratio
        passed = np.concatenate(([0.0], np.cumsum(kept[:-1])))[self._place]
        return np.asarray(self._weight * (passed - self._censored * ratio[self._place]))


@dataclass(frozen=True)
class _MeasuredConcordance(Measured):
    """An index with `roles`, the influences of the examples as the earlier one, then as the later.

    `pairs` are the weights of the pairs in which they play these roles, and `pair_noise` is Q, the
    part of the variance that the influences count twice.
    """

    roles: Vector | None = None
    pairs: Vector | None = None
    pair_noise: float = 0.0


@dataclass(frozen=True)
class ConcordanceIndex(Metric):
    r"""The share of comparable pairs of survival times that a risk score puts in order.

    A pair is comparable if the one with the earlier time had its event. It is in order if that one
    has the higher score; equal scores count one half. 1/2 is chance, 1 is perfect.

    Harrell's index counts all comparable pairs alike. Which pairs these are depends on the
    censoring, and so does its limit. Uno's index (``ipcw=True``) gives a pair the weight
    :math:`\hat G(t)^{-2}`, with t the earlier time and :math:`\hat G(t)` Kaplan and Meier's
    estimate of the chance not to be censored before t, from the same examples. If the censoring
    depends neither on the event nor on the score, its limit does not depend on the censoring.

    Parameters
    ----------
    ipcw : bool, default=False
        Whether pairs are weighted by the inverse chance of being seen (Uno's index).
    tau : float, optional
        Only events before this time count. Uno's index needs one if hardly anybody is seen until
        the largest times: the few who are would have very large weights.

    See Also
    --------
    pairlearn.SurvivalRanker : Learns such a score.

    Notes
    -----
    `y` is an array with two fields (event and time) as in scikit-survival, a frame with the columns
    "event" and "time", or an array of two columns, the event first. `scores` are risks: larger for
    those who are expected to have their event earlier. A predicted *time* needs its sign changed.

    ``__call__`` is scikit-survival's ``concordance_index_censored``, except that scores are tied
    only if they are equal. ``ipcw=True`` is its ``concordance_index_ipcw``, except that an event
    and a censoring at one time do not affect each other.

    Examples
    --------
    >>> y = [(True, 1.0), (False, 2.0), (True, 3.0), (False, 4.0)]
    >>> ConcordanceIndex()(y, [4.0, 1.0, 1.5, 2.0])
    0.75
    >>> found = ConcordanceIndex().interval(y, [4.0, 1.0, 1.5, 2.0])
    >>> found.low < found.value < found.high
    True
    """

    ipcw: bool = False
    tau: float | None = None

    def __post_init__(self) -> None:
        check_flag("ipcw", self.ipcw)
        if self.tau is not None and not math.isfinite(check_number("tau", self.tau)):
            raise ValueError(f"tau must be a finite time or None, got {self.tau!r}.")

    def _labels(self, y: ArrayLike) -> ArrayLike:
        return survival_times(y)

    def _members(self, labels: NDArray[Any]) -> NDArray[np.intp]:
        # one class of all examples, for the difference of two values
        return np.zeros(len(labels), dtype=np.intp)

    def _interval_of(self, found: Measured, sample: Sample, confidence: float) -> Interval:
        assert isinstance(found, _MeasuredConcordance)
        assert found.roles is not None
        assert found.pairs is not None
        n = len(sample.labels)
        of = np.arange(n) if sample.groups is None else sample.groups
        sample = replace(sample, groups=of)
        whole, spread = self.spread_of(found.influence, sample, 1.0), None
        held = np.flatnonzero(found.pairs)
        roles = spread_of(
            (held < n).astype(np.intp),
            found.roles[held],
            found.pairs[held],
            np.concatenate((of, of))[held],
            1.0,
        )
        if whole is not None and roles is not None:
            variance = whole.error**2
            if sample.n_groups == n and variance > 0.0:
                variance = max(variance - found.pair_noise, found.pair_noise)
            error = math.nan if math.isnan(roles.error) else math.sqrt(variance)
            total = sum(part.variance for part in roles.parts)
            spread = Spread(error, roles.parts, variance / total if total > 0.0 else 1.0)
            if error > 0.0 and 0.0 < found.value < 1.0:
                low, high = score_limits(
                    found.value, spread, (1.0, 1.0), confidence, extra=_EXTRA, by_factor=True
                )
                return Interval(found.value, low, high, error, float(confidence))
        return limits_of(found, spread, sample, confidence)

    def measure(self, labels: NDArray[Any], scores: Vector, weight: Vector) -> Measured:
        """Return the value and its influences."""
        pairs = comparable_pairs(labels, self.tau)
        censoring = _Censoring(labels, weight, pairs.forward[0]) if self.ipcw else None
        mass = weight * pairs.event
        if censoring is not None:
            mass /= censoring.chance**2
        rank = np.unique(scores, return_inverse=True)[1].astype(np.int64)
        below, equal, after = _sums(pairs.backward, rank, pairs.event, weight)
        won_early = mass * (below + 0.5 * equal)
        early = mass * after
        if (weight == weight[0]).all():
            lower, tied, outlived = (weight[0] * one for one in (below, equal, after))
        else:
            lower, tied, outlived = _sums(pairs.backward, rank, pairs.event, weight * weight)
        below, equal, before = _sums(pairs.forward, rank, pairs.everyone, mass)
        won_late = weight * (before - below - 0.5 * equal)
        late = weight * before
        total = float(early.sum())
        value = min(max(float(won_early.sum()) / total, 0.0), 1.0)
        deviations = (
            lower * (1.0 - value) ** 2
            + tied * (0.5 - value) ** 2
            + (outlived - lower - tied) * value**2
        )
        as_early, as_late = (won_early - value * early) / total, (won_late - value * late) / total
        influence = as_early + as_late
        if censoring is not None:
            influence -= 2.0 * censoring.influence(as_early)
        return _MeasuredConcordance(
            value,
            influence,
            int(np.count_nonzero(early)),
            roles=np.concatenate((as_early, as_late)),
            pairs=np.concatenate((early, late)),
            pair_noise=float((mass * mass) @ deviations) / total**2,
        )


def _sums(
    sweep: tuple[Places, Places], rank: Places, asks: Mask, mass: Vector
) -> tuple[Vector, Vector, Vector]:
    """Return the masses visited before with a smaller rank, with the same, and altogether."""
    from pairlearn.kernels.concordance import sums_below

    n, n_ranks = len(rank), int(rank.max()) + 1
    below, equal, total = np.zeros(n), np.zeros(n), np.zeros(n)
    tree, tally = np.zeros(n_ranks + 1), np.zeros(n_ranks)
    sums_below(*sweep, rank, asks, mass, tree, tally, below, equal, total)
    return below, equal, total
