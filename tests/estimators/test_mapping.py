# SPDX-License-Identifier: BSD-3-Clause
"""`features` of the ranker and of the regressor."""

import numpy as np
import pytest

from pairlearn import SGD, EntropyRegressor, PairwiseRanker, load_model
from pairlearn.cli.export import as_onnx
from pairlearn.features import Hats, Identity, RandomFourier

RNG = np.random.default_rng(0)
X = RNG.normal(size=(600, 3))
TARGET = X[:, 0] ** 2 + np.abs(X[:, 1]) + 0.1 * RNG.normal(size=600)
GRADES = np.digitize(TARGET, [0.8, 1.8, 3.0])
QID = np.arange(600) // 20
MODELS = [
    PairwiseRanker(random_state=0, solver=SGD(n_passes=30)),
    EntropyRegressor(random_state=0, solver=SGD(n_passes=30), bandwidth=1.0),
]


def fitted(model, **parameters):
    from sklearn.base import clone

    model = clone(model).set_params(**parameters)
    if isinstance(model, PairwiseRanker):
        return model.fit(X[:400], GRADES[:400], qid=QID[:400])
    return model.fit(X[:400], TARGET[:400])


def worth(model):
    return float(np.corrcoef(model.predict(X[400:]), TARGET[400:])[0, 1])


@pytest.mark.parametrize("model", MODELS, ids=repr)
@pytest.mark.parametrize("features", ["hats", RandomFourier(32)])
def test_curves_beat_the_plane(model, features):
    linear, curved = fitted(model), fitted(model, features=features)
    assert isinstance(linear.features_, Identity)
    assert worth(linear) < 0.3
    assert worth(curved) > 0.75
    assert curved.coef_.shape == (curved.features_.n_outputs,)


@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_files_and_graphs_carry_the_map(model, tmp_path):
    curved = fitted(model, features="hats")
    curved.save(tmp_path / "model.safetensors")
    again = load_model(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(again.predict(X), curved.predict(X))
    assert again.n_features_in_ == 3
    onnxruntime = pytest.importorskip("onnxruntime")
    session = onnxruntime.InferenceSession(as_onnx(curved), providers=["CPUExecutionProvider"])
    (found,) = session.run(None, {"X": X})
    np.testing.assert_allclose(found, curved.predict(X), atol=1e-5)


def test_a_stream_needs_a_fitted_map():
    from sklearn.base import clone

    model, y = MODELS[0], GRADES
    stream = clone(model).set_params(features=Hats(n_knots=5).fit(X))
    for start in range(0, 600, 300):
        stream.partial_fit(X[start : start + 300], y[start : start + 300])
    assert worth(stream) > worth(fitted(model))
    other = clone(model).set_params(features=Hats(n_knots=5).fit(X))
    other.restore_stream(stream.stream_state())
    np.testing.assert_array_equal(other.predict(X), stream.predict(X))
    with pytest.raises(ValueError, match="a stream needs fitted features"):
        clone(model).set_params(features="hats").partial_fit(X, y)


@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_what_is_not_there_is_refused(model):
    with pytest.raises(ValueError, match='features="auto" compares AUCs'):
        fitted(model, features="auto")
    with pytest.raises(ValueError, match="max_memory=1000 bytes"):
        fitted(model, features="hats", solver__max_memory=1000)
    with pytest.raises(ValueError, match="or a FeatureMap, got 'cubic'"):
        fitted(model, features="cubic")


RING = np.where((X[:, :2] ** 2).sum(axis=1) > 1.4, "out", "in")


def test_a_metric_on_mapped_features(tmp_path):
    from sklearn.neighbors import KNeighborsClassifier

    from pairlearn.estimators import MetricLearner, MetricSGD

    model = MetricLearner(features=Hats(n_knots=5), solver=MetricSGD(n_passes=5), random_state=0)
    images = model.fit_transform(X[:300], RING[:300])
    assert model.components_.shape[1] == model.features_.n_outputs == 12
    near = KNeighborsClassifier().fit(images, RING[:300])
    plain = KNeighborsClassifier().fit(X[:300, :3], RING[:300])
    new = X[300:]
    gain = near.score(model.transform(new), RING[300:]) - plain.score(new, RING[300:])
    assert gain > -0.02
    pairs = np.stack([X[:5], X[5:10]], axis=1)
    metric = model.get_metric()
    expected = [metric(a, b) for a, b in pairs]
    np.testing.assert_allclose(model.pair_distance(pairs), expected)
    model.save(tmp_path / "metric.safetensors")
    again = load_model(tmp_path / "metric.safetensors")
    np.testing.assert_array_equal(again.transform(new), model.transform(new))


def test_given_pairs_are_mapped_too():
    from pairlearn.estimators import MetricLearner, MetricSGD

    pairs = np.stack([X[:200], X[200:400]], axis=1)
    signs = np.where(RING[:200] == RING[200:400], 1, -1)
    model = MetricLearner(features=Hats(n_knots=5), solver=MetricSGD(n_passes=20), random_state=0)
    model.fit(pairs, signs)
    plain = MetricLearner(solver=MetricSGD(n_passes=20), random_state=0).fit(pairs, signs)
    assert model.score(pairs, signs) > plain.score(pairs, signs)
