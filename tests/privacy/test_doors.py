# SPDX-License-Identifier: BSD-3-Clause
"""Ways around the noise that were once open, each tried as an attacker would."""

# Scalar functions of a loss take (score, y, y_partner, parameter) instead of self.

import copy
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score

from pairlearn import (
    PrivacyWarning,
    PrivateAUCClassifier,
    PrivateAUCContinual,
    PrivateMetricLearner,
)
from pairlearn.models.record import ModelFileError
from pairlearn.privacy.accounting.certificate import accounting_problems
from pairlearn.privacy.accounting.gaussian import epsilon_of_mu
from pairlearn.privacy.accounting.ledger import Budget, PrivacyLedger, Spend
from pairlearn.privacy.evaluation import select_privately
from pairlearn.privacy.mechanisms.base import PublicSetting
from pairlearn.privacy.mechanisms.by_name import MECHANISMS
from pairlearn.privacy.noise import NoiseSource

pytestmark = pytest.mark.filterwarnings("ignore::pairlearn.PrivacyWarning")


def gaussian(n=60, d=2, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    return np.clip(rng.normal(size=(n, d)) + y[:, None], -4, 5), y


def seeded(**options):
    return PrivateAUCClassifier(bounds=(-4, 5), random_state=1, **options)


# ------------------------------------------------------------------------- A: the type of a column

CONTAINERS = {
    "list": list,
    "texts": lambda cells: np.array([str(cell) for cell in cells]),
    "numpy": np.array,
    "objects": lambda cells: np.array(cells, dtype=object),
    "series": pd.Series,
}


@pytest.mark.parametrize("container", CONTAINERS.values(), ids=CONTAINERS)
def test_one_label_of_another_type_changes_nobody_elses(container, pair_utility):
    X, y = gaussian()
    labels = y.tolist()
    negative, strange = [*labels[:-1], 0], [*labels[:-1], "n/a"]
    ours = seeded().fit(X, container(negative))
    assert np.array_equal(seeded().fit(X, container(strange)).coef_, ours.coef_)
    stream = PrivateAUCContinual(60, 1, bounds=(-4, 5), random_state=1)
    first = stream.fit(X, container(negative)).coef_
    assert np.array_equal(stream.fit(X, container(strange)).coef_, first)
    metric = PrivateMetricLearner(bounds=(-4, 5), labels=(0, 1), random_state=1)
    unknown = metric.fit(X, container([*labels[:-1], 7])).components_
    assert np.array_equal(metric.fit(X, container(strange)).components_, unknown)
    assert np.array_equal(pair_utility(X, container(strange)), pair_utility(X, container(negative)))


def test_labels_of_every_kind_are_told_apart():
    X, y = gaussian()
    for public in (("no", "yes"), (False, True), (0, "1"), (-1.0, 1.0), ("a", 2)):
        labels = [public[k] for k in y]
        model = seeded(labels=public).fit(X, labels)
        assert np.array_equal(model.coef_, seeded().fit(X, y).coef_)
        assert model.classes_.tolist() == list(public)
    with pytest.raises(ValueError, match="different numbers or texts"):
        seeded(labels=(1, "1")).fit(X, y)


# ------------------------------------------------------------------ B: the setting of a stream


@pytest.mark.parametrize(
    ("name", "value"),
    [("n_examples", 200), ("epsilon", 2.0), ("delta", 1e-4), ("bounds", (-9, 9)),
     ("n_releases", 3), ("labels", (1, 0)), ("levels", [2, 2])],
)  # fmt: skip
def test_what_is_public_stays_when_a_stream_has_begun(name, value):
    X, y = gaussian()
    stream = PrivateAUCContinual(100, 1, bounds=(-4, 5)).partial_fit(X, y)
    before = stream.get_params()[name]
    stream.set_params(**{name: value})
    for attempt in (stream.release, lambda: stream.partial_fit(X, y)):
        with pytest.raises(ValueError, match="changed after the stream had begun"):
            attempt()
    stream.set_params(**{name: before}).release()
    assert stream.certificate_.n_examples == 100


# ------------------------------------------------------------------------- C: copies of a ledger


def test_copies_of_an_estimator_share_its_ledger():
    X, y = gaussian()
    ledger = PrivacyLedger(epsilon=100.0, delta=1e-3)
    model = PrivateAUCClassifier(0.5, 1e-6, bounds=(-4, 5), ledger=ledger)
    for copied in (clone(model), copy.copy(model), copy.deepcopy(model)):
        assert copied.ledger is ledger
        copied.fit(X, y)
    assert len(ledger.entries) == 3
    cross_val_score(model, X, y, cv=3, scoring="roc_auc")
    assert len(ledger.entries) == 6
    GridSearchCV(model, {"epsilon": [0.1, 0.2]}, cv=2, scoring="roc_auc").fit(X, y)
    assert len(ledger.entries) == 6 + 2 * 2 + 1


# ----------------------------------------------------------------------- D: the last bits of noise


def test_no_private_number_comes_from_a_generator_of_numpy(monkeypatch):
    def forbidden(*args, **options):
        raise AssertionError("a generator was made")

    for name in ("PCG64", "PCG64DXSM", "SeedSequence", "default_rng"):
        monkeypatch.setattr(np.random, name, forbidden)
    noise = NoiseSource()
    noise.permutation(5), noise.draw_indices(5, 3), noise.accept(1, 3)
    noise.protect_integers(np.zeros(4, dtype=np.int64), 100)


# --------------------------------------------------------------- E: slopes that change their sign


# -------------------------------------------------------------------------- F: rows that are sorted


# -------------------------------------------------------------------------- leaks and untrue words


def test_the_number_of_rows_is_not_read_where_it_is_protected():
    X, y = gaussian()
    options = {"bounds": (-4, 5), "neighbours": "add_remove"}
    for model in (PrivateAUCClassifier(**options), PrivateMetricLearner(**options)):
        with pytest.raises(ValueError, match="cannot be read from the data; give n_examples"):
            model.fit(X, y)
        model.set_params(n_examples=100)
        whole = clone(model).fit(X, y)
        fewer = clone(model).fit(X[:-1], y[:-1])
        assert whole.certificate_ == fewer.certificate_
        assert whole.certificate_.n_examples == 100
        for one in (whole, fewer):
            assert one.to_record().provenance == {"rows_at_most": 100}
        with pytest.raises(ValueError, match="more rows than n_examples=10") as caught:
            clone(model).set_params(n_examples=10).fit(X, y)
        assert "60" not in str(caught.value)
    with pytest.raises(ValueError, match="leave it out"):
        PrivateAUCClassifier(bounds=(-4, 5), n_examples=100).fit(X, y)
    none = PrivateAUCClassifier(**options, n_examples=5).fit(np.zeros((0, 2)), [])
    assert np.isfinite(none.coef_).all()


def test_relations_are_converted():
    half = 0.3
    ledger = PrivacyLedger(epsilon=10.0, delta=1e-5)
    ledger.spend("replaced", mu=half)
    ledger.spend("added", mu=half, neighbours="add_remove")
    assert ledger.spent_epsilon == pytest.approx(epsilon_of_mu(np.hypot(half, 2 * half), 1e-5))
    ledger.spend("mixture", epsilon=0.1, delta=1e-6, neighbours="add_remove")
    here = ledger.entries[2].under(Budget(10.0, 1e-5))
    assert here.epsilon == 0.2
    assert here.delta == pytest.approx((1 + np.exp(0.1)) * 1e-6)
    other = PrivacyLedger(epsilon=1.0, delta=1e-5, neighbours="add_remove")
    other.spend("added", mu=half / 2, neighbours="add_remove")
    assert other.spent_epsilon == pytest.approx(epsilon_of_mu(half / 2, 1e-5))
    with pytest.raises(ValueError, match="says nothing about adding"):
        other.spend("replaced", mu=half)
    X, y = gaussian()
    PrivateAUCClassifier(
        0.1, 1e-6, bounds=(-4, 5), neighbours="add_remove", n_examples=100, ledger=ledger
    ).fit(X, y)
    assert ledger.entries[-1].neighbours == "add_remove"


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1.0])
def test_a_ledger_refuses_what_is_no_price(value):
    ledger = PrivacyLedger(epsilon=1.0, delta=1e-5)
    for name in ("mu", "epsilon", "delta"):
        with pytest.raises(ValueError, match="a spend needs a finite mu"):
            ledger.spend("nothing", **({"mu": 0.1} | {name: value}))
    with pytest.raises(ValueError, match="finite"):
        Spend("nothing", value)
    assert not ledger.entries


def test_a_file_holds_the_numbers_of_its_certificate(tmp_path):
    X, y = gaussian()
    model = PrivateAUCClassifier(bounds=(-4, 5)).fit(X, y)
    model.save(tmp_path / "model")
    assert PrivateAUCClassifier.load(tmp_path / "model").certificate_.digest
    for name in ("coef_", "intercept_", "bounds_", "log_odds_"):
        broken = copy.deepcopy(model)
        setattr(broken, name, np.nextafter(getattr(model, name), 9.0))
        with pytest.raises(ModelFileError, match="not those that its certificate is about"):
            broken.save(tmp_path / "other")
    record = model.to_record()
    moved = replace(
        record, arrays={**record.arrays, "coef": np.nextafter(record.arrays["coef"], 9.0)}
    )
    with pytest.raises(ModelFileError, match="not those that its certificate is about"):
        PrivateAUCClassifier.from_record(moved)


def test_a_file_takes_nothing_that_was_measured(tmp_path):
    X, y = gaussian()
    model = seeded().fit(X, y)
    for measured in ({"training_auc": 0.93}, {"data_fingerprint": "ab"}, {"note": "0.93"}):
        with pytest.raises(ModelFileError, match="a release without noise"):
            model.save(tmp_path / "m", provenance=measured)
    model.save(tmp_path / "m", provenance={"purpose": "a test"})
    assert PrivateAUCClassifier.load(tmp_path / "m").provenance_["purpose"] == "a test"


@pytest.mark.parametrize("name", list(MECHANISMS))
def test_every_certificate_adds_up(name):
    X, y = gaussian(40)
    model = PrivateAUCClassifier(0.8, 1e-3, bounds=(-4, 5), mechanism=name)
    certificate = model.fit(X, y).certificate_
    assert accounting_problems(certificate) == []
    quieter = tuple(
        replace(release, noise_scale=release.noise_scale / 1.01) for release in certificate.releases
    )
    assert accounting_problems(replace(certificate, releases=quieter))
    assert accounting_problems(replace(certificate, private=False))
    assert "lists no release" in accounting_problems(replace(certificate, releases=()))[0]


def test_permute_and_flip_has_its_law(monkeypatch):
    # Two models with utilities 1/2 and 0 of n = 2: exponent epsilon / 2, so the worse one is
    # chosen if it comes first and its coin shows heads, with probability exp(-epsilon/2) / 2.
    noise = NoiseSource(seed=np.random.default_rng(0))
    monkeypatch.setattr("pairlearn.privacy.evaluation.paid_noise", lambda *_, **__: noise)
    scores, epsilon, n = [[2.0, 1.0], [1.0, 2.0]], 1.0, 1500
    worse = sum(select_privately(scores, [1, -1], epsilon=epsilon) for _ in range(n))
    expected = n * np.exp(-epsilon / 2) / 2
    # Four standard deviations: a false alarm in 16,000, and the seed is fixed.
    assert abs(worse - expected) < 4 * np.sqrt(expected)


def test_a_certificate_says_where_the_centre_is_from():
    X, y = np.random.default_rng(0).uniform(-1, 1, (40, 2)), np.arange(40) % 2
    model = PrivateAUCClassifier(1.0, 1e-3, bounds=(-1, 1)).fit(X, y)
    assert model.certificate_.public["centre"] == "middle of the bounds"
    model = PrivateAUCClassifier(1.0, 1e-3, bounds=(-1, 1), public_centre=[0.5, 0.5]).fit(X, y)
    assert model.certificate_.public["centre"] == "given by the caller"


def test_bounds_without_width_are_refused():
    for lower, upper in (([0.0, 1.0], [1.0, 1.0]), ([0.0, 2.0], [1.0, 1.0])):
        with pytest.raises(ValueError, match="lower < upper"):
            PublicSetting.make(9, lower=lower, upper=upper, epsilon=1.0, delta=1e-3)


def test_the_unit_of_a_code_is_the_deviation_of_a_uniform_choice():
    setting = PublicSetting.make(
        9, lower=[0.0] * 4, upper=[6.0] * 4, levels=[0, 2, 3, 7], epsilon=1.0, delta=1e-3
    )
    # a continuous feature spreads over six standard deviations
    deviations = [1.0, *(np.linspace(0.0, 6.0, k).std() for k in (2, 3, 7))]
    np.testing.assert_allclose(setting.unit, deviations)


# ------------------------------------------------------------------------- a fit that ends early


class EndedError(Exception):
    pass


@pytest.mark.parametrize("kind", ["warning", "mechanism", "map"])
def test_a_fit_that_fails_leaves_the_one_before_as_it_was(kind, monkeypatch, tmp_path):
    X, y = gaussian(200)
    model = PrivateAUCClassifier(0.5, 1e-3, bounds="private", mechanism="all_pairs").fit(X, y)
    before = dict(vars(model))
    model.set_params(epsilon=5000.0)
    with warnings.catch_warnings(), monkeypatch.context() as patch:
        if kind == "warning":
            model.set_params(delta=0.5)
            warnings.simplefilter("error")
        else:

            def broken(*given, **options):
                raise EndedError

            where = "mechanisms.all_pairs.AllPairsGradient.fit"
            if kind == "map":
                where = "mechanisms.base.Certificate"  # after everything was released
            patch.setattr(f"pairlearn.privacy.{where}", broken)
        with pytest.raises((EndedError, PrivacyWarning)):
            model.fit(X, y)
    model.set_params(epsilon=0.5, delta=1e-3)
    assert {name: value for name, value in vars(model).items() if name not in before} == {}
    for name in before:
        assert vars(model)[name] is before[name] or vars(model)[name] == before[name]
    model.save(tmp_path / "model")
    found = PrivateAUCClassifier.load(tmp_path / "model")
    assert np.array_equal(found.bounds_, before["bounds_"])


def test_rows_without_an_id_count_nowhere():
    X, y = gaussian(30)
    ids = [None, float("nan"), 0.5, *(f"person {k // 3}" for k in range(27))]
    known = {"bounds": (-4, 5), "random_state": 1}
    ours = PrivateAUCClassifier(**known).fit(X[3:], y[3:], groups=ids[3:])
    theirs = PrivateAUCClassifier(**known).fit(X, y, groups=ids)
    assert np.array_equal(ours.coef_, theirs.coef_)
    assert ours.certificate_ == theirs.certificate_
    assert ours.certificate_.n_examples == 9
