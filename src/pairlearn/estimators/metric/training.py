# SPDX-License-Identifier: BSD-3-Clause
"""How a metric is trained, and how its step size is chosen on held-out data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pairlearn.averaging import Averaging
from pairlearn.domains import PsdBall, PsdCone
from pairlearn.estimators.metric.neighbors import neighbor_pairs
from pairlearn.estimators.metric.start import components_of, sample_differences, unit_step
from pairlearn.metrics import roc_auc
from pairlearn.pairings import GivenPairs, ListedPairs, Pairing
from pairlearn.problem import Problem
from pairlearn.schedules import Schedule
from pairlearn.scores import MahalanobisScore
from pairlearn.solvers.descent.pairwise_sgd import PairwiseSGD
from pairlearn.typing import Mask, Vector
from pairlearn.validation import DivergenceError

__all__ = ["Examples", "Learned", "Training", "choose", "choose_step_size", "held_out_masks"]

#: Step size of the second round with neighbours, in units of the first one.
_FINER = 1.0 / 3.0
#: Steps of the runs that choose the step size, at most.
_CHOICE_STEPS = 50_000
#: With fewer held-out examples than this, three parts are held out in turn.
_ENOUGH = 1000
#: Examples that a candidate is judged by, and that it finds neighbours among, at most.
_QUERIES, _NEIGHBORS = 1000, 5000


@dataclass(frozen=True)
class Examples:
    """Rows, labels as numbers, and weights (one for each row, or none)."""

    rows: Vector
    y: Vector
    weight: Vector

    def part(self, mask: Mask) -> Examples:
        """Return the examples that a mask selects."""
        weight = self.weight[mask] if len(self.weight) else self.weight
        return Examples(self.rows[mask], self.y[mask], weight)


@dataclass(frozen=True)
class Learned:
    """A parameter and what it took."""

    w: Vector
    n_steps: int
    n_gradients: int


@dataclass(frozen=True)
class Training:
    """How a metric is learned, apart from where to start and how far to step.

    The schedule is multiplied by the step size. Without a pairing near examples meet: half of them
    look for their neighbours in the Euclidean metric, for the first half of the steps, and the
    others in the metric that this has led to, for the second half, whose steps are a third as long
    in units of what moves the distance of a typical pair by 1. `n_neighbors` also judge held-out
    examples.
    """

    problem: Problem
    domain: PsdCone | PsdBall
    schedule: Schedule
    averaging: Averaging
    pairing: Pairing | None
    n_neighbors: int

    @property
    def score(self) -> MahalanobisScore:
        """The score of the problem."""
        score = self.problem.score
        assert isinstance(score, MahalanobisScore)
        return score

    @property
    def paired(self) -> bool:
        """Whether rows 2k and 2k + 1 belong together."""
        return isinstance(self.pairing, GivenPairs)

    def pair(self, rows: Vector, y: Vector, rng: np.random.Generator) -> Pairing:
        """Return the pairing of the first steps."""
        if self.pairing is not None:
            return self.pairing
        half = np.sort(rng.permutation(len(y))[: (len(y) + 1) // 2])
        return neighbor_pairs(rows, y, self.n_neighbors, half, rng)

    def unit(self, differences: Vector) -> float:
        """Return the step size that moves the squared distance of a typical pair by about 1."""
        return unit_step(self.score, self.problem.loss, differences)

    def run(
        self,
        data: Examples,
        pairing: Pairing,
        *,
        start: Vector,
        step_size: float,
        unit: float,
        n_steps: int,
        rng: np.random.Generator,
    ) -> Learned:
        """Return what `n_steps` steps from `start` lead to.

        `pairing` is that of `pair`, and `unit` the unit step of its pairs.
        """
        if self.pairing is not None:
            return self._descend(data, pairing, start, step_size, n_steps, rng)
        assert isinstance(pairing, ListedPairs)
        rows = data.rows
        half = (n_steps + 1) // 2
        coarse = self._descend(data, pairing, start, step_size, half, rng)
        others = np.setdiff1d(np.arange(len(rows)), pairing.left)
        if half == n_steps or not len(others):
            return coarse
        image = rows @ components_of(self.score, coarse.w, rows.shape[1]).T
        again = neighbor_pairs(image, data.y, self.n_neighbors, others, rng)
        # Neighbours in the learned metric may be far apart in features that it has found useless.
        step_size *= _FINER * self.unit(sample_differences(rows, again, rng)) / unit
        fine = self._descend(data, again, coarse.w, step_size, n_steps - half, rng)
        return Learned(fine.w, coarse.n_steps + fine.n_steps, coarse.n_gradients + fine.n_gradients)

    def _descend(
        self,
        data: Examples,
        pairing: Pairing,
        start: Vector,
        step_size: float,
        n_steps: int,
        rng: np.random.Generator,
    ) -> Learned:
        solver = PairwiseSGD(pairing, self.schedule.scaled(step_size), self.domain, self.averaging)
        solution = solver.solve(
            self.problem,
            data.rows,
            data.y,
            n_steps=n_steps,
            rng=rng,
            w_start=start,
            example_weight=data.weight if len(data.weight) else None,
        )
        return Learned(solution.average, solution.trace.n_steps, solution.trace.n_gradients)


def choose(
    training: Training,
    candidates: Sequence[tuple[float, int]],
    data: Examples,
    *,
    start: Vector,
    folds: Sequence[Mask],
    rng: np.random.Generator,
) -> tuple[int, float]:
    """Return which step size and number of steps is best on held-out data, and its score.

    A step size of 0 stands for the starting point. The score is the mean over folds (masks of the
    examples or pairs to hold out, in turn) of the accuracy of nearest neighbours, or for given
    pairs of the AUC of their distances. The first of equal candidates is taken.
    """
    total = np.zeros(len(candidates))
    d = data.rows.shape[1]
    for held in folds:
        out = np.repeat(held, 2) if training.paired else held
        train, test = data.part(~out), data.part(out)
        if not training.paired and len(np.unique(train.y)) < 2:
            continue
        seed = int(rng.integers(2**63))
        pairing = training.pair(train.rows, train.y, rng)
        unit = training.unit(sample_differences(train.rows, pairing, rng))
        for position, (step_size, n_steps) in enumerate(candidates):
            w = start.ravel()
            if step_size > 0:
                try:
                    w = training.run(
                        train,
                        pairing,
                        start=start,
                        step_size=step_size,
                        unit=unit,
                        n_steps=n_steps,
                        rng=np.random.default_rng(seed),
                    ).w
                except DivergenceError:
                    total[position] = -np.inf
                    continue
            components = components_of(training.score, w, d)
            total[position] += (
                _judge_by_pairs(components, test)
                if training.paired
                else _judge_by_neighbors(components, train, test, training.n_neighbors)
            )
    best = int(np.argmax(total))
    return best, float(total[best] / len(folds))


def choose_step_size(
    training: Training,
    step_sizes: Sequence[float],
    data: Examples,
    *,
    start: Vector,
    n_steps: int,
    folds: Sequence[Mask],
    rng: np.random.Generator,
) -> tuple[float, float]:
    """Return the step size that is best on held-out data, 0 for the start, and its score."""
    n_choice = min(n_steps, _CHOICE_STEPS)
    # The best constant step is proportional to 1/sqrt(T) (Theorem 6a).
    stretch = float(np.sqrt(n_steps / n_choice)) if training.schedule.is_constant else 1.0
    tried = [0.0, *step_sizes]
    candidates = [(stretch * step_size, n_choice) for step_size in tried]
    best, score = choose(training, candidates, data, start=start, folds=folds, rng=rng)
    return tried[best], score


def held_out_masks(n: int, fraction: float, rng: np.random.Generator) -> list[Mask]:
    """Return which of n examples (pairs) to hold out: once, or three parts in turn."""
    order = rng.permutation(n)
    if fraction * n >= _ENOUGH:
        parts = [order[: round(fraction * n)]]
    else:
        size = min(max(round(fraction * n), 1), max(n // 2, 1))
        parts = [np.roll(order, -k * size)[:size] for k in range(3)]
    masks = []
    for part in parts:
        mask = np.zeros(n, dtype=bool)
        mask[part] = True
        masks.append(mask)
    return masks


def _judge_by_neighbors(
    components: Vector, train: Examples, held: Examples, n_neighbors: int
) -> float:
    """Return the (weighted) accuracy of nearest neighbours on held-out examples."""
    from sklearn.neighbors import KNeighborsClassifier

    X, y = train.rows[:_NEIGHBORS], train.y[:_NEIGHBORS]
    queries, held_y = held.rows[:_QUERIES], held.y[:_QUERIES]
    weight = held.weight[:_QUERIES] if len(held.weight) else None
    model = KNeighborsClassifier(min(n_neighbors, len(y)))
    model.fit(X @ components.T, y)
    return float(model.score(queries @ components.T, held_y, sample_weight=weight))


def _judge_by_pairs(components: Vector, held: Examples) -> float:
    """Return the AUC of distances on held-out pairs, given as rows 2k and 2k + 1."""
    image = (held.rows[::2] - held.rows[1::2]) @ components.T
    similar = held.y[::2] == held.y[1::2]
    if similar.all() or not similar.any():
        return 0.5
    return roc_auc(similar, -np.einsum("nk,nk->n", image, image))
