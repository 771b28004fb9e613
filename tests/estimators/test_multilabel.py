# SPDX-License-Identifier: BSD-3-Clause
"""One score for each label."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import cross_val_score

from pairlearn import Costs, Exact, MultilabelAUCClassifier, Threshold, load_model, roc_auc
from pairlearn.solvers import solve_square_auc


@pytest.fixture
def labelled(rng):
    X = rng.normal(size=(300, 5))
    Y = (X @ rng.normal(size=(5, 3)) + rng.normal(size=(300, 3)) > [0.0, 1.0, 3.0]).astype(int)
    return X, Y


def test_each_label_is_the_closed_form_of_two_classes(labelled):
    X, Y = labelled
    model = MultilabelAUCClassifier(solver=Exact(ridge=0.3), scaling=None, random_state=0).fit(X, Y)
    for k in range(3):
        wanted = solve_square_auc(X, np.where(Y[:, k], 1.0, -1.0), ridge=0.3)
        np.testing.assert_allclose(model.coef_[k], wanted, rtol=1e-8)
    scores = X @ model.coef_.T
    assert model.score(X, Y) == pytest.approx(np.mean([roc_auc(Y[:, k], scores[:, k])
                                                       for k in range(3)]))  # fmt: skip
    assert ((model.decision_function(X) > 0) == model.predict(X)).all()


def test_storage_weights_and_units_do_not_matter(labelled, tmp_path, rng):
    X, Y = labelled
    model = MultilabelAUCClassifier(solver=Exact(ridge=0.1), random_state=0).fit(X, Y)
    p = model.predict_proba(X)
    units = np.array([1.0, 1e3, 1e-3, 7.0, 2.0])
    other = MultilabelAUCClassifier(solver=Exact(ridge=0.1), random_state=0)
    other.fit(X * units + 3.0, scipy.sparse.csr_array(Y))
    np.testing.assert_allclose(other.coef_ * units, model.coef_, atol=1e-7)
    # Other numbers make other folds, which calibrate.
    np.testing.assert_allclose(other.predict_proba(X * units + 3.0), p, atol=0.05)
    bare = MultilabelAUCClassifier(solver=Exact(ridge=0.1), scaling=None, random_state=0)
    dense = bare.fit(X, Y).coef_
    np.testing.assert_allclose(bare.fit(scipy.sparse.csr_array(X), Y).coef_, dense, rtol=1e-8)
    weight = rng.integers(0, 3, 300)
    weighted = bare.fit(X, Y, weight).coef_
    repeated = np.repeat(np.arange(300), weight)
    np.testing.assert_allclose(bare.fit(X[repeated], Y[repeated]).coef_, weighted, rtol=1e-7)
    model.save(tmp_path / "m")
    again = MultilabelAUCClassifier.load(tmp_path / "m")
    np.testing.assert_array_equal(again.predict_proba(X), p)


@pytest.mark.parametrize("n_labels", [1, 2])
def test_scorers_of_scikit_learn_know_the_labels(labelled, n_labels):
    X, Y = labelled
    model = MultilabelAUCClassifier(random_state=0)
    mean = cross_val_score(model, X, Y[:, :n_labels], scoring="roc_auc", error_score="raise")
    np.testing.assert_allclose(mean, cross_val_score(model, X, Y[:, :n_labels]))
    with pytest.raises(NotFittedError):
        _ = model.classes_
    for y, weight, message in (
        (None, None, "requires y to be passed"),
        (Y, np.zeros(len(Y)), "sample_weight is zero for all examples"),
    ):
        with pytest.raises(ValueError, match=message):
            model.fit(X, y, weight)


def test_rare_labels_and_refusals(labelled):
    X, Y = labelled
    lonely = np.zeros((300, 1), dtype=int)
    lonely[7] = 1
    model = MultilabelAUCClassifier(random_state=0).fit(X, np.hstack((Y, lonely)))
    assert model.ridges_[3] == 100.0
    assert model.predict_proba(X).shape == (300, 4)
    for y, message in (
        (Y[:, 0], "a column for each label, got shape"),
        (Y * 2, "must hold 1 where an example has a label"),
        (np.hstack((Y, np.zeros((300, 1)))), "or none, has label 3"),
        (np.hstack((np.ones((300, 1)), Y)), "every example .* has label 0"),
        (Y[:50], "X has 300 examples and y has 50 rows"),
    ):
        with pytest.raises(ValueError, match=message):
            MultilabelAUCClassifier().fit(X, y)
    with pytest.raises(ValueError, match=r"decision must be one of .* got 'best'"):
        MultilabelAUCClassifier(decision="best").fit(X, Y)
    with pytest.raises(ValueError, match="each label has a sigmoid"):
        MultilabelAUCClassifier(decision=Threshold(calibration="isotonic")).fit(X, Y)
    # A label that is missing in a part of the examples is left out of the mean.
    some = Y[:, 0] == 1
    part = MultilabelAUCClassifier(random_state=0).fit(X, Y)
    assert 0.0 < part.score(X[some], Y[some]) <= 1.0


@pytest.mark.parametrize(
    "decision", [0.25, "f1", "probability", Threshold("accuracy"), Costs(1.0, 20.0)]
)
def test_decision_rules(labelled, decision, tmp_path):
    X, Y = labelled
    model = MultilabelAUCClassifier(decision=decision, random_state=0).fit(X, Y)
    if decision == 0.25:
        np.testing.assert_array_equal(model.thresholds_, 0.25)
    elif decision == "probability":
        np.testing.assert_array_equal(model.predict(X), model.predict_proba(X) > 0.5)
    elif decision == Costs(1.0, 20.0):
        plain = MultilabelAUCClassifier(decision=Costs(1.0, 1.0), random_state=0).fit(X, Y)
        assert (model.thresholds_ < plain.thresholds_).all()
    else:
        plain = MultilabelAUCClassifier(random_state=0).fit(X, Y)
        assert (model.thresholds_ != plain.thresholds_).any()
    model.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert loaded.decision == decision
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))


def test_masked_and_missing_labels_are_refused(labelled):
    X, Y = labelled
    hidden = np.ma.array(Y, mask=np.zeros(Y.shape, dtype=bool))
    hidden[3, 1] = np.ma.masked
    model = MultilabelAUCClassifier(solver=Exact(ridge=0.1), random_state=0)
    with pytest.raises(ValueError, match="y is a masked array with 1 masked values"):
        model.fit(X, hidden)
    with pytest.raises(ValueError, match="y is a masked array with 1 masked values"):
        model.fit(X, Y).score(X, hidden)
    gaps = pd.DataFrame(Y).astype("Int64").mask(np.ma.getmaskarray(hidden))
    with pytest.raises(ValueError, match="y has no label in row 3"):
        model.fit(X, gaps)
