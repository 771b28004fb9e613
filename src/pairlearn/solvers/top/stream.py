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
from collections.abc import Mapping
from typing import Any

import numpy as np

from pairlearn.features.spreads import scale_of, which_vary
from pairlearn.losses import PairLoss
from pairlearn.restored import (
    check_sane,
    restored_array,
    restored_count,
    restored_number,
    restored_weights,
)
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
        self.n_examples = self.n_batches = self.n_pairs = 0
        self.average = np.zeros(n_features)
        #: Scaled coefficients, and the sum of squared gradient norms.
        self._v, self._squares = np.zeros(n_features), 0.0
        self._n_averaged = 0
        self._mean, self._spread = np.zeros(n_features), np.zeros(n_features)
        self._low, self._high = np.zeros(n_features), np.zeros(n_features)
        self._waiting = _Kept()
        self._kept = (_Kept(), _Kept())
        self._seen = np.zeros(2, dtype=np.int64)

    # --------------------------------------------------------------------------- learning

    def learn(self, rows: Rows, y: Vector, weight: Vector) -> Vector:
        """Learn a chunk.

        Returns the examples' scores by the average before this chunk, less that of the mean of the
        examples before it: wherever features lie, scores of several chunks compare. Empty weights
        are equal. A chunk that makes numbers overflow is refused and not learned.
        """
        before = self.state()
        with np.errstate(over="ignore", invalid="ignore"):
            scores = self._learn(rows, y, weight)
        if not (np.isfinite(self.average).all() and np.isfinite(self._spread).all()):
            self.restore(before)
            raise DivergenceError(
                "The model is not finite: squares of the features overflow; scale them, or leave "
                "out the largest ones."
            )
        return scores

    def _learn(self, rows: Rows, y: Vector, weight: Vector) -> Vector:
        X = _matrix(rows)
        scores = np.asarray(X @ self.average) - float(self.average @ self._mean)
        weights = weight if len(weight) else np.ones(len(y))
        begin = 0
        while begin < len(y):
            stop = min(begin + self.batch_size - len(self._waiting), len(y))
            part = slice(begin, stop)
            self._waiting.add(X[part], y[part] > 0.0, weights[part])
            if len(self._waiting) == self.batch_size:
                batch, self._waiting = self._waiting, _Kept()
                self._take(batch)
            begin = stop
        self.n_examples += len(y)
        return scores

    def _take(self, batch: _Kept) -> None:
        """Take a step, then add the batch to the sample of the past."""
        self._see_units(batch.X)
        kept = [one for one in (batch, *self._kept) if len(one)]
        X = _stack([one.X for one in kept])
        positive = np.concatenate([one.positive for one in kept])
        weight = np.concatenate([one.weight for one in kept])
        if weight[positive].sum() > 0.0 and weight[~positive].sum() > 0.0:
            self._step(X, positive, weight)
        self.n_batches += 1
        # Random numbers that depend only on the number of the batch.
        draws = np.random.default_rng((self.seed, self.n_batches)).random(len(batch))
        for k, reservoir in enumerate(self._kept):
            self._join(reservoir, batch, np.flatnonzero(batch.positive == bool(k)), draws, k)

    def _step(self, X: Any, positive: Mask, weight: Vector) -> None:
        """Take one AdaGrad-Norm step on examples, and update the average of the iterates."""
        objective = self.objective
        warm = not objective.convex and self.n_batches < _WARM_UP
        factor = self._factor()
        coef = self._v * factor
        scores = np.asarray(X @ coef)
        if not objective.convex and self.n_batches == _WARM_UP:
            # If soft steps are wide compared with the scores, soft counts carry no information.
            spread = float(scores.std())
            gain = SHARPNESS / spread if spread > 0.0 else 1.0
            self._v, scores = self._v * gain, scores * gain
            self._squares, self._n_averaged = 0.0, 0
        shown = Push(1.0) if warm else objective
        slopes = shown.of_scores(self.loss, positive, weight)(scores - float(scores.mean()))[1]
        gradient = np.asarray(X.T @ slopes)
        # In exact arithmetic the slopes add up to zero: only differences count.
        gradient = (gradient - float(slopes.sum()) * self._mean) * factor
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
        step = mean - self._mean
        total = before + n
        self._spread = self._spread + np.maximum(spread, 0.0) + step**2 * (before * n / total)
        self._mean = self._mean + step * (n / total)
        self._low = np.minimum(self._low, low) if before else low
        self._high = np.maximum(self._high, high) if before else high

    def _factor(self) -> Vector:
        """Return the factor of each feature."""
        if not self.is_scaled:
            return np.ones(self.n_features)
        seen = (self.n_batches + 1) * self.batch_size
        deviation = np.sqrt(self._spread / seen)
        varies = which_vary(deviation, self._low, self._high)
        # Variances add up to 1; constant features have none.
        n_varying = max(int(np.count_nonzero(varies)), 1)
        scale = math.sqrt(n_varying) * scale_of(deviation, self._low, self._high)
        return np.divide(1.0, scale, out=np.zeros(self.n_features), where=varies)

    def _join(self, reservoir: _Kept, batch: _Kept, members: Places, draws: Vector, k: int) -> None:
        """Keep each example of a class with the same probability (Vitter's algorithm R)."""
        places: dict[int, int] = {}
        for row in members.tolist():
            self._seen[k] += 1
            slot = int(self._seen[k]) - 1
            if slot >= self.memory:
                slot = int(draws[row] * int(self._seen[k]))
            if slot < self.memory:
                places[slot] = row
        reservoir.replace(places, batch)

    def window(self) -> tuple[Vector, Mask, Vector]:
        """Return the scores of the sample by the current average, with labels and weights.

        Weights are 1 on average, times the examples seen per example kept, for each class.
        """
        parts = []
        for kept, seen in zip(self._kept, self._seen.tolist(), strict=True):
            if len(kept):
                scores = np.asarray(kept.X @ self.average)
                seen_of = np.full(len(kept), seen / len(kept))
                parts.append((scores, kept.positive, kept.weight, seen_of))
        if not parts:
            return np.empty(0), np.empty(0, dtype=np.bool_), np.empty(0)
        scores, positive, weight, times = map(np.concatenate, zip(*parts, strict=True))
        return scores, positive, as_counts(weight) * times

    # ------------------------------------------------------------------------------ state

    def state(self) -> dict[str, Any]:
        """Return everything that the next example depends on."""
        return {
            "n_examples": self.n_examples,
            "n_batches": self.n_batches,
            "n_pairs": self.n_pairs,
            "n_averaged": self._n_averaged,
            "squares": self._squares,
            "average": self.average.copy(),
            "v": self._v.copy(),
            "units": np.array([self._mean, self._spread, self._low, self._high]),
            "seen": self._seen.copy(),
            "waiting": self._waiting.state(),
            "negatives": self._kept[0].state(),
            "positives": self._kept[1].state(),
            **self._made_of,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved `state` of a stream with the same parameters."""
        check_made_of(state, self._made_of)
        d = self.n_features
        self.n_examples = restored_count(state, "n_examples")
        self.n_batches = restored_count(state, "n_batches", maximum=self.n_examples)
        self.n_pairs = restored_count(state, "n_pairs")
        self._n_averaged = restored_count(state, "n_averaged", maximum=self.n_batches)
        self._squares = restored_number(state, "squares", low=0.0, high=1e300)
        self.average = restored_array(state, "average", (d,))
        self._v = restored_array(state, "v", (d,))
        units = restored_array(state, "units", (4, d))
        for name, values in (("average", self.average), ("iterate", self._v), ("units", units)):
            check_sane(name, values)
        self._mean, self._spread, self._low, self._high = units
        self._seen = restored_array(state, "seen", (2,), ("int64",)).copy()
        self._waiting = _Kept.from_state(state["waiting"], d, self.batch_size - 1)
        self._kept = (
            _Kept.from_state(state["negatives"], d, self.memory),
            _Kept.from_state(state["positives"], d, self.memory),
        )
        for k, kept in enumerate(self._kept):
            seen = int(self._seen[k])
            # Until the memory is full every example of a class is kept.
            if not 0 <= seen <= self.n_examples or len(kept) != min(seen, self.memory):
                raise ValueError(
                    f"the saved stream keeps {len(kept)} examples of a class of which it has seen "
                    f"{seen}."
                )
            if (kept.positive != bool(k)).any():
                raise ValueError("the saved stream keeps examples of one class with the other.")


class _Kept:
    """Some examples, dense or sparse."""

    def __init__(self) -> None:
        self.X: Any = None
        self.positive = np.empty(0, dtype=np.bool_)
        self.weight = np.empty(0)

    def __len__(self) -> int:
        return len(self.positive)

    def add(self, X: Any, positive: Mask, weight: Vector) -> None:
        # A copy: the caller may write the next chunk into the same array.
        self.X = X.copy() if self.X is None else _stack([self.X, X])
        self.positive = np.append(self.positive, positive)
        self.weight = np.append(self.weight, weight)

    def replace(self, places: Mapping[int, int], batch: _Kept) -> None:
        """Put rows of a batch into slots; new slots are appended."""
        if not places:
            return
        size = max(len(self), 1 + max(places))
        order = np.arange(size)
        for slot, row in places.items():
            order[slot] = len(self) + row
        X = batch.X if self.X is None else _stack([self.X, batch.X])
        self.X = X[order]
        self.positive = np.append(self.positive, batch.positive)[order]
        self.weight = np.append(self.weight, batch.weight)[order]

    def state(self) -> dict[str, Any]:
        """Return the examples as arrays."""
        found: dict[str, Any] = {"positive": self.positive, "weight": self.weight}
        if self.X is None:
            return found
        if isinstance(self.X, np.ndarray):
            return {**found, "X": self.X}
        arrays = {name: getattr(self.X, name) for name in ("data", "indices", "indptr")}
        return {**found, **{k: np.asarray(v) for k, v in arrays.items()}}

    @classmethod
    def from_state(cls, state: Mapping[str, Any], d: int, most: int) -> _Kept:
        """Return the examples saved by `state`, at most `most` of them."""
        kept = cls()
        kept.positive = restored_array(state, "positive", (None,), ("bool",))
        n = len(kept.positive)
        if n > most:
            raise ValueError(f"the saved stream keeps {n} examples, it can keep {most}.")
        kept.weight = restored_weights(state, "weight", n)
        if "X" in state:
            kept.X = restored_array(state, "X", (n, d))
            check_sane("example", kept.X)
        elif "data" in state:
            import scipy.sparse

            from pairlearn.solvers.rows import as_rows

            data = restored_array(state, "data", (None,))
            indices = restored_array(state, "indices", data.shape, ("int32", "int64"))
            indptr = restored_array(state, "indptr", (n + 1,), ("int32", "int64"))
            found = scipy.sparse.csr_array((data, indices, indptr), shape=(n, d))
            as_rows(found)
            kept.X = found
        elif n:
            raise ValueError("the saved stream says which labels it keeps, but not of what.")
        return kept


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


def _stack(parts: list[Any]) -> Any:
    if len(parts) == 1:
        return parts[0]
    if isinstance(parts[0], np.ndarray):
        return np.concatenate(parts)
    import scipy.sparse

    return scipy.sparse.vstack(parts, format="csr")
