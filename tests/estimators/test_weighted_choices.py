# SPDX-License-Identifier: BSD-3-Clause
"""Settings are chosen by held-out examples with their weights."""

import numpy as np
import pytest

from pairlearn import (
    SGD,
    AUCClassifier,
    ConcordanceIndex,
    PairwiseRanker,
    SurvivalRanker,
)
from pairlearn.estimators.shared.judged_maps import weighted_error
from pairlearn.estimators.shared.weights import judged_auc
from pairlearn.metrics import compare_auc, roc_auc


@pytest.fixture(scope="module")
def two_worlds():
    """Rows of two kinds: what orders the first reverses the second."""
    rng = np.random.default_rng(0)
    n = 600
    X, y = rng.normal(size=(n, 3)), np.arange(n) // 2 % 2
    first = rng.random(n) < 0.5
    X[:, 0] += np.where(first, 2.0, -2.0) * (2 * y - 1)
    return X, y, first


WAYS = {
    "exact": {"solver": "exact"},
    "top": {"objective": "push", "solver": "exact"},
    "moments": {"solver": "moments", "features": "hats"},
    "map": {"features": "auto"},
    "descent": {"solver": "sgd"},
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("light", [1e-6, 0.0])
def test_settings_are_chosen_with_the_weights(two_worlds, way, light):
    X, y, first = two_worlds
    weight = np.where(first, 1.0, light)
    model = AUCClassifier(random_state=0, **WAYS[way]).fit(X, y, sample_weight=weight)
    # without weights half of the held-out pairs would be in the wrong order
    assert model.choice_.evidence.auc > 0.95
    if model.choice_.features is not None:
        assert max(one.auc for one in model.choice_.features.judged) > 0.95


@pytest.mark.parametrize(
    "options", [{"solver": "sgd", "scaling": None}, {"solver": "moments", "features": "hats"}]
)
def test_a_stream_chooses_with_the_weights(two_worlds, options):
    X, y, first = two_worlds
    weight = np.where(first, 1.0, 1e-6)
    model = AUCClassifier(random_state=0, **options)
    for _ in range(5):
        model.partial_fit(X, y, classes=[0, 1], sample_weight=weight)
    assert model.score(X[first], y[first]) > 0.95
    # the first chunk is scored by nothing, which counts in descent
    assert model.held_out_auc_ > 0.85


QUICK = SGD(n_passes=2)
STEPS = {
    "classes": lambda X, y, w: AUCClassifier(solver=QUICK, scaling=None, random_state=0).fit(
        X, y, sample_weight=w
    ),
    "grades": lambda X, y, w: PairwiseRanker(solver=QUICK, scaling=None, random_state=0).fit(
        X, y, sample_weight=w
    ),
    "queries": lambda X, y, w: PairwiseRanker(solver=QUICK, scaling=None, random_state=0).fit(
        X, y, np.arange(len(y)) // 30, w
    ),
    "survival": lambda X, y, w: SurvivalRanker(solver=QUICK, scaling=None, random_state=0).fit(
        X, np.column_stack([y, np.arange(len(y)) % 7 + 1.0]), w
    ),
}


@pytest.mark.parametrize("kind", STEPS)
def test_step_sizes_are_relative_to_weighted_distances(two_worlds, kind):
    """A row that weighs next to nothing, far out, made all of them too small."""
    X, y, _ = two_worlds
    far, weight = X.copy(), np.where(np.arange(len(y)) % 30 == 0, 1e-9, 1.0)
    far[weight < 1.0] *= 1e3
    found, expected = (STEPS[kind](rows, y, weight).choice_.tried for rows in (far, X))
    steps = [[one.values["step_size"] for one in tried] for tried in (found, expected)]
    # rankers of grades take 2000 pairs
    np.testing.assert_allclose(*steps, rtol=0.2)


def test_the_step_size_of_survival_is_judged_with_the_weights(two_worlds):
    """As the ridge is: what orders the examples that weigh something reverses the others."""
    X, y, first = two_worlds
    weight, labels = np.where(first, 1.0, 1e-6), np.column_stack([np.ones(len(y)), 2.0 - y])
    model = SurvivalRanker(solver="sgd", random_state=0).fit(X, labels, weight)
    assert ConcordanceIndex()(labels[first], model.predict(X[first])) > 0.95
    assert model.held_out_concordance_ > 0.95


def test_the_error_of_a_weighted_difference(rng):
    """It is DeLong's with equal weights, and near the spread over samples with others."""
    y = np.arange(60) % 3 == 0
    a, b = rng.normal(size=(2, 60)).round(1)
    error = weighted_error(y, np.full(60, 7.0), a, b)
    assert error == pytest.approx(compare_auc(y, a, b).standard_error, rel=1e-12)
    n, gaps, errors = 200, [], []
    for _ in range(200):
        y = np.arange(n) % 2 == 0
        weight = rng.choice([0.2, 1.0, 3.0], n)
        a = rng.normal(size=n) + y
        b = a + rng.normal(size=n)
        gaps.append(roc_auc(y, a, sample_weight=weight) - roc_auc(y, b, sample_weight=weight))
        errors.append(weighted_error(y, weight, a, b))
    # the spread of 200 normal gaps is known to within 20 % but for 1 case in 10,000
    assert np.std(gaps) == pytest.approx(np.mean(errors), rel=0.2)


def test_the_auc_that_judges_is_the_metric_and_refuses_what_it_refuses():
    y, scores = np.array([1.0, -1.0, 1.0, -1.0]), np.array([0.3, 0.3, 0.5, 0.1])
    for weight in (np.empty(0), np.array([1.0, 2.0, 3.0, 4.0])):
        given = weight if len(weight) else None
        assert judged_auc(y, scores, weight) == round(roc_auc(y, scores, sample_weight=given), 12)
        with pytest.raises(ValueError, match="NaN or infinity"):
            judged_auc(y, scores * [1.0, np.nan, 1.0, 1.0], weight)
        with pytest.raises(ValueError, match="exactly two classes"):
            judged_auc(np.ones(4), scores, weight)
