# SPDX-License-Identifier: BSD-3-Clause
"""The streams behind `AUCClassifier.partial_fit`, and the choice of a step size among them."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pairlearn.averaging import Averaging
from pairlearn.domains import ball_or_whole
from pairlearn.estimators.shared.decisions import (
    Decision,
    Undecided,
    pack_decision,
    unpack_decision,
)
from pairlearn.estimators.shared.weights import judged_auc
from pairlearn.metrics.auc import doubled_wins
from pairlearn.pairings import Pairing, PreviousExample
from pairlearn.problem import Problem
from pairlearn.restored import (
    check_sane,
    restored_array,
    restored_count,
    restored_number,
    restored_weights,
)
from pairlearn.schedules import Schedule
from pairlearn.solvers.descent.pairwise_sgd import PairwiseSGD
from pairlearn.solvers.descent.stream import Stream
from pairlearn.solvers.rows import CsrRows, DenseRows, Rows, mean_pair_distance
from pairlearn.solvers.streams.running_scales import RunningScales
from pairlearn.typing import Mask, Vector
from pairlearn.validation import as_counts

#: Examples that all step sizes of a grid learn; then the best is kept.
_WARM_UP = 4096
#: Step sizes c of a stream without scales, times one over the mean squared distance of two rows;
#: steps are c / sqrt(t). They are half a decade apart.
_STREAM_STEPS = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
#: The smallest positive number.
_SMALLEST = np.nextafter(0.0, 1.0)
#: The largest finite number.
_LARGEST = np.finfo(np.float64).max


#: The number of latest scores that are kept.
WINDOW = 4096


class LatestScores:
    """The last `WINDOW` scores of some models, with the labels and weights of the examples.

    A place is written once. So arrays that were handed out, to a published model for example, stay
    as they are while more scores come, and a chunk costs no copy of the whole window.

    `scores` has a row for each model.
    """

    def __init__(self, scores: Vector, positive: Mask, weight: Vector) -> None:
        self._scores, self._positive = scores, positive
        #: None while all examples weigh 1.
        self._weight = None if bool((weight == 1.0).all()) else weight
        self._stop = len(positive)
        self._begin = max(0, self._stop - WINDOW)

    def __reduce__(self) -> tuple[type[LatestScores], tuple[Vector, Mask, Vector]]:
        # Values outside the window are not pickled.
        return (LatestScores, (self.scores, self.positive, self.weight))

    @property
    def scores(self) -> Vector:
        """The scores, a row for each model."""
        return self._scores[:, self._begin : self._stop]

    @property
    def positive(self) -> Mask:
        """Whether the examples are positive."""
        return self._positive[self._begin : self._stop]

    @property
    def weight(self) -> Vector:
        """The weights of the examples."""
        if self._weight is None:
            return np.ones(self._stop - self._begin)
        return self._weight[self._begin : self._stop]

    @property
    def counts(self) -> Vector:
        """The weights as numbers of examples, see `as_counts`."""
        return self.weight if self._weight is None else as_counts(self.weight)

    def add(self, scores: Vector, positive: Mask, weight: Vector) -> None:
        """Add the scores of the next examples; no weights mean 1."""
        if len(positive) > WINDOW:
            scores, positive, weight = scores[:, -WINDOW:], positive[-WINDOW:], weight[-WINDOW:]
        n = len(positive)
        if self._stop + n > len(self._positive):
            self._make_room()
        now = slice(self._stop, self._stop + n)
        self._scores[:, now] = scores
        self._positive[now] = positive
        if len(weight):
            if self._weight is None:
                self._weight = np.ones(len(self._positive))
            self._weight[now] = weight
        self._stop += n
        self._begin = max(self._begin, self._stop - WINDOW)

    def _make_room(self) -> None:
        """Move the window to the front of arrays that have room for another one."""
        scores, positive = self.scores, self.positive
        size = len(positive)
        room = size + WINDOW
        self._scores, self._positive = np.empty((len(scores), room)), np.empty(room, dtype=np.bool_)
        self._scores[:, :size] = scores
        self._positive[:size] = positive
        if self._weight is not None:
            self._weight = np.append(self.weight, np.ones(WINDOW))
        self._begin, self._stop = 0, size

    def keep(self, model: int) -> None:
        """Forget the scores of all models but one."""
        self._scores = self._scores[[model]]


def check_width(state: Mapping[str, Any], n_features: int) -> None:
    """Refuse a saved stream of rows with another number of features, after the feature map."""
    # Older states name the width of rows that no map has changed.
    width = state.get("width", state.get("n_features"))
    if width != n_features:
        raise ValueError(f"the saved stream has {width!r:.60} features, here it has {n_features}.")


def relative_to(rows: Rows, weight: Vector) -> tuple[float, ...]:
    """Return the step sizes of a grid, in the scale of a first chunk; `weight` may be empty."""
    scale = mean_pair_distance(rows, weight)
    return tuple(c / scale for c in _STREAM_STEPS)


class OnlineGrid:
    """One stream, or one for each of several step sizes; the warm-up keeps the best.

    The schedule is multiplied by the step size. Each stream gets its own copy of `rng`. `start` was
    learned from `n_before` examples, with the threshold and calibration `decided`. One stream may
    have `scales`; in these units one step size serves all data.
    """

    def __init__(
        self,
        problem: Problem,
        n_features: int,
        *,
        dtype: Any,
        step_sizes: Sequence[float],
        radius: float,
        pairing: Pairing,
        schedule: Schedule,
        averaging: Averaging,
        rng: np.random.Generator,
        start: Vector | None = None,
        n_before: int = 0,
        decided: Decision | None = None,
        origin: Vector | None = None,
        scales: RunningScales | None = None,
    ) -> None:
        self.radius = radius
        self.n_before, self.decided = n_before, decided
        self._steps = list(step_sizes)
        self._dtype, self._n_features = np.dtype(dtype), n_features
        draws = not isinstance(pairing, PreviousExample)
        self._streams: list[Stream] = [
            PairwiseSGD(pairing, schedule.scaled(step), ball_or_whole(radius), averaging).start(
                problem,
                n_features,
                rng=copy.deepcopy(rng) if draws else rng,
                dtype=dtype,
                w_start=start,
                n_before=n_before,
                scales=scales,
            )
            for step in self._steps
        ]
        self._averages = self._found_averages()
        #: Scores are relative to a row: if features lie far from zero, changing coefficients would
        #: shift all scores. It is the first example of dense rows, and the mean of sparse ones,
        #: among which a single one may be far from the others. A stream that begins anew keeps it.
        self.origin = np.zeros(n_features) if origin is None else origin
        self._has_origin = origin is not None
        self._progress = np.zeros(len(self._steps))
        self._pairs = 0.0
        self._latest = LatestScores(
            np.empty((len(self._steps), 0)), np.empty(0, dtype=np.bool_), np.empty(0)
        )
        self._best = 0

    def state(self) -> dict[str, Any]:
        """Return everything that the next chunk depends on, as plain values and arrays."""
        return {
            # `n_features` of the whole state is the number before a feature map.
            "width": self._n_features,
            "dtype": self._dtype.name,
            "radius": self.radius,
            "n_before": self.n_before,
            "decided": None if self.decided is None else pack_decision(self.decided),
            "step_sizes": list(self._steps),
            "streams": [stream.state() for stream in self._streams],
            "progress": self._progress.copy(),
            "pairs": self._pairs,
            "origin": self.origin,
            "scores": self._latest.scores.copy(),
            "positive": self._latest.positive.copy(),
            "weight": self._latest.weight.copy(),
            "best": self._best,
        }

    @classmethod
    def from_state(
        cls,
        state: Mapping[str, Any],
        problem: Problem,
        n_features: int,
        *,
        is_scaled: bool,
        **parts: Any,
    ) -> OnlineGrid:
        """Return the grid that `state` described; the other parts are those it was made with."""
        check_width(state, n_features)
        steps, streams, dtype = state["step_sizes"], state["streams"], state["dtype"]
        if dtype not in ("float64", "float32"):
            raise ValueError(f"the saved dtype is {dtype!r:.60}, it must be float64 or float32.")
        if not isinstance(steps, list) or not 1 <= len(steps) <= len(_STREAM_STEPS):
            raise ValueError(f"the saved step sizes are not 1 to {len(_STREAM_STEPS)} numbers.")
        if not isinstance(streams, list) or len(streams) != len(steps):
            raise ValueError(f"the saved streams are not one for each of {len(steps)} step sizes.")
        if is_scaled and len(steps) > 1:
            raise ValueError(f"{len(steps)} step sizes were saved; with scales there is one.")
        for step in steps:
            number = restored_number({"step size": step}, "step size", low=_SMALLEST)
            check_sane("step size", np.array([number]))
        for saved in streams:
            # The arrays are as large as the file says before others of that size are made.
            restored_array(saved["descent"], "w", (n_features,), (dtype,))
        grid = cls(
            problem,
            n_features,
            dtype=dtype,
            step_sizes=steps,
            radius=restored_number(state, "radius", low=_SMALLEST),
            scales=RunningScales(n_features) if is_scaled else None,
            **parts,
        )
        grid.restore(state)
        # States of older versions began with nothing.
        grid.n_before = restored_count({"n_before": 0, **state}, "n_before")
        if state.get("decided") is not None:
            grid.decided = unpack_decision(state["decided"])
        return grid

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go back to a state with the same step sizes."""
        k = len(self._streams)
        progress = restored_array(state, "progress", (k,))
        origin = restored_array(state, "origin", (self._n_features,))
        scores = restored_array(state, "scores", (k, None))
        n = min(scores.shape[1], WINDOW)
        positive = restored_array(state, "positive", (n,), ("bool",))
        weight = restored_weights(state, "weight", n)
        restored_array(state, "scores", (k, n))
        pairs = restored_number(state, "pairs", low=0.0, high=_LARGEST)
        best = restored_count(state, "best", maximum=k - 1)
        for stream, saved in zip(self._streams, state["streams"], strict=True):
            stream.restore(saved)
        self._averages = self._found_averages()
        with np.errstate(over="ignore", invalid="ignore"):
            check_sane("score of the origin", self._averages @ origin)
        check_sane("score", scores)
        self._progress, self._pairs = progress.copy(), pairs
        self._latest = LatestScores(scores, positive, weight)
        self._best, self.origin = best, origin

    def _found_averages(self) -> Vector:
        if len(self._streams) == 1:
            return self._streams[0].average[np.newaxis]
        return np.array([stream.average for stream in self._streams])

    @property
    def best(self) -> Stream:
        """The stream with the highest progressive AUC."""
        return self._streams[self._best]

    @property
    def average(self) -> Vector:
        """The average of the best stream."""
        return np.asarray(self._averages[self._best])

    @property
    def step_size(self) -> float:
        """The step size of the best stream."""
        return self._steps[self._best]

    @property
    def progressive_auc(self) -> float | None:
        """AUC of predictions made before learning, over the chunks that chose the step size."""
        return float(self._progress[self._best] / self._pairs) if self._pairs else None

    def undecided(self) -> Undecided:
        """Return the latest scores of the best model, from which its decisions are found.

        They are progressive, except in the first chunk, whose examples are scored after learning.
        """
        average, latest = self.average, self._latest
        return Undecided(
            latest.scores[self._best],
            latest.positive,
            latest.counts,
            before=self.decided,
            shift=float(average.dot(self.origin)),
        )

    def learn(self, rows: Rows, y: Vector, weight: Vector) -> Vector:
        """Learn a chunk; `weight` may be empty. Return the scores that its examples had before.

        They are scores of the differences from the first example, or from the mean of sparse ones.
        """
        if isinstance(rows, DenseRows) and rows.X.dtype != self._dtype:
            rows = DenseRows(rows.X.astype(self._dtype))
        origin, n_before = self.origin, self.best.n_examples
        if isinstance(rows, CsrRows):
            share = rows.shape[0] / (n_before + rows.shape[0])
            origin = origin + share * (rows.spread()[0] - origin)
        elif not n_before and not self._has_origin:
            origin = rows.X[0].astype(np.float64)
        scores = rows.scores(self._averages) - (self._averages @ origin)[:, np.newaxis]
        given, is_first = scores[self._best], not n_before
        # A stream that fails restores itself; the streams before it are restored here.
        saved = [stream.state() for stream in self._streams[:-1]]
        try:
            for stream in self._streams:
                stream.learn_rows(rows, y, weight)
        except BaseException:
            for stream, state in zip(self._streams, saved, strict=False):
                stream.restore(state)
            raise
        self._averages = self._found_averages()
        self.origin = origin
        positive = y > 0
        noted = scores
        if is_first:
            # All scores before the first chunk are equal, so no cut or scale follows from them.
            noted = rows.scores(self._averages) - (self._averages @ origin)[:, np.newaxis]
        self._latest.add(noted, positive, weight)
        if len(self._streams) > 1:
            self._compare(scores, y, weight)
        return np.asarray(given)

    def _compare(self, scores: Vector, y: Vector, weight: Vector) -> None:
        """Add a chunk to the progressive AUC of each stream; after the warm-up keep the best.

        A pair counts the product of the weights of its examples.
        """
        positive = y > 0
        share = weight if len(weight) else np.ones(len(y))
        n_pairs = float(share[positive].sum()) * float(share[~positive].sum())
        if n_pairs and len(weight):
            self._progress += [
                n_pairs * judged_auc(y, own, weight) if np.isfinite(own).all() else 0.0
                for own in scores
            ]
            self._pairs += n_pairs
        elif n_pairs:
            winners, losers = np.sort(scores[:, positive]), np.sort(scores[:, ~positive])
            self._progress += [
                doubled_wins(*both) / 2 for both in zip(winners, losers, strict=True)
            ]
            self._pairs += n_pairs
        self._best = best = int(np.argmax(self._progress))
        if self.best.n_examples >= _WARM_UP:
            self._streams, self._steps = [self._streams[best]], [self._steps[best]]
            self._progress, self._averages = self._progress[[best]], self._averages[[best]]
            self._latest.keep(best)
            self._best = 0
