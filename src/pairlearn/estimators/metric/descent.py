# SPDX-License-Identifier: BSD-3-Clause
"""A metric by stochastic gradient descent: where it starts, and what held-out data choose."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairlearn.averaging import AVERAGINGS, Averaging
from pairlearn.domains import PsdBall, PsdCone
from pairlearn.estimators.shared.scaling import Scaling
from pairlearn.estimators.shared.solvers import SGD, SOLVERS, as_schedule, auto_steps
from pairlearn.estimators.shared.weights import judged_auc
from pairlearn.losses import PairLoss
from pairlearn.pairings import PAIRINGS, GivenPairs, Pairing, Plan
from pairlearn.pairings.pairs import ListedPairs
from pairlearn.pairings.sound import sound_source
from pairlearn.problem import Problem
from pairlearn.scores import MahalanobisScore
from pairlearn.solvers.descent.pairwise_sgd import PairwiseSGD
from pairlearn.solvers.rows import NO_WEIGHTS
from pairlearn.solvers.solution import Trace
from pairlearn.typing import Vector
from pairlearn.validation import DivergenceError, check_positive

#: Steps between two projections of projection="auto".
_PERIOD = 2000
#: Step sizes of the grid in units of `unit_step`.
_STEPS = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
#: The step size for pairs of near examples, in the same units.
_NEIGHBOR_STEP = 0.1
#: n_passes="auto" takes at least this many steps where the step size is chosen, and passes.
_AUTO_STEPS, _AUTO_PASSES = 10_000, 8
#: The most steps of the runs that choose the step size.
_CHOICE_STEPS = 50_000
#: Numbers of passes that n_passes="auto" tries where the step size is known.
_PASSES = (10, 50, 200)
#: n_passes="auto" tries no more steps than this, since longer runs hardly differ: the first number
#: for many features, the second for few.
_MOST_STEPS = (50_000, 200_000)
#: Between the two, the numbers that all steps change together.
_MOST_CHANGES = 2e9
#: With fewer held-out examples than this, three parts are held out.
_ENOUGH = 1000
#: A candidate is judged by at most so many held-out examples, with neighbours among so many others.
_QUERIES, _NEIGHBORS = 1000, 5000
#: Near examples come from at most this many: the cost grows with their square.
_PAIRED = 10_000

#: Pairs that distances are averaged over.
_PAIRS = 1000
#: The ridge of the closed form, in units of the mean variance inside classes.
_RIDGE = 0.3
#: The smallest eigenvalue of the closed form, in units of the largest.
_FLOOR = 0.1

Indices = NDArray[np.int64]
#: Differences x - x' of some pairs, and weights of the pairs that add up to 1.
Differences = tuple[Vector, Vector]


@SOLVERS.add()
@dataclass(frozen=True, repr=False)
class MetricSGD(SGD):
    """Stochastic gradient descent over positive semi-definite matrices, for `MetricLearner`.

    Parameters
    ----------
    step_size : float, "auto" or "held_out", default="auto"
        The scale of the step sizes. The unit step moves the squared distance of a typical pair by
        1. "auto" takes 0.1 units for pairs of near examples, and for other pairs "held_out".
        "held_out" trains a grid on a part of the training data and keeps the best by nearest
        neighbours on the rest; the starting point is one of the candidates. For given pairs, it
        keeps the best by the AUC of held-out pairs.
    radius : float or "auto", default="auto"
        Bound on the Frobenius norm of W. "auto" means none, and so does infinity.
    n_passes : float or "auto", default="auto"
        Number of steps in units of the number of examples (of pairs). "auto" takes the best of 10,
        50 and 200 passes on held-out examples, but at most 200,000 steps (from 100 features on
        fewer, at least 50,000) or 8 passes. Where the step size is chosen, it takes 8 passes, or
        more up to 10,000 steps, but at most 200 passes.
    schedule : str or Schedule, default="auto"
        "constant" (the default), "inverse_sqrt", "inverse_time", or a schedule, whose scale the
        step size multiplies.
    averaging : str or Averaging, default="auto"
        "tail" (the default: the mean over the second half of the steps, since the starting point is
        far from neutral), "step_size" (the paper's average), "linear", "uniform", "last", or a
        rule.
    pairing : str or Pairing, default="auto"
        "neighbors" (the default) draws pairs from the nearest examples of each example, those of
        its own label and those of other labels equally often; near in the closed-form metric
        (see `MetricLearner`, `init`). "previous" is the paper's,
        "shuffled" the same with passes in random order; "random"; or a pairing of one pair a step.
        Given pairs are taken as they are.
    max_memory : float, default=2**30
        Bytes that mapped rows may take.
    projection : {"auto", "exact", "every"}, default="auto"
        "exact" projects W onto the PSD cone at each step that leaves it: it finds the one negative
        eigenvalue, see `pairlearn.kernels.steps.mahalanobis`. "every" projects after each `period`
        steps, by a full eigendecomposition. "auto" is every 2000 steps. The result is positive
        semi-definite in any case.
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
        self.domain()

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

    def domain(self) -> PsdCone | PsdBall:
        """Return the matrices that W lives in."""
        projection, period = self.projection, self.period
        if projection == "auto":
            projection, period = ("every", _PERIOD) if period == 1 else ("exact", period)
        radius = self.given_radius
        if radius is None or math.isinf(radius):
            return PsdCone(projection=projection, period=period)
        return PsdBall(radius, projection=projection, period=period)


@dataclass(frozen=True)
class Examples:
    """Rows, labels as numbers, and weights (one for each row, or none)."""

    rows: Vector
    y: Vector
    weight: Vector
    #: Whether rows 2k and 2k + 1 are a given pair.
    paired: bool

    def __len__(self) -> int:
        return len(self.y) // 2 if self.paired else len(self.y)

    def part(self, index: Indices) -> Examples:
        """Return some of the examples (pairs)."""
        if self.paired:
            index = np.column_stack([2 * index, 2 * index + 1]).ravel()
        weight = self.weight[index] if len(self.weight) else self.weight
        return Examples(self.rows[index], self.y[index], weight, self.paired)

    def sample(self, most: int, rng: np.random.Generator) -> Examples:
        """Return at most so many of the examples, drawn at random, in their order."""
        n = len(self)
        return self if n <= most else self.part(np.sort(rng.choice(n, most, replace=False)))


def learn_metric(
    problem: Problem,
    solver: MetricSGD,
    data: Examples,
    *,
    init: Any,
    scaling: Scaling | None,
    n_neighbors: int,
    validation_fraction: float,
    rng: np.random.Generator,
) -> tuple[Vector, float, float | None, Trace]:
    """Return the average of Algorithm 1, and the step size that was chosen, by which score."""
    score, d = problem.score, data.rows.shape[1]
    assert isinstance(score, MahalanobisScore)
    by_neighbors = not data.paired and solver.pairing in ("auto", "neighbors")

    def pairing_of(examples: Examples) -> Pairing:
        if examples.paired:
            return GivenPairs()
        if not by_neighbors:
            return PAIRINGS.make(solver.pairing)
        W = closed_form(examples.rows, examples.y, examples.weight)
        image = examples.rows @ components_of(MahalanobisScore(), W, d).T
        return neighbor_pairs(image, examples.y, n_neighbors, rng)

    pairing, loss = pairing_of(data), problem.loss
    differences = sample_differences(data.rows, pairing, rng, data.weight)
    metric = closed_form(data.rows, data.y, data.weight) if by_neighbors else None
    start = start_from(score, loss, init, data.rows, differences, scaling, data.weight, metric)
    unit = unit_step(score, loss, differences)

    def descend(
        examples: Examples, pairing: Pairing, step_size: float, n_steps: int, seed: int
    ) -> tuple[Vector, Trace]:
        if step_size == 0.0:
            return components_of(score, start.ravel(), d), Trace()
        averaging = "tail" if solver.averaging == "auto" else solver.averaging
        schedule = as_schedule(solver.schedule, default="constant").scaled(step_size)
        solution = PairwiseSGD(
            pairing, schedule, solver.domain(), AVERAGINGS.make(averaging)
        ).solve(
            problem,
            examples.rows,
            examples.y,
            n_steps=n_steps,
            rng=np.random.default_rng(seed),
            w_start=start,
            example_weight=examples.weight if len(examples.weight) else None,
        )
        # Iterates between two projections may have left the cone, and their average with them:
        # `components_of` leaves the negative eigenvalues out, which projects it.
        return components_of(score, solution.average, d), solution.trace

    def judge(held_out: Indices, rest: Indices, candidates: list[tuple[float, int]]) -> list[float]:
        train, test = data.part(rest), data.part(held_out)
        if not train.paired and len(np.unique(train.y)) < 2:
            return [0.0] * len(candidates)
        pairing, seed = pairing_of(train), int(rng.integers(2**63))
        # In the order of the data the first examples may be of one label.
        near, asked = train.sample(_NEIGHBORS, rng), test.sample(_QUERIES, rng)
        found = []
        for step_size, n_steps in candidates:
            try:
                components, _ = descend(train, pairing, step_size, n_steps, seed)
            except DivergenceError:
                found.append(-np.inf)
                continue
            found.append(
                _judge_by_pairs(components, test)
                if train.paired
                else _judge_by_neighbors(components, near, asked, n_neighbors)
            )
        return found

    candidates, stretch = _candidates(solver, len(data), d, unit, by_neighbors=by_neighbors)
    (step_size, n_steps), held_out_score = candidates[0], None
    if len(candidates) > 1:
        best, held_out_score = _choose(judge, candidates, len(data), validation_fraction, rng)
        step_size, n_steps = candidates[best]
        n_steps, step_size = round(n_steps * stretch), step_size / math.sqrt(stretch)
    components, trace = descend(data, pairing, step_size, n_steps, int(rng.integers(2**63)))
    return components, step_size, held_out_score, trace


def _candidates(
    solver: MetricSGD, n: int, d: int, unit: float, *, by_neighbors: bool
) -> tuple[list[tuple[float, int]], float]:
    """Return step sizes and numbers of steps to try, and how much longer the best one then runs.

    A constant step size shrinks with the root of the length (Theorem 6a).
    """
    given_step = solver.given_step
    n_steps = auto_steps(solver.n_passes, n, budget=max(_AUTO_STEPS, _AUTO_PASSES * n))
    if solver.step_size == "held_out" or (given_step is None and not by_neighbors):
        length = min(n_steps, _CHOICE_STEPS)
        constant = as_schedule(solver.schedule, default="constant").is_constant
        longer = math.sqrt(n_steps / length) if constant else 1.0
        tried = [(0.0, 0), *((longer * c * unit, length) for c in _STEPS)]
        return tried, n_steps / length
    step_size = _NEIGHBOR_STEP * unit if given_step is None else given_step
    if solver.n_passes != "auto":
        return [(step_size, n_steps)], 1.0
    most = max(int(np.clip(_MOST_CHANGES / d**2, *_MOST_STEPS)), _AUTO_PASSES * n)
    # lengths that differ by more than a quarter
    tried = [(step_size, min(_PASSES[0] * n, most))]
    for passes in _PASSES[1:]:
        if min(passes * n, most) > 1.25 * tried[-1][1]:
            tried.append((step_size, min(passes * n, most)))
    return tried, 1.0


def _choose(
    judge: Callable[[Indices, Indices, list[tuple[float, int]]], list[float]],
    candidates: list[tuple[float, int]],
    n: int,
    fraction: float,
    rng: np.random.Generator,
) -> tuple[int, float]:
    """Return the position of the best candidate, the first of equals, and its mean score."""
    from sklearn.model_selection import ShuffleSplit

    splits = ShuffleSplit(
        1 if fraction * n >= _ENOUGH else 3,
        test_size=min(max(round(fraction * n), 1), max(n // 2, 1)),
        random_state=int(rng.integers(2**31)),
    )
    scores = np.array([judge(test, rest, candidates) for rest, test in splits.split(np.empty(n))])
    # A candidate that diverges on one part has lost.
    means = np.where(np.isinf(scores).any(axis=0), 0.0, scores.mean(axis=0))
    best = int(np.argmax(means))
    return best, float(means[best])


def neighbor_pairs(X: Vector, y: Vector, n_neighbors: int, rng: np.random.Generator) -> ListedPairs:
    """Return each example with its nearest examples of its own label and of other labels.

    Each example is paired with its `n_neighbors` Euclidean neighbours of the same label and with as
    many of other labels. The nearest example of another label always counts; the next ones count
    only if they are among the 4 `n_neighbors` + 4 nearest examples of any label. The rarer kind of
    pairs is repeated, so that both kinds are drawn equally often. Of more than 10,000 examples a
    sample of 10,000 is paired.
    """
    from sklearn.neighbors import NearestNeighbors

    n, k = len(y), n_neighbors
    sample = np.arange(n) if n <= _PAIRED else np.sort(rng.choice(n, _PAIRED, replace=False))
    # Single precision is enough to tell near from far, once the origin and the unit are sensible.
    Z = X[sample] - X[sample].mean(axis=0)
    Z = (Z / max(float(np.abs(Z).max(initial=0.0)), np.finfo(float).tiny)).astype(np.float32)
    labels = y[sample]
    reach = min(4 * k + 4, len(Z) - 1)
    finder = NearestNeighbors(n_neighbors=reach).fit(Z)
    limit = finder.kneighbors()[0][:, -1] if reach else np.zeros(1)
    same, other = [], []
    for label in np.unique(labels):
        members, rest = np.flatnonzero(labels == label), np.flatnonzero(labels != label)
        if len(members) > 1:
            finder = NearestNeighbors(n_neighbors=min(k, len(members) - 1)).fit(Z[members])
            near = members[finder.kneighbors(return_distance=False)]
            same.append((np.repeat(members, near.shape[1]), near.ravel()))
        if len(rest):
            finder = NearestNeighbors(n_neighbors=min(k, len(rest))).fit(Z[rest])
            distance, place = finder.kneighbors(Z[members])
            counts = distance <= limit[members][:, None]
            counts[:, 0] = True
            row, column = np.nonzero(counts)
            other.append((members[row], rest[place[row, column]]))
    kinds = [
        (np.concatenate(left), np.concatenate(right))
        for left, right in (tuple(zip(*kind, strict=True)) for kind in (same, other) if kind)
    ]
    # In the order of the examples: labels may be called as they like.
    orders = [np.argsort(left, kind="stable") for left, _ in kinds]
    kinds = [(left[o], right[o]) for (left, right), o in zip(kinds, orders, strict=True)]
    length = max(len(left) for left, _ in kinds)
    left, right = (
        np.concatenate([np.resize(side, length) for side in sides])
        for sides in zip(*kinds, strict=True)
    )
    return ListedPairs(sample[left], sample[right])


def _judge_by_neighbors(
    components: Vector, train: Examples, held_out: Examples, n_neighbors: int
) -> float:
    """Return the accuracy of nearest neighbours on held-out examples, both with their weights."""
    from sklearn.neighbors import NearestNeighbors

    finder = NearestNeighbors(n_neighbors=min(n_neighbors, len(train.y)))
    finder.fit(train.rows @ components.T)
    near = finder.kneighbors(held_out.rows @ components.T, return_distance=False)
    labels, codes = np.unique(train.y, return_inverse=True)
    votes = np.zeros((len(near), len(labels)))
    asking = np.arange(len(near))
    for column in near.T:
        votes[asking, codes[column]] += train.weight[column] if len(train.weight) else 1.0
    right = labels[np.argmax(votes, axis=1)] == held_out.y
    weight = held_out.weight if len(held_out.weight) else None
    # Rounded, so that the rounding errors of weights do not decide between equals.
    return round(float(np.average(right, weights=weight)), 12)


def _judge_by_pairs(components: Vector, held_out: Examples) -> float:
    """Return the AUC of distances on held-out pairs, given as rows 2k and 2k + 1."""
    image = (held_out.rows[::2] - held_out.rows[1::2]) @ components.T
    similar = held_out.y[::2] == held_out.y[1::2]
    if similar.all() or not similar.any():
        return 0.5
    # Each of the two rows has the square root of the weight of its pair.
    weight = held_out.weight
    weight = weight[::2] * weight[1::2] if len(weight) else weight
    return judged_auc(np.where(similar, 1.0, -1.0), -np.einsum("nk,nk->n", image, image), weight)


def sample_differences(
    X: Vector, pairing: Pairing, rng: np.random.Generator, weight: Vector = NO_WEIGHTS
) -> Differences:
    """Return the differences x - x' of 1000 pairs, but for those that are zero.

    A pair weighs the product of the weights of its two rows; `weight` may be empty.
    """
    plan = sound_source(pairing, len(X), rng).draw(_PAIRS)
    if not isinstance(plan, Plan):
        raise ValueError(
            f"A metric is learned from one pair at a step, not from a buffer; got {pairing!r}, use "
            "PreviousExample() or RandomPair()."
        )
    v = X[plan.left] - X[plan.right]
    some = (v != 0).any(axis=1)
    weights = weight[plan.left] * weight[plan.right] if len(weight) else np.ones(len(v))
    total = float(weights[some].sum())
    return v[some], weights[some] / (total if total > 0.0 else 1.0)


def _target(loss: PairLoss) -> float:
    """Return the mean squared distance to start from."""
    return max(float(getattr(loss, "bias", 1.0)), 1.0)


def closed_form(rows: Vector, y: Vector, weight: Vector) -> Vector:
    """Return the metric of the moments of the classes, of shape (d, d).

    With S and D the mean squares of differences of equal and of different labels it is
    S^-1 - D^-1, the log-likelihood ratio of two Gaussian models of a difference (Koestinger et al.,
    Large scale metric learning from equivalence constraints, CVPR 2012). Both get 0.3 of the mean
    variance of S, and no eigenvalue stays below a tenth of the largest one: classes may be told
    apart in other ways than by their means.
    """
    d = rows.shape[1]
    weight = weight if len(weight) else np.ones(len(y))
    weight = weight / weight.sum()

    def spread(part: Any = slice(None)) -> Vector:
        return np.cov(rows[part].T, aweights=weight[part], bias=True).reshape(d, d)

    within, equal = np.zeros((d, d)), 0.0
    for label in np.unique(y):
        share = float(weight[y == label].sum())
        within, equal = within + share * spread(y == label), equal + share**2
    apart = (spread() - equal * within) / (1.0 - equal)
    variances = np.diag(within)
    ridge = _RIDGE * float(variances[variances > 0.0].mean()) if variances.any() else 1.0
    shift = ridge * np.eye(d)
    values, vectors = np.linalg.eigh(np.linalg.inv(within + shift) - np.linalg.inv(apart + shift))
    values = np.maximum(values, _FLOOR * max(float(values[-1]), 0.0))
    return np.asarray((vectors * values) @ vectors.T) if values[-1] > 0.0 else np.eye(d)


def start_from(
    score: MahalanobisScore,
    loss: PairLoss,
    init: Any,
    X: Vector,
    differences: Differences,
    scaling: Scaling | None = None,
    weight: Vector = NO_WEIGHTS,
    metric: Vector | None = None,
) -> Vector:
    """Return the starting point as the score parameterises it.

    `init` is "identity" (for a low rank: the leading principal components), scaled so that the
    mean squared distance of typical differences is the bias of the loss, but at least 1; or W of
    shape (d, d), its diagonal (d,), or the factor L of shape (d, rank), as given: for the features
    of the user, if the rows X have been scaled. "auto" is `metric` scaled so, if there is one, and
    else "identity". `weight` is that of the rows, or empty.
    """
    d = X.shape[1]
    kind, rank = score.parameterization, score.rank
    if isinstance(init, str):
        if init not in ("auto", "identity"):
            raise ValueError(f'init must be "auto", "identity" or an array, got {init!r}.')
        (v, share), W = differences, metric if init == "auto" else None
        factor = np.eye(d)
        if W is None and kind == "low_rank":
            spread = np.cov(X.T, aweights=weight if len(weight) else None)
            factor = np.linalg.eigh(spread.reshape(d, d))[1][:, ::-1][:, :rank]
        by_factor = ((v @ factor) ** 2).sum(axis=1)
        mean = float(share @ (by_factor if W is None else np.einsum("nd,de,ne->n", v, W, v)))
        scale = _target(loss) / mean if mean > 0 else 1.0
        if kind == "low_rank" and W is None:
            return np.asarray(np.sqrt(scale) * factor)
        W = scale * (factor if W is None else W)
        if kind == "low_rank":
            return np.ascontiguousarray(components_of(MahalanobisScore(), W, d)[:rank].T)
        return np.diag(W).copy() if kind == "diagonal" else W
    start = np.asarray(init, dtype=np.float64)
    shape = {"full": (d, d), "diagonal": (d,), "low_rank": (d, rank)}[kind]
    if start.shape != shape:
        raise ValueError(f"init must have shape {shape} for {kind!r}, got {start.shape}.")
    if not np.isfinite(start).all():
        raise ValueError("init contains NaN or infinity; pass finite numbers.")
    if kind == "full":
        largest = np.abs(start).max(initial=0.0)
        if not np.allclose(start, start.T, rtol=1e-8, atol=1e-10 * largest):
            raise ValueError("init must be symmetric; pass 0.5 * (W + W.T).")
        least = float(np.linalg.eigvalsh(start)[0])
        if least < -1e-8 * largest:
            raise ValueError(
                f"init must be positive semi-definite, got an eigenvalue of {least:.3g}; pass "
                "PsdCone().project(W)."
            )
    if kind == "diagonal" and (start < 0).any():
        raise ValueError(f"init must not be negative, got {start.min():g}.")
    if scaling is None:
        return start
    # W = D V D and L = D M for the weights D of the scaling.
    if kind == "diagonal":
        return scaling.from_user(scaling.from_user(start))
    found = scaling.from_user(start.T).T
    return scaling.from_user(found) if kind == "full" else np.ascontiguousarray(found)


def unit_step(score: MahalanobisScore, loss: PairLoss, differences: Differences) -> float:
    """Return the step size that moves the squared distance of a typical pair by about 1.

    A step of eta changes h by eta ||v||^4 for a full matrix, eta sum_k v_k^4 for a diagonal, and
    4 eta ||v||^2 h for a factor; means over pairs stand for typical ones.
    """
    v, share = differences
    squared = v * v
    if score.parameterization == "full":
        change = float(share @ squared.sum(axis=1) ** 2)
    elif score.parameterization == "diagonal":
        change = float(share @ (squared * squared).sum(axis=1))
    else:
        change = 4.0 * _target(loss) * float(share @ squared.sum(axis=1))
    return 1.0 / change if change > 0 else 1.0


def components_of(score: MahalanobisScore, w: Vector, d: int) -> Vector:
    """Return L with W = L' L, rows in decreasing order of their weight.

    >>> components_of(MahalanobisScore("diagonal"), np.array([1.0, 4.0]), 2)
    array([[1., 0.],
           [0., 2.]])
    """
    if score.parameterization == "diagonal":
        return np.diag(np.sqrt(np.maximum(w, 0.0)))
    if score.parameterization == "low_rank":
        return np.ascontiguousarray(w.reshape(d, -1).T)
    values, vectors = np.linalg.eigh(w.reshape(d, d))
    largest = np.argmax(np.abs(vectors), axis=0)
    vectors = vectors * np.where(vectors[largest, np.arange(d)] < 0, -1.0, 1.0)
    return np.ascontiguousarray((vectors * np.sqrt(np.maximum(values, 0.0))).T[::-1])
