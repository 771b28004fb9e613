# SPDX-License-Identifier: BSD-3-Clause
"""check_objective: every objective of the package passes, and slips are found."""

from dataclasses import dataclass

import numpy as np
import pytest

from pairlearn import AveragePrecision, Hinge, Logistic
from pairlearn.solvers import AllPairs, Objective, PartialArea, Push, SmoothPrecision
from pairlearn.testing import check_objective


@pytest.mark.parametrize(
    "objective",
    [AllPairs(), Push(), Push(3.0), PartialArea(0.2), PartialArea(0.3, 0.3), SmoothPrecision()],
    ids=repr,
)
def test_objectives_of_the_package_pass(objective):
    check_objective(objective)


@dataclass(frozen=True, repr=False)
class Mean(Objective):
    """The mean over pairs with one slip."""

    slip: str = ""

    @property
    def metric(self):
        return (lambda y, s, sample_weight=None: 0.5) if self.slip == "metric" else self._metric

    @property
    def _metric(self):
        return AveragePrecision()

    @property
    def candidates(self):
        return {"none": (), "open": (Push(),)}.get(self.slip, (self,))

    def of_scores(self, loss, positive, weight):
        if self.slip == "weights":
            weight = np.ones(len(positive)) if weight is None else weight + 1.0
        inner = AllPairs().of_scores(loss, positive, weight)

        def evaluate(scores):
            value, gradient = inner(scores)
            if self.slip == "in place":
                scores += 1.0
            if self.slip == "shift":
                return value + float(scores.mean()), gradient + 1.0 / len(scores)
            far = np.ptp(scores) > 30.0
            return {
                "far": (value, 0.5 * gradient if far else gradient),
                "gradient": (value, 2.0 * gradient),
                "shape": (value, gradient[:-1]),
                "sign": (-value, -gradient),
                "concave": (np.tanh(value), gradient / np.cosh(value) ** 2),
            }.get(self.slip, (value, gradient))

        return evaluate


@pytest.mark.parametrize(
    ("slip", "words"),
    [
        ("gradient", "the gradient of Mean.* where its value changes by"),
        ("far", "the gradient of Mean.* where its value changes by"),
        ("shape", "a derivative for each score"),
        ("in place", "must not change the scores"),
        ("weights", "if all weights are multiplied by 3; divide the weights of each class"),
        ("shift", "if a number is added to all scores"),
        ("sign", "must be smaller for the right order"),
        ("concave", "so it is not convex; set convex = False"),
        ("metric", "must be larger for the right order"),
        ("open", "leave nothing to choose"),
    ],
)
def test_slips_are_found(slip, words):
    with pytest.raises(ValueError, match=words):
        check_objective(Mean(slip))


def test_a_sound_one_passes_and_other_values_are_refused():
    check_objective(Mean(), loss=Logistic())
    with pytest.raises(TypeError, match="an instance, not a class"):
        check_objective(Mean)
    with pytest.raises(ValueError, match="needs a smooth loss"):
        check_objective(Mean(), loss=Hinge())
