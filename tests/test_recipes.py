# SPDX-License-Identifier: BSD-3-Clause
"""Every recipe learns, and is what it says it is."""

import numpy as np
import pytest

from pairlearn import (
    Ball,
    Constant,
    Hinge,
    LinearScore,
    PairwiseSGD,
    PreviousExample,
    Problem,
    roc_auc,
)
from pairlearn.averaging import DelayedByStepSize
from pairlearn.recipes import RECIPES

#: A step size that suits each (the sums of OAM are up to a hundred times larger).
STEP = {"oam_gra": 1e-2, "oam_gra_released": 1e-3, "opauc": 0.02}
STEP |= {"opauc_sketch": 0.02, "oam_rs1": 1e-4, "oam_rs1_released": 1e-4}
#: Methods whose partner hardly ever changes need not learn.
STUCK = {"frozen_example", "olp_rs1", "oam_rs1", "oam_rs1_released"}


def sample(n=400, d=5, seed=0):
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(n) < 0.3, 1.0, -1.0)
    X = rng.normal(size=(n, d)) / 2
    X[:, 0] += y / 2
    return X, y


@pytest.mark.parametrize("name", RECIPES)
def test_learns(name):
    X, y = sample()
    recipe = RECIPES[name]
    assert recipe.name == name
    options = {"step_size": STEP.get(name, 1.0), "radius": 10.0, "rng": 0}
    solution = recipe.solve(X, y, **options)
    again = recipe.solve(X, y, **options)
    np.testing.assert_array_equal(solution.average, again.average)
    enough = 0.5 if name in STUCK else roc_auc(y, X[:, 0]) - 0.03
    assert roc_auc(y, X @ solution.average) > enough
    if recipe.tunes_step_size:
        # The stages of the localized method are rounded up one by one.
        np.testing.assert_allclose(solution.trace.n_steps, recipe.n_passes * len(y), atol=9)


def test_previous_example_is_algorithm_1():
    X, y = sample()
    found = RECIPES["previous_example"].solve(X, y, step_size=3.0, radius=2.0, rng=0)
    schedule = Constant(3.0 / np.sqrt(4000))
    solver = PairwiseSGD(PreviousExample(), schedule, Ball(2.0), DelayedByStepSize())
    wanted = solver.solve(Problem(LinearScore(), Hinge()), X, y, n_steps=4000, rng=0)
    np.testing.assert_array_equal(found.average, wanted.average)


def test_bad_input():
    X, y = sample()
    with pytest.raises(ValueError, match="made for the square loss"):
        RECIPES["spauc"].solve(X, y, loss="hinge")
    RECIPES["olp"].solve(X, y, loss="logistic", n_passes=0.1)
    with pytest.raises(ValueError, match="both of them"):
        RECIPES["oam_gra"].solve(X, np.ones(len(y)))
    with pytest.raises(ValueError, match="finite radius"):
        RECIPES["localized"].solve(X, y)
    with pytest.raises(ValueError, match="step_size must be a positive number"):
        RECIPES["olp"].solve(X, y, step_size=0.0)
    with pytest.raises(ValueError, match="n_passes must be a positive number"):
        RECIPES["olp"].solve(X, y, n_passes=-1.0)
