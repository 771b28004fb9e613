# SPDX-License-Identifier: BSD-3-Clause
"""What the finished statistics say, against formulas over all pairs."""

import numpy as np
import pytest

from pairlearn import roc_auc, roc_auc_interval
from pairlearn.cluster import (
    ColumnExtents,
    LabelMoments,
    RowContent,
    RowSample,
    ScoreHistogram,
    Together,
    score_edges,
)
from pairlearn.solvers import ClassMoments, solve_square_auc


@pytest.fixture
def table(rng):
    X = rng.normal(size=(400, 4))
    X[:, 3] = rng.standard_t(2, size=400)
    y = np.where(X @ [1.0, 0.5, 0.0, 0.2] + rng.normal(size=400) > 0.5, 1, 0)
    return X, y


def halves(statistic, X, y, weight=None):
    cut = len(y) // 3
    weights = (None, None) if weight is None else (weight[:cut], weight[cut:])
    return statistic.merge(
        statistic.partial_state(X[:cut], y[:cut], weights[0]),
        statistic.partial_state(X[cut:], y[cut:], weights[1]),
    )


def test_moments_solve_the_square_loss_as_one_machine_does(table):
    X, y = table
    found = LabelMoments().finish(halves(LabelMoments(), X, y)).two_classes()
    expected = solve_square_auc(X, 2 * y - 1.0, ridge=0.1)
    np.testing.assert_allclose(found.solve(ridge=0.1), expected, rtol=1e-12)


def test_moments_come_back_from_their_state(table):
    X, y = table
    moments = ClassMoments(4).add(X, 2 * y - 1.0)
    again = ClassMoments.from_state(moments.state())
    np.testing.assert_array_equal(again.covariance, moments.covariance)
    with pytest.raises(ValueError, match="the saved sums"):
        ClassMoments.from_state({**moments.state(), "table": np.zeros(3)})


def test_too_many_classes_and_texts_among_numbers_are_refused():
    statistic = LabelMoments()
    with pytest.raises(ValueError, match="y has 3 classes"):
        statistic.partial_state(np.eye(3), [0, 1, 2])
    texts, numbers = (statistic.partial_state(np.eye(2), y) for y in (["a", "b"], [0, 1]))
    with pytest.raises(ValueError, match="texts in one partition and numbers in another"):
        statistic.merge(texts, numbers)

    with pytest.raises(ValueError, match="mixes values of the types int and str"):
        statistic.partial_state(np.eye(2), np.array([0, "a"], dtype=object))
    objects = statistic.partial_state(np.eye(2), np.array([1, 0], dtype=object))
    for a, b in ((objects, numbers), (numbers, objects)):
        assert statistic.finish(statistic.merge(a, b)).n_examples.tolist() == [2, 2]
    with pytest.raises(ValueError, match="texts in one partition and numbers in another"):
        statistic.merge(texts, objects)


@pytest.mark.parametrize("missing", [[1.0, np.nan], np.array(["a", None], dtype=object)])
def test_missing_labels_are_refused(missing):
    with pytest.raises(ValueError, match="lacks 1 labels"):
        LabelMoments().partial_state(np.eye(2), missing)


@pytest.mark.parametrize(("label", "kind"), [("a", "string"), (True, "boolean"), (1, "Int64")])
def test_missing_labels_of_pandas_are_refused(label, kind):
    pd = pytest.importorskip("pandas")
    with pytest.raises(ValueError, match="lacks 1 labels"):
        LabelMoments().partial_state(np.eye(2), pd.array([label, None], dtype=kind))


@pytest.mark.parametrize("n_bins", [4, 64, 4096])
@pytest.mark.parametrize("rounded", [False, True])
def test_the_half_width_of_the_auc_holds(table, n_bins, rounded):
    X, y = table
    scores = X @ [1.0, 0.3, 0.0, 0.0]
    scores = scores.round(1) if rounded else scores
    statistic = ScoreHistogram([1.0], score_edges(scores, -9.0, 9.0, n_bins), (0, 1))
    found = statistic.finish(halves(statistic, scores[:, None], y))
    assert abs(found.auc - roc_auc(y, scores)) <= found.half_width + 1e-12
    if n_bins == 4096:
        # Equal scores are ties, not doubt.
        assert found.half_width < 1e-3


def test_curve_and_calibration_of_a_histogram(table):
    X, y = table
    scores = X[:, 0]
    statistic = ScoreHistogram([1.0], np.linspace(-2, 2, 20), (0, 1))
    found = statistic.finish(halves(statistic, scores[:, None], y))
    false, true, thresholds = found.roc()
    for k in range(1, 20):
        assert true[k] == pytest.approx(np.mean(scores[y == 1] >= thresholds[k]), abs=1e-12)
        assert false[k] == pytest.approx(np.mean(scores[y == 0] >= thresholds[k]), abs=1e-12)
    mean, share, weight = found.calibration()
    assert weight.sum() == 400
    assert mean @ weight == pytest.approx(scores.sum())
    assert share @ weight == pytest.approx(y.sum())


@pytest.mark.parametrize("edges", [[1.0, 0.0], [np.nan, 1.0]])
def test_edges_that_are_no_edges_are_refused(edges):
    with pytest.raises(ValueError, match="must be numbers that increase"):
        ScoreHistogram([1.0], edges, (0, 1))


def test_a_sample_is_uniform():
    # Twenty examples in two partitions, five drawn: each is drawn with probability 1/4. With 500
    # draws the standard deviation of a share is .0194; five of them are exceeded with 1e-5.
    X, y = np.arange(20.0)[:, None], np.zeros(20)
    drawn = np.zeros(20)
    for seed in range(500):
        statistic = RowSample(5, seed)
        a, b = statistic.partial_state(X[:14], y[:14]), statistic.partial_state(X[14:], y[14:])
        drawn[statistic.finish(statistic.merge(a, b)).X[:, 0].astype(int)] += 1
    assert np.abs(drawn / 500 - 0.25).max() < 5 * 0.0194


def test_batches_of_a_partition_are_sampled_as_one():
    # Spark and Arrow give a partition in batches. Keys by place would take the same places of each.
    X, y = np.arange(400.0)[:, None], np.zeros(400)
    statistic = RowSample(40)
    batches = [statistic.partial_state(X[k : k + 50], y[k : k + 50]) for k in range(0, 400, 50)]
    found = statistic.finish(statistic.merge_all(batches)).X[:, 0].astype(int)
    # 40 of 400 rows hit about 29 of 50 places; fewer than 15 places has a chance below 1e-9.
    assert len(np.unique(found % 50)) > 15
    np.testing.assert_array_equal(found, statistic.finish(statistic.partial_state(X, y)).X[:, 0])


def test_a_sample_of_few_different_rows_is_all_of_the_data(rng):
    X, y = rng.integers(0, 3, size=(500, 2)).astype(float), np.zeros(500)
    statistic = RowSample(20)
    found = statistic.finish(halves(statistic, X, y))
    rows, counts = np.unique(X, axis=0, return_counts=True)
    order = np.lexsort(found.X.T[::-1])
    np.testing.assert_array_equal(found.X[order], rows)
    np.testing.assert_array_equal(found.weight[order], counts)
    # Where all copies have room, each of them is a row.
    small = statistic.finish(halves(statistic, X[:18], y[:18]))
    assert len(small.weight) == 0
    np.testing.assert_array_equal(np.sort(small.X, axis=0), np.sort(X[:18], axis=0))


def test_names_of_statistics_together_hold_no_slash():
    # Arrays of a state are named after the statistic, a slash and themselves.
    with pytest.raises(ValueError, match="must not hold '/', got 'a/b'"):
        Together({"a/b": LabelMoments()})


def test_the_interval_of_a_histogram_is_wider_than_that_of_the_scores(table):
    X, y = table
    scores = X[:, 0]
    exact = roc_auc_interval(y, scores)
    for n_bins in (8, 64):
        edges = np.quantile(scores, np.arange(1, n_bins) / n_bins)
        statistic = ScoreHistogram([1.0], edges, (0, 1))
        found = statistic.finish(halves(statistic, scores[:, None], y)).interval()
        assert found.low < exact.low < exact.auc < exact.high < found.high
        assert found.standard_error == pytest.approx(exact.standard_error, rel=0.2)
    weighted = statistic.finish(statistic.partial_state(scores[:, None], y, np.full(400, 0.5)))
    assert np.isnan(weighted.interval().low)


def test_content_is_of_rows_labels_weights_and_queries(table):
    X, y = table
    content = RowContent()
    known = content.finish(content.partial_state(X, y))
    order = np.argsort(X[:, 0])
    assert content.finish(halves(content, X[order], y[order])) == known
    others = [
        content.partial_state(np.where(np.arange(400)[:, None] == 7, 0.5, X), y),
        content.partial_state(X, 1 - y),
        content.partial_state(X, y, np.full(400, 2.0)),
        content.partial_state(X, y, qid=np.arange(400)),
        content.partial_state(X, np.where(y == 1, "a", "b")),
    ]
    assert len({known, *map(content.finish, others)}) == 6
    assert content.finish({}) == (0, 0)


def test_statistics_that_miss_labels_say_so(table):
    X, _ = table
    for statistic in (LabelMoments(), RowSample(), ScoreHistogram(np.ones(4), [0.0], (0, 1))):
        with pytest.raises(ValueError, match="needs labels; pass y"):
            statistic.partial_state(X)
    both = Together({"a": ColumnExtents(), "b": ColumnExtents()})
    with pytest.raises(ValueError, match="4 features, another 2"):
        both.merge(both.partial_state(X), both.partial_state(X[:, :2]))
