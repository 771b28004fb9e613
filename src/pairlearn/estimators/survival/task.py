# SPDX-License-Identifier: BSD-3-Clause
"""How the survival ranker trains: by all pairs at once, or by steps over compared pairs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pairlearn.comparisons import EarlierEvent, signed_times
from pairlearn.estimators.shared.descent import RankerDescent, RankerStream
from pairlearn.estimators.shared.evidence import Choice, best_of
from pairlearn.estimators.shared.solvers import SGD, Exact, Fitted, Moments, way_of
from pairlearn.folds import Keys, members_of, n_folds_of, stratified
from pairlearn.losses import PairLoss
from pairlearn.metrics.concordance import (
    ConcordanceIndex,
    censoring_free,
    comparable_pairs,
)
from pairlearn.pairings import (
    PAIRINGS,
    ClassReservoirs,
    GivenPairs,
    ListedPairs,
    Pairing,
    PreviousOfQuery,
    PreviousOpposite,
)
from pairlearn.problem import Problem
from pairlearn.scores import LinearScore
from pairlearn.solvers.exact.survival import SurvivalObjective
from pairlearn.solvers.rows import Rows, mean_pair_distance
from pairlearn.solvers.solution import Trace
from pairlearn.typing import Places, Vector

#: The ridges of "auto", from the strongest on: each search starts where the one before ended.
_RIDGES = (10.0, 1.0, 0.1, 0.01, 1e-3, 1e-4)
#: With at least this many held-out events, one fold is held out; with fewer, all in turn.
_ENOUGH = 2_000
#: The most held-out examples that judge a step size.
_JUDGED = 20_000
#: Pairings by classes, queries or lists, which survival times do not have.
_BY_CLASSES = (ClassReservoirs, GivenPairs, ListedPairs, PreviousOfQuery, PreviousOpposite)


@dataclass(frozen=True)
class SurvivalTask:
    """Everything about the fit of a survival ranker but the examples."""

    loss: PairLoss
    is_scaled: bool
    rng: np.random.Generator
    metric: ConcordanceIndex
    validation_fraction: float = 0.2
    #: Deal folds by what the examples hold; None for a stream, which deals none.
    keys: Keys | None = None
    #: Events and times of stored examples; None for a stream.
    labels: NDArray[Any] | None = None

    owner: ClassVar[str] = "SurvivalRanker"

    def way(self, solver: Any) -> Any:
        """Return how the ranker trains by a solver."""
        if isinstance(solver, Moments):  # a kind of exact solver
            raise ValueError(
                f"SurvivalRanker has no way to train by {solver!r}, which needs two classes; use "
                "solver='exact' or 'sgd'."
            )
        ways = {Exact: ExactWay, SGD: SurvivalDescent}
        return way_of(solver, ways, self.owner)(self, solver)

    @property
    def problem(self) -> Problem:
        """The loss over pairs of an event and an example that outlived it."""
        if self.labels is None:
            comparison = EarlierEvent(self.metric.tau)
        else:
            # labels of stored examples tell which events count, see `pair_labels`
            comparison = EarlierEvent(weighed=self.metric.ipcw)
        return Problem(LinearScore(), self.loss, comparison)

    def pairing(self, given: str | Pairing, part: Places | None = None) -> Pairing:
        """Return the pairing that a solver names."""
        found = PAIRINGS.make(given)
        if isinstance(found, _BY_CLASSES):
            raise ValueError(
                f"pairing={given!r} pairs by classes, queries or a list, which survival times do "
                'not have; use "previous", "shuffled", "random", "fifo" or "reservoir".'
            )
        return found

    def pair_scale(self, rows: Rows, given: str | Pairing, weight: Vector) -> float:
        """Return the mean squared distance of two examples; `weight` may be empty."""
        assert self.keys is not None
        order = self.keys.permutation(np.arange(rows.shape[0]))
        return mean_pair_distance(rows.take(order), weight[order] if len(weight) else weight)

    def folds(self, y: Vector) -> list[tuple[Places, Places]]:
        """Return training and held-out examples, all with pairs that can be compared."""
        assert self.labels is not None
        return list(self.splits(self.labels, "step_size", "SGD(step_size=0.1)"))

    def judged(self, test: Places) -> Places:
        """Return a part of the held-out examples that is large enough."""
        return test[:_JUDGED]

    def judge(self, y: Vector, scores: Vector, test: Places, weight: Vector) -> float:
        """Return the concordance index; `weight` may be empty."""
        assert self.labels is not None
        own = weight if len(weight) else None
        return self.metric(self.labels[test], scores, sample_weight=own)

    def splits(
        self, labels: NDArray[Any], what: str, instead: str
    ) -> Iterator[tuple[Places, Places]]:
        """Yield folds that can choose a setting; raise if there is none."""
        assert self.keys is not None
        n_events, share = int(np.count_nonzero(labels["event"])), self.validation_fraction
        n_folds, some = n_folds_of(share, n_events), False
        n_held = 1 if share * n_events >= _ENOUGH else None
        members = members_of(labels["event"])
        for split in stratified(members, n_folds, self.keys, n_held=n_held) if n_folds > 1 else ():
            try:
                for part in split:
                    comparable_pairs(labels[part], self.metric.tau)
            except ValueError:
                continue  # too few events for this fold
            some = True
            yield split
        if not some:
            name = what.replace("_", " ")
            raise ValueError(
                f"y holds too few events ({n_events}) to choose a {name} on held-out folds; give "
                f"one, for example solver={instead}."
            )


class ExactWay:
    """How the ranker trains by `Exact`: the minimiser over all comparable pairs."""

    def __init__(self, task: SurvivalTask, solver: Exact) -> None:
        self._task, self._solver = task, solver

    def fit(self, rows: Rows, y: NDArray[Any], weight: Vector) -> Fitted:
        """Return the minimiser, and the ridge that was chosen; `y` holds events and times."""
        task, choice = self._task, Choice(ridge=self._solver.given_ridge)
        weight = weight if len(weight) else np.ones(len(y))
        if choice.ridge is None:
            choice = self._choose(rows, y, weight)
        assert choice.ridge is not None
        w, n_evaluations = self._objective(rows, y, weight).minimise(choice.ridge)
        return Fitted(w, self._solver.name, task.loss, choice, Trace(n_steps=n_evaluations))

    def _choose(self, rows: Rows, y: NDArray[Any], weight: Vector) -> Choice:
        """Return the ridge of the best concordance on held-out folds, and the evidence."""
        task = self._task
        found: list[list[float]] = [[] for _ in _RIDGES]
        for train, test in task.splits(y, "ridge", "Exact(ridge=0.1)"):
            objective = self._objective(rows.take(train), y[train], weight[train])
            held, w = rows.take(test), np.zeros(rows.shape[1])
            for worth, ridge in zip(found, _RIDGES, strict=True):
                w, _ = objective.minimise(ridge, w, tolerance=1e-6)
                worth.append(task.metric(y[test], held.scores(w), sample_weight=weight[test]))
        best = best_of(
            ({"ridge": ridge}, ridge, worth) for ridge, worth in zip(_RIDGES, found, strict=True)
        )
        return Choice(ridge=best.model, evidence=best.evidence, tried=best.tried)

    def _objective(self, rows: Rows, y: NDArray[Any], weight: Vector) -> SurvivalObjective:
        """Return the loss over the comparable pairs of some examples."""
        pairs = comparable_pairs(y, self._task.metric.tau)
        mass = weight * pairs.event
        if self._task.metric.ipcw:
            mass /= censoring_free(y, weight) ** 2
        return SurvivalObjective(rows, pairs, self._task.loss, weight, mass)


class SurvivalDescent(RankerDescent):
    """How the ranker trains by `SGD`: the paper's algorithm over compared pairs."""

    def __init__(self, task: SurvivalTask, solver: SGD) -> None:
        super().__init__(task, solver)
        task.pairing(solver.pairing)  # refuses some before anything is read

    def fit(self, rows: Rows, y: NDArray[Any], weight: Vector) -> Fitted:
        """Return the average of Algorithm 1; `y` holds events and times."""
        task = self.task
        assert isinstance(task, SurvivalTask)
        labels = pair_labels(y, task.metric, weight if len(weight) else np.ones(len(y)))
        return RankerDescent(replace(task, labels=y), self.solver).fit(rows, labels, weight)

    def stream(self, n_features: int, before: tuple[Vector, int] | None = None) -> RankerStream:
        """Return what learns chunks; refuse weights that need all examples."""
        assert isinstance(self.task, SurvivalTask)
        if self.task.metric.ipcw:
            raise ValueError(
                "ipcw=True weighs pairs by the censoring of all examples, which a stream does not "
                "know; use fit, or leave out ipcw."
            )
        return super().stream(n_features, before)


def pair_labels(y: NDArray[Any], metric: ConcordanceIndex, weight: Vector) -> Vector:
    r"""Return the labels by which `EarlierEvent` compares stored examples.

    They are signed times from the smallest on, or, with ``ipcw``, signed weights: the weight
    :math:`\hat G(t)^{-2}` of a pair does not fall with t. Where it stays the same, each later time
    gets the next larger floating-point number, so that labels order the examples as times do. A
    weight is too large by at most n units in its last place, 2.2e-10 of it for a million examples.
    Weights are divided by their mean over the events, so that a step size means the same with and
    without them. Events at or after tau carry the sign of those without an event.
    """
    event = comparable_pairs(y, metric.tau).event
    if not metric.ipcw:
        # times of any sign have an order, and labels carry a sign of their own
        return signed_times(event, y["time"] - min(float(y["time"].min()), 0.0))
    own = censoring_free(y, weight) ** -2.0
    own /= np.average(own, weights=weight * event)
    times, place = np.unique(y["time"], return_inverse=True)
    of_time = np.empty(len(times))
    of_time[place] = own
    # positive floating-point numbers are ordered as their bits are
    later = np.arange(len(times))
    bits = np.maximum.accumulate(of_time.view(np.int64) - later) + later
    return signed_times(event, bits.view(np.float64)[place])
