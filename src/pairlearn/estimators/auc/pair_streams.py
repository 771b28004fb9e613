# SPDX-License-Identifier: BSD-3-Clause
"""A stream of more than two classes: one stream for each pair of classes.

Each pair has its own classifier, which learns the examples of its two classes in order.
Probabilities of the pairs come from their latest progressive scores.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairlearn.estimators.auc.many import hand_over, pair_parameters
from pairlearn.estimators.shared.decisions import Sigmoid
from pairlearn.estimators.shared.examples import check_many_classes
from pairlearn.estimators.shared.published import DEFERRED
from pairlearn.features import FeatureMap, Identity
from pairlearn.solvers.rows import Rows
from pairlearn.solvers.solution import Trace
from pairlearn.typing import Labels, Vector


class PairStreams:
    """The streams of all pairs of classes of a classifier, which are sorted."""

    weighs_classes = False

    def __init__(self, model: Any, classes: Labels, n_features: int) -> None:
        check_many_classes(classes)
        self.classes, self.n_features, self.n_examples = classes, n_features, 0
        self._pairs = [np.array(pair) for pair in combinations(classes, 2)]
        given = {**model.get_params(deep=False), "verbose": 0}
        self._learners: list[Any] = []
        for pair in self._pairs:
            own = given["class_weight"]
            if own is not None:
                own = {label: own.get(label, 1.0) for label in pair.tolist()}
            self._learners.append(type(model)(**{**given, "class_weight": own}))

    @property
    def _begun(self) -> list[Any]:
        return [one for one in self._learners if hasattr(one, "classes_")]

    @property
    def kind(self) -> str | None:
        """The name of the solver of the pairs."""
        return next((one.solver_ for one in self._begun), None)

    @property
    def loss(self) -> Any:
        """The loss of the pairs."""
        return next((one.loss_ for one in self._begun), None)

    def start_from(self, model: Any) -> None:
        """Let each pair begin with the coefficients of a fitted model."""
        self.n_examples = model.n_examples_
        for k, (learner, pair) in enumerate(zip(self._learners, self._pairs, strict=True)):
            hand_over(model, learner, k, pair)
            # A model from a file does not know its scales.
            learner.known_scales = getattr(model.pairs_, "scaling_", None)

    def learn(self, rows: Rows, labels: NDArray[Any], weight: Vector) -> Vector:
        """Learn a chunk; return the scores that it had before.

        The score of a pair is NaN for an example of another class, and for one without weight.
        Copies learn the chunk, so that a chunk that fails for one pair is learned by none.
        """
        # Maps never change, so copies share them.
        memo = {id(one.features): one.features for one in self._learners}
        learners = copy.deepcopy(self._learners, memo)
        scores = np.full((len(labels), len(learners)), np.nan)
        weighs = weight > 0.0 if len(weight) else np.ones(len(labels), dtype=np.bool_)
        for column, (learner, pair) in enumerate(zip(learners, self._pairs, strict=True)):
            index = np.flatnonzero(np.isin(labels, pair) & weighs)
            if len(index):
                own = weight[index] if len(weight) else None
                scores[index, column] = learner.score_and_learn(
                    rows.take(index).matrix, labels[index], pair, own
                )
        self._learners = learners
        self.n_examples += int(np.count_nonzero(weighs))
        return scores

    def facts(self) -> dict[str, Any]:
        """Return the fitted attributes."""
        n_steps, n_gradients = (
            sum(getattr(one, name) for one in self._begun) for name in ("n_steps_", "n_gradients_")
        )
        return {
            "step_size_": None,
            "radius_": np.inf,
            "half_life_": min((one.half_life_ for one in self._begun), default=np.inf),
            "n_examples_": self.n_examples,
            "n_steps_": n_steps,
            "n_gradients_": n_gradients,
            "trace_": Trace(n_steps=n_steps, n_gradients=n_gradients),
        }

    def published(self) -> Mapping[str, Any]:
        """Return what predictions are made of: all of it is found later."""
        later = ("coef_", "pairs_", "held_out_auc_", "features_")
        return {"_decision": None, DEFERRED: later}

    def finish(self, model: Any) -> dict[str, Any]:
        """Return what predictions are made of, found now.

        A pair that has not seen both classes has the score 0.
        """
        from pairlearn.estimators.classes.multiclass import MulticlassAUCClassifier

        features = model.features
        if not isinstance(features, FeatureMap) or isinstance(features, Identity):
            features = Identity.of(self.n_features)
        coef = np.zeros((len(self._learners), features.n_outputs))
        sigmoids = np.tile([1.0, 0.0], (len(self._learners), 1))
        aucs = []
        for k, one in enumerate(self._learners):
            if hasattr(one, "classes_") and one.coef_.any():
                sigmoid = one._calibrator
                assert isinstance(sigmoid, Sigmoid)
                coef[k], sigmoids[k] = one.coef_[0], (sigmoid.slope, sigmoid.intercept)
            aucs.append(getattr(one, "held_out_auc_", None))
        pairs = MulticlassAUCClassifier(**pair_parameters(model))
        pairs.adopt_pairs(self.classes, coef, sigmoids)
        known = [auc for auc in aucs if auc is not None]
        auc = float(np.mean(known)) if known else None
        found = {"coef_": coef, "features_": features, "pairs_": pairs}
        return {**found, "held_out_auc_": auc, DEFERRED: ()}

    def restart(self) -> None:
        """Forget step sizes and averages of all pairs."""
        for one in self._begun:
            one.restart_stream()

    def state(self) -> dict[str, Any]:
        """Return everything that the next chunk depends on."""
        pairs = [one.stream_state() for one in self._learners]
        return {"n_examples": self.n_examples, "class_pairs": pairs}

    def restore(self, state: Mapping[str, Any], n_features: int) -> None:
        """Go back to a state."""
        for learner, own, pair in zip(
            self._learners, state["class_pairs"], self._pairs, strict=True
        ):
            learner.restore_stream(own)
            if own and not np.array_equal(learner.classes_, pair):
                raise ValueError(f"a saved pair is not of the classes {pair.tolist()}.")
        self.n_examples = state["n_examples"]
