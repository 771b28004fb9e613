# SPDX-License-Identifier: BSD-3-Clause
r"""Raise an alarm when the AUC of a stream changes, with a stated rate of false alarms.

Labelled examples are grouped in blocks. Block t has an AUC with the normal deviate x_t =
Phi^{-1}(AUC), which is nearly symmetric; the AUC itself and its logit are skewed.
While nothing changes the x_t are close to independent and normal with one unknown mean and
variance, so that

    T_t = (x_t - mean) / (deviation sqrt(t / (t - 1)))    over blocks 1, ..., t - 1

follows Student's distribution with t - 2 degrees of freedom, independently of all other T, and
z_t = Phi^{-1}(F(T_t)) is standard normal: nothing must be known or estimated beforehand. The
cumulative sum D_t = max(0, D_{t-1} - z_t - k) raises an alarm when D_t > h (Hawkins' self-starting
CUSUM). By Siegmund's approximation there are on average

    (exp(2 k b) - 2 k b - 1) / (2 k^2),    b = h + 1.166,

blocks between two false alarms. The threshold h makes this one and a half times the number that the
user asked for, since blocks are not quite normal. After an alarm everything starts anew. A model
that improves while it learns raises x_t but no alarm.

References
----------
D. Hawkins, Self-starting CUSUM charts for location and scale, The Statistician 36, 1987.
D. Siegmund, Sequential Analysis, Springer 1985.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pairlearn.metrics.auc import auc_of
from pairlearn.validation import check_count, check_positive, check_scored

#: Half of the shift, in standard deviations of a block, that the sum detects fastest.
_ALLOWANCE = 0.5
#: Siegmund's correction for the overshoot.
_OVERSHOOT = 1.166
#: Blocks before the first test; fewer do not determine a deviation.
_LEAST_BLOCKS = 5
#: Examples of each class in a block at least; otherwise the block grows.
_LEAST_OF_CLASS = 10
#: Factor on the wanted time between false alarms: short blocks with few errors are not normal.
_CAUTION = 1.5
_DIRECTIONS = ("drop", "both")
_NORMAL = NormalDist()


@dataclass(frozen=True)
class Alarm:
    """One alarm.

    Parameters
    ----------
    n_seen : int
        Labelled examples seen when it was raised.
    since : int
        Labelled examples seen when the change probably began: when the sum started to grow.
    before, after : float
        The AUC of a typical block before and after the change.
    """

    n_seen: int
    since: int
    before: float
    after: float


class DriftAlarm:
    """Watch the progressive AUC and raise an alarm when it changes.

    Parameters
    ----------
    examples_per_false_alarm : float, default=1e6
        The mean number of labelled examples between two false alarms, at least. It must be at least
        ten blocks.
    block : int, default=500
        Examples in a block. A block grows until each class has ten examples.
    direction : {"drop", "both"}, default="drop"
        Whether a rise raises an alarm too; the AUC of a model that still learns rises.

    Attributes
    ----------
    alarms : list of Alarm
        All alarms so far, the oldest first.
    n_seen : int
        Labelled examples seen.
    threshold : float
        The sum above which an alarm is raised.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> alarm = DriftAlarm(examples_per_false_alarm=1e6, block=200)
    >>> y = rng.random(40_000) < 0.3
    >>> scores = rng.normal(size=40_000) + np.where(np.arange(40_000) < 20_000, 2.0, 1.0) * y
    >>> alarm.update(scores, y)
    1
    >>> found = alarm.alarms[0]
    >>> 20_000 < found.n_seen < 22_000, found.before > 0.9 > found.after
    (True, True)
    """

    def __init__(
        self, examples_per_false_alarm: float = 1e6, *, block: int = 500, direction: str = "drop"
    ) -> None:
        self.block = check_count("block", block, minimum=2 * _LEAST_OF_CLASS)
        self.examples_per_false_alarm = check_positive(
            "examples_per_false_alarm", examples_per_false_alarm
        )
        if direction not in _DIRECTIONS:
            raise ValueError(f"direction must be one of {_DIRECTIONS}, got {direction!r}.")
        self.direction = direction
        n_blocks = self.examples_per_false_alarm / self.block
        if n_blocks < 10:
            raise ValueError(
                f"examples_per_false_alarm must be at least ten blocks, got "
                f"{examples_per_false_alarm!r} for blocks of {block}; make it larger, or the "
                "blocks smaller."
            )
        # two sums raise twice as many false alarms as one
        self.threshold = _threshold(_CAUTION * n_blocks * (1 if direction == "drop" else 2))
        self.alarms: list[Alarm] = []
        self.n_seen = 0
        self._scores = np.empty(0)
        self._positive = np.empty(0, dtype=np.bool_)
        self._start()

    def _start(self) -> None:
        """Forget all blocks."""
        self._n_blocks, self._mean, self._squares = 0, 0.0, 0.0
        # for drops and rises: the sum, where it was last zero, and the count and sum of x since
        self._sums = np.zeros(2)
        self._since = np.full(2, self.n_seen - len(self._scores), dtype=np.int64)
        self._later = np.zeros((2, 2))

    def update(self, scores: ArrayLike, is_positive: ArrayLike) -> int:
        """Add examples scored before they were learned; return the number of new alarms."""
        new, labels = check_scored(scores, is_positive)
        before = len(self.alarms)
        begin = 0
        while begin < len(new):
            # take whole blocks, or single examples while a block waits for its rarer class
            stop = begin + max(self.block - len(self._scores), 1)
            part = slice(begin, stop)
            self._scores = np.append(self._scores, new[part])
            self._positive = np.append(self._positive, labels[part].astype(np.bool_))
            self.n_seen += len(new[part])
            begin = stop
            n_positive = int(self._positive.sum())
            fewest = min(n_positive, len(self._scores) - n_positive)
            if len(self._scores) >= self.block and fewest >= _LEAST_OF_CLASS:
                self._take_block()
        return len(self.alarms) - before

    def _take_block(self) -> None:
        """Test the complete block, raise alarms, and add the block to the mean and deviation."""
        scores, positive = self._scores, self._positive
        self._scores, self._positive = np.empty(0), np.empty(0, dtype=np.bool_)
        m, n = int(positive.sum()), int((~positive).sum())
        # the added half keeps the deviate of a perfect block finite
        value = (m * n * auc_of(positive, scores) + 0.5) / (m * n + 1.0)
        x = _NORMAL.inv_cdf(value)
        if self._n_blocks >= _LEAST_BLOCKS:
            z = self._standardised(x, m, n)
            for k, signed in enumerate((-z, z) if self.direction == "both" else (-z,)):
                self._sums[k] = max(0.0, self._sums[k] + signed - _ALLOWANCE)
                if self._sums[k] == 0.0:
                    self._since[k], self._later[k] = self.n_seen, 0.0
                else:
                    self._later[k] += (1.0, x)
                if self._sums[k] > self.threshold:
                    self._raise(k)
                    return
        self._n_blocks += 1
        step = x - self._mean
        self._mean += step / self._n_blocks
        self._squares += step * (x - self._mean)

    def _standardised(self, x: float, m: int, n: int) -> float:
        """Return the deviation of a block from earlier blocks as a standard normal number."""
        from scipy.special import ndtri, stdtr

        count = self._n_blocks
        deviation = math.sqrt(self._squares / (count - 1))
        # perfect blocks have no spread; the theoretical standard error sets a floor
        deviation = max(deviation, 0.5 * _hanley_mcneil(self._mean, m, n))
        t = (x - self._mean) / (deviation * math.sqrt(1.0 + 1.0 / count))
        share = float(stdtr(count - 1, -abs(t)))
        # smaller tails of the normal distribution are not representable
        return math.copysign(-float(ndtri(max(share, 1e-300))), t)

    def _raise(self, k: int) -> None:
        count, total = self._later[k].tolist()
        # the mean includes the blocks since the change, except the last
        inside = max(count - 1.0, 0.0)
        last = total / count
        early = self._n_blocks - inside
        before = (self._n_blocks * self._mean - inside * last) / early if early > 0 else self._mean
        self.alarms.append(
            Alarm(self.n_seen, int(self._since[k]), _NORMAL.cdf(before), _NORMAL.cdf(last))
        )
        self._start()

    def state(self) -> dict[str, Any]:
        """Return the complete state for a checkpoint."""
        table = [[a.n_seen, a.since, a.before, a.after] for a in self.alarms]
        return {
            "examples_per_false_alarm": self.examples_per_false_alarm,
            "block": self.block,
            "direction": self.direction,
            "n_seen": self.n_seen,
            "scores": self._scores,
            "is_positive": self._positive,
            "n_blocks": self._n_blocks,
            "mean": self._mean,
            "squares": self._squares,
            "sums": self._sums.copy(),
            "since": self._since.copy(),
            "later": self._later.copy(),
            "alarms": np.array(table, dtype=np.float64).reshape(-1, 4),
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> DriftAlarm:
        """Return the alarm saved by `state`; later alarms are the same as without the break."""
        alarm = cls(
            state["examples_per_false_alarm"], block=state["block"], direction=state["direction"]
        )
        for name in ("n_seen", "scores", "n_blocks", "mean", "squares", "sums", "since", "later"):
            setattr(alarm, name if name == "n_seen" else f"_{name}", state[name])
        alarm._positive = state["is_positive"]
        rows = state["alarms"].tolist()
        alarm.alarms = [Alarm(int(row[0]), int(row[1]), *row[2:]) for row in rows]
        return alarm


def restored_alarm(saved: Any, present: DriftAlarm | None) -> DriftAlarm | None:
    """Return the alarm of a checkpoint; refuse one whose settings differ from the present alarm.

    If either is None, return the present one.
    """
    if saved is None or present is None:
        return present
    for name in ("examples_per_false_alarm", "block", "direction"):
        if saved.get(name) != getattr(present, name):
            raise ValueError(
                f"the saved alarm has {name}={saved.get(name)!r:.40}, here it is "
                f"{getattr(present, name)!r}; use the same value."
            )
    return DriftAlarm.from_state(saved)


def _threshold(n_blocks: float) -> float:
    """Return h so that a sum of standard normal numbers exceeds it once in `n_blocks` blocks."""
    low, high = 0.0, 60.0
    for _ in range(80):
        middle = 0.5 * (low + high)
        u = 2.0 * _ALLOWANCE * (middle + _OVERSHOOT)
        if (math.exp(u) - u - 1.0) / (2.0 * _ALLOWANCE**2) < n_blocks:
            low = middle
        else:
            high = middle
    return high


def _hanley_mcneil(x: float, m: int, n: int) -> float:
    """Return the standard error of the deviate of an AUC, by Hanley and McNeil's formula."""
    a = min(max(_NORMAL.cdf(x), 1e-9), 1.0 - 1e-9)
    q1, q2 = a / (2.0 - a), 2.0 * a * a / (1.0 + a)
    variance = (a * (1.0 - a) + (m - 1) * (q1 - a * a) + (n - 1) * (q2 - a * a)) / (m * n)
    return math.sqrt(max(variance, 0.0)) / _NORMAL.pdf(_NORMAL.inv_cdf(a))
