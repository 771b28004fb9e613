# SPDX-License-Identifier: BSD-3-Clause
"""What is chosen on folds is a function of the rows, not of their order."""

import numpy as np
import pytest
import scipy.sparse

from pairlearn import (
    AUCClassifier,
    MulticlassAUCClassifier,
    MultilabelAUCClassifier,
    OrdinalAUCClassifier,
    PairwiseRanker,
    SurvivalRanker,
)
from pairlearn.estimators.shared.held_out import held_out_auc


@pytest.fixture(scope="module")
def table():
    """Rows, some of them twice, with labels of each kind."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 5))
    X[:, 0] = np.round(X[:, 0])
    X[350:] = X[:50]
    score = X @ [1.0, -0.5, 0.3, 0.2, 0.0] + 2.0 * rng.normal(size=len(X))
    grades = np.digitize(score, [-1.5, 0.0, 1.5])
    return X, {
        "label": (score > 0.5).astype(int),
        "grade": grades,
        "labels": np.column_stack([grades > 1, score > 0.5]).astype(int),
        "time": np.column_stack([rng.random(len(X)) < 0.7, np.exp(-score)]),
        "weight": rng.integers(1, 4, size=len(X)).astype(float),
        "query": np.repeat(np.arange(len(X) // 8), 8),
    }


def in_two_orders(model, X, y, **others):
    """Return the model fitted to the rows as they are, and to the shuffled rows."""
    order = np.random.default_rng(1).permutation(X.shape[0])
    for some in (slice(None), order):
        columns = {name: column[some] for name, column in others.items()}
        yield model(random_state=0).fit(X[some], y[some], **columns)


def same_choice(first, second):
    assert first.choice_.ridge == second.choice_.ridge
    np.testing.assert_allclose(first.choice_.auc, second.choice_.auc, rtol=1e-12)


def same_coefficients(first, second):
    scale = np.abs(first.coef_).max()
    np.testing.assert_allclose(second.coef_, first.coef_, rtol=0, atol=1e-9 * scale)


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({}, id="exact"),
        pytest.param({"loss": "logistic"}, id="logistic", marks=pytest.mark.thorough),
        pytest.param({"features": "hats"}, id="hats"),
        pytest.param({"features": "auto"}, id="auto", marks=pytest.mark.thorough),
        pytest.param({"objective": "partial_auc"}, id="top", marks=pytest.mark.thorough),
    ],
)
@pytest.mark.parametrize("weighted", [False, True])
def test_a_classifier_of_shuffled_rows(table, settings, weighted):
    X, y = table
    others = {"sample_weight": y["weight"]} if weighted else {}
    first, second = in_two_orders(
        lambda **more: AUCClassifier(**settings, **more), X, y["label"], **others
    )
    same_choice(first, second)
    same_coefficients(first, second)
    # A threshold lies between two scores, which differ by rounding.
    np.testing.assert_allclose(first.threshold_, second.threshold_, rtol=1e-9)


def test_sparse_and_dense_rows_have_the_same_folds(table):
    X, y = table
    X = np.where(np.abs(X) < 0.5, 0.0, X)
    model = lambda **more: AUCClassifier(scaling=None, **more)  # noqa: E731
    found = [
        one
        for rows in (X, scipy.sparse.csr_array(X))
        for one in in_two_orders(model, rows, y["label"])
    ]
    for other in found[1:]:
        same_choice(found[0], other)
        same_coefficients(found[0], other)


def test_many_classes_of_shuffled_rows(table):
    X, y = table
    first, second = in_two_orders(MulticlassAUCClassifier, X, y["grade"])
    same_choice(first, second)
    same_coefficients(first, second)
    np.testing.assert_allclose(first.sigmoids_, second.sigmoids_, rtol=1e-6)


@pytest.mark.parametrize(
    ("model", "kind"), [(OrdinalAUCClassifier, "grade"), (MultilabelAUCClassifier, "labels")]
)
def test_grades_and_labels_of_shuffled_rows(table, model, kind):
    X, y = table
    first, second = in_two_orders(model, X, y[kind])
    name = "ridge_" if kind == "grade" else "ridges_"
    np.testing.assert_array_equal(getattr(first, name), getattr(second, name))
    same_coefficients(first, second)


def test_survival_of_shuffled_rows(table):
    X, y = table
    first, second = in_two_orders(SurvivalRanker, X, y["time"])
    same_choice(first, second)
    same_coefficients(first, second)


def test_the_step_sizes_of_descent_do_not_depend_on_the_order(table):
    X, y = table
    descent = lambda **more: AUCClassifier(solver="sgd", **more)  # noqa: E731
    first, second = in_two_orders(descent, X, y["label"])
    np.testing.assert_allclose(first.step_size_, second.step_size_, rtol=1e-12)
    assert first.radius_ == pytest.approx(second.radius_, rel=1e-12)
    # Different rows in each query: equal examples of two queries could change places.
    X = X + 1e-3 * np.arange(len(X))[:, None]
    first, second = in_two_orders(PairwiseRanker, X, y["grade"], qid=y["query"])
    np.testing.assert_allclose(first.step_size_, second.step_size_, rtol=1e-9)
    assert first.held_out_accuracy_ == pytest.approx(second.held_out_accuracy_, abs=1e-9)


def test_the_held_out_auc_of_shuffled_rows(table):
    X, y = table
    order = np.random.default_rng(1).permutation(len(X))
    first, second = (
        held_out_auc(AUCClassifier(random_state=0), X[some], y["label"][some])
        for some in (slice(None), order)
    )
    assert first.interval.auc == pytest.approx(second.interval.auc, abs=1e-12)
