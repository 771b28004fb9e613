# SPDX-License-Identifier: BSD-3-Clause
"""check_objective: every objective of the package passes, and slips are found."""

from dataclasses import dataclass

import numpy as np
import pytest

from pairlearn import AveragePrecision, Hinge, Logistic
from pairlearn.estimators import check_objective
from pairlearn.solvers import AllPairs, Objective, PartialArea, Push, SmoothPrecision


@pytest.mark.parametrize(
    "objective",
    [AllPairs(), Push(), Push(3.0), PartialArea(0.2), PartialArea(0.3, 0.3), SmoothPrecision()],
    ids=repr,
)
def test_objectives_of_the_package_pass(objective):
    report = check_objective(objective)
    assert report.n_points == 120 * len(objective.candidates)
    assert report.largest_error < 1e-5
    assert set(report.metrics) == {"exact", "sgd", "stream"}


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
            if self.slip == "jump" and scores[0] > scores[1] + 0.3:
                value = value + 1.0
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
        ("gradient", "the gradient of Mean.* differs from the differences of its value"),
        ("far", "the gradient of Mean.* differs from the differences of its value"),
        ("jump", "jumps from .* it must be continuous"),
        ("shape", r"a gradient of shape \(23,\) for 24 scores"),
        ("in place", "changes the scores that it is given; work on a copy"),
        ("weights", "if all weights are multiplied by 3; divide the weights of each class"),
        ("shift", "if a number is added to all scores"),
        ("sign", "it is minimised, so change its sign"),
        ("concave", "so it is not convex; set convex = False"),
        ("metric", "must be larger for the right order"),
        ("none", r"candidates is \(\); it must be a tuple of at least one"),
        ("open", "leave nothing to choose in a candidate"),
    ],
)
def test_slips_are_found(slip, words):
    with pytest.raises(ValueError, match=words):
        check_objective(Mean(slip))


def test_a_sound_one_passes_and_other_values_are_refused():
    assert check_objective(Mean(), loss=Logistic()).largest_error < 1e-6
    with pytest.raises(TypeError, match="an instance, not a class"):
        check_objective(Mean)
    with pytest.raises(ValueError, match="needs a smooth loss"):
        check_objective(Mean(), loss=Hinge())
    with pytest.raises(ValueError, match="tolerance"):
        check_objective(Mean(), tolerance=0.0)
