# SPDX-License-Identifier: BSD-3-Clause
r"""Learn the top of the list by stochastic gradient descent, on stored examples and streams.

An objective for the top of the list is not a mean over pairs: which negatives count depends on the
scores of all others. So examples come in batches of fixed size, and a step follows the gradient of
the objective on a batch plus a uniform sample of each class's past (a reservoir), all scored by the
current coefficients. The sample gives the quantile of negative scores for the partial AUC, the
costs for the push, and the ranks for average precision. It is never stale, has bounded memory, and
a large sample is close to the population. Published stochastic methods keep running averages
instead, which belong to former coefficients and may need one number per positive.

Features are divided by their running deviation (at least a tenth of the running range) times
sqrt(d), so units do not matter. Steps are step_size / sqrt(sum of squared gradient norms)
(AdaGrad-Norm), so the scale of the objective does not matter either. The result averages the
iterates with polynomially growing weights. A non-convex objective first learns all pairs.

Everything depends on the count of examples, never on how they were cut into chunks.

References
----------
The objectives, SOPA and SOAP: see `pairlearn.solvers.top.objectives`.
R. Ward, X. Wu and L. Bottou, AdaGrad stepsizes, JMLR 21, 2020.
O. Shamir and T. Zhang, Stochastic gradient descent for non-smooth optimization, ICML 2013.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pairlearn.features.spreads import scale_of, which_vary
from pairlearn.losses import PairLoss
from pairlearn.restored import restored_array
from pairlearn.solvers.rows import CsrRows, Rows
from pairlearn.solvers.solution import Solution, Trace
from pairlearn.solvers.streams.settings import check_made_of, told
from pairlearn.solvers.top.objectives import SHARPNESS, Objective, Push
from pairlearn.typing import Mask, Places, Vector
from pairlearn.validation import DivergenceError, as_counts, check_count, check_positive

#: A non-convex objective learns all pairs in its first batches: this many.
_WARM_UP = 50
#: The weight of iterate t grows as t to this power.
_GROWTH = 3.0


class TopStream:
    """A stream learned for the top of the list.

    Parameters
    ----------
    objective : Objective
        What counts.
    loss : PairLoss
        A loss that falls with the margin.
    n_features : int
        Number of features.
    step_size : float, default=1.0
        The step size, in units of the scaled coefficients.
    radius : float, default=math.inf
        The largest norm of the scaled coefficients.
    is_scaled : bool, default=True
        Whether features are divided by their running deviation.
    batch_size : int, default=64
        Number of new examples of a step.
    memory : int, default=512
        Number of past examples of each class that are kept.
    seed : int, default=0
        Chooses them.
    """

    def __init__(
        self,
        objective: Objective,
        loss: PairLoss,
        n_features: int,
        *,
        step_size: float = 1.0,
        radius: float = math.inf,
        is_scaled: bool = True,
        batch_size: int = 64,
        memory: int = 512,
        seed: int = 0,
    ) -> None:
        objective.check_loss(loss)
        self.objective, self.loss, self.n_features = objective, loss, n_features
        self.step_size = check_positive("step_size", step_size)
        self.radius = check_positive("radius", radius, allow_infinite=True)
        self.is_scaled = is_scaled
        self.batch_size = check_count("batch_size", batch_size, minimum=2)
        self.memory = check_count("memory", memory, minimum=2)
        self.seed = check_count("seed", seed, minimum=0)
        self._made_of = {
            "objective": told(objective),
            "loss": told(loss),
            "step_size": self.step_size,
            "radius": self.radius,
            "is_scaled": self.is_scaled,
        }
        self.n_examples = self.n_batches = self.n_pairs = self._n_averaged = 0
        self.average = np.zeros(n_features)
        #: Scaled coefficients, and the sum of squared gradient norms.
        self._v, self._squares = np.zeros(n_features), 0.0
        #: Mean, sum of squared deviations, least and largest value of each feature.
        self._units = np.zeros((4, n_features))
        #: Examples that wait for a step, and the kept ones of both classes.
        self._waiting, self._kept = _NOTHING, (_NOTHING, _NOTHING)
        self._seen = (0, 0)

    def learn(self, rows: Rows, y: Vector, weight: Vector) -> Vector:
        """Learn a chunk.

        Returns the examples' scores by the average before this chunk, less that of the mean of the
        examples before it: wherever features lie, scores of several chunks compare. Empty weights
        are equal. A chunk that makes numbers overflow is refused and not learned.
        """
        before = dict(vars(self))
        with np.errstate(over="ignore", invalid="ignore"):
            scores = self._learn(rows, y, weight)
        if not (np.isfinite(self.average).all() and np.isfinite(self._units).all()):
            self.__dict__ = before
            raise DivergenceError(
                "The model is not finite: squares of the features overflow; scale them, or leave "
                "out the largest ones."
            )
        return scores

    def _learn(self, rows: Rows, y: Vector, weight: Vector) -> Vector:
        X = _matrix(rows)
        scores = np.asarray(X @ self.average) - float(self.average @ self._units[0])
        weights = weight if len(weight) else np.ones(len(y))
        begin = 0
        while begin < len(y):
            stop = min(begin + self.batch_size - len(self._waiting.weight), len(y))
            # A copy: the caller may write the next chunk into the same array.
            part = np.arange(begin, stop)
            new = _Examples(X[part], y[part] > 0.0, weights[part])
            self._waiting = _joined([self._waiting, new])
            if len(self._waiting.weight) == self.batch_size:
                batch, self._waiting = self._waiting, _NOTHING
                self._take(batch)
            begin = stop
        self.n_examples += len(y)
        return scores

    def _take(self, batch: _Examples) -> None:
        """Take a step, then add the batch to the sample of the past."""
        self._see_units(batch.X)
        examples = _joined([batch, *self._kept])
        positive, weight = examples.positive, examples.weight
        if weight[positive].sum() > 0.0 and weight[~positive].sum() > 0.0:
            self._step(examples)
        self.n_batches += 1
        # Random numbers that depend only on the number of the batch.
        draws = np.random.default_rng((self.seed, self.n_batches)).random(self.batch_size)
        negatives, positives = (self._sampled(k, batch, draws) for k in range(2))
        self._kept, self._seen = (negatives[0], positives[0]), (negatives[1], positives[1])

    def _step(self, examples: _Examples) -> None:
        """Take one AdaGrad-Norm step on examples, and update the average of the iterates."""
        objective, X, positive = self.objective, examples.X, examples.positive
        warm = not objective.convex and self.n_batches < _WARM_UP
        factor = self._factor()
        scores = np.asarray(X @ (self._v * factor))
        if not objective.convex and self.n_batches == _WARM_UP:
            # If soft steps are wide compared with the scores, soft counts carry no information.
            spread = float(scores.std())
            gain = SHARPNESS / spread if spread > 0.0 else 1.0
            self._v, scores = self._v * gain, scores * gain
            self._squares, self._n_averaged = 0.0, 0
        shown = Push(1.0) if warm else objective
        of_scores = shown.of_scores(self.loss, positive, examples.weight)
        slopes = of_scores(scores - float(scores.mean()))[1]
        # In exact arithmetic the slopes add up to zero: only differences count.
        gradient = (np.asarray(X.T @ slopes) - float(slopes.sum()) * self._units[0]) * factor
        self._squares += float(gradient @ gradient)
        if self._squares > 0.0:
            self._v = self._v - self.step_size / math.sqrt(self._squares) * gradient
        norm = float(np.linalg.norm(self._v))
        if norm > self.radius:
            self._v = self._v * (self.radius / norm)
        self._n_averaged += 1
        share = (1.0 + _GROWTH) / (self._n_averaged + _GROWTH)
        self.average = self.average + min(share, 1.0) * (self._v * factor - self.average)
        n_positive = int(np.count_nonzero(positive))
        self.n_pairs += n_positive * (len(positive) - n_positive)

    def _see_units(self, X: Any) -> None:
        """Update mean, deviation and range of the features with a batch."""
        n, before = X.shape[0], self.n_batches * self.batch_size
        mean = np.asarray(X.mean(axis=0)).ravel()
        if isinstance(X, np.ndarray):
            spread = ((X - mean) ** 2).sum(axis=0)
            low, high = X.min(axis=0), X.max(axis=0)
        else:
            spread = np.asarray(X.multiply(X).sum(axis=0)).ravel() - n * mean**2
            low, high = (np.asarray(f(axis=0).todense()).ravel() for f in (X.min, X.max))
        old_mean, old_spread, least, most = self._units
        step, share = mean - old_mean, n / (before + n)
        spread = old_spread + np.maximum(spread, 0.0) + step**2 * (before * share)
        if before:
            low, high = np.minimum(least, low), np.maximum(most, high)
        self._units = np.array([old_mean + step * share, spread, low, high])

    def _factor(self) -> Vector:
        """Return the factor of each feature."""
        if not self.is_scaled:
            return np.ones(self.n_features)
        _, spread, low, high = self._units
        deviation = np.sqrt(spread / ((self.n_batches + 1) * self.batch_size))
        varies = which_vary(deviation, low, high)
        # Variances add up to 1; constant features have none.
        scale = math.sqrt(max(int(varies.sum()), 1)) * scale_of(deviation, low, high)
        return np.divide(1.0, scale, out=np.zeros(self.n_features), where=varies)

    def _sampled(self, k: int, batch: _Examples, draws: Vector) -> tuple[_Examples, int]:
        """Keep each example of class k with the same probability (Vitter's algorithm R)."""
        kept, seen = self._kept[k], self._seen[k]
        places = list(range(len(kept.weight)))
        for row in np.flatnonzero(batch.positive == bool(k)).tolist():
            slot, seen = seen, seen + 1
            if slot >= self.memory:
                slot = int(draws[row] * seen)
            if slot < self.memory:
                places[slot : slot + 1] = [len(kept.weight) + row]
        return (_joined([kept, batch]).take(np.array(places)) if places else kept), seen

    def window(self) -> tuple[Vector, Mask, Vector]:
        """Return the scores of the sample by the current average, with labels and weights.

        Weights are 1 on average, times the examples seen per example kept, for each class.
        """
        both = _joined(list(self._kept))
        if both.X is None:
            return np.empty(0), both.positive, both.weight
        sizes = [len(one.weight) for one in self._kept]
        times = np.repeat(np.divide(self._seen, np.maximum(sizes, 1)), sizes)
        return np.asarray(both.X @ self.average), both.positive, as_counts(both.weight) * times

    def state(self) -> dict[str, Any]:
        """Return everything that the next example depends on."""
        numbers = {name: getattr(self, name) for name in _NUMBERS}
        kept = zip(_EXAMPLES, (self._waiting, *self._kept), strict=True)
        examples = {name: one.state() for name, one in kept}
        return {**numbers, "seen": np.array(self._seen), **examples, **self._made_of}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved `state` of a stream with the same parameters."""
        check_made_of(state, self._made_of)
        restored_array(state, "average", (self.n_features,))
        for name in _NUMBERS:
            setattr(self, name, state[name])
        self._seen = tuple(state["seen"].tolist())
        d = self.n_features
        waiting, negatives, positives = (_Examples.from_state(state[k], d) for k in _EXAMPLES)
        self._waiting, self._kept = waiting, (negatives, positives)


@dataclass(frozen=True)
class _Examples:
    """Some examples, dense or sparse; X is None if there is none."""

    X: Any
    positive: Mask
    weight: Vector

    def take(self, places: Places) -> _Examples:
        return _Examples(self.X[places], self.positive[places], self.weight[places])

    def state(self) -> dict[str, Any]:
        found = {"positive": self.positive, "weight": self.weight}
        if isinstance(self.X, np.ndarray):
            return {**found, "X": self.X}
        names = () if self.X is None else ("data", "indices", "indptr")
        return {**found, **{name: getattr(self.X, name) for name in names}}

    @classmethod
    def from_state(cls, state: Mapping[str, Any], d: int) -> _Examples:
        X = state.get("X")
        if "data" in state:
            import scipy.sparse

            arrays = tuple(state[name] for name in ("data", "indices", "indptr"))
            X = scipy.sparse.csr_array(arrays, shape=(len(state["weight"]), d))
        return cls(X, state["positive"], state["weight"])


_NOTHING = _Examples(None, np.empty(0, dtype=np.bool_), np.empty(0))
#: What a state holds under names of its own.
_NUMBERS = ("n_examples", "n_batches", "n_pairs", "_n_averaged", "average", "_v", "_squares",
            "_units")  # fmt: skip
_EXAMPLES = ("waiting", "negatives", "positives")


def _joined(parts: Sequence[_Examples]) -> _Examples:
    some = [part for part in parts if part.X is not None]
    if len(some) < 2:
        return some[0] if some else _NOTHING
    matrices: Any = [part.X for part in some]
    if isinstance(matrices[0], np.ndarray):
        X: Any = np.concatenate(matrices)
    else:
        import scipy.sparse

        X = scipy.sparse.vstack(matrices, format="csr")
    positive = np.concatenate([part.positive for part in some])
    return _Examples(X, positive, np.concatenate([part.weight for part in some]))


def solve_top(
    objective: Objective,
    loss: PairLoss,
    rows: Rows,
    y: Vector,
    *,
    n_passes: float,
    step_size: float = 1.0,
    radius: float = math.inf,
    weight: Vector | None = None,
    is_scaled: bool = True,
    rng: np.random.Generator,
) -> Solution:
    """Return what `TopStream` learns from stored examples, shuffled anew for each pass.

    The model is `average`; a step is an example. The other settings are those of `TopStream`.
    """
    n = len(y)
    seed = int(rng.integers(2**31))
    stream = TopStream(
        objective, loss, rows.shape[1], step_size=step_size, radius=radius, is_scaled=is_scaled,
        # Even a few examples make a few batches per pass.
        batch_size=max(2, min(64, n // 4)), seed=seed,
    )  # fmt: skip
    left = max(round(n_passes * n), stream.batch_size)
    while left > 0:
        order = rng.permutation(n)[:left]
        part = np.empty(0) if weight is None or not len(weight) else weight[order]
        stream.learn(rows.take(order), y[order], part)
        left -= len(order)
    w = stream.average
    return Solution(average=w, w=w, trace=Trace(stream.n_examples, stream.n_pairs))


def _matrix(rows: Rows) -> Any:
    if isinstance(rows, CsrRows):
        import scipy.sparse

        arrays = rows.data.astype(np.float64), rows.indices, rows.indptr
        return scipy.sparse.csr_array(arrays, shape=rows.shape)
    return rows.X.astype(np.float64, copy=False)
