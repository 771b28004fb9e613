# SPDX-License-Identifier: BSD-3-Clause
"""An order that depends on the labels is noticed, once; an independent one is not."""

import warnings

import numpy as np
import pytest

from pairlearn import (
    AUCClassifier,
    OrderWarning,
    PairwiseRanker,
    roc_auc,
)
from pairlearn.solvers.streams.order import OrderWatch
from pairlearn.streams.named import NamedLearner

N = 4000


def sample(seed=0, n=2 * N):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    return X, 2.0 * X[:, 0] - X[:, 1] + rng.normal(size=n)


def orders(X, y, rng):
    """Return orders of the rows by name; the first is independent."""
    some = rng.permutation(len(y))
    blocks = np.arange(len(y)).reshape(20, -1)
    by_label = some[np.argsort(y[some], kind="stable")]
    return {
        "shuffled": some,
        "by label": by_label,
        "blocks": by_label[blocks[np.arange(20).reshape(2, 10).T.ravel()].ravel()],
        "by feature": np.argsort(X[:, 0]),
        "by a feature that does not matter": np.argsort(X[:, 3]),
    }


def told(learn):
    """Return what learning gives, and how often it warned of the order."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", OrderWarning)
        value = learn()
    return value, sum(issubclass(entry.category, OrderWarning) for entry in caught)


def chunks(model, X, y, size=150, **first):
    for begin in range(0, len(y), size):
        model.partial_fit(X[begin : begin + size], y[begin : begin + size], **first)
    return model


def measure_auc(X, target, X_test, target_test):
    y = (target > 0).astype(int)
    model = chunks(AUCClassifier(solver="sgd", random_state=0), X, y, classes=[0, 1])
    return roc_auc(target_test > 0, model.decision_function(X_test))


def measure_names(X, target, X_test, target_test, loss="hinge"):
    learner = NamedLearner(loss)
    for row, label in zip(X.tolist(), (target > 0).tolist(), strict=True):
        learner.learn_one(dict(zip("abcd", row, strict=True)), label)
    coef = np.array([learner.coefficients[name] for name in "abcd"])
    return roc_auc(target_test > 0, X_test @ coef)


def measure_ranking(X, target, X_test, target_test):
    model = chunks(PairwiseRanker(), X, np.digitize(target, [-1.0, 1.0]))
    return roc_auc(target_test > 0, model.predict(X_test))


MEASURES = {
    "AUCClassifier": measure_auc,
    "NamedLearner": measure_names,
    "PairwiseRanker": measure_ranking,
}


@pytest.mark.parametrize("kind", MEASURES)
def test_as_good_as_shuffled_or_a_warning(kind):
    X, target = sample()
    X, target, X_test, target_test = X[:N], target[:N], X[N:], target[N:]
    labels = np.sign(target)
    found = {}
    for name, order in orders(X, labels, np.random.default_rng(0)).items():
        found[name] = told(lambda o=order: MEASURES[kind](X[o], target[o], X_test, target_test))
    expected, n_warnings = found["shuffled"]
    assert n_warnings == 0
    assert found["by label"][1] == 1
    assert found["by feature"][1] == 1
    for name, (value, n_warnings) in found.items():
        assert n_warnings or abs(value - expected) < 0.01, name
        assert n_warnings <= 1


def test_moments_do_not_mind_the_order():
    X, target = sample()
    X, target, X_test, target_test = X[:N], target[:N], X[N:], target[N:]
    found = {
        name: told(lambda o=order: measure_names(X[o], target[o], X_test, target_test, "auto"))
        for name, order in orders(X, np.sign(target), np.random.default_rng(0)).items()
    }
    expected = found["shuffled"][0]
    for name, (value, n_warnings) in found.items():
        assert n_warnings == 0, name
        assert abs(value - expected) < 0.01, name


def test_queries_whose_rows_are_sorted():
    X, target = sample()
    qid = np.repeat(np.arange(200), 2 * N // 200)
    grades = np.digitize(target, [-1.0, 1.0])
    by_grade = np.lexsort((grades, qid))
    for order, expected in ((np.arange(len(qid)), 0), (by_grade, 1)):
        model = PairwiseRanker()

        def learn(model=model, order=order):
            for part in np.array_split(order, 30):
                model.partial_fit(X[part], grades[part], qid=qid[part])

        assert told(learn)[1] == expected


@pytest.mark.parametrize("share", [0.5, 0.05, 0.002])
def test_independent_orders_are_left_alone(share):
    """300 streams, each looked at some 30 times; a false alarm in 10^5 looks: 1 in 10 at most."""
    rng = np.random.default_rng(1)
    alarms = 0
    for _ in range(300):
        watch = OrderWatch()
        y = np.where(rng.random(6000) < share, 1.0, -1.0)
        alarms += told(lambda w=watch, y=y: [w.note(part) for part in np.array_split(y, 40)])[1]
    assert alarms == 0


@pytest.mark.parametrize("draw", ["normal", "standard_cauchy", "exponential"])
def test_independent_targets_are_left_alone(draw):
    rng = np.random.default_rng(2)
    for _ in range(100):
        watch = OrderWatch()
        y = getattr(rng, draw)(size=4000)
        assert told(lambda w=watch, y=y: [w.note(part) for part in np.array_split(y, 40)])[1] == 0


@pytest.mark.parametrize(
    ("n_blocks", "more", "expected"), [(200, 4, 0), (200, 6, 1), (16, 5, 0), (16, 6, 1)]
)
def test_few_blocks_may_differ_more_than_many(n_blocks, more, expected):
    """Blocks of 32 labels, by turns 16 + more and 16 - more of them positive, each shuffled.

    The variance of their means is more^2 / 8 times that of a random order: 2, 3.1 or 4.5. Many
    blocks may reach 3 and 16 blocks 1 + 12 / 4.
    """
    rng = np.random.default_rng(0)
    y = np.concatenate(
        [
            rng.permutation(np.where(np.arange(32) < 16 + more * (-1) ** k, 1.0, -1.0))
            for k in range(n_blocks)
        ]
    )
    assert told(lambda: OrderWatch().note(y))[1] == expected


def test_a_column_that_counts_the_rows_is_named():
    X, target = sample(n=2000)
    X[:, 2] = 1e6 + np.arange(2000)
    with pytest.warns(OrderWarning, match=r"in feature 2 by 0\.0% of .* drop the feature if"):
        chunks(AUCClassifier(solver="sgd"), X, (target > 0).astype(int), classes=[0, 1])


def test_the_message_names_the_cure():
    watch = OrderWatch(", or else")
    with pytest.warns(OrderWarning, match=r"0% of the difference in .*shuffle.*, or else\."):
        watch.note(np.repeat([1.0, -1.0], 1000))
    assert watch.has_warned
    watch.note(np.repeat([1.0, -1.0], 1000))


def test_labels_that_wait_are_copied():
    """A caller may fill one array again and again; what has not been looked at yet stays."""
    rng = np.random.default_rng(3)
    y = np.where(rng.random(4000) < 0.5, 1.0, -1.0)
    sorted_y = np.sort(y)
    for given, expected in ((y, 0), (sorted_y, 1)):
        watch, room = OrderWatch(), np.empty(10)

        def note(watch=watch, room=room, given=given):
            for part in np.split(given, 400):
                room[:] = part
                watch.note(room)
                room[:] = np.nan

        assert told(note)[1] == expected


@pytest.mark.parametrize("size", [1, 7, 32, 33, 1000])
def test_sums_of_labels_do_not_depend_on_chunks(size):
    from pairlearn.solvers.streams.order import _N_SUMS, note_labels

    # Dyadic numbers: every sum is exact, in any order.
    y = np.random.default_rng(4).integers(-8, 8, 1000) / 4.0
    sums = np.zeros(_N_SUMS)
    for begin in range(0, len(y), size):
        note_labels(y[begin : begin + size], begin == 0, sums)
    excess, jumps = y - y[0], np.diff(y)
    means, rest = excess[:992].reshape(-1, 32).mean(axis=1), excess[992:]
    assert sums.tolist() == [
        *(y[0], y[-1], y.min(), y.max(), excess.sum(), excess @ excess, jumps @ jumps),
        *(len(rest), rest.sum(), len(means), means.sum(), means @ means),
    ]


def test_what_waits_does_not_grow_with_the_stream(rng):
    watch = OrderWatch()
    for _ in range(200):
        watch.note(rng.choice([-1.0, 1.0], size=1000))
        assert sum(map(len, watch._waiting)) < 5000
    assert not watch.has_warned


@pytest.mark.parametrize("unit", [1e-300, 1e-170, 1e154, 1e300])
@pytest.mark.parametrize("queries", [False, True])
def test_labels_in_extreme_units_are_not_judged(unit, queries, rng):
    y = rng.integers(0, 5, 2000) * unit
    qid = np.arange(2000) // 10 if queries else None
    watch = OrderWatch()
    for part in np.split(np.arange(2000), 20):
        watch.note(y[part], None if qid is None else qid[part])
    assert not watch.has_warned
