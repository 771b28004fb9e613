# SPDX-License-Identifier: BSD-3-Clause
"""Algorithm 2 on examples given as dicts: features by name, which may come and go.

Examples are copied and wait; a batch is mapped to rows and learned at once, which gives what
learning each at once would give. A feature that is absent is 0; a new one starts with coefficient
0, which is what it would have had if it had always been absent. As long as examples have the
names of the last batch, only their values are kept.

Predictions use the average as of certain numbers of examples: after n of them the next change is
n / 8 later, 1024 at the most. The average of n iterates hardly moves in between, and what is
predicted does not depend on how often somebody asks.

Probabilities come from scores that examples got before they were learned: within each class they
are described by a mean and a common variance, and the logarithm of the odds is then linear in the
score.
"""

from __future__ import annotations

import math
import struct
import warnings
from collections.abc import Callable, Mapping
from itertools import chain, repeat
from math import isfinite
from operator import itemgetter, mul
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pairlearn.domains import ball_or_whole
from pairlearn.losses import PairLoss, get_loss
from pairlearn.problem import Problem
from pairlearn.restored import restored_array, restored_count, restored_number
from pairlearn.schedules import InverseSqrt
from pairlearn.scores import LinearScore
from pairlearn.solvers.interrupts import deferred_interrupt
from pairlearn.solvers.order import OrderWatch
from pairlearn.solvers.pairwise_sgd import PairwiseSGD
from pairlearn.solvers.rows import CsrRows, DenseRows, Rows, mean_pair_distance
from pairlearn.solvers.running_scales import STEP_SIZE, RunningScales
from pairlearn.solvers.stream import Stream
from pairlearn.solvers.turns import Turns
from pairlearn.validation import DivergenceError, check_positive

if TYPE_CHECKING:
    from pairlearn.models.record import ModelRecord

__all__ = ["NamedLearner", "RefusedExampleWarning", "check_example", "check_label"]

#: Examples that wait to be learned at the most.
_BATCH = 1024
#: After n examples n / _SHARE more may wait.
_SHARE = 8
#: Up to so many features examples are rows of a dense array, beyond that sparse rows.
_DENSE_UP_TO = 512
#: Examples whose spread gives the scale of the steps, with step_size="auto".
_WARM_UP = 32
#: Values and coefficients are at most so large: squares of scores, summed, stay finite.
_LARGEST = 1e60
#: How much of the statistics of the scores survives _BATCH examples.
_FADE = 0.7


class RefusedExampleWarning(UserWarning):
    """Examples were not learned because their values cannot be used."""


class NamedLearner:
    """Online AUC maximisation for examples given as dicts.

    Parameters
    ----------
    loss : str or PairLoss, default="hinge"
        The pair loss.
    step_size : float or "auto", default="auto"
        Scale c of the step sizes c / sqrt(t). "auto" takes 3; without `scaling` the reciprocal of
        the mean squared distance of two examples among the first 32, which wait until then.
    radius : float, default=inf
        Radius of the ball that the coefficients live in.
    scaling : "auto" or None, default="auto"
        "auto" finds the scales of features on the way, so that their units do not matter (see
        `pairlearn.solvers.running_scales`): coefficients are in the units of the examples,
        `step_size` and `radius` refer to features whose variances add up to 1. None takes them as
        they are.

    Attributes
    ----------
    n_seen : int
        Examples received, refused ones included.
    n_refused : int
        Examples that were not learned because a value was not a finite number of at most 1e60, or
        because coefficients would have become larger than that. Each batch with such examples
        gives a `RefusedExampleWarning` that names the first. Where coefficients would leave the
        numbers at every example of a batch, `learn_one` raises a `DivergenceError`; the batch is
        not learned.

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
        scaling: str | None = "auto",
    ) -> None:
        self.loss = loss
        self.step_size = step_size
        self.radius = radius
        self.scaling = scaling
        #: Threads that teach take turns; predictions wait for nobody.
        self._turns = Turns()
        self._start_empty()

    def _start_empty(self) -> None:
        get_loss(self.loss)
        if self.step_size != "auto":
            check_positive("step_size", self.step_size)  # type: ignore[arg-type]
        check_positive("radius", self.radius, allow_infinite=True)
        if self.scaling not in ("auto", None):
            raise ValueError(f'scaling must be "auto" or None, got {self.scaling!r}.')
        self._index: dict[Any, int] = {}
        self._layouts: dict[tuple[Any, ...], NDArray[np.int32]] = {}
        #: The names that all examples of the last batch had, and how to take their values.
        self._names: tuple[Any, ...] = ()
        self._width = 0
        self._pick: Callable[[dict[Any, float]], tuple[float, ...]] | None = None
        #: Values of the first examples that wait, one example after the other.
        self._values: list[float] = []
        #: The examples that wait after them, the labels of all, and how many may wait.
        self._waiting: list[dict[Any, float]] = []
        self._labels: list[float] = []
        self._room = _WARM_UP if self._warms_up else 1
        self._stream: Stream | None = None
        self._scale = 0.0
        self._capacity = 1
        self._in_order = np.arange(1, dtype=np.int32)
        #: The coefficients that predict, by column.
        self._coef = np.zeros(1)
        #: Scores are noted about the first example of a scaled stream, as far as it was dense:
        #: coefficients that wobble would shift those of features far from zero.
        self._origin = np.zeros(1)
        #: What predictions see, changed by one assignment: the coefficients by name; number, sum
        #: and sum of squares of the scores of each class, given before learning; and `offset`.
        self._seen: tuple[dict[Any, float], NDArray[np.float64], float]
        self._seen = {}, np.zeros((2, 3)), 0.0
        self._watch = OrderWatch()
        self._n_taken = 0
        self.n_refused = 0

    @property
    def _warms_up(self) -> bool:
        """Whether the scale of the steps is found from the first examples."""
        return self.step_size == "auto" and self.scaling is None

    # --------------------------------------------------------------------------- learning

    def learn_one(self, x: Mapping[Any, float], y: Any) -> None:
        """Learn from one example; the label is True or False, 1 and 0, or 1 and -1."""
        try:
            label = _LABELS[y]
        except (KeyError, TypeError):
            check_label(y)
            raise
        with self._turns:
            self._learn_one(x, label)

    def _learn_one(self, x: Mapping[Any, float], label: float) -> None:
        pick = self._pick
        labels = self._labels
        try:
            try:
                if pick is None or type(x) is not dict or len(x) != self._width:
                    self._keep(x)
                else:
                    self._values += pick(x)
            except KeyError:  # as many names as in the last batch, but others
                self._keep(x)
            labels.append(label)
        except BaseException:
            self._drop_unlabelled()
            raise
        if len(labels) >= self._room:
            with deferred_interrupt():
                try:
                    self._learn_waiting()
                finally:
                    self._change_coefficients()

    def _keep(self, x: Mapping[Any, float]) -> None:
        """Let an example wait with its names, and those after it."""
        try:
            self._waiting.append(dict(x))
        except (TypeError, ValueError):
            check_example(x)
            raise
        self._pick = None

    def _drop_unlabelled(self) -> None:
        """Forget an example whose label did not follow: Ctrl-C came in between."""
        kept = len(self._labels)
        unnamed = len(self._values) // self._width if self._width else 0
        del self._waiting[max(0, kept - unnamed) :]
        del self._values[kept * self._width :]

    def _pending(self) -> list[dict[Any, float]]:
        """Return the examples that wait."""
        width, values = self._width, self._values
        return [
            dict(zip(self._names, values[k : k + width], strict=True))
            for k in range(0, len(values), max(width, 1))
        ] + self._waiting

    @property
    def n_seen(self) -> int:
        """Examples received."""
        return self._n_taken + len(self._labels)

    @property
    def offset(self) -> float:
        """The score of the example about which scores are noted, as of the last prediction."""
        return self._seen[2]

    @property
    def feature_names(self) -> tuple[Any, ...]:
        """The names in the examples learned so far, in order of appearance."""
        return tuple(self._index)

    def _learn_waiting(self) -> None:
        """Learn the examples that wait, unless the scale of the steps is still unknown."""
        if not self._labels or (
            self._stream is None and self._warms_up and len(self._labels) < _WARM_UP
        ):
            return
        with deferred_interrupt():  # what is taken is learned
            rows, y = self._take_waiting()
            if not len(y):
                return
            if self._stream is None:
                self._start(rows)
            assert self._stream is not None
            self._note(rows.scores(self._coef) - self.offset, y)
            count, cause = self._learn_rows(rows, y)
            self.n_refused += count
            is_dense = isinstance(rows, DenseRows)
            self._watch.note(y, scales=self._stream.scales if is_dense else None)
        if count == len(y):
            raise DivergenceError(f"{count} examples not learned: {cause}")
        if count:
            warnings.warn(
                f"{count} of {len(y)} examples not learned: {cause}",
                RefusedExampleWarning,
                stacklevel=4,
            )

    def _learn_rows(self, rows: Rows, y: NDArray[np.float64]) -> tuple[int, str]:
        """Learn rows but for those that would ruin the model; return how many these are, and why.

        A batch in which there are such rows is learned in halves, down to a single row.
        """
        assert self._stream is not None
        saved = self._stream.state()
        try:
            self._stream.learn_many(rows, y)
            size = max(np.abs(self._stream.w).max(), np.abs(self._stream.average).max())
            if size <= _LARGEST:
                return 0, ""
            cause = (
                f"a coefficient would be {size:.3g}, beyond {_LARGEST:g}; take a smaller "
                "step_size, or scale the features."
            )
        except DivergenceError as error:
            cause = str(error)
        self._stream.restore(saved)
        m = len(y)
        if m == 1:
            return 1, cause
        found = [self._learn_rows(rows.take(part), y[part])
                 for part in (np.arange(m // 2), np.arange(m // 2, m))]  # fmt: skip
        return sum(count for count, _ in found), found[0][1] or found[1][1]

    def _take_waiting(self) -> tuple[Rows, NDArray[np.float64]]:
        """Return the waiting examples as rows, those that can be used, and empty the queue."""
        labels = self._labels
        self._n_taken += len(labels)
        self._room -= len(labels)
        flat = None if self._waiting else _as_numbers(self._values)
        examples = self._pending() if flat is None else []
        self._values, self._waiting, self._labels = [], [], []
        if flat is not None:
            return self._rows_alike(self._names, len(labels), flat), np.array(labels)
        flat = _values_of(examples)
        if flat is None:
            pairs = [(x, y) for x, y in zip(examples, labels, strict=True) if _is_usable(x)]
            self._refuse(examples, len(examples) - len(pairs))
            examples, labels = [x for x, _ in pairs], [y for _, y in pairs]
            flat = _values_of(examples)
            assert flat is not None
        return self._rows(examples, flat), np.array(labels)

    def _refuse(self, examples: list[dict[Any, float]], count: int) -> None:
        self.n_refused += count
        for x in examples:
            try:
                check_example(x)
            except ValueError as error:
                warnings.warn(
                    f"{count} of {len(examples)} examples not learned; first: {error}",
                    RefusedExampleWarning,
                    stacklevel=6,
                )
                return

    def _rows(self, examples: list[dict[Any, float]], flat: NDArray[np.float64]) -> Rows:
        m = len(examples)
        names = list(map(tuple, examples))
        if m and names.count(names[0]) == m:
            return self._rows_alike(names[0], m, flat)
        columns = np.concatenate([_NONE, *map(self._columns, names)])
        counts = np.array(list(map(len, examples)), dtype=np.intp)
        self._make_room()
        if self._capacity > _DENSE_UP_TO:
            indptr = np.concatenate([[0], np.cumsum(counts)])
            return CsrRows(flat, columns, indptr, self._capacity)
        X = np.zeros((m, self._capacity))
        X[np.repeat(np.arange(m), counts), columns] = flat
        return DenseRows(X)

    def _rows_alike(self, names: tuple[Any, ...], m: int, flat: NDArray[np.float64]) -> Rows:
        """Return the rows of m examples with the same names; the next ones may have them too."""
        layout = self._columns(names)
        self._make_room()
        width = len(names)
        if self._capacity > _DENSE_UP_TO:
            # In sparse rows the order of the names would show in the last digits.
            self._pick = None
            indptr = width * np.arange(m + 1)
            return CsrRows(flat, np.tile(layout, m), indptr, self._capacity)
        self._names, self._width = names, width
        # Of a single name `itemgetter` gives no tuple.
        self._pick = itemgetter(*names) if width > 1 else None
        if width == self._capacity and (layout == self._in_order).all():
            return DenseRows(flat.reshape(m, width))
        X = np.zeros((m, self._capacity))
        X[:, layout] = flat.reshape(m, width)
        return DenseRows(X)

    def _columns(self, names: tuple[Any, ...]) -> NDArray[np.int32]:
        found = self._layouts.get(names)
        if found is None:
            index = self._index
            columns = [index.setdefault(name, len(index)) for name in names]
            found = np.array(columns, dtype=np.int32)
            if len(self._layouts) >= _BATCH:
                # where names vary freely there would be one for each example
                self._layouts.clear()
            self._layouts[names] = found
        return found

    # ------------------------------------------------------------------------- the stream

    def _make(self) -> Stream:
        domain = ball_or_whole(self.radius)
        solver = PairwiseSGD(schedule=InverseSqrt(self._scale), domain=domain)
        problem = Problem(LinearScore(), get_loss(self.loss))
        scales = None if self.scaling is None else RunningScales(self._capacity)
        return solver.start(problem, self._capacity, rng=0, scales=scales)

    def _start(self, rows: Rows) -> None:
        if self._warms_up:
            first = rows.take(np.arange(min(rows.shape[0], _WARM_UP)))
            # of features that are hardly more than zero the reciprocal would be infinite
            self._scale = min(1.0 / mean_pair_distance(first), _LARGEST**2)
        else:
            self._scale = STEP_SIZE if self.step_size == "auto" else float(self.step_size)
        if self.scaling is not None and isinstance(rows, DenseRows):
            self._origin = rows.X[0].copy()
        self._stream = self._make()

    def _make_room(self) -> None:
        """Make room for further features; their coefficients have been 0 all the time."""
        old, needed = self._capacity, len(self._index)
        if needed <= old:
            return
        # Dense rows are as wide as they must be; sparse rows do not mind.
        self._capacity = needed if needed <= _DENSE_UP_TO else 1 << needed.bit_length()
        self._in_order = np.arange(self._capacity, dtype=np.int32)
        more = self._capacity - old
        self._coef = np.pad(self._coef, (0, more))
        self._origin = np.pad(self._origin, (0, more))
        if self._stream is None:
            return
        saved = self._stream.state()
        descent = saved["descent"]
        for name in ("w", "weighted_sum", "left_iterate", "total"):
            descent[name] = np.pad(descent[name], (0, more))
        # Sparse steps keep the squared norm of the iterate, dense ones do not.
        descent["state"][1] = descent["w"] @ descent["w"]
        if saved["buffer"] is not None:
            saved["buffer"] = _widen(saved["buffer"], self._capacity)
        if self.scaling is not None:
            saved["scales"] = RunningScales.widened(saved["scales"], self._capacity)
        self._stream = self._make()
        self._stream.restore(saved)

    def _change_coefficients(self) -> None:
        """Let predictions use the present average, and say when that happens next."""
        n = self._n_taken
        self._room = max(1, min(n // _SHARE, _BATCH))
        if self._stream is None:
            return
        self._coef = self._stream.average
        by_name = dict(zip(self._index, self._coef.tolist(), strict=False))
        moments = self._seen[1] * _FADE ** (self._room / _BATCH)
        self._seen = by_name, moments, float(self._coef @ self._origin)

    # ----------------------------------------------------------------------- calibration

    def _note(self, scores: NDArray[np.float64], y: NDArray[np.float64]) -> None:
        by_name, moments, offset = self._seen
        if not by_name:  # nothing has been learned that could give a score
            return
        positive = y > 0
        more = [(len(some), some.sum(), some @ some)
                for some in (scores[~positive], scores[positive])]  # fmt: skip
        self._seen = by_name, moments + np.array(more), offset

    @staticmethod
    def _line(moments: NDArray[np.float64]) -> tuple[float, float]:
        """Return slope and intercept of the logarithm of the odds, by the score above `offset`."""
        (n0, s0, q0), (n1, s1, q1) = moments.tolist()
        prior = math.log((n1 + 1.0) / (n0 + 1.0))
        if n0 <= 0 or n1 <= 0:
            return 0.0, prior
        low, high = s0 / n0, s1 / n1
        # a product that overflows is infinite, where a power would raise
        variance = max(q0 - n0 * (low * low) + q1 - n1 * (high * high), 0.0) / (n0 + n1)
        gap = high - low
        if gap <= 0:
            return 0.0, prior
        # With hardly any spread the odds would be infinite.
        spread = max(variance, 1e-3 * gap * gap)
        slope = gap / spread if spread > 0 else math.inf
        intercept = prior - slope * (high + low) / 2
        # scores so small that their squares are nothing tell nothing
        return (slope, intercept) if isfinite(slope + intercept) else (0.0, prior)

    # ------------------------------------------------------------------------- prediction

    @property
    def coefficients(self) -> dict[Any, float]:
        """The coefficient of each feature in the average of all iterates so far."""
        with self._turns:
            return self._coefficients()

    def _coefficients(self) -> dict[Any, float]:
        try:
            self._learn_waiting()
        except DivergenceError as error:
            # The model is as it was before the examples that waited: it is none the worse.
            warnings.warn(str(error), RefusedExampleWarning, stacklevel=3)
        average = self._coef if self._stream is None else self._stream.average
        return dict(zip(self._index, average.tolist(), strict=False))

    def score_one(self, x: Mapping[Any, float]) -> float:
        """Return the score of an example; names never seen in learning count nothing."""
        return _score(x, self._seen[0])

    def predict_proba_one(self, x: Mapping[Any, float]) -> dict[bool, float]:
        """Return the probabilities of False and True."""
        by_name, moments, offset = self._seen
        score = _score(x, by_name)
        slope, intercept = self._line(moments)
        odds = min(max(slope * (score - offset) + intercept, -700.0), 700.0)
        positive = 1.0 / (1.0 + math.exp(-odds))
        return {False: 1.0 - positive, True: positive}

    def predict_one(self, x: Mapping[Any, float]) -> bool:
        """Return whether True is the more probable label."""
        return self.predict_proba_one(x)[True] > 0.5

    # ------------------------------------------------------------------------------ state

    def settings(self) -> dict[str, Any]:
        """Return how the learner was made, as plain values."""
        from pairlearn.models.parts import encode

        names = ("loss", "step_size", "radius", "scaling")
        return {name: encode(getattr(self, name), name) for name in names}

    def state(self) -> dict[str, Any]:
        """Return everything that the next example depends on, for a checkpoint."""
        with self._turns:
            return self._state()

    def _state(self) -> dict[str, Any]:
        by_name, moments, _ = self._seen
        return {
            "index": list(self._index),
            "waiting": self._pending(),
            "labels": list(self._labels),
            "room": self._room,
            "stream": None if self._stream is None else self._stream.state(),
            "scale": self._scale,
            "capacity": self._capacity,
            "coef": self._coef.copy(),
            "origin": self._origin.copy(),
            "by_name": len(by_name),
            "moments": moments.copy(),
            "n_taken": self._n_taken,
            "n_refused": self.n_refused,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go back to a state returned by `state`, also by another learner made alike."""
        with self._turns:
            self._check(state)
            self._restore(state)

    def _restore(self, state: Mapping[str, Any]) -> None:
        self._start_empty()
        self._index = {name: k for k, name in enumerate(state["index"])}
        self._waiting = [dict(x) for x in state["waiting"]]
        self._labels, self._room = list(state["labels"]), int(state["room"])
        self._scale, self._capacity = float(state["scale"]), int(state["capacity"])
        self._in_order = np.arange(self._capacity, dtype=np.int32)
        self._coef, self._origin = state["coef"].copy(), state["origin"].copy()
        names = list(self._index)[: state["by_name"]]
        by_name = dict(zip(names, self._coef.tolist(), strict=False))
        self._seen = by_name, state["moments"].copy(), float(self._coef @ self._origin)
        self._n_taken, self.n_refused = int(state["n_taken"]), int(state["n_refused"])
        if state["stream"] is not None:
            self._stream = self._make()
            self._stream.restore(state["stream"])
            _check_size(self._stream.w)
            _check_size(self._stream.average)

    def _check(self, state: Mapping[str, Any]) -> None:
        """Refuse a state that no learner can have, before anything of its size is made."""
        index, waiting, labels = state["index"], state["waiting"], state["labels"]
        if not isinstance(index, list) or len(set(index)) != len(index):
            raise ValueError("the saved names are not a list of different ones.")
        if not (isinstance(waiting, list) and isinstance(labels, list)):
            raise ValueError("the saved examples that wait are not lists.")
        if len(waiting) != len(labels) or not all(isinstance(x, Mapping) for x in waiting):
            raise ValueError(
                f"{len(labels)} saved labels and {len(waiting)} saved examples do not belong "
                "together."
            )
        if not all(label in (1.0, -1.0) for label in labels):
            raise ValueError("the saved labels are not 1 and -1.")
        restored_count(state, "room", minimum=-(2**62), maximum=max(_WARM_UP, _BATCH))
        capacity = restored_count(state, "capacity", minimum=max(1, len(index)))
        _check_size(restored_array(state, "coef", (capacity,)))
        restored_array(state, "origin", (capacity,))
        if restored_count(state, "by_name") > len(index):
            raise ValueError(f"the saved coefficients name more than {len(index)} features.")
        restored_array(state, "moments", (2, 3))
        n_taken = restored_count(state, "n_taken")
        restored_count(state, "n_refused", maximum=n_taken)
        scale = restored_number(state, "scale", low=0.0, high=np.finfo(np.float64).max)
        if state["stream"] is not None:
            check_positive("the saved scale", scale)
            restored_array(state["stream"]["descent"], "w", (capacity,))

    def to_model(self, classes: tuple[Any, Any] = (False, True)) -> Any:
        """Return an `AUCClassifier` with the same coefficients and probabilities.

        It is over the features seen so far, in the order of `feature_names`; `classes` are the
        labels of negative and positive examples.
        """
        from pairlearn.estimators.auc import AUCClassifier

        with self._turns:
            return AUCClassifier.from_record(self._record(classes))

    def _record(self, classes: tuple[Any, Any]) -> ModelRecord:
        from pairlearn.models.parts import encode
        from pairlearn.models.record import ModelRecord

        coef = np.array(list(self._coefficients().values()))
        if not len(coef):
            raise ValueError(
                f"nothing has been learned from {self.n_seen} examples, so there is no model; "
                "examples need features, and without scaling step_size='auto' waits for "
                f"{_WARM_UP} examples: give a step_size, or more of them."
            )
        slope, intercept = self._line(self._seen[1])
        intercept -= slope * float(coef @ self._origin[: len(coef)])
        threshold = -intercept / slope if slope > 0 else 0.0
        stream = self._stream
        arrays: dict[str, Any] = {
            "coef": coef,
            "threshold": np.float64(threshold if isfinite(threshold) else 0.0),
            "step_size": np.float64(self._scale),
            "n_steps": np.int64(0 if stream is None else stream.n_steps),
            "n_gradients": np.int64(0 if stream is None else stream.n_gradients),
            "n_examples": np.int64(self.n_seen),
            "sigmoid": np.array([slope, intercept]),
        }
        if not math.isinf(self.radius):
            arrays["radius"] = np.float64(self.radius)
        return ModelRecord(
            "AUCClassifier",
            arrays,
            parameters={
                "loss": encode(self.loss, "loss"),
                "step_size": self.step_size,
                "scaling": self.scaling,
                "classes_dtype": np.array(classes).dtype.str,
            },
            classes=classes,
            feature_names=[str(name) for name in self._index],  # type: ignore[arg-type]
            provenance={"rows_seen": self.n_seen},
        )


def _check_size(saved: NDArray[np.float64]) -> None:
    """Refuse coefficients of a file that learning would not have let pass."""
    if np.abs(saved).max() > _LARGEST:
        raise ValueError(f"a saved coefficient is beyond {_LARGEST:g}.")


def _score(x: Mapping[Any, float], by_name: Mapping[Any, float]) -> float:
    known = map(by_name.get, x, repeat(0.0))
    return float(sum(map(mul, known, x.values())))


_LABELS: dict[Any, float] = {True: 1.0, False: -1.0, -1: -1.0}
_NONE = np.empty(0, dtype=np.int32)


def _values_of(examples: list[dict[Any, float]]) -> NDArray[np.float64] | None:
    """Return all values one after the other; None where one cannot be learned."""
    return _as_numbers(list(chain.from_iterable(map(dict.values, examples))))


def _as_numbers(values: list[float]) -> NDArray[np.float64] | None:
    """Return a list as an array; None where a value is not a number of a size that is learned."""
    try:
        memory = bytearray(8 * len(values))
        struct.pack_into(f"{len(values)}d", memory, 0, *values)
        flat = np.frombuffer(memory)
    except (struct.error, TypeError, ValueError, OverflowError):
        return None
    # with a NaN both are NaN, and no comparison holds
    usable = flat.min(initial=0.0) >= -_LARGEST and flat.max(initial=0.0) <= _LARGEST
    return flat if usable else None


def _is_usable(x: dict[Any, float]) -> bool:
    return _values_of([x]) is not None


def check_label(y: Any) -> None:
    """Refuse a label that is neither True nor False, 1 nor 0 nor -1."""
    try:
        known = y in _LABELS
    except TypeError:
        known = False
    if not known:
        raise ValueError(f"the label must be True or False (1 or 0), got {y!r:.60}.")


def check_example(x: Any) -> None:
    """Refuse what is not a mapping of names to finite numbers of at most 1e60.

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
            good, small = isfinite(value), abs(value) <= _LARGEST
        except (TypeError, ValueError, OverflowError):
            good = small = False
        if good and not small:
            raise ValueError(
                f"feature {name!r:.60} is {value!r:.60}, beyond {_LARGEST:g}; give it in a larger "
                "unit."
            )
        if not good:
            raise ValueError(
                f"feature {name!r:.60} is {value!r:.60}; leave it out where it is missing, and "
                "write categories as one feature each with value 1."
            )


def _widen(rows: Rows, width: int) -> Rows:
    if isinstance(rows, CsrRows):
        return CsrRows(rows.data, rows.indices, rows.indptr, width)
    if width <= _DENSE_UP_TO:
        return DenseRows(np.pad(rows.X, ((0, 0), (0, width - rows.X.shape[1]))))
    kept = rows.X != 0
    indptr = np.concatenate([[0], np.cumsum(kept.sum(axis=1))])
    return CsrRows(rows.X[kept], np.nonzero(kept)[1].astype(np.int32), indptr, width)
