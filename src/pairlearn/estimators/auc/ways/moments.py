# SPDX-License-Identifier: BSD-3-Clause
"""AUC with the square loss in closed form, from the moments of the two classes."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from pairlearn.estimators.auc.task import Before, Task
from pairlearn.estimators.auc.ways.exact_moments import (
    LATER,
    ExactStream,
    ExactWay,
    check_memory,
    chosen,
    ridge_on,
)
from pairlearn.estimators.auc.ways.moment_stream import MomentStream
from pairlearn.estimators.shared.decisions import Undecided
from pairlearn.estimators.shared.evidence import Choice, Tried
from pairlearn.estimators.shared.judged_maps import HeldOutMap, deal_held_out
from pairlearn.estimators.shared.scaling import warn_of_constants
from pairlearn.estimators.shared.solvers import Fitted, Moments
from pairlearn.features import FeatureMap, Identity
from pairlearn.solvers.closed_form.block_stream import BlockStream
from pairlearn.solvers.closed_form.mapped_moments import MappedMoments, extents_of
from pairlearn.solvers.closed_form.stream_model import Finder
from pairlearn.solvers.rows import Rows, check_squares
from pairlearn.solvers.solution import Trace
from pairlearn.solvers.streams.sample import SIZE, drawn_from
from pairlearn.typing import Vector


class ByMoments:
    """How an AUC classifier trains by `Moments`."""

    def __init__(self, task: Task, solver: Moments) -> None:
        self.task, self.solver = task, solver

    def fit(self, rows: Rows, y: Vector, weight: Vector) -> Fitted:
        """Return the minimiser of the square loss plus a ridge, and how its ridge was chosen.

        Without a ridge the best of 1, .1, ... is taken, by AUC on held-out training data: those of
        a sample, if a class has more examples.
        """
        if self.solver.memory != "auto" and self.solver.memory != np.inf:
            raise ValueError(
                f"memory={self.solver.memory!r} is for a stream: fit weighs all rows alike. Use "
                'partial_fit, or memory="auto".'
            )
        if self.solver.ranges is not None:
            return ExactWay(self.task, self.solver).fit(rows, y)
        task, features, ridge = self.task, self.task.features, self.solver.given_ridge
        assert features is not None
        check_memory(features.n_outputs, self.solver)
        trace = Trace(n_steps=len(y), n_gradients=len(y))
        if not features.n_outputs:  # hats of constants
            warn_of_constants(rows.shape[1])
            return Fitted(np.zeros(0), "moments", task.loss, Choice(ridge=ridge), trace)
        signs, scaled = task.signs, task.is_scaled
        choice = Choice(ridge=ridge)
        if ridge is None and task.judged is not None:
            choice, ridge = task.judged.choice(), task.judged.ridge
            if not self.solver.keep_state:
                # The rows were multiplied when the map was judged.
                problem = task.judged.problem(scaled=scaled)
                # Where floats are not exact enough for the ridge, as with weights of very different
                # sizes, sums below are.
                with suppress(ValueError):
                    w = problem.solve(ridge, signs=signs, margin=task.margin, last=True)
                    return Fitted(w, "moments", task.loss, choice, trace)
        if len(weight) and not weight.all():
            kept = np.flatnonzero(weight)
            rows, y, weight = rows.take(kept), y[kept], weight[kept]
            task = task.of_some(kept)
        if ridge is not None or max((y > 0).sum(), (y < 0).sum()) > SIZE:
            own = weight if len(weight) else None
            moments = MappedMoments(features, extents_of(features, rows, own))
            moments.add(rows, y, example_weight=own)
            if ridge is None:
                assert task.keys is not None
                choice = ridge_on(drawn_from(rows, y, weight, task.keys.seed), moments, task, None)
        else:
            assert task.keys is not None
            fold, n_held = deal_held_out(y, weight, task.validation_fraction, task.keys)
            held_out = HeldOutMap(features, rows, y, weight, fold, n_held, signs, scaled)
            moments, choice = held_out.moments(), held_out.choice()
        assert choice.ridge is not None
        w = moments.problem(scaled=scaled).solve(choice.ridge, signs=signs, margin=task.margin)
        state = moments if self.solver.keep_state else None
        return Fitted(w, "moments", task.loss, choice, trace, kept=state)

    def stream(self, n_features: int, before: Before | None = None) -> MomentsStream | ExactStream:
        """Return what learns chunks by adding their moments."""
        if self.solver.ranges is not None:
            return ExactWay(self.task, self.solver).stream(n_features, before)
        if self.solver.keep_state:
            raise ValueError(
                "keep_state=True is for fit: a stream forgets by its half-lives and takes no rows "
                "back. Leave it out, give ranges, or use fit."
            )
        if before is not None:
            raise ValueError(
                "a stream by moments cannot go on from fit, which does not keep them; teach a "
                "new model by partial_fit alone."
            )
        return MomentsStream(self.task, self.solver, n_features)


class MomentsStream:
    """A stream by class moments; its model is found when it is asked for."""

    kind = "moments"
    scales = None
    weighs_classes = False

    def __init__(self, task: Task, solver: Moments, n_features: int) -> None:
        self._n_features, self.loss = n_features, task.loss
        known = task.features
        if known is not None and known.n_inputs != n_features:
            raise ValueError(
                f"features were fitted to {known.n_inputs} features, X has {n_features}."
            )
        self._task = task
        # No method of this stream: it would be in a cycle, and what it holds would stay for long.
        self._stream = MomentStream(task.fit_map, partial(_blocks_of, solver, task), known)
        # What finds scores to decide from, and the decisions of the latest model.
        self._decided: tuple[Finder, Undecided] | None = None

    def __getstate__(self) -> dict[str, Any]:
        # A copy finds them anew.
        return {**vars(self), "_decided": None}

    def learn(self, rows: Rows, y: Vector, weight: Vector) -> Vector:
        """Learn a chunk; return the scores that it had before."""
        if not self._task.is_scaled:
            check_squares(rows, whole=self._stream.n_examples == 0)
        return self._stream.learn(rows, y, weight)

    @property
    def singles(self) -> BlockStream | None:
        """What takes rows one by one, if something does."""
        return self._stream.singles

    def facts(self) -> dict[str, Any]:
        """Return the fitted attributes."""
        n = self._stream.n_examples
        return {
            "step_size_": None,
            "radius_": np.inf,
            "n_steps_": n,
            "n_gradients_": n,
            "n_examples_": n,
            "trace_": Trace(n_steps=n, n_gradients=n),
            "half_life_": self._stream.half_life,
        }

    def published(self) -> Mapping[str, Any]:
        """Return what predictions are made of: all of it is found later."""
        return LATER

    def finish(self, model: Any) -> dict[str, Any]:
        """Return what predictions are made of, found now."""
        found = self._stream.finish()
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
        self._stream.restart()

    def state(self) -> dict[str, Any]:
        """Return everything that the next chunk depends on."""
        return {"moments": self._stream.state()}

    def restore(self, state: Mapping[str, Any], n_features: int) -> None:
        """Go back to a state."""
        if "exact" in state["moments"]:
            raise ValueError("the saved stream was learned with ranges.")
        self._stream.restore(state["moments"], n_features)


def _blocks_of(solver: Moments, task: Task, features: FeatureMap) -> BlockStream:
    """Return the stream of rows of a fitted map."""
    return BlockStream(
        features,
        solver.half_lives(features.n_outputs),
        ridge=solver.given_ridge,
        margin=task.loss.parameter,
        scaled=task.is_scaled,
        free=task.free and solver.given_ridge is None,
    )
