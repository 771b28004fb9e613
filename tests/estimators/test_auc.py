# SPDX-License-Identifier: BSD-3-Clause
"""AUCClassifier on stored examples."""

import pickle
import re
import sys
import textwrap

import joblib
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from pairlearn import (
    SGD,
    AUCClassifier,
    Constant,
    Hinge,
    InverseSqrt,
    LastIterate,
    LinearScore,
    PairLoss,
    PairwiseSGD,
    Problem,
    RandomPair,
    SmoothedHinge,
    SquaredHinge,
    Threshold,
    Uniform,
    roc_auc,
    scalar,
)
from pairlearn.estimators.auc.ways.exact import is_cheap
from pairlearn.pairings import FifoBuffer
from pairlearn.solvers.rows import as_rows


def sample(n=300, d=5, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, (X[:, 0] - X[:, 1] + rng.normal(size=n) > 0.5).astype(int)


def quick(**parameters):
    solver = SGD(step_size=0.05, n_passes=5)
    return AUCClassifier(solver=solver, random_state=0).set_params(**parameters)


# ------------------------------------------------------------------------------------ fitting


def test_works_untuned():
    X, y = sample(n=600)
    model = AUCClassifier(solver="sgd", random_state=0).fit(X[:300], y[:300])
    assert model.score(X[300:], y[300:]) > 0.85
    assert 0.8 < model.held_out_auc_ < 1.0
    assert model.n_steps_ == 200 * 300
    assert 0 < model.n_gradients_ < model.n_steps_
    assert model.trace_.n_steps == model.n_steps_
    assert model.step_size_ > 0
    assert model.radius_ > 0
    assert model.coef_.shape == (1, 5)
    assert model.classes_.tolist() == [0, 1]
    assert model.n_features_in_ == 5


def test_the_unit_of_the_features_does_not_matter():
    X, y = sample()
    bare = {"solver": "sgd", "scaling": None, "random_state": 0}
    model = AUCClassifier(**bare).fit(X, y)
    tried = np.array([one.values["step_size"] for one in model.choice_.tried])
    for unit in (2.0**-20, 2.0**20):
        other = AUCClassifier(**bare).fit(unit * X, y)
        # Other numbers make other folds, so that another of the same candidates may win.
        found = np.array([one.values["step_size"] for one in other.choice_.tried])
        np.testing.assert_allclose(found * unit**2, tried, rtol=1e-12)
        assert other.held_out_auc_ == pytest.approx(model.held_out_auc_, abs=0.05)
        given = {**bare, "solver": SGD(step_size=model.step_size_, radius=model.radius_)}
        asked = SGD(step_size=model.step_size_ / unit**2, radius=model.radius_ / unit)
        same = AUCClassifier(**given).fit(X, y)
        scaled = AUCClassifier(**{**bare, "solver": asked}).fit(unit * X, y)
        np.testing.assert_allclose(unit * scaled.coef_, same.coef_, rtol=1e-9)


def test_a_given_step_size_is_algorithm_1():
    X, y = sample()
    model = quick(solver__radius=2.0, scaling=None).fit(X, y)
    from pairlearn import Ball

    rng = np.random.default_rng(0)
    expected = PairwiseSGD(schedule=Constant(0.05), domain=Ball(2.0)).solve(
        Problem(LinearScore(), Hinge()), X, 2.0 * y - 1.0, n_passes=5, rng=rng
    )
    assert np.array_equal(model.coef_[0], expected.average)
    assert (model.step_size_, model.radius_) == (0.05, 2.0)
    assert model.held_out_auc_ is None


@pytest.mark.parametrize("given", [{"radius": 1.5}, {"radius": np.inf}, {"step_size": 0.05}])
def test_auto_keeps_what_is_given(given):
    X, y = sample()
    model = AUCClassifier(solver=SGD(n_passes=2, **given), random_state=0).fit(X, y)
    for name, value in given.items():
        assert getattr(model, f"{name}_") == value
    if "radius" in given:
        assert np.linalg.norm(model.coef_) <= given["radius"] * (1 + 1e-12)
    else:
        assert model.radius_ == np.inf


@pytest.mark.parametrize(
    "parameters",
    [{"loss": loss} for loss in ("squared_hinge", "square", "logistic", "exponential", "loglink")]
    + [{"loss": SmoothedHinge(width=0.2)}, {"loss": Hinge(one_sided=True)}]
    + [
        {"solver__schedule": s}
        for s in ("constant", "inverse_sqrt", "inverse_time", InverseSqrt(2.0))
    ]
    + [
        {"solver__averaging": a}
        for a in ("linear", "uniform", "tail", "last", Uniform(), LastIterate())
    ]
    + [{"solver__pairing": p} for p in ("random", RandomPair(), "fifo", FifoBuffer(4))]
    + [{"decision": t} for t in ("accuracy", "f1", "probability", 0.3)]
    + [{"decision__calibration": "isotonic"}]
    + [{"class_weight": "balanced"}, {"class_weight": {0: 1, 1: 5}}],
    ids=repr,
)
def test_every_parameter_learns(parameters):
    X, y = sample(n=400)
    model = AUCClassifier(solver=SGD(n_passes=10), random_state=0).set_params(**parameters)
    model.fit(X[:200], y[:200])
    assert model.score(X[200:], y[200:]) > 0.78
    probability = model.predict_proba(X)
    assert np.allclose(probability.sum(axis=1), 1.0)
    assert np.isfinite(model.decision_function(X)).all()


def test_seeds():
    X, y = sample()
    runs = [
        quick(random_state=state).fit(X, y).coef_
        for state in (1, 1, np.random.default_rng(1), np.random.RandomState(1), 2)
    ]
    assert np.array_equal(runs[0], runs[1])
    assert np.array_equal(runs[0], runs[2])
    assert not np.array_equal(runs[0], runs[4])


def test_class_weights_move_the_decision_not_the_ranking():
    X, y = sample(n=1000)
    plain, heavy = (
        AUCClassifier(
            solver=SGD(step_size=0.01, n_passes=50), class_weight=weight, random_state=0
        ).fit(X, y)
        for weight in (None, {0: 1.0, 1: 20.0})
    )
    # Weights scale the steps by a constant that is divided out again.
    assert np.allclose(plain.coef_, heavy.coef_, rtol=1e-10)
    assert heavy.threshold_ < plain.threshold_
    assert heavy.predict(X).mean() > plain.predict(X).mean()
    assert (heavy.predict_proba(X)[:, 1] > plain.predict_proba(X)[:, 1]).all()


def test_sample_weights():
    X, y = sample(n=600)
    # The second half follows the opposite rule, and counts nothing.
    y[300:] = 1 - y[300:]
    weight = np.r_[np.ones(300), np.zeros(300)]
    model = AUCClassifier(solver=SGD(n_passes=10), random_state=0).fit(X, y, sample_weight=weight)
    assert model.score(X[:300], y[:300]) > 0.85
    assert np.mean(model.predict(X[:300]) == y[:300]) > 0.75
    scaled = AUCClassifier(solver=SGD(n_passes=10), random_state=0).fit(
        X, y, sample_weight=8.0 * weight
    )
    assert np.allclose(scaled.coef_, model.coef_, rtol=1e-10)


# ----------------------------------------------------------------------- decisions and scores


@pytest.mark.parametrize("calibration", ["sigmoid", "isotonic"])
@pytest.mark.parametrize("threshold", ["balanced_accuracy", "accuracy", "f1", "probability", 0.2])
def test_decisions_follow_the_scores(calibration, threshold):
    X, y = sample()
    model = quick(decision=Threshold(threshold, calibration=calibration)).fit(X, y)
    scores = X @ model.coef_[0]
    decision = model.decision_function(X)
    assert np.allclose(decision, scores - model.threshold_)
    assert np.allclose(decision, scores + model.intercept_[0])
    assert np.array_equal(model.predict(X), (decision > 0).astype(int))
    order = np.argsort(scores)
    probability = model.predict_proba(X)[order, 1]
    assert ((probability >= 0) & (probability <= 1)).all()
    assert (np.diff(probability) >= 0).all()
    assert model.score(X, y) == pytest.approx(roc_auc(y, scores))
    if threshold == "probability":
        clear = np.abs(model.predict_proba(X)[:, 1] - 0.5) > 1e-9
        said = model.predict_proba(X)[:, 1] > 0.5
        assert np.array_equal(model.predict(X)[clear] == 1, said[clear])
    if threshold == 0.2:
        assert model.threshold_ == 0.2


def test_thresholds_and_probabilities_of_many_examples_use_a_sample(monkeypatch):
    from pairlearn.estimators.shared import decisions

    X, y = sample(n=2000)
    y[(y == 1) & (np.arange(2000) % 4 > 0)] = 0
    full = quick().fit(X, y)
    monkeypatch.setattr(decisions, "SCORES_PER_CLASS", 200)
    part = quick().fit(X, y)
    assert np.array_equal(full.coef_, part.coef_)
    # The mean probability is the prevalence, although the sample has equally many of both.
    assert part.predict_proba(X)[:, 1].mean() == pytest.approx(y.mean(), abs=0.03)
    assert full.predict_proba(X)[:, 1].mean() == pytest.approx(y.mean(), abs=0.01)


# ------------------------------------------------------------------------------ kinds of input


def test_labels_of_any_kind():
    X, y = sample()
    expected = quick().fit(X, y)
    for classes in (["ham", "spam"], [-1, 1], [False, True], [3.0, 7.5], [b"a", b"b"]):
        labels = np.array(classes)[y]
        model = quick().fit(X, labels)
        assert np.array_equal(model.coef_, expected.coef_)
        assert np.array_equal(model.classes_, np.array(classes))
        assert np.array_equal(model.predict(X), np.array(classes)[expected.predict(X)])
        assert model.score(X, labels) == expected.score(X, y)
    names = pd.Series(np.array(["ham", "spam"])[y])
    assert quick().fit(X, names).classes_.tolist() == ["ham", "spam"]


def test_data_frames():
    X, y = sample()
    frame = pd.DataFrame(X, columns=list("abcde"))
    model = quick().fit(frame, y)
    assert model.feature_names_in_.tolist() == list("abcde")
    assert np.array_equal(model.coef_, quick().fit(X, y).coef_)
    expected = quick().fit(X, y).decision_function(X)
    assert np.allclose(model.decision_function(frame), expected, rtol=1e-12, atol=1e-14)
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(frame[list("edcba")])
    stream = quick().partial_fit(frame, y, classes=[0, 1])
    with pytest.raises(ValueError, match="feature names should match"):
        stream.partial_fit(frame[list("edcba")], y)


@pytest.mark.parametrize("container", ["csr_array", "csc_array", "coo_array", "csr_matrix"])
def test_sparse_input(container):
    X, y = sample()
    X[np.abs(X) < 0.5] = 0.0
    sparse = getattr(scipy.sparse, container)(X)
    model = quick().fit(X, y)
    other = quick().fit(sparse, y)
    assert np.allclose(other.coef_, model.coef_, rtol=1e-10)
    assert np.allclose(other.predict_proba(sparse), model.predict_proba(X))
    auto = AUCClassifier(solver=SGD(n_passes=5), random_state=0).fit(sparse, y)
    assert auto.score(sparse, y) > 0.8


def test_float32():
    X, y = sample()
    model = quick().fit(X, y)
    single = quick().fit(X.astype(np.float32), y)
    assert np.allclose(single.coef_, model.coef_, rtol=1e-3, atol=1e-5)
    assert not np.array_equal(single.coef_, model.coef_)
    assert single.coef_.dtype == np.float64


@pytest.mark.parametrize(
    ("n", "d", "solver"),
    [(300, 20, "exact"), (40, 20_000, "exact"), (500, 1_500, "exact"), (900, 990, "sgd")],
)
def test_wide_rows_are_solved_exactly(n, d, solver):
    X = np.random.default_rng(0).normal(size=(n, d)).astype(np.float32)
    y = np.where(np.arange(n) % 2, 1.0, -1.0)
    assert is_cheap(as_rows(X), y, SquaredHinge()) == (solver == "exact")


def test_wide_rows_learn():
    rng = np.random.default_rng(0)
    z = rng.normal(size=60)
    X, y = 0.3 * z[:, None] + rng.normal(size=(60, 1200)), (z > 0).astype(int)
    model = AUCClassifier(random_state=0).fit(X[:40], y[:40])
    assert model.solver_ == "exact"
    assert model.score(X[40:], y[40:]) > 0.9


# ------------------------------------------------------------------ callbacks, bar, interrupts


@pytest.fixture
def small_blocks(block_steps):
    block_steps(256)


def test_callbacks(small_blocks):
    X, y = sample()
    calls = []
    model = quick(callbacks=[lambda run: calls.append((run.step, run.seconds, run.risk))]).fit(X, y)
    assert [step for step, _, _ in calls] == [256, 512, 768, 1024, 1280, 1500]
    assert all(risk >= 0 for _, _, risk in calls)
    assert model.trace_.history == calls
    assert np.array_equal(model.coef_, quick().fit(X, y).coef_)


def test_verbose_draws_a_bar_on_stderr(small_blocks, capfd):
    X, y = sample()
    AUCClassifier(solver=SGD(n_passes=5), random_state=0, verbose=1).fit(X, y)
    out, err = capfd.readouterr()
    assert out == ""
    assert "1,500/1,500 steps" in err
    assert re.search(r"pair risk 0\.\d+", err)
    assert re.search(r"held-out AUC 0\.\d+", err)
    quick().fit(X, y)
    assert capfd.readouterr() == ("", "")


def test_interrupt_gives_a_usable_model(small_blocks):
    X, y = sample()

    def interrupt(running):
        if running.step >= 512:
            raise KeyboardInterrupt

    with pytest.warns(RuntimeWarning, match="Interrupted after 512 of 1500 steps"):
        model = quick(callbacks=[interrupt]).fit(X, y)
    assert model.trace_.interrupted
    assert model.n_steps_ == 512
    assert model.score(X, y) > 0.8
    assert set(model.predict(X)) == {0, 1}
    assert model.predict_proba(X).shape == (300, 2)


def test_warm_start():
    X, y = sample()
    model = quick(warm_start=True, scaling=None).fit(X, y)
    first = model.coef_.copy()
    expected = PairwiseSGD(schedule=Constant(0.05)).solve(
        Problem(LinearScore(), Hinge()),
        X,
        2.0 * y - 1.0,
        n_passes=5,
        rng=np.random.default_rng(0),
        w_start=first[0],
    )
    model.fit(X, y)
    assert np.array_equal(model.coef_[0], expected.average)
    cold = quick(scaling=None).fit(X, y).fit(X, y)
    assert np.array_equal(cold.coef_, first)


# --------------------------------------------------------------- clones, pickles, other workers


def test_clone_and_parameters():
    model = AUCClassifier(loss=Hinge(margin=2.0), solver=SGD(radius=3.0, schedule=InverseSqrt(1.0)))
    twin = clone(model)
    assert twin.get_params() == model.get_params()
    assert repr(twin) == repr(model)
    assert twin is not model


def test_pickle():
    X, y = sample()
    model = quick(loss=SmoothedHinge(width=0.3)).fit(X, y)
    twin = pickle.loads(pickle.dumps(model))
    assert np.array_equal(twin.predict_proba(X), model.predict_proba(X))
    assert np.array_equal(twin.fit(X, y).coef_, model.coef_)


def test_grid_search_and_pipelines():
    X, y = sample()
    pipeline = make_pipeline(StandardScaler(), quick())
    search = GridSearchCV(
        pipeline,
        {
            "aucclassifier__solver__step_size": [1e-6, 0.05],
            "aucclassifier__loss": ["hinge", "logistic"],
        },
        cv=3,
    ).fit(100.0 * X + 7.0, y)
    assert search.best_score_ > 0.8
    assert search.predict(100.0 * X + 7.0).shape == (300,)
    by_name = cross_val_score(pipeline, X, y, cv=3, scoring="roc_auc")
    by_score = cross_val_score(pipeline, X, y, cv=3)
    assert np.allclose(by_name, by_score)


@pytest.mark.thorough
def test_losses_of_one_s_own_in_other_processes(tmp_path, monkeypatch):
    """A loss of an importable module travels by name, one defined in a function by value."""
    (tmp_path / "my_pair_losses.py").write_text(
        textwrap.dedent(
            """
            import math
            from pairlearn import PairLoss, scalar

            class Mine(PairLoss):
                @scalar
                def value(score, y, y_partner, _):
                    m = score if y > y_partner else -score
                    return 1.0 / (1.0 + math.exp(m))

                @scalar
                def derivative(score, y, y_partner, _):
                    sign = 1.0 if y > y_partner else -1.0
                    p = 1.0 / (1.0 + math.exp(sign * score))
                    return -sign * p * (1.0 - p)
            """
        )
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "my_pair_losses", raising=False)
    from my_pair_losses import Mine

    class Local(PairLoss):
        @scalar
        def value(score, y, y_partner, _):  # noqa: N805
            return 0.0

        @scalar
        def derivative(score, y, y_partner, _):  # noqa: N805
            return -0.5 if y > y_partner else 0.5

    X, y = sample()
    models = [quick(loss=loss) for loss in (Mine(), Local(), Hinge())]
    expected = [clone(model).fit(X, y).coef_ for model in models]
    with joblib.parallel_config("loky", inner_max_num_threads=1):
        found = joblib.Parallel(n_jobs=2)(
            joblib.delayed(clone(model).fit)(X, y) for model in models
        )
    for model, coef in zip(found, expected, strict=True):
        assert np.array_equal(model.coef_, coef)
