# SPDX-License-Identifier: BSD-3-Clause
"""A stream of more than two classes: one stream for each pair of classes.

Each pair has its own classifier, which learns the examples of its two classes in order.
Probabilities of the pairs come from their latest progressive scores.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairlearn.estimators.shared.decisions import Sigmoid
from pairlearn.estimators.shared.examples import check_many_classes
from pairlearn.solvers.rows import Rows
from pairlearn.typing import Vector


class PairStreams:
    """The streams of all pairs of classes.

    `make` returns a classifier of two given classes that has learned nothing; `classes` are sorted.
    """

    def __init__(
        self, make: Callable[[NDArray[Any]], Any], classes: NDArray[Any], n_features: int
    ) -> None:
        check_many_classes(classes)
        self.classes, self.n_features, self.n_examples = classes, n_features, 0
        self._make = make
        self._learners: list[Any] = [make(pair) for pair in self._pairs]

    @property
    def _pairs(self) -> list[NDArray[Any]]:
        return [np.array(pair) for pair in combinations(self.classes, 2)]

    @property
    def _begun(self) -> list[Any]:
        return [one for one in self._learners if hasattr(one, "classes_")]

    @property
    def solver(self) -> str | None:
        """The name of the solver of the pairs."""
        return next((one.solver_ for one in self._begun), None)

    @property
    def loss(self) -> Any:
        """The loss of the pairs."""
        return next((one.loss_ for one in self._begun), None)

    @property
    def n_steps(self) -> int:
        """Steps of all pairs."""
        return sum(one.n_steps_ for one in self._begun)

    @property
    def n_gradients(self) -> int:
        """Pairs of examples that were evaluated."""
        return sum(one.n_gradients_ for one in self._begun)

    @property
    def half_life(self) -> float:
        """The shortest half-life of the pairs."""
        return min((one.half_life_ for one in self._begun), default=np.inf)

    @property
    def auc(self) -> float | None:
        """The mean held-out or progressive AUC of the pairs that have one."""
        known = [a for one in self._begun if (a := getattr(one, "held_out_auc_", None)) is not None]
        return float(np.mean(known)) if known else None

    def start_from(self, adopt: Callable[[Any, int, NDArray[Any]], None], n_examples: int) -> None:
        """Let each pair begin with a solution, which `adopt` hands to its classifier.

        `n_examples` is the number of examples that the solution was found from.
        """
        self.n_examples = n_examples
        for k, (learner, pair) in enumerate(zip(self._learners, self._pairs, strict=True)):
            adopt(learner, k, pair)

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
            index = np.flatnonzero(((labels == pair[0]) | (labels == pair[1])) & weighs)
            if len(index):
                scores[index, column] = learner.score_and_learn(
                    rows.take(index).matrix,
                    labels[index],
                    pair,
                    weight[index] if len(weight) else None,
                )
        before, self._learners = self._learners, learners
        self.n_examples += int(np.count_nonzero(weighs))
        # A classifier and its stream know each other: without this, all that they hold would wait
        # for a rare collection of cycles.
        for one in before:
            vars(one).clear()
        return scores

    def restart(self) -> None:
        """Forget step sizes and averages of all pairs."""
        for one in self._begun:
            one.restart_stream()

    def finish(self, n_mapped: int, sigmoid_of: Callable[[Any], Sigmoid]) -> tuple[Vector, Vector]:
        """Return the coefficients of all pairs, for `n_mapped` features, and their sigmoids.

        `sigmoid_of` returns the sigmoid of a classifier. A pair that has not seen both classes may
        have the score 0.
        """
        coef = np.zeros((len(self._learners), n_mapped))
        sigmoids = np.tile([1.0, 0.0], (len(self._learners), 1))
        for k, one in enumerate(self._learners):
            if hasattr(one, "classes_") and one.coef_.any():
                found = sigmoid_of(one)
                coef[k], sigmoids[k] = one.coef_[0], (found.slope, found.intercept)
        return coef, sigmoids

    def state(self) -> dict[str, Any]:
        """Return everything that the next chunk depends on."""
        return {
            "n_examples": self.n_examples,
            "class_pairs": [one.stream_state() for one in self._learners],
        }

    def restore(self, n_examples: int, pairs: Sequence[Mapping[str, Any]]) -> None:
        """Go on from a state."""
        if not isinstance(pairs, (list, tuple)) or len(pairs) != len(self._learners):
            raise ValueError(f"the saved stream does not have {len(self._learners)} pairs.")
        learners = [self._make(pair) for pair in self._pairs]
        for learner, state, pair in zip(learners, pairs, self._pairs, strict=True):
            learner.restore_stream(state)
            if state and not np.array_equal(learner.classes_, pair):
                raise ValueError(f"a saved pair is not of the classes {pair.tolist()}.")
        self._learners, self.n_examples = learners, n_examples
