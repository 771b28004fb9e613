# SPDX-License-Identifier: BSD-3-Clause
"""Streams of an AUC classifier by class moments; the model is found when it is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from pairlearn.estimators.auc.composition import Before, Task
from pairlearn.estimators.auc.ways.moments import ExactRows, check_memory, warn_of_wide_ranges
from pairlearn.estimators.shared.decisions import Undecided
from pairlearn.estimators.shared.evidence import Choice, Tried
from pairlearn.estimators.shared.published import DEFERRED, all_or_nothing
from pairlearn.estimators.shared.solvers import Moments
from pairlearn.estimators.shared.weights import kept_of_chunk
from pairlearn.features import FeatureMap, Identity
from pairlearn.features.base import dense
from pairlearn.features.restore import restored_map
from pairlearn.solvers.closed_form.mapped_moments import (
    BLOCK,
    MappedMoments,
    block_of,
    score_mapped,
)
from pairlearn.solvers.closed_form.moments import check_covariances
from pairlearn.solvers.closed_form.stream import Finder, MomentModel, MomentStream, next_double
from pairlearn.solvers.closed_form.table import Table
from pairlearn.solvers.rows import CsrRows, DenseRows, Rows, check_squares
from pairlearn.solvers.solution import Trace
from pairlearn.solvers.streams.sample import ContentSample
from pairlearn.solvers.streams.settings import check_map
from pairlearn.typing import Vector

#: Rows that the map of a stream is fitted to.
FIRST = 4096


def stream_by_moments(
    task: Task, solver: Moments, n_features: int, before: Before | None = None
) -> MomentsStream | ExactStream:
    """Return what learns chunks by adding their moments."""
    exact = solver.ranges is not None
    if solver.keep_state and not exact:
        raise ValueError(
            "keep_state=True is for fit: a stream forgets by its half-lives and takes no rows "
            "back. Leave it out, give ranges, or use fit."
        )
    if before is not None:
        raise ValueError(
            "a stream by moments cannot go on from fit, which does not keep them; teach a "
            "new model by partial_fit alone."
        )
    return (ExactStream if exact else MomentsStream)(task, solver, n_features)


class _ByMoments:
    """What both streams have in common."""

    kind = "moments"
    scales = None
    weighs_classes = False
    half_life = np.inf
    n_examples: int

    def __init__(self, task: Task, solver: Moments) -> None:
        self._task, self._solver, self.loss = task, solver, task.loss

    @all_or_nothing
    def learn(self, rows: Rows, y: Vector, weight: Vector) -> Vector:
        """Learn a chunk; return the scores that it had before.

        Rows without weight are as if they had not come, and have no score (NaN).
        """
        kept = kept_of_chunk(weight, begun=True)
        if kept is not None:
            scores = np.full(len(y), np.nan)
            if len(kept):
                scores[kept] = self.learn(rows.take(kept), y[kept], weight[kept])
            return scores
        return self._learn(rows, y, weight)

    def _learn(self, rows: Rows, y: Vector, weight: Vector) -> Vector:
        raise NotImplementedError

    def facts(self) -> dict[str, Any]:
        """Return the fitted attributes."""
        n = self.n_examples
        return {
            "step_size_": None,
            "radius_": np.inf,
            "n_steps_": n,
            "n_gradients_": n,
            "n_examples_": n,
            "trace_": Trace(n_steps=n, n_gradients=n),
            "half_life_": self.half_life,
        }

    def published(self) -> Mapping[str, Any]:
        """Return what predictions are made of: all of it is found later."""
        later = ("coef_", "features_", "_decision", "choice_", "ridge_", "held_out_auc_")
        return {"coef_": None, "_decision": None, DEFERRED: later}


def _finished(
    coef: Vector, features: FeatureMap, decision: Undecided, choice: Choice | None
) -> dict[str, Any]:
    own = choice or Choice()
    found = {"choice_": choice, "ridge_": own.ridge, "held_out_auc_": own.auc, DEFERRED: ()}
    return {"coef_": coef[np.newaxis], "features_": features, "_decision": decision, **found}


class MomentsStream(_ByMoments):
    """A stream that forgets by its half-lives.

    A map that is not fitted yet is fitted to the first 4,096 rows, which are kept until then: the
    model of fewer rows has a map that is fitted to them.
    """

    def __init__(self, task: Task, solver: Moments, n_features: int) -> None:
        super().__init__(task, solver)
        known = task.features
        if known is not None and known.n_inputs != n_features:
            raise ValueError(
                f"features were fitted to {known.n_inputs} features, X has {n_features}."
            )
        self._n_features = n_features
        # Rows before a restart, and the first rows with labels and weights until the map is fitted.
        self._n_before = 0
        self._first: tuple[Rows | None, Vector, Vector] = (None, np.empty(0), np.empty(0))
        self._stream = None if known is None else self._stream_of(known)
        # The model that scores rows until the map is fitted.
        self._young: MomentModel | None = None
        # What finds scores to decide from, and the decisions of the latest model.
        self._decided: tuple[Finder, Undecided] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_decided": None}  # A copy finds them anew.

    def _stream_of(self, features: FeatureMap) -> MomentStream:
        """Return the stream of rows of a fitted map."""
        task, solver = self._task, self._solver
        return MomentStream(
            features,
            solver.half_lives(features.n_outputs),
            ridge=solver.given_ridge,
            margin=task.loss.parameter,
            scaled=task.is_scaled,
            free=task.free,
        )

    def _learn(self, rows: Rows, y: Vector, weight: Vector) -> Vector:
        if self._task.is_scaled:
            check_covariances(rows)
        else:
            check_squares(rows, whole=self.n_examples == 0)
        weight = weight if len(weight) else np.ones(len(y))
        found = self._keep_first(rows, y, weight) if self._stream is None else np.empty(0)
        n = len(found)
        if n == len(y):
            return found
        assert self._stream is not None
        rest = rows.take(np.arange(n, len(y))) if n else rows
        return np.concatenate([found, _learned(self._stream, rest, y[n:], weight[n:])])

    def _keep_first(self, rows: Rows, y: Vector, weight: Vector) -> Vector:
        """Keep rows until the map can be fitted, and learn them then; return their scores."""
        scores, start = np.zeros(min(len(y), FIRST - len(self._first[1]))), 0
        while start < len(scores):
            n = len(self._first[1])
            now = slice(start, min(len(scores), start + next_double(n) - n))
            part = rows.take(np.arange(now.start, now.stop))
            if self._young is not None:
                scores[now] = score_mapped(self._young.features, part, self._young.coef)
            self._first = _with_rows(*self._first, part, y[now], weight[now])
            start, n_next = now.stop, len(self._first[1])
            if n_next == FIRST:
                self._stream = self._of_first()
                self._first, self._young = (None, np.empty(0), np.empty(0)), None
            elif n_next == next_double(n) and (found := self._model()) is not None:
                self._young = found[0]
        return scores

    def _of_first(self) -> MomentStream:
        """Return the stream of the first rows, with a map that is fitted to them."""
        rows, y, weight = self._first
        assert rows is not None
        made = self._stream_of(self._task.fit_map(rows, y))
        _learned(made, rows, y, weight)
        return made

    def _model(self) -> tuple[MomentModel, Finder] | None:
        """Return the model, and what finds scores to decide from; None before both classes."""
        if self._stream is not None:
            return self._stream.model()
        y = self._first[1]
        return self._of_first().model() if (y > 0).any() and (y < 0).any() else None

    @property
    def n_examples(self) -> int:  # type: ignore[override]
        """Rows since the first."""
        return self._n_before + (len(self._first[1]) if self._stream is None else self._stream.n)

    @property
    def half_life(self) -> float:  # type: ignore[override]
        """The half-life that is chosen now."""
        return np.inf if self._stream is None else self._stream.half_life

    def finish(self, model: Any) -> dict[str, Any]:
        """Return what predictions are made of, found now."""
        found = self._model()
        if found is None:
            nothing = np.empty(0)
            decision = Undecided(nothing, nothing > 0.0, nothing)
            d = self._n_features
            return _finished(np.zeros(d), Identity.of(d), decision, None)
        own, find = found
        choice = Choice(ridge=own.ridge, fisher=float(own.pooled))
        if own.ridge is not None and own.auc is not None:
            evidence = Tried({"ridge": own.ridge, "fisher": choice.fisher}, own.auc, np.nan, 1)
            choice = replace(choice, evidence=evidence, tried=(evidence,))
        if self._decided is None or self._decided[0] is not find:
            self._decided = find, Undecided.later(find, own.middle)
        return _finished(own.coef, own.features, self._decided[1].moved(own.middle), choice)

    def restart(self) -> None:
        """Forget all but the latest past."""
        if self._stream is not None:
            self._n_before += self._stream.n
            self._stream.restart()

    def state(self) -> dict[str, Any]:
        """Return everything that the next chunk depends on."""
        stream, young = self._stream, self._young
        return {
            "moments": {
                "width": self._n_features,
                "n_before": self._n_before,
                "first": list(self._first),
                "features": None if stream is None else stream.features.state(),
                "stream": None if stream is None else stream.state(),
                "young": None if young is None else [young.features.state(), young.coef],
            }
        }

    def restore(self, state: Mapping[str, Any], n_features: int) -> None:
        """Go back to a state."""
        saved = state["moments"]
        if "exact" in saved:
            raise ValueError("the saved stream was learned with ranges.")
        if saved["width"] != n_features:
            raise ValueError(f"the saved rows have {saved['width']} features, not {n_features}.")
        self._first, self._n_before = tuple(saved["first"]), saved["n_before"]
        if saved["features"] is not None:
            features = restored_map(saved["features"])
            if self._task.features is not None:
                check_map(features, self._task.features)
            self._stream = self._stream_of(features)
            self._stream.restore(saved["stream"])
        if saved["young"] is not None:
            features, coef = saved["young"]
            self._young = MomentModel(restored_map(features), coef, None, None)


class ExactStream(_ByMoments):
    """A stream that remembers everything, and can take rows back.

    Its coefficients do not depend on the order of the examples, and threshold and probabilities are
    those of the scores of the sample. The scores of a chunk before it was learned are by the model
    of the first 8, 16, 32, ... examples, and 0 halfway between its classes: wherever features lie,
    scores of several models compare.
    """

    def __init__(self, task: Task, solver: Moments, n_features: int) -> None:
        super().__init__(task, solver)
        check_memory(n_features, solver)
        self._rows = ExactRows.none(task, solver, n_features)
        # The coefficients that score the next examples, the score halfway between the classes, and
        # when both are found anew.
        self._w: Vector | None = None
        self._middle, self._next = 0.0, next_double(0)

    @property
    def moments(self) -> MappedMoments:
        """The moments of all examples."""
        return self._rows.moments

    @property
    def n_examples(self) -> int:  # type: ignore[override]
        """Examples that are remembered."""
        return self._rows.n_examples

    def _learn(self, rows: Rows, y: Vector, weight: Vector) -> Vector:
        scores, start = np.zeros(len(y)), 0
        while start < len(y):
            now = slice(start, min(len(y), start + self._next - self.n_examples))
            part = rows.take(np.arange(now.start, now.stop))
            if self._w is not None:
                scores[now] = part.scores(self._w) - self._middle
            self._rows = self._rows.plus(part, y[now], weight[now] if len(weight) else weight)
            if self.n_examples == self._next:
                self._next = next_double(self._next)
                if self._rows.has_both:
                    self._find_scores()
            start = now.stop
        return scores

    def take_back(
        self, rows: Rows, y: Vector, weight: Vector
    ) -> tuple[MappedMoments, MappedMoments, MappedMoments]:
        """Take back examples; return the moments before, of the examples, and after."""
        before = self._rows.moments
        rest, gone = self._rows.minus(rows, y, weight)
        if not rest.has_both:
            raise ValueError(
                "no example of one of the classes would be left; a model needs both. Begin a new "
                "stream when there are other examples."
            )
        self._rows = rest
        # What scores the next examples has seen these.
        self._find_scores()
        self._next = next_double(self.n_examples)
        return before, gone, self._rows.moments

    def _find_scores(self) -> None:
        """Find what scores the next examples."""
        w = self._rows.solve(self._task, self._solver.given_ridge)[0]
        self._w, self._middle = w, float(w @ self.moments.values.means.mean(axis=0))

    def finish(self, model: Any) -> dict[str, Any]:
        """Return what predictions are made of, found now."""
        exact, nothing = self._rows, np.empty(0)
        coef, choice = np.zeros(exact.moments.features.n_outputs), None
        window = nothing, nothing > 0.0, nothing
        if exact.has_both:
            coef, choice = exact.solve(self._task, self._solver.given_ridge)
            X, y, weight, _ = exact.sample.drawn()
            warn_of_wide_ranges(exact.moments, X)
            window = X @ coef, y > 0, self._of_classes(y, weight)
        decision = Undecided(*window, weighs_classes=False)
        return _finished(coef, exact.moments.features, decision, choice)

    def _of_classes(self, y: Vector, weight: Vector) -> Vector:
        """Return weights of the sample with which its classes weigh as much as all examples do."""
        found = weight.copy() if len(weight) else np.ones(len(y))
        totals = self.moments.values.counts[::-1]
        if len(weight):  # as numbers of examples
            totals = totals / weight.mean()
        for sign, total in zip((-1.0, 1.0), totals, strict=True):
            own = y == sign
            found[own] *= total / found[own].sum()
        return found

    def restart(self) -> None:
        """Refuse to forget all but the latest past."""
        raise ValueError(
            "a stream with ranges remembers everything; take rows back by partial_unfit, or leave "
            "out ranges for a stream that forgets."
        )

    def state(self) -> dict[str, Any]:
        """Return everything that the next chunk depends on."""
        own = self._rows
        rows = {
            "n": own.n_examples,
            "sums": own.moments.table.state(),
            "sample": own.sample.state(),
        }
        scoring = {"w": self._w, "middle": self._middle, "next": self._next}
        return {"moments": {"exact": rows, **scoring}}

    def restore(self, state: Mapping[str, Any], n_features: int) -> None:
        """Go back to a state."""
        saved, grid = state["moments"], self.moments.grid
        if "exact" not in saved:
            raise ValueError("the saved stream was learned without ranges.")
        rows = saved["exact"]
        table = Table.from_state(rows["sums"])
        if table.grid is None or not grid.same_as(table.grid):
            raise ValueError("the saved moments are on another grid than that of the ranges.")
        sample = ContentSample.from_state(rows["sample"], n_features)
        self._rows = ExactRows(self.moments.holding(table), sample, rows["n"])
        self._w, self._middle, self._next = saved["w"], saved["middle"], saved["next"]


def _learned(stream: MomentStream, rows: Rows, y: Vector, weight: Vector) -> Vector:
    """Map and learn rows, some at a time; return the scores that they had before."""
    scores = np.empty(len(y))
    for start in range(0, len(y), BLOCK):
        now = slice(start, min(start + BLOCK, len(y)))
        Z = stream.features.transform(block_of(rows, now.start, now.stop), dtype=np.float64)
        scores[now] = stream.learn(dense(Z, np.dtype(np.float64)), y[now], weight[now])
    return scores


def _with_rows(
    rows: Rows | None, y: Vector, weight: Vector, more: Rows, labels: Vector, weights: Vector
) -> tuple[Rows, Vector, Vector]:
    """Return rows with labels and weights, and more of them."""
    if isinstance(more, DenseRows):
        more = DenseRows(more.X.astype(np.float64))
    if rows is not None and isinstance(rows, CsrRows) != isinstance(more, CsrRows):
        raise ValueError(
            "the stream was dense and is now sparse, or the other way round; pass chunks of one "
            "kind."
        )
    joined = more if rows is None else rows.followed_by(more)  # type: ignore[arg-type]
    return joined, np.concatenate([y, labels]), np.concatenate([weight, weights])
