# SPDX-License-Identifier: BSD-3-Clause
"""A model that was fitted meets a few more examples: it must not forget what it knows."""

import copy
import pickle
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_digits

from pairlearn import (
    SGD,
    AUCClassifier,
    Hats,
    MetricLearner,
    PairwiseRanker,
    Push,
    SquaredHinge,
    Threshold,
    load_model,
)
from pairlearn.averaging import DelayedByStepSize, Uniform
from pairlearn.losses import Hinge
from pairlearn.problem import Problem
from pairlearn.schedules import InverseSqrt
from pairlearn.scores import LinearScore
from pairlearn.solvers.descent.pairwise_sgd import PairwiseSGD
from pairlearn.streams import OnlineLearner


def examples(n, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 5)) * [1.0, 10.0, 0.1, 1.0, 1.0] + [0.0, 50.0, 0.0, 0.0, 0.0]
    return X, (X[:, 0] + rng.normal(size=n) > 0.8).astype(int)


@pytest.mark.parametrize(
    "options", [{}, {"solver": "sgd"}, {"scaling": None}, {"solver": SGD(step_size=0.3)}]
)
def test_few_examples_do_not_undo_a_fit(options):
    X, y = examples(400, 0)
    fresh, labels = examples(60, 1)
    test, truth = examples(2000, 2)
    model = AUCClassifier(random_state=0, **options).fit(X, y)
    before = model.score(test, truth)
    probability, cut = model.predict_proba(test), model.threshold_
    for rows in (slice(0, 1), slice(1, 5), slice(5, 20)):
        model.partial_fit(fresh[rows], labels[rows])
        assert model.score(test, truth) > before - 0.005
    assert model.threshold_ == cut
    assert np.abs(model.predict_proba(test) - probability).max() < 0.2
    assert model.n_examples_ == 420
    many, theirs = examples(4000, 3)
    model.partial_fit(many, 1 - theirs)
    assert model.threshold_ != cut
    if "scaling" not in options and options.get("solver") != SGD(step_size=0.3):
        # With more examples than the fit had, what is new counts more; short steps take longer, and
        # a step size that folds chose may be short.
        most = before - 0.05 if options.get("solver") == "sgd" else 0.6
        assert model.score(test, truth) < most


def test_few_examples_do_not_undo_many_classes():
    X, y = load_digits(n_class=5, return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    X, y = X[order], y[order]
    model = AUCClassifier(random_state=0, loss="square").fit(X[:450], y[:450])
    before, right = model.score(X[500:], y[500:]), np.mean(model.predict(X[500:]) == y[500:])
    model.partial_fit(X[450:480], y[450:480])
    assert model.score(X[500:], y[500:]) > before - 0.001
    assert np.mean(model.predict(X[500:]) == y[500:]) > right - 0.01
    assert model.n_examples_ == 480


def test_a_file_goes_on_as_the_model_does(tmp_path):
    X, y = examples(300, 0)
    fresh, labels = examples(30, 1)
    model = AUCClassifier(solver=SGD(step_size=0.01), scaling=None, random_state=0).fit(X, y)
    model.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model").set_params(random_state=0)
    for one in (model, loaded):
        one.partial_fit(fresh, labels)
    assert np.array_equal(model.coef_, loaded.coef_)
    assert model.threshold_ == loaded.threshold_


def test_a_checkpoint_keeps_what_a_stream_goes_on_from():
    X, y = examples(300, 0)
    fresh, labels = examples(30, 1)
    for calibrate in ("sigmoid", "isotonic"):
        model = AUCClassifier(decision=Threshold(calibration=calibrate), random_state=0).fit(X, y)
        model.partial_fit(fresh[:9], labels[:9])
        again = AUCClassifier(decision=Threshold(calibration=calibrate), random_state=0)
        again.restore_stream(model.stream_state())
        for one in (model, again):
            one.partial_fit(fresh[9:], labels[9:])
        assert np.array_equal(model.predict_proba(X), again.predict_proba(X))
        assert model.n_examples_ == again.n_examples_ == 330


def test_forget_begins_anew():
    X, y = examples(400, 0)
    model = AUCClassifier(random_state=0).fit(X, y)
    learner = OnlineLearner(model)
    learner.model.restart_stream()
    many, theirs = examples(300, 3)
    learner.model.partial_fit(many, 1 - theirs)
    assert learner.model.score(X, y) < 0.4


@pytest.mark.parametrize("averaging", [DelayedByStepSize(), Uniform()])
@pytest.mark.parametrize("n_before", [0, 7, 40_000])
def test_standing_still_is_a_stream_of_pairs_without_loss(averaging, n_before):
    # Examples of one class move nothing: the same as having counted them.
    problem = Problem(LinearScore(), Hinge())
    solver = PairwiseSGD(schedule=InverseSqrt(0.5), averaging=averaging)
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(50, 3)), rng.choice([-1.0, 1.0], 50)
    start = np.array([1.0, -1.0, 0.5])
    counted = solver.start(problem, 3, w_start=start, n_before=n_before)
    lived = solver.start(problem, 3, w_start=start)
    if n_before:
        lived.learn_many(np.zeros((n_before + 1, 3)), np.full(n_before + 1, y[0]))
        lived.learn_many(X[1:], y[1:])
        counted.learn_many(np.concatenate([np.zeros((1, 3)), X[1:]]), y)
    else:
        lived.learn_many(X, y)
        counted.learn_many(X, y)
    np.testing.assert_array_equal(counted.average, lived.average)
    np.testing.assert_array_equal(counted.w, lived.w)


def targets(n, seed):
    X, _ = examples(n, seed)
    noise = np.random.default_rng(seed + 100)
    return X, X[:, 0] + 0.1 * X[:, 1] + 0.5 * noise.normal(size=n)


@pytest.mark.parametrize("options", [{}, {"scaling": None}])
@pytest.mark.parametrize("kind", [PairwiseRanker])
def test_a_ranker_goes_on(kind, options, tmp_path):
    X, y = targets(400, 0)
    fresh, theirs = targets(600, 1)
    test, truth = targets(1000, 2)
    model = kind(random_state=0, **options).fit(X, y)
    before = model.score(test, truth)
    model.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model").set_params(random_state=0)
    again = kind(random_state=0, **options)
    for rows in (slice(0, 1), slice(1, 20), slice(20, 400), slice(400, 600)):
        model.partial_fit(fresh[rows], theirs[rows])
        loaded.partial_fit(fresh[rows], theirs[rows])
        assert model.score(test, truth) > before - 0.01
        assert np.array_equal(model.coef_, loaded.coef_)
        # A saved stream goes on to the same bits.
        again.restore_stream(model.stream_state())
        assert np.array_equal(model.coef_, again.coef_)
        assert np.array_equal(model.predict(test), again.predict(test))
    again.partial_fit(fresh, theirs)
    model.partial_fit(fresh, theirs)
    assert np.array_equal(model.coef_, again.coef_)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (np.array(["a", None] * 40, dtype=object), "no label in row 1"),
        (["a", float("nan")] * 40, "no label in row 1"),
        (np.array([1, "1"] * 40, dtype=object), "types int and str"),
        (np.ma.masked_equal(np.arange(80) % 2, 1), "masked"),
    ],
)
def test_labels_that_are_none(values, said):
    X, _ = examples(80, 0)
    for model in (AUCClassifier(), MetricLearner()):
        with pytest.raises(ValueError, match=said):
            model.fit(X, values)


def test_tables_with_text_are_named():
    pandas = pytest.importorskip("pandas")
    X, y = examples(80, 0)
    for kind in ("string", "object", "Int64"):
        labels = pandas.Series(y, dtype="Int64").astype(kind)
        labels[3] = pandas.NA
        with pytest.raises(ValueError, match=r"no label in row 3|contains NaN"):
            AUCClassifier().fit(X, labels)
    table = pandas.DataFrame(X, columns=list("abcde"))
    model = AUCClassifier(random_state=0).fit(table, y)
    days = pandas.date_range("2020-01-01", periods=80)
    for column in (["x"] * 80, pandas.Categorical(["x", "y"] * 40), days):
        with pytest.raises(ValueError, match=r"column 'c' is of the type.*as in.*TableEncoder"):
            AUCClassifier().fit(table.assign(c=column), y)
        with pytest.raises(ValueError, match="column 'c' is of the type"):
            model.predict(table.assign(c=column))
    with pytest.raises(ValueError, match="masked array with 2 masked"):
        AUCClassifier().fit(np.ma.masked_greater(X, np.sort(X, axis=None)[-3]), y)
    with pytest.raises(ValueError, match="sample_weight must hold finite"):
        AUCClassifier().fit(X, y, sample_weight=-np.ones(80))
    with pytest.raises(TypeError, match="random_state must be"):
        AUCClassifier(random_state="a").fit(X, y)


@pytest.mark.parametrize(
    "model",
    [
        AUCClassifier(),
        PairwiseRanker(),
    ],
    ids=lambda model: type(model).__name__,
)
def test_a_stream_after_a_fit_has_the_columns_of_the_fit(model, tmp_path):
    """A frame with its columns in another order was learned as if they were in theirs."""
    X, y = examples(300, 0)
    table = pd.DataFrame(X, columns=list("abcde"))
    model.set_params(random_state=0).fit(table, y)
    model.save(tmp_path / "m")
    for fitted in (model, load_model(tmp_path / "m")):
        with pytest.raises(ValueError, match="feature names"):
            fitted.partial_fit(table[list("edcba")], y)
        with pytest.raises(ValueError, match="feature names"):
            fitted.partial_fit(table[["a", "b"]], y)
        assert list(fitted.feature_names_in_) == list("abcde")
        fitted.partial_fit(table, y)


CHANGES = {
    "classes": (
        partial(AUCClassifier, random_state=0),
        [
            {"objective": "push"},
            {"features": "hats"},
            {"loss": "logistic"},
            {"solver": "sgd"},
            {"scaling": None},
        ],
    ),
    "many": (partial(AUCClassifier, random_state=0), [{"loss": "square"}, {"decision": "f1"}]),
    "ranking": (
        partial(PairwiseRanker, features=Hats().fit(np.eye(3)), random_state=0),
        [
            {"loss": "logistic"},
            {"features": Hats().fit(2.0 * np.eye(3))},
            {"features": "linear"},
            {"solver": SGD(step_size=0.1)},
            {"scaling": None},
            {"weight_by_grade": True},
        ],
    ),
}
#: Settings that count with each chunk, after the stream, or not at all in one.
FREE = {"k": 3, "validation_fraction": 0.3, "n_jobs": 2}


def examples_for(kind, n=60):
    """Return examples with the labels that a kind of `CHANGES` takes."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(n, 3)), np.arange(n) % (3 if kind == "many" else 2)
    return X, y


@pytest.mark.parametrize("kind", CHANGES)
def test_a_setting_that_a_stream_would_ignore_is_refused(kind):
    """The stream went on as before, and a ranker even published the new loss."""
    make, changes = CHANGES[kind]
    X, y = examples_for(kind)
    first = {"classes": np.unique(y)} if "class" in kind or kind == "many" else {}
    begun = make().partial_fit(X, y, **first)
    for change in changes:
        model = copy.deepcopy(begun).set_params(**change)
        name = next(iter(change))
        with pytest.raises(ValueError, match=rf"began with {name}=.* would ignore {name}="):
            model.partial_fit(X, y)
        model.set_params(**{name: getattr(begun, name) for name in change}).partial_fit(X, y)
    restored = make()
    restored.restore_stream(begun.stream_state())
    with pytest.raises(ValueError, match="began with"):
        restored.set_params(**changes[0]).partial_fit(X, y)
    # Equal values are no change, and some settings are free.
    equal = pickle.loads(pickle.dumps(begun.get_params(deep=False)))
    free = {name: FREE[name] for name in FREE.keys() & equal.keys()}
    begun.set_params(**equal | free | {"random_state": 1}).partial_fit(X, y)


@pytest.mark.parametrize("kind", ["classes", "many", "ranking"])
def test_a_state_of_other_steps_is_refused(kind):
    """The given step size was ignored, another radius, schedule or average was mixed in."""
    make = CHANGES[kind][0]
    X, y = examples_for(kind, 300)
    first = {"classes": np.unique(y)} if kind in ("classes", "many") else {}
    solver = SGD(step_size=0.1, radius=2.0, pairing="previous")
    state = make(solver=solver).partial_fit(X, y, **first).stream_state()
    for change, told in (
        ({"step_size": 0.5}, "has step_size=0.1, and this one step_size=0.5"),
        ({"radius": 3.0}, "the saved stream has "),
        ({"radius": "auto"}, "the saved stream has "),
        ({"schedule": "constant"}, "has the schedule InverseSqrt.* and this one Constant"),
        ({"averaging": "uniform"}, "has the averaging .* and this one Uniform"),
    ):
        with pytest.raises(ValueError, match=told):
            make(solver=solver.with_params(**change)).restore_stream(state)
    for step_size in (0.1, "auto"):
        model = make(solver=solver.with_params(step_size=step_size))
        model.restore_stream(state)
        model.partial_fit(X, y)


@dataclass(frozen=True, repr=False)
class _OwnHinge(SquaredHinge):
    """A loss whose `repr` is that of its base: it hides a field."""

    offset: float = 0.0


@pytest.mark.parametrize(
    ("kind", "first", "changes"),
    [
        (
            "classes",
            {"objective": "push"},
            [
                {"objective": Push(2.0)},
                {"objective": "partial_auc"},
                {"loss": "logistic"},
                {"loss": SquaredHinge(margin=2.0)},
                {"scaling": None},
                {"solver": SGD(step_size=0.1)},
                {"solver": SGD(radius=0.1)},
            ],
        ),
        ("classes", {"objective": "push", "loss": _OwnHinge()}, [{"loss": _OwnHinge(offset=1.0)}]),
        ("ranking", {"loss": _OwnHinge(), "features": "linear"}, [{"loss": _OwnHinge(offset=1.0)}]),
    ],
)
def test_a_state_of_other_parts_is_refused(kind, first, changes):
    """Another objective, loss, horizon or form of the metric went on from the saved sums."""
    make = partial(CHANGES[kind][0], **first)
    X, y = examples_for(kind, 300)
    known = {"classes": [0, 1]} if kind == "classes" else {}
    state = make().partial_fit(X, y, **known).stream_state()
    for change in changes:
        with pytest.raises(ValueError, match=r"the saved stream has the .* and this one "):
            make(**change).restore_stream(state)
    same = make()
    same.restore_stream(state)
    same.partial_fit(X, y)


@pytest.mark.parametrize("kind", ["classes", "many", "ranking"])
def test_a_stream_goes_on_from_coefficients_with_their_own_map(kind):
    """It took those of another map of as many features, or failed on shapes."""
    make = CHANGES[kind][0]
    X, y = examples_for(kind)
    model = make(features=Hats(4)).fit(X, y)
    for other in ("linear", Hats(4).fit(3.0 * X)):
        changed = copy.deepcopy(model).set_params(features=other)
        with pytest.raises(ValueError, match=r"are those of the map Hats.*pass features="):
            changed.partial_fit(X, y)
    model.set_params(features=pickle.loads(pickle.dumps(model.features_))).partial_fit(X, y)


@pytest.mark.parametrize("kind", ["classes", "many", "ranking"])
def test_a_state_of_another_map_is_refused(kind):
    """The sums of one map went on with the rows of another."""
    X, y = examples_for(kind)
    first = {"classes": np.unique(y)} if kind in ("classes", "many") else {}
    make = CHANGES[kind][0]
    state = make(features=Hats(4).fit(X)).partial_fit(X, y, **first).stream_state()
    with pytest.raises(ValueError, match="learned with another map than features=Hats"):
        make(features=Hats(4).fit(3.0 * X)).restore_stream(state)
    same = make(features=Hats(4).fit(X))
    same.restore_stream(state)
    same.partial_fit(X, y)


def test_moments_of_another_map_are_refused():
    """A model with linear features went on with the curves of the state, without a word."""
    make = CHANGES["classes"][0]
    X, y = examples_for("classes", 5000)
    state = make(features="hats").partial_fit(X, y, classes=[0, 1]).stream_state()
    for given in ("linear", Hats(4).fit(X)):
        with pytest.raises(ValueError, match="are those of the map Hats"):
            make(features=given).restore_stream(state)
    make(features="hats").restore_stream(state)
    linear = make().partial_fit(X, y, classes=[0, 1]).stream_state()
    with pytest.raises(ValueError, match="are those of the map Identity"):
        make(features=Hats(4).fit(X)).restore_stream(linear)
    make().restore_stream(linear)


def test_a_state_of_many_classes_refuses_a_decision_between_two():
    """It was taken, and the decision ignored."""
    make = CHANGES["many"][0]
    X, y = examples_for("many")
    state = make().partial_fit(X, y, classes=[0, 1, 2]).stream_state()
    with pytest.raises(ValueError, match="decision='f1' is for two"):
        make(decision="f1").restore_stream(state)
