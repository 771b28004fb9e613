# SPDX-License-Identifier: BSD-3-Clause
import json

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline

from pairlearn import PrivateMetricLearner
from pairlearn.losses import DistanceLogistic
from pairlearn.privacy.accounting.certificate import Certificate
from pairlearn.privacy.accounting.gaussian import mu_of
from pairlearn.privacy.mechanisms.noisy_sgd import NoisySGD
from pairlearn.privacy.noise import NoiseSource


def clouds(n=600, d=5, seed=0, gap=2.0):
    """Three classes apart in the first feature; the others are noise."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n)
    X = rng.normal(size=(n, d))
    X[:, 0] = gap * (y - 1) + 0.3 * X[:, 0]
    return np.clip(X + 1.0, -3, 5), y


def fitted(X, y, **options):
    return PrivateMetricLearner(**({"bounds": (-3, 5), "labels": (0, 1, 2)} | options)).fit(X, y)


def test_learns_and_certifies():
    X, y = clouds(1500, gap=1.2)
    model = fitted(X[:1000], y[:1000], epsilon=4.0, delta=1e-5)
    neighbours = KNeighborsClassifier(3)
    plain = neighbours.fit(X[:1000], y[:1000]).score(X[1000:], y[1000:])
    learned = neighbours.fit(model.transform(X[:1000]), y[:1000])
    assert learned.score(model.transform(X[1000:]), y[1000:]) > plain + 0.01
    certificate = model.certificate_
    assert certificate.private
    assert certificate.mechanism == "noisy_sgd"
    assert certificate.mu <= mu_of(4.0, 1e-5)
    assert certificate.mu == pytest.approx(mu_of(4.0, 1e-5), rel=2e-6)
    assert [release.dimension for release in certificate.releases] == [15] * 4
    assert certificate.public["labels"] == "0, 1, 2"
    assert "sums of clipped pair gradients, pass 1" in certificate.statement()
    assert Certificate.from_dict(json.loads(json.dumps(certificate.to_dict()))) == certificate


@pytest.mark.filterwarnings("ignore::pairlearn.PrivacyWarning")
def test_is_the_mechanism_in_the_units_of_the_features():
    X, y = clouds(100, 3)
    scales = np.array([1.0, 10.0, 0.2])
    mechanism = NoisySGD(loss=DistanceLogistic(1.5), n_passes=2, different_weight=0.5)
    options = {"random_state": 3, "mechanism": mechanism}
    first = fitted(X, y, **options)
    bounds = (-3 * scales, 5 * scales)
    second = fitted(X * scales, y, bounds=bounds, **options)
    assert np.allclose(first.transform(X), second.transform(X * scales), atol=1e-12)
    setting = first._setting(100, 3)
    fit = mechanism.fit(
        setting.to_standard(X),
        y.astype(float),
        setting=setting,
        noise=NoiseSource(seed=3),
    )
    W = fit.direction.reshape(3, 3) / np.outer(setting.unit, setting.unit)
    assert np.allclose(first.get_mahalanobis_matrix(), W, atol=1e-13)


def test_the_vocabulary_of_metrics():
    X, y = clouds(200)
    model = fitted(X, y)
    image = model.transform(X)
    assert model.get_feature_names_out().tolist()[0] == "privatemetriclearner0"
    pairs = np.stack([X[:5], X[5:10]], axis=1)
    expected = np.linalg.norm(image[:5] - image[5:10], axis=1)
    assert np.allclose(model.pair_distance(pairs), expected, atol=1e-12)
    assert np.allclose(model.pair_score(pairs), -expected, atol=1e-12)
    assert model.get_metric()(X[0], X[5]) == pytest.approx(expected[0], abs=1e-12)
    W = model.get_mahalanobis_matrix()
    assert np.allclose(W, model.components_.T @ model.components_)
    # A threshold from private pairs would be a release of its own.
    assert not hasattr(model, "calibrate_threshold")
    assert not hasattr(model, "predict")


def test_images_as_a_data_frame():
    pandas = pytest.importorskip("pandas")
    X, y = clouds(100)
    model = fitted(X, y)
    plain = model.transform(X)
    images = model.set_output(transform="pandas").transform(
        pandas.DataFrame(X, index=range(1, 101))
    )
    assert list(images.columns) == [f"privatemetriclearner{j}" for j in range(plain.shape[1])]
    assert list(images.index) == list(range(1, 101))
    np.testing.assert_array_equal(images.to_numpy(), plain)


def test_examples_are_measured_as_they_were_learned():
    X, y = clouds(200)
    model = fitted(X, y)
    wild, tame = X[:2].copy(), X[:2].copy()
    wild[0, 1], tame[0, 1] = np.nan, 1.0
    wild[1, 2], tame[1, 2] = 1e9, 5.0
    assert np.array_equal(model.transform(wild), model.transform(tame))
    assert np.array_equal(model.pair_distance(wild[None]), model.pair_distance(tame[None]))


@pytest.mark.filterwarnings("ignore::pairlearn.PrivacyWarning")
def test_missing_values_wild_values_and_other_labels():
    X, y = clouds(120)
    wild, tame = X.copy(), X.copy()
    wild[::7, 2], tame[::7, 2] = np.nan, 1.0
    wild[1::7, 3], tame[1::7, 3] = -np.inf, -3.0
    first, second = fitted(wild, y, random_state=1), fitted(tame, y, random_state=1)
    assert np.array_equal(first.components_, second.components_)
    assert not first.certificate_.private
    assert first.certificate_.statement().startswith("NOT PRIVATE")
    # An example without a public label takes no part, wherever it is.
    odd = y.astype(object)
    odd[:10] = "none of them"
    moved = X.copy()
    moved[:10] = -3.0
    first, second = fitted(X, odd, random_state=1), fitted(moved, odd, random_state=1)
    assert np.array_equal(first.components_, second.components_)
    sparse = fitted(scipy.sparse.csr_matrix(X), odd, random_state=1)
    assert np.array_equal(sparse.components_, first.components_)


def test_missing_public_facts_are_errors():
    X, y = clouds(50)
    for options, message in (
        ({"bounds": None}, "bounds must be the public pair"),
        ({"bounds": (1, 1)}, "lower < upper"),
        ({"labels": (1,)}, "labels must be"),
        ({"labels": (1, 2, 1)}, "labels must be"),
        ({"levels": [1] * 5}, "levels"),
        ({"neighbours": "substitute"}, "neighbours"),
        ({"mechanism": "statistics"}, "mechanism must be a NoisySGD"),
    ):
        with pytest.raises(ValueError, match=message):
            fitted(X, y, **options)
    with pytest.raises(ValueError, match="one value for each"):
        fitted(X, y[:-1])
    with pytest.raises(ValueError, match="PrivateMetricLearner is expecting 5 features"):
        fitted(X, y).transform(X[:, :2])
    with pytest.raises(ValueError, match="PrivateMetricLearner was fitted on 5"):
        fitted(X, y).pair_distance(np.zeros((1, 2, 4)))


def test_scikit_learn_protocol():
    X, y = clouds(300)
    model = PrivateMetricLearner(bounds=(-3, 5), epsilon=2.0, labels=("a", "b", "c"))
    assert clone(model).get_params()["labels"] == ("a", "b", "c")
    names = np.array(["a", "b", "c"])[y]
    pipeline = make_pipeline(clone(model), KNeighborsClassifier(3)).fit(X, names)
    assert pipeline.score(X, names) > 0.6
