# SPDX-License-Identifier: BSD-3-Clause
"""MetricLearner: what it finds, its vocabulary, its laws, its errors, scikit-learn's checks."""

import pickle

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.cluster import DBSCAN
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import (
    GridSearchCV,
    cross_val_predict,
    cross_val_score,
)
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline

from pairlearn import SGD, DistanceHinge, FifoBuffer, MetricLearner, load_model
from pairlearn.domains import PsdCone
from pairlearn.estimators import MetricSGD
from pairlearn.estimators.metric import descent
from pairlearn.estimators.metric.descent import neighbor_pairs
from pairlearn.metrics import roc_auc
from pairlearn.pairings import GivenPairs
from pairlearn.pairings.pairs import ListedPairs


def task(n=400, seed=0):
    """Two features tell three classes apart, four are louder noise."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n)
    signal = np.array([[0.0, 0.0], [2.0, 0.0], [0.0, 2.0]])[y] + 0.3 * rng.normal(size=(n, 2))
    return np.column_stack([signal, 3.0 * rng.normal(size=(n, 4))]), y


def pairs_of(X, y, n, seed=0):
    rng = np.random.default_rng(seed)
    i, j = rng.integers(0, len(y), (2, n))
    return np.stack([X[i], X[j]], axis=1), np.where(y[i] == y[j], 1, -1)


SETTINGS = {
    "full": {},
    "diagonal": {"parameterization": "diagonal"},
    "low_rank": {"parameterization": "low_rank", "rank": 4},
    "every": {"solver": MetricSGD(projection="every", period=50)},
    "ball": {"solver": MetricSGD(radius=1.0), "scaling": None},
    "logistic": {"loss": "logistic"},
    "hinge_no_bias": {"loss": "hinge_no_bias"},
    "random": {"solver": MetricSGD(pairing="random")},
    "previous": {"solver": MetricSGD(pairing="previous")},
    "held_out": {"solver": MetricSGD(step_size="held_out")},
}


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.thorough
def test_better_neighbours_than_euclid(name):
    X, y = task()
    euclid = KNeighborsClassifier(3).fit(X[:300], y[:300]).score(X[300:], y[300:])
    learner = MetricLearner(random_state=0, **SETTINGS[name]).fit(X[:300], y[:300])
    learned = KNeighborsClassifier(3).fit(learner.transform(X[:300]), y[:300])
    assert learned.score(learner.transform(X[300:]), y[300:]) > euclid + 0.1
    W = learner.get_mahalanobis_matrix()
    assert np.linalg.eigvalsh(W)[0] >= -1e-12 * np.abs(W).max()
    if name == "ball":
        assert np.linalg.norm(W) <= 1.0 + 1e-9


def test_the_starting_point_is_a_candidate():
    X, y = load_digits(return_X_y=True)
    X, y = X[1100:1200] / 16, y[1100:1200]
    learner = MetricLearner(
        solver=MetricSGD(pairing="previous", step_size="held_out"), random_state=0
    ).fit(X, y)
    assert learner.held_out_score_ is not None
    assert (learner.step_size_ == 0) == (learner.n_steps_ == 0)
    assert (
        MetricLearner(solver=MetricSGD(n_passes=10), random_state=0).fit(X, y).held_out_score_
        is None
    )


def test_the_number_of_passes_is_chosen_on_held_out_examples():
    X, y = task()
    learner = MetricLearner(random_state=0).fit(X, y)
    assert learner.n_steps_ / len(y) in (10, 50, 200)
    assert 0.5 < learner.held_out_score_ <= 1.0
    short = MetricLearner(
        solver=MetricSGD(n_passes=learner.n_steps_ / len(y), step_size=learner.step_size_)
    )
    assert short.set_params(random_state=0).fit(X, y).n_steps_ == learner.n_steps_


@pytest.mark.parametrize("name", ["full", "diagonal", "low_rank"])
def test_units_of_the_features_do_not_matter(name):
    X, y = task(n=250)
    units = 10.0 ** np.array([-6, 3, 6, 0, -2, 1])
    pairs, similar = pairs_of(X[150:], y[150:], 1000)

    def auc(change):
        learner = MetricLearner(random_state=0, **SETTINGS[name]).fit(change(X[:150]), y[:150])
        return roc_auc(similar, learner.pair_score(change(pairs)))

    expected = auc(lambda X: X)
    assert expected > 0.7
    for change in (
        lambda X: X * units,
        lambda X: X * 1e-6,
        lambda X: X + 1e3 * units.astype(int),
        lambda X: np.concatenate([X, np.full((*X.shape[:-1], 1), 7.1)], axis=-1),
    ):
        assert abs(auc(change) - expected) < 0.002


@pytest.mark.parametrize("name", ["full", "diagonal", "low_rank"])
def test_a_given_start_is_in_the_units_of_the_user(name):
    X, y = task()
    units = 10.0 ** np.array([-2, 1, 2, 0, -1, 1])
    rng = np.random.default_rng(0)
    L = rng.normal(size=(6, 4))
    start = {"full": L @ L.T, "diagonal": L[:, 0] ** 2, "low_rank": L}[name]
    changed = start / {"full": np.outer(units, units), "diagonal": units**2}.get(
        name, units[:, None]
    )
    options = {**SETTINGS[name], "solver": MetricSGD(step_size=1e-12, n_passes=1)}
    plain = MetricLearner(init=start, random_state=0, **options).fit(X, y)
    other = MetricLearner(init=changed, random_state=0, **options).fit(X * units, y)
    np.testing.assert_allclose(
        other.transform(X * units) @ other.transform(X * units).T,
        plain.transform(X) @ plain.transform(X).T,
        rtol=1e-6,
        atol=1e-6,
    )
    W = np.diag(start) if name == "diagonal" else start if name == "full" else start @ start.T
    np.testing.assert_allclose(plain.get_mahalanobis_matrix(), W, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", ["full", "diagonal", "low_rank"])
def test_given_pairs(name):
    X, y = task()
    pairs, similar = pairs_of(X, y, 2000)
    learner = MetricLearner(random_state=0, **SETTINGS[name]).fit(pairs, similar)
    fresh, labels = pairs_of(*task(seed=1), 1000, seed=2)
    assert learner.score(fresh, labels) > 0.95
    assert np.mean(learner.predict(fresh) == labels) > 0.85
    assert set(learner.predict(fresh)) == {-1, 1}
    np.testing.assert_array_equal(learner.decision_function(fresh) > 0, learner.predict(fresh) > 0)


def test_labels_and_a_calibrated_threshold():
    X, y = task()
    learner = MetricLearner(random_state=0).fit(X, y)
    assert not hasattr(learner, "predict")
    fresh, labels = pairs_of(*task(seed=1), 1000)
    learner.calibrate_threshold(fresh, labels, strategy="f1")
    assert np.mean(learner.predict(fresh) == labels) > 0.85
    learner.set_threshold(0.0)
    assert (learner.predict(fresh) == -1).all()
    assert not hasattr(learner.fit(X, y), "threshold_")


def test_vocabulary_agrees_with_itself():
    X, y = task()
    learner = MetricLearner(random_state=0).fit(X, y)
    pairs, _ = pairs_of(X, y, 50)
    W, metric = learner.get_mahalanobis_matrix(), learner.get_metric()
    v = pairs[:, 0] - pairs[:, 1]
    expected = np.sqrt(np.einsum("nd,de,ne->n", v, W, v))
    np.testing.assert_allclose(learner.pair_distance(pairs), expected, atol=1e-10)
    np.testing.assert_array_equal(learner.pair_score(pairs), -learner.pair_distance(pairs))
    found = [metric(a, b) for a, b in pairs]
    np.testing.assert_allclose(found, expected, atol=1e-10)
    assert metric(*pairs[0], squared=True) == pytest.approx(expected[0] ** 2)
    image = learner.transform(X)
    np.testing.assert_allclose(np.linalg.norm(image[0] - image[1]), metric(X[0], X[1]), atol=1e-10)
    # as SciPy's distances: a row of a table is a vector, a table is none
    assert metric(X[:1], X[1:2]) == metric(X[0], X[1])
    with pytest.raises(ValueError, match="a distance is of two vectors"):
        metric(X[:2], X[2:4])
    assert pickle.loads(pickle.dumps(metric))(X[0], X[1]) == metric(X[0], X[1])
    assert learner.get_feature_names_out()[0] == "metriclearner0"


def test_inside_scikit_learn():
    X, y = task(n=200)
    learner = MetricLearner(random_state=0).fit(X[:150], y[:150])
    direct = KNeighborsClassifier(3, metric=learner.get_metric()).fit(X[:150], y[:150])
    mapped = KNeighborsClassifier(3).fit(learner.transform(X[:150]), y[:150])
    np.testing.assert_array_equal(
        direct.predict(X[150:]), mapped.predict(learner.transform(X[150:]))
    )
    assert len(DBSCAN(eps=0.5, metric=learner.get_metric()).fit(X[:50]).labels_) == 50
    search = GridSearchCV(
        make_pipeline(
            MetricLearner(solver=MetricSGD(n_passes=5), random_state=0), KNeighborsClassifier(3)
        ),
        {
            "metriclearner__loss": ["hinge", "logistic"],
            "metriclearner__solver__step_size": [0.0003],
        },
        cv=2,
    ).fit(X, y)
    assert search.best_score_ > 0.7


@pytest.mark.parametrize("rank", [None, 2])
def test_images_as_a_data_frame(rank):
    pandas = pytest.importorskip("pandas")
    X, y = task(n=60)
    frame = pandas.DataFrame(X, index=[f"row {i}" for i in range(60)], columns=list("abcdef"))
    kind = "full" if rank is None else "low_rank"
    learner = MetricLearner(
        solver=MetricSGD(n_passes=1), parameterization=kind, rank=rank, random_state=0
    )
    plain = learner.fit(frame, y).transform(frame)
    for images in (
        learner.set_output(transform="pandas").transform(frame),
        learner.fit_transform(frame, y),
    ):
        assert list(images.index) == list(frame.index)
        assert list(images.columns) == [f"metriclearner{j}" for j in range(plain.shape[1])]
        np.testing.assert_array_equal(images.to_numpy(), plain)


def test_names_of_labels_do_not_matter():
    X, y = task(n=150)
    parts = {"solver": MetricSGD(step_size=0.001, n_passes=4), "random_state": 0}
    a = MetricLearner(**parts).fit(X, y)
    b = MetricLearner(**parts).fit(X, np.array(["pear", "apple", "fig"])[y])
    np.testing.assert_allclose(a.components_, b.components_, atol=1e-9)


def test_a_shift_changes_nothing():
    X, y = task(n=150)
    parts = {"solver": MetricSGD(step_size=0.001, n_passes=4), "random_state": 0}
    a, b = (MetricLearner(**parts).fit(Z, y) for Z in (X, X + 5.0))
    np.testing.assert_allclose(a.get_mahalanobis_matrix(), b.get_mahalanobis_matrix(), atol=1e-9)


# ---------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"loss": "triplet"}, "loss must be one of"),
        ({"loss": "hinge", "parameterization": "low_rank", "rank": 7}, "rank must be at most"),
        ({"parameterization": "low_rank"}, "needs the rank"),
        ({"parameterization": "banded"}, "parameterization must be one of"),
        ({"rank": 2}, 'needs parameterization="low_rank"'),
        ({"init": np.diag([1.0, 1, 1, 1, 1, -1])}, "positive semi-definite, got an eigenvalue"),
        ({"init": np.triu(np.ones((6, 6)))}, "must be symmetric"),
        ({"init": np.eye(5)}, "init must have shape"),
        ({"init": np.full((6, 6), np.nan)}, "NaN or infinity"),
        ({"init": "random"}, "init must be"),
        ({"init": -np.ones(6), "parameterization": "diagonal"}, "must not be negative"),
        ({"solver": "exact"}, r"has no way to train by Exact\(\); use solver='sgd'"),
        ({"solver": "sdg"}, "did you mean 'sgd'"),
        ({"solver": SGD(step_size="theory")}, 'a number, "auto" or "held_out", got \'theory\''),
        ({"n_neighbors": 0}, "n_neighbors must be at least 1"),
        ({"validation_fraction": 0.0}, "strictly between 0 and 1"),
    ],
)
def test_bad_parameters(settings, message):
    X, y = task(n=60)
    with pytest.raises(ValueError, match=message):
        MetricLearner(**settings).fit(X, y)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"step_size": 0.0}, "step_size must be a positive number"),
        ({"step_size": "fast"}, 'a number, "auto" or "held_out"'),
        ({"pairing": FifoBuffer(3)}, "one pair at a step, not from a buffer"),
        ({"radius": -1.0}, "radius must be a positive number"),
        ({"projection": "never"}, '"exact" or "every"'),
        ({"projection": "every", "period": 0}, "period must be at least 1"),
        ({"period": 3}, 'needs projection="every"'),
        ({"projection": "exact", "period": 3}, 'needs projection="every"'),
        ({"n_passes": 0}, "n_passes must be a positive number"),
        ({"pairing": "all"}, "pairing must be one of"),
        ({"schedule": "cosine"}, "schedule must be one of"),
        ({"averaging": "median"}, "averaging must be one of"),
    ],
)
def test_bad_settings_of_the_solver(settings, message):
    X, y = task(n=60)
    with pytest.raises(ValueError, match=message):
        MetricLearner(solver=MetricSGD(**settings)).fit(X, y)


# ------------------------------------------------------------------------------- composition


@pytest.mark.parametrize("solver", ["sgd", MetricSGD(n_passes=3)])
def test_a_grid_search_over_fields_of_the_solver(solver):
    X, y = task(n=120)
    pipeline = make_pipeline(MetricLearner(solver=solver, random_state=0), KNeighborsClassifier(3))
    grid = {"metriclearner__solver__step_size": [1e-9, 1e-3],
            "metriclearner__solver__n_passes": [2]}  # fmt: skip
    search = GridSearchCV(pipeline, grid, cv=2).fit(X, y)
    best = search.best_estimator_[0]
    expected = MetricSGD(n_passes=2, step_size=best.step_size_)
    assert best.solver == expected
    alone = MetricLearner(solver=expected, random_state=0).fit(X, y)
    np.testing.assert_array_equal(best.components_, alone.components_)


def test_a_plain_descent_keeps_its_own_defaults():
    X, y = task(n=120)
    plain = MetricLearner(solver=SGD(step_size=1e-3, n_passes=2), random_state=0).fit(X, y)
    spelled = MetricSGD(1e-3, n_passes=2, averaging="step_size", pairing="previous")
    same = MetricLearner(solver=spelled, random_state=0).fit(X, y)
    np.testing.assert_array_equal(plain.components_, same.components_)
    other = MetricLearner(solver=MetricSGD(1e-3, n_passes=2), random_state=0).fit(X, y)
    assert not np.array_equal(plain.components_, other.components_)


@pytest.mark.parametrize("kind", ["labels", "pairs", "held_out"])
def test_a_model_file_holds_all_attributes(kind, tmp_path):
    X, y = task(n=120)
    step_size = "held_out" if kind == "held_out" else 1e-3
    learner = MetricLearner(solver=MetricSGD(step_size, n_passes=2), random_state=0)
    if kind == "pairs":
        learner.fit(*pairs_of(X, y, 200))
    else:
        learner.fit(X, y)
    learner.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert loaded.solver == learner.solver
    np.testing.assert_array_equal(loaded.components_, learner.components_)
    for name in ("step_size_", "held_out_score_", "n_steps_", "n_gradients_", "n_features_in_"):
        assert getattr(loaded, name) == getattr(learner, name), name
    assert (learner.held_out_score_ is not None) == (kind == "held_out")
    assert hasattr(loaded, "threshold_") == hasattr(learner, "threshold_") == (kind == "pairs")
    assert loaded.features_ == learner.features_


# scikit-learn of today says it, older ones do not
@pytest.mark.filterwarnings("ignore:The number of unique classes")
def test_bad_pairs():
    X, y = task(n=60)
    pairs, similar = pairs_of(X, y, 40)
    learner = MetricLearner(random_state=0).fit(pairs, similar)
    for bad, message in (
        (np.zeros((4, 3, 6)), r"shape \(n_pairs, 2, n_features\), got \(4, 3, 6\)"),
        (np.zeros((4, 2, 5)), "5 features, but MetricLearner was fitted on 6"),
        (np.full((4, 2, 6), np.nan), "NaN"),
    ):
        with pytest.raises(ValueError, match=message):
            learner.pair_distance(bad)
    with pytest.raises(ValueError, match=r"\+1 \(similar\) or -1"):
        MetricLearner().fit(pairs, np.arange(40))
    with pytest.raises(ValueError, match=r"must be numbers, \+1 \(similar\) or -1"):
        MetricLearner().fit(pairs, np.full(40, "alike"))
    with pytest.raises(ValueError, match="the same number of features"):
        MetricLearner().fit([[[1.0, 2.0], [3.0, 4.0]], [[1.0, 2.0], [3.0]]], [1, -1])
    with pytest.raises(ValueError, match="All pairs are similar"):
        MetricLearner().fit(pairs, np.ones(40))
    with pytest.raises(ValueError, match="All pairs are dissimilar"):
        MetricLearner().fit(pairs, -np.ones(40))
    with pytest.raises(ValueError, match="40 labels for 40 examples"):
        MetricLearner().fit(pairs[:, 0], np.arange(40))
    with pytest.raises(ValueError, match="one label for each of 40 pairs"):
        MetricLearner().fit(pairs, similar[:-1])
    with pytest.raises(ValueError, match=r"similar .* and dissimilar"):
        learner.calibrate_threshold(pairs, np.ones(40))
    with pytest.raises(ValueError, match="finite"):
        learner.set_threshold(np.inf)
    for odd in ("1", True, np.True_, None, [1.0]):
        with pytest.raises(TypeError, match="threshold must be a number, got"):
            learner.set_threshold(odd)
    assert learner.set_threshold(np.float32(0.5)).threshold_ == 0.5
    with pytest.raises(ValueError, match="one kind of labels"):
        MetricLearner().fit(X, np.zeros(60))
    with pytest.raises(ValueError, match="even number of rows"):
        GivenPairs().offline(3, np.random.default_rng(0))
    with pytest.raises(ValueError, match="bias must be"):
        DistanceHinge(bias=-1.0)


@pytest.mark.parametrize("n_classes", [2, 3, 10])
def test_neighbor_pairs(n_classes):
    """Against sorting all distances."""
    rng = np.random.default_rng(0)
    n, k = 300, 2
    y = rng.integers(0, n_classes, n).astype(float)
    X = 1e3 + rng.normal(size=(n, 3)) + 2.0 * np.eye(10)[y.astype(int), :3]
    pairs = neighbor_pairs(X, y, k, rng)
    distance = np.linalg.norm(X[:, None] - X, axis=2)
    np.fill_diagonal(distance, np.inf)
    for i in range(n):
        met = pairs.right[pairs.left == i]
        order = np.argsort(distance[i])[:-1]
        same, other = (order[kind(y[order], y[i])] for kind in (np.equal, np.not_equal))
        near = order[: 4 * k + 4]
        expected = [j for place, j in enumerate(other[:k]) if place == 0 or j in near]
        assert set(met[y[met] == y[i]]) == set(same[:k])
        assert set(met[y[met] != y[i]]) == set(expected)
    assert np.mean(y[pairs.left] == y[pairs.right]) == 0.5


def test_neighbors_of_odd_data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6, 2))
    # Each example alone with its label: it has no neighbour of its own.
    alone = neighbor_pairs(X, np.arange(6.0), 3, rng)
    assert (alone.left != alone.right).all()
    # Equal examples, and huge ones, whose squares do not fit into single precision.
    for Z in (np.ones((6, 2)), 1e200 * X):
        pairs = neighbor_pairs(Z, np.array([0.0, 0, 0, 1, 1, 1]), 3, rng)
        assert set(pairs.left) == set(range(6))
        assert (pairs.left != pairs.right).all()


def test_neighbors_among_a_sample(monkeypatch):
    monkeypatch.setattr(descent, "_PAIRED", 50)
    X, y = task(n=300)
    pairs = neighbor_pairs(X, y.astype(float), 3, np.random.default_rng(0))
    assert set(pairs.left) >= set(pairs.right)
    assert len(set(pairs.left)) == 50
    assert (pairs.left != pairs.right).all()


def test_lists_of_pairs_are_checked():
    rng = np.random.default_rng(0)
    X, y = task(n=40)
    pairs = neighbor_pairs(X, y.astype(float), 2, rng)
    with pytest.raises(ValueError, match="must lie between 0 and"):
        pairs.offline(10, rng)
    with pytest.raises(ValueError, match="as many left as right"):
        ListedPairs(np.array([1]), np.array([1, 2]))
    with pytest.raises(ValueError, match="needs all examples at once"):
        pairs.online(rng)


def test_sparse_examples_are_refused_with_the_cure():
    X, y = task(n=60)
    with pytest.raises(TypeError, match=r"Use '.toarray\(\)'"):
        MetricLearner().fit(scipy.sparse.csr_array(X), y)


# ------------------------------------------------------------------------------------ weights


@pytest.mark.parametrize("pairing", ["neighbors", "previous"])
def test_an_example_of_weight_zero_is_absent(pairing):
    X, y = task(n=100)
    weight = np.random.default_rng(0).integers(0, 3, 100).astype(float)
    some = weight > 0
    learner = MetricLearner(solver=MetricSGD(pairing=pairing), random_state=0)
    whole = clone(learner).fit(X, y, sample_weight=weight)
    part = clone(learner).fit(X[some], y[some], sample_weight=5.0 * weight[some])
    np.testing.assert_allclose(whole.components_, part.components_, atol=1e-10)
    ones = clone(learner).fit(X, y, sample_weight=np.full(100, 3.0))
    np.testing.assert_array_equal(ones.components_, clone(learner).fit(X, y).components_)


def test_weights_are_those_of_the_risk():
    """Two groups that need different features: the heavy one decides."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 400)
    X = rng.normal(size=(400, 2))
    group = np.arange(400) % 2
    X[np.arange(400), group] = 4.0 * y
    solver = MetricSGD(pairing="previous", step_size=1e-3)
    parts = {"parameterization": "diagonal", "solver": solver}
    for heavy in (0, 1):
        weight = np.where(group == heavy, 1.0, 0.05)
        W = MetricLearner(**parts, random_state=0).fit(X, y, weight).get_mahalanobis_matrix()
        assert W[heavy, heavy] > 1.3 * W[1 - heavy, 1 - heavy]


def test_weights_of_given_pairs():
    X, y = task()
    pairs, similar = pairs_of(X, y, 500)
    weight = np.random.default_rng(0).integers(0, 3, 500).astype(float)
    parts = {"solver": MetricSGD(step_size=1e-3), "random_state": 0}
    whole = MetricLearner(**parts).fit(pairs, similar, sample_weight=weight)
    part = MetricLearner(**parts).fit(
        pairs[weight > 0], similar[weight > 0], sample_weight=weight[weight > 0]
    )
    np.testing.assert_allclose(whole.components_, part.components_, atol=1e-10)


def test_the_remedy_for_a_matrix_that_is_not_psd_works():
    X, y = task(n=60)
    bad = np.diag([1.0, 1, 1, 1, 1, -1])
    MetricLearner(init=PsdCone().project(bad), solver=MetricSGD(step_size=1e-4)).fit(X, y)


def test_cross_validation_on_pairs_needs_no_fit_before():
    """It asks for `score` before it fits, and was told that there is none."""
    pairs, y = pairs_of(*task(), 150)
    model = MetricLearner(random_state=0)
    assert cross_val_score(model, pairs, y, cv=3).min() > 0.6
    assert np.mean(cross_val_predict(model, pairs, y, cv=3) == y) > 0.6
    grid = GridSearchCV(model, {"loss": ["hinge", "logistic"]}, cv=3)
    assert grid.fit(pairs, y).score(pairs, y) > 0.6
    with pytest.raises(NotFittedError):
        model.score(pairs, y)
    # Examples have no threshold, and are no pairs.
    assert not hasattr(model.fit(*task()), "score")
