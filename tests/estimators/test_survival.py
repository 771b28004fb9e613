# SPDX-License-Identifier: BSD-3-Clause
"""The survival ranker: what it learns, what it refuses, and what it says of chances."""

import pickle
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse
from scipy.optimize import minimize
from scipy.special import logsumexp
from sklearn.base import clone
from sklearn.utils.estimator_checks import check_estimator

from pairlearn import (
    SGD,
    ConcordanceIndex,
    Exact,
    Hats,
    Moments,
    SquaredHinge,
    SurvivalRanker,
    load_model,
)
from pairlearn.estimators.survival import fit_hazard

SLOPES = np.array([1.0, -0.5, 0.0])


def simulated(n, seed=0, shape=None):
    """Return examples whose log hazard is linear in X, or a function of it."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    log_hazard = X @ SLOPES if shape is None else shape(X)
    time, end = rng.exponential(np.exp(-log_hazard)), rng.exponential(2.0, size=n)
    return X, np.column_stack((time <= end, np.minimum(time, end)))


class Uncensored(SurvivalRanker):
    """The ranker of times without censoring, which scikit-learn's checks can give."""

    def fit(self, X, y, sample_weight=None):
        return super().fit(X, with_events(y), sample_weight)

    def score(self, X, y):
        return super().score(X, with_events(y))


def with_events(y):
    if y is None:
        return None
    time = np.asarray(y, dtype=float).ravel()
    # a stream takes no negative times; the order of e^t is that of t
    time = np.exp(np.clip(time, -50.0, 50.0))
    return np.column_stack((np.ones(len(time)), time))


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("solver", ["exact", SGD(n_passes=20)])
def test_scikit_learn_checks(solver):
    because = "the folds that choose the ridge differ"
    expected = {
        "check_sample_weight_equivalence_on_dense_data": because,
        "check_sample_weight_equivalence_on_sparse_data": because,
    }
    checks = check_estimator(
        Uncensored(solver=solver), expected_failed_checks=expected, on_skip=None
    )
    assert len(checks) > 40


def structured(y):
    return np.array([(bool(e), t) for e, t in y], dtype=[("event", "?"), ("time", "<f8")])


@pytest.mark.parametrize("loss", ["squared_hinge", "logistic"])
def test_the_direction_of_the_hazard_is_found(loss):
    X, y = simulated(1_000)
    ranker = SurvivalRanker(loss, random_state=0).fit(X[:600], y[:600])
    assert ranker.coef_ / ranker.coef_[0] == pytest.approx(SLOPES, abs=0.25)
    best = ConcordanceIndex()(y[600:], X[600:] @ SLOPES)
    assert ranker.score(X[600:], y[600:]) == pytest.approx(best, abs=0.01)
    assert ranker.held_out_concordance_ == max(one.auc for one in ranker.choice_.tried)
    assert ranker.n_events_ == int(y[:600, 0].sum())
    # the slope of the hazard times the coefficients are those of Cox's regression
    assert ranker.hazard_slope_ * ranker.coef_ == pytest.approx(SLOPES, abs=0.2)


def test_forms_of_y_units_and_sparse_rows_do_not_matter():
    X, y = simulated(200)
    given = SurvivalRanker(solver=Exact(ridge=0.01))
    expected = clone(given).fit(X, y).coef_
    assert clone(given).fit(X, structured(y)).coef_ == pytest.approx(expected, rel=1e-12)
    units = np.array([1e-3, 1.0, 1e4])
    found = clone(given).fit(X * units + 5.0, y)
    assert found.coef_ * units == pytest.approx(expected, rel=1e-5)
    later = clone(given).fit(X, np.column_stack((y[:, 0], np.log(y[:, 1])))).coef_
    assert later == pytest.approx(expected, rel=1e-12)
    bare = clone(given).set_params(scaling=None)
    dense, sparse = bare.fit(X, y).coef_, clone(bare).fit(scipy.sparse.csr_array(X), y).coef_
    assert sparse == pytest.approx(dense, abs=1e-4)


def test_weights_repeat_examples():
    X, y = simulated(120)
    # times of copies are ties of two events, which are not compared
    times = np.random.default_rng(1).integers(1, 4, 120)
    given = SurvivalRanker(solver=Exact(ridge=0.01), scaling=None)
    for ipcw in (False, True):
        ranker = clone(given).set_params(ipcw=ipcw, tau=1.0)
        weighted = clone(ranker).fit(X, y, sample_weight=times)
        repeated = clone(ranker).fit(np.repeat(X, times, axis=0), np.repeat(y, times, axis=0))
        assert weighted.coef_ == pytest.approx(repeated.coef_, abs=1e-6)
        assert weighted.hazard_slope_ == pytest.approx(repeated.hazard_slope_, rel=0.02)
    some = np.arange(120) % 3 > 0
    absent = clone(given).fit(X, y, sample_weight=some.astype(float))
    assert absent.coef_ == pytest.approx(clone(given).fit(X[some], y[some]).coef_, rel=1e-9)


def test_inverse_weights_and_tau_have_an_effect():
    X, y = simulated(300)
    fits = {
        (ipcw, tau): SurvivalRanker(solver=Exact(ridge=0.01), ipcw=ipcw, tau=tau).fit(X, y)
        for ipcw, tau in [(False, None), (True, 1.0), (False, 1.0)]
    }
    coefs = [fit.coef_ for fit in fits.values()]
    assert all(np.abs(a - b).max() > 1e-4 for a, b in pairwise(coefs))
    fitted = fits[True, 1.0]
    metric = ConcordanceIndex(ipcw=True, tau=1.0)
    assert fitted.score(X, y) == metric(y, fitted.predict(X))
    assert fitted.n_events_ == int(((y[:, 0] == 1.0) & (y[:, 1] < 1.0)).sum())


def test_few_censored_examples_do_not_stop_the_choice():
    X, y = simulated(60)
    for n_censored in (0, 1):
        y[:, 0] = np.arange(60) >= n_censored
        ranker = SurvivalRanker(random_state=0).fit(X, y)
        assert ranker.choice_.evidence.n_folds == 5


def test_curves_find_a_risk_that_is_not_linear():
    X, y = simulated(1_200, shape=lambda X: 2.0 * X[:, 0] ** 2)
    line = SurvivalRanker(random_state=0).fit(X[:800], y[:800])
    curve = SurvivalRanker(features="hats", random_state=0).fit(X[:800], y[:800])
    assert curve.score(X[800:], y[800:]) > line.score(X[800:], y[800:]) + 0.1
    fitted = Hats().fit(X)
    assert SurvivalRanker(features=fitted, random_state=0).fit(X, y).features_ is fitted


def test_the_hazard_is_that_of_cox_and_breslow():
    X, y = simulated(150)
    y[:, 1] = np.round(y[:, 1], 1)
    scores, event, time = X @ SLOPES, y[:, 0] == 1.0, y[:, 1]
    weight = np.random.default_rng(2).uniform(0.5, 2.0, 150)
    found = fit_hazard(scores, event, time, weight)
    spread = np.sqrt(np.cov(scores, aweights=weight, ddof=0))

    def loss(slope):
        value = 0.5 * (slope[0] * spread / 5.0) ** 2
        for i in np.flatnonzero(event):
            there = time >= time[i]
            risk = weight[there] @ np.exp(slope[0] * scores[there])
            value -= weight[i] * (slope[0] * scores[i] - np.log(risk))
        return value

    assert found.slope == pytest.approx(minimize(loss, [1.0]).x[0], rel=1e-4)
    risks = weight * np.exp(found.slope * (scores - found.centre))
    jumps = [weight[event & (time == t)].sum() / risks[time >= t].sum() for t in found.times]
    assert found.cumulative == pytest.approx(np.cumsum(jumps), rel=1e-10)


def test_chances_are_those_of_the_model():
    X, y = simulated(3_000)
    ranker = SurvivalRanker(solver=Exact(ridge=0.001)).fit(X, y)
    chances = ranker.predict_survival_function(X, times=[0.0, 0.5, 1.0])
    truth = np.exp(-np.outer(np.exp(X @ SLOPES), [0.0, 0.5, 1.0]))
    assert np.abs(chances - truth).mean() < 0.03
    whole = ranker.predict_survival_function(X[:5])
    assert whole.shape == (5, len(ranker.event_times_))
    assert (np.diff(whole, axis=1) <= 0.0).all()
    with pytest.raises(ValueError, match="nothing is known"):
        ranker.predict_survival_function(X, times=[ranker.last_time_ + 1.0])


def test_a_score_that_separates_everything_has_a_finite_hazard():
    time = np.arange(1.0, 41.0)
    ranker = SurvivalRanker(solver=Exact(ridge=1e-3)).fit(
        -time[:, None], np.column_stack((np.ones(40), time))
    )
    assert ranker.score(-time[:, None], np.column_stack((np.ones(40), time))) == 1.0
    assert np.isfinite(ranker.predict_survival_function(-time[:, None])).all()


@pytest.mark.parametrize("features", ["linear", "hats"])
def test_a_model_survives_its_file_and_its_pickle(tmp_path, features):
    X, y = simulated(200)
    ranker = SurvivalRanker(features=features, tau=2.0, random_state=0).fit(X, y)
    ranker.save(tmp_path / "model.safetensors")
    for other in (
        load_model(tmp_path / "model.safetensors"),
        SurvivalRanker.load(tmp_path / "model.safetensors"),
        pickle.loads(pickle.dumps(ranker)),
    ):
        assert np.array_equal(other.predict(X), ranker.predict(X))
        chances = (model.predict_survival_function(X[:4]) for model in (other, ranker))
        assert np.array_equal(*chances)
        assert (other.tau, other.ridge_, other.choice_) == (2.0, ranker.ridge_, ranker.choice_)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"loss": "hinge"}, "SquaredHinge"),
        ({"loss": "nothing"}, "loss"),
        ({"solver": Moments()}, "no way to train"),
        ({"features": "auto"}, "features"),
        ({"ipcw": "yes"}, "ipcw"),
        ({"tau": -1.0}, "before tau=-1"),
        ({"validation_fraction": 2.0}, "validation_fraction"),
        ({"scaling": "none"}, "scaling"),
    ],
)
def test_wrong_settings_are_refused(settings, message):
    X, y = simulated(30)
    with pytest.raises(ValueError, match=message):
        SurvivalRanker(**settings).fit(X, y)


def test_wrong_examples_are_refused():
    X, y = simulated(30)
    with pytest.raises(ValueError, match="29 times for 30 rows"):
        SurvivalRanker().fit(X, y[:-1])
    with pytest.raises(ValueError, match="left truncation"):
        SurvivalRanker().fit(X, np.column_stack((y, y[:, 1])))
    with pytest.raises(ValueError, match="no pair can be compared"):
        SurvivalRanker().fit(X, np.column_stack((np.zeros(30), y[:, 1])))
    with pytest.raises(ValueError, match="NaN"):
        SurvivalRanker().fit(np.where(X > 1.0, np.nan, X), y)
    one = np.column_stack((np.arange(30) == 3, np.arange(30.0)))
    with pytest.raises(ValueError, match=r"too few events \(1\).*Exact\(ridge=0\.1\)"):
        SurvivalRanker().fit(X, one)
    assert SurvivalRanker(SquaredHinge(margin=2.0), solver=Exact(ridge=0.1)).fit(X, one).coef_.any()


@pytest.mark.parametrize("far", [0.0, 30.0, 1e3, 1e5, -1e3])
@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_the_slope_of_the_hazard_is_the_top_of_its_likelihood(far):
    """Beside one far score the sums were 0 and the slope NaN, or the search went to and fro."""
    rng = np.random.default_rng(0)
    n = 300
    scores, weight = 0.1 * rng.normal(size=n), rng.integers(1, 4, size=n).astype(float)
    time = rng.exponential(size=n) * np.exp(-30.0 * scores)
    event = rng.random(n) < 0.8
    if far:
        scores[0], time[0], event[0] = far, 1e-9, True
    found = fit_hazard(scores, event, time, weight)
    centre = np.average(scores, weights=weight)
    spread = np.sqrt(np.average((scores - centre) ** 2, weights=weight))
    z = (scores - centre) / spread

    def cost(slope):
        total = slope**2 / 50.0
        for i in np.flatnonzero(event):
            there = time >= time[i]
            total -= weight[i] * (slope * z[i] - logsumexp(slope * z[there], b=weight[there]))
        return total

    slope = found.slope * spread
    step = 1e-4 * max(abs(slope), 1.0)
    assert cost(slope) <= min(cost(slope - step), cost(slope + step))
    assert np.isfinite(found.cumulative).all()
