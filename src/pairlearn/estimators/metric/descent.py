# SPDX-License-Identifier: BSD-3-Clause
"""A metric by stochastic gradient descent: Algorithm 1 on stored examples, 2 on a stream."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pairlearn.estimators.metric.solver import MetricSGD, as_metric_sgd
from pairlearn.estimators.metric.start import (
    Differences,
    sample_differences,
    start_from,
    unit_step,
)
from pairlearn.estimators.metric.training import (
    Examples,
    Training,
    choose,
    choose_step_size,
    held_out_masks,
)
from pairlearn.estimators.shared.evidence import Best, Choice
from pairlearn.estimators.shared.scaling import Scaling
from pairlearn.estimators.shared.solvers import SGD, Fitted, auto_steps, way_of
from pairlearn.problem import Problem
from pairlearn.restored import (
    check_as_saved,
    restored_array,
    restored_count,
    restored_weights,
)
from pairlearn.scores import MahalanobisScore
from pairlearn.solvers.descent.pairwise_sgd import PairwiseSGD
from pairlearn.solvers.descent.stream import Stream
from pairlearn.solvers.rows import DenseRows, Rows
from pairlearn.solvers.solution import Trace
from pairlearn.solvers.streams.running_scales import RunningScales
from pairlearn.typing import Vector
from pairlearn.validation import check_generator, check_positive

#: The metric that a stream goes on from, as the score parameterises it, and its number of steps.
Before = tuple[Vector, int]
#: Rows, labels and weights of a chunk.
Chunk = tuple[Vector, Vector, Vector]

#: Step sizes of the grid in units of `unit_step`.
_STEPS = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
#: The step size for pairs of near examples, in the same units.
_NEIGHBOR_STEP = 0.1
#: The step size c of a stream in the same units, with steps c / sqrt(t).
_STREAM_STEP = 1.0
#: n_passes="auto" takes at least this many steps where the step size is chosen.
_AUTO_STEPS = 10_000
#: n_passes="auto" takes at least this many passes, however many steps they are.
_AUTO_PASSES = 8
#: Numbers of passes that n_passes="auto" tries where the step size is known.
_PASSES = (10, 50, 200)
#: n_passes="auto" tries no more steps than this, since longer runs hardly differ: the first number
#: for many features, the second for few. A step changes d^2 numbers, and on three sets of 180 and
#: 256 features 200,000 steps were no better than 50,000, at four times the time.
_MOST_STEPS = (50_000, 200_000)
#: Between the two, the numbers that all steps change together.
_MOST_CHANGES = 2e9
#: Rows that a scaled stream collects before it chooses a starting point and a step size.
_WARM_UP = 64


@dataclass(frozen=True)
class MetricTask:
    """What a solver of a metric learner is asked to do: everything about a fit but the examples."""

    problem: Problem
    #: "auto", "identity" or the metric to start from, in the units of the user.
    init: Any
    #: Whether rows 2k and 2k + 1 are a given pair.
    paired: bool
    is_scaled: bool
    random_state: Any
    #: How the rows of a fit were scaled.
    scaling: Scaling | None = None
    #: Neighbours that are paired, and that judge held-out examples.
    n_neighbors: int = 3
    validation_fraction: float = 0.2

    @property
    def score(self) -> MahalanobisScore:
        """The score of the problem."""
        score = self.problem.score
        assert isinstance(score, MahalanobisScore)
        return score

    def way(self, solver: Any) -> MetricDescent:
        """Return how a metric is learned by a solver."""
        way: MetricDescent = way_of(solver, {SGD: MetricDescent}, "MetricLearner")(self, solver)
        return way


class MetricDescent:
    """How a metric learner trains by `MetricSGD`."""

    def __init__(self, task: MetricTask, solver: SGD) -> None:
        self.task, self.solver = task, as_metric_sgd(solver)

    def fit(self, rows: Rows, y: Vector, weight: Vector) -> Fitted:
        """Return the average of Algorithm 1, with the step size and length that were chosen."""
        task, solver = self.task, self.solver
        assert isinstance(rows, DenseRows)
        data = Examples(rows.X, y, weight)
        given, rng = solver.given_step, check_generator(task.random_state)
        training = Training(
            task.problem,
            solver.domain(stored=True),
            solver.schedule_for(stored=True),
            solver.averaging_for(stored=True),
            solver.pairing_for(stored=True, paired=task.paired),
            task.n_neighbors,
        )
        n = len(y) // (2 if task.paired else 1)
        pairing = training.pair(data.rows, y, rng)
        differences = sample_differences(data.rows, pairing, rng, weight)
        start = start_from(
            task.score, task.problem.loss, task.init, data.rows, differences, task.scaling, weight
        )
        unit = training.unit(differences)
        n_steps = auto_steps(solver.n_passes, n, budget=max(_AUTO_STEPS, _AUTO_PASSES * n))
        best: Best[int] | None = None
        if solver.step_size == "held_out" or (given is None and training.pairing is not None):
            step_size, best = choose_step_size(
                training,
                [c * unit for c in _STEPS],
                data,
                start=start,
                n_steps=n_steps,
                folds=held_out_masks(n, task.validation_fraction, rng),
                rng=rng,
            )
        else:
            step_size = _NEIGHBOR_STEP * unit if given is None else given
            if solver.n_passes == "auto":
                lengths = lengths_to_try(n, max(most_steps(rows.shape[1]), _AUTO_PASSES * n))
                if len(lengths) > 1:
                    best = choose(
                        training,
                        [(step_size, length) for length in lengths],
                        data,
                        start=start,
                        folds=held_out_masks(n, task.validation_fraction, rng),
                        rng=rng,
                    )
                n_steps = lengths[0 if best is None else best.model]
        w, trace = start.ravel(), Trace()
        if step_size > 0:
            w, trace = training.run(
                data, pairing, start=start, step_size=step_size, unit=unit, n_steps=n_steps, rng=rng
            )
        choice = Choice(step_size, solver.bound)
        if best is not None:
            choice = replace(choice, evidence=best.evidence, tried=best.tried)
        return Fitted(w, "sgd", task.problem.loss, choice, trace)

    def stream(self, n_features: int, before: Before | None = None) -> MetricDescentStream:
        """Return what learns chunks by Algorithm 2."""
        if self.solver.step_size == "held_out":
            raise ValueError(
                'step_size="held_out" needs all examples at once; for partial_fit give a '
                'number or "auto".'
            )
        return MetricDescentStream(self.task, self.solver, n_features, before)


def most_steps(d: int) -> int:
    """Return the most steps that n_passes="auto" tries with d features, passes aside.

    >>> most_steps(30), most_steps(180), most_steps(500)
    (200000, 61728, 50000)
    """
    return int(np.clip(_MOST_CHANGES / d**2, *_MOST_STEPS))


def lengths_to_try(n: int, most: int) -> list[int]:
    """Return numbers of steps that differ by more than a quarter, `most` at most.

    >>> lengths_to_try(1000, 200_000), lengths_to_try(1000, 61_728), lengths_to_try(2000, 61_728)
    ([10000, 50000, 200000], [10000, 50000], [20000, 61728])
    """
    lengths: list[int] = []
    for passes in _PASSES:
        length = min(passes * n, most)
        if not lengths or length > 1.25 * lengths[-1]:
            lengths.append(length)
    return lengths


class MetricDescentStream:
    """A stream by descent: some examples wait until the start is found, then Algorithm 2."""

    step_size: float
    stream: Stream

    def __init__(
        self, task: MetricTask, solver: MetricSGD, n_features: int, before: Before | None
    ) -> None:
        self.task, self._solver, self._d, self._before = task, solver, n_features, before
        #: Chunks that wait for the stream to begin; until then it stands at its start.
        self.waiting: list[Chunk] = []
        self._has_begun = False

    def learn(self, rows: Vector, y: Vector, weight: Vector) -> tuple[Vector, Vector] | None:
        """Learn a chunk; return the rows and labels that were learned, None if they wait."""
        if self._has_begun:
            self.stream.learn_many(rows, y, example_weight=weight if len(weight) else None)
            return rows, y
        if self.waiting and bool(len(weight)) != bool(len(self.waiting[0][2])):
            raise ValueError("Give sample_weight for every chunk of a stream or for none.")
        chunks = [*self.waiting, (rows, y, weight)]
        rows, y, weight = (np.concatenate(column) for column in zip(*chunks, strict=True))
        stream, step_size = self._begun(rows)
        waits = self._needs_examples and len(rows) < _WARM_UP
        if not waits:
            stream.learn_many(rows, y, example_weight=weight if len(weight) else None)
        self.stream, self.step_size = stream, step_size
        # Joined rows are copies: the caller may write the next chunk into the same arrays.
        self.waiting, self._has_begun = [(rows, y, weight)] if waits else [], not waits
        return None if waits else (rows, y)

    @property
    def _init(self) -> Any:
        """The metric of the fit before, or the parameter `init`."""
        return self.task.init if self._before is None else self._before[0]

    @property
    def _is_found(self) -> bool:
        """Whether the step size or the starting point follows from the first rows."""
        return self._solver.given_step is None or isinstance(self._init, str)

    @property
    def _needs_examples(self) -> bool:
        """Whether the stream waits for some examples before it begins."""
        return self.task.is_scaled and self._is_found

    def _begun(self, rows: Vector) -> tuple[Stream, float]:
        """Return a stream that starts from its first rows, and its step size."""
        task, init = self.task, self._init
        rng = check_generator(task.random_state)
        pairing = self._pairing()
        if self._needs_examples:
            # Rows after the warm-up do not influence the choices.
            rows = rows[:_WARM_UP]
        elif self._is_found and len(rows) < 2:
            raise ValueError(
                f"The first chunk has n_samples={len(rows)}; the scale of the data needs "
                "2 examples, or give a number as step_size and an array as init."
            )
        scales = None
        if task.is_scaled:
            scales = RunningScales(
                rows.shape[1],
                start="scaled" if isinstance(init, str) else "given",
                together=2 if task.paired else 1,
            )
            if self._needs_examples:
                known = DenseRows(rows)
                rows = scales.take(known).apply(known).X.copy()  # type: ignore[union-attr]
        differences = Differences(np.empty((0, rows.shape[1])), np.empty(0))
        if len(rows) > 1:
            differences = sample_differences(rows, pairing, rng)
        loss = task.problem.loss
        start = start_from(task.score, loss, init, rows, differences)
        step_size = self._solver.given_step
        if step_size is None:
            step_size = _STREAM_STEP * unit_step(task.score, loss, differences)
        return self._start(step_size, pairing, rng, start, scales), step_size

    def _pairing(self) -> Any:
        return self._solver.pairing_for(stored=False, paired=self.task.paired)

    def _start(
        self,
        step_size: float,
        pairing: Any,
        rng: np.random.Generator,
        start: Vector,
        scales: RunningScales | None,
    ) -> Stream:
        """Return the stream of Algorithm 2 from a starting point."""
        solver = self._solver
        descent = PairwiseSGD(
            pairing,
            solver.schedule_for(stored=False).scaled(step_size),
            solver.domain(stored=False),
            solver.averaging_for(stored=False),
        )
        return descent.start(
            self.task.problem,
            self._d,
            rng=rng,
            w_start=start,
            n_before=0 if self._before is None else self._before[1],
            scales=scales,
        )

    def state(self) -> dict[str, Any]:
        """Return everything that the next chunk depends on."""
        return {
            "step_size": self.step_size,
            "paired": self.task.paired,
            "waiting": [list(chunk) for chunk in self.waiting],
            "known": None if self._before is None else list(self._before),
            "stream": self.stream.state() if self._has_begun else None,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go back to a state."""
        step_size = check_positive("the saved step_size", state["step_size"])
        check_as_saved("step_size", self._solver.given_step, step_size)
        waiting = _checked_waiting(state["waiting"], self._d)
        self._before = self._checked_before(state.get("known"))
        if state["stream"] is None:
            if not waiting:
                raise ValueError("the saved stream has neither begun nor examples that wait.")
            self.stream, self.step_size = self._begun(np.concatenate([c[0] for c in waiting]))
            self.waiting = waiting
            return
        # The file says how large the metric is; check it before an array of that size is made.
        w = restored_array(state["stream"]["descent"], "w", (None,))
        if len(w) % self._d or not len(w):
            raise ValueError(f"the saved metric has {len(w)} entries for {self._d} features.")
        scales = RunningScales(self._d) if self.task.is_scaled else None
        rng = check_generator(self.task.random_state)
        stream = self._start(step_size, self._pairing(), rng, w, scales)
        stream.restore(state["stream"])
        self.stream, self.step_size, self._has_begun = stream, step_size, True

    def _checked_before(self, saved: Any) -> Before | None:
        """Return the metric that a saved stream goes on from, if there is one."""
        if saved is None:
            return None
        score, d = self.task.score, self._d
        shape = {"full": (d, d), "diagonal": (d,), "low_rank": (d, score.rank)}
        entries = dict(zip(("metric", "n_steps"), saved, strict=True))
        metric = restored_array(entries, "metric", shape[score.parameterization])
        return metric, restored_count(entries, "n_steps")


def _checked_waiting(saved: Any, d: int) -> list[Chunk]:
    """Return the chunks of a saved state that wait for the stream to begin."""
    if not isinstance(saved, list) or not all(isinstance(part, list) for part in saved):
        raise ValueError("the saved examples that wait are not a list of lists.")
    waiting = []
    for part in saved:
        if len(part) != 3:
            raise ValueError("the saved examples that wait are not rows, labels and weights.")
        named = dict(zip(("rows", "labels", "weights"), part, strict=True))
        rows = restored_array(named, "rows", (None, d))
        labels = restored_array(named, "labels", (len(rows),))
        weights = restored_weights(named, "weights", len(rows), optional=True)
        waiting.append((rows, labels, weights))
    if sum(len(part[0]) for part in waiting) >= _WARM_UP:
        raise ValueError("the saved examples that wait are too many; the stream has begun.")
    return waiting
