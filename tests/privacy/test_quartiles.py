# SPDX-License-Identifier: BSD-3-Clause
"""Bounds that are found with a part of the budget."""

import math

import numpy as np
import pytest

from pairlearn import (
    PrivacyLedger,
    PrivateAUCClassifier,
    PrivateAUCContinual,
    PrivateBounds,
    PrivateMetricLearner,
)
from pairlearn.estimators.private.entries import FitEntry
from pairlearn.models import load_model
from pairlearn.privacy.accounting.certificate import accounting_problems
from pairlearn.privacy.accounting.gaussian import mu_of
from pairlearn.privacy.audit.exact import check_entry
from pairlearn.privacy.bounds import find_bounds, quartile_counts, quartile_sensitivity
from pairlearn.privacy.mechanisms.base import PublicSetting
from pairlearn.privacy.noise import NoiseSource

pytestmark = pytest.mark.filterwarnings("ignore::pairlearn.PrivacyWarning")


def some_rows(rng, n, d):
    rows = rng.choice([-2.0, -1.0, 0.0, 1.0, 2.0, 1e300, -np.inf], size=(n, d))
    rows[rng.random((n, d)) < 0.1] = np.nan
    return rows


@pytest.mark.parametrize("neighbours", ["replace", "add_remove"])
@pytest.mark.parametrize("with_persons", [False, True])
def test_sensitivity_of_the_counts(neighbours, with_persons):
    rng = np.random.default_rng(0)
    reached = 0.0
    for _ in range(400):
        d = int(rng.integers(1, 4))
        first, third = rng.choice([-1.5, -0.5, 0.0, 0.5, 1.5], size=(2, d))
        others = some_rows(rng, 5, d)
        mine = [some_rows(rng, int(rng.integers(1, 4)) if with_persons else 1, d) for _ in range(2)]
        if rng.random() < 0.2:
            # Opposite corners: the worst pair under replacement.
            mine = [np.full((1, d), -2.0), np.full((1, d), 2.0)]
        tables = []
        for rows in mine if neighbours == "replace" else [mine[0], mine[0][:0]]:
            persons = np.r_[np.arange(5), np.full(len(rows), 5)] if with_persons else None
            tables.append(quartile_counts(np.vstack([others, rows]), first, third, persons))
        bound = quartile_sensitivity(d, neighbours, persons=with_persons)
        distance = float(np.linalg.norm(tables[0] - tables[1]))
        assert distance <= bound * (1 + 1e-12)
        reached = max(reached, distance / bound)
    # The bound is attained, so it is not wasteful.
    assert reached > 0.999


def test_counts_are_those_of_the_definition():
    rng = np.random.default_rng(1)
    rows = some_rows(rng, 40, 3)
    first, third = np.array([-1.0, 0.0, 1.0]), np.array([0.5, 0.5, -0.5])
    persons = rng.permutation(np.arange(40) % 7)
    expected = np.zeros(6)
    for person in range(7):
        mine = rows[persons == person]
        for j in range(6):
            t, q = (first[j], 0.25) if j < 3 else (third[j - 3], 0.75)
            cells = [0.0 if np.isnan(x) else 4 * (x <= t) - 4 * q for x in mine[:, j % 3]]
            expected[j] += np.mean(cells)
    assert quartile_counts(rows, first, third, persons) == pytest.approx(expected, abs=1e-5)
    each = quartile_counts(rows, first, third, np.arange(40))
    np.testing.assert_array_equal(quartile_counts(rows, first, third), each)


@pytest.mark.parametrize("search", [PrivateBounds(-1e4, 3e4), PrivateBounds()])
def test_bounds_of_normal_features_reach_three_deviations(search):
    rng = np.random.default_rng(2)
    rows = rng.normal([100.0, -3.0], [20.0, 200.0], size=(4000, 2))
    setting = PublicSetting.make(4000, lower=[0, 0], upper=[1, 1], epsilon=4.5, delta=1e-3)
    found, releases = find_bounds(rows, search, setting=setting, noise=NoiseSource(seed=0))
    lower, upper = found.lower, found.upper
    assert len(releases) == search.levels
    spent = math.hypot(*(r.mu for r in releases))
    assert spent == pytest.approx(mu_of(4.5, 1e-3) * math.sqrt(0.2), rel=1e-5)
    # A last step of the first search is 40 wide: the narrow feature is known to that.
    assert 0.5 * (lower + upper) == pytest.approx([100.0, -3.0], abs=45.0)
    widths = upper - lower
    assert 80 < widths[0] < 420
    assert 900 < widths[1] < 1700


def wide_data(n=3000):
    rng = np.random.default_rng(3)
    y = rng.integers(0, 2, n)
    return rng.normal(size=(n, 3)) + 1.5 * y[:, None] * [1, 0, 0], y


def test_the_estimator_finds_bounds_inside_its_budget(tmp_path):
    X, y = wide_data()
    wide = (-500.0, 700.0)
    ledger = PrivacyLedger(epsilon=1.0, delta=1e-5)
    model = PrivateAUCClassifier(1.0, 1e-5, bounds=PrivateBounds(*wide), ledger=ledger).fit(X, y)
    certificate = model.certificate_
    assert accounting_problems(certificate) == []
    assert [r.name for r in certificate.releases][:2] == [
        "quartiles, level 1 of 10", "quartiles, level 2 of 10"
    ]  # fmt: skip
    assert certificate.mu <= mu_of(1.0, 1e-5)
    assert certificate.mu == pytest.approx(mu_of(1.0, 1e-5), rel=1e-6)
    assert ledger.spent_epsilon == pytest.approx(1.0, abs=1e-6)
    assert "found by 10 levels of bisection" in certificate.statement()
    assert model.bounds_.shape == (2, 3)
    assert (np.diff(model.bounds_, axis=0) < 20).all()
    w = model.coef_[0]
    assert w[0] > 3 * abs(w[1:]).max()
    # Public bounds that are as wide leave nothing of the signal.
    path = tmp_path / "model.safetensors"
    model.save(path)
    again = load_model(path)
    np.testing.assert_array_equal(again.decision_function(X[:9]), model.decision_function(X[:9]))
    np.testing.assert_array_equal(again.bounds_, model.bounds_)


def test_private_by_name_users_and_metrics():
    X, y = wide_data(600)
    model = PrivateAUCClassifier(2.0, 1e-4, bounds="private").fit(X, y, groups=np.arange(600) // 2)
    assert model.certificate_.unit == "person"
    assert len(model.certificate_.releases) == 12 + 5
    metric = PrivateMetricLearner(2.0, 1e-4, bounds=PrivateBounds(-50, 50)).fit(X[:80], y[:80])
    assert accounting_problems(metric.certificate_) == []
    assert metric.transform(X[:2]).shape == (2, 3)


@pytest.mark.parametrize("neighbours", ["replace", "add_remove"])
def test_neighbours_differ_by_no_more_than_is_paid_for(neighbours):
    model = PrivateAUCClassifier(1.0, 1e-3, bounds=PrivateBounds(-8.0, 4.0), neighbours=neighbours)
    assert check_entry(FitEntry(model, n=24, n_features=2)).findings == []


def test_what_cannot_be_kept_is_refused():
    X, y = wide_data(60)
    search = PrivateBounds(-10, 10)
    ledger = PrivacyLedger(epsilon=1.0, delta=1e-3)
    with pytest.raises(ValueError, match="a stream sees each example once"):
        PrivateAUCContinual(60, 1, bounds=search).partial_fit(X, y)
    with pytest.raises(ValueError, match="a code needs exact bounds"):
        PrivateAUCClassifier(bounds="private", levels=[2, 0, 0], ledger=ledger).fit(X, y)
    with pytest.raises(ValueError, match="or a PrivateBounds, got 'public'"):
        PrivateAUCClassifier(bounds="public", ledger=ledger).fit(X, y)
    assert ledger.entries == ()
    for arguments, words in (
        ((0, 1, 0.2, 31), "at most 30"),
        ((1,), "or neither"), ((2, 1), "lower < upper"), ((-1e308, 1e308), "finite width"),
        (([1] * 3, [2]), "or 3 numbers"),
        (([1], [2]), "X has 3 features"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=words):
            PrivateAUCClassifier(bounds=PrivateBounds(*arguments)).fit(X, y)


def test_codes_keep_the_bounds_that_are_known():
    X, y = wide_data(400)
    X[:, 2] = X[:, 2] > 0
    search = PrivateBounds([-90, -90, 0], [90, 90, 1])
    model = PrivateAUCClassifier(4.0, 1e-3, bounds=search, levels=[0, 0, 2]).fit(X, y)
    assert model.bounds_[:, 2].tolist() == [0.0, 1.0]
    assert model.certificate_.releases[0].dimension == 4


@pytest.mark.parametrize("rows", [np.full((50, 2), 9.0), np.full((50, 2), np.nan),
                                  np.full((50, 2), -np.inf), np.zeros((0, 2))])  # fmt: skip
def test_bounds_have_a_width_whatever_comes(rows):
    for search in (PrivateBounds(-9, 9), PrivateBounds(), PrivateBounds(0, 1e-300, n_levels=30),
                   PrivateBounds(1.0, 1.0 + 4e-16), PrivateBounds(1e308, 1.7e308),
                   PrivateBounds(-8e307, 8e307)):  # fmt: skip
        for seed in range(5):
            setting = PublicSetting.make(50, lower=[0, 0], upper=[1, 1], epsilon=1.0, delta=1e-3)
            found, _ = find_bounds(rows, search, setting=setting, noise=NoiseSource(seed=seed))
            assert (found.lower < found.upper).all()
            assert np.isfinite(found.upper - found.lower).all()
