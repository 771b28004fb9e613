# SPDX-License-Identifier: BSD-3-Clause
import numpy as np
import pytest
from scipy.stats import norm

from pairlearn import PrivateAUCClassifier
from pairlearn.privacy.planner import expected_auc, plan


@pytest.mark.parametrize(("n", "d", "epsilon"), [(1000, 5, 1.0), (500, 20, 1.0), (4000, 20, 0.3)])
def test_the_plan_is_near_simulations(n, d, epsilon):
    reach, aucs = norm.ppf(0.8), []
    for run in range(12):
        rng = np.random.default_rng(run)
        axis = rng.normal(size=d)
        axis /= np.linalg.norm(axis)
        y = rng.integers(0, 2, n)
        X = rng.normal(size=(n, d)) + np.outer(y, np.sqrt(2) * reach * axis)
        model = PrivateAUCClassifier(epsilon, min(0.1 / n, n**-1.5), bounds=(-3.5, 4.5)).fit(X, y)
        w = model.coef_[0]
        aucs.append(norm.cdf(reach * (w @ axis) / np.linalg.norm(w)))
    expected, low, high = expected_auc(n, d, epsilon=epsilon)
    assert abs(np.mean(aucs) - expected) < 0.03
    assert low <= expected <= high


def test_more_of_everything_helps_and_words_say_it():
    base = expected_auc(1000, 10, epsilon=0.5)[0]
    assert expected_auc(2000, 10, epsilon=0.5)[0] > base
    assert expected_auc(1000, 10, epsilon=1.0)[0] > base
    assert expected_auc(1000, 10, epsilon=0.5, range_over_spread=50.0)[0] < base
    found = plan(1000, 10, epsilon=0.5)
    assert "1,000 examples, 10 features and epsilon 0.5" in found.statement()
    assert found.loss == pytest.approx(found.nonprivate_auc - found.private_auc)
    assert plan(1000, 10).loss <= 0.02
    size = found.smallest_n
    assert expected_auc(size, 10, epsilon=None)[0] - expected_auc(size, 10, epsilon=0.5)[0] <= 0.02
    assert plan(4000, 10, epsilon=0.5, n_persons=1000).private_auc == found.private_auc
    assert "not in reach" in plan(100, 50, epsilon=1e-9).statement()


@pytest.mark.parametrize(
    ("change", "words"),
    [({"n_persons": 2000}, "n_persons must lie"), ({"best_auc": 0.5}, "best_auc must lie"),
     ({"range_over_spread": 1.0}, "at least 2"), ({"positives": 0.0}, "positives"),
     ({"largest_loss": 0.0}, "largest_loss"), ({"largest_loss": 1e-9}, "no epsilon up to 10")],
)  # fmt: skip
def test_what_cannot_be_planned_is_refused(change, words):
    with pytest.raises(ValueError, match=words):
        plan(1000, 10, **change)
