# SPDX-License-Identifier: BSD-3-Clause
"""Online AUC maximisation on examples given as dicts, whose features may come and go.

Examples wait (`waiting`) and are learned in batches, with the same result as one by one. An
absent feature is 0. A new feature starts with coefficient 0, as if it had always been absent.

Class moments (`named_moments`) are the default, for up to 256 names; descent (`named_descent`) does
the rest. Predictions use coefficients that are updated at fixed numbers of examples, so they do not
depend on when they are asked for. Moments update them after 8, 16, ... examples and then with each
block of 128 (more from 65 names on); descent after n / 8 further examples, at most 1024.

Probabilities come from the scores of examples before they were learned, see `log_odds`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from pairlearn.losses import LOSSES, PairLoss
from pairlearn.pairings import PreviousExample, PreviousOpposite
from pairlearn.solvers.closed_form.stream import MOST_BY_MOMENTS
from pairlearn.solvers.interrupts import deferred_interrupt
from pairlearn.solvers.rows import Rows
from pairlearn.solvers.turns import Turns
from pairlearn.streams.examples import (
    LABELS,
    RefusedExampleWarning,
    as_numbers,
    check_example,
    check_label,
    values_of,
)
from pairlearn.streams.named_descent import MOST_QUEUED, WARM_UP, NamedDescent
from pairlearn.streams.named_moments import NamedMoments
from pairlearn.streams.named_parts import NamedColumns, Seen, check_state
from pairlearn.streams.waiting import Waiting
from pairlearn.typing import Vector
from pairlearn.validation import DivergenceError, check_positive, warn_caller

if TYPE_CHECKING:
    from pairlearn.models.record import ModelRecord

#: Share of the score statistics that survives MOST_QUEUED further examples.
_FADE = 0.7


class NamedLearner:
    """Online AUC maximisation for examples given as dicts.

    By default class moments are kept, as `AUCClassifier.partial_fit` keeps them: the square loss,
    and a memory that is chosen by recent examples. A learner with more than 256 names goes on by
    steps of descent from the coefficients reached, and pairs each example with the latest of the
    other class. A loss other than the square, a `step_size` or a `radius` ask for descent from the
    start: the paper's Algorithm 2, which pairs each example with the one before it.

    Parameters
    ----------
    loss : str or PairLoss, default="auto"
        The pair loss. "auto" is the square loss for class moments, the hinge loss for descent.
    step_size : float or "auto", default="auto"
        Scale c of the step sizes c / sqrt(t) of descent. "auto" is 3. Without `scaling` it is the
        reciprocal of the mean squared distance of two examples among the first 32, which are held
        back.
    radius : float, default=inf
        Radius of the ball that the coefficients live in; a finite one asks for descent.
    scaling : "auto" or None, default="auto"
        "auto" learns the scale of each feature on the way, so units do not matter (see
        `pairlearn.solvers.streams.running_scales`): coefficients are in the units of the examples,
        `step_size` and `radius` refer to features whose variances add up to 1. None uses the
        features as they are.
    memory : float or "auto", default="auto"
        How long class moments remember, as a half-life in examples; infinity for ever. "auto"
        keeps several memories and takes the longest that is about as good as the best on recent
        examples. A number keeps to class moments however many names come: time and space then grow
        with the square of their number. Descent forgets nothing, and takes no number.

    Attributes
    ----------
    half_life : float
        The half-life that is chosen now; infinity while everything is remembered.
    n_seen : int
        Examples received, refused ones included.
    n_refused : int
        Examples skipped because a value was not a finite number of at most 1e60, or because a
        coefficient would have become larger than that. Each batch with such examples gives a
        `RefusedExampleWarning` that names the first. If every example of a batch would make the
        coefficients diverge, `learn_one` raises a `DivergenceError` and skips the batch.

    Examples
    --------
    >>> learner = NamedLearner()
    >>> for value, label in [(1.0, True), (-1.0, False), (2.0, True), (-2.0, False)] * 2:
    ...     learner.learn_one({"height": value}, label)
    >>> learner.score_one({"height": 1.0}) > learner.score_one({"height": 0.0, "new": 5.0})
    True
    >>> learner.half_life
    inf
    """

    def __init__(
        self,
        loss: str | PairLoss = "auto",
        *,
        step_size: float | str = "auto",
        radius: float = math.inf,
        scaling: str | None = "auto",
        memory: float | str = "auto",
    ) -> None:
        self.loss = loss
        self.step_size = step_size
        self.radius = radius
        self.scaling = scaling
        self.memory = memory
        #: Learning threads take turns; predictions never wait.
        self._turns = Turns()
        self._start_empty()

    def _start_empty(self) -> None:
        """Check the parameters and reset the learner."""
        if not _is_auto(self.loss):
            LOSSES.make(self.loss, also="auto")
        if self.step_size != "auto":
            check_positive("step_size", self.step_size)  # type: ignore[arg-type]
        check_positive("radius", self.radius, allow_infinite=True)
        if self.scaling not in ("auto", None):
            raise ValueError(f'scaling must be "auto" or None, got {self.scaling!r}.')
        if self.memory != "auto":
            check_positive("memory", self.memory, allow_infinite=True)  # type: ignore[arg-type]
            if not self._by_moments:
                raise ValueError(
                    f"memory={self.memory!r} is for class moments, and descent, which this loss, "
                    'step_size or radius asks for, forgets nothing; leave memory at "auto", or '
                    "the others at their defaults."
                )
        #: What learns the rows.
        self._way = self._make_way(by_moments=self._by_moments)
        self._columns = NamedColumns()
        #: The names in every example of the last batch, and what gets their values from one.
        self._names: tuple[Any, ...] = ()
        self._pick: Callable[[dict[Any, float]], tuple[float, ...]] | None = None
        #: Examples with labels that are not learned yet.
        self._waiting = Waiting(room=WARM_UP if self._warms_up else 1)
        #: The coefficients used for prediction, by column.
        self._coef = np.zeros(1)
        #: Count, sum and sum of squares of each class's scores before learning.
        self._sums = np.zeros((2, 3))
        #: Everything predictions read, replaced in one assignment.
        self._seen = Seen((), np.empty(0), self._sums, 0.0)
        self._n_taken = 0
        self.n_refused = 0

    @property
    def _by_moments(self) -> bool:
        """Whether class moments can do everything that is asked for."""
        closed = _is_auto(self.loss) or LOSSES.make(self.loss).by_moments
        return closed and self.step_size == "auto" and math.isinf(self.radius)

    @property
    def half_life(self) -> float:
        """The half-life that is chosen now; infinity while everything is remembered."""
        return self._way.half_life

    @property
    def _warms_up(self) -> bool:
        """Whether the first examples set the scale of the steps."""
        return self.step_size == "auto" and self.scaling is None

    # --------------------------------------------------------------------------- learning

    def learn_one(self, x: Mapping[Any, float], y: Any) -> None:
        """Learn from one example; the label is True or False, 1 and 0, or 1 and -1."""
        put = self._waiting.put  # Python calls what is no method faster by a name of its own.
        more = put(x, y)
        if more or (more is None and self._wait(x, y)):
            return
        with self._turns:
            self._learn_waiting()

    def _wait(self, x: Mapping[Any, float], y: Any) -> bool:
        """Let an example wait that is unusual; return whether more may come."""
        try:
            sign = LABELS[y]
        except (KeyError, TypeError):
            check_label(y)
            raise
        waiting = self._waiting
        if type(y) is not bool:  # Perhaps only the label was unusual.
            more = waiting.put(x, sign)
            if more is not None:
                return more
        return waiting.add(x.copy() if type(x) is dict else _copied(x), sign)

    @property
    def n_seen(self) -> int:
        """Examples received."""
        return self._n_taken + len(self._waiting)

    @property
    def feature_names(self) -> tuple[Any, ...]:
        """The names in the examples learned so far, in order of appearance."""
        return self._columns.names

    def _learn_waiting(self) -> None:
        """Learn the examples that wait, unless the scale of the steps is still unknown.

        Predictions get new coefficients after fixed numbers of examples.
        """
        if self._warms_up and self._way.n_steps == 0 and len(self._waiting) < WARM_UP:
            return
        with deferred_interrupt():  # examples that are taken must be learned
            while len(self._waiting):
                try:
                    self._learn_batch(*self._take_waiting())
                finally:
                    if self._waiting.room <= 0:
                        self._change_coefficients()

    def _learn_batch(self, rows: Rows, y: Vector) -> None:
        """Learn rows; tell of those that are refused."""
        if not len(y):
            return
        seen = self._seen
        if seen.names:  # a model exists, so there are scores
            _add_class_sums(rows.scores(self._coef), seen.offset, y, self._sums)
            if self._waiting.room > 0:  # else coefficients change at once
                self._seen = seen.with_sums(self._sums)
        count, cause = self._way.learn(rows, y)
        self.n_refused += count
        if count == len(y):
            raise DivergenceError(f"{count} examples not learned: {cause}")
        if count:
            warn_caller(f"{count} of {len(y)} examples not learned: {cause}", RefusedExampleWarning)

    def _take_waiting(self) -> tuple[Rows, Vector]:
        """Take examples that wait; return the usable ones as rows, with labels.

        They are at most as many as are learned together. From the first example on that brings too
        many names for class moments, examples wait on; if it is the first of all, descent
        takes over.
        """
        read = self._waiting.take_rows()
        if read is not None:
            values, y = read
            self._n_taken += len(y)
            return self._rows(self._names, len(y), values), y
        taken = self._waiting.take()
        self._n_taken += len(taken)
        examples, labels = (list(part) for part in zip(*taken, strict=True))
        flat = self._values_alike(examples)
        if flat is not None:
            if self._outgrows(self._names):
                self._go_on_by_descent()
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
        if self._outgrows(chain.from_iterable(examples)):
            fitting = self._n_fitting(examples)
            if fitting:
                self._put_back(examples[fitting:], labels[fitting:])
                examples, labels = examples[:fitting], labels[:fitting]
                flat = values_of(examples)
                assert flat is not None
            else:
                self._go_on_by_descent()
        names = list(map(tuple, examples))
        if names and names.count(names[0]) == len(names):
            return self._rows(names[0], len(names), flat), np.array(labels)
        rows = self._columns.rows(examples, flat)
        self._make_room()
        return rows, np.array(labels)

    def _values_alike(self, examples: list[dict[Any, float]]) -> Vector | None:
        """Return the values of examples with the names of the last batch, None if they differ."""
        if self._pick is None or set(map(len, examples)) != {len(self._names)}:
            return None
        try:
            return as_numbers(list(chain.from_iterable(map(self._pick, examples))))
        except KeyError:  # as many names, but others
            return None

    def _n_fitting(self, examples: list[dict[Any, float]]) -> int:
        """Return how many of the first examples do not bring too many names."""
        names = set(self._columns.index)
        for k, x in enumerate(examples):
            names.update(x)
            if len(names) > MOST_BY_MOMENTS:
                return k
        return len(examples)

    def _put_back(self, examples: list[dict[Any, float]], labels: list[float]) -> None:
        """Let examples wait again that were taken."""
        self._waiting.put_back(list(zip(examples, labels, strict=True)))
        self._n_taken -= len(labels)

    def _rows(self, names: tuple[Any, ...], m: int, flat: Vector) -> Rows:
        """Return m examples with the same names as rows; expect these names next time."""
        rows = self._columns.rows_alike(names, m, flat)
        if names is self._waiting.expected:
            return rows
        self._make_room()
        if self._columns.is_dense:
            self._names = names
        self._waiting.expect(names if self._columns.is_dense else None)
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

    def _make_way(self, *, by_moments: bool) -> NamedMoments | NamedDescent:
        """Return what learns the rows: class moments, or steps of descent."""
        scaled = self.scaling is not None
        if by_moments:
            memory = None if self.memory == "auto" else float(self.memory)
            return NamedMoments(
                self._loss("square"), memory=memory, scaled=scaled, free=self.loss == "auto"
            )
        return NamedDescent(
            self._loss("hinge"),
            step_size=None if self.step_size == "auto" else float(self.step_size),
            radius=float(self.radius),
            scaled=scaled,
            pairing=PreviousOpposite() if self._by_moments else PreviousExample(),
        )

    def _loss(self, by_default: str) -> PairLoss:
        return LOSSES.make(by_default if _is_auto(self.loss) else self.loss)

    def _outgrows(self, names: Iterable[Any]) -> bool:
        """Tell whether these names are too many for class moments."""
        if self.memory != "auto" or not isinstance(self._way, NamedMoments):
            return False
        return len(self._columns.index.keys() | set(names)) > MOST_BY_MOMENTS

    def _go_on_by_descent(self) -> None:
        """Leave the moments; steps go on from their coefficients."""
        assert isinstance(self._way, NamedMoments)
        found = self._way.to_go_on_from(self._columns.width)
        way = self._make_way(by_moments=False)
        assert isinstance(way, NamedDescent)
        if found is not None:
            way.go_on(*found)
        self._way = way

    def _make_room(self) -> None:
        """Make room for new features, with coefficient 0."""
        width = self._columns.width
        more = width - len(self._coef)
        if more:
            self._coef = np.pad(self._coef, (0, more))
            self._way.widen(width)

    def _change_coefficients(self) -> None:
        """Publish the latest coefficients to predictions and set the time of the next update."""
        self._waiting.set_room(self._way.until_next(self._n_taken))
        found = self._way.lately()
        if found is None:
            self._seen = self._seen.with_sums(self._sums)
            return
        self._coef, offset = found
        before, columns = self._seen, self._columns
        n = min(len(columns.index), len(self._coef))
        # Names are only added.
        names = before.names if len(before.names) == n else columns.names[:n]
        self._sums = self._sums * _FADE ** (self._waiting.room / MOST_QUEUED)
        self._seen = Seen(names, self._coef[:n], self._sums, offset, before)

    # ------------------------------------------------------------------------- prediction

    @property
    def coefficients(self) -> dict[Any, float]:
        """The coefficient of each feature, of all examples so far."""
        with self._turns:
            coef, _ = self._exact()
            return dict(zip(self._columns.index, coef.tolist(), strict=False))

    def _exact(self) -> tuple[Vector, float]:
        """Learn what waits; return the coefficients of all examples, and the score between."""
        try:
            self._learn_waiting()
        except DivergenceError as error:
            # the failed batch left the model unchanged, so it can still predict
            warn_caller(str(error), RefusedExampleWarning)
        return self._way.now() or (self._coef, 0.0)

    def score_one(self, x: Mapping[Any, float]) -> float:
        """Return the score of an example, 0 about halfway between the classes.

        So scores of different times can be compared. Unknown names are ignored.
        """
        seen = self._seen
        return seen.score(x) - seen.offset

    def predict_proba_one(self, x: Mapping[Any, float]) -> dict[bool, float]:
        """Return the probabilities of False and True."""
        positive = self._seen.chance(x)
        return {False: 1.0 - positive, True: positive}

    def predict_one(self, x: Mapping[Any, float]) -> bool:
        """Return whether True is the more probable label."""
        return self.predict_proba_one(x)[True] > 0.5

    # ------------------------------------------------------------------------------ state

    def settings(self) -> dict[str, Any]:
        """Return the constructor parameters as plain values."""
        from pairlearn.models.parts import encode

        names = ("loss", "step_size", "radius", "scaling", "memory")
        return {name: encode(getattr(self, name), name) for name in names}

    def state(self) -> dict[str, Any]:
        """Return the complete state for a checkpoint."""
        with self._turns:
            seen, waiting = self._seen, self._waiting.pairs()
            return {
                "index": list(self._columns.names),
                "waiting": [x for x, _ in waiting],
                "labels": [y for _, y in waiting],
                "room": self._waiting.room,
                "capacity": self._columns.width,
                "coef": self._coef.copy(),
                "offset": seen.offset,
                "by_name": len(seen.names),
                "moments": self._sums.copy(),
                "n_taken": self._n_taken,
                "n_refused": self.n_refused,
                **self._way.state(),
            }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Load a state of this learner or of another with equal settings."""
        with self._turns:
            check_state(state, most_waiting=max(WARM_UP, MOST_QUEUED))
            by_moments = "blocks" in state
            if by_moments and not self._by_moments:
                raise ValueError(
                    "the saved learner keeps class moments, this one takes steps of descent; "
                    "restore it with the same parameters."
                )
            self._start_empty()
            self._columns = NamedColumns(state["index"], int(state["capacity"]))
            self._way = self._make_way(by_moments=by_moments)
            self._way.restore(state, self._columns.width)
            pairs = zip(map(dict, state["waiting"]), state["labels"], strict=True)
            self._waiting = Waiting(pairs, int(state["room"]))
            self._coef = state["coef"].copy()
            names = self._columns.names[: state["by_name"]]
            coef = self._coef[: len(names)]
            self._sums = state["moments"].copy()
            self._seen = Seen(names, coef, self._sums, float(state["offset"]))
            self._n_taken, self.n_refused = int(state["n_taken"]), int(state["n_refused"])

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
        from pairlearn.estimators.shared.solvers import SGD, Moments, Solver
        from pairlearn.models.parts import encode
        from pairlearn.models.record import ModelRecord

        exact, middle = self._exact()
        coef = exact[: len(self._columns.index)]
        if not len(coef):
            raise ValueError(
                f"nothing has been learned from {self.n_seen} examples, so there is no model; "
                "examples need features, and without scaling step_size='auto' waits for "
                f"{WARM_UP} examples: give a step_size, or more of them."
            )
        slope, intercept = self._seen.line
        intercept -= slope * middle
        threshold = -intercept / slope if slope > 0 else 0.0
        way = self._way
        arrays: dict[str, Any] = {
            "coef": coef,
            "threshold": np.float64(threshold if math.isfinite(threshold) else 0.0),
            "n_steps": np.int64(way.n_steps),
            "n_gradients": np.int64(way.n_gradients),
            "n_examples": np.int64(self.n_seen),
            "sigmoid": np.array([slope, intercept]),
        }
        if isinstance(way, NamedDescent):
            arrays["step_size"] = np.float64(way.scale)
        solver: Solver = SGD(self.step_size)
        if isinstance(way, NamedMoments):
            solver = Moments(memory=self.memory)
        for name, value in (("radius", self.radius), ("half_life", way.half_life)):
            if not math.isinf(value):
                arrays[name] = np.float64(value)
        return ModelRecord(
            "AUCClassifier",
            arrays,
            parameters={
                "loss": encode(self.loss, "loss"),
                "solver": encode(solver, "solver"),
                "scaling": self.scaling,
                "classes_dtype": np.array(classes).dtype.str,
            },
            classes=classes,
            feature_names=[str(name) for name in self._columns.names],  # type: ignore[arg-type]
            provenance={"rows_seen": self.n_seen},
        )


def _add_class_sums(scores: Vector, offset: float, y: Vector, sums: Vector) -> None:
    """Add number, sum and sum of squares of the scores of negatives and of positives."""
    for own, row in zip((y < 0, y > 0), sums, strict=True):
        above = scores[own] - offset
        row += len(above), above.sum(), above @ above


def _copied(x: Mapping[Any, float]) -> dict[Any, float]:
    """Return a copy of an example that is no plain dict."""
    try:
        return dict(x)
    except (TypeError, ValueError):
        check_example(x)
        raise


def _is_auto(loss: Any) -> bool:
    return isinstance(loss, str) and loss == "auto"
