# SPDX-License-Identifier: BSD-3-Clause
"""A learner for long runs: it learns from arriving data, watches its AUC, and survives crashes.

Each example is scored before it is learned (progressive AUC). Old
data can be forgotten. A checkpoint holds the whole state, so a killed run continues bit for bit.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Mapping
from contextlib import nullcontext
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pairlearn.metrics.metric import Metric
from pairlearn.streams.checkpoint import (
    Checkpoint,
    CheckpointError,
    hold_checkpoint,
    read_checkpoint,
    write_checkpoint,
)
from pairlearn.streams.drift import DriftAlarm, restored_alarm
from pairlearn.streams.driving import Driver
from pairlearn.streams.long_runs import learn_all, settings_of
from pairlearn.streams.progressive import ProgressiveAUC
from pairlearn.streams.readers.base import Chunk, Position, Reader
from pairlearn.streams.state import pack, unpack
from pairlearn.typing import Vector
from pairlearn.validation import check_count, check_fraction

#: Rows between two checkpoints by default.
EVERY = 250_000
#: Single examples that are learned together.
_TOGETHER = 128
#: Examples in the first piece of a stream; the pieces then double.
_FIRST_PIECE = 128
#: Examples after which chunks are no longer cut into pieces.
_YOUNG_EXAMPLES = 8192


class OnlineLearner:
    r"""Train an estimator on a stream, with progressive AUC, forgetting and checkpoints.

    Parameters
    ----------
    model : estimator, optional
        The estimator, by default ``AUCClassifier()``; it is trained in place. For your own
        estimator see `pairlearn.streams.driving`.
    classes : array-like of shape (2,), optional
        Both labels, in any order: the later one in sorted order is the positive one. Without them
        the first chunk must contain both.
    window : int, default=10000
        Number of last examples in the progressive AUC.
    forget : int, "drop" or None, default=None
        None weights every example by the averaging rule, for data that do not drift. A number n
        restarts the step sizes and the average after every n examples, from the present
        coefficients: older examples act only through the starting point. "drop" restarts when the
        AUC of a window falls more than `drop` below the best one since the last start.
    drop : float, default=0.05
        See `forget`.
    alarm : DriftAlarm, optional
        Watches the same scores as the progressive AUC; `alarm.alarms` lists the changes. Only for
        models of two classes.

    Attributes
    ----------
    model : estimator
        The estimator, after all examples; use it like any other. The one that was given may lack
        the latest single examples.
    n_seen : int
        Examples learned.
    n_restarts : int
        Number of restarts.
    auc : float or None
        The progressive AUC over the window; None for a model without two classes.

    Notes
    -----
    Chunks are cut where a restart is due, so restarts do not depend on chunk sizes. The first 8192
    examples after a start are learned in pieces of doubling size.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(2000, 3))
    >>> y = (X[:, 0] + rng.normal(size=2000) > 0).astype(int)
    >>> learner = OnlineLearner(classes=[0, 1], window=1000)
    >>> for begin in range(0, 2000, 100):
    ...     learner = learner.learn_many(X[begin : begin + 100], y[begin : begin + 100])
    >>> bool(learner.auc > 0.8), learner.predict_one([3.0, 0.0, 0.0])
    (True, 1)
    """

    def __init__(
        self,
        model: Any = None,
        *,
        classes: ArrayLike | None = None,
        window: int = 10_000,
        forget: int | str | None = None,
        drop: float = 0.05,
        alarm: DriftAlarm | None = None,
    ) -> None:
        if model is None:
            from pairlearn.estimators.auc.classifier import AUCClassifier

            model = AUCClassifier()
        self._model = model
        self.forget = _check_forget(forget)
        self.drop = check_fraction("drop", drop)
        self._classes = None if classes is None else np.unique(np.asarray(classes))
        self._driver = Driver(model)
        if self._classes is not None and not self._driver.ranks_classes:
            raise ValueError(
                f"classes={self._classes.tolist()[:5]!r:.200} are for models that rank two "
                f"classes, which {type(model).__name__} does not; leave classes at None."
            )
        if self._classes is not None and len(self._classes) != 2:
            raise ValueError(
                f"classes must be two different labels, got {self._classes.tolist()[:5]!r:.200}: "
                "an online learner watches the AUC of two classes. Call partial_fit of the model "
                "for more of them."
            )
        if self.forget is not None and not self._driver.can_restart:
            raise ValueError(
                f"forget={forget!r} needs an estimator that starts from given coefficients, which "
                f"{type(model).__name__} does not; leave forget at None."
            )
        if alarm is not None and not self._driver.ranks_classes:
            raise ValueError(
                f"an alarm watches the AUC of two classes, which {type(model).__name__} does not "
                "have; leave alarm at None."
            )
        self.alarm = alarm
        self._progressive = ProgressiveAUC(window)
        #: Single examples that are not learned yet, and whether more may be added.
        self._rows: list[Vector] = []
        self._labels: list[Any] = []
        self._collects = False
        self._n_learned = 0
        self.n_restarts = 0
        self._since_start = 0
        self._best: float | None = None
        self._restart_due = False
        #: Where the reader of `fit_stream` continues.
        self.position: Position | None = None

    @property
    def model(self) -> Any:
        """The estimator, after all examples."""
        self._learn_collected()
        return self._model

    @property
    def n_seen(self) -> int:
        """Examples learned."""
        return self._n_learned + len(self._rows)

    def _learn_collected(self) -> None:
        """Learn the single examples that were collected."""
        if self._rows:
            rows, labels, self._rows, self._labels = self._rows, self._labels, [], []
            self._learn(np.array(rows), np.array(labels), None, finite=True)

    @property
    def auc(self) -> float | None:
        """The AUC of the last examples, by their scores before they were learned."""
        self._learn_collected()
        return self._progressive.value

    def measure(self, metric: Metric) -> float | None:
        """Return another metric of the last examples, see `ProgressiveAUC.measure`."""
        self._learn_collected()
        return self._progressive.measure(metric)

    @property
    def window(self) -> int:
        """Number of last examples in the progressive AUC."""
        return self._progressive.window

    # --------------------------------------------------------------------------- learning

    def learn_one(self, x: ArrayLike, y: Any) -> OnlineLearner:
        """Learn from one example; up to 128 of them are collected until the model is needed."""
        if self._collects:
            row = _as_floats(x)
            # The comparison is false with NaN and infinity, too.
            plain = row is not None and row.shape == self._shape and row.dot(row) < np.inf
            if plain and isinstance(y, Hashable) and y in self._known:
                assert row is not None
                self._rows.append(row)
                self._labels.append(y)
                if len(self._rows) >= _TOGETHER:
                    self._learn_collected()
                return self
        return self.learn_many(_row_of(x), np.array([y]))

    def learn_many(self, X: Any, y: ArrayLike, *, qid: ArrayLike | None = None) -> OnlineLearner:
        """Learn from a chunk of examples, in the order of its rows.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (m, d)
            Examples.
        y : array-like of shape (m,)
            Labels.
        qid : array-like of shape (m,), optional
            Queries, for estimators that rank.

        Returns
        -------
        OnlineLearner
            Itself. If a chunk fails, the pieces before the one that failed have been learned (see
            Notes of the class); `n_seen` has grown by their rows.
        """
        if hasattr(X, "tocsr"):
            X = X if X.format == "csr" else X.tocsr()
        elif not hasattr(X, "columns"):  # the model compares the names of a frame
            X = np.asarray(X)
        labels = np.asarray(y)
        queries = None if qid is None else np.asarray(qid)
        if qid is not None and not self._driver.takes_queries:
            raise ValueError(
                f"qid is for models that rank within queries, which {type(self.model).__name__} "
                "does not; leave qid at None, or take PairwiseRanker."
            )
        if labels.shape != (X.shape[0],):
            raise ValueError(f"y must have shape ({X.shape[0]},), got {labels.shape}.")
        self._learn(X, labels, queries)
        return self

    def unlearn_many(
        self, X: Any, y: ArrayLike, *, checkpoint: str | os.PathLike[str] | None = None
    ) -> OnlineLearner:
        """Take back examples that were learned, as if they had never come.

        The model must remember everything: ``AUCClassifier(solver=Moments(ranges=...))``. Its
        `forgetting_certificate_` names the states. `n_seen` still counts the examples, and the
        window of the progressive AUC still has their scores.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (m, d)
            The examples.
        y : array-like of shape (m,)
            Their labels.
        checkpoint : path, optional
            The file of `fit_stream`, which has the examples, too. It is written anew, and so is the
            one before it.

        Returns
        -------
        OnlineLearner
            Itself. If the examples were not learned, an error says so and nothing has changed.
        """
        if not hasattr(self.model, "partial_unfit"):
            raise ValueError(
                f"{type(self.model).__name__} cannot take examples back; use "
                "AUCClassifier(solver=Moments(ranges=...))."
            )
        if checkpoint is None:
            self.model.partial_unfit(X, y)
            return self
        with hold_checkpoint(checkpoint):
            found = read_checkpoint(checkpoint)
            if found is None or found.state.get("n_seen") != self.n_seen:
                raise CheckpointError(
                    f"the checkpoint {checkpoint} is not that of the {self.n_seen} examples of "
                    "this learner; let fit_stream finish with it first."
                )
            self.model.partial_unfit(X, y)
            # Writing keeps the file before: the second time, that is without the examples, too.
            for _ in range(2):
                state = self.state()
                now = Checkpoint(settings_of(self), state, found.position, found.finished_passes)
                write_checkpoint(checkpoint, now)
        return self

    def _learn(
        self,
        X: Any,
        labels: NDArray[Any],
        queries: NDArray[Any] | None,
        *,
        finite: bool = False,
        again: bool = False,
    ) -> None:
        """Learn a chunk in the pieces that `_until_check` allows."""
        self._learn_collected()
        self._find_classes(labels)
        begin = 0
        while begin < len(labels):
            stop = min(len(labels), begin + self._until_check())
            whole = begin == 0 and stop == len(labels)
            part = slice(begin, stop)
            self._learn_part(
                X if whole else X[part],
                labels[part],
                None if queries is None else queries[part],
                finite,
                again,
            )
            begin = stop
        self._collects = self._may_collect()

    def _may_collect(self) -> bool:
        """Whether single examples may wait: nobody looks at each, and blocks change nothing."""
        watched = self.forget is not None or self.alarm is not None
        moments = getattr(self._model, "half_life_", None) is not None and (
            getattr(self._model, "step_size_", None) is None
        )
        named = hasattr(self._model, "feature_names_in_")
        if watched or named or not moments or not self._driver.ranks_classes:
            return False
        assert self._classes is not None
        self._shape, self._known = (self._model.n_features_in_,), set(self._classes.tolist())
        return True

    def _learn_part(
        self, X: Any, y: NDArray[Any], qid: NDArray[Any] | None, finite: bool, again: bool
    ) -> None:
        """Learn one piece, update AUC and alarm, and decide whether a restart is due.

        Scores of examples that come `again` say nothing: the model has learned them.
        """
        if self._restart_due:
            self._model.restart_stream()
            self._restart_due = False
        scores = self._driver.learn(X, y, qid, classes=self._classes, finite=finite)
        if scores is not None and not again:
            assert self._classes is not None
            positive = y == self._classes[1]
            self._progressive.update(scores, positive)
            if self.alarm is not None:
                self.alarm.update(scores, positive)
        self._n_learned += len(y)
        self._since_start += len(y)
        self._check_forgetting()

    def _find_classes(self, y: NDArray[Any]) -> None:
        if not self._driver.ranks_classes or self._classes is not None:
            return
        known = getattr(self._model, "classes_", None)
        found = np.unique(y) if known is None else known
        if len(found) != 2:
            raise ValueError(
                f"the first chunk has the labels {found.tolist()[:5]}, and two are needed; pass "
                "both as classes=[...]; the later one in sorted order is the positive one."
            )
        self._classes = found

    def _until_check(self) -> int:
        """Return the number of examples that may be learned at once."""
        n = self._since_start
        # a young model must neither be judged by, nor choose its step size by, a large chunk that
        # it has hardly begun to learn
        limit = max(_FIRST_PIECE, 1 << n.bit_length()) - n if n < _YOUNG_EXAMPLES else 1 << 62
        if self.forget is None:
            return limit
        period = self.window if self.forget == "drop" else int(self.forget)
        return min(limit, period - n % period)

    def _check_forgetting(self) -> None:
        if self.forget is None:
            return
        if self.forget != "drop":
            due = self._since_start >= int(self.forget)
        else:
            due = False
            value = self._progressive.value
            if self._since_start % self.window == 0 and value is not None:
                due = self._best is not None and value < self._best - self.drop
                self._best = value if self._best is None else max(self._best, value)
        if due:
            self._restart_due = True
            self._since_start, self._best = 0, None
            self.n_restarts += 1

    # ------------------------------------------------------------------------- prediction

    def predict_many(self, X: Any) -> NDArray[Any]:
        """Return the predictions of the model for the rows of X."""
        return np.asarray(self.model.predict(X))

    def predict_one(self, x: ArrayLike) -> Any:
        """Return the prediction for one example."""
        return self.predict_many(_row_of(x))[0].item()

    def predict_proba_many(self, X: Any) -> Vector:
        """Return the probabilities of both classes for the rows of X."""
        return np.asarray(self.model.predict_proba(X))

    def predict_proba_one(self, x: ArrayLike) -> dict[Any, float]:
        """Return the probability of each class for one example."""
        row = self.predict_proba_many(_row_of(x))[0]
        return dict(zip(self.model.classes_.tolist(), row.tolist(), strict=True))

    def score_many(self, X: Any) -> Vector:
        """Return the decision values of the rows of X."""
        return np.asarray(self.model.decision_function(X), dtype=np.float64)

    def score_one(self, x: ArrayLike) -> float:
        """Return the decision value of one example."""
        return float(self.score_many(_row_of(x))[0])

    # ----------------------------------------------------------------------------- files

    def fit_stream(
        self,
        reader: Reader,
        *,
        checkpoint: str | os.PathLike[str] | None = None,
        every: int = EVERY,
        n_passes: int = 1,
        resume: bool = True,
        progress: Callable[[OnlineLearner, Chunk], None] | None = None,
    ) -> OnlineLearner:
        """Learn everything that a reader delivers.

        Parameters
        ----------
        reader : Reader
            The source of the data, with labels.
        checkpoint : path, optional
            File for the state. If it exists, learning continues from it. Another process that uses
            it at the same time gets an error.
        every : int, default=250000
            Rows between two checkpoints, which are written at the end of a chunk.
        n_passes : int, default=1
            Number of passes over the data. Progressive AUC, `forget="drop"` and `alarm` look at the
            first one: after it every example has been learned before.
        resume : bool, default=True
            Whether to continue from an existing checkpoint; False overwrites it.
        progress : callable, optional
            Called after each chunk with the learner and the chunk.

        Returns
        -------
        OnlineLearner
            Itself. The result is the same, bit for bit, however often the process was killed and
            restarted. Ctrl-C leaves a checkpoint.
        """
        every = check_count("every", every)
        n_passes = check_count("n_passes", n_passes)
        with nullcontext() if checkpoint is None else hold_checkpoint(checkpoint):
            learn_all(
                self, self._learn_chunk, reader, checkpoint, every=every, n_passes=n_passes,
                resume=resume, progress=progress,
            )  # fmt: skip
        return self

    def _learn_chunk(self, chunk: Chunk, again: bool) -> None:
        # the reader has refused all rows that are not finite
        labels = np.asarray(chunk.y)
        self._learn(chunk.X, labels, chunk.qid, finite=True, again=again)

    def state(self) -> dict[str, Any]:
        """Return the complete state."""
        self._learn_collected()
        return {
            "classes": self._classes,
            "model": self._model.stream_state(),
            "progressive": self._progressive.state(),
            "n_seen": self.n_seen,
            "n_restarts": self.n_restarts,
            "since_start": self._since_start,
            "best": self._best,
            "restart_due": self._restart_due,
            "alarm": None if self.alarm is None else self.alarm.state(),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Load a state of this learner or of another with equal settings."""
        state = unpack(*pack(dict(state)))
        classes, best = state["classes"], state["best"]
        _check_same_classes(classes, self._classes)
        n_seen, n_restarts = int(state["n_seen"]), int(state["n_restarts"])
        if self.forget is None and (state["restart_due"] or n_restarts):
            raise ValueError("the saved stream was restarted; pass the same forget=.")
        progressive = ProgressiveAUC(self.window)
        progressive.restore(state["progressive"])
        alarm = restored_alarm(state.get("alarm"), self.alarm)
        self._model.restore_stream(state["model"])
        _check_same_classes(classes, getattr(self._model, "classes_", None))
        self._rows, self._labels, self._collects = [], [], False
        self._classes, self._progressive, self.alarm = classes, progressive, alarm
        self._n_learned, self.n_restarts = n_seen, n_restarts
        self._since_start = int(state["since_start"])
        self._best, self._restart_due = best, bool(state["restart_due"])

    def provenance(self) -> dict[str, Any]:
        """Return the provenance for the model file: where the model comes from."""
        known: dict[str, Any] = {"rows_seen": self.n_seen}
        if self.position is not None:
            known["data_fingerprint"] = self.position.stamp.rpartition(":")[2]
            known["rows_refused"] = self.position.refusals.count
        if self.auc is not None:
            known["progressive_auc"] = self.auc
        if self.n_restarts:
            known["restarts"] = self.n_restarts
        return known

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to a file with its provenance; see `Storable.save`."""
        self.model.save(path, provenance=self.provenance())


def _as_floats(x: Any) -> Vector | None:
    """Return a copy of a row as doubles; None if it holds something else than numbers."""
    try:
        row = np.array(x)
    except (TypeError, ValueError):
        return None
    return row.astype(np.float64) if row.dtype.kind in "fiub" and row.ndim == 1 else None


def _row_of(x: ArrayLike) -> NDArray[Any]:
    """Return one example as a matrix of one row."""
    if isinstance(x, Mapping):
        raise TypeError(
            "an example must be a vector of numbers, got a mapping of names; use NamedLearner."
        )
    return np.asarray(x)[np.newaxis]


def _check_same_classes(saved: NDArray[Any] | None, known: NDArray[Any] | None) -> None:
    """Refuse a saved state whose labels differ from those of the learner or its model."""
    if saved is not None and known is not None and not np.array_equal(saved, known):
        raise ValueError(
            f"the saved classes are {saved.tolist()!r:.200}, here they are {known.tolist()!r:.200}."
        )


def _check_forget(forget: Any) -> int | str | None:
    if forget is None or forget == "drop":
        return forget  # type: ignore[no-any-return]
    if isinstance(forget, str):
        raise ValueError(f'forget must be a number of examples, "drop" or None, got {forget!r}.')
    return check_count("forget", forget, minimum=2)
