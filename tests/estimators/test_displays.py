# SPDX-License-Identifier: BSD-3-Clause
"""scikit-learn's displays draw our estimators in one line."""

import numpy as np
import pytest
from sklearn.calibration import CalibrationDisplay
from sklearn.datasets import make_classification
from sklearn.inspection import DecisionBoundaryDisplay, PartialDependenceDisplay
from sklearn.metrics import (
    ConfusionMatrixDisplay,
    DetCurveDisplay,
    PrecisionRecallDisplay,
    PredictionErrorDisplay,
    RocCurveDisplay,
    average_precision_score,
    roc_auc_score,
)
from sklearn.model_selection import LearningCurveDisplay, ValidationCurveDisplay

from pairlearn import SGD, AUCClassifier, EntropyRegressor, Exact, PrivateAUCClassifier

plt = pytest.importorskip("matplotlib.pyplot")


@pytest.fixture(autouse=True)
def no_window():
    plt.switch_backend("Agg")
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def data():
    return make_classification(n_samples=300, n_features=4, n_informative=3, n_redundant=1,
                               random_state=0)  # fmt: skip


@pytest.fixture(scope="module")
def models(data):
    X, y = data
    exact = AUCClassifier(random_state=0).fit(X, np.where(y, "yes", "no"))
    stream = AUCClassifier(solver=SGD(step_size=0.1), random_state=0).partial_fit(
        X, y, classes=[0, 1]
    )
    private = PrivateAUCClassifier(4.0, bounds=(-6.0, 6.0), delta=1e-4).fit(X, y)
    return {"exact": exact, "stream": stream, "private": private}


@pytest.mark.parametrize("name", ["exact", "stream", "private"])
def test_curves_show_the_scores(models, data, name):
    model, X = models[name], data[0]
    y = model.classes_[data[1]]
    scores = model.decision_function(X)
    curve = RocCurveDisplay.from_estimator(model, X, y)
    assert curve.roc_auc == pytest.approx(roc_auc_score(y, scores))
    assert name == "private" or curve.roc_auc > 0.7
    precision = PrecisionRecallDisplay.from_estimator(model, X, y)
    wanted = average_precision_score(y == model.classes_[1], scores)
    assert precision.average_precision == pytest.approx(wanted)
    trade = DetCurveDisplay.from_estimator(model, X, y)
    assert trade.fnr[0] <= trade.fnr[-1]


def test_decisions_and_probabilities(models, data):
    model, X = models["exact"], data[0]
    y = model.classes_[data[1]]
    matrix = ConfusionMatrixDisplay.from_estimator(model, X, y)
    assert np.trace(matrix.confusion_matrix) == np.sum(model.predict(X) == y)
    assert list(matrix.display_labels) == ["no", "yes"]
    calibration = CalibrationDisplay.from_estimator(model, X, y, n_bins=5)
    np.testing.assert_array_equal(calibration.y_prob, model.predict_proba(X)[:, 1])


def test_what_features_do(models, data):
    model, X = models["exact"], data[0]
    display = PartialDependenceDisplay.from_estimator(model, X, [0], grid_resolution=5)
    (line,) = display.pd_results[0]["average"]
    assert np.sign(line[-1] - line[0]) == np.sign(model.coef_[0, 0])
    plane = AUCClassifier(random_state=0).fit(X[:, :2], data[1])
    drawn = DecisionBoundaryDisplay.from_estimator(plane, X[:, :2], grid_resolution=5)
    assert drawn.response.shape == (5, 5)


def test_learning_and_validation_curves(data):
    model = AUCClassifier(solver=Exact(ridge=1e-3), random_state=0)
    learning = LearningCurveDisplay.from_estimator(
        model, *data, train_sizes=[0.4, 1.0], cv=2, scoring="roc_auc"
    )
    assert learning.test_scores.shape == (2, 2)
    assert np.isfinite(learning.test_scores).all()
    validation = ValidationCurveDisplay.from_estimator(
        model, *data, param_name="solver__ridge", param_range=[1e-3, 1e3], cv=2, scoring="roc_auc"
    )
    assert np.isfinite(validation.test_scores).all()


def test_errors_of_a_regression(data):
    X, _ = data
    y = X @ np.array([1.0, -2.0, 0.5, 0.0])
    model = EntropyRegressor(random_state=0).fit(X, y)
    errors = PredictionErrorDisplay.from_estimator(model, X, y)
    np.testing.assert_allclose(errors.y_pred, model.predict(X))
