# SPDX-License-Identifier: BSD-3-Clause
import math
from dataclasses import dataclass

import numpy as np
import pytest

from pairlearn.averaging import DelayedByStepSize, Uniform
from pairlearn.experiments import Fitted, Method, find_method
from pairlearn.experiments.methods.base import auc_of, cross_validate
from pairlearn.experiments.methods.pairwise import LinearModel, SweptMethod, descend, record_steps
from pairlearn.experiments.methods.rivals import _BUFFERS, BufferMethod, SaddleMethod
from pairlearn.losses import Hinge
from pairlearn.pairings import PreviousExample, RandomPair
from pairlearn.problem import Problem
from pairlearn.recipes import RECIPES
from pairlearn.schedules import Constant, InverseSqrt
from pairlearn.scores import LinearScore
from pairlearn.validation import DivergenceError

RNG = np.random.default_rng(0)
X = RNG.normal(size=(150, 4))
Y = np.where(X[:, 0] + 0.7 * RNG.normal(size=150) > 0, 1.0, -1.0)
HINGE = Problem(LinearScore(), Hinge())


def test_records_are_increasing_and_end_with_the_last_step():
    for n_steps in (1, 15, 16, 17, 100, 12_345):
        steps = record_steps(n_steps)
        assert steps[-1] == n_steps
        assert steps == sorted(set(steps))


@pytest.mark.parametrize(
    ("recipe", "pairing", "averaging", "schedule", "radius"),
    [
        ("previous_example", PreviousExample(), DelayedByStepSize(), "constant", 2.0),
        ("sgd_pair", RandomPair(), DelayedByStepSize(), "constant", 2.0),
        ("olp", _BUFFERS["olp"], Uniform(), "inverse_sqrt", 2.0),
        ("olp_rs1", _BUFFERS["olp-rs1"], Uniform(), "inverse_sqrt", 2.0),
        ("oam_gra", _BUFFERS["oam"], Uniform(), "fixed", math.inf),
        ("oam_rs1", _BUFFERS["oam-rs1"], Uniform(), "fixed", math.inf),
    ],
)
def test_a_run_without_records_on_the_way_is_the_recipe(
    recipe, pairing, averaging, schedule, radius
):
    published = RECIPES[recipe]
    n_steps = int(published.n_passes * len(Y))
    steps = {
        "constant": Constant(0.3 / math.sqrt(n_steps)),
        "inverse_sqrt": InverseSqrt(0.3),
        "fixed": Constant(0.15),
    }[schedule]
    fitted = descend(
        HINGE, X, Y, pairing=pairing, schedule=steps, radius=radius, averaging=averaging,
        records=[n_steps], rng=np.random.default_rng(5),
    )  # fmt: skip
    expected = published.solve(X, Y, step_size=0.3, radius=2.0, rng=np.random.default_rng(5))
    np.testing.assert_allclose(fitted.model.coef, expected.average, rtol=1e-10, atol=1e-12)
    assert fitted.n_gradients == expected.trace.n_gradients


@pytest.mark.parametrize("name", ["olp", "oam", "olp-rs1", "oam-rs1"])
def test_buffer_methods_carry_published_settings(name):
    method = find_method(name)
    recipe = RECIPES[{"oam": "oam_gra"}.get(name, name.replace("-", "_"))]
    assert method.n_passes == recipe.n_passes
    assert (method.radii == (math.inf,)) is not recipe.tunes_radius
    assert method.tuned_once
    assert method.max_tuning_examples == 5_000


@pytest.mark.parametrize("name", ["ours", "sgd-pair"])
def test_our_methods_have_the_papers_grids(name):
    method = find_method(name)
    assert len(method.candidates()) == 49
    assert method.step_sizes == method.radii == tuple(10.0**k for k in range(-3, 4))
    assert not method.tuned_once


def test_tuning_finds_a_step_size_that_learns():
    method = SweptMethod(name="m", step_sizes=(1e-300, 1.0), radii=(1.0,))
    params = method.tune(X, Y, np.random.default_rng(0))
    assert params == {"step_size": 1.0, "radius": 1.0}
    again = method.tune(X, Y, np.random.default_rng(0))
    assert again == params


def test_a_diverged_candidate_is_not_chosen():
    method = SweptMethod(name="m", loss="square", step_sizes=(1e6, 0.1), radii=(math.inf,))
    assert method.tune(X, Y, np.random.default_rng(0))["step_size"] == 0.1


def test_cross_validation_survives_divergence():
    @dataclass(frozen=True, kw_only=True)
    class Diverges(Method):
        name: str = "diverges"

        def fit(self, X, y, params, rng):
            if params["step_size"] > 1:
                raise DivergenceError("too far")
            return Fitted(model=LinearModel(np.eye(4)[0]))

    candidates = [{"step_size": 10.0}, {"step_size": 1.0}]
    assert cross_validate(Diverges(), candidates, X, Y, np.random.default_rng(0)) == candidates[1]


def test_checkpoints_grow_in_cost_and_end_in_the_model():
    method = BufferMethod(name="b", buffer="olp", n_passes=2, radii=(1.0,))
    fitted = method.fit(X, Y, {"step_size": 1.0, "radius": 1.0}, np.random.default_rng(0))
    counts = [point.n_gradients for point in fitted.checkpoints]
    assert counts == sorted(counts)
    assert fitted.checkpoints[-1].model is fitted.model
    assert len(fitted.checkpoints) == len(record_steps(2 * len(Y)))
    assert fitted.state_bytes > 200 * 4 * 8


def test_saddle_records_are_prefixes_of_one_path():
    method = SaddleMethod(name="s", n_passes=4)
    short = method.run(X, Y, 1.0, 300, 7)
    fitted = method.fit(X, Y, {"step_size": 1.0}, np.random.default_rng(0))
    assert auc_of(fitted.model, X, Y) > 0.75
    steps = [point.n_gradients for point in fitted.checkpoints]
    assert steps == record_steps(4 * len(Y))
    np.testing.assert_array_equal(short.model.coef, method.run(X, Y, 1.0, 300, 7).model.coef)
    # One more step moves the mean of the iterates by one part in 301 only.
    longer = method.run(X, Y, 1.0, 301, 7)
    assert np.abs(longer.model.coef - short.model.coef).max() < 0.02


@pytest.mark.parametrize(
    "wrong", [{"pairing": "fifo"}, {"schedule": "none"}, {"averaging": "last"}]
)
def test_unknown_parts_are_refused(wrong):
    with pytest.raises(ValueError, match="must be one of"):
        SweptMethod(name="m", **wrong)
