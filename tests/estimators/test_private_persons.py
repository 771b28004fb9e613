# SPDX-License-Identifier: BSD-3-Clause
"""People with several rows: one promise for all rows of a person."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import config_context
from sklearn.base import clone
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from pairlearn import (
    PrivacyLedger,
    PrivateAUCClassifier,
    PrivateEntropyRegressor,
    PrivateMetricLearner,
)
from pairlearn.estimators.private.entries import entry_of
from pairlearn.losses import DistanceLogistic, Welsch
from pairlearn.privacy import NoisySGD
from pairlearn.privacy.accounting.gaussian import epsilon_of_mu, mu_of
from pairlearn.privacy.audit.exact import check_entry
from pairlearn.privacy.audit.tape import recorded, replayed
from pairlearn.privacy.mechanisms.base import PublicSetting
from pairlearn.privacy.mechanisms.centred import CentredStatistics
from pairlearn.privacy.noise import NoiseSource

pytestmark = pytest.mark.filterwarnings("ignore::pairlearn.PrivacyWarning")


def people(n_persons=400, seed=0):
    """Return rows of persons with 1 to 9 rows each, in no order."""
    rng = np.random.default_rng(seed)
    groups = rng.permutation(np.repeat(np.arange(n_persons), rng.integers(1, 10, n_persons)))
    y = rng.integers(0, 2, n_persons)[groups]
    return np.clip(rng.normal(size=(len(y), 3)) + y[:, None], -4, 5), y, groups


def test_one_row_each_is_the_usual_fit():
    X, y, _ = people(60)
    model = PrivateAUCClassifier(bounds=(-4, 5), random_state=3)
    usual = model.fit(X, y).coef_
    np.testing.assert_allclose(model.fit(X, y, groups=np.arange(len(y))).coef_, usual, rtol=1e-9)


@given(
    seed=st.integers(0, 2**32), relation=st.sampled_from(["replace", "add_remove"]),
)  # fmt: skip
@settings(max_examples=80)
def test_sensitivity_of_a_person_with_all_rows(seed, relation):
    rng = np.random.default_rng(seed)
    n_persons, d = int(rng.integers(1, 8)), 2
    persons = np.repeat(np.arange(n_persons), rng.integers(1, 6, n_persons))
    Z = np.where(rng.random((len(persons), d)) < 0.5, 3.0 * rng.choice([-1, 1], (len(persons), d)),
                 rng.uniform(-3, 3, (len(persons), d)))  # fmt: skip
    signs = rng.choice([-1.0, 1.0], len(persons))
    # The last person is exchanged for one with another number of rows, or goes.
    stay = persons < n_persons - 1
    k = 0 if relation == "add_remove" else int(rng.integers(1, 9))
    other = np.concatenate([Z[stay], np.tile(-Z[-1], (k, 1))])
    other_signs = np.concatenate([signs[stay], np.full(k, rng.choice([-1.0, 1.0]))])
    other_persons = np.concatenate([persons[stay], np.full(k, n_persons - 1)])
    setting = PublicSetting.make(
        n_persons, lower=[-3] * d, upper=[3] * d, epsilon=1.0, delta=1e-3, neighbours=relation
    )
    noise = NoiseSource(seed=seed)
    with recorded() as record:
        fit = CentredStatistics().fit(Z, signs, setting=setting, noise=noise, persons=persons)
    with replayed(record.outputs) as replay:
        CentredStatistics().fit(
            other, other_signs, setting=setting, noise=noise, persons=other_persons
        )
    for mine, theirs, scale, release in zip(
        record.values, replay.values, record.scales, fit.releases, strict=True
    ):
        assert np.linalg.norm(mine - theirs) / scale <= release.mu * (1 + 1e-9)


def test_learns_and_says_who_is_protected():
    X, y, groups = people()
    names = [f"person {k}" for k in groups]
    model = PrivateAUCClassifier(2.0, bounds=(-4, 5)).fit(X, y, groups=names)
    assert roc_auc_score(y, model.decision_function(X)) > 0.8
    certificate = model.certificate_
    assert (certificate.n_examples, certificate.unit) == (400, "person")
    assert certificate.delta == pytest.approx(400**-1.5)
    statement = certificate.statement()
    assert "one person with all examples replaced by another (the number of persons is public)" in (
        statement
    )
    assert "400 persons" in statement
    assert model.to_record().provenance == {"persons_seen": 400}
    # How many rows there are is nobody's business.
    fewer = PrivateAUCClassifier(2.0, bounds=(-4, 5)).fit(
        *(a[1:] for a in (X, y)), groups=names[1:]
    )
    if len(set(names[1:])) == 400:
        assert fewer.certificate_ == certificate


def test_refusals():
    X, y, groups = people(30)
    model = PrivateAUCClassifier(bounds=(-4, 5), neighbours="add_remove", n_examples=20)
    with pytest.raises(ValueError, match="more rows than n_examples=20"):
        model.fit(X, y, groups=groups)
    assert model.set_params(n_examples=30).fit(X, y, groups=groups).certificate_.n_examples == 30
    with pytest.raises(ValueError, match="takes no groups"):
        PrivateAUCClassifier(bounds=(-4, 5), mechanism="all_pairs").fit(X, y, groups=groups)
    with pytest.raises(ValueError, match="groups must hold one value"):
        PrivateAUCClassifier(bounds=(-4, 5)).fit(X, y, groups=groups[1:])


ROWS_OF_PERSONS = [
    PrivateMetricLearner(1.0, 1e-3, bounds=(-1.0, 1.0)),
    PrivateEntropyRegressor(1.0, 1e-3, bounds=(-1.0, 1.0), target_bounds=(-2.0, 2.0)),
]


@pytest.mark.parametrize("neighbours", ["replace", "add_remove"])
@pytest.mark.parametrize("model", ROWS_OF_PERSONS, ids=lambda one: type(one).__name__)
def test_a_person_changes_no_more_than_a_row(model, neighbours):
    model = clone(model).set_params(neighbours=neighbours, n_examples=12)
    size = {"n": 12, "n_features": 2}
    found = check_entry(entry_of(model, **size, persons=True))
    assert found.findings == []
    # How nearly the bound is met depends on the noise of earlier steps, and on who meets whom.
    assert found.share > 0.5


@pytest.mark.parametrize("model", ROWS_OF_PERSONS, ids=lambda one: type(one).__name__)
def test_rows_of_a_person_that_are_alike_are_one_row(model):
    # With this budget the noise is below .005.
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-1.0, 1.0, (30, 2)), rng.integers(0, 2, 30)
    person = np.repeat(np.arange(30), rng.integers(1, 6, 30))
    model = clone(model).set_params(epsilon=1e7, delta=0.5)
    # All persons meet in one cell.
    loss = DistanceLogistic() if isinstance(model, PrivateMetricLearner) else Welsch(0.1)
    model.set_params(mechanism=NoisySGD(loss=loss, n_partners=40))
    ledger = PrivacyLedger(epsilon=1e8, delta=0.9, unit="person")
    alone = clone(model).fit(X, y)
    model.set_params(ledger=ledger).fit(X[person], y[person], groups=[f"p{k}" for k in person])
    assert persons_of(model) == ("person", 30)
    assert model.certificate_.delta == alone.certificate_.delta
    for name in ("components_", "coef_", "intercept_"):
        if hasattr(model, name):
            assert getattr(model, name) == pytest.approx(getattr(alone, name), abs=5e-3)


def test_a_person_has_one_voice_in_the_intercept():
    # One person has 300 rows whose targets are at the top; the others have one row each at 0.
    X = np.zeros((600, 1))
    y, person = np.repeat([2.0, 0.0], 300), np.r_[np.zeros(300, int), np.arange(1, 301)]
    model = PrivateEntropyRegressor(1e6, 1e-3, bounds=(-1.0, 1.0), target_bounds=(-2.0, 2.0))
    assert abs(model.fit(X, y, groups=person).intercept_) < 0.02
    assert abs(model.fit(X, y).intercept_) > 0.1


@pytest.fixture
def routing():
    with config_context(enable_metadata_routing=True):
        yield


def persons_of(model):
    """Return the unit and the number of units of a fitted model."""
    return model.certificate_.unit, model.certificate_.n_examples


@pytest.mark.usefixtures("routing")
def test_routing_carries_groups_to_fit():
    X, y, groups = people(60)
    ledger = PrivacyLedger(epsilon=50.0, delta=1e-2, unit="person")
    model = PrivateAUCClassifier(2.0, 1e-4, bounds=(-4, 5), ledger=ledger)
    model.set_fit_request(groups=True)
    common = {"cv": GroupKFold(3), "params": {"groups": groups}}
    done = cross_validate(model, X, y, scoring="roc_auc", return_estimator=True, **common)
    assert [persons_of(one) for one in done["estimator"]] == [("person", 40)] * 3
    pipeline = make_pipeline(FunctionTransformer(), model)
    done = cross_validate(pipeline, X, y, scoring="roc_auc", return_estimator=True, **common)
    assert [persons_of(one[-1]) for one in done["estimator"]] == [("person", 40)] * 3
    search = GridSearchCV(model, {"epsilon": [1.0, 2.0]}, cv=GroupKFold(2), scoring="roc_auc")
    search.fit(X, y, groups=groups)
    assert persons_of(search.best_estimator_) == ("person", 60)
    assert {entry.unit for entry in ledger.entries} == {"person"}
    assert len(ledger.entries) == 3 + 3 + 5


def test_cross_validation_without_routing_reaches_no_fit_and_a_ledger_notices():
    X, y, groups = people(60)
    model = PrivateAUCClassifier(2.0, 1e-4, bounds=(-4, 5))
    done = cross_validate(
        model, X, y, groups=groups, cv=GroupKFold(3), return_estimator=True, scoring="roc_auc"
    )
    # scikit-learn kept the groups to itself.
    assert {one.certificate_.unit for one in done["estimator"]} == {"example"}
    ledger = PrivacyLedger(epsilon=50.0, delta=1e-2, unit="person")
    model.set_params(ledger=ledger)
    with pytest.raises(ValueError, match="the ledger counts persons"):
        cross_validate(model, X, y, groups=groups, cv=GroupKFold(3), scoring="roc_auc")
    assert ledger.entries == ()
    with pytest.raises(ValueError, match=r'PrivacyLedger\(.*unit="person"\)'):
        model.set_params(ledger=PrivacyLedger(epsilon=9.0, delta=1e-2)).fit(X, y, groups=groups)
    # Whoever knows a bound on the rows of a person may pay for rows.
    known = PrivacyLedger(epsilon=50.0, delta=1e-2, unit="person", rows_per_person=9)
    model.set_params(ledger=known, epsilon=0.5).fit(X, y)
    assert known.spent_epsilon == pytest.approx(epsilon_of_mu(9 * mu_of(0.5, 1e-4), 1e-2))
