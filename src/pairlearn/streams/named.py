# SPDX-License-Identifier: BSD-3-Clause
"""Algorithm 2 on examples given as dicts: features by name, which may come and go.

Names are mapped to columns once per *layout* (a sequence of names); an example only appends its
values to a flat buffer, and the buffer is learned when it is full or when somebody asks for a
prediction. The result is that of learning each example at once. A feature that is absent is 0; a
new one starts with coefficient 0, which is what it would have had if it had always been absent.

Probabilities come from scores that examples got before they were learned: within each class they
are described by a mean and a common variance, and the logarithm of the odds is then linear in the
score.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairlearn.domains import Ball, WholeSpace
from pairlearn.losses import PairLoss, get_loss
from pairlearn.problem import Problem
from pairlearn.schedules import InverseSqrt
from pairlearn.scores import LinearScore
from pairlearn.solvers.pairwise_sgd import PairwiseSGD, Stream
from pairlearn.solvers.rows import CsrRows, DenseRows, Rows
from pairlearn.streams.driving import restore_stream, stream_state
from pairlearn.validation import check_positive

__all__ = ["NamedLearner", "check_example", "check_label"]

#: Examples that wait to be learned at the most.
_BATCH = 256
#: Up to so many features examples are rows of a dense array, beyond that sparse rows.
_DENSE_UP_TO = 512
#: Examples whose spread gives the scale of the steps, with step_size="auto".
_WARM_UP = 32
#: Layouts that are remembered; where names vary freely there would be one for each example.
_LAYOUTS = 1024
#: How much of the statistics of the scores survives a block of _BATCH examples.
_FADE = 0.9


class NamedLearner:
    """Online AUC maximisation for examples given as dicts.

    Parameters
    ----------
    loss : str or PairLoss, default="hinge"
        The pair loss.
    step_size : float or "auto", default="auto"
        Scale c of the step sizes c / sqrt(t). "auto" takes the reciprocal of the mean squared
        distance of two examples among the first 32, which wait until then.
    radius : float, default=inf
        Radius of the ball that the coefficients live in.

    Examples
    --------
    >>> learner = NamedLearner(step_size=0.1)
    >>> for value, label in [(1.0, True), (-1.0, False), (2.0, True), (-2.0, False)]:
    ...     learner.learn_one({"height": value}, label)
    >>> learner.score_one({"height": 1.0}) > learner.score_one({"height": 0.0, "new": 5.0})
    True
    """

    def __init__(
        self,
        loss: str | PairLoss = "hinge",
        *,
        step_size: float | str = "auto",
        radius: float = math.inf,
    ) -> None:
        self.loss = loss
        self.step_size = step_size
        self.radius = radius
        self._start_empty()

    def _start_empty(self) -> None:
        get_loss(self.loss)
        if self.step_size != "auto":
            check_positive("step_size", self.step_size)  # type: ignore[arg-type]
        check_positive("radius", self.radius, allow_infinite=True)
        #: Column of each name; the columns of each layout.
        self._index: dict[Any, int] = {}
        self._layouts: dict[tuple[Any, ...], NDArray[np.int32]] = {}
        self._names: tuple[Any, ...] | None = None
        self._layout = np.empty(0, dtype=np.int32)
        #: Examples that wait: their values one after the other, their layouts, their labels.
        self._values: list[float] = []
        self._waiting: list[NDArray[np.int32]] = []
        self._labels: list[float] = []
        self._stream: Stream | None = None
        self._scale = 0.0
        self._capacity = 8
        self._average: NDArray[np.float64] | None = np.zeros(8)
        self._n_learned = 0
        #: Number, sum and sum of squares of the scores of each class, by the coefficients
        #: `_judge`. They change at fixed numbers of examples, whenever predictions are asked.
        self._moments = np.zeros((2, 3))
        self._judge = np.zeros(8)
        self._next_judge = 8

    def __getstate__(self) -> dict[str, Any]:
        self._learn_waiting()
        return dict(self.__dict__)

    # --------------------------------------------------------------------------- learning

    def learn_one(self, x: Mapping[Any, float], y: Any) -> None:
        """Learn from one example.

        Parameters
        ----------
        x : mapping of name to number
            The features that are present.
        y : bool
            The label; 1 and 0, or 1 and -1, do as well.
        """
        try:
            label = _LABELS[y]
            # A finite sum shows that every value is a finite number.
            if not isfinite(sum(x.values())):
                check_example(x)
        except (KeyError, TypeError, AttributeError, OverflowError):
            check_example(x)
            check_label(y)
            raise
        names = tuple(x)
        if names != self._names:
            self._layout = self._columns(names)
            self._names = names
        self._values += x.values()
        self._waiting.append(self._layout)
        labels = self._labels
        labels.append(label)
        if len(labels) >= _BATCH:
            self._learn_waiting()

    @property
    def n_seen(self) -> int:
        """Examples received."""
        return self._n_learned + len(self._labels)

    @property
    def feature_names(self) -> tuple[Any, ...]:
        """The names seen in examples that were learned or wait to be, in order of appearance."""
        return tuple(self._index)

    def _columns(self, names: tuple[Any, ...]) -> NDArray[np.int32]:
        found = self._layouts.get(names)
        if found is None:
            index = self._index
            columns = [index.setdefault(name, len(index)) for name in names]
            found = np.array(columns, dtype=np.int32)
            if len(self._layouts) >= _LAYOUTS:
                self._layouts.clear()
            self._layouts[names] = found
        return found

    def _learn_waiting(self) -> None:
        """Learn the examples that wait, cut where the judge of the scores changes."""
        if not self._labels or (self._stream is None and not self._start()):
            return
        if len(self._index) > self._capacity:
            self._grow()
        assert self._stream is not None
        labels = np.array(self._labels)
        if len(labels) == 1 and self._capacity <= _DENSE_UP_TO:
            row = np.zeros(self._capacity)
            row[self._waiting[0]] = self._values
            self._note(np.array([float(self._judge @ row)]), labels)
            self._stream.learn_one(row, float(labels[0]))
            self._n_learned += 1
            self._change_judge()
        else:
            rows = self._rows()
            begin = 0
            while begin < len(labels):
                stop = min(len(labels), begin + self._next_judge - self._n_learned)
                whole = begin == 0 and stop == len(labels)
                part = rows if whole else rows.take(np.arange(begin, stop))
                self._note(part.scores(self._judge), labels[begin:stop])
                self._stream.learn_many(part, labels[begin:stop])
                self._n_learned += stop - begin
                self._change_judge()
                begin = stop
        self._values, self._waiting, self._labels = [], [], []
        self._average = None

    def _rows(self) -> Rows:
        """Return the waiting examples as rows."""
        m = len(self._waiting)
        flat = np.frombuffer(struct.pack(f"{len(self._values)}d", *self._values))
        first = self._waiting[0]
        one = all(layout is first for layout in self._waiting)
        if self._capacity > _DENSE_UP_TO:
            columns = np.tile(first, m) if one else np.concatenate(self._waiting)
            lengths = [len(w) for w in self._waiting]
            indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
            return CsrRows(flat, columns, indptr, self._capacity)
        X = np.zeros((m, self._capacity))
        if one:
            X[:, first] = flat.reshape(m, len(first))
        else:
            row = np.repeat(np.arange(m), [len(w) for w in self._waiting])
            X[row, np.concatenate(self._waiting)] = flat
        return DenseRows(X)

    # ------------------------------------------------------------------------- the stream

    def _make(self) -> Stream:
        domain = WholeSpace() if math.isinf(self.radius) else Ball(self.radius)
        solver = PairwiseSGD(schedule=InverseSqrt(self._scale), domain=domain)
        problem = Problem(LinearScore(), get_loss(self.loss))
        return solver.start(problem, self._capacity, rng=0)

    def _start(self) -> bool:
        """Start the stream, unless the scale of the steps is still unknown."""
        if self.step_size == "auto" and len(self._labels) < _WARM_UP:
            return False
        while len(self._index) > self._capacity:
            self._capacity *= 2
        if self.step_size == "auto":
            mean, spread = self._rows().take(np.arange(_WARM_UP)).spread()
            distance = 2.0 * spread if spread > 0 else float(mean @ mean)
            self._scale = 1.0 / distance if distance > 0 else 1.0
        else:
            self._scale = float(self.step_size)
        self._stream = self._make()
        self._judge = np.zeros(self._capacity)
        return True

    def _grow(self) -> None:
        """Make room for further features; their coefficients have been 0 all the time."""
        assert self._stream is not None
        old = self._capacity
        while len(self._index) > self._capacity:
            self._capacity *= 2
        more = self._capacity - old
        saved = self._stream.save()
        descent = saved["descent"]
        for name in ("w", "weighted_sum", "left_iterate", "total"):
            descent[name] = np.pad(descent[name], (0, more))
        rows, labels, weight = saved["buffer"]
        if rows is not None:
            saved["buffer"] = (_widen(rows, self._capacity), labels, weight)
        self._stream = self._make()
        self._stream.restore(saved)
        self._judge = np.pad(self._judge, (0, more))

    # ----------------------------------------------------------------------- calibration

    def _note(self, scores: NDArray[np.float64], labels: NDArray[np.float64]) -> None:
        if self._n_learned < 8:
            return
        for k, sign in enumerate((-1.0, 1.0)):
            some = scores[labels == sign]
            self._moments[k] += (len(some), some.sum(), some @ some)

    def _change_judge(self) -> None:
        if self._n_learned < self._next_judge:
            return
        assert self._stream is not None
        self._judge = self._stream.average
        self._moments *= _FADE
        self._next_judge = self._n_learned + min(self._n_learned, _BATCH)

    def _line(self) -> tuple[float, float]:
        """Return slope and intercept of the logarithm of the odds as a function of the score."""
        (n0, s0, q0), (n1, s1, q1) = self._moments.tolist()
        prior = math.log((n1 + 1.0) / (n0 + 1.0))
        if n0 <= 0 or n1 <= 0:
            return 0.0, prior
        low, high = s0 / n0, s1 / n1
        variance = max(q0 - n0 * low**2 + q1 - n1 * high**2, 0.0) / (n0 + n1)
        gap = high - low
        if gap <= 0:
            return 0.0, prior
        # With hardly any spread the odds would be infinite.
        slope = gap / max(variance, 1e-3 * gap * gap)
        return slope, prior - slope * (high + low) / 2

    # ------------------------------------------------------------------------- prediction

    @property
    def coefficients(self) -> dict[Any, float]:
        """The coefficient of each feature."""
        average = self._current()
        return {name: float(average[column]) for name, column in self._index.items()}

    def _current(self) -> NDArray[np.float64]:
        self._learn_waiting()
        if self._average is None:
            assert self._stream is not None
            self._average = self._stream.average
        return self._average

    def score_one(self, x: Mapping[Any, float]) -> float:
        """Return the score of an example; names never seen in learning count nothing."""
        average, index = self._current(), self._index
        known = len(average)
        total = 0.0
        for name, value in x.items():
            column = index.get(name, known)
            if column < known:
                total += float(average[column]) * value
        return total

    def predict_proba_one(self, x: Mapping[Any, float]) -> dict[bool, float]:
        """Return the probabilities of False and True."""
        score = self.score_one(x)
        slope, intercept = self._line()
        odds = min(max(slope * score + intercept, -700.0), 700.0)
        positive = 1.0 / (1.0 + math.exp(-odds))
        return {False: 1.0 - positive, True: positive}

    def predict_one(self, x: Mapping[Any, float]) -> bool:
        """Return whether True is the more probable label."""
        return self.predict_proba_one(x)[True] > 0.5

    # ------------------------------------------------------------------------------ state

    def settings(self) -> dict[str, Any]:
        """Return how the learner was made, as plain values."""
        from pairlearn.models.parts import encode

        names = ("loss", "step_size", "radius")
        return {name: encode(getattr(self, name), name) for name in names}

    def state(self) -> dict[str, Any]:
        """Return everything that the next example depends on, for a checkpoint."""
        self._learn_waiting()
        return {
            "index": list(self._index),
            "waiting": [layout.tolist() for layout in self._waiting],
            "values": list(map(float, self._values)),
            "labels": list(self._labels),
            "stream": None if self._stream is None else stream_state(self._stream),
            "scale": self._scale,
            "capacity": self._capacity,
            "n_learned": self._n_learned,
            "moments": self._moments,
            "judge": self._judge,
            "next_judge": self._next_judge,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go back to a state returned by `state`, also by another learner made alike."""
        self._start_empty()
        self._index = {name: k for k, name in enumerate(state["index"])}
        self._waiting = [np.array(layout, dtype=np.int32) for layout in state["waiting"]]
        self._values, self._labels = list(state["values"]), list(state["labels"])
        self._scale, self._capacity = float(state["scale"]), int(state["capacity"])
        self._n_learned, self._next_judge = int(state["n_learned"]), int(state["next_judge"])
        self._moments, self._judge = state["moments"].copy(), state["judge"].copy()
        self._average = np.zeros(self._capacity)
        if state["stream"] is not None:
            self._stream = self._make()
            restore_stream(self._stream, state["stream"])
            self._average = None

    def to_model(self, classes: tuple[Any, Any] = (False, True)) -> Any:
        """Return an `AUCClassifier` with the same coefficients and probabilities.

        Parameters
        ----------
        classes : tuple (negative, positive)
            Its labels.

        Returns
        -------
        AUCClassifier
            A fitted model over the features seen so far, in the order of `feature_names`.
        """
        from pairlearn.estimators.auc import AUCClassifier
        from pairlearn.models.parts import encode
        from pairlearn.models.record import ModelRecord

        coef = np.array(list(self.coefficients.values()))
        slope, intercept = self._line()
        stream = self._stream
        arrays: dict[str, Any] = {
            "coef": coef,
            "threshold": np.float64(-intercept / slope if slope > 0 else 0.0),
            "step_size": np.float64(self._scale),
            "n_steps": np.int64(0 if stream is None else stream.n_steps),
            "n_gradients": np.int64(0 if stream is None else stream.n_gradients),
            "n_examples": np.int64(self.n_seen),
            "sigmoid": np.array([slope, intercept]),
        }
        if not math.isinf(self.radius):
            arrays["radius"] = np.float64(self.radius)
        record = ModelRecord(
            "AUCClassifier",
            arrays,
            parameters={
                "loss": encode(self.loss, "loss"),
                "step_size": self.step_size,
                "classes_dtype": np.array(classes).dtype.str,
            },
            classes=classes,
            feature_names=[str(name) for name in self._index],  # type: ignore[arg-type]
            provenance={"rows_seen": self.n_seen},
        )
        return AUCClassifier.from_record(record)


_LABELS: dict[Any, float] = {True: 1.0, False: -1.0, -1: -1.0}


def check_label(y: Any) -> None:
    """Refuse a label that is neither True nor False, 1 nor 0 nor -1.

    Examples
    --------
    >>> check_label("yes")
    Traceback (most recent call last):
        ...
    ValueError: the label must be True or False (1 or 0), got 'yes'.
    """
    try:
        known = y in _LABELS
    except TypeError:
        known = False
    if not known:
        raise ValueError(f"the label must be True or False (1 or 0), got {y!r:.60}.")


def check_example(x: Any) -> None:
    """Refuse what is not a mapping of names to finite numbers.

    Examples
    --------
    >>> check_example({"age": None})
    Traceback (most recent call last):
        ...
    ValueError: feature 'age' is None; leave it out where it is missing, and write categories...
    """
    if not isinstance(x, Mapping):
        kind = type(x).__name__
        raise ValueError(f"an example must be a dict of names and numbers, got {kind}.")
    for name, value in x.items():
        try:
            good = isfinite(value)
        except (TypeError, ValueError, OverflowError):
            good = False
        if not good:
            raise ValueError(
                f"feature {name!r} is {value!r:.60}; leave it out where it is missing, and write "
                "categories as one feature each with value 1."
            )


def _widen(rows: Rows, width: int) -> Rows:
    if isinstance(rows, CsrRows):
        return CsrRows(rows.data, rows.indices, rows.indptr, width)
    if width <= _DENSE_UP_TO:
        return DenseRows(np.pad(rows.X, ((0, 0), (0, width - rows.X.shape[1]))))
    kept = rows.X != 0
    indptr = np.concatenate([[0], np.cumsum(kept.sum(axis=1))]).astype(np.int32)
    return CsrRows(rows.X[kept], np.nonzero(kept)[1].astype(np.int32), indptr, width)
