# SPDX-License-Identifier: BSD-3-Clause
"""AUC with the square loss in closed form, from the moments of the two classes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from pairlearn.estimators.auc.task import Before, Task
from pairlearn.estimators.auc.ways.moment_stream import MomentStream
from pairlearn.estimators.shared.decisions import Undecided
from pairlearn.estimators.shared.maps import fit_moments
from pairlearn.estimators.shared.published import DEFERRED
from pairlearn.estimators.shared.solvers import Fitted, Moments
from pairlearn.features import FeatureMap, Identity
from pairlearn.solvers.rows import Rows
from pairlearn.solvers.solution import Trace
from pairlearn.typing import Vector


class ByMoments:
    """How an AUC classifier trains by `Moments`."""

    def __init__(self, task: Task, solver: Moments) -> None:
        self.task, self.solver = task, solver

    def fit(self, rows: Rows, y: Vector, weight: Vector) -> Fitted:
        """Return the minimiser in closed form, and how its ridge was chosen."""
        task = self.task
        assert task.features is not None
        w, choice = fit_moments(
            task.features,
            rows,
            y,
            loss=task.loss,
            ridge=self.solver.given_ridge,
            weight=weight,
            validation_fraction=task.validation_fraction,
            max_memory=self.solver.max_memory,
            scaled=task.is_scaled,
            signs=task.signs,
            held_out=task.held_out,
            rng=task.rng,
        )
        trace = Trace(n_steps=len(y), n_gradients=len(y))
        return Fitted(w, "moments", task.loss, choice, trace)

    def stream(self, n_features: int, before: Before | None = None) -> MomentsStream:
        """Return what learns chunks by adding their moments."""
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

    def __init__(self, task: Task, solver: Moments, n_features: int) -> None:
        self._n_features, self.loss = n_features, task.loss
        known = task.features
        if known is not None and known.n_inputs != n_features:
            raise ValueError(
                f"features were fitted to {known.n_inputs} features, X has {n_features}."
            )
        self._stream = MomentStream(
            task.fit_map,
            features=known,
            ridge=solver.given_ridge,
            margin=task.loss.parameter,
            scaled=task.is_scaled,
        )

    def learn(self, rows: Rows, y: Vector, weight: Vector) -> Vector:
        """Learn a chunk; return the scores that it had before."""
        return self._stream.learn(rows, y, weight)

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
        }

    def published(self) -> dict[str, Any]:
        """Return what predictions are made of: all of it is found later."""
        return {"coef_": None, "_decision": None, DEFERRED: ("coef_", "features_", "_decision")}

    def finish(self, model: Any) -> dict[str, Any]:
        """Return what predictions are made of, found now; note the ridge at the model."""
        found = self._stream.finish()
        if found is None:
            features: FeatureMap = Identity.of(self._n_features)
            coef = np.zeros(self._n_features)
            model.ridge_, model.held_out_auc_ = None, None
        else:
            features, coef = found.features, found.coef
            model.ridge_, model.held_out_auc_ = found.ridge, found.auc
        return {
            "coef_": coef[np.newaxis],
            "features_": features,
            "_decision": Undecided(*self._stream.window()),
            DEFERRED: (),
        }

    def state(self) -> dict[str, Any]:
        """Return everything that the next chunk depends on."""
        return {"moments": self._stream.state()}

    def restore(self, state: Mapping[str, Any], n_features: int) -> None:
        """Go back to a state."""
        self._stream.restore(state["moments"], n_features)
