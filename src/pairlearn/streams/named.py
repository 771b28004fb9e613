# SPDX-License-Identifier: BSD-3-Clause
"""Algorithm 2 on examples given as dicts, whose features may come and go.

Examples are copied into a queue and learned in batches, with the same result as one by one. An
absent feature is 0. A new feature starts with coefficient 0, as if it had always been absent. While
examples have the names of the last batch, only their values are stored.

Predictions use an average that is updated at fixed numbers of examples: after n examples, the next
update comes n / 8 examples later, at most 1024. The average hardly moves in between, and the
predictions do not depend on when they are asked for.

Probabilities come from the scores of examples before they were learned, see `log_odds`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from itertools import repeat
from operator import itemgetter, mul
from typing import TYPE_CHECKING, Any

import numpy as np

from pairlearn.domains import ball_or_whole
from pairlearn.losses import LOSSES, PairLoss
from pairlearn.problem import Problem
from pairlearn.schedules import InverseSqrt
from pairlearn.scores import LinearScore
from pairlearn.solvers.descent.pairwise_sgd import PairwiseSGD
from pairlearn.solvers.descent.stream import Stream
from pairlearn.solvers.interrupts import deferred_interrupt
from pairlearn.solvers.rows import DenseRows, Rows, mean_pair_distance
from pairlearn.solvers.streams.order import OrderWatch
from pairlearn.solvers.streams.running_scales import STEP_SIZE, RunningScales
from pairlearn.solvers.turns import Turns
from pairlearn.streams.examples import (
    LABELS,
    LARGEST,
    RefusedExampleWarning,
    as_numbers,
    check_example,
    check_label,
    values_of,
)
from pairlearn.streams.named_parts import (
    NamedColumns,
    check_size,
    check_state,
    log_odds_line,
    sums_by_class,
    widened,
)
from pairlearn.typing import Vector
from pairlearn.validation import DivergenceError, check_positive, warn_caller

if TYPE_CHECKING:
    from pairlearn.models.record import ModelRecord

#: Examples in the queue at most.
_MOST_QUEUED = 1024
#: After n examples, the queue holds at most n / _QUEUE_DIVISOR examples.
_QUEUE_DIVISOR = 8
#: First examples whose spread sets the scale of the steps if step_size="auto" without scaling.
_WARM_UP = 32
#: Share of the score statistics that survives _MOST_QUEUED further examples.
_FADE = 0.7


class NamedLearner:
    """Online AUC maximisation for examples given as dicts.

    Parameters
    ----------
    loss : str or PairLoss, default="hinge"
        The pair loss.
    step_size : float or "auto", default="auto"
        Scale c of the step sizes c / sqrt(t). "auto" is 3. Without `scaling` it is the reciprocal
        of the mean squared distance of two examples among the first 32, which are held back.
    radius : float, default=inf
        Radius of the ball that the coefficients live in.
    scaling : "auto" or None, default="auto"
        "auto" learns the scale of each feature on the way, so units do not matter (see
        `pairlearn.solvers.streams.running_scales`): coefficients are in the units of the examples,
        `step_size` and `radius` refer to features whose variances add up to 1. None uses the
        features as they are.

    Attributes
    ----------
    n_seen : int
        Examples received, refused ones included.
    n_refused : int
        Examples skipped because a value was not a finite number of at most 1e60, or because a
        coefficient would have become larger than that. Each batch with such examples gives a
        `RefusedExampleWarning` that names the first. If every example of a batch would make the
        coefficients diverge, `learn_one` raises a `DivergenceError` and skips the batch.

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
        #: Learning threads take turns; predictions never wait.
        self._turns = Turns()
        self._start_empty()

    def _start_empty(self) -> None:
        """Check the parameters and reset the learner."""
        LOSSES.make(self.loss)
        if self.step_size != "auto":
            check_positive("step_size", self.step_size)  # type: ignore[arg-type]
        check_positive("radius", self.radius, allow_infinite=True)
        if self.scaling not in ("auto", None):
            raise ValueError(f'scaling must be "auto" or None, got {self.scaling!r}.')
        self._columns = NamedColumns()
        #: The names in every example of the last batch, and a function that gets their values.
        self._names: tuple[Any, ...] = ()
        self._width = 0
        self._pick: Callable[[dict[Any, float]], tuple[float, ...]] | None = None
        #: Values of the first queued examples, joined.
        self._values: list[float] = []
        #: The queued examples after them, the labels of all, and the capacity of the queue.
        self._waiting: list[dict[Any, float]] = []
        self._labels: list[float] = []
        self._room = _WARM_UP if self._warms_up else 1
        self._stream: Stream | None = None
        self._scale = 0.0
        #: The coefficients used for prediction, by column.
        self._coef = np.zeros(1)
        #: Score statistics are centred at the first example of a scaled stream, if it was dense:
        #: otherwise changing coefficients would shift the scores of features far from zero.
        self._origin = np.zeros(1)
        #: Everything predictions read, replaced in one assignment: coefficients by name; count, sum
        #: and sum of squares of each class's scores before learning; and `offset`.
        self._seen: tuple[dict[Any, float], Vector, float]
        self._seen = {}, np.zeros((2, 3)), 0.0
        self._watch = OrderWatch()
        self._n_taken = 0
        self.n_refused = 0

    @property
    def _warms_up(self) -> bool:
        """Whether the first examples set the scale of the steps."""
        return self.step_size == "auto" and self.scaling is None

    # --------------------------------------------------------------------------- learning

    def learn_one(self, x: Mapping[Any, float], y: Any) -> None:
        """Learn from one example; the label is True or False, 1 and 0, or 1 and -1."""
        try:
            label = LABELS[y]
        except (KeyError, TypeError):
            check_label(y)
            raise
        with self._turns:
            self._learn_one(x, label)

    def _learn_one(self, x: Mapping[Any, float], label: float) -> None:
        """Queue an example; learn the queue when it is full."""
        pick = self._pick
        labels = self._labels
        try:
            try:
                if pick is None or type(x) is not dict or len(x) != self._width:
                    self._keep(x)
                else:
                    self._values += pick(x)
            except KeyError:  # the same number of names as in the last batch, but other names
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
        """Queue this example and all later ones with their names."""
        try:
            self._waiting.append(dict(x))
        except (TypeError, ValueError):
            check_example(x)
            raise
        self._pick = None

    def _drop_unlabelled(self) -> None:
        """Drop an example without a label, left by a Ctrl-C."""
        kept = len(self._labels)
        unnamed = len(self._values) // self._width if self._width else 0
        del self._waiting[max(0, kept - unnamed) :]
        del self._values[kept * self._width :]

    def _pending(self) -> list[dict[Any, float]]:
        """Return the queued examples."""
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
        """The score of the example at which scores are centred, as of the last prediction."""
        return self._seen[2]

    @property
    def feature_names(self) -> tuple[Any, ...]:
        """The names in the examples learned so far, in order of appearance."""
        return self._columns.names

    def _learn_waiting(self) -> None:
        """Learn the queued examples, unless the scale of the steps is still unknown."""
        if not self._labels or (
            self._stream is None and self._warms_up and len(self._labels) < _WARM_UP
        ):
            return
        with deferred_interrupt():  # examples taken from the queue must be learned
            rows, y = self._take_waiting()
            if not len(y):
                return
            if self._stream is None:
                self._start(rows)
            assert self._stream is not None
            by_name, sums, offset = self._seen
            if by_name:  # a model exists, so there are scores
                sums = sums + sums_by_class(rows.scores(self._coef) - offset, y)
                self._seen = by_name, sums, offset
            count, cause = self._learn_rows(rows, y)
            self.n_refused += count
            is_dense = isinstance(rows, DenseRows)
            self._watch.note(y, scales=self._stream.scales if is_dense else None)
        if count == len(y):
            raise DivergenceError(f"{count} examples not learned: {cause}")
        if count:
            warn_caller(f"{count} of {len(y)} examples not learned: {cause}", RefusedExampleWarning)

    def _learn_rows(self, rows: Rows, y: Vector) -> tuple[int, str]:
        """Learn rows except those that would ruin the model; return their number and the reason.

        A batch with such rows is split in halves, down to a single row.
        """
        assert self._stream is not None
        saved = self._stream.state()
        try:
            self._stream.learn_many(rows, y)
            size = max(np.abs(self._stream.w).max(), np.abs(self._stream.average).max())
            if size <= LARGEST:
                return 0, ""
            cause = (
                f"a coefficient would be {size:.3g}, beyond {LARGEST:g}; take a smaller "
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

    def _take_waiting(self) -> tuple[Rows, Vector]:
        """Empty the queue and return its usable examples as rows, with labels."""
        labels = self._labels
        self._n_taken += len(labels)
        self._room -= len(labels)
        flat = None if self._waiting else as_numbers(self._values)
        examples = self._pending() if flat is None else []
        self._values, self._waiting, self._labels = [], [], []
        if flat is not None:
            return self._rows(self._names, len(labels), flat), np.array(labels)
        flat = values_of(examples)
        if flat is None:
            pairs = [
                (x, y) for x, y in zip(examples, labels, strict=True) if values_of([x]) is not None
            ]
            self._refuse(examples, len(examples) - len(pairs))
            examples, labels = [x for x, _ in pairs], [y for _, y in pairs]
            flat = values_of(examples)
            assert flat is not None
        names = list(map(tuple, examples))
        if names and names.count(names[0]) == len(names):
            return self._rows(names[0], len(names), flat), np.array(labels)
        rows = self._columns.rows(examples, flat)
        self._make_room()
        return rows, np.array(labels)

    def _rows(self, names: tuple[Any, ...], m: int, flat: Vector) -> Rows:
        """Return m examples with the same names as rows; expect these names next time."""
        rows = self._columns.rows_alike(names, m, flat)
        self._make_room()
        if self._columns.is_dense:
            self._names, self._width = names, len(names)
        # `itemgetter` of a single name gives no tuple; in sparse rows the order of the names would
        # change the last digits
        self._pick = itemgetter(*names) if self._columns.is_dense and len(names) > 1 else None
        return rows

    def _refuse(self, examples: list[dict[Any, float]], count: int) -> None:
        self.n_refused += count
        for x in examples:
            try:
                check_example(x)
            except ValueError as error:
                warn_caller(
                    f"{count} of {len(examples)} examples not learned; first: {error}",
                    RefusedExampleWarning,
                )
                return

    # ------------------------------------------------------------------------- the stream

    def _make(self) -> Stream:
        domain = ball_or_whole(self.radius)
        solver = PairwiseSGD(schedule=InverseSqrt(self._scale), domain=domain)
        problem = Problem(LinearScore(), LOSSES.make(self.loss))
        scales = None if self.scaling is None else RunningScales(self._columns.width)
        return solver.start(problem, self._columns.width, rng=0, scales=scales)

    def _start(self, rows: Rows) -> None:
        if self._warms_up:
            first = rows.take(np.arange(min(rows.shape[0], _WARM_UP)))
            # features near zero would give an infinite reciprocal
            self._scale = min(1.0 / mean_pair_distance(first), LARGEST**2)
        else:
            self._scale = STEP_SIZE if self.step_size == "auto" else float(self.step_size)
        if self.scaling is not None and isinstance(rows, DenseRows):
            self._origin = rows.X[0].copy()
        self._stream = self._make()

    def _make_room(self) -> None:
        """Make room for new features, with coefficient 0."""
        width = self._columns.width
        more = width - len(self._coef)
        if not more:
            return
        self._coef = np.pad(self._coef, (0, more))
        self._origin = np.pad(self._origin, (0, more))
        if self._stream is None:
            return
        saved = self._stream.state()
        descent = saved["descent"]
        for name in ("w", "weighted_sum", "left_iterate", "total"):
            descent[name] = np.pad(descent[name], (0, more))
        # only sparse steps maintain the squared norm of the iterate
        descent["state"][1] = descent["w"] @ descent["w"]
        if saved["buffer"] is not None:
            saved["buffer"] = widened(saved["buffer"], width)
        if self.scaling is not None:
            saved["scales"] = RunningScales.widened(saved["scales"], width)
        self._stream = self._make()
        self._stream.restore(saved)

    def _change_coefficients(self) -> None:
        """Publish the present average to predictions and set the time of the next update."""
        n = self._n_taken
        self._room = max(1, min(n // _QUEUE_DIVISOR, _MOST_QUEUED))
        if self._stream is None:
            return
        self._coef = self._stream.average
        by_name = dict(zip(self._columns.index, self._coef.tolist(), strict=False))
        moments = self._seen[1] * _FADE ** (self._room / _MOST_QUEUED)
        self._seen = by_name, moments, float(self._coef @ self._origin)

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
            # the failed batch left the model unchanged, so it can still predict
            warn_caller(str(error), RefusedExampleWarning)
        average = self._coef if self._stream is None else self._stream.average
        return dict(zip(self._columns.index, average.tolist(), strict=False))

    def score_one(self, x: Mapping[Any, float]) -> float:
        """Return the score of an example; unknown names are ignored."""
        return _score(x, self._seen[0])

    def predict_proba_one(self, x: Mapping[Any, float]) -> dict[bool, float]:
        """Return the probabilities of False and True."""
        by_name, moments, offset = self._seen
        score = _score(x, by_name)
        slope, intercept = log_odds_line(moments)
        odds = min(max(slope * (score - offset) + intercept, -700.0), 700.0)
        positive = 1.0 / (1.0 + math.exp(-odds))
        return {False: 1.0 - positive, True: positive}

    def predict_one(self, x: Mapping[Any, float]) -> bool:
        """Return whether True is the more probable label."""
        return self.predict_proba_one(x)[True] > 0.5

    # ------------------------------------------------------------------------------ state

    def settings(self) -> dict[str, Any]:
        """Return the constructor parameters as plain values."""
        from pairlearn.models.parts import encode

        names = ("loss", "step_size", "radius", "scaling")
        return {name: encode(getattr(self, name), name) for name in names}

    def state(self) -> dict[str, Any]:
        """Return the complete state for a checkpoint."""
        with self._turns:
            by_name, moments, _ = self._seen
            return {
                "index": list(self._columns.names),
                "waiting": self._pending(),
                "labels": list(self._labels),
                "room": self._room,
                "stream": None if self._stream is None else self._stream.state(),
                "scale": self._scale,
                "capacity": self._columns.width,
                "coef": self._coef.copy(),
                "origin": self._origin.copy(),
                "by_name": len(by_name),
                "moments": moments.copy(),
                "n_taken": self._n_taken,
                "n_refused": self.n_refused,
            }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Load a state of this learner or of another with equal settings."""
        with self._turns:
            check_state(state, most_waiting=max(_WARM_UP, _MOST_QUEUED))
            self._start_empty()
            self._columns = NamedColumns(state["index"], int(state["capacity"]))
            self._waiting = [dict(x) for x in state["waiting"]]
            self._labels, self._room = list(state["labels"]), int(state["room"])
            self._scale = float(state["scale"])
            self._coef, self._origin = state["coef"].copy(), state["origin"].copy()
            names = self._columns.names[: state["by_name"]]
            by_name = dict(zip(names, self._coef.tolist(), strict=False))
            self._seen = by_name, state["moments"].copy(), float(self._coef @ self._origin)
            self._n_taken, self.n_refused = int(state["n_taken"]), int(state["n_refused"])
            if state["stream"] is not None:
                self._stream = self._make()
                self._stream.restore(state["stream"])
                check_size(self._stream.w)
                check_size(self._stream.average)

    def to_model(self, classes: tuple[Any, Any] = (False, True)) -> Any:
        """Return an `AUCClassifier` with the same coefficients and probabilities.

        It has the features seen so far, in the order of `feature_names`; `classes` are the labels
        of negative and positive examples.
        """
        from pairlearn.estimators.auc.classifier import AUCClassifier

        with self._turns:
            return AUCClassifier.from_record(self._record(classes))

    def _record(self, classes: tuple[Any, Any]) -> ModelRecord:
        """Return the model record of an `AUCClassifier` with the present coefficients."""
        from pairlearn.estimators.shared.solvers import SGD
        from pairlearn.models.parts import encode
        from pairlearn.models.record import ModelRecord

        coef = np.array(list(self._coefficients().values()))
        if not len(coef):
            raise ValueError(
                f"nothing has been learned from {self.n_seen} examples, so there is no model; "
                "examples need features, and without scaling step_size='auto' waits for "
                f"{_WARM_UP} examples: give a step_size, or more of them."
            )
        slope, intercept = log_odds_line(self._seen[1])
        intercept -= slope * float(coef @ self._origin[: len(coef)])
        threshold = -intercept / slope if slope > 0 else 0.0
        stream = self._stream
        arrays: dict[str, Any] = {
            "coef": coef,
            "threshold": np.float64(threshold if math.isfinite(threshold) else 0.0),
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
                "solver": encode(SGD(self.step_size), "solver"),
                "scaling": self.scaling,
                "classes_dtype": np.array(classes).dtype.str,
            },
            classes=classes,
            feature_names=[str(name) for name in self._columns.names],  # type: ignore[arg-type]
            provenance={"rows_seen": self.n_seen},
        )


def _score(x: Mapping[Any, float], by_name: Mapping[Any, float]) -> float:
    known = map(by_name.get, x, repeat(0.0))
    return float(sum(map(mul, known, x.values())))
