# SPDX-License-Identifier: BSD-3-Clause
"""How a metric is trained, and how its step size is chosen on held-out data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pairlearn.averaging import Averaging
from pairlearn.domains import PsdBall, PsdCone
from pairlearn.estimators.metric.start import (
    Differences,
    components_of,
    sample_differences,
    unit_step,
)
from pairlearn.estimators.shared.evidence import Best, best_of
from pairlearn.estimators.shared.weights import judged_auc
from pairlearn.pairings import GivenPairs, ListedPairs, Pairing
from pairlearn.problem import Problem
from pairlearn.schedules import Schedule
from pairlearn.scores import MahalanobisScore
from pairlearn.solvers.descent.pairwise_sgd import PairwiseSGD
from pairlearn.solvers.solution import Trace
from pairlearn.typing import Mask, Vector
from pairlearn.validation import DivergenceError

#: Step size of the second round with neighbours, in units of the first one.
_FINER = 1.0 / 3.0
#: Steps of the runs that choose the step size, at most.
_CHOICE_STEPS = 50_000
#: With fewer held-out examples than this, three parts are held out in turn.
_ENOUGH = 1000
#: A candidate is judged by at most this many held-out examples.
_QUERIES = 1000
#: It finds their neighbours among at most this many training examples.
_NEIGHBORS = 5000


Indices = NDArray[np.int64]

#: Queries whose distances are held in memory at once.
_BLOCK = 128
#: Neighbours come from at most this many examples, so that the cost grows with n, not its square.
_CANDIDATES = 20_000


def neighbor_pairs(
    X: Vector, y: Vector, n_neighbors: int, queries: Indices, rng: np.random.Generator
) -> ListedPairs:
    """Return each query with its nearest examples of its own label and of other labels.

    Nearest neighbours see near examples only, so a metric for them is best learned from near
    pairs. Each query is paired with its `n_neighbors` Euclidean neighbours of the same label and
    with as many of other labels. The nearest example of another label always counts; the next ones
    count only if they are among the 4 `n_neighbors` + 4 nearest examples of any label. The rarer
    kind of pairs is repeated, so that pairs of equal and of different labels are drawn equally
    often. With more than 20,000 examples, neighbours come from a sample of 20,000. Queries are on
    the left, their neighbours on the right.
    """
    same, other, found = _nearest(X, y, n_neighbors, queries, rng)
    kinds = []
    for members, count in zip((same, other), found.T, strict=True):
        row, place = np.nonzero(np.arange(n_neighbors) < count[:, None])
        kinds.append((queries[row], members[row, place]))
    length = max(len(row) for row, _ in kinds)
    left, right = zip(
        *((np.resize(row, length), np.resize(met, length)) for row, met in kinds if len(row)),
        strict=True,
    )
    return ListedPairs(np.concatenate(left), np.concatenate(right))


def _nearest(
    X: Vector, y: Vector, k: int, queries: Indices, rng: np.random.Generator
) -> tuple[Indices, Indices, Indices]:
    """Return the nearest examples of the same and of other labels, and how many there are."""
    from pairlearn.kernels.neighbors import nearest_of_labels

    n, m = len(y), len(queries)
    candidates = np.arange(n)
    if n > _CANDIDATES:
        candidates = rng.choice(n, _CANDIDATES, replace=False)
    candidates = candidates[np.argsort(y[candidates], kind="stable")]
    position = np.full(n, -1)
    position[candidates] = np.arange(len(candidates))
    own, labels = position[queries], y[candidates]
    first = np.searchsorted(labels, y[queries])
    last = np.searchsorted(labels, y[queries], side="right")
    # Single precision is enough to tell near from far, once the origin and the unit are sensible.
    Z = X - X.mean(axis=0)
    Z = (Z / max(float(np.abs(Z).max(initial=0.0)), np.finfo(float).tiny)).astype(np.float32)
    # ||x' - x||^2 - ||x||^2 = ||x'||^2 - 2 <x', x>, by one product of matrices.
    others = Z[candidates]
    squares = np.einsum("nd,nd->n", others, others)
    factor = np.vstack([-2.0 * others.T, squares])
    asking = np.column_stack([Z[queries], np.ones(m, dtype=np.float32)])
    same, other = np.zeros((2, m, k), dtype=np.int64)
    found = np.zeros((m, 2), dtype=np.int64)
    near = (np.empty(k, dtype=np.float32), np.empty(k, dtype=np.float32))
    for begin in range(0, m, _BLOCK):
        block = slice(begin, begin + _BLOCK)
        nearest_of_labels(
            asking[block] @ factor,
            own[block],
            first[block],
            last[block],
            4 * k + 4,
            same[block],
            other[block],
            found[block],
            near,
        )
    return candidates[same], candidates[other], found


@dataclass(frozen=True)
class Examples:
    """Rows, labels as numbers, and weights (one for each row, or none)."""

    rows: Vector
    y: Vector
    weight: Vector

    def part(self, mask: Mask | Indices) -> Examples:
        """Return the examples that a mask or indices select."""
        weight = self.weight[mask] if len(self.weight) else self.weight
        return Examples(self.rows[mask], self.y[mask], weight)


@dataclass(frozen=True)
class Training:
    """How a metric is learned, apart from the starting point and the step size.

    The step size multiplies the schedule. Without a pairing near examples meet. Half of them find
    their neighbours in the Euclidean metric, for the first half of the steps. The others find
    theirs in the metric learned so far, for the second half. These steps are a third as long, in
    units of the step that moves the distance of a typical pair by 1. `n_neighbors` is also the
    number of neighbours that judge held-out examples.
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

    def unit(self, differences: Differences) -> float:
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
    ) -> tuple[Vector, Trace]:
        """Return the average of `n_steps` steps from `start`, and the trace of the steps.

        `pairing` comes from `pair`, and `unit` is the unit step of its pairs.
        """
        if self.pairing is not None:
            return self._descend(data, pairing, start, step_size, n_steps, rng)
        assert isinstance(pairing, ListedPairs)
        rows = data.rows
        half = (n_steps + 1) // 2
        coarse = self._descend(data, pairing, start, step_size, half, rng)
        others = np.delete(np.arange(len(rows)), pairing.left)
        if half == n_steps or not len(others):
            return coarse
        image = rows @ components_of(self.score, coarse[0], rows.shape[1]).T
        again = neighbor_pairs(image, data.y, self.n_neighbors, others, rng)
        # Neighbours in the learned metric may be far apart in features that it has found useless.
        step_size *= _FINER * self.unit(sample_differences(rows, again, rng, data.weight)) / unit
        w, fine = self._descend(data, again, coarse[0], step_size, n_steps - half, rng)
        n_gradients = coarse[1].n_gradients + fine.n_gradients
        return w, Trace(n_steps=coarse[1].n_steps + fine.n_steps, n_gradients=n_gradients)

    def _descend(
        self,
        data: Examples,
        pairing: Pairing,
        start: Vector,
        step_size: float,
        n_steps: int,
        rng: np.random.Generator,
    ) -> tuple[Vector, Trace]:
        """Return the average and the trace of one run."""
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
        return solution.average, solution.trace


def choose(
    training: Training,
    candidates: Sequence[tuple[float, int]],
    data: Examples,
    *,
    start: Vector,
    folds: Sequence[Mask],
    rng: np.random.Generator,
) -> Best[int]:
    """Return the evidence of all candidates, and the position of the best one.

    A candidate is a step size and a number of steps. A step size of 0 stands for the starting
    point. The score of a fold (a mask of the examples or pairs to hold out) is the accuracy of
    nearest neighbours, or for given pairs the AUC of their distances. The first of equal
    candidates is taken.
    """
    scores = np.zeros((len(candidates), len(folds)))
    d = data.rows.shape[1]
    for fold, held in enumerate(folds):
        out = np.repeat(held, 2) if training.paired else held
        train, test = data.part(~out), data.part(out)
        if not training.paired and len(np.unique(train.y)) < 2:
            continue
        seed = int(rng.integers(2**63))
        pairing = training.pair(train.rows, train.y, rng)
        unit = training.unit(sample_differences(train.rows, pairing, rng, train.weight))
        # In the order of the data the first examples may be of one label.
        near, asked = some_of(train, _NEIGHBORS, rng), some_of(test, _QUERIES, rng)
        for position, (step_size, n_steps) in enumerate(candidates):
            w = start.ravel()
            if step_size > 0:
                try:
                    w, _ = training.run(
                        train,
                        pairing,
                        start=start,
                        step_size=step_size,
                        unit=unit,
                        n_steps=n_steps,
                        rng=np.random.default_rng(seed),
                    )
                except DivergenceError:
                    scores[position, fold] = -np.inf
                    continue
            components = components_of(training.score, w, d)
            scores[position, fold] = (
                _judge_by_pairs(components, test)
                if training.paired
                else _judge_by_neighbors(components, near, asked, training.n_neighbors)
            )
    # A candidate that diverges on one fold has lost.
    scores[np.isinf(scores).any(axis=1)] = 0.0
    return best_of(
        ({"step_size": step_size, "n_steps": n_steps}, position, scores[position].tolist())
        for position, (step_size, n_steps) in enumerate(candidates)
    )


def choose_step_size(
    training: Training,
    step_sizes: Sequence[float],
    data: Examples,
    *,
    start: Vector,
    n_steps: int,
    folds: Sequence[Mask],
    rng: np.random.Generator,
) -> tuple[float, Best[int]]:
    """Return the step size that is best on held-out data, 0 for the start, and the evidence."""
    n_choice = min(n_steps, _CHOICE_STEPS)
    # The best constant step is proportional to 1/sqrt(T) (Theorem 6a).
    stretch = float(np.sqrt(n_steps / n_choice)) if training.schedule.is_constant else 1.0
    tried = [0.0, *step_sizes]
    candidates = [(stretch * step_size, n_choice) for step_size in tried]
    best = choose(training, candidates, data, start=start, folds=folds, rng=rng)
    return tried[best.model], best


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


def some_of(data: Examples, most: int, rng: np.random.Generator) -> Examples:
    """Return at most so many of the examples, drawn at random, in their order."""
    n = len(data.y)
    return data if n <= most else data.part(np.sort(rng.choice(n, most, replace=False)))


def _judge_by_neighbors(
    components: Vector, train: Examples, held: Examples, n_neighbors: int
) -> float:
    """Return the accuracy of nearest neighbours on held-out examples.

    Each neighbour votes with its weight, and each held-out example counts with its own. Of equal
    sums of votes the first label wins.
    """
    from sklearn.neighbors import NearestNeighbors

    finder = NearestNeighbors(n_neighbors=min(n_neighbors, len(train.y)))
    finder.fit(train.rows @ components.T)
    near = finder.kneighbors(held.rows @ components.T, return_distance=False)
    labels, codes = np.unique(train.y, return_inverse=True)
    votes = np.zeros((len(near), len(labels)))
    asking = np.arange(len(near))
    for column in near.T:
        votes[asking, codes[column]] += train.weight[column] if len(train.weight) else 1.0
    right = labels[np.argmax(votes, axis=1)] == held.y
    # Rounded, so that the rounding errors of weights do not decide between equals.
    return round(float(np.average(right, weights=held.weight if len(held.weight) else None)), 12)


def _judge_by_pairs(components: Vector, held: Examples) -> float:
    """Return the AUC of distances on held-out pairs, given as rows 2k and 2k + 1."""
    image = (held.rows[::2] - held.rows[1::2]) @ components.T
    similar = held.y[::2] == held.y[1::2]
    if similar.all() or not similar.any():
        return 0.5
    # Each of the two rows has the square root of the weight of its pair.
    weight = held.weight[::2] * held.weight[1::2] if len(held.weight) else held.weight
    return judged_auc(np.where(similar, 1.0, -1.0), -np.einsum("nk,nk->n", image, image), weight)
