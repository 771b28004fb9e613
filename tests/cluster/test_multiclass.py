# SPDX-License-Identifier: BSD-3-Clause
"""Many classes over partitions: the scores of one machine, and its probabilities."""

import numpy as np
import pytest
import scipy.sparse

from pairlearn import Exact, MulticlassAUCClassifier, load_model
from pairlearn.cluster import OnDask, fit_on, predict_on
from pairlearn.cluster import multiclass as trainer

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
                statistic.partial_state(
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
        fit_on(engine(k, weight=weight), memory(solver=Exact(0.01), scaling=scaling))
        for k in (1, 7)
    ]
    np.testing.assert_allclose(found[0].coef_, expected.coef_, rtol=1e-8)
    np.testing.assert_allclose(found[0].coef_, found[1].coef_, rtol=1e-10)
    assert found[0].classes_.tolist() == NAMES.tolist()


def test_ridge_and_probabilities_come_from_the_sample(monkeypatch):
    monkeypatch.setattr(trainer, "_SAMPLE", N)
    expected = memory().fit(X, Y)
    whole = fit_on(engine(5), memory())
    # Ridges are chosen on other folds.
    assert whole.choice_.auc == pytest.approx(expected.choice_.auc, abs=2e-3)
    np.testing.assert_allclose(whole.predict_proba(X), expected.predict_proba(X), atol=0.03)
    # A sample of 200 of each class, which are not as frequent as each other.
    monkeypatch.setattr(trainer, "_SAMPLE", 200)
    some = fit_on(engine(5), memory(solver=Exact(0.01)))
    gap = np.abs(some.predict_proba(X) - memory(solver=Exact(0.01)).fit(X, Y).predict_proba(X))
    assert gap.mean() < 0.03
    share = some.predict_proba(X).mean(axis=0)
    np.testing.assert_allclose(share, np.bincount(CODES) / N, atol=0.04)


@pytest.mark.parametrize("class_weight", ["balanced", {"ape": 5.0}])
def test_class_weights_move_probabilities_as_in_memory(class_weight, monkeypatch):
    monkeypatch.setattr(trainer, "_SAMPLE", N)
    weighed = memory(solver=Exact(0.01), class_weight=class_weight)
    found = fit_on(engine(3), weighed)
    np.testing.assert_allclose(
        found.predict_proba(X), weighed.fit(X, Y).predict_proba(X), atol=0.03
    )
    np.testing.assert_allclose(
        found.coef_, fit_on(engine(3), memory(solver=Exact(0.01))).coef_, rtol=1e-12
    )


def test_sparse_partitions_and_files(tmp_path):
    found = fit_on(engine(4, scipy.sparse.csr_array), memory(solver=Exact(0.01)))
    expected = memory(solver=Exact(0.01)).fit(X, Y)
    np.testing.assert_allclose(found.coef_, expected.coef_, rtol=1e-7)
    found.save(tmp_path / "model")
    again = load_model(tmp_path / "model")
    assert again.coef_.tobytes() == found.coef_.tobytes()
    assert again.ridge_ == 0.01


def test_what_cannot_be_is_refused(monkeypatch):
    monkeypatch.setattr(trainer, "_MOST_CLASSES", 3)
    with pytest.raises(ValueError, match="y has 4 classes"):
        fit_on(engine(1), memory())
    with pytest.raises(ValueError, match="at least two classes"):
        fit_on(lambda statistic: statistic.partial_state(X, np.zeros(N)), memory())
    with pytest.raises(ValueError, match="takes solver='exact'"):
        fit_on(engine(1), memory(solver="sgd"))
    with pytest.raises(ValueError, match='loss="square"'):
        fit_on(engine(1), MulticlassAUCClassifier(loss="squared_hinge"))


def test_dask_trains_and_predicts():
    da = pytest.importorskip("dask.array", reason="needs the extra dask")
    rows, labels = da.from_array(X, chunks=(500, 3)), da.from_array(Y, chunks=500)
    model = fit_on(OnDask(rows, labels), memory(solver=Exact(0.01)))
    alone = fit_on(engine(3), memory(solver=Exact(0.01)))
    np.testing.assert_allclose(model.coef_, alone.coef_, rtol=1e-10)
    np.testing.assert_array_equal(predict_on(model, rows).compute(), model.predict(X))
    chances = predict_on(model, rows, "predict_proba").compute()
    np.testing.assert_allclose(chances, model.predict_proba(X))
