# SPDX-License-Identifier: BSD-3-Clause
"""EntropyRegressor: what it finds, its laws, its errors, scikit-learn's checks."""

import math

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.linear_model import HuberRegressor, Ridge

from pairlearn import SGD, DivergenceError, EntropyRegressor, Hinge, PairLoss
from pairlearn.estimators.entropy import half_sample_mode, pair_quartile
from pairlearn.losses import scalar

W = np.array([1.0, -2.0, 0.5])


def task(noise, n=1200, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    if noise == "skewed":
        e = rng.exponential(size=n)
    elif noise == "bimodal":
        e = np.where(rng.random(n) < 0.65, 0.0, 4.0) + 0.4 * rng.normal(size=n)
    else:
        e = np.where(rng.random(n) < 0.2, 30.0, 0.5) * rng.normal(size=n)
    return X, X @ W + e


@pytest.mark.parametrize("store", [np.asarray, scipy.sparse.csr_array])
def test_units_of_the_features_do_not_matter(store):
    X, y = task("skewed")
    units = 10.0 ** np.array([-6, 6, 2])
    model = EntropyRegressor(random_state=0).fit(store(X), y)
    changed = EntropyRegressor(random_state=0).fit(store(X * units), y)
    np.testing.assert_allclose(changed.coef_ * units, model.coef_, rtol=1e-3)
    np.testing.assert_allclose(changed.intercept_, model.intercept_, atol=1e-3)
    if store is np.asarray:
        moved = X + np.array([1e3, -1e4, 7.0])
        shifted = EntropyRegressor(random_state=0).fit(moved, y)
        np.testing.assert_allclose(shifted.coef_, model.coef_, rtol=1e-3)
        np.testing.assert_allclose(shifted.predict(moved), model.predict(X), atol=0.1)


def test_a_given_start_is_in_the_units_of_the_user():
    X, y = task("skewed")
    units = np.array([1e-3, 1e3, 10.0])
    options = {"solver": SGD(step_size=1e-12, n_passes=1), "random_state": 0}
    model = EntropyRegressor(init=W / units, **options).fit(X * units, y)
    np.testing.assert_allclose(model.coef_ * units, W, rtol=1e-6)


@pytest.mark.parametrize("noise", ["skewed", "bimodal"])
def test_slopes_are_better_than_those_of_least_squares_and_huber(noise):
    X, y = task(noise)
    ours = EntropyRegressor(random_state=0).fit(X, y)
    error = np.linalg.norm(ours.coef_ - W)
    for rival in (Ridge(), HuberRegressor()):
        assert error < np.linalg.norm(rival.fit(X, y).coef_ - W)


def test_gross_outliers():
    X, y = task("outliers")
    ours = EntropyRegressor(random_state=0).fit(X, y)
    assert np.linalg.norm(ours.coef_ - W) < 0.5 * np.linalg.norm(Ridge().fit(X, y).coef_ - W)


@pytest.mark.parametrize("window", ["gaussian", "epanechnikov"])
def test_never_worse_than_its_start(window):
    X, y = task("bimodal", n=400)
    model = EntropyRegressor(window, bandwidth=0.5, random_state=0).fit(X, y)
    assert model.entropy_ <= model.entropy_start_
    assert model.bandwidth_ == 0.5


def test_shift_moves_the_intercept_alone():
    X, y = task("skewed", n=400)
    a = EntropyRegressor(random_state=0).fit(X, y)
    b = EntropyRegressor(random_state=0).fit(X, y + 7.0)
    np.testing.assert_allclose(a.coef_, b.coef_, atol=1e-6)
    assert b.intercept_ - a.intercept_ == pytest.approx(7.0, abs=1e-5)


def test_intercepts():
    X, y = task("bimodal")
    models = {
        rule: EntropyRegressor(intercept=rule, random_state=0).fit(X, y)
        for rule in ("median", "mean", "mode")
    }
    errors = y - X @ models["mean"].coef_
    assert models["mean"].intercept_ == pytest.approx(errors.mean())
    assert models["median"].intercept_ == pytest.approx(np.median(errors))
    assert abs(models["mode"].intercept_) < 0.4


@pytest.mark.parametrize("init", ["auto", "zero", "least_squares", "huber", [1.0, 1.0, 1.0]])
def test_starting_points(init):
    X, y = task("skewed", n=400)
    model = EntropyRegressor(init=init, random_state=0).fit(X, y)
    assert np.linalg.norm(model.coef_ - W) < 0.3


def test_sparse_is_dense():
    X, y = task("skewed", n=300)
    X[np.abs(X) < 0.5] = 0.0
    solver = SGD(step_size=0.01, n_passes=5)
    settings = {"bandwidth": 0.5, "solver": solver, "random_state": 0}
    dense = EntropyRegressor(**settings).fit(X, y)
    sparse = EntropyRegressor(**settings).fit(scipy.sparse.csr_array(X), y)
    np.testing.assert_allclose(sparse.coef_, dense.coef_, atol=1e-6)


class Cauchy(PairLoss):
    opposite_labels_only = False
    convex = False

    @scalar
    def value(score, y, y_partner, _):  # noqa: N805
        r = (y - y_partner) - score
        return 0.5 * math.log1p(r * r)

    @scalar
    def derivative(score, y, y_partner, _):  # noqa: N805
        r = (y - y_partner) - score
        return -r / (1.0 + r * r)


def test_a_window_of_ones_own():
    X, y = task("outliers", n=400)
    model = EntropyRegressor(Cauchy(), bandwidth=None, random_state=0).fit(X, y)
    assert np.linalg.norm(model.coef_ - W) < 0.2
    assert np.isnan(model.bandwidth_)
    assert np.isnan(model.entropy_)


def test_the_ball_is_around_the_start():
    X, y = task("bimodal", n=400)
    model = EntropyRegressor(init="zero", solver=SGD(radius=0.5), random_state=0).fit(X, y)
    assert np.linalg.norm(model.coef_) <= 0.5 + 1e-9


def test_half_sample_mode_and_pair_quartile():
    rng = np.random.default_rng(0)
    normal = rng.normal(size=4000)
    # Standard errors: 0.1 for the mode at this size, 0.02 for the scale; the seed is fixed.
    assert abs(half_sample_mode(normal)) < 0.5
    assert pair_quartile(normal, rng) == pytest.approx(1.0, abs=0.05)
    assert half_sample_mode(np.array([3.0])) == 3.0
    assert half_sample_mode(np.array([2.0, 2.0, 2.0, 5.0])) == 2.0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"bandwidth": 0.0}, "bandwidth must be a positive number, got 0.0"),
        ({"bandwidth": "wide"}, '"auto" or None'),
        ({"intercept": "max"}, "intercept must be one of"),
        ({"init": "random"}, "init must be"),
        ({"init": [1.0]}, "init must have shape"),
        ({"window": "box"}, "window must be one of"),
        ({"solver__step_size": -1.0}, "step_size must be a positive number"),
        ({"solver__radius": 0.0}, "radius must be a positive number"),
        ({"solver__schedule": "cosine"}, "schedule must be one of"),
        ({"solver__averaging": "median"}, "averaging must be one of"),
        ({"solver__pairing": "all"}, "pairing must be one of"),
        ({"solver__n_passes": 0}, "n_passes must be a positive number"),
        ({"solver__step_size": "theory"}, "EntropyRegressor has no such bound"),
        ({"solver": "moments"}, "EntropyRegressor has no way to train by Moments"),
    ],
)
def test_bad_parameters(settings, message):
    X, y = task("skewed", n=50)
    with pytest.raises(ValueError, match=message):
        EntropyRegressor().set_params(**settings).fit(X, y)


def test_other_bad_input():
    X, y = task("skewed", n=50)
    with pytest.raises(ValueError, match="y is constant"):
        EntropyRegressor().fit(X, np.ones(50))
    with pytest.raises(ValueError, match="no field named bandwidth"):
        EntropyRegressor(Cauchy()).fit(X, y)
    with pytest.raises(DivergenceError, match="smaller step_size"):
        EntropyRegressor(solver=SGD(step_size=1e9), bandwidth=1e300).fit(X, y)

    with pytest.raises(ValueError, match="opposite_labels_only = False"):
        EntropyRegressor(Hinge(), bandwidth=None).fit(X, y)


# ------------------------------------------------------------------------------------ weights


@pytest.mark.parametrize("storage", [np.asarray, scipy.sparse.csr_array])
def test_an_example_of_weight_zero_is_absent(storage):
    X, y = task("skewed", n=300)
    weight = np.random.default_rng(0).integers(0, 3, 300).astype(float)
    some = weight > 0
    model = EntropyRegressor(solver=SGD(n_passes=20), random_state=0)
    whole = clone(model).fit(storage(X), y, sample_weight=weight)
    part = clone(model).fit(storage(X[some]), y[some], sample_weight=5.0 * weight[some])
    for name in ("coef_", "intercept_", "bandwidth_", "entropy_", "step_size_"):
        np.testing.assert_allclose(getattr(whole, name), getattr(part, name), rtol=1e-8)
    ones = clone(model).fit(storage(X), y, sample_weight=np.full(300, 3.0))
    np.testing.assert_array_equal(ones.coef_, clone(model).fit(storage(X), y).coef_)


def test_the_heavy_examples_decide():
    X, y = task("skewed", n=1200)
    flipped = np.concatenate([y[:600], X[600:] @ -W])
    for heavy, sign in ((slice(600), 1.0), (slice(600, None), -1.0)):
        weight = np.full(1200, 0.02)
        weight[heavy] = 1.0
        for init in ("huber", "least_squares"):
            model = EntropyRegressor(init=init, random_state=0).fit(X, flipped, weight)
            np.testing.assert_allclose(model.coef_, sign * W, atol=0.3)


def test_weighted_scales_are_those_of_repeated_examples():
    """What is found without a random path agrees with repetition to rounding."""
    X, y = task("skewed", n=200)
    weight = np.tile([1.0, 3.0], 100)
    repeated = np.repeat(np.arange(200), weight.astype(int))
    from pairlearn.estimators.entropy import start_from
    from pairlearn.solvers.rows import as_rows

    a = start_from(as_rows(X), y, "least_squares", weight)
    b = start_from(as_rows(X[repeated]), y[repeated], "least_squares")
    np.testing.assert_allclose(a, b, atol=1e-10)
    mean = EntropyRegressor(
        intercept="mean", solver=SGD(step_size=1e-9, n_passes=1), random_state=0
    )
    model = mean.fit(X, y, sample_weight=weight)
    errors = y - X @ model.coef_
    # Weights are represented by as many errors as there are: the mean is rounded to their spread.
    assert abs(model.intercept_ - np.average(errors, weights=weight)) < 0.1 * errors.std()


@pytest.mark.parametrize("unit", [1e160, 1e-160])
@pytest.mark.parametrize("init", ["auto", "zero"])
def test_targets_whose_squares_are_no_numbers_are_refused(unit, init):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    y = unit * (X[:, 0] + rng.normal(size=300))
    with pytest.raises(ValueError, match=r"y must span between 1e-140 and 1e\+140, got"):
        EntropyRegressor(init=init, random_state=0).fit(X, y)
