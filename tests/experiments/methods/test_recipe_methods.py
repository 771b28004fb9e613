# SPDX-License-Identifier: BSD-3-Clause
import math
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pytest

from pairlearn.experiments import Fitted, Method, find_method
from pairlearn.experiments.methods.base import cross_validate
from pairlearn.experiments.methods.pairwise import LinearModel, RecipeMethod, record_steps
from pairlearn.recipes import RECIPES
from pairlearn.validation import DivergenceError

RNG = np.random.default_rng(0)
X = RNG.normal(size=(150, 4))
Y = np.where(X[:, 0] + 0.7 * RNG.normal(size=150) > 0, 1.0, -1.0)
#: The recipe of each method of the paper's tables.
PUBLISHED = {
    "ours": "previous_example",
    "sgd-pair": "sgd_pair",
    "olp": "olp",
    "olp-rs1": "olp_rs1",
    "oam": "oam_gra",
    "oam-rs1": "oam_rs1",
}
SWEPT = partial(RecipeMethod, name="m", recipe="previous_example", tuning="sweep")


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_method_without_records_on_the_way_is_the_recipe(name):
    published = RECIPES[PUBLISHED[name]]
    params = {"step_size": 0.3, "radius": 2.0}
    fitted = replace(find_method(name), records=False).fit(X, Y, params, np.random.default_rng(5))
    expected = published.solve(X, Y, rng=np.random.default_rng(5), **params)
    np.testing.assert_array_equal(fitted.model.coef, expected.average)
    assert fitted.n_gradients == expected.trace.n_gradients
    assert not fitted.waypoints


@pytest.mark.parametrize("name", ["olp", "oam", "olp-rs1", "oam-rs1"])
def test_buffer_methods_carry_published_settings(name):
    method, recipe = find_method(name), RECIPES[PUBLISHED[name]]
    assert method.published() == recipe
    assert method.n_passes is None
    assert ("radius" in method.candidates()[0]) is recipe.tunes_radius
    assert method.tuned_once
    assert method.max_tuning_examples == 5_000


@pytest.mark.parametrize("name", ["ours", "sgd-pair"])
def test_our_methods_have_the_papers_grids(name):
    method = find_method(name)
    assert len(method.candidates()) == 49
    assert method.step_sizes == method.radii == tuple(10.0**k for k in range(-3, 4))
    assert not method.tuned_once


def test_tuning_finds_a_step_size_that_learns():
    method = SWEPT(step_sizes=(1e-300, 1.0), radii=(1.0,))
    params = method.tune(X, Y, np.random.default_rng(0))
    assert params == {"step_size": 1.0, "radius": 1.0}
    again = method.tune(X, Y, np.random.default_rng(0))
    assert again == params


def test_a_diverged_candidate_is_not_chosen():
    method = SWEPT(loss="square", step_sizes=(1e6, 0.1), radii=(math.inf,))
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


def test_waypoints_grow_in_cost_and_end_in_the_model():
    method = RecipeMethod(name="b", recipe="olp", n_passes=2, radii=(1.0,))
    fitted = method.fit(X, Y, {"step_size": 1.0, "radius": 1.0}, np.random.default_rng(0))
    counts = [point.n_gradients for point in fitted.waypoints]
    assert counts == sorted(counts)
    seconds = [point.cpu_seconds for point in fitted.waypoints]
    assert seconds == sorted(seconds)
    assert fitted.waypoints[-1].model is fitted.model
    assert len(fitted.waypoints) == len(record_steps(2 * len(Y)))
    assert fitted.state_bytes > 200 * 4 * 8


def test_an_interrupted_fit_is_no_result(monkeypatch):
    def interrupt(steps):
        raise KeyboardInterrupt

    method = find_method("ours")
    monkeypatch.setattr(LinearModel, "__init__", lambda self, coef: interrupt(coef))
    with pytest.warns(RuntimeWarning, match="Interrupted"), pytest.raises(KeyboardInterrupt):
        method.fit(X, Y, {"step_size": 1.0, "radius": 1.0}, np.random.default_rng(0))


@pytest.mark.parametrize(
    "wrong", [{"recipe": "fifo2"}, {"steps": "none"}, {"averaging": "last"}, {"tuning": "never"}]
)
def test_unknown_parts_are_refused(wrong):
    with pytest.raises(ValueError, match="must be one of"):
        RecipeMethod(**{"name": "m", "recipe": "olp", **wrong})


def test_what_a_recipe_cannot_do_is_refused():
    with pytest.raises(ValueError, match="closed_form is one piece; it has no steps to vary"):
        RecipeMethod(name="m", recipe="closed_form", steps="fixed")
    with pytest.raises(ValueError, match="cannot pause; leave out callbacks"):
        RECIPES["localized"].solve(X, Y, radius=1.0, callbacks=[print])
    with pytest.raises(ValueError, match="olp does not take one pair per step"):
        RECIPES["olp"].sweep(X, Y, step_sizes=[1.0], radii=[1.0])
