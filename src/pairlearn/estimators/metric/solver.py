# SPDX-License-Identifier: BSD-3-Clause
"""Stochastic gradient descent over metrics as a solver object."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pairlearn.averaging import AVERAGINGS, Averaging
from pairlearn.domains import PsdBall, PsdCone
from pairlearn.estimators.shared.solvers import SGD, SOLVERS, Solver, as_schedule
from pairlearn.pairings import PAIRINGS, GivenPairs, Pairing, PreviousExample
from pairlearn.schedules import Schedule
from pairlearn.validation import check_positive

#: Steps between two projections of projection="auto" in `fit`.
_PERIOD = 2000


@SOLVERS.add()
@dataclass(frozen=True, repr=False)
class MetricSGD(SGD):
    """Stochastic gradient descent over positive semi-definite matrices, for `MetricLearner`.

    Parameters
    ----------
    step_size : float, "auto" or "held_out", default="auto"
        The scale of the step sizes. The unit step moves the squared distance of a typical pair by
        1. "auto" takes 0.1 units for pairs of near examples, and for other pairs "held_out". On a
        stream, "auto" takes the unit step of the first 64 examples (without scaling, of the first
        chunk) over sqrt(t). "held_out" trains a grid on a part of the training data and keeps the
        best by nearest neighbours on the rest; the starting point is one of the candidates. For
        given pairs, it keeps the best by the AUC of held-out pairs.
    radius : float or "auto", default="auto"
        Bound on the Frobenius norm of W. "auto" means none, and so does infinity.
    n_passes : float or "auto", default="auto"
        Number of steps in units of the number of examples (of pairs). "auto" takes the best of 10,
        50 and 200 passes on held-out examples, but at most 200,000 steps (from 100 features on
        fewer, at least 50,000) or 8 passes. Where the step size is chosen, it takes 8 passes, or
        more up to 10,000 steps, but at most 200 passes.
    schedule : str or Schedule, default="auto"
        "constant" (the default of `fit`), "inverse_sqrt" (the default of `partial_fit`),
        "inverse_time", or a schedule, whose scale the step size multiplies.
    averaging : str or Averaging, default="auto"
        "tail" (the default of `fit`: the mean over the second half of the steps, since the
        starting point is far from neutral), "step_size" (the paper's average, the default of
        `partial_fit`), "linear", "uniform", "last", or a rule.
    pairing : str or Pairing, default="auto"
        "neighbors" (the default of `fit`) draws pairs from the nearest examples of each example,
        those of its own label and those of other labels equally often. Half of the examples find
        their neighbours in the Euclidean metric, for the first half of the steps. The others find
        theirs in the metric learned so far, for the second half, with a third of the step size in
        units of these pairs. "previous" is the default of `partial_fit`, which cannot use
        "neighbors". "shuffled" is the same with passes in random order; "random"; or a pairing of
        one pair a step. Given pairs are taken as they are.
    max_memory : float, default=2**30
        Bytes that mapped rows may take.
    projection : {"auto", "exact", "every"}, default="auto"
        "exact" projects W onto the PSD cone at each step that leaves it: it finds the one negative
        eigenvalue, see `pairlearn.kernels.steps.mahalanobis`. "every" projects after each `period`
        steps, by a full eigendecomposition. "auto" is every 2000 steps in `fit`, and exact in
        `partial_fit`. The result is positive semi-definite in any case.
    period : int, default=1
        The number of steps between projections with ``projection="every"``.

    Examples
    --------
    >>> MetricSGD(pairing="previous", n_passes=5)
    MetricSGD(n_passes=5, pairing='previous')
    """

    averaging: str | Averaging = "auto"
    pairing: str | Pairing = "auto"
    projection: str = "auto"
    period: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        self.domain(stored=True)

    @property
    def given_step(self) -> float | None:
        """The step size, if it is a number."""
        if not isinstance(self.step_size, str):
            return check_positive("step_size", self.step_size)
        if self.step_size not in ("auto", "held_out"):
            raise ValueError(
                f'step_size must be a number, "auto" or "held_out", got {self.step_size!r}.'
            )
        return None

    @property
    def bound(self) -> float:
        """The largest norm of W, infinity for none."""
        radius = self.given_radius
        return np.inf if radius is None else radius

    def domain(self, *, stored: bool) -> PsdCone | PsdBall:
        """Return the matrices that W lives in, for stored examples or for a stream."""
        projection, period = self.projection, self.period
        if projection == "auto":
            projection = "exact"
            if stored and self.period == 1:
                projection, period = "every", _PERIOD
        if np.isinf(self.bound):
            return PsdCone(projection=projection, period=period)
        return PsdBall(self.bound, projection=projection, period=period)

    def schedule_for(self, *, stored: bool) -> Schedule:
        """Return the schedule, which the step size multiplies."""
        return as_schedule(self.schedule, default="constant" if stored else "inverse_sqrt")

    def averaging_for(self, *, stored: bool) -> Averaging:
        """Return the rule by which iterates are averaged."""
        if isinstance(self.averaging, str) and self.averaging == "auto":
            return AVERAGINGS.make("tail" if stored else "step_size")
        return AVERAGINGS.make(self.averaging)

    def pairing_for(self, *, stored: bool, paired: bool) -> Pairing | None:
        """Return the pairing; None for pairs of near examples."""
        if paired:
            return GivenPairs()
        if not (isinstance(self.pairing, str) and self.pairing in ("auto", "neighbors")):
            return PAIRINGS.make(self.pairing)
        if stored:
            return None
        if self.pairing == "neighbors":
            raise ValueError(
                'pairing="neighbors" needs all examples at once; for partial_fit use "previous" '
                'or "auto".'
            )
        return PreviousExample()


def metric_solver(given: Any) -> Solver:
    """Return the solver that `MetricLearner` is given; "sgd" stands for `MetricSGD`."""
    return MetricSGD() if isinstance(given, str) and given == "sgd" else SOLVERS.make(given)


def as_metric_sgd(solver: SGD) -> MetricSGD:
    """Return the same descent with the settings of metrics."""
    if isinstance(solver, MetricSGD):
        return solver
    return MetricSGD(**{name: getattr(solver, name) for name in SGD().get_params(deep=False)})
