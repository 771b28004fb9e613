# SPDX-License-Identifier: BSD-3-Clause
"""Many classes over partitions: the scores of one machine, and its probabilities."""

import numpy as np
import pytest
import scipy.sparse

from pairlearn import Exact, MulticlassAUCClassifier, load_model
from pairlearn.distributed import (
    ClassPasses,
    DaskMulticlassAUCClassifier,
    score_multiclass,
    train_multiclass,
)

RNG = np.random.default_rng(6)
N = 2400
NAMES = np.array(["ape", "bee", "cat", "dog"])
CODES = RNG.choice(4, N, p=[0.1, 0.2, 0.3, 0.4])
X = RNG.normal(size=(N, 3)) * [1.0, 20.0, 0.1] + np.eye(4, 3)[CODES] * [1.5, 30.0, 0.2]
X[:, 1] += 500.0
Y = NAMES[CODES]
WEIGHT = RNG.integers(1, 4, N) * 1.0


def engine(k, make=np.asarray, weight=None):
    parts = np.array_split(np.random.default_rng(k).permutation(N), k)

    def run(statistic):
        return statistic.merge_all(
            [
                statistic.of_part(number).partial_state(
                    make(X[part]), Y[part], None if weight is None else weight[part]
                )
                for number, part in enumerate(parts)
            ]
        )

    return run


def memory(**options):
    return MulticlassAUCClassifier(loss="square", random_state=0, **options)


@pytest.mark.parametrize("scaling", ["auto", None])
@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["plain", "weighted"])
def test_the_scores_are_those_of_one_machine(scaling, weight):
    expected = memory(solver=Exact(0.01), scaling=scaling).fit(X, Y, weight)
    found = [
        train_multiclass(engine(k, weight=weight), solver=Exact(0.01), scaling=scaling)
        for k in (1, 7)
    ]
    np.testing.assert_allclose(found[0].coef_, expected.coef_, rtol=1e-8)
    assert found[0].coef_.tobytes() == found[1].coef_.tobytes()
    assert found[0].classes_.tolist() == NAMES.tolist()


def test_ridge_and_probabilities_come_from_the_sample():
    expected = memory().fit(X, Y)
    # All rows are in the sample, in another order: the folds are others.
    whole = train_multiclass(engine(5), solver=ClassPasses(sample_size=N), random_state=0)
    assert whole.choice_.auc == pytest.approx(expected.choice_.auc, abs=0.01)
    np.testing.assert_allclose(whole.predict_proba(X), expected.predict_proba(X), atol=0.05)
    # A sample of 200 of each class, which are not as frequent as each other.
    some = train_multiclass(engine(5), solver=ClassPasses(0.01, sample_size=200), random_state=0)
    gap = np.abs(some.predict_proba(X) - memory(solver=Exact(0.01)).fit(X, Y).predict_proba(X))
    assert gap.mean() < 0.03
    share = some.predict_proba(X).mean(axis=0)
    np.testing.assert_allclose(share, np.bincount(CODES) / N, atol=0.04)


@pytest.mark.parametrize("class_weight", ["balanced", {"ape": 5.0}])
def test_class_weights_move_probabilities_as_in_memory(class_weight):
    options = {"class_weight": class_weight, "random_state": 0}
    found = train_multiclass(engine(3), solver=ClassPasses(0.01, sample_size=N), **options)
    expected = MulticlassAUCClassifier(loss="square", solver=Exact(0.01), **options).fit(X, Y)
    np.testing.assert_allclose(found.predict_proba(X), expected.predict_proba(X), atol=0.05)
    plain = train_multiclass(engine(3), solver=ClassPasses(0.01, sample_size=N), random_state=0)
    np.testing.assert_allclose(found.coef_, plain.coef_, rtol=1e-12)
    assert found.class_weight == class_weight


def test_sparse_partitions_and_files(tmp_path):
    found = train_multiclass(
        engine(4, scipy.sparse.csr_array), solver=Exact(0.01), feature_names=["a", "b", "c"]
    )
    expected = memory(solver=Exact(0.01)).fit(scipy.sparse.csr_array(X), Y)
    np.testing.assert_allclose(found.coef_, expected.coef_, rtol=1e-7)
    found.save(tmp_path / "model")
    again = load_model(tmp_path / "model")
    assert again.feature_names_in_.tolist() == ["a", "b", "c"]
    assert again.coef_.tobytes() == found.coef_.tobytes()
    assert again.ridge_ == 0.01


@pytest.mark.parametrize("make", [np.asarray, scipy.sparse.csr_array])
def test_probabilities_of_rows_that_are_not_centred(make):
    expected = memory(solver=Exact(0.01)).fit(X, Y).predict_proba(X)
    found = train_multiclass(
        engine(3, make), solver=ClassPasses(0.01, sample_size=1000), scaling=None, random_state=0
    )
    assert np.abs(found.predict_proba(X) - expected).mean() < 0.02


def test_what_cannot_be_is_refused():
    with pytest.raises(ValueError, match="y has 4 classes"):
        train_multiclass(engine(1), solver=ClassPasses(max_classes=3))
    with pytest.raises(ValueError, match="at least two classes"):
        train_multiclass(lambda statistic: statistic.partial_state(X, np.zeros(N)))
    with pytest.raises(ValueError, match="takes solver='class_passes'"):
        train_multiclass(engine(1), solver="sgd")


@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["plain", "weighted"])
def test_the_score_is_that_of_one_machine(weight):
    model = memory(solver=Exact(0.01)).fit(X, Y)
    for make in (np.asarray, scipy.sparse.csr_array):
        auc, half_width = score_multiclass(engine(6, make, weight), model)
        assert abs(auc - model.score(X, Y, weight)) <= half_width + 1e-12
        assert half_width < 1e-4
    # A class that is missing is left out.
    kept = CODES != 1
    auc, half_width = score_multiclass(
        lambda statistic: statistic.partial_state(X[kept], Y[kept]), model
    )
    assert abs(auc - model.score(X[kept], Y[kept])) <= half_width + 1e-12
    with pytest.raises(ValueError, match="M is about pairs of classes"):
        score_multiclass(lambda statistic: statistic.partial_state(X[:3], ["ape"] * 3), model)
    with pytest.raises(ValueError, match="not in classes"):
        score_multiclass(lambda statistic: statistic.partial_state(X[:2], ["ape", "eel"]), model)


def test_dask_trains_and_predicts():
    da = pytest.importorskip("dask.array", reason="needs the extra dask")
    rows, labels = da.from_array(X, chunks=(500, 3)), da.from_array(Y, chunks=500)
    model = DaskMulticlassAUCClassifier(solver=Exact(0.01)).fit(rows, labels)
    expected = train_multiclass(engine(3), solver=Exact(0.01))
    assert model.coef_.tobytes() == expected.coef_.tobytes()
    alone = model.model_
    np.testing.assert_array_equal(model.predict(rows).compute(), alone.predict(X))
    np.testing.assert_allclose(model.predict_proba(rows).compute(), alone.predict_proba(X))
    assert model.score(rows, labels) == pytest.approx(alone.score(X, Y), abs=1e-4)
    assert model.score(X, Y) == alone.score(X, Y)
    assert model.pair_scores(rows).compute().shape == (N, 6)
    with pytest.raises(ValueError, match="pass y"):
        model.fit(rows, None)
