# SPDX-License-Identifier: BSD-3-Clause
"""AUCClassifier on a stream."""

import pickle
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse

from pairlearn import (
    SGD,
    AUCClassifier,
    Constant,
    DivergenceError,
    Hinge,
    LinearScore,
    Moments,
    PairwiseSGD,
    Problem,
    roc_auc,
)

N, D = 400, 5


def sample(seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, D))
    return X, (X[:, 0] - X[:, 1] + rng.normal(size=N) > 0.5).astype(int)


def chunks(X, y, size=50):
    return [(X[k : k + size], y[k : k + size]) for k in range(0, len(y), size)]


def streamed(model, X, y, size=50, **options):
    for X_chunk, y_chunk in chunks(X, y, size):
        model.partial_fit(X_chunk, y_chunk, classes=[0, 1], **options)
    return model


def fingerprint(model):
    names = ["coef_", "threshold_", "step_size_", "radius_", "n_steps_", "n_gradients_"]
    return [np.array(getattr(model, name)) for name in names]


def same(a, b):
    return all(np.array_equal(u, v) for u, v in zip(fingerprint(a), fingerprint(b), strict=True))


def test_a_given_step_size_is_algorithm_2():
    X, y = sample()
    model = streamed(
        AUCClassifier(solver=SGD(step_size=0.05, schedule="constant"), scaling=None), X, y
    )
    stream = PairwiseSGD(schedule=Constant(0.05)).start(Problem(LinearScore(), Hinge()), D)
    stream.learn_many(X, 2.0 * y - 1.0)
    np.testing.assert_allclose(model.coef_[0], stream.average, rtol=1e-9)
    assert model.n_steps_ == N - 1


@pytest.mark.parametrize("sizes", [(1,), (400,), (7,)])
def test_chunks_of_any_sizes_give_the_same_coefficients(sizes):
    X, y = sample()
    expected = streamed(AUCClassifier(solver=SGD(step_size=0.05)), X, y, 50)
    found = streamed(AUCClassifier(solver=SGD(step_size=0.05)), X, y, sizes[0])
    np.testing.assert_allclose(found.coef_, expected.coef_, rtol=1e-9)


def test_auto_learns():
    X, y = sample()
    model = streamed(AUCClassifier(), X, y)
    X_test, y_test = sample(1)
    assert model.score(X_test, y_test) > 0.85
    assert model.solver_ == "moments"
    assert model.half_life_ == np.inf
    assert 0.85 < model.held_out_auc_ < 1.0
    assert set(model.predict(X_test)) == {0, 1}


def test_auto_without_scaling_chooses_by_progressive_auc():
    X, y = sample()
    model = streamed(AUCClassifier(solver="sgd", scaling=None), X, y)
    assert model.score(*sample(1)) > 0.85
    assert 0.5 < model.held_out_auc_ <= 1.0


def test_auto_keeps_one_stream_after_the_warm_up(monkeypatch):
    from pairlearn.estimators.auc.ways import grid

    monkeypatch.setattr(grid, "_WARM_UP", 200)
    X, y = sample()
    model = AUCClassifier(solver="sgd", scaling=None)
    for k, (X_chunk, y_chunk) in enumerate(chunks(X, y)):
        model.partial_fit(X_chunk, y_chunk, classes=[0, 1])
        assert len(model.stream_state()["streams"]) == (6 if k < 3 else 1)
    alone = AUCClassifier(solver=SGD(step_size=model.step_size_), scaling=None)
    assert np.array_equal(streamed(alone, X, y).coef_, model.coef_)


def test_classes():
    X, y = sample()
    with pytest.raises(ValueError, match="classes must be passed on the first call to partial_fit"):
        AUCClassifier().partial_fit(X, y)
    model = AUCClassifier(solver=SGD(step_size=0.1)).partial_fit(X, y, classes=[1, 0])
    assert model.classes_.tolist() == [0, 1]
    model.partial_fit(X, y)
    with pytest.raises(ValueError, match=r"classes=\[0, 2\] differ from those of the model, \[0, "):
        model.partial_fit(X, y, classes=[0, 2])
    with pytest.raises(ValueError, match=r"y contains \[2\], which is not in classes=\[0, 1\]"):
        model.partial_fit(X, y + 1)
    names = AUCClassifier(solver=SGD(step_size=0.1)).partial_fit(
        X, np.array(["no", "yes"])[y], ["no", "yes"]
    )
    assert np.array_equal(names.predict(X) == "yes", streamed_once(X, y).predict(X) == 1)


def streamed_once(X, y):
    return AUCClassifier(solver=SGD(step_size=0.1)).partial_fit(X, y, classes=[0, 1])


@pytest.mark.filterwarnings("ignore:the order of the examples")
def test_one_class_so_far():
    X, y = sample()
    model = AUCClassifier().partial_fit(X[y == 0], y[y == 0], classes=[0, 1])
    assert not model.coef_.any()
    assert model.threshold_ == 0.0
    assert model.predict(X).shape == (N,)
    assert np.allclose(model.predict_proba(X), 0.5)
    model.partial_fit(X, y)
    assert model.score(X, y) > 0.8


@pytest.mark.parametrize("step_size", ["auto", 0.1])
@pytest.mark.parametrize("kind", ["NaN", "label", "length", "features", "divergence", "weights"])
@pytest.mark.parametrize("sparse", [False, True])
def test_a_failed_chunk_leaves_the_model_as_it_was(kind, step_size, sparse):
    X, y = sample()
    if sparse:
        X = scipy.sparse.csr_array(X)
    # Scaled rows have a bounded norm: the square loss cannot diverge on them.
    scaling = None if kind == "divergence" else "auto"
    model, twin = (
        AUCClassifier(loss="square", solver=SGD(step_size=step_size), scaling=scaling)
        for _ in range(2)
    )
    for m in (model, twin):
        m.partial_fit(X[:100], y[:100], classes=[0, 1])
    bad_X, bad_y = X[100:150].copy(), y[100:150].copy()
    options = {}
    if kind == "NaN":
        bad_X[30, 2] = np.nan
    elif kind == "label":
        bad_y[30] = 7
    elif kind == "length":
        bad_y = bad_y[1:]
    elif kind == "features":
        bad_X = bad_X[:, :3]
    elif kind == "divergence":
        bad_X = bad_X * 1e160
    else:
        options = {"sample_weight": np.ones(50)}
    error = DivergenceError if kind == "divergence" else ValueError
    with pytest.raises(error), np.errstate(all="ignore"):
        model.partial_fit(bad_X, bad_y, **options)
    assert same(model, twin)
    for m in (model, twin):
        m.partial_fit(X[150:], y[150:])
    assert same(model, twin)


def test_a_failed_first_chunk_leaves_nothing_behind():
    X, y = sample()
    model = AUCClassifier(solver=SGD(step_size=0.1))
    with pytest.raises(ValueError, match="not in classes"):
        model.partial_fit(X, y + 5, classes=[0, 1])
    assert vars(model) == vars(AUCClassifier(solver=SGD(step_size=0.1)))
    fitted = AUCClassifier(solver=SGD(step_size=0.1, n_passes=1), random_state=0).fit(X, y)
    before = fitted.coef_.copy()
    with pytest.raises(ValueError, match="X has 3 features"):
        fitted.partial_fit(X[:, :3], y, classes=[0, 1])
    assert fitted.n_features_in_ == D
    assert np.array_equal(fitted.coef_, before)


def test_partial_fit_continues_a_fit():
    X, y = sample()
    model = AUCClassifier(
        solver=SGD(step_size=0.05, schedule="constant"), scaling=None, random_state=0
    )
    model.fit(X, y)
    start = model.coef_[0].copy()
    threshold = model.threshold_
    stream = PairwiseSGD(schedule=Constant(0.05)).start(
        Problem(LinearScore(), Hinge()), D, w_start=start, n_before=len(X)
    )
    more, labels = sample(1)
    model.partial_fit(more, labels)
    assert np.array_equal(model.coef_[0], stream.learn_many(more, 2.0 * labels - 1.0).average)
    assert model.threshold_ != threshold
    model.fit(X, y)
    assert np.array_equal(model.coef_[0], start), "fit starts anew"


def test_progressive_scores_decide():
    """Threshold and probabilities come from scores given before an example was learned."""
    X, y = sample()
    model = streamed(AUCClassifier(solver=SGD(step_size=0.05)), X, y, 100)
    probability = model.predict_proba(X)[:, 1]
    assert (np.diff(probability[np.argsort(X @ model.coef_[0])]) >= 0).all()
    assert roc_auc(y, probability) == pytest.approx(model.score(X, y), abs=1e-9)


def test_weights():
    X, y = sample()
    weight = np.ones(N)
    plain = streamed(AUCClassifier(solver=SGD(step_size=0.05)), X, y)
    weighted = AUCClassifier(solver=SGD(step_size=0.05))
    for k in range(0, N, 50):
        weighted.partial_fit(
            X[k : k + 50], y[k : k + 50], classes=[0, 1], sample_weight=weight[k : k + 50]
        )
    assert np.array_equal(weighted.coef_, plain.coef_)
    assert weighted.threshold_ == plain.threshold_
    heavy = streamed(AUCClassifier(solver=SGD(step_size=0.05), class_weight={0: 1.0, 1: 4.0}), X, y)
    assert heavy.predict(X).mean() > plain.predict(X).mean()


@pytest.mark.parametrize(
    ("settings", "n_classes"),
    [
        ({}, 2),
        ({"solver": Moments(0.1, ranges=(-9.0, 9.0))}, 2),
        ({"objective": "partial_auc"}, 2),
        ({}, 3),
    ],
)
@pytest.mark.parametrize("first", [True, False])
def test_a_chunk_without_weights_has_weights_of_one(settings, n_classes, first):
    rng = np.random.default_rng(2)
    X = rng.normal(size=(400, 3))
    y = np.digitize(X[:, 0] + rng.normal(size=400), [0.0, 1.0][: n_classes - 1])
    found = []
    for others in (None, np.ones(100)):
        model = AUCClassifier(random_state=0, **settings)
        for k in range(4):
            now, own = slice(100 * k, 100 * k + 100), np.full(100, 2.0)
            weight = own if (k < 2) == first else others
            model.partial_fit(X[now], y[now], classes=range(n_classes), sample_weight=weight)
        found.append(model)
    np.testing.assert_array_equal(found[0].coef_, found[1].coef_)
    np.testing.assert_array_equal(*(model.predict_proba(X) for model in found))


def test_kinds_of_input():
    X, y = sample()
    X[np.abs(X) < 0.4] = 0.0
    expected = streamed(AUCClassifier(solver=SGD(step_size=0.05)), X, y)
    csr = streamed(AUCClassifier(solver=SGD(step_size=0.05)), scipy.sparse.csr_array(X), y)
    assert np.allclose(csr.coef_, expected.coef_, rtol=1e-10)
    single = streamed(AUCClassifier(solver=SGD(step_size=0.05)), X.astype(np.float32), y)
    assert np.allclose(single.coef_, expected.coef_, rtol=1e-3, atol=1e-5)
    mixed = AUCClassifier(solver=SGD(step_size=0.05))
    for k, (X_chunk, y_chunk) in enumerate(chunks(X, y)):
        mixed.partial_fit(X_chunk.tolist() if k % 2 else X_chunk, y_chunk, classes=[0, 1])
    assert np.array_equal(mixed.coef_, expected.coef_)


@pytest.mark.parametrize("loss", ["hinge", "logistic"])
@pytest.mark.thorough
def test_a_stored_model_goes_on_in_another_process(loss, tmp_path):
    """Machine code lives elsewhere there: nothing of it may be stored."""
    X, y = sample()
    model = streamed(AUCClassifier(loss=loss), X[:200], y[:200])
    (tmp_path / "model.pickle").write_bytes(pickle.dumps((model, X[200:], y[200:])))
    code = (
        "import pickle, sys\n"
        "path = sys.argv[1]\n"
        "model, X, y = pickle.load(open(path + '/model.pickle', 'rb'))\n"
        "model.partial_fit(X, y)\n"
        "pickle.dump(model, open(path + '/later.pickle', 'wb'))\n"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True)
    later = pickle.loads((tmp_path / "later.pickle").read_bytes())
    model.partial_fit(X[200:], y[200:])
    assert np.array_equal(later.coef_, model.coef_)
    assert later.threshold_ == model.threshold_


def test_a_model_does_not_depend_on_when_it_is_asked_for():
    rng = np.random.default_rng(4)
    X = rng.normal(size=(2400, 4))
    y = (X[:, 0] + rng.normal(size=2400) > 0.5).astype(int)
    at_once = AUCClassifier().partial_fit(X, y, classes=[0, 1])
    asked = AUCClassifier().partial_fit(X[:1900], y[:1900], classes=[0, 1])
    for k in range(1900, 2400, 7):
        asked.predict_proba(X[:2])
        asked.partial_fit(X[k : k + 7], y[k : k + 7])
    assert np.array_equal(asked.coef_, at_once.coef_)
    assert asked.threshold_ == at_once.threshold_
    assert np.array_equal(asked.predict_proba(X), at_once.predict_proba(X))
    assert asked.choice_ == at_once.choice_
    # A restart, and rows of the same number after it, are not taken for those of before.
    again = pickle.loads(pickle.dumps(asked))
    for model in (asked, again):
        model.restart_stream()
        model.partial_fit(X[::-1], y[::-1])
    assert np.array_equal(asked.predict_proba(X), again.predict_proba(X))


@pytest.mark.parametrize("n", [40, 300, 2100])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_restart_keeps_the_model_until_new_examples_come(n, n_classes):
    rng = np.random.default_rng(6)
    X = rng.normal(size=(n, 3))
    y = np.digitize(X[:, 0] + rng.normal(size=n), [0.0, 1.0][: n_classes - 1])
    classes = np.arange(n_classes)
    plain, asked, restarted = (AUCClassifier().partial_fit(X, y, classes=classes) for _ in range(3))
    expected = plain.predict_proba(X)
    asked.predict_proba(X)
    for model in (asked, restarted):
        model.restart_stream()
        np.testing.assert_array_equal(model.predict_proba(X), expected)
        np.testing.assert_array_equal(model.predict(X), plain.predict(X))
        model.partial_fit(X[:30], y[:30])
    np.testing.assert_array_equal(asked.predict_proba(X), restarted.predict_proba(X))
    # A state in which nothing came after the restart gives a model too.
    restarted.restart_stream()
    resumed = AUCClassifier().partial_fit(X, y, classes=classes)
    resumed.restore_stream(restarted.stream_state())
    assert np.isfinite(resumed.predict_proba(X)).all()


def test_a_class_that_comes_late_is_not_left_out_of_the_choices():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(2160, 3))
    y = np.repeat([0, 1], [2100, 60])
    X[y == 1] += 1.0
    # The block that began at 2,048 holds all positives: none of them is in the blocks before.
    model = AUCClassifier().partial_fit(X[:2150], y[:2150], classes=[0, 1])
    assert 0.0 < model.predict_proba(X)[:, 1].mean() < 0.5
    assert model.score(X, y) > 0.85
    asked = AUCClassifier().partial_fit(X[:2140], y[:2140], classes=[0, 1])
    asked.predict(X)
    asked.partial_fit(X[2140:2150], y[2140:2150])
    assert np.array_equal(asked.predict_proba(X), model.predict_proba(X))


@pytest.mark.parametrize("n_features", [4])
@pytest.mark.parametrize("settings", [{}, {"features": "hats"}, {"solver": Moments(memory=300.0)}])
def test_an_example_without_weight_is_as_if_it_had_not_come(n_features, settings):
    rng = np.random.default_rng(6)
    X = rng.normal(size=(900, n_features))
    y = (X[:, 0] + rng.normal(size=900) > 0.8).astype(int)
    weight = (rng.random(900) < 0.5).astype(float)
    X[weight == 0.0] *= 100.0
    # At first all positives are without weight: neither scores nor state may become NaN.
    weight[:100] *= y[:100] == 0
    model, kept = AUCClassifier(random_state=0, **settings), weight > 0.0
    for k in range(0, 900, 90):
        part = slice(k, k + 90)
        model.partial_fit(X[part], y[part], classes=[0, 1], sample_weight=weight[part])
        assert np.isfinite(model.predict_proba(X)).all()
        twin = AUCClassifier(random_state=0, **settings)
        twin.restore_stream(model.stream_state())
        model = twin
    expected = AUCClassifier(random_state=0, **settings)
    expected.partial_fit(X[kept], y[kept], classes=[0, 1], sample_weight=weight[kept])
    assert np.array_equal(model.coef_, expected.coef_)
    assert model.threshold_ == expected.threshold_


def test_a_state_of_another_pairing_is_refused():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((50, 2))
    y = (X[:, 0] > 0).astype(int)
    for saved, restored in (("previous", "reservoir"), ("reservoir", "previous")):
        model = AUCClassifier(solver=SGD(pairing=saved), random_state=0)
        state = model.partial_fit(X, y, classes=[0, 1]).stream_state()
        with pytest.raises(ValueError, match="the saved stream has another pairing"):
            AUCClassifier(solver=SGD(pairing=restored), random_state=0).restore_stream(state)


def test_a_state_of_another_loss_is_refused():
    """It was taken, and the stream went on with another loss."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 3)), np.arange(60) % 2
    state = AUCClassifier(loss="hinge", solver="sgd").partial_fit(X, y, [0, 1]).stream_state()
    with pytest.raises(ValueError, match=r"has the loss Hinge.* and this one Logistic"):
        AUCClassifier(loss="logistic", solver="sgd").restore_stream(state)
    # A state from before losses had names.
    for stream in state["streams"]:
        del stream["loss"], stream["pairing"]
    AUCClassifier(loss="hinge", solver="sgd").restore_stream(state)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_decisions_of_a_sparse_stream_do_not_depend_on_where_zero_is(n_classes):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 4))
    y = np.digitize(X[:, 0] + 0.5 * rng.normal(size=600), [-0.6, 0.6][: n_classes - 1])
    found = []
    for shift in (0.0, 64.0):
        rows = scipy.sparse.csr_matrix(X + shift)
        model = AUCClassifier(solver="sgd", random_state=0)
        for begin in range(0, 600, 100):
            part = slice(begin, begin + 100)
            model.partial_fit(rows[part], y[part], classes=np.arange(n_classes))
        found.append(model.predict_proba(rows))
    np.testing.assert_allclose(found[0], found[1], atol=1e-6)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("solver", ["auto", "sgd"])
def test_a_stream_refuses_callbacks(n_classes, solver):
    """They were never called, and "auto" took descent for their sake."""
    X, y = np.random.default_rng(0).normal(size=(60, 3)), np.arange(60) % n_classes
    model = AUCClassifier(solver=solver, callbacks=[print])
    with pytest.raises(ValueError, match="would ignore callbacks"):
        model.partial_fit(X, y, np.arange(n_classes))
