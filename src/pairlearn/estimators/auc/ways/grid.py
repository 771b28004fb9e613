# SPDX-License-Identifier: BSD-3-Clause
"""The streams of descent behind `AUCClassifier.partial_fit`, and the choice of a step size."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairlearn.averaging import Averaging
from pairlearn.domains import ball_or_whole
from pairlearn.estimators.shared.decisions import (
    Decision,
    Undecided,
    pack_decision,
    unpack_decision,
)
from pairlearn.estimators.shared.weights import judged_auc
from pairlearn.pairings import Pairing, PreviousExample
from pairlearn.problem import Problem
from pairlearn.schedules import Schedule
from pairlearn.solvers.descent.pairwise_sgd import PairwiseSGD
from pairlearn.solvers.descent.stream import Stream
from pairlearn.solvers.rows import CsrRows, DenseRows, Rows, mean_pair_distance
from pairlearn.solvers.streams.running_scales import RunningScales
from pairlearn.typing import Vector
from pairlearn.validation import as_counts

#: Examples that all step sizes of a grid learn; then the best is kept.
_WARM_UP = 4096
#: Step sizes c of a stream without scales, times one over the mean squared distance of two rows;
#: steps are c / sqrt(t). They are half a decade apart.
_STREAM_STEPS = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
#: The number of latest scores that are kept.
WINDOW = 4096


def check_width(state: Mapping[str, Any], n_features: int) -> None:
    """Refuse a saved stream of rows with another number of features, after the feature map."""
    width = state.get("width")
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
        self.radius, self.n_before, self.decided = radius, n_before, decided
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
        self._progress, self._pairs, self._best = np.zeros(len(self._steps)), 0.0, 0
        # The latest scores, a row for each step size, which are of positives, and their weights.
        nothing = np.empty(0)
        self._latest: tuple[NDArray[Any], ...]
        self._latest = np.empty((len(self._steps), 0)), nothing > 0.0, nothing

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
            "progress": self._progress,
            "pairs": self._pairs,
            "origin": self.origin,
            "latest": list(self._latest),
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
        grid = cls(
            problem,
            n_features,
            dtype=state["dtype"],
            step_sizes=state["step_sizes"],
            radius=state["radius"],
            n_before=state["n_before"],
            decided=None if state["decided"] is None else unpack_decision(state["decided"]),
            scales=RunningScales(n_features) if is_scaled else None,
            **parts,
        )
        for stream, saved in zip(grid._streams, state["streams"], strict=True):
            stream.restore(saved)
        grid._averages, grid.origin = grid._found_averages(), state["origin"]
        grid._progress, grid._pairs = state["progress"].copy(), state["pairs"]
        grid._latest, grid._best = tuple(state["latest"]), state["best"]
        return grid

    def _found_averages(self) -> Vector:
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
        scores, positive, weight = self._latest
        shift = float(self.average.dot(self.origin))
        own = scores[self._best], positive, as_counts(weight)
        return Undecided(*own, before=self.decided, shift=shift)

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
        scores = noted = rows.scores(self._averages) - (self._averages @ origin)[:, np.newaxis]
        given = scores[self._best]
        # A stream that fails restores itself; the streams before it are restored here.
        saved = [stream.state() for stream in self._streams[:-1]]
        try:
            for stream in self._streams:
                stream.learn_rows(rows, y, weight)
        except BaseException:
            for stream, state in zip(self._streams, saved, strict=False):
                stream.restore(state)
            raise
        self._averages, self.origin = self._found_averages(), origin
        if not n_before:
            # All scores before the first chunk are equal, so no cut or scale follows from them.
            noted = rows.scores(self._averages) - (self._averages @ origin)[:, np.newaxis]
        shares = weight if len(weight) else np.ones(len(y))
        new = zip(self._latest, (noted, y > 0, shares), strict=True)
        self._latest = tuple(np.concatenate(parts, axis=-1)[..., -WINDOW:] for parts in new)
        if len(self._streams) > 1:
            self._compare(scores, y, weight, shares)
        return np.asarray(given)

    def _compare(self, scores: Vector, y: Vector, weight: Vector, shares: Vector) -> None:
        """Add a chunk to the progressive AUC of each stream; after the warm-up keep the best.

        A pair counts the product of the weights of its examples.
        """
        n_pairs = float(shares[y > 0].sum()) * float(shares[y < 0].sum())
        if n_pairs:
            self._progress += [
                n_pairs * judged_auc(y, own, weight) if np.isfinite(own).all() else 0.0
                for own in scores
            ]
            self._pairs += n_pairs
        self._best = best = int(np.argmax(self._progress))
        if self.best.n_examples >= _WARM_UP:
            self._streams, self._steps = [self._streams[best]], [self._steps[best]]
            self._progress, self._averages = self._progress[[best]], self._averages[[best]]
            self._latest = (self._latest[0][[best]], *self._latest[1:])
            self._best = 0
