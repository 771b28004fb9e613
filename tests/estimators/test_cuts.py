# SPDX-License-Identifier: BSD-3-Clause
"""Slope and cuts of the proportional odds model."""

import numpy as np
import pytest
from scipy.optimize import minimize

from pairlearn.estimators.classes.ordinal import fit_cuts


def probabilities(slope, cuts, scores):
    with np.errstate(over="ignore"):
        above = 1.0 / (1.0 + np.exp(cuts - slope * scores[:, None]))
    ends = np.ones((len(scores), 1)), np.zeros((len(scores), 1))
    return -np.diff(np.hstack((ends[0], above, ends[1])), axis=1)


def objective(parameters, s, codes, weight):
    """Return minus the log likelihood and its gradient, by log(slope), first cut and log(gaps)."""
    slope, gaps = np.exp(parameters[0]), np.exp(parameters[2:])
    cuts = parameters[1] + np.concatenate(([0.0], np.cumsum(gaps)))
    p = probabilities(slope, cuts, s)
    rows = np.arange(len(s))
    bounds = np.hstack((np.ones((len(s), 1)), 1.0 - np.cumsum(p, axis=1)))
    upper, lower = bounds[rows, codes], bounds[rows, codes + 1]
    upper, lower = upper * (1.0 - upper), lower * (1.0 - lower)
    share = weight / weight.sum()
    own = np.maximum(p[rows, codes], 1e-300)
    by_cuts = np.zeros(len(cuts) + 2)
    np.add.at(by_cuts, codes, share * upper / own)
    np.subtract.at(by_cuts, codes + 1, share * lower / own)
    by_cuts = by_cuts[1:-1]
    tails = np.cumsum(by_cuts[::-1])[::-1]
    by_slope = -slope * (share * (upper - lower) / own) @ s + parameters[0] / len(s)
    value = -share @ np.log(own) + 0.5 * parameters[0] ** 2 / len(s)
    return value, np.concatenate(([by_slope, tails[0]], gaps * tails[1:]))


def packed(slope, cuts, scores):
    """Return the parameters of `objective`, and the scores in unit spread."""
    spread = scores.std() or 1.0
    cuts = cuts - slope * scores.mean()
    found = np.concatenate(([np.log(slope * spread), cuts[0]], np.log(np.diff(cuts))))
    return found, (scores - scores.mean()) / spread


def data(kind, k, rng):
    n = 60 * k
    codes = np.arange(n) * k // n
    weight = rng.uniform(0.5, 2.0, n)
    scores = codes + rng.logistic(size=n)
    if kind == "noise":
        scores = rng.normal(size=n)
    elif kind == "wrong way":
        scores = -scores
    elif kind == "separable":
        scores = codes + rng.uniform(-0.3, 0.3, n)
    elif kind == "touching":
        scores = np.sort(rng.normal(size=n))
    elif kind == "constant":
        scores = np.full(n, 7.0)
    elif kind == "outlier":
        scores[0] = 1e6
    elif kind == "light":
        weight[codes == k // 2] = 1e-5
    return 3.0 + 5.0 * scores, codes, weight


KINDS = ("plain", "noise", "wrong way", "separable", "touching", "constant", "outlier", "light")


@pytest.mark.parametrize("k", [2, 3, 8])
@pytest.mark.parametrize("kind", KINDS)
def test_same_optimum_as_a_search_by_gradients(kind, k, rng):
    scores, codes, weight = data(kind, k, rng)
    slope, cuts = fit_cuts(scores, codes, weight)
    assert (np.diff(cuts) > 0.0).all()
    found, s = packed(slope, cuts, scores)
    start = np.zeros(k)
    best = minimize(objective, start, (s, codes, weight), jac=True, method="L-BFGS-B",
                    bounds=[(-14.0, 14.0), (None, None), *[(-20.0, 20.0)] * (k - 2)],
                    options={"maxiter": 20_000, "maxfun": 40_000, "maxcor": 40, "ftol": 1e-16,
                             "gtol": 1e-11})  # fmt: skip
    gaps = np.exp(best.x[2:])
    other = best.x[1] + np.concatenate(([0.0], np.cumsum(gaps)))
    expected = probabilities(np.exp(best.x[0]), other, s)
    np.testing.assert_allclose(probabilities(slope, cuts, scores), expected, atol=1e-6)
    assert objective(found, s, codes, weight)[0] < best.fun + 1e-12


@pytest.mark.parametrize("empty", [[0], [2], [5], [2, 3, 4], [1, 2, 4]])
def test_a_grade_without_weight_hardly_has_a_probability(empty, rng):
    codes = np.arange(300) % 6
    scores = codes + rng.normal(size=300)
    weight = np.where(np.isin(codes, empty), 0.0, 1.0)
    slope, cuts = fit_cuts(scores, codes, weight)
    assert np.isfinite(cuts).all()
    assert (np.diff(cuts) > 0.0).all()
    p = probabilities(slope, cuts, scores)
    assert p[:, empty].max() < 1e-6
    # The others have the probabilities of a fit without such a grade; its rows have no weight.
    full = np.flatnonzero(~np.isin(np.arange(6), empty))
    merged = np.searchsorted(full, codes).clip(max=len(full) - 1)
    expected = probabilities(*fit_cuts(scores, merged, weight), scores)
    np.testing.assert_allclose(p[:, full], expected, atol=1e-6)


@pytest.mark.parametrize("unit", [1e-310, 1e-200, 1e200, 1e306])
def test_units_of_scores_and_weights_do_not_matter(unit, rng):
    scores, codes, weight = data("plain", 4, rng)
    expected = probabilities(*fit_cuts(scores, codes, weight), scores)
    slope, cuts = fit_cuts(scores * unit, codes, weight * max(unit, 1e-200))
    assert 0.0 < slope < np.inf
    if unit > 1e-300:
        found = probabilities(slope, cuts, scores * unit)
        np.testing.assert_allclose(found, expected, atol=1e-6)


def test_scores_of_any_scale_and_light_weights_stay_finite(rng):
    for k in (2, 3, 20, 60):
        codes = np.concatenate((np.arange(k), rng.integers(0, k, 3 * k)))
        for scores in (rng.standard_cauchy(4 * k) ** 3, (codes - 0.5 * k) ** 5, codes * 1e-9 + 1e8):
            for weight in (np.ones(4 * k), 10.0 ** rng.uniform(-20.0, 0.0, 4 * k)):
                slope, cuts = fit_cuts(np.asarray(scores, float), codes, weight)
                assert 0.0 < slope < np.inf
                assert np.isfinite(cuts).all()
                assert (np.diff(cuts) >= 0.0).all()
