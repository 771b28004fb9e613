# SPDX-License-Identifier: BSD-3-Clause
"""What the finished statistics say, against formulas over all pairs."""

import numpy as np
import pytest

from pairlearn import Hinge, Logistic, SquaredHinge, roc_auc
from pairlearn.distributed import (
    BinnedScores,
    LabelMoments,
    RowSample,
    ScoreHistogram,
    SlopeSums,
    Together,
    score_edges,
)
from pairlearn.distributed.statistics.sample import SampleKeys
from pairlearn.solvers import ClassMoments, Grid, solve_square_auc


@pytest.fixture
def table(rng):
    X = rng.normal(size=(400, 4))
    X[:, 3] = rng.standard_t(2, size=400)
    y = np.where(X @ [1.0, 0.5, 0.0, 0.2] + rng.normal(size=400) > 0.5, 1, 0)
    return X, y


def all_pairs(X, y):
    """Return the differences of all (positive, negative) pairs."""
    return (X[y == 1][:, None] - X[y == 0]).reshape(-1, X.shape[1])


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


def test_scatters_of_similar_and_dissimilar_pairs(rng):
    X, labels = rng.normal(size=(30, 2)), rng.integers(0, 3, 30)
    weight = rng.integers(1, 4, 30) * 1.0
    statistic = LabelMoments(max_classes=3)
    found = statistic.finish(halves(statistic, X, labels, weight)).pair_scatters()
    differences = X[:, None] - X
    outer = differences[..., None] * differences[:, :, None]
    products = weight[:, None] * weight * (1.0 - np.eye(30))
    same = labels[:, None] == labels
    for chosen, scatter in ((same, found.similar), (~same, found.dissimilar)):
        share = products * chosen / (products * chosen).sum()
        np.testing.assert_allclose(scatter, np.tensordot(share, outer, 2), rtol=1e-12, atol=1e-12)


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


@pytest.mark.parametrize(
    "loss", [Hinge(), SquaredHinge(), Logistic()], ids=lambda one: type(one).__name__
)
@pytest.mark.parametrize("n_bins", [16, 512])
def test_binned_pairs_bracket_the_risk_of_all_pairs(table, loss, n_bins):
    X, y = table
    w = np.array([0.8, 0.4, -0.1, 0.3])
    edges = score_edges(X @ w, (X @ w).min(), (X @ w).max(), n_bins)
    found = BinnedScores(w, edges, (0, 1)).finish(halves(BinnedScores(w, edges, (0, 1)), X, y))
    differences = all_pairs(X, y)
    exact = loss.values(differences @ w).mean()
    gradient = loss.slopes(differences @ w) @ differences / len(differences)
    value, found_gradient = found.risk(loss)
    excess = found.bins.excess(loss)
    assert value <= exact + 1e-12
    assert exact <= value + excess + 1e-12
    if n_bins == 512:
        assert excess < 1e-3 * exact
        size = np.abs(gradient).max()
        np.testing.assert_allclose(found_gradient, gradient, atol=5e-3 * size)


def test_a_gradient_in_two_passes_is_that_of_one(table):
    X, y = table
    w = np.array([0.8, 0.4, -0.1, 0.3])
    edges = score_edges(X @ w, -20.0, 20.0, 64)
    one = BinnedScores(w, edges, (0, 1))
    binned = one.finish(halves(one, X, y))
    value, gradient = binned.risk(SquaredHinge())
    histogram = ScoreHistogram(w, edges, (0, 1))
    bins = histogram.finish(halves(histogram, X, y)).bins
    value_of_bins, slopes = bins.risk(SquaredHinge())
    two = SlopeSums(w, edges, (0, 1), slopes, bins.weight)
    assert value_of_bins == pytest.approx(value, rel=1e-12)
    np.testing.assert_allclose(two.finish(halves(two, X, y)), gradient, rtol=1e-10)


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


def test_coarser_bins_hold_the_same_scores(table):
    X, y = table
    fine, coarse = np.linspace(-2, 2, 31), np.linspace(-2, 2, 31)[3::4]
    bins = []
    for edges in (fine, coarse):
        statistic = ScoreHistogram([1.0], edges, (0, 1))
        bins.append(statistic.finish(halves(statistic, X[:, :1], y)).bins)
    merged = bins[0].coarser(4)
    for name in ("weight", "mean", "variance", "low", "high"):
        np.testing.assert_allclose(getattr(merged, name), getattr(bins[1], name), atol=1e-12)


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


def test_many_states_at_once_give_the_state_of_pairs():
    rng = np.random.default_rng(2)
    grid = Grid.between(np.full(2, -5.0), np.full(2, 5.0))
    for statistic in (LabelMoments(3), LabelMoments(3, grid), Together({"m": LabelMoments(3)})):
        states = []
        for k in range(21):
            X = rng.normal(size=(k, 2)) * 10.0 ** (k % 9)
            states.append(statistic.partial_state(X, rng.integers(0, 3, k)))
        expected = {}
        for state in states:
            expected = statistic.merge(expected, state)
        found = statistic.merge_all(states)
        assert {k: v.tobytes() for k, v in found.items()} == {
            k: v.tobytes() for k, v in expected.items()
        }
        assert statistic.merge_all(iter(states)).keys() == found.keys()
        assert statistic.merge_all([]) == statistic.merge_all([{}, {}]) == {}
        assert statistic.merge_all(states[3:4]) == states[3]


def test_names_of_statistics_together_hold_no_slash():
    # Arrays of a state are named after the statistic, a slash and themselves.
    with pytest.raises(ValueError, match="must not hold '/', got 'a/b'"):
        Together({"a/b": LabelMoments()})


def test_statistics_together_merge_in_the_tree_of_each():
    rng = np.random.default_rng(3)
    edges = np.linspace(-2.0, 2.0, 7)
    alone = BinnedScores(np.ones(2), edges, (0, 1))
    both = Together({"bins": alone})
    parts = [(rng.normal(size=(9, 2)), np.arange(9) % 2) for _ in range(19)]
    expected = alone.merge_all([alone.partial_state(*part) for part in parts])
    found = both.merge_all(both.partial_state(*part) for part in parts)
    for name, value in expected.items():
        assert found[f"bins/{name}"].tobytes() == value.tobytes()


@pytest.mark.parametrize("n_parts", [1, 7, 40])
def test_keys_first_and_then_rows_make_the_same_sample(n_parts):
    rng = np.random.default_rng(n_parts)
    X = np.round(rng.normal(size=(900, 2)), 1)  # many rows are equal
    y = rng.choice(["a", "b", "c"], size=900, p=[0.7, 0.29, 0.01])
    weight = rng.integers(0, 3, 900).astype(float)
    parts = np.array_split(rng.permutation(900), n_parts)

    def state_of(statistic):
        return statistic.merge_all(
            statistic.partial_state(X[part], y[part], weight[part]) for part in parts
        )

    plain, keys = RowSample(30, seed=5), SampleKeys(30, seed=5)
    limits = keys.finish(state_of(keys))
    # A short class is in the sample as a whole.
    assert set(limits) == {"a", "b"}
    limited = RowSample(30, seed=5, limits=limits)
    found, expected = (one.finish(state_of(one)) for one in (limited, plain))
    for field in ("X", "labels", "weight"):
        np.testing.assert_array_equal(getattr(found, field), getattr(expected, field))
    np.testing.assert_array_equal(found.keys.hashes, expected.keys.hashes)
    assert found.fingerprint == expected.fingerprint
    sent, before = (
        sum(len(one.partial_state(X[part], y[part], weight[part])["rows"]) for part in parts)
        for one in (limited, plain)
    )
    assert sent < before or n_parts == 1


def test_bins_that_were_packed_say_the_same():
    rng = np.random.default_rng(0)
    X, y = np.round(rng.normal(size=(400, 1)), 2), rng.integers(0, 2, 400)
    statistic = ScoreHistogram([1.0], np.linspace(-2.0, 2.0, 999), (0, 1))
    for weight in (None, np.full(400, 0.5), rng.integers(1, 400, 400) * 1e9):
        state = statistic.merge(
            statistic.partial_state(X[:150], y[:150], None if weight is None else weight[:150]),
            statistic.partial_state(X[150:], y[150:], None if weight is None else weight[150:]),
        )
        bins = statistic.bins(state)
        own = np.ones(400) if weight is None else weight
        place = np.searchsorted(statistic.edges, X[:, 0], side="right")
        for kind in (0, 1):
            total = np.bincount(place[y == kind], own[y == kind], minlength=1000)
            np.testing.assert_allclose(bins.weight[kind], total, rtol=1e-15)
            for k in np.unique(place[y == kind]):
                scores = X[(y == kind) & (place == k), 0]
                assert (bins.low[kind, k], bins.high[kind, k]) == (scores.min(), scores.max())
                heavy = own[(y == kind) & (place == k)]
                mean = np.average(scores, weights=heavy)
                assert bins.mean[kind, k] == pytest.approx(mean, rel=1e-12)
                spread = np.average((scores - mean) ** 2, weights=heavy)
                assert bins.variance[kind, k] == pytest.approx(spread, abs=1e-12)
        assert state["cells"].dtype == np.uint16
