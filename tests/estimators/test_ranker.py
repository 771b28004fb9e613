# SPDX-License-Identifier: BSD-3-Clause
"""PairwiseRanker and pairs within queries: what they find, their laws, their errors."""

import copy
import pickle

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

from pairlearn import (
    SGD,
    Constant,
    Hinge,
    LinearScore,
    Logistic,
    PairwiseRanker,
    PairwiseSGD,
    PreviousExample,
    PreviousOfQuery,
    Problem,
    reference,
)
from pairlearn.losses import GapWeighted, Welsch
from pairlearn.pairings.queries import GroupedSource

W = np.array([1.0, -1.0, 0.5, 0.0])


def task(n_queries=150, size=12, seed=0):
    """Return graded documents whose scores are comparable within a query only."""
    rng = np.random.default_rng(seed)
    qid = np.repeat(np.arange(n_queries), size)
    X = rng.normal(size=(len(qid), 4)) + 3.0 * rng.normal(size=(n_queries, 4))[qid]
    merit = X @ W + 0.3 * rng.normal(size=len(qid))
    order = np.argsort(np.lexsort((merit, qid))).reshape(n_queries, size) % size
    grades = np.floor(5 * order / size).ravel().astype(float)
    shuffled = rng.permutation(len(qid))
    return X[shuffled], grades[shuffled], qid[shuffled]


def angle(w):
    return float(w @ W / np.linalg.norm(w) / np.linalg.norm(W))


def test_learns_within_queries():
    X, y, qid = task()
    ranker = PairwiseRanker(random_state=0).fit(X, y, qid=qid)
    assert angle(ranker.coef_) > 0.99
    assert ranker.score(X, y, qid=qid) > 0.95
    assert ranker.pair_accuracy(X, y, qid=qid) > 0.9
    assert ranker.held_out_accuracy_ > 0.9
    # Grades mean nothing across queries: ranking all examples together is worse.
    mixed = PairwiseRanker(random_state=0).fit(X, y)
    assert mixed.pair_accuracy(X, y, qid=qid) < ranker.pair_accuracy(X, y, qid=qid)


def test_global_ranking_of_a_real_target():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 4))
    y = np.exp(X @ W) - 5.0
    ranker = PairwiseRanker(random_state=0).fit(X, y)
    assert ranker.score(X, y) > 0.98


@pytest.mark.parametrize("loss", ["hinge", "logistic", "square"])
def test_weight_by_grade(loss):
    X, y, qid = task(n_queries=60)
    ranker = PairwiseRanker(loss, weight_by_grade=True, random_state=0).fit(X, y, qid=qid)
    assert angle(ranker.coef_) > 0.98


def test_a_monotone_change_of_grades_changes_nothing_without_weights():
    X, y, qid = task(n_queries=40)
    parts = {"solver": SGD(step_size=0.01, n_passes=5), "random_state": 0}
    for loss in ("hinge", "logistic"):
        a = PairwiseRanker(loss, **parts).fit(X, y, qid=qid)
        b = PairwiseRanker(loss, **parts).fit(X, np.exp(y) - 7.0, qid=qid)
        np.testing.assert_array_equal(a.coef_, b.coef_)
        weighted = PairwiseRanker(loss, weight_by_grade=True, **parts)
        c, d = (clone(weighted).fit(X, grades, qid=qid).coef_ for grades in (y, np.exp(y)))
        assert not np.allclose(c, d)


def test_sparse_is_dense():
    X, y, qid = task(n_queries=30)
    X[np.abs(X) < 1.0] = 0.0
    parts = {"solver": SGD(step_size=0.01, n_passes=5), "random_state": 0}
    dense = PairwiseRanker(**parts).fit(X, y, qid=qid)
    sparse = PairwiseRanker(**parts).fit(scipy.sparse.csr_array(X), y, qid=qid)
    np.testing.assert_allclose(sparse.coef_, dense.coef_, atol=1e-12)


def test_queries_without_a_pair_are_skipped_and_counted():
    X, y, qid = task(n_queries=20)
    extra = np.random.default_rng(1).normal(size=(5, 4))
    ranker = PairwiseRanker(solver=SGD(step_size=0.01, n_passes=3), random_state=0)
    a = clone(ranker).fit(X, y, qid=qid)
    b = clone(ranker).fit(
        np.vstack([X, extra]),
        np.concatenate([y, [1, 2, 3, 3, 3]]),
        qid=np.concatenate([qid, [900, 901, 902, 902, 902]]),
    )
    assert (a.n_queries_, a.n_single_, a.n_flat_) == (20, 0, 0)
    assert (b.n_queries_, b.n_single_, b.n_flat_) == (20, 2, 1)
    np.testing.assert_array_equal(a.coef_, b.coef_)


# ------------------------------------------------------------------------------------ streams


@pytest.mark.parametrize("storage", [np.asarray, scipy.sparse.csr_array])
def test_a_stream_does_not_depend_on_its_chunks(storage):
    X, y, qid = task(n_queries=40)
    models = []
    for size in (len(y), 100, 7):
        solver = SGD(step_size=0.05, pairing=PreviousOfQuery(max_open=25))
        model = PairwiseRanker(solver=solver, random_state=0)
        for start in range(0, len(y), size):
            chunk = slice(start, start + size)
            model.partial_fit(storage(X[chunk]), y[chunk], qid=qid[chunk])
        models.append(model)
    for other in models[1:]:
        np.testing.assert_allclose(other.coef_, models[0].coef_, atol=1e-12)
        assert other.n_steps_ == models[0].n_steps_
        assert other.n_forgotten_ == models[0].n_forgotten_ > 0


def test_a_stream_is_the_reference():
    X, y, qid = task(n_queries=10)
    solver = SGD(step_size=0.05, schedule="constant", averaging="last")
    model = PairwiseRanker(solver=solver, scaling=None)
    model.partial_fit(X, y, qid=qid)
    latest, partners = {}, []
    for i, q in enumerate(qid):
        if q in latest:
            partners.append((i, [latest[q]]))
        latest[q] = i
    iterates = reference.pairwise_sgd(
        Hinge(),
        X,
        y,
        partners=partners,
        step_sizes=np.full(len(partners), 0.05),
        project=lambda w: w,
        w_start=np.zeros(4),
    )
    np.testing.assert_allclose(model.coef_, iterates[-1], atol=1e-12)
    assert model.n_steps_ == len(y) - 10


def test_a_stream_learns():
    X, y, qid = task(n_queries=1000)
    model = PairwiseRanker(random_state=0)
    for start in range(0, len(y), 500):
        chunk = slice(start, start + 500)
        model.partial_fit(X[chunk], y[chunk], qid=qid[chunk])
    assert angle(model.coef_) > 0.99


@given(
    qid=st.lists(st.integers(0, 5), min_size=1, max_size=40),
    cap=st.integers(1, 6),
    cuts=st.lists(st.integers(0, 40), max_size=4),
)
def test_memory_is_one_example_of_each_open_query(qid, cap, cuts):
    """Against a list of all examples, whatever the chunks."""
    source = GroupedSource(cap)
    open_, pairs = [], []
    for i, q in enumerate(qid):
        pairs += [(i, j) for j, p in open_ if p == q]
        open_ = [(j, p) for j, p in open_ if p != q] + [(i, q)]
        open_ = open_[-cap:]
    found, remembered, begin = [], [], 0
    for end in [*sorted(min(c, len(qid)) for c in cuts), len(qid)]:
        rows = [*remembered, *range(begin, end)]
        arrival = source.arrive_grouped(np.zeros(end - begin), np.array(qid[begin:end]))
        found += [
            (rows[a], rows[b]) for a, b in zip(arrival.plan.left, arrival.plan.right, strict=True)
        ]
        remembered, begin = [rows[k] for k in arrival.keep], end
        assert len(remembered) <= cap
    assert found == pairs
    assert remembered == [i for i, _ in open_]


@given(seed=st.integers(0, 1000), n_queries=st.integers(1, 8))
@settings(max_examples=30)
def test_the_path_meets_the_latest_of_its_query(seed, n_queries):
    qid = np.random.default_rng(seed).integers(0, n_queries, 30)
    source = PreviousOfQuery(qid).offline(30, np.random.default_rng(seed))
    latest = {}
    for count in (1, 50, 20):
        plan = source.draw(count)
        for i, j in zip(plan.left, plan.right, strict=True):
            assert j == latest.get(qid[i], i)
            latest[qid[i]] = i


def test_gap_weighted_loss():
    for base in (Hinge(margin=2.0), Logistic(one_sided=True)):
        loss = GapWeighted(base=base)
        assert loss.one_sided == base.one_sided
        pair = (0.3, 4.0, 1.5, loss.parameter)
        assert loss.value(*pair) == pytest.approx(2.5 * base.value(*pair))
        assert loss.derivative(*pair) == pytest.approx(2.5 * base.derivative(*pair))
        assert pickle.loads(pickle.dumps(loss)) == loss
        assert copy.deepcopy(loss) == loss
    X, y, qid = task(n_queries=5)
    solver = PairwiseSGD(PreviousOfQuery(qid), Constant(0.01))
    loss = GapWeighted(base=Logistic())
    solution = solver.solve(Problem(LinearScore(), loss), X, y, n_steps=200, rng=0)
    plan = PreviousOfQuery(qid).offline(len(y), np.random.default_rng(0)).draw(200)
    iterates = reference.pairwise_sgd(
        loss,
        X,
        y,
        partners=[(i, [j]) for i, j in zip(plan.left, plan.right, strict=True)],
        step_sizes=np.full(200, 0.01),
        project=lambda w: w,
        w_start=np.zeros(4),
    )
    np.testing.assert_allclose(solution.w, iterates[-1], atol=1e-12)


# ---------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"loss": "rank"}, "loss must be one of"),
        ({"loss": Welsch()}, "opposite_labels_only"),
        ({"solver__step_size": 0.0}, "step_size must be a positive number"),
        ({"solver__radius": -1.0}, "radius must be a positive number"),
        ({"solver__n_passes": -1}, "n_passes must be a positive number"),
        ({"validation_fraction": 1.5}, "strictly between 0 and 1"),
        ({"solver__schedule": "cosine"}, "schedule must be one of"),
        ({"solver__averaging": "median"}, "averaging must be one of"),
        ({"solver__step_size": "theory"}, "PairwiseRanker has no such bound; pass a number or"),
        ({"solver__pairing": "fifo"}, "'fifo' does not pair within the given queries"),
        ({"solver__pairing": PreviousExample()}, "does not pair within the given queries"),
        ({"solver": "exact"}, "PairwiseRanker has no way to train by Exact"),
        ({"solver": "sdg"}, "did you mean 'sgd'"),
    ],
)
def test_bad_parameters(settings, message):
    X, y, qid = task(n_queries=5)
    with pytest.raises(ValueError, match=message):
        PairwiseRanker().set_params(**settings).fit(X, y, qid=qid)


def test_other_bad_input():
    X, y, qid = task(n_queries=5)
    with pytest.raises(ValueError, match="one query for each"):
        PairwiseRanker().fit(X, y, qid=qid[:-1])
    with pytest.raises(ValueError, match="No query has two different grades"):
        PairwiseRanker().fit(X, y, qid=np.arange(len(y)))
    with pytest.raises(ValueError, match="No query has two different grades"):
        PairwiseRanker().fit(X, np.ones(len(y)))
    with pytest.raises(ValueError, match="qid has no query in row 0"):
        PairwiseRanker().fit(X, y, qid=np.full(len(y), np.nan))
    with pytest.raises(ValueError, match="qid has no query in row 0"):
        PairwiseRanker().partial_fit(X, y, qid=np.array([None] * len(y)))
    with pytest.raises(ValueError, match="qid contains infinity"):
        PairwiseRanker().fit(X, y, qid=np.full(len(y), np.inf))
    with pytest.raises(ValueError, match="max_open must be at least 1"):
        PreviousOfQuery(max_open=0)
    with pytest.raises(ValueError, match="cannot rank examples without queries"):
        PairwiseRanker(solver=SGD(pairing=PreviousOfQuery())).partial_fit(X, y)
    model = PairwiseRanker().partial_fit(X, y, qid=qid)
    before = model.coef_.copy()
    with pytest.raises(ValueError, match="need qid with every chunk"):
        model.partial_fit(X, y)
    with pytest.raises(ValueError, match="qid needs a pairing within queries"):
        PairwiseRanker().partial_fit(X, y).partial_fit(X, y, qid=qid)
    np.testing.assert_array_equal(model.coef_, before)
    with pytest.raises(ValueError, match="need qid"):
        PreviousOfQuery().offline(5, np.random.default_rng(0))


# ------------------------------------------------------------------------------------ weights


@pytest.mark.parametrize("scaling", ["auto", None])
@pytest.mark.parametrize(
    ("qid", "message"),
    [
        ([np.nan, *["a"] * 59], "qid has no query in row 0"),
        ([7, *["a"] * 59], "qid mixes values of the types int and str"),
        (np.ma.masked_less(np.arange(60) // 6, 1), "qid is a masked array with 6 masked values"),
        (np.arange(61) // 6, r"one query for each of the 60 rows of X, got shape \(61,\)"),
    ],
)
def test_a_chunk_of_wrong_queries_is_refused(scaling, qid, message):
    """Where scales are learned, parts were taken first: a gap became the query "nan"."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 3)), rng.integers(0, 3, 60)
    model = PairwiseRanker(scaling=scaling)
    with pytest.raises(ValueError, match=message):
        model.partial_fit(X, y, qid=qid)
    assert not hasattr(model, "coef_")


@pytest.mark.parametrize("grouped", [True, False])
def test_an_example_of_weight_zero_is_absent(grouped):
    X, y, qid = task(n_queries=40)
    weight = np.random.default_rng(0).integers(0, 3, len(y)).astype(float)
    some = weight > 0
    parts = {"solver": SGD(n_passes=10), "random_state": 0}
    whole = PairwiseRanker(**parts).fit(X, y, qid if grouped else None, weight)
    part = PairwiseRanker(**parts).fit(
        X[some], y[some], qid[some] if grouped else None, 5.0 * weight[some]
    )
    np.testing.assert_allclose(whole.coef_, part.coef_, atol=1e-10)
    ones = PairwiseRanker(**parts).fit(X, y, qid, np.full(len(y), 3.0))
    np.testing.assert_array_equal(ones.coef_, PairwiseRanker(**parts).fit(X, y, qid).coef_)


def test_the_heavy_queries_decide():
    X, y, qid = task()
    odd = qid % 2 == 1
    flipped = np.where(odd, y.max() - y, y)
    for heavy, sign in ((~odd, 1.0), (odd, -1.0)):
        weight = np.where(heavy, 1.0, 0.1)
        model = PairwiseRanker(solver=SGD(step_size=1e-3), random_state=0)
        model.fit(X, flipped, qid, weight)
        assert sign * angle(model.coef_) > 0.95


def test_weights_in_streams():
    X, y, qid = task(n_queries=30)
    parts = {"schedule": "constant", "averaging": "last"}
    n = len(y)
    heavy = PairwiseRanker(solver=SGD(step_size=0.01, **parts))
    heavy.partial_fit(X, y, qid, np.full(n, 2.0))
    long = PairwiseRanker(solver=SGD(step_size=0.04, **parts)).partial_fit(X, y, qid)
    np.testing.assert_allclose(heavy.coef_, long.coef_, atol=1e-12)
    with pytest.raises(ValueError, match="for every chunk of a stream or for none"):
        heavy.partial_fit(X, y, qid)


@pytest.mark.parametrize("grouped", [True, False])
def test_more_columns_than_rows_change_nothing(grouped):
    # Rows in 8 columns, and the same rows turned into 150: all distances stay, so the scores do.
    # (The step size is given: turned rows come to other folds.)
    rng = np.random.default_rng(4)
    Z = rng.normal(size=(60, 8))
    y = np.round(Z[:, 0] + 0.5 * rng.normal(size=60))
    turn = np.linalg.qr(rng.normal(size=(150, 8)))[0]
    qid = np.arange(60) // 6 if grouped else None
    narrow, wide = (
        PairwiseRanker(solver=SGD(step_size=0.05, n_passes=20), scaling=None, random_state=0).fit(
            X, y, qid
        )
        for X in (Z, Z @ turn.T)
    )
    np.testing.assert_allclose(wide.predict(Z @ turn.T), narrow.predict(Z), rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(wide.coef_, turn @ narrow.coef_, rtol=1e-7, atol=1e-9)


def test_queries_of_a_stream_have_one_type():
    X, y, qid = task(n_queries=10)
    ranker = PairwiseRanker(random_state=0).partial_fit(X[:100], y[:100], qid=qid[:100])
    before = ranker.coef_
    with pytest.raises(ValueError, match="a text and a number are different queries; give"):
        ranker.partial_fit(X[100:], y[100:], qid=qid[100:].astype(str))
    np.testing.assert_array_equal(ranker.coef_, before)
    ranker.partial_fit(X[100:], y[100:], qid=qid[100:].astype(float))
    whole = PairwiseRanker(random_state=0).partial_fit(X, y, qid=qid)
    np.testing.assert_allclose(ranker.coef_, whole.coef_, rtol=1e-12)


@pytest.mark.parametrize(
    ("given", "error", "told"),
    [
        ({"gain": "lin"}, ValueError, 'gain must be "exponential" or "linear"'),
        ({"k": -1}, ValueError, "k must be at least 1, got -1"),
        ({"k": "3"}, TypeError, "k must be a whole number"),
    ],
)
def test_what_a_score_needs_is_checked_in_a_fit(given, error, told):
    X, y, qid = task(n_queries=10)
    with pytest.raises(error, match=told):
        PairwiseRanker(**given).fit(X, y, qid=qid)
