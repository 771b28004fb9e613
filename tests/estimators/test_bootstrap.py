# SPDX-License-Identifier: BSD-3-Clause
"""Intervals by resampling hold the truth as often as they say."""

import math
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np
import pytest
import scipy.sparse

from pairlearn import SGD, AUCClassifier, Exact, MetricLearner, Push, bootstrap, roc_auc

BARE = {"loss": "logistic", "scaling": None}


def two_gaussians(rng, n, gap):
    """Return examples of two classes with one covariance, half of them positive."""
    y = np.where(np.arange(n) % 2 == 0, 1, 0)
    return rng.normal(size=(n, len(gap))) + np.outer(y, gap), y


def test_replicates_of_descent(rng):
    X, y = two_gaussians(rng, 200, [1.0, 0.0])
    model = AUCClassifier(
        solver=SGD(step_size=0.05, n_passes=5, radius=np.inf), random_state=0, **BARE
    )
    found = bootstrap(model, X, y, n=60, confidence=0.9, random_state=0)
    assert found.coefs.shape == (60, 2)
    assert np.array_equal(found.coef, found.estimator.coef_[0])
    assert not hasattr(model, "coef_")
    half = NormalDist().inv_cdf(0.95) * found.coefs.std(axis=0, ddof=1)
    assert found.low == pytest.approx(found.coef - half)
    assert found.high == pytest.approx(found.coef + half)
    assert found.low[0] > 0.0
    assert found.low[1] < 0.0 < found.high[1]
    assert found.auc.auc == roc_auc(y, found.scores)
    assert found.auc.low < NormalDist().cdf(1.0 / math.sqrt(2.0)) < found.auc.high
    again = bootstrap(model, X, y, n=60, confidence=0.9, random_state=0)
    assert np.array_equal(found.coefs, again.coefs)
    assert np.array_equal(found.scores, again.scores)


def test_out_of_bag_scores_come_from_models_that_did_not_see_the_example(rng):
    # Labels are noise: on examples that a model has seen its AUC is far above 1/2.
    X, y = rng.normal(size=(60, 20)), np.arange(60) % 2
    found = bootstrap(AUCClassifier(solver=Exact(ridge=1e-3)), X, y, n=80, random_state=0)
    assert roc_auc(y, X @ found.coef) > 0.75
    assert found.auc.auc < 0.65
    assert found.estimator.solver_ == "exact"


def test_units_do_not_matter(rng):
    X, y = two_gaussians(rng, 80, [1.0, 0.5])
    units = np.array([1000.0, 0.125])
    options = {"n": 40, "random_state": 1}
    plain = bootstrap(AUCClassifier(solver=Exact(ridge=0.1)), X, y, **options)
    other = bootstrap(AUCClassifier(solver=Exact(ridge=0.1)), X * units, y, **options)
    assert other.low * units == pytest.approx(plain.low, rel=1e-5)
    assert other.scores == pytest.approx(plain.scores, rel=1e-5)


def test_contrast_is_the_interval_of_a_difference(rng):
    X, y = two_gaussians(rng, 80, [1.0, 0.5])
    found = bootstrap(AUCClassifier(solver=Exact(ridge=0.1)), X, y, n=40, random_state=1)
    difference = found.contrast([1.0, -1.0])
    draws = found.coefs[:, 0] - found.coefs[:, 1]
    assert difference.value == pytest.approx(found.coef[0] - found.coef[1])
    assert difference.standard_error == pytest.approx(draws.std(ddof=1))
    ends = difference.value + 1.959964 * difference.standard_error * np.array([-1.0, 1.0])
    assert (difference.low, difference.high) == pytest.approx(ends)
    alone = found.contrast([0.0, 1.0])
    assert (alone.low, alone.high) == pytest.approx((found.low[1], found.high[1]))
    with pytest.raises(ValueError, match=r"weights must have shape \(2,\)"):
        found.contrast([1.0])


def test_two_estimators_are_compared_on_the_same_examples(rng):
    X, y = two_gaussians(rng, 120, [1.5, 0.0, 0.0])
    full = bootstrap(AUCClassifier(solver=Exact(ridge=0.1)), X, y, n=40, random_state=0)
    blind = bootstrap(AUCClassifier(solver=Exact(ridge=0.1)), X[:, 1:], y, n=40, random_state=0)
    found = full.compare(blind)
    assert found.low > 0.0
    assert found.difference == pytest.approx(full.auc.auc - blind.auc.auc)
    assert full.compare(full).difference == 0.0
    with pytest.raises(ValueError, match="not made from the same examples"):
        full.compare(
            bootstrap(AUCClassifier(solver=Exact(ridge=0.1)), X, 1 - y, n=40, random_state=0)
        )


def test_many_rows_are_scaled_as_the_fit_scales_them(rng):
    X, y = two_gaussians(rng, 51_000, [0.5, 0.0, 0.0, 0.0])
    model = AUCClassifier(solver=SGD(step_size=0.05, radius=1.0, n_passes=1), random_state=0)
    found = bootstrap(model, X * 100.0, y, n=40, random_state=0)
    assert found.coefs[:, 0] == pytest.approx(np.full(40, found.coef[0]), rel=0.25)


def test_what_cannot_be_resampled_is_refused(rng):
    X, y = two_gaussians(rng, 40, [1.0, 0.0])
    with pytest.raises(TypeError, match="takes an AUCClassifier, got MetricLearner"):
        bootstrap(MetricLearner(), X, y)
    with pytest.raises(ValueError, match="n must be at least 20, got 19"):
        bootstrap(AUCClassifier(), X, y, n=19)
    with pytest.raises(ValueError, match=r"pass X.toarray\(\)"):
        bootstrap(AUCClassifier(), scipy.sparse.csr_matrix(X), y)
    with pytest.raises(ValueError, match='use features="linear"'):
        bootstrap(AUCClassifier(features="hats", solver=Exact(ridge=0.1)), X, y)
    with pytest.raises(ValueError, match="1 and 39 examples; resampling needs at least 2"):
        bootstrap(AUCClassifier(solver=Exact(ridge=0.1)), X, np.arange(40) == 0, n=40)


@pytest.mark.slow
def test_coverage_on_gaussians(capsys):
    # Of N(0, I) and N(gap, I) the pair logistic risk has its minimum at w = gap: the density of
    # x - x' over that of x' - x is exp(<gap, x - x'>). The AUC of w is Phi(<w, gap> / sqrt(2) |w|).
    gap, repeats = np.array([1.0, 0.5, 0.0]), 200
    rng = np.random.default_rng(4)
    hits, auc_hits, differences = np.zeros(3), 0, 0
    for _ in range(repeats):
        X, y = two_gaussians(rng, 300, gap)
        model = AUCClassifier(
            solver=SGD(step_size=0.02, n_passes=60, radius=np.inf), random_state=0, **BARE
        )
        found = bootstrap(model, X, y, n=200, random_state=rng)
        hits += (found.low <= gap) & (gap <= found.high)
        contrast = found.contrast([1.0, -1.0, 0.0])
        differences += contrast.low <= 0.5 <= contrast.high
        w = found.coef
        auc = NormalDist().cdf(float(w @ gap) / (math.sqrt(2.0) * float(np.linalg.norm(w))))
        auc_hits += found.auc.low <= auc <= found.auc.high
    rates = [*(hits / repeats).tolist(), differences / repeats, auc_hits / repeats]
    with capsys.disabled():
        print("\ncoverage at 95 %: coefficients", rates[:3], "difference, AUC", rates[3:])
    # 200 trials of a rate of .95 fall below .90 less than once in 300.
    assert min(rates) >= 0.90


@pytest.mark.thorough
def test_replicates_are_descended_for_the_objective_of_the_model(rng):
    # All pairs are told apart best by the first feature; the highest negatives by the second.
    X, y = two_gaussians(rng, 600, [1.5, 0.7])
    X[(y == 0) & (rng.random(600) < 0.1), 0] += 5.0
    angles = {}
    for objective in ("auc", Push(16.0)):
        model = AUCClassifier(objective, solver=SGD(step_size=1.0, n_passes=30), random_state=0)
        found = bootstrap(model, X, y, n=20, random_state=0)
        own, mean = (np.arctan2(w[1], w[0]) for w in (found.coef, found.coefs.mean(axis=0)))
        assert mean == pytest.approx(own, abs=0.15)
        angles[str(objective)] = own
    assert angles["Push(power=16.0)"] > angles["auc"] + 0.5


@dataclass(frozen=True, repr=False)
class Halved(SGD):
    """A solver of one's own: half of what descent finds."""

    def fit(self, task, rows, y, weight):
        found = SGD(step_size=0.1, n_passes=2, radius=np.inf).fit(task, rows, y, weight)
        return replace(found, w=0.5 * found.w, solver=self.name)


def test_a_solver_of_one_s_own_is_not_replaced(rng):
    X, y = two_gaussians(rng, 60, [1.0, 0.0])
    with pytest.raises(ValueError, match=r"by solver sgd or exact; .* by Halved"):
        bootstrap(AUCClassifier(solver=Halved(), random_state=0), X, y, n=20)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.DataConversionWarning")
def test_labels_may_be_a_column(rng):
    X, y = two_gaussians(rng, 60, [1.0, 0.0])
    model = AUCClassifier(solver=Exact(ridge=0.1), random_state=0)
    plain, column = (bootstrap(model, X, v, n=20, random_state=0) for v in (y, y[:, None]))
    assert np.array_equal(plain.coefs, column.coefs)
    assert np.array_equal(plain.y, column.y)


@pytest.mark.parametrize("confidence", ["0.9", "most", None, [0.9]])
def test_a_confidence_is_a_number(rng, confidence):
    X, y = two_gaussians(rng, 60, [1.0, 0.0])
    with pytest.raises(TypeError, match="confidence must be a number"):
        bootstrap(AUCClassifier(solver=Exact(ridge=0.1)), X, y, n=20, confidence=confidence)
