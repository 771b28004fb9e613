# SPDX-License-Identifier: BSD-3-Clause
"""How the survival ranker trains: by all pairs at once, or by steps over compared pairs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pairlearn.comparisons import EarlierEvent, signed_times
from pairlearn.estimators.shared.descent import RankerDescent
from pairlearn.estimators.shared.evidence import Choice, best_of
from pairlearn.estimators.shared.solvers import SGD, Exact, Fitted, Moments, way_of
from pairlearn.folds import Keys, members_of, n_folds_of, stratified
from pairlearn.losses import PairLoss
from pairlearn.metrics.concordance import (
    SURVIVAL,
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
    #: What was taken off all times, so that none is negative.
    origin: float = 0.0

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
        tau = self.metric.tau
        comparison = EarlierEvent(None if tau is None else tau - self.origin)
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

    def pair_scale(self, rows: Rows, given: str | Pairing) -> float:
        """Return the mean squared distance of two examples."""
        assert self.keys is not None
        return mean_pair_distance(rows.take(self.keys.permutation(np.arange(rows.shape[0]))))

    def folds(self, y: Vector) -> list[tuple[Places, Places]]:
        """Return training and held-out examples, all with pairs that can be compared."""
        labels = self.as_times(y)
        return list(self.splits(labels, "step_size", "SGD(step_size=0.1)"))

    def judged(self, test: Places) -> Places:
        """Return a part of the held-out examples that is large enough."""
        return test[:_JUDGED]

    def judge(self, y: Vector, scores: Vector, test: Places) -> float:
        """Return the concordance index."""
        return self.metric(self.as_times(y), scores)

    def as_times(self, y: Vector) -> NDArray[Any]:
        """Return events and times of signed times."""
        found = np.empty(len(y), dtype=SURVIVAL)
        found["event"], found["time"] = ~np.signbit(y), np.abs(y) + self.origin
        return found

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
        if task.metric.ipcw:
            raise ValueError(
                "ipcw=True weighs pairs by the censoring of all examples, which steps over pairs "
                "do not know; use solver='exact', or leave out ipcw."
            )
        super().__init__(task, solver)
        task.pairing(solver.pairing)  # refuses some before anything is read

    def fit(self, rows: Rows, y: NDArray[Any], weight: Vector) -> Fitted:
        """Return the average of Algorithm 1; `y` holds events and times."""
        task = self.task
        assert isinstance(task, SurvivalTask)
        # times of any sign have an order, and labels carry a sign of their own
        origin = min(float(y["time"].min()), 0.0)
        times = signed_times(y["event"], y["time"] - origin)
        return RankerDescent(replace(task, origin=origin), self.solver).fit(rows, times, weight)
