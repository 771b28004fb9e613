# SPDX-License-Identifier: BSD-3-Clause
"""Rows that an AUC classifier forgets: its coefficients are those of the other rows."""

import json
import pickle
import warnings

import numpy as np
import pytest
import scipy.sparse

from pairlearn import AUCClassifier, Hats, Moments, load_model
from pairlearn.cluster import fit_on, forget_on
from pairlearn.features import Identity, RandomFourier
from pairlearn.models import read_model
from pairlearn.solvers import Extents, ForgettingCertificate
from pairlearn.solvers.closed_form.mapped_moments import MappedMoments, extents_of
from pairlearn.solvers.closed_form.table import digest_of
from pairlearn.solvers.rows import as_rows

RNG = np.random.default_rng(3)
X = RNG.normal(size=(900, 3)) * [1.0, 10.0, 0.1] + [0.0, 50.0, 0.0]
LABELS = np.where(X[:, 0] + 0.05 * X[:, 1] + RNG.normal(size=900) > 2.5, "yes", "no")
SIGNS = np.where(LABELS == "yes", 1.0, -1.0)
KEEPS = Moments(ridge=0.01, keep_state=True)


def model_of(features="linear", solver=KEEPS, **parameters):
    return AUCClassifier(solver=solver, features=features, random_state=0, **parameters)


@pytest.mark.parametrize(
    "features", ["linear", Hats(n_knots=5).fit(X), RandomFourier(32).fit(X, rng=0)]
)
@pytest.mark.parametrize("make", [np.asarray, scipy.sparse.csr_array])
def test_the_coefficients_are_those_of_the_other_rows(features, make):
    model = model_of(features).fit(make(X), LABELS)
    order = np.random.default_rng(0).permutation(900)
    gone, left = order[:300], order[300:]
    for part in np.array_split(gone, 4):
        model.partial_unfit(make(X[part]), LABELS[part])
    known = Identity.of(3) if features == "linear" else features
    extents = extents_of(known, as_rows(X))
    never = MappedMoments.none(known, extents).plus(make(X[left]), SIGNS[left])
    assert model.coef_[0].tobytes() == never.problem().solve(0.01).tobytes()
    assert model.n_examples_ == 600
    assert model.data_fingerprint_ is None
    model.forgetting_certificate_.verify(after=never.table.state())


def test_more_rows_than_were_learned_are_not_taken_back():
    # Four rows of weight 1 have the sums of one of weight 4, and are not what was learned.
    weight = np.full(900, 4.0)
    weight[:9] = 5.0
    model = model_of(solver=Moments(0.01, ranges=(-1e3, 1e3), keep_state=True))
    model.fit(X, LABELS, weight)
    split = np.repeat(np.arange(9, 309), 4)
    with pytest.raises(ValueError, match="1200 of 900 rows cannot be taken back"):
        model.partial_unfit(X[split], LABELS[split], np.ones(1200))
    assert model.n_examples_ == 900


def test_a_model_without_the_rows_is_the_same_where_its_grid_is():
    # The rows that go are inside the ranges of the others, so that a new fit has the same grid.
    size = np.abs(X - X.mean(axis=0)) / X.std(axis=0)
    gone = np.flatnonzero((size < 0.5).all(axis=1))
    left = np.setdiff1d(np.arange(900), gone)
    kept, anew = Extents.of(as_rows(X)), Extents.of(as_rows(X[left]))
    assert np.array_equal(kept.low, anew.low)
    assert np.array_equal(kept.high, anew.high)
    forgot = model_of().fit(X, LABELS).partial_unfit(X[gone], LABELS[gone])
    assert len(gone) > 20
    assert forgot.coef_.tobytes() == model_of().fit(X[left], LABELS[left]).coef_.tobytes()


def test_weights_go_with_their_rows():
    weight = np.random.default_rng(1).integers(1, 4, 900) * 1.0
    model = model_of().fit(X, LABELS, sample_weight=weight)
    model.partial_unfit(X[:100], LABELS[:100], sample_weight=weight[:100])
    expected = MappedMoments.none(Identity.of(3), Extents.of(as_rows(X)))
    expected = expected.plus(X[100:], SIGNS[100:], weight[100:])
    # The weights of fit are divided by their mean, and rounded to 40 digits.
    np.testing.assert_allclose(model.coef_[0], expected.problem().solve(0.01), rtol=1e-9)


def test_an_outlier_leaves_no_trace():
    rows, labels = np.vstack([X, [[1e30, 50.0, 0.0]]]), np.append(LABELS, "yes")
    model = model_of().fit(rows, labels)
    assert abs(model.coef_[0, 0]) < 1e-20
    with pytest.warns(UserWarning, match="has the range"):
        model.partial_unfit(rows[-1:], labels[-1:])
    known = Identity.of(3)
    never = MappedMoments.none(known, extents_of(known, as_rows(rows))).plus(X, SIGNS)
    assert model.coef_[0].tobytes() == never.problem().solve(0.01).tobytes()
    np.testing.assert_array_equal(
        model.forgetting_certificate_.after, digest_of(never.table.state()), err_msg="another state"
    )


@pytest.mark.parametrize("decision", ["balanced_accuracy", "probability", 0.75])
def test_threshold_and_probabilities_are_carried_over(decision):
    model = model_of(decision=decision).fit(X, LABELS)
    before = model.predict(X), model.predict_proba(X)[:, 1]
    model.partial_unfit(X[:30], LABELS[:30])
    if decision == 0.75:
        assert model.threshold_ == 0.75
    else:
        assert (model.predict(X) == before[0]).mean() > 0.97
    # Not the same scores, and nearly the same probabilities.
    gap = np.abs(model.predict_proba(X)[:, 1] - before[1])
    assert 0.0 < gap.max() < 0.1


def test_the_certificate_is_json_and_is_verified():
    model = model_of().fit(X, LABELS)
    before = model._kept.moments.table.state()
    model.partial_unfit(X[:10], LABELS[:10])
    found = model.forgetting_certificate_
    assert json.loads(found.to_json())["n_rows"] == 10
    assert ForgettingCertificate.from_json(found.to_json()) == found
    assert "ridge" in found.kept
    rows = model._kept.moments.alike().plus(X[:10][::-1], SIGNS[:10][::-1])
    found.verify(before=before, rows=rows.table.state())
    with pytest.raises(ValueError, match="the state 'after' has the digest"):
        found.verify(after=before)
    with pytest.raises(ValueError, match="pass before="):
        found.verify()
    for text, why in (
        ("{", "no JSON"),
        ("{}", "has the entries"),
        (found.to_json().replace('"n_rows": 10', '"n_rows": -1'), "whole number from 0"),
        (found.to_json().replace(found.after, "ff"), "after must be a SHA-256 digest"),
    ):
        with pytest.raises(ValueError, match=why):
            ForgettingCertificate.from_json(text)


def test_a_pickled_model_can_forget_and_a_new_fit_starts_anew():
    model = pickle.loads(pickle.dumps(model_of().fit(X, LABELS)))
    model.partial_unfit(X[:5], LABELS[:5])
    model.fit(X, LABELS)
    assert not hasattr(model, "forgetting_certificate_")
    assert model.n_examples_ == 900


def test_what_was_not_learned_is_refused_and_changes_nothing():
    model = model_of().fit(X, LABELS)
    before = model.coef_.copy()
    for rows, labels, why in (
        (X + 1e6, LABELS, "not all among"),
        (X, LABELS, "no example of one of the classes"),
        (X[LABELS == "no"], LABELS[LABELS == "no"], "no example of one of the classes"),
        (X[:1], ["maybe"], "maybe"),
        (X[:1, :2], LABELS[:1], "2 features"),
    ):
        with pytest.raises(ValueError, match=why):
            model.partial_unfit(rows, labels)
    assert model.coef_.tobytes() == before.tobytes()
    assert model.n_examples_ == 900


def test_models_that_cannot_forget_say_what_can(tmp_path):
    plain = model_of(solver="moments").fit(X, LABELS)
    stream = AUCClassifier(solver="moments").partial_fit(X, LABELS, classes=["no", "yes"])
    descent = AUCClassifier(solver="sgd", random_state=0).fit(X, LABELS)
    many = AUCClassifier().fit(X, np.arange(900) % 3)
    kept = model_of().fit(X, LABELS)
    kept.save(tmp_path / "model.safetensors")
    loaded = AUCClassifier.load(tmp_path / "model.safetensors")
    for model, why in (
        (plain, "were not kept"),
        (stream, "half-lives"),
        (descent, "solver 'sgd' do not say"),
        (many, "more than two classes"),
        (loaded, "does not hold them"),
    ):
        with pytest.raises(ValueError, match=why) as error:
            model.partial_unfit(X[:1], [model.classes_[0]])
        assert "keep_state=True" in str(error.value)
    with pytest.raises(ValueError, match="keep_state=True is for fit"):
        model_of().partial_fit(X, LABELS, classes=["no", "yes"])
    with pytest.raises(ValueError, match="keep_state must be True or False, got 1"):
        Moments(keep_state=1)


def test_weights_of_zero_that_no_row_had_are_refused():
    model = model_of().fit(X, LABELS)
    before = model.coef_.copy()
    for weight in (np.zeros(9), np.r_[0.0, np.ones(8)]):
        with pytest.raises(ValueError, match="learned without sample_weight"):
            model.partial_unfit(X[:9], LABELS[:9], weight)
    np.testing.assert_array_equal(model.coef_, before)
    assert model.n_examples_ == len(X)
    twice = model_of().fit(X, LABELS, np.full(len(X), 2.0))
    with pytest.raises(ValueError, match="or with one weight for all"):
        twice.partial_unfit(X[:9], LABELS[:9], np.r_[0.0, np.full(8, 2.0)])


@pytest.mark.parametrize("class_weight", ["balanced", {"no": 1.0, "yes": 20.0}])
def test_weights_of_classes_are_not_in_what_is_forgotten(class_weight):
    weight = RNG.integers(1, 4, len(X)).astype(float)
    weighed = model_of(class_weight=class_weight).fit(X, LABELS, weight)
    plain = model_of().fit(X, LABELS, weight)
    for model in (weighed, plain):
        model.partial_unfit(X[:40], LABELS[:40], weight[:40])
    np.testing.assert_array_equal(weighed.coef_, plain.coef_)


@pytest.mark.parametrize("offset", [1e9, 1e14])
def test_a_grid_that_became_too_coarse_is_told(offset):
    # The typical size is that of the offset, which hides the spread of the other rows.
    rows = np.column_stack([offset + RNG.normal(size=900), X[:, 0]])
    rows, labels = np.vstack([rows, [[1e30, 0.0]]]), np.append(LABELS, "yes")
    model = model_of().fit(rows, labels)
    with pytest.warns(UserWarning, match="Feature 0 varies by fewer than 256 steps"):
        model.partial_unfit(rows[-1:], labels[-1:])


@pytest.mark.parametrize("far", [100.0, 1e6, 1e30])
def test_a_range_of_rows_that_are_gone_is_told(far):
    rows, labels = np.vstack([X, np.full((1, X.shape[1]), far)]), np.append(LABELS, "yes")
    model = model_of().fit(rows, labels)
    with pytest.warns(UserWarning, match="Feature 0 has the range, and so the scale, of rows that"):
        model.partial_unfit(rows[-1:], labels[-1:])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # Neither the other rows, nor coefficients without scales, ask for a warning.
        model_of().fit(X, LABELS).partial_unfit(X[:-50], LABELS[:-50])
        if far == 100.0:
            model_of(scaling=None).fit(rows, labels).partial_unfit(rows[-1:], labels[-1:])


def test_a_model_that_forgot_is_not_taken_for_a_private_one(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    y = (X[:, 0] + rng.normal(size=200) > 0).astype(int)
    model = AUCClassifier(solver=Moments(ridge=0.01, keep_state=True)).fit(X, y)
    model.partial_unfit(X[:20], y[:20])
    assert not hasattr(model, "certificate_")
    model.save(tmp_path / "m")
    assert read_model(tmp_path / "m").certificate is None
    assert np.array_equal(load_model(tmp_path / "m").coef_, model.coef_)


@pytest.mark.parametrize("ranges", [None, (-8.0, 8.0)])
def test_rows_are_taken_back_with_their_weights(ranges):
    rng = np.random.default_rng(5)
    X = rng.normal(size=(200, 2))
    y = (X[:, 0] + rng.normal(size=200) > 0).astype(int)
    weight = rng.integers(0, 4, 200).astype(float)
    n, n_left = np.count_nonzero(weight), np.count_nonzero(weight[20:])
    solver = Moments(0.1, keep_state=True, ranges=ranges)
    model = AUCClassifier(solver=solver).fit(X, y, sample_weight=weight)
    before = model.coef_
    with pytest.raises(ValueError, match=f"the {n} rows were learned with sample_weight; give"):
        model.partial_unfit(X[:20], y[:20])
    np.testing.assert_array_equal(model.coef_, before)
    model.partial_unfit(X[:20], y[:20], sample_weight=weight[:20])
    # Again: the number of rows and the sum of weights have both changed.
    with pytest.raises(ValueError, match=f"the {n_left} rows were learned with sample"):
        model.partial_unfit(X[20:40], y[20:40])
    plain = AUCClassifier(solver=solver).fit(X, y)
    with pytest.raises(ValueError, match="learned without sample_weight, or with one weight"):
        plain.partial_unfit(X[:20], y[:20], sample_weight=np.full(20, 2.0))
    plain.partial_unfit(X[:20], y[:20], sample_weight=np.ones(20))
    plain.partial_unfit(X[20:40], y[20:40])
    alike = AUCClassifier(solver=solver).fit(X, y, sample_weight=np.full(200, 3.0))
    alike.partial_unfit(X[:40], y[:40], sample_weight=np.full(40, 3.0))
    np.testing.assert_allclose(alike.coef_, plain.coef_, rtol=1e-12)
    with pytest.raises(ValueError, match="the 160 rows were learned with sample_weight; give"):
        alike.partial_unfit(X[40:60], y[40:60])
    with pytest.raises(ValueError, match="or with one weight for all, and these rows have another"):
        alike.partial_unfit(X[40:60], y[40:60], sample_weight=np.ones(20))


def engine(*columns):
    return lambda statistic: statistic.merge_all(
        statistic.partial_state(*(column[k::2] for column in columns)) for k in range(2)
    )


def in_memory(solver, X, y, weight=None):
    return AUCClassifier(solver=solver).fit(X, y, sample_weight=weight)


def in_passes(solver, X, y, weight=None):
    return fit_on(
        engine(*([X, y] if weight is None else [X, y, weight])), AUCClassifier(solver=solver)
    )


def in_a_stream(solver, X, y, weight=None):
    own = weight if weight is None else weight[:70]
    model = AUCClassifier(solver=Moments(0.1, ranges=(-8.0, 8.0)))
    model.partial_fit(X[:70], y[:70], classes=[0, 1], sample_weight=own)
    return model.partial_fit(X[70:], y[70:], sample_weight=None if own is None else weight[70:])


@pytest.mark.parametrize("ranges", [None, (-8.0, 8.0)])
@pytest.mark.parametrize("learned", [in_memory, in_passes, in_a_stream])
@pytest.mark.parametrize("most", [3])
def test_rows_without_weight_count_nowhere(learned, ranges, most):
    rng = np.random.default_rng(5)
    X = rng.normal(size=(200, 2))
    y = (X[:, 0] + rng.normal(size=200) > 0).astype(int)
    weight = rng.integers(0, most + 1, 200).astype(float)
    solver = Moments(0.1, keep_state=True, ranges=ranges)
    model = learned(solver, X, y, weight)
    n, none, some = np.count_nonzero(weight), *(np.flatnonzero(weight > w) for w in (-1, 0))
    none = np.setdiff1d(none, some)
    assert model.n_examples_ == n
    before = model.coef_
    # Those without weight are not there to be taken back: in memory, and in partitions.
    model.partial_unfit(X[none], y[none], sample_weight=weight[none])
    assert model.n_examples_ == n
    assert model.forgetting_certificate_.n_rows == 0
    np.testing.assert_array_equal(model.coef_, before)
    if learned is not in_a_stream:
        forget_on(engine(X[none], y[none], weight[none]), model)
        assert (model.n_examples_, model.forgetting_certificate_.n_rows) == (n, 0)
        with pytest.raises(ValueError, match="all partitions are empty"):
            forget_on(engine(X[:0], y[:0], weight[:0]), model)
        with pytest.raises(ValueError, match=f"the {n} rows were learned with sample_weight; give"):
            forget_on(engine(X[none], y[none]), model)
    # None of them can be said to have been learned, and no other row without its weight.
    for rows in (none, some[:9]) if most > 1 or learned is not in_a_stream else (none,):
        with pytest.raises(ValueError, match=r"were learned with sample_weight|not all among"):
            model.partial_unfit(X[rows], y[rows])
    both = np.concatenate([none, some[:-40]])
    model.partial_unfit(X[both], y[both], sample_weight=weight[both])
    assert (model.n_examples_, model.forgetting_certificate_.n_rows) == (40, n - 40)


@pytest.mark.parametrize("class_weight", [None, {0: 1.0, 1: 3.0}])
def test_weights_that_no_row_had_are_refused(class_weight):
    rng = np.random.default_rng(5)
    X = rng.normal(size=(200, 2))
    y = (X[:, 0] + rng.normal(size=200) > 0).astype(int)
    # Together as many as rows, and of the same mean in both classes.
    weight = np.where(np.arange(200) % 2, 0.5, 1.5)[np.argsort(np.argsort(y, kind="stable"))]
    solver = Moments(0.1, keep_state=True)

    def fit(own):
        return AUCClassifier(solver=solver, class_weight=class_weight).fit(X, y, sample_weight=own)

    for model in (fit(weight), fit(np.full(200, 2.0))):
        with pytest.raises(ValueError, match="were learned with sample_weight; give"):
            model.partial_unfit(X[:9], y[:9])
        with pytest.raises(ValueError, match="were learned with sample_weight; give"):
            forget_on(engine(X[:9], y[:9]), model)
    for model, own in ((fit(None), weight), (fit(np.full(200, 2.0)), weight)):
        with pytest.raises(ValueError, match="or with one weight for all"):
            model.partial_unfit(X[:9], y[:9], sample_weight=own[:9])
        # Workers may refuse fractions, since none were learned.
        with pytest.raises(ValueError, match=r"or with one weight for all|give whole weights"):
            forget_on(engine(X[:9], y[:9], own[:9]), model)
    # As many rows as their weights together: a sum alone does not tell.
    both = engine(X[:10], y[:10], np.r_[3.0, np.zeros(2), np.ones(7)])
    with pytest.raises(ValueError, match="or with one weight for all"):
        forget_on(both, fit(None))
