# SPDX-License-Identifier: BSD-3-Clause
"""Public bounds that are far too wide, narrowed by counts in bins."""

import math
import warnings

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

import pairlearn.privacy.bounds as bounds_module
from pairlearn import PrivacyLedger, PrivateAUCClassifier, PrivateBounds
from pairlearn.estimators.private.entries import FitEntry
from pairlearn.features import Hats
from pairlearn.models import load_model
from pairlearn.privacy.accounting.certificate import accounting_problems
from pairlearn.privacy.accounting.gaussian import mu_of
from pairlearn.privacy.audit.exact import check_entry
from pairlearn.privacy.bounds import bin_counts, bin_sensitivity, enough_in_a_bin, narrowed
from pairlearn.privacy.mechanisms.base import PublicSetting
from pairlearn.privacy.mechanisms.centred import CentredStatistics
from pairlearn.privacy.noise import NoiseSource

pytestmark = pytest.mark.filterwarnings("ignore::pairlearn.PrivacyWarning")

AS_GIVEN = CentredStatistics(narrow_bounds=False)


def long_tails(n=4000, d=3, seed=0):
    """Return features with long tails inside honest bounds, and labels."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    return np.exp(1.5 * (rng.normal(size=(n, d)) + 0.8 * y[:, None])), y


def test_how_many_a_bin_must_hold():
    # .7 of the examples, and half a standard deviation of the noise of a count more; that is
    # .145 times the fewest examples, or a twentieth of the examples if it is more
    assert enough_in_a_bin(1000, 100.0) == pytest.approx(700.0 + 0.5 * 50.0)
    assert enough_in_a_bin(1000, 500.0) == pytest.approx(700.0 + 0.5 * 72.5)


def test_bounds_stay_where_an_end_holds_examples():
    setting = PublicSetting.make(1000, lower=[0.0], upper=[16.0], epsilon=8.0, delta=1e-3)
    for at_the_end, stay in ((220, True), (0, False)):
        rows = np.r_[np.full(1000 - at_the_end, 5.5), np.full(at_the_end, 15.5)][:, None]
        found, _ = narrowed(setting, rows, NoiseSource(seed=0))
        assert ((found.lower[0], found.upper[0]) == (0.0, 16.0)) == stay


def some_rows(rng, n, d):
    rows = rng.choice([-9.0, 0.0, 0.4, 3.0, 15.0, 16.0, 1e300, -np.inf, np.inf], size=(n, d))
    rows[rng.random((n, d)) < 0.1] = np.nan
    return rows


@pytest.mark.parametrize("neighbours", ["replace", "add_remove"])
@pytest.mark.parametrize("with_persons", [False, True])
def test_sensitivity_of_the_counts(neighbours, with_persons):
    rng = np.random.default_rng(0)
    reached = 0.0
    for _ in range(400):
        d = int(rng.integers(1, 4))
        ends = np.zeros(d), np.full(d, 16.0)
        others = some_rows(rng, 5, d)
        mine = [some_rows(rng, int(rng.integers(1, 4)) if with_persons else 1, d) for _ in range(2)]
        if rng.random() < 0.2:
            mine = [np.full((1, d), 0.0), np.full((1, d), 16.0)]
        tables = []
        for rows in mine if neighbours == "replace" else [mine[0], mine[0][:0]]:
            persons = np.r_[np.arange(5), np.full(len(rows), 5)] if with_persons else None
            tables.append(bin_counts(np.vstack([others, rows]), *ends, persons))
        bound = bin_sensitivity(d, neighbours, persons=with_persons)
        distance = float(np.linalg.norm(tables[0] - tables[1]))
        assert distance <= bound * (1 + 1e-12)
        reached = max(reached, distance / bound)
    # The bound is attained up to rounding, so it is not wasteful.
    assert reached > 0.99


@pytest.mark.parametrize("n", [10**6, 10**8, 1 << 40])
def test_there_is_a_fine_grid_for_many_examples(n, monkeypatch):
    # 2^24 steps are the most that the noise can have, and rounding is a small part of it.
    middle = np.eye(16)[7] * n
    monkeypatch.setattr(
        bounds_module, "bin_counts", lambda rows, *_: np.tile(middle, rows.shape[1])
    )
    setting = PublicSetting.make(n, lower=[0] * 3, upper=[1] * 3, epsilon=0.5, delta=1e-13)
    after, releases = narrowed(setting, np.zeros((1, 3)), NoiseSource(seed=0))
    assert len(releases) == 3
    for k, release in zip((3, 3, 3), releases, strict=True):
        assert release.sensitivity < 1.05 * bin_sensitivity(k, "replace")
    assert (after.upper - after.lower < 0.01).all()


def test_counts_are_those_of_the_definition():
    rng = np.random.default_rng(1)
    rows, ends = some_rows(rng, 60, 2), (np.array([0.0, -16.0]), np.array([16.0, 16.0]))
    persons = rng.permutation(np.arange(60) % 7)
    expected, by_person = np.zeros(32), np.zeros(32)
    for row, person in zip(rows, persons, strict=True):
        for k, (low, step) in enumerate([(0.0, 1.0), (-16.0, 2.0)]):
            if not np.isnan(row[k]):
                place = 16 * k + int(min(max((row[k] - low) / step, 0), 15))
                expected[place] += 1
                by_person[place] += 1 / (persons == person).sum()
    np.testing.assert_array_equal(bin_counts(rows, *ends), expected)
    assert bin_counts(rows, *ends, persons) == pytest.approx(by_person, abs=1e-4)
    np.testing.assert_array_equal(bin_counts(rows, *ends, np.arange(60)), expected)


@pytest.mark.parametrize("groups", [None, np.arange(4000) // 2])
def test_a_fit_pays_for_the_counts_out_of_its_budget(tmp_path, groups):
    X, y = long_tails()
    unit = "example" if groups is None else "person"
    ledger = PrivacyLedger(epsilon=1.0, delta=1e-5, unit=unit)
    options = {"bounds": (0.0, 5000.0)}
    model = PrivateAUCClassifier(1.0, 1e-5, ledger=ledger, **options).fit(X, y, groups)
    certificate = model.certificate_
    assert accounting_problems(certificate) == []
    names = [release.name for release in certificate.releases]
    looks = [f"counts in bins, look {k}" for k in (1, 2, 3)]
    assert names[:4] == [*looks, "centred moments, round 1 of 5"]
    # The noise of a count is a twentieth of the persons, and no more is paid.
    n_units = 4000 if groups is None else 2000
    for release in certificate.releases[:3]:
        assert release.noise_scale == pytest.approx(0.05 * n_units, rel=1e-3)
    assert certificate.mu <= mu_of(1.0, 1e-5)
    assert certificate.mu == pytest.approx(mu_of(1.0, 1e-5), rel=1e-11)
    assert math.hypot(*(r.mu for r in certificate.releases)) == pytest.approx(certificate.mu)
    assert ledger.spent_epsilon == pytest.approx(1.0, abs=1e-6)
    spent = sum(r.mu**2 for r in certificate.releases[:3]) / certificate.mu**2
    assert 0.001 < spent < 0.15
    words = f"narrowed where counts in bins, released with {spent:.3g} of mu^2"
    assert words in certificate.statement()
    assert (model.bounds_[1] < 200.0).all()
    given = PrivateAUCClassifier(1.0, 1e-5, mechanism=AS_GIVEN, **options).fit(X, y, groups)
    assert given.bounds_.tolist() == [[0.0] * 3, [5000.0] * 3]
    assert len(given.certificate_.releases) == 5
    assert "narrowed" not in given.certificate_.statement()
    assert roc_auc_score(y, model.decision_function(X)) > 0.75
    model.save(tmp_path / "model.safetensors")
    again = load_model(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(again.bounds_, model.bounds_)
    np.testing.assert_array_equal(again.decision_function(X[:9]), model.decision_function(X[:9]))


def test_bounds_that_fit_stay_and_so_do_codes():
    rng = np.random.default_rng(2)
    X = np.column_stack([rng.uniform(-1, 1, 3000), rng.random(3000) < 0.02, rng.normal(size=3000)])
    y = rng.integers(0, 2, 3000)
    bounds = ([-1.0, 0.0, -50.0], [1.0, 1.0, 50.0])
    model = PrivateAUCClassifier(1.0, 1e-4, bounds=bounds, levels=[0, 2, 0]).fit(X, y)
    assert model.bounds_[:, :2].tolist() == [[-1.0, 0.0], [1.0, 1.0]]
    assert -26 < model.bounds_[0, 2] < -2.5
    assert 2.5 < model.bounds_[1, 2] < 26
    counts = model.certificate_.releases
    assert [r.dimension for r in counts[:2]] == [32, 16]
    # Fewer features cost less: two of three, then one.
    assert counts[0].mu ** 2 == pytest.approx(2 * counts[1].mu ** 2, rel=1e-3)
    assert counts[0].noise_scale == pytest.approx(counts[1].noise_scale, rel=1e-3)
    only_codes = PrivateAUCClassifier(1.0, 1e-4, bounds=bounds, levels=[2, 2, 2]).fit(X, y)
    assert len(only_codes.certificate_.releases) == 5


def test_codes_without_levels_keep_their_bounds():
    rng = np.random.default_rng(3)
    y = rng.integers(0, 2, 2000)
    # One value in four lies at the other end: narrower bounds would cut it off for nothing.
    codes = (rng.random((2000, 4)) < [0.25, 0.25, 0.75, 0.75]).astype(float)
    model = PrivateAUCClassifier(1.0, 1e-4, bounds=(0.0, 1.0), random_state=0).fit(codes, y)
    assert model.bounds_.tolist() == [[0.0] * 4, [1.0] * 4]
    names = [release.name for release in model.certificate_.releases]
    assert names[:2] == ["counts in bins, look 1", "centred moments, round 1 of 5"]


def test_the_belief_about_rare_classes_refers_to_the_public_middle():
    setting = PublicSetting.make(900, lower=[0.0] * 2, upper=[60.0] * 2, epsilon=2.0, delta=1e-3)
    rows = np.random.default_rng(4).normal([20.0, 2.0], 1.0, size=(900, 2))
    found, _ = narrowed(setting, rows, NoiseSource(seed=0))
    assert (found.upper < 30.0).all()
    assert found.lower[0] > 0.0
    assert found.lower[1] == 0.0
    centre = (np.array([20.0, 2.0]) - found.middle) / found.unit
    # The middle was 30 and a standard unit 10; bounds that keep an end have a middle of their own.
    assert found.from_public_centre(centre) == pytest.approx([-1.0, centre[1]])
    assert setting.from_public_centre(np.array([-1.0, 2.0])).tolist() == [-1.0, 2.0]


def test_no_look_where_the_noise_is_too_large_or_the_caller_decided():
    X, y = long_tails(60)
    small = PrivateAUCClassifier(0.2, 1e-3, bounds=(0.0, 5000.0)).fit(X, y)
    assert len(small.certificate_.releases) == 5
    X, y = long_tails(2000)
    # A map that was made for the given bounds needs them, and PrivateBounds has its own search.
    made = Hats.between([0.0] * 3, [5000.0] * 3)
    options = {"epsilon": 2.0, "delta": 1e-4}
    for changed in ({"features": made}, {"mechanism": "all_pairs"}):
        model = PrivateAUCClassifier(**options, bounds=(0.0, 5000.0), **changed).fit(
            X[:200], y[:200]
        )
        assert model.bounds_[1].tolist() == [5000.0] * 3
    found = PrivateAUCClassifier(**options, bounds=PrivateBounds(0.0, 5000.0)).fit(X, y)
    assert not any("counts" in release.name for release in found.certificate_.releases)
    # Named maps are made of the released bounds.
    hats = PrivateAUCClassifier(**options, bounds=(0.0, 5000.0), features="hats").fit(X, y)
    assert max(max(knots) for knots in hats.features_.knots) == hats.bounds_[1].max() < 500


@pytest.mark.parametrize("neighbours", ["replace", "add_remove"])
def test_neighbours_differ_by_no_more_than_is_paid_for(neighbours):
    # Epsilon is large, so that a few examples are enough for a look.
    model = PrivateAUCClassifier(20.0, 1e-3, bounds=(-8.0, 4.0), neighbours=neighbours)
    if neighbours == "add_remove":
        model.set_params(n_examples=32)
    still = model.fit(np.zeros((32, 2)), np.ones(32))
    assert [r.name[:6] for r in still.certificate_.releases[:2]] == ["counts", "counts"]
    assert check_entry(FitEntry(model, n=32, n_features=2)).findings == []


@pytest.mark.parametrize("rows", [np.full((50, 2), 9.0), np.full((50, 2), np.nan),
                                  np.full((50, 2), -np.inf), np.zeros((0, 2))])  # fmt: skip
@pytest.mark.parametrize("ends", [(-9.0, 9.0), (0.0, 1e-300), (1.0, 1.0 + 2e-16), (-1e150, 1e150),
                                  (-1.7e308, 1.7e308)])  # fmt: skip
def test_bounds_have_a_width_whatever_comes(rows, ends):
    for seed in range(5):
        setting = PublicSetting.make(
            50, lower=[ends[0]] * 2, upper=[ends[1]] * 2, epsilon=30.0, delta=1e-3
        )
        found, _ = narrowed(setting, rows, NoiseSource(seed=seed))
        assert (found.lower < found.upper).all()
        assert (found.lower >= ends[0]).all()
        assert (found.upper <= ends[1]).all()
        assert np.isfinite(found.unit).all()


def test_no_warning_tells_of_a_record_where_the_width_of_bounds_is_beyond_float64():
    ends = np.array([-1.7e308]), np.array([1.7e308])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for cell, place in ((-np.inf, 0), (-1e307, 7), (1e307, 8), (1e308, 12), (1.7e308, 15)):
            assert bin_counts(np.array([[cell]]), *ends).nonzero()[0].tolist() == [place]
