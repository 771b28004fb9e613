"""A prediction beside learning sees one model, whole; learners of one model take turns."""

import copy
import pickle
import threading

import numpy as np
import pytest
from sklearn.base import clone

from pairlearn import AUCClassifier, EntropyRegressor, MetricLearner, PairwiseRanker
from pairlearn.estimators.shared.published import Attribute, publish, published

RNG = np.random.default_rng(0)
N, D = 6000, 5
X = RNG.normal(size=(N, D)) + 1.0
Y = np.where(X[:, 0] + X[:, 1] + RNG.normal(size=N) > 2.0, 1, 0)
TARGET = X @ np.arange(D) + RNG.standard_t(2, size=N)
CHUNK = 150


def auc():
    model = AUCClassifier(random_state=0)
    return model, lambda a, b: model.partial_fit(X[a:b], Y[a:b], classes=[0, 1])


def ranker():
    model = PairwiseRanker(random_state=0)
    return model, lambda a, b: model.partial_fit(X[a:b], TARGET[a:b])


def entropy():
    model = EntropyRegressor(random_state=0)
    return model, lambda a, b: model.partial_fit(X[a:b], TARGET[a:b])


def metric():
    model = MetricLearner(random_state=0)

    def learn(a, b):
        had = hasattr(model, "threshold_")
        model.partial_fit(X[a:b], Y[a:b])
        if not had:
            model.set_threshold(1.0)

    return model, learn


#: An estimator, and how to ask it for numbers that depend on all parts of its model.
CASES = {
    "decision_function": (auc, lambda model, x: model.decision_function(x)),
    "predict": (auc, lambda model, x: model.predict(x)),
    "predict_proba": (auc, lambda model, x: model.predict_proba(x)),
    "ranker": (ranker, lambda model, x: model.predict(x)),
    "entropy": (entropy, lambda model, x: model.predict(x)),
    "metric": (metric, lambda model, x: model.decision_function(np.stack([x, -x], axis=1))),
}


@pytest.mark.parametrize("case", CASES)
def test_predictions_beside_learning_are_those_of_one_model(case):
    make, ask = CASES[case]
    model, learn = make()
    rows = X[:40]
    learn(0, CHUNK)
    possible, answers, failures = {ask(model, rows).tobytes()}, [], []
    done = threading.Event()

    def read():
        try:
            while not done.is_set():
                answers.append(ask(model, rows).tobytes())
        except BaseException as error:
            failures.append(error)

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    try:
        for begin in range(CHUNK, 16 * CHUNK, CHUNK):
            learn(begin, begin + CHUNK)
            possible.add(ask(model, rows).tobytes())
    finally:
        done.set()
        for reader in readers:
            reader.join()
    assert not failures, failures[0]
    assert set(answers) <= possible


class Late:
    """Examples during whose conversion the model learns: a thread that comes at the worst time."""

    def __init__(self, rows, learn):
        self._rows, self._learn = rows, learn
        self.shape, self.dtype = rows.shape, rows.dtype

    def __len__(self):
        return len(self._rows)

    def __array__(self, dtype=None, copy=None):
        if self._learn is not None:
            learn, self._learn = self._learn, None
            learn()
        return np.asarray(self._rows, dtype=dtype)


@pytest.mark.parametrize("case", ["decision_function", "predict", "predict_proba"])
def test_a_chunk_in_the_middle_of_a_prediction_does_not_show(case):
    make, ask = CASES[case]
    model, learn = make()
    learn(0, 200)
    before = ask(model, X[:300])
    got = ask(model, Late(X[:300], lambda: learn(200, 3000)))
    assert np.array_equal(got, before)
    assert not np.array_equal(model.decision_function(X[:300]), before)


@pytest.mark.parametrize("make", [auc, ranker, entropy, metric])
def test_threads_that_teach_one_estimator_take_turns(make):
    # After the first chunk all are alike, so that every order of them gives the same bits.
    (model, learn), (alone, learn_alone) = make(), make()
    learn(0, 5000)
    learn_alone(0, 5000)
    failures = []

    def teach():
        try:
            for _ in range(8):
                learn(5000, 6000)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=teach) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures[0]
    for _ in range(32):
        learn_alone(5000, 6000)
    assert model.n_steps_ == alone.n_steps_
    name = "components_" if make is metric else "coef_"
    assert np.array_equal(getattr(model, name), getattr(alone, name))


@pytest.mark.parametrize("make", [auc, ranker, entropy, metric])
def test_models_that_learn_are_cloned_copied_and_pickled(make):
    model, learn = make()
    learn(0, 1000)
    assert not hasattr(clone(model), "n_steps_")
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        labels = Y if make in (auc, metric) else TARGET
        twin.partial_fit(X[:500], labels[:500])
        assert twin.n_steps_ > model.n_steps_


def test_a_record_is_replaced_and_never_changed():
    class Line:
        slope_, intercept_ = Attribute(), Attribute()

    line = Line()
    publish(line, slope_=1.0, intercept_=2.0)
    seen = published(line)
    line.slope_ = 5.0
    assert seen == {"slope_": 1.0, "intercept_": 2.0}
    assert published(line) == {"slope_": 5.0, "intercept_": 2.0}
    del line.slope_
    assert not hasattr(line, "slope_")
    with pytest.raises(AttributeError, match="not fitted"):
        del line.slope_
