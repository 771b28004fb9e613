# SPDX-License-Identifier: BSD-3-Clause
import numpy as np
import pytest

from pairlearn import AUCClassifier, roc_auc
from pairlearn.estimators.shared.held_out import held_out_auc
from pairlearn.metrics import AUCInterval, mean_auc_interval, roc_auc_interval


class Remembers(AUCClassifier):
    """Scores an example that it has seen by its label, and others by their first feature."""

    def fit(self, X, y, sample_weight=None):
        self.classes_ = np.unique(y)
        self.seen_ = {row.tobytes(): label for row, label in zip(X, y, strict=True)}
        return self

    def decision_function(self, X):
        return np.array([self.seen_.get(row.tobytes(), row[0] / 100) for row in X])


def test_no_row_is_scored_by_a_model_that_has_seen_it(rng):
    X = rng.normal(size=(200, 2))
    y = (X[:, 0] + rng.normal(size=200) > 0.5).astype(int)
    found = held_out_auc(Remembers(), X, y)
    assert sorted(found.rows.tolist()) == list(range(200))
    np.testing.assert_array_equal(found.scores, X[found.rows, 0] / 100)
    # parts are stratified, and the mean over them is near the AUC of all rows
    assert found.interval.auc == pytest.approx(roc_auc(y, X[:, 0]), abs=0.02)
    assert found.interval.low < found.interval.auc < found.interval.high


def test_few_examples_and_many(rng):
    X = rng.normal(size=(40, 2))
    y = np.zeros(40, dtype=int)
    y[:3] = 1
    assert held_out_auc(AUCClassifier(random_state=0), X, y) is None
    y[:5] = 1
    assert held_out_auc(AUCClassifier(random_state=0), X, y).n_folds == 2
    X = rng.normal(size=(12_000, 100))
    y = (X[:, 0] + rng.normal(size=12_000) > 0).astype(int)
    found = held_out_auc(Remembers(), X, y)
    assert found.n_folds == 1
    assert len(found.rows) in (2_400, 2_401, 2_402)


def test_the_mean_of_intervals():
    """Four independent parts of one kind: half the error of each, and four times the examples."""
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], [60, 40])
    part = roc_auc_interval(y, rng.normal(size=100) + y)
    mean = mean_auc_interval([part] * 4)
    assert mean.auc == pytest.approx(part.auc)
    assert mean.standard_error == pytest.approx(part.standard_error / 2)
    ratio = (mean.high - mean.low) / (part.high - part.low)
    assert 0.45 < ratio < 0.5  # half, and less of what is added for few examples
    assert mean_auc_interval([part]) is part
    perfect = roc_auc_interval([0, 0, 1, 1], [0.0, 0.1, 0.8, 0.9])
    found = mean_auc_interval([perfect] * 3)
    assert (found.auc, found.high) == (1.0, 1.0)
    assert perfect.low < found.low < 1.0
    with pytest.raises(ValueError, match="has no spread; make every part by roc_auc_interval"):
        mean_auc_interval([AUCInterval(0.8, 0.7, 0.87, 0.04, 0.95)] * 2)
    with pytest.raises(ValueError, match="at least one part, got none"):
        mean_auc_interval([])
    other = roc_auc_interval([0, 0, 1, 1], [1, 2, 3, 4], confidence=0.5)
    with pytest.raises(ValueError, match=r"must have one confidence, got \[0.5, 0.95\]"):
        mean_auc_interval([part, other])


@pytest.mark.thorough
def test_the_interval_covers(rng):
    """Of 200 data sets about 190 intervals of 95 % hold the AUC of new data.

    The number is binomial if the level is right: fewer than 178 has probability 1e-4.
    """
    covered = 0
    for _ in range(200):
        x = rng.normal(size=150)
        y = (x + 1.5 * rng.normal(size=150) > 0).astype(int)
        new = rng.normal(size=20_000)
        truth = roc_auc((new + 1.5 * rng.normal(size=20_000) > 0).astype(int), new)
        found = held_out_auc(Remembers(), np.column_stack([x, x]), y).interval
        covered += found.low <= truth <= found.high
    assert covered >= 178
