# SPDX-License-Identifier: BSD-3-Clause
r"""Minimise a loss over all comparable pairs of survival times, for data in memory.

A pair is an example i that had its event and an example j that outlived it. The objective is

.. math:: \frac1D \sum_i m_i \sum_{j \text{ outlives } i} v_j \,
          \ell(\langle w, x_i - x_j \rangle) + \lambda \|w\|^2, \qquad
          D = \sum_i m_i \sum_{j \text{ outlives } i} v_j,

with v the weights of the examples and m those of the events. The squared hinge

.. math:: \ell(t) = (c - t)_+^2, \qquad
          \sum_j v_j (s_j - u_i)_+^2 \quad\text{with}\quad u_i = s_i - c,

needs of those who outlive i and score above :math:`u_i` the sums of v, v s and v s^2. Two sweeps
over the times with a Fenwick tree over the scores give the value and all derivatives in
O(n log n), as in Van Belle et al. and Poelsterl et al. The logistic loss has no such sums: it
visits every pair.

References
----------
V. Van Belle, K. Pelckmans, J. Suykens and S. Van Huffel, Support vector machines for survival
analysis, CIMED 2007.
S. Poelsterl, N. Navab and A. Katouzian, Fast training of support vector machines for survival
analysis, ECML 2015.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from pairlearn.losses import Logistic, PairLoss, SquaredHinge
from pairlearn.metrics.concordance import ComparablePairs
from pairlearn.solvers.exact.batch import descend
from pairlearn.solvers.rows import DenseRows, Rows
from pairlearn.typing import Mask, Places, Vector
from pairlearn.validation import warn_caller

#: With more features than this the search is not preconditioned.
_MOST_PRECONDITIONED = 1_000
#: The most pairs that the logistic loss visits in one evaluation.
MOST_PAIRS = 400_000_000


class SurvivalObjective:
    """The mean loss over comparable pairs of one data set, which is minimised for any ridge.

    `weight` is that of each example as the one that outlives, `mass` its weight as the one with
    the event, 0 for the others.
    """

    def __init__(
        self, rows: Rows, pairs: ComparablePairs, loss: PairLoss, weight: Vector, mass: Vector
    ) -> None:
        self._rows, self._pairs, self._loss = rows, pairs, loss
        self._weight, self._mass = weight, mass
        if type(loss) is Logistic:
            n_events, n = int(np.count_nonzero(pairs.event)), len(weight)
            if n_events * n > MOST_PAIRS:
                raise ValueError(
                    f"the logistic loss visits every pair, and {n_events} events of {n} examples "
                    f'make more than {MOST_PAIRS:,}; use loss="squared_hinge", which sorts.'
                )
        elif type(loss) is not SquaredHinge:
            raise ValueError(
                f"{loss!r} is not minimised over all survival times at once; use SquaredHinge() or "
                "Logistic(), or solver='sgd', which takes every loss of a margin."
            )

    @cached_property
    def _outlived(self) -> tuple[Vector, Vector]:
        """For each example, the weight of those who outlive it and the mass of those it outlives.

        The first is 0 for an example without an event.
        """
        found = []
        for (order, begins), added in (
            (self._pairs.backward, self._weight),
            (self._pairs.forward, self._mass),
        ):
            sums = np.concatenate(([0.0], np.cumsum(added[order])))[begins[:-1]]
            before = np.empty(len(order))
            before[order] = np.repeat(sums, np.diff(begins))
            found.append(before)
        return found[0] * self._pairs.event, found[1]

    @cached_property
    def _total(self) -> float:
        return float(self._mass @ self._outlived[0])

    @cached_property
    def _scatter(self) -> Vector | None:
        """The mean of (x_i - x_j)(x_i - x_j)' over all pairs."""
        if not isinstance(self._rows, DenseRows) or self._rows.shape[1] > _MOST_PRECONDITIONED:
            return None
        X = self._rows.X.astype(np.float64, copy=False)
        after, before = self._outlived
        order, begins = self._pairs.backward
        sums = np.zeros((len(order) + 1, X.shape[1]))
        np.cumsum(X[order] * self._weight[order, None], axis=0, out=sums[1:])
        later = np.repeat(sums[begins[:-1]], np.diff(begins), axis=0)
        met = self._mass * after + self._weight * before
        # The sum of m_k x_k x_k' over examples, less C + C' with C the sum of x_i y_i', where y_i
        # is the sum of the second ones of the pairs of i.
        cross = (X[order] * self._mass[order, None]).T @ later
        return ((X * met[:, None]).T @ X - cross - cross.T) / self._total

    def minimise(
        self,
        ridge: float,
        w_start: Vector | None = None,
        *,
        tolerance: float = 1e-9,
        max_iterations: int = 200,
    ) -> tuple[Vector, int]:
        """Return the minimiser of the mean loss plus ridge ||w||^2, and the number of evaluations.

        The search starts at zero by default. It stops when an iteration lowers the objective by
        less than the share `tolerance`.
        """
        w, n_evaluations, stopped = descend(
            self.risk,
            np.zeros(self._rows.shape[1]) if w_start is None else w_start,
            self._scatter,
            ridge=ridge,
            tolerance=tolerance,
            max_iterations=max_iterations,
        )
        if stopped:
            warn_caller(
                f"The search stopped after {max_iterations} iterations at ridge {ridge:g}; give a "
                "larger ridge.",
                RuntimeWarning,
            )
        return w, n_evaluations

    def risk(self, w: Vector) -> tuple[float, Vector]:
        """Return the mean loss over all pairs, and its gradient."""
        matrix = self._rows.matrix
        value, slopes = self.of_scores(np.asarray(matrix @ w, dtype=np.float64))
        return value, np.asarray(matrix.T @ slopes, dtype=np.float64)

    def of_scores(self, scores: Vector) -> tuple[float, Vector]:
        """Return the mean loss of scores, and its derivatives by them."""
        if isinstance(self._loss, SquaredHinge):
            value, slopes = self._squared_hinge(scores - scores.mean(), self._loss.margin)
        else:
            from pairlearn.kernels.concordance import logistic_pairs

            slopes = np.zeros(len(scores))
            value = logistic_pairs(
                *self._pairs.backward, self._pairs.event, self._mass, self._weight, scores, slopes
            )
        return value / self._total, slopes / self._total

    def _squared_hinge(self, scores: Vector, margin: float) -> tuple[float, Vector]:
        pairs, weight, mass = self._pairs, self._weight, self._mass
        order = np.argsort(scores).astype(np.int64, copy=False)
        rank = np.empty(len(order), dtype=np.int64)
        rank[order] = np.arange(len(order))
        ramp, bowl = _ramps(pairs.backward, pairs.event, order, rank, weight, scores, margin)
        value, slopes = float(mass @ bowl), -2.0 * mass * ramp
        last = len(order) - 1
        ramp, _ = _ramps(
            pairs.forward, pairs.everyone, order[::-1], last - rank, mass, -scores, margin
        )
        return value, slopes + 2.0 * weight * ramp


def _ramps(
    sweep: tuple[Places, Places],
    asks: Mask,
    order: Places,
    rank: Places,
    mass: Vector,
    scores: Vector,
    margin: float,
) -> tuple[Vector, Vector]:
    """Return the sums of mass (s' - s + margin)_+ and of its square over those visited before."""
    from pairlearn.kernels.concordance import ramps_above

    n = len(scores)
    ordered = scores[order]
    first = np.empty(n, dtype=np.int64)
    # sorted questions are answered faster than questions in the order of the examples
    first[order] = np.searchsorted(ordered, ordered - margin, side="right")
    ramp, bowl = np.zeros(n), np.zeros(n)
    tree = np.zeros((n + 1, 3))
    ramps_above(*sweep, asks, first, scores - margin, rank, mass, scores, tree, ramp, bowl)
    return ramp, bowl
