# SPDX-License-Identifier: BSD-3-Clause
"""AUC with the square loss in closed form, from the moments of the two classes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from pairlearn.estimators.auc.composition import Before, Task
from pairlearn.estimators.auc.ways.exact_moments import (
    LATER,
    ExactStream,
    ExactWay,
    check_memory,
    chosen,
    facts_of,
    ridge_on,
)
from pairlearn.estimators.shared.decisions import Undecided
from pairlearn.estimators.shared.evidence import Choice, Tried
from pairlearn.estimators.shared.judged_maps import JudgedMap, deal_held_out
from pairlearn.estimators.shared.scaling import warn_of_constants
from pairlearn.estimators.shared.solvers import Fitted, Moments
from pairlearn.features import FeatureMap, Identity
from pairlearn.features.base import dense
from pairlearn.features.restore import restored_map
from pairlearn.restored import restored_array, restored_count
from pairlearn.solvers.closed_form.mapped_moments import (
    BLOCK,
    FloatRows,
    MappedMoments,
    RidgeProblem,
    RowsProblem,
    block_of,
    extents_of,
    score_mapped,
)
from pairlearn.solvers.closed_form.moments import check_covariances
from pairlearn.solvers.closed_form.stream import Finder, MomentModel, MomentStream, next_double
from pairlearn.solvers.rows import CsrRows, DenseRows, Rows, check_squares
from pairlearn.solvers.solution import Trace
from pairlearn.solvers.streams.sample import SIZE, drawn_from
from pairlearn.solvers.streams.settings import check_map
from pairlearn.typing import Vector

#: Rows that the map of a stream is fitted to.
FIRST = 4096


def solve_by_moments(task: Task, solver: Moments, rows: Rows, y: Vector, weight: Vector) -> Fitted:
    """Return the minimiser of the square loss plus a ridge, and how its ridge was chosen.

    Without a ridge the best of 1, .1, ... is taken, by AUC on held-out training data: those of
    a sample, if a class has more examples.
    """
    if solver.memory != "auto" and solver.memory != np.inf:
        raise ValueError(
            f"memory={solver.memory!r} is for a stream: fit weighs all rows alike. Use "
            'partial_fit, or memory="auto".'
        )
    if solver.ranges is not None:
        return ExactWay(task, solver).fit(rows, y)
    features, ridge = task.features, solver.given_ridge
    assert features is not None
    check_memory(features.n_outputs, solver)
    trace = Trace(n_steps=len(y), n_gradients=len(y))
    if not features.n_outputs:  # hats of constants
        warn_of_constants(rows.shape[1])
        return Fitted(np.zeros(0), "moments", task.loss, Choice(ridge=ridge), trace)
    if len(weight) and not weight.all():
        kept = np.flatnonzero(weight)
        rows, y, weight = rows.take(kept), y[kept], weight[kept]
        task = replace(task.of_some(kept), judged=None)
    choice, moments, judged = Choice(ridge=ridge), None, task.judged
    many = max((y > 0).sum(), (y < 0).sum()) > SIZE
    if solver.keep_state or (many and judged is None and ridge is None):
        own = weight if len(weight) else None
        moments = MappedMoments.none(features, extents_of(features, rows, own))
        moments = moments.plus(rows, y, own)
    if ridge is None and judged is None:
        assert task.keys is not None
        if many:
            assert moments is not None
            choice = ridge_on(drawn_from(rows, y, weight, task.keys.seed), moments, task, None)
        else:
            fold, n_held = deal_held_out(y, weight, task.validation_fraction, task.keys)
            given = features, rows, y, weight, fold, n_held
            judged = JudgedMap(*given, signs=task.signs, scaled=task.is_scaled)
    if ridge is None and judged is not None:
        choice = judged.choice()
    problem: RidgeProblem | RowsProblem
    if moments is not None:
        problem = moments.problem(scaled=task.is_scaled)
    elif ridge is None:
        assert judged is not None
        problem = judged.problem(scaled=task.is_scaled)
    else:
        floats = FloatRows(features, rows, weight)
        problem = floats.problem(floats.table(y, np.arange(len(y))), scaled=task.is_scaled)
    assert choice.ridge is not None
    w = problem.solve(choice.ridge, signs=task.signs, margin=task.margin)
    state = moments if solver.keep_state else None
    return Fitted(w, "moments", task.loss, choice, trace, kept=state)


def stream_by_moments(
    task: Task, solver: Moments, n_features: int, before: Before | None = None
) -> MomentsStream | ExactStream:
    """Return what learns chunks by adding their moments."""
    if solver.ranges is not None:
        return ExactWay(task, solver).stream(n_features, before)
    if solver.keep_state:
        raise ValueError(
            "keep_state=True is for fit: a stream forgets by its half-lives and takes no rows "
            "back. Leave it out, give ranges, or use fit."
        )
    if before is not None:
        raise ValueError(
            "a stream by moments cannot go on from fit, which does not keep them; teach a "
            "new model by partial_fit alone."
        )
    return MomentsStream(task, solver, n_features)


class MomentsStream:
    """A stream by class moments; its model is found when it is asked for.

    A map that is not fitted yet is fitted to the first 4,096 rows, which are kept until then: the
    model of fewer rows has a map that is fitted to them.
    """

    kind = "moments"
    scales = None
    weighs_classes = False

    def __init__(self, task: Task, solver: Moments, n_features: int) -> None:
        known = task.features
        if known is not None and known.n_inputs != n_features:
            raise ValueError(
                f"features were fitted to {known.n_inputs} features, X has {n_features}."
            )
        self._n_features, self._task, self._solver, self.loss = n_features, task, solver, task.loss
        # Rows before a restart, and the first rows with labels and weights until the map is fitted.
        self._n_before = 0
        self._first: tuple[Rows | None, Vector, Vector] = (None, np.empty(0), np.empty(0))
        self._stream = None if known is None else _stream_of(solver, task, known)
        # The model that scores rows until the map is fitted.
        self._young: MomentModel | None = None
        # Rows that came one by one and are not learned yet, how many may be learned together, and
        # What finds scores to decide from, and the decisions of the latest model.
        self._decided: tuple[Finder, Undecided] | None = None

    def __getstate__(self) -> dict[str, Any]:
        # A copy finds them anew.
        return {**vars(self), "_decided": None}

    def learn(self, rows: Rows, y: Vector, weight: Vector) -> Vector:
        """Learn a chunk; return the scores that it had before.

        Rows without weight are as if they had not come, and have no score (NaN).
        """
        if self._task.is_scaled:
            check_covariances(rows)
        else:
            check_squares(rows, whole=self.n_examples == 0)
        scores, weighs = np.full(len(y), np.nan), np.flatnonzero(weight)
        if len(weight) and not len(weighs):
            return scores
        weight = weight if len(weight) else np.ones(len(y))
        if len(weighs) and len(weighs) < len(y):
            rows, y, weight = rows.take(weighs), y[weighs], weight[weighs]
        before = dict(vars(self))
        try:
            found = self._keep_first(rows, y, weight) if self._stream is None else np.empty(0)
            if len(found) < len(y):
                assert self._stream is not None
                rest = rows if not len(found) else rows.take(np.arange(len(found), len(y)))
                later = _learn(self._stream, rest, y[len(found) :], weight[len(found) :])
                found = np.concatenate([found, later])
        except BaseException:
            vars(self).update(before)
            raise
        if len(found) == len(scores):
            return found
        scores[weighs] = found
        return scores

    def _keep_first(self, rows: Rows, y: Vector, weight: Vector) -> Vector:
        """Keep rows until the map can be fitted, and learn them then; return their scores."""
        scores, start = np.zeros(min(len(y), FIRST - len(self._first[1]))), 0
        while start < len(scores):
            n = len(self._first[1])
            stop = min(len(scores), start + next_double(n) - n)
            part, now = rows.take(np.arange(start, stop)), slice(start, stop)
            if self._young is not None:
                scores[now] = score_mapped(self._young.features, part, self._young.coef)
            self._first = _with_rows(*self._first, part, y[now], weight[now])
            start = stop
            if n + len(scores[now]) == FIRST:
                self._stream = self._of_first()
                self._first, self._young = (None, np.empty(0), np.empty(0)), None
            elif n + len(scores[now]) == next_double(n):
                found = self._model()
                self._young = self._young if found is None else found[0]
        return scores

    def _of_first(self) -> MomentStream:
        """Return the stream of the first rows, with a map that is fitted to them."""
        rows, y, weight = self._first
        assert rows is not None
        made = _stream_of(self._solver, self._task, self._task.fit_map(rows, y))
        _learn(made, rows, y, weight)
        return made

    def _model(self) -> tuple[MomentModel, Finder] | None:
        """Return the model, and what finds scores to decide from; None before both classes."""
        if self._stream is not None:
            return self._stream.model()
        y = self._first[1]
        return self._of_first().model() if (y > 0).any() and (y < 0).any() else None

    @property
    def n_examples(self) -> int:
        """Rows since the first."""
        learned = len(self._first[1]) if self._stream is None else self._stream.n
        return self._n_before + learned

    # -------------------------------------------------------------------------- the model

    def facts(self) -> dict[str, Any]:
        """Return the fitted attributes."""
        return facts_of(self.n_examples, np.inf if self._stream is None else self._stream.half_life)

    def published(self) -> Mapping[str, Any]:
        """Return what predictions are made of: all of it is found later."""
        return LATER

    def finish(self, model: Any) -> dict[str, Any]:
        """Return what predictions are made of, found now."""
        found = self._model()
        if found is None:
            features: FeatureMap = Identity.of(self._n_features)
            coef = np.zeros(self._n_features)
            decision = Undecided(np.empty(0), np.empty(0, dtype=bool), np.empty(0))
            choice = None
        else:
            (features, coef, ridge, auc, middle, pooled), find = found
            choice = Choice(ridge=ridge, fisher=float(pooled))
            if ridge is not None and auc is not None:
                evidence = Tried({"ridge": ridge, "fisher": choice.fisher}, auc, np.nan, 1)
                choice = replace(choice, evidence=evidence, tried=(evidence,))
            if self._decided is None or self._decided[0] is not find:
                self._decided = find, Undecided.later(find, middle)
            decision = self._decided[1].moved(middle)
        return {
            "coef_": coef[np.newaxis],
            "features_": features,
            "_decision": decision,
            **chosen(choice),
        }

    def restart(self) -> None:
        """Forget all but the latest past."""
        if self._stream is not None:
            self._n_before += self._stream.n
            self._stream.restart()

    # -------------------------------------------------------------------------- the state

    def state(self) -> dict[str, Any]:
        """Return everything that the next chunk depends on."""
        stream, young, (rows, y, weight) = self._stream, self._young, self._first
        return {
            "moments": {
                "n_examples": self.n_examples,
                "first": {"rows": rows, "y": y, "weight": weight},
                "features": None if stream is None else stream.features.state(),
                "stream": None if stream is None else stream.state(),
                "young": None if young is None else young.coef,
                "young_features": None if young is None else young.features.state(),
            }
        }

    def restore(self, state: Mapping[str, Any], n_features: int) -> None:
        """Go back to a state."""
        saved = state["moments"]
        if "exact" in saved:
            raise ValueError("the saved stream was learned with ranges.")
        first, stream, young = saved["first"], None, None
        y = restored_array(first, "y", (None,))
        weight = restored_array(first, "weight", (len(y),))
        if len(y) and (
            not isinstance(first["rows"], Rows) or first["rows"].shape != (len(y), n_features)
        ):
            raise ValueError(f"the saved rows are not {len(y)} of {n_features} features.")
        if saved["features"] is not None:
            features = _map_of(saved["features"], n_features)
            if self._task.features is not None:
                check_map(features, self._task.features)
            stream = _stream_of(self._solver, self._task, features)
            stream.restore(saved["stream"])
        if saved["young"] is not None:
            features = _map_of(saved["young_features"], n_features)
            coef = restored_array(saved, "young", (features.n_outputs,))
            young = MomentModel(features, coef, None, None)
        self._first, self._stream, self._young = (first["rows"], y, weight), stream, young
        self._n_before = 0
        self._n_before = (
            restored_count(saved, "n_examples", minimum=self.n_examples) - self.n_examples
        )


def _stream_of(solver: Moments, task: Task, features: FeatureMap) -> MomentStream:
    """Return the stream of rows of a fitted map."""
    return MomentStream(
        features,
        solver.half_lives(features.n_outputs),
        ridge=solver.given_ridge,
        margin=task.loss.parameter,
        scaled=task.is_scaled,
        free=task.free and solver.given_ridge is None,
    )


def _learn(stream: MomentStream, rows: Rows, y: Vector, weight: Vector) -> Vector:
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


def _map_of(state: Any, n_features: int) -> FeatureMap:
    features = restored_map(state)
    if features.n_inputs != n_features:
        raise ValueError(f"the saved map takes {features.n_inputs} features, not {n_features}.")
    return features
