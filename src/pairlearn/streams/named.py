# SPDX-License-Identifier: BSD-3-Clause
"""Online AUC maximisation on examples given as dicts, whose features may come and go.

A dict is a row once names have columns (`named_parts`). An absent feature is 0. A new feature
starts with coefficient 0, as if it had always been absent. Examples wait in a list and are learned
in batches, with the same result as one by one.

Class moments (`named_moments`) are the default, for up to 256 names; descent (`named_descent`) does
the rest. Predictions use coefficients that are updated at fixed numbers of examples, so they do not
depend on when they are asked for. Moments update them after 8, 16, ... examples and then with each
block of 128 (more from 65 names on); descent after n / 8 further examples, at most 1024.

Probabilities come from the scores of examples before they were learned, see `log_odds_line`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from pairlearn.losses import LOSSES, PairLoss
from pairlearn.pairings import PreviousExample, PreviousOpposite
from pairlearn.solvers.closed_form.stream import MOST_BY_MOMENTS
from pairlearn.streams.examples import (
    LABELS,
    RefusedExampleWarning,
    as_numbers,
    check_example,
    check_label,
)
from pairlearn.streams.named_descent import MOST_QUEUED, WARM_UP, NamedDescent
from pairlearn.streams.named_moments import NamedMoments
from pairlearn.streams.named_parts import NamedColumns, log_odds_line
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
        self._check_parameters()
        self._start_empty()

    def _check_parameters(self) -> None:
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

    def _start_empty(self) -> None:
        self._way = self._make_way(by_moments=self._by_moments)
        self._columns = NamedColumns()
        #: Examples that are not learned yet, with the signs of their labels.
        self._waiting: list[tuple[dict[Any, float], float]] = []
        #: Further examples until predictions get new coefficients.
        self._room = WARM_UP if self._warms_up else 1
        #: Slope and intercept of the probabilities; None if they must be found anew.
        self._line: tuple[float, float] | None = None
        #: Count, sum and sum of squares of each class's scores before learning.
        self._sums = np.zeros((2, 3))
        self._show(np.zeros(0), 0.0)
        self._n_taken = 0
        self.n_refused = 0

    @property
    def _by_moments(self) -> bool:
        """Whether class moments can do everything that is asked for."""
        closed = _is_auto(self.loss) or LOSSES.make(self.loss).by_moments
        return closed and self.step_size == "auto" and math.isinf(self.radius)

    @property
    def _warms_up(self) -> bool:
        """Whether the first examples set the scale of the steps."""
        return self.step_size == "auto" and self.scaling is None

    @property
    def half_life(self) -> float:
        """The half-life that is chosen now; infinity while everything is remembered."""
        return self._way.half_life

    @property
    def n_seen(self) -> int:
        """Examples received."""
        return self._n_taken + len(self._waiting)

    @property
    def feature_names(self) -> tuple[Any, ...]:
        """The names in the examples learned so far, in order of appearance."""
        return self._columns.names

    # --------------------------------------------------------------------------- learning

    def learn_one(self, x: Mapping[Any, float], y: Any) -> None:
        """Learn from one example; the label is True or False, 1 and 0, or 1 and -1."""
        try:
            sign = LABELS[y]
        except (KeyError, TypeError):
            check_label(y)
            raise
        if not isinstance(x, Mapping):
            check_example(x)
        self._waiting.append((dict(x), sign))
        if len(self._waiting) >= self._room:
            self._learn_waiting()

    def _learn_waiting(self) -> None:
        """Learn the examples that wait, unless the scale of the steps is still unknown."""
        if self._warms_up and self._way.n_steps == 0 and len(self._waiting) < WARM_UP:
            return
        while self._waiting:
            size = self._n_together(max(self._room, 1))
            batch, self._waiting = self._waiting[:size], self._waiting[size:]
            self._n_taken += len(batch)
            self._room -= len(batch)
            try:
                self._learn_batch(batch)
            finally:
                if self._room <= 0:
                    self._change_coefficients()

    def _n_together(self, most: int) -> int:
        """Return how many examples are learned together: all by moments, or all by descent."""
        if self.memory != "auto" or not isinstance(self._way, NamedMoments):
            return most
        names = set(self._columns.index)
        for k, (x, _) in enumerate(self._waiting[:most]):
            names.update(x)
            if len(names) > MOST_BY_MOMENTS:
                return max(k, 1)
        return most

    def _learn_batch(self, batch: list[tuple[dict[Any, float], float]]) -> None:
        """Learn examples; tell of those that are refused."""
        values = _values_of(batch)
        if values is None:
            usable = [pair for pair in batch if _values_of([pair]) is not None]
            self._refuse([x for x, _ in batch], len(batch) - len(usable))
            batch, values = usable, _values_of(usable)
        if not batch:
            return
        assert values is not None
        rows = self._columns.rows([x for x, _ in batch], values)
        if self.memory == "auto" and len(self._columns.index) > MOST_BY_MOMENTS:
            self._go_on_by_descent()
        y = np.array([sign for _, sign in batch])
        if len(self._coef):
            coef = np.pad(self._coef, (0, self._columns.width - len(self._coef)))
            above = rows.scores(coef) - self._offset
            for places, sums in zip((y < 0, y > 0), self._sums, strict=True):
                scores = above[places]
                sums += np.array([len(scores), scores.sum(), scores @ scores])
            self._line = None
        self._way.widen(self._columns.width)
        count, cause = self._way.learn(rows, y)
        self.n_refused += count
        if count == len(y):
            raise DivergenceError(f"{count} examples not learned: {cause}")
        if count:
            warn_caller(f"{count} of {len(y)} examples not learned: {cause}", RefusedExampleWarning)

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

    def _go_on_by_descent(self) -> None:
        """Leave the moments; steps go on from their coefficients."""
        if not isinstance(self._way, NamedMoments):
            return
        reached = self._way.to_go_on_from()
        way = self._make_way(by_moments=False)
        assert isinstance(way, NamedDescent)
        if reached is not None:
            way.go_on(*reached)
        self._way = way

    def _change_coefficients(self) -> None:
        """Let predictions use the latest coefficients; set the time of the next change."""
        self._room = self._way.until_next(self._n_taken)
        latest = self._way.lately()
        if latest is not None:
            self._sums *= _FADE ** (self._room / MOST_QUEUED)
            self._show(*latest)

    def _show(self, coef: Vector, offset: float) -> None:
        """Set what predictions use: coefficients by column, and the score at which to centre."""
        self._coef, self._offset = coef.copy(), offset
        names = self._columns.names
        self._by_name: dict[Any, float] = dict(zip(names, coef.tolist(), strict=False))
        self._line = None

    # ------------------------------------------------------------------------- prediction

    @property
    def coefficients(self) -> dict[Any, float]:
        """The coefficient of each feature, of all examples so far."""
        coef, _ = self._exact()
        padded = np.pad(coef, (0, max(0, len(self._columns.index) - len(coef))))
        return dict(zip(self._columns.index, padded.tolist(), strict=False))

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
        get, score = self._by_name.get, -self._offset
        try:
            for name, value in x.items():
                score += get(name, 0.0) * value
            return float(score)
        except (AttributeError, TypeError, ValueError, OverflowError):
            check_example(x)
            raise

    def _probability_line(self) -> tuple[float, float]:
        if self._line is None:
            self._line = log_odds_line(self._sums)
        return self._line

    def predict_proba_one(self, x: Mapping[Any, float]) -> dict[bool, float]:
        """Return the probabilities of False and True."""
        slope, intercept = self._probability_line()
        odds = slope * self.score_one(x) + intercept
        positive = 1.0 / (1.0 + math.exp(-min(max(odds, -700.0), 700.0)))
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
        return {
            "index": list(self._columns.names),
            "width": self._columns.width,
            "waiting": [dict(x) for x, _ in self._waiting],
            "labels": [sign for _, sign in self._waiting],
            "room": self._room,
            "coef": self._coef.copy(),
            "offset": self._offset,
            "sums": self._sums.copy(),
            "n_taken": self._n_taken,
            "n_refused": self.n_refused,
            **self._way.state(),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Load a state of this learner or of another with equal settings."""
        by_moments = "blocks" in state
        if by_moments and not self._by_moments:
            raise ValueError(
                "the saved learner keeps class moments, this one takes steps of descent; "
                "restore it with the same parameters."
            )
        way = self._make_way(by_moments=by_moments)
        way.restore(state, int(state["width"]))
        self._way = way
        self._columns = NamedColumns(state["index"], int(state["width"]))
        self._waiting = list(zip(map(dict, state["waiting"]), state["labels"], strict=True))
        self._room = int(state["room"])
        self._sums = state["sums"].copy()
        self._show(state["coef"], float(state["offset"]))
        self._n_taken, self.n_refused = int(state["n_taken"]), int(state["n_refused"])

    def to_model(self, classes: tuple[Any, Any] = (False, True)) -> Any:
        """Return an `AUCClassifier` with the same coefficients and probabilities.

        It has the features seen so far, in the order of `feature_names`, as texts; `classes` are
        the labels of negative and positive examples.
        """
        from pairlearn.estimators.auc.classifier import AUCClassifier

        return AUCClassifier.from_record(self._record(classes))

    def _record(self, classes: tuple[Any, Any]) -> ModelRecord:
        """Return the model record of an `AUCClassifier` with the present coefficients."""
        from pairlearn.estimators.shared.solvers import SGD, Moments, Solver
        from pairlearn.models.parts import encode
        from pairlearn.models.record import ModelRecord

        exact, middle = self._exact()
        names = list(map(str, self._columns.names))
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise ValueError(
                f"two names of features are the same as texts, {twice!r:.60}, and features of a "
                "model have different ones; rename one of them."
            )
        if not len(exact):
            raise ValueError(
                f"nothing has been learned from {self.n_seen} examples, so there is no model; "
                "examples need features, and without scaling step_size='auto' waits for "
                f"{WARM_UP} examples: give a step_size, or more of them."
            )
        slope, intercept = self._probability_line()
        intercept -= slope * middle
        threshold = -intercept / slope if slope > 0 else 0.0
        way = self._way
        arrays: dict[str, Any] = {
            "coef": np.pad(exact, (0, max(0, len(names) - len(exact))))[: len(names)],
            "threshold": np.float64(threshold if math.isfinite(threshold) else 0.0),
            "n_steps": np.int64(way.n_steps),
            "n_gradients": np.int64(way.n_gradients),
            "n_examples": np.int64(self.n_seen),
            "sigmoid": np.array([slope, intercept]),
        }
        solver: Solver = Moments(memory=self.memory)
        if isinstance(way, NamedDescent):
            arrays["step_size"] = np.float64(way.scale)
            solver = SGD(self.step_size)
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
            feature_names=tuple(names),
            provenance={"rows_seen": self.n_seen},
        )


def _values_of(batch: list[tuple[dict[Any, float], float]]) -> Vector | None:
    """Return all values of examples in one array, or None if one is unusable."""
    return as_numbers(list(chain.from_iterable(x.values() for x, _ in batch)))


def _is_auto(loss: Any) -> bool:
    return isinstance(loss, str) and loss == "auto"
