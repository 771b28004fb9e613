# SPDX-License-Identifier: BSD-3-Clause
"""What a metric learner chooses, it chooses with the weights: step size, start and threshold."""

import numpy as np
import pytest

from pairlearn import MetricLearner
from pairlearn.estimators import MetricSGD
from pairlearn.estimators.metric import descent
from pairlearn.estimators.metric.descent import start_from, unit_step
from pairlearn.losses import DistanceHinge
from pairlearn.metrics import roc_auc
from pairlearn.scores import MahalanobisScore


def two_worlds(n=400):
    """Rows at two places; the label of the first kind follows from the place, else it is turned."""
    rng = np.random.default_rng(0)
    place, first = np.arange(n) % 2, rng.random(n) < 0.5
    X = rng.normal(size=(n, 2)) * [0.3, 1.0] + 4.0 * place[:, None] * [1, 0]
    return X, np.where(first, place, 1 - place), first


def pairs_of(X, place, n=400):
    """Pairs of rows that are similar at one place, and the other way round after half of them."""
    rng = np.random.default_rng(1)
    i, j = rng.integers(0, len(X), (2, n))
    similar = np.where(place[i] == place[j], 1, -1)
    first = np.arange(n) < n // 2
    return np.stack([X[i], X[j]], axis=1), np.where(first, similar, -similar), first


def test_neighbours_vote_and_are_asked_with_their_weights():
    X, y, first = two_worlds()
    solver = MetricSGD(step_size="held_out", n_passes=5)
    # of seven neighbours one in 128 times none is of the first kind
    model = MetricLearner(solver=solver, n_neighbors=7, random_state=0)
    # without weights each place holds as many of one label as of the other
    assert model.fit(X, y).held_out_score_ < 0.8
    assert model.fit(X, y, np.where(first, 1.0, 1e-6)).held_out_score_ > 0.95


def test_given_pairs_are_judged_and_cut_with_their_weights():
    X, y, first = two_worlds()
    place = np.where(first, y, 1 - y)
    pairs, similar, ahead = pairs_of(X, place)
    weight = np.where(ahead, 1.0, 1e-6)
    model = MetricLearner(solver=MetricSGD(step_size="held_out", n_passes=5), random_state=0)
    model.fit(pairs, similar, sample_weight=weight)
    assert model.held_out_score_ > 0.95
    assert np.mean(model.predict(pairs[ahead]) == similar[ahead]) > 0.95
    distances = model.pair_distance(pairs)
    weighted = roc_auc(similar, -distances, sample_weight=weight)
    assert model.score(pairs, similar, sample_weight=weight) == weighted
    assert weighted > 0.95 > model.score(pairs, similar)


def test_a_threshold_of_weighted_pairs_is_that_of_repeated_ones():
    rng = np.random.default_rng(0)
    pairs, similar = rng.normal(size=(60, 2, 3)), rng.choice([-1, 1], 60)
    model = MetricLearner(solver=MetricSGD(step_size=1e-3), random_state=0).fit(pairs, similar)
    weight = rng.integers(0, 4, 60)
    for strategy in ("accuracy", "balanced_accuracy", "f1"):
        model.calibrate_threshold(pairs, similar, strategy=strategy, sample_weight=weight)
        weighted = model.threshold_
        repeated = np.repeat(np.arange(60), weight)
        model.calibrate_threshold(pairs[repeated], similar[repeated], strategy=strategy)
        assert weighted == model.threshold_
    with pytest.raises(ValueError, match=r"similar .* and dissimilar"):
        model.calibrate_threshold(pairs, similar, sample_weight=(similar > 0).astype(float))


@pytest.mark.parametrize("kind", ["full", "diagonal", "low_rank"])
def test_start_and_unit_of_weighted_pairs_are_those_of_repeated_ones(kind):
    rng = np.random.default_rng(0)
    score = MahalanobisScore(kind, rank=2) if kind == "low_rank" else MahalanobisScore(kind)
    loss, X = DistanceHinge(), rng.normal(size=(30, 3)) * [1.0, 2.0, 5.0]
    weight, pair_weight = rng.integers(1, 4, (2, 30))
    v = X - np.roll(X, 1, axis=0)
    n = pair_weight.sum()
    weighted = v, pair_weight / n
    repeated = np.repeat(v, pair_weight, axis=0), np.full(n, 1.0 / n)
    assert unit_step(score, loss, weighted) == pytest.approx(unit_step(score, loss, repeated))
    a = start_from(score, loss, "identity", X, weighted, weight=weight.astype(float))
    b = start_from(score, loss, "identity", np.repeat(X, weight, axis=0), repeated)
    np.testing.assert_allclose(np.abs(a), np.abs(b), rtol=1e-9)


def test_a_far_example_of_hardly_any_weight_hardly_counts():
    """The unit of the steps is a mean of fourth powers: one far row would make them vanish."""
    X, y, _ = two_worlds()
    weight = np.ones(len(y))
    alone = MetricLearner(scaling=None, random_state=0).fit(X, y)
    X[7], weight[7] = 1e4, 1e-30
    beside = MetricLearner(scaling=None, random_state=0).fit(X, y, weight)
    # a thousand drawn pairs stand for all: the two draws differ
    assert beside.step_size_ == pytest.approx(alone.step_size_, rel=0.5)


def test_candidates_are_judged_by_examples_of_every_label(monkeypatch):
    """The first examples of sorted data have one label, and any metric is right about them."""
    monkeypatch.setattr(descent, "_NEIGHBORS", 60)
    monkeypatch.setattr(descent, "_QUERIES", 30)
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 150)
    X = np.column_stack([y + 0.3 * rng.normal(size=300), 20.0 * rng.normal(size=(300, 4))])
    solver = MetricSGD(step_size="held_out", n_passes=5)
    model = MetricLearner(solver=solver, scaling=None, random_state=0).fit(X, y)
    assert model.step_size_ > 0
    assert model.held_out_score_ < 1
