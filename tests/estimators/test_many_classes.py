# SPDX-License-Identifier: BSD-3-Clause
"""Many classes: pairs found together are those found alone; numbers to predict are refused."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import clone

from pairlearn import (
    AUCClassifier,
    Exact,
    MulticlassAUCClassifier,
    MultilabelAUCClassifier,
    OrdinalAUCClassifier,
)
from pairlearn.estimators.classes.ordinal import share_in_order
from pairlearn.estimators.shared.class_moments import ClassSystems
from pairlearn.solvers.rows import as_rows


def systems_of(rng: np.random.Generator, n: int, d: int, k: int) -> ClassSystems:
    X, codes = rng.normal(size=(n, d)), np.arange(n) % k
    X += codes[:, np.newaxis] * rng.normal(size=d)
    return ClassSystems.of(as_rows(X), codes, k, rng.uniform(0.5, 2.0, size=n))


@pytest.mark.parametrize(("d", "k"), [(3, 2), (4, 7), (40, 4)])
def test_systems_solved_together_are_those_of_the_pairs(d: int, k: int) -> None:
    systems = systems_of(np.random.default_rng(0), 30 * k, d, k)
    found = systems.solve_pairs(0.3)
    for row, (a, b) in zip(found, combinations(range(k), 2), strict=True):
        step = systems.means[b] - systems.means[a]
        matrix = systems.covariances[a] + systems.covariances[b] + np.outer(step, step)
        np.testing.assert_allclose((matrix + 0.3 * np.eye(d)) @ row, step, rtol=1e-8, atol=1e-9)


def test_the_order_of_grades_is_the_sum_over_their_pairs() -> None:
    systems = systems_of(np.random.default_rng(1), 90, 4, 6)
    matrix, right, total = np.zeros((4, 4)), np.zeros(4), 0.0
    for a, b in combinations(range(6), 2):
        step = systems.means[b] - systems.means[a]
        share = systems.masses[a] * systems.masses[b]
        of_pair = systems.covariances[a] + systems.covariances[b] + np.outer(step, step)
        matrix += share * of_pair
        right += share * (b - a) * step
        total += share
    expected = np.linalg.solve(matrix / total + 0.1 * np.eye(4), right / total)
    np.testing.assert_allclose(systems.solve_order(0.1), expected, rtol=1e-8)


def test_the_share_in_order_counts_pairs_of_examples() -> None:
    rng = np.random.default_rng(3)
    codes, scores = rng.integers(0, 9, size=50), rng.integers(0, 9, size=50).astype(float)
    weight = rng.integers(0, 3, size=50).astype(float)
    right = total = 0.0
    for i, j in np.argwhere(codes[:, np.newaxis] < codes):
        total += weight[i] * weight[j]
        right += weight[i] * weight[j] * ((scores[i] < scores[j]) + 0.5 * (scores[i] == scores[j]))
    assert share_in_order(codes, scores, weight) == pytest.approx(right / total, abs=1e-14)


@pytest.mark.parametrize("model", [AUCClassifier(), MulticlassAUCClassifier()])
@pytest.mark.parametrize(
    ("n", "k"), [(2_000, 51), (104, 21), (600, 214)], ids=["too many", "too rare", "a regression"]
)
def test_numbers_to_predict_are_refused_as_classes(model: object, n: int, k: int) -> None:
    X = np.random.default_rng(0).normal(size=(n, 2))
    y = 10 * (np.arange(n) % k)
    with pytest.raises(ValueError, match=f"y has {k} different labels in {n} examples") as refused:
        clone(model).fit(X, y)
    for cure in ("EntropyRegressor", "OrdinalAUCClassifier", "OneVsRestClassifier"):
        assert cure in str(refused.value)


def test_forty_classes_and_two_hundred_grades_are_learned() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    model = AUCClassifier(random_state=0).fit(X, np.arange(200) % 40)
    assert model.coef_.shape == (780, 3)
    grades = np.argsort(np.argsort(X[:, 0] + 0.1 * rng.normal(size=200))) // 2
    ordinal = OrdinalAUCClassifier(random_state=0).fit(X, grades)
    assert ordinal.score(X, grades) > 0.9


@pytest.mark.parametrize("store", [np.asarray, scipy.sparse.csr_array])
@pytest.mark.parametrize("scaling", ["auto", None])
@pytest.mark.parametrize(
    "model", [MulticlassAUCClassifier(), OrdinalAUCClassifier(), MultilabelAUCClassifier()],
    ids=lambda model: type(model).__name__,
)  # fmt: skip
def test_probabilities_do_not_depend_on_where_features_lie(model, scaling, store) -> None:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(400, 3))
    y = np.digitize(X[:, 0] - X[:, 1] + 0.5 * rng.normal(size=400), [-1.0, 1.0])
    if isinstance(model, MultilabelAUCClassifier):
        y = np.column_stack([y > 0, y > 1])
    model = clone(model).set_params(solver=Exact(0.1), scaling=scaling, random_state=0)
    near = clone(model).fit(store(X), y).predict_proba(store(X))
    far = X + np.array([0.0, 100.0, 1000.0])
    found = clone(model).fit(store(far), y).predict_proba(store(far))
    # Other rows are dealt into other folds.
    assert np.abs(found - near).mean() < 0.02


def test_a_model_of_three_classes_lists_its_attributes():
    """A private property raised TypeError, and so did `dir`, tab completion and dask-ml."""
    X = np.random.default_rng(0).normal(size=(90, 3))
    y = np.arange(90) % 3
    for model in (
        AUCClassifier(random_state=0).fit(X, y),
        AUCClassifier(random_state=0).partial_fit(X, y, classes=[0, 1, 2]),
    ):
        assert len(model.coef_) == 3
        assert "coef_" in dir(model)
        assert not hasattr(model, "threshold_")
