# SPDX-License-Identifier: BSD-3-Clause
"""Scorers inside scikit-learn's searches."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn import metrics as sk
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.exceptions import UnsetMetadataPassedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
    TunedThresholdClassifierCV,
    cross_val_score,
    cross_validate,
)
from sklearn.naive_bayes import GaussianNB
from sklearn.svm import LinearSVC

from pairlearn import (
    AUCClassifier,
    Costs,
    Exact,
    MulticlassAUCClassifier,
    MultilabelAUCClassifier,
    SurvivalRanker,
)
from pairlearn.metrics import AveragePrecision, ConcordanceIndex, scorer


def test_a_search_takes_the_best_by_the_metric():
    X, y = load_breast_cancer(return_X_y=True)
    grid = {"var_smoothing": [1e-12, 1e-9, 1e-3]}
    search = GridSearchCV(GaussianNB(), grid, scoring=scorer(AveragePrecision()), cv=3).fit(X, y)
    theirs = GridSearchCV(GaussianNB(), grid, scoring="average_precision", cv=3).fit(X, y)
    ours = search.cv_results_["mean_test_score"]
    np.testing.assert_allclose(ours, theirs.cv_results_["mean_test_score"])


def test_many_classes_and_costs():
    X, y = load_iris(return_X_y=True)
    model = LogisticRegression(max_iter=500).fit(X, y)
    expected = sk.roc_auc_score(y, model.predict_proba(X), multi_class="ovo")
    assert scorer("hand_till")(model, X, y) == pytest.approx(expected)
    pairs = MulticlassAUCClassifier(solver=Exact(ridge=0.1)).fit(X, y)
    assert scorer("hand_till", pairs=True)(pairs, X, y) == pairs.score(X, y)
    two = y < 2
    binary = LogisticRegression().fit(X[two], np.array(["no", "yes"])[y[two]])
    labels = np.array(["no", "yes"])[y[two]]
    assert -1e-6 < scorer("expected_cost")(binary, X[two], labels) <= 0.0
    assert scorer("brier_score")(binary, X[two], labels) < 0.0
    assert (
        cross_val_score(binary, X[two], labels, scoring=scorer("precision_at", k=3)).tolist()
        == [1.0] * 5
    )


def test_what_cannot_be_scored_is_refused():
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match="PartialAUC is for two classes, the estimator has 3"):
        scorer("auc")(GaussianNB().fit(X, y), X, y)
    svc = LinearSVC().fit(X[y < 2], y[y < 2])
    with pytest.raises(TypeError, match="BrierScore needs predict_proba"):
        scorer("brier_score")(svc, X[y < 2], y[y < 2])
    with pytest.raises(ValueError, match=r"one of .*'auc'.*, got 'nothing'"):
        scorer("nothing")
    with pytest.raises(ValueError, match='"partial_auc" needs max_fpr'):
        scorer("partial_auc")
    with pytest.raises(TypeError, match="'auc' does not take these settings"):
        scorer("auc", k=3)
    with pytest.raises(ValueError, match="give them to the metric itself"):
        scorer(AveragePrecision(), k=3)
    with pytest.raises(ValueError, match=r"must be a Metric or one of .* got \['auc'\]"):
        scorer(["auc"])


def test_columns_that_are_no_pairs_are_refused():
    """Three classes have three pairs: a score of each class was taken for one of each pair."""
    X, y = load_iris(return_X_y=True)
    model = LogisticRegression(max_iter=500).fit(X, y)
    with pytest.raises(TypeError, match="needs pair_scores, which LogisticRegression does not"):
        scorer("hand_till", pairs=True)(model, X, y)
    with pytest.raises(ValueError, match=r"classes=\[2, 1, 0\] is not the order .* \[0, 1, 2\]"):
        scorer("hand_till", classes=[2, 1, 0])(model, X, y)
    same = scorer("hand_till", classes=[0, 1, 2])(model, X, y)
    assert same == scorer("hand_till")(model, X, y)


def test_a_scorer_refuses_masked_labels():
    X, y = load_breast_cancer(return_X_y=True)
    labels = np.ma.masked_array(y, mask=np.arange(len(y)) < 9)
    with pytest.raises(ValueError, match="y is a masked array with 9 masked values"):
        scorer("auc")(GaussianNB().fit(X, y), X, labels)


def test_a_frame_of_times_keeps_its_names():
    class Risk:
        def decision_function(self, X):
            return X

    rng = np.random.default_rng(0)
    risk, time, event = rng.random(40), rng.integers(0, 2, 40), rng.integers(0, 2, 40)
    frame = pd.DataFrame({"time": time, "event": event})
    found = scorer(ConcordanceIndex())(Risk(), risk, frame)
    assert found == ConcordanceIndex()(np.column_stack([event, time]), risk)


@pytest.mark.parametrize("name", ["auc", "hand_till", "brier_score"])
def test_many_labels_are_refused(name):
    X, y = load_iris(return_X_y=True)
    labels = np.column_stack([y == 0, y == 2, X[:, 0] > 6.0]).astype(int)
    model = MultilabelAUCClassifier(solver=Exact(ridge=0.1)).fit(X, labels)
    with pytest.raises(ValueError, match="one label of an example, y has 3 columns; measure each"):
        scorer(name)(model, X, labels)


def test_a_threshold_of_scores_is_none_of_probabilities():
    """Probabilities are above 0: the cost was that of calling everybody positive."""
    X, y = load_breast_cancer(return_X_y=True)
    model = GaussianNB().fit(X[:, 1:2], y)
    with pytest.raises(ValueError, match=r"GaussianNB has probabilities .* such as threshold=0\.5"):
        scorer("expected_cost", threshold=-1.0)(model, X[:, 1:2], y)
    for settings in ({"threshold": 0.5}, {}):
        found = scorer("expected_cost", **settings)(model, X[:, 1:2], y)
        assert found == pytest.approx(-np.mean(model.predict(X[:, 1:2]) != y))


def test_the_cost_is_that_of_a_tuned_threshold():
    X, y = load_breast_cancer(return_X_y=True)
    scoring = scorer("expected_cost", false_negative=10.0)
    for model in (
        TunedThresholdClassifierCV(AUCClassifier(random_state=0), scoring="recall", cv=3),
        AUCClassifier(decision=Costs(1.0, 10.0), random_state=0),
    ):
        found = model.fit(X[::2], y[::2]).predict(X[1::2])
        cost = (found > y[1::2]) + 10.0 * (found < y[1::2])
        assert scoring(model, X[1::2], y[1::2]) == pytest.approx(-cost.mean())


def test_what_only_predicts_is_scored_by_its_predictions(rng):
    X = rng.normal(size=(200, 2))
    y = np.column_stack([rng.random(200) < 0.7, np.exp(-X[:, 0] + rng.normal(size=200))])
    model = SurvivalRanker(random_state=0).fit(X, y)
    found = scorer(ConcordanceIndex())(model, X, y)
    assert found == ConcordanceIndex()(y, model.predict(X)) > 0.6
    with pytest.raises(TypeError, match="no scores to measure"):  # and no cut for them
        scorer("expected_cost")(model, X, y[:, 0])


def test_weights_are_passed_on_where_they_are_asked_for(rng):
    X = rng.normal(size=(300, 3))
    y = (X @ [1.0, 2.0, 0.0] + rng.normal(size=300) > 1.0).astype(int)
    weight = rng.choice([0.0, 1.0, 50.0], 300)
    rival = sk.make_scorer(sk.roc_auc_score, response_method="predict_proba")

    def found(scoring):
        model = GaussianNB().set_fit_request(sample_weight=True)
        how = {"cv": KFold(3), "params": {"sample_weight": weight}, "scoring": scoring}
        return cross_validate(model, X, y, **how)["test_score"]

    with sklearn.config_context(enable_metadata_routing=True):
        for asked in (True, False):
            expected = found(rival.set_score_request(sample_weight=asked))
            ours = scorer("auc").set_score_request(sample_weight=asked)
            np.testing.assert_allclose(found(ours), expected)
        with pytest.raises(UnsetMetadataPassedError, match="sample_weight"):
            found(scorer("auc"))


@pytest.mark.parametrize("wrong", [2.0, np.nan])
def test_labels_that_the_estimator_does_not_know_are_refused(wrong):
    X, y = load_breast_cancer(return_X_y=True)
    model = GaussianNB().fit(X, y)
    other = y.astype(float)
    other[:9] = wrong
    with pytest.raises(ValueError, match=r"neither of \[0, 1\]"):
        scorer("average_precision")(model, X, other)


def test_metrics_import_no_scikit_learn():
    code = "import sys, pairlearn.metrics.scorers; print('sklearn' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
