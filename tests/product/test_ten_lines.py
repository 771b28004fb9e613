# SPDX-License-Identifier: BSD-3-Clause
"""A part of one's own in about ten lines: written, checked, used.

Reads from top to bottom like a tutorial. Each section defines one part, tries it with the check
that the package offers for it, and then trains with it; the result is compared with a built-in
part that does the same, or with the plain reference.
"""

import json
import math
import pathlib
from dataclasses import dataclass

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler, scale
from sklearn.utils.estimator_checks import check_estimator
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from pairlearn import (
    SGD,
    AUCClassifier,
    Ball,
    Box,
    Constant,
    Exact,
    Hinge,
    InverseSqrt,
    LinearScore,
    Logistic,
    PairLoss,
    PairwiseSGD,
    PreviousExample,
    PrivateAUCClassifier,
    Problem,
    roc_auc,
    scalar,
)
from pairlearn.averaging import Tail
from pairlearn.cli.program import program
from pairlearn.cli.running import run
from pairlearn.comparisons import Comparison
from pairlearn.domains import CoordinatewiseDomain
from pairlearn.features import MAPS, FeatureMap, Hats, Identity, Union
from pairlearn.losses import LOSSES
from pairlearn.metrics import pair_risk
from pairlearn.models import load_model
from pairlearn.pairings import Arrival, FifoBuffer, OnlineSource, Pairing, Plan
from pairlearn.privacy import check_mechanism
from pairlearn.privacy.mechanisms.base import Mechanism, PrivateFit
from pairlearn.privacy.mechanisms.by_name import MECHANISMS
from pairlearn.privacy.mechanisms.centred import CentredStatistics
from pairlearn.privacy.release import release_vector
from pairlearn.reference import average_of, pairwise_sgd
from pairlearn.schedules import Schedule
from pairlearn.solvers import OBJECTIVES, Objective
from pairlearn.streams import FORMATS, IteratorReader, add_format, open_reader
from pairlearn.streams.readers.open import _SUFFIXES
from pairlearn.testing import (
    check_comparison,
    check_domain,
    check_features,
    check_loss,
    check_objective,
    check_pairing,
    check_schedule,
)
from pairlearn.theory import auc_gradient_change

# ruff: noqa: N805

X, LABELS = load_breast_cancer(return_X_y=True)
X, Y = scale(X), 2.0 * LABELS - 1.0
PROBLEM = Problem(LinearScore(), Hinge())


def same(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-14)


def plan_of(pairing):
    """Return the pairs of the 500 steps that a solver takes with the seed 0."""
    return pairing.offline(len(Y), np.random.default_rng(0), Y).draw(500)


def literal(plan, project):
    """Return the iterates of these steps by the plain reference."""
    return pairwise_sgd(
        Hinge(),
        X,
        Y,
        partners=[(i, [j]) for i, j in zip(plan.left, plan.right, strict=True)],
        step_sizes=InverseSqrt(0.1).step_sizes(1, 500),
        project=project,
        w_start=np.zeros(X.shape[1]),
    )


@pytest.fixture
def entered():
    """Enter a class into a register, as CONTRIBUTING says, until the end of a test."""
    taken = []

    def enter(register, name, cls):
        taken.append((register, cls))
        register.add(name)(cls)

    yield enter
    for register, cls in taken:
        register.discard(cls)


@pytest.fixture
def table(tmp_path, monkeypatch):
    """A small table as CSV, in the folder where the test then works."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(300, 2))
    labels = (rows[:, 0] + rows[:, 0] * rows[:, 1] + 0.3 * rng.normal(size=300) > 0.0).astype(int)
    lines = [f"{a},{b},{label}" for (a, b), label in zip(rows, labels, strict=True)]
    (tmp_path / "t.csv").write_text("\n".join(["a,b,y", *lines]))
    return rows, labels


def same_after_saving(model, rows):
    """Save and load a model; return the loaded one, which scores the same bits."""
    model.save("saved")
    loaded = load_model("saved")
    np.testing.assert_array_equal(loaded.decision_function(rows), model.decision_function(rows))
    return loaded


# -------------------------------------------------------------------------------- an objective


@dataclass(frozen=True, repr=False)
class SoftMaximum(Objective):
    """A soft maximum of the costs of the negatives."""

    temperature: float = 1.0

    def of_scores(self, loss, positive, weight):
        w = np.ones(len(positive)) if weight is None else weight
        a, b = (w[own] / w[own].sum() for own in (positive, ~positive))

        def evaluate(scores):
            margins = scores[positive][:, None] - scores[~positive]
            costs, slopes = a @ loss.values(margins), loss.slopes(margins)
            top = costs.max()
            share = b * np.exp((costs - top) / self.temperature)
            value = top + self.temperature * np.log(share.sum())
            share = share / share.sum()
            gradient = np.empty(len(scores))
            gradient[positive], gradient[~positive] = a * (slopes @ share), -share * (a @ slopes)
            return float(value), gradient

        return evaluate


def test_an_objective():
    check_objective(SoftMaximum(0.5))
    # At a high temperature it is the mean over all pairs.
    options = {"solver": Exact(ridge=0.1), "loss": "squared_hinge", "scaling": None}
    found = AUCClassifier(SoftMaximum(1e6), **options).fit(X, LABELS)
    np.testing.assert_allclose(
        found.coef_, AUCClassifier(**options).fit(X, LABELS).coef_, rtol=1e-2, atol=1e-4
    )


def test_an_objective_by_name_in_the_estimator_the_program_and_the_file(entered, table):
    rows, labels = table
    entered(OBJECTIVES, "soft_maximum", SoftMaximum)
    for solver in ("exact", SGD(step_size=0.3, n_passes=3)):
        model = AUCClassifier("soft_maximum", solver=solver, random_state=0).fit(rows, labels)
        loaded = same_after_saving(model, rows)
        assert (loaded.objective, model.score(rows, labels) > 0.8) == ("soft_maximum", True)
    stream = AUCClassifier(SoftMaximum(0.5), solver="sgd", random_state=0)
    for part in np.array_split(np.arange(len(rows)), 4):
        stream.partial_fit(rows[part], labels[part], classes=[0, 1])
    assert same_after_saving(stream, rows).objective == SoftMaximum(0.5)
    # The program trains and predicts with it, and sets its field.
    order = ["train", "t.csv", "--label", "y", "--objective", "soft_maximum"]
    assert run(program, [*order, "--set", "objective.temperature=0.25"]) == 0
    assert load_model("t.safetensors").objective == SoftMaximum(0.25)
    pathlib.Path("new.csv").write_text("a,b\n1.0,0.5\n-1.0,0.5\n")
    assert run(program, ["predict", "t.safetensors", "new.csv"]) == 0


# ------------------------------------------------------------------------------------- a loss


class MyLogistic(PairLoss):
    """log(1 + exp(-m)) of the margin m."""

    @scalar
    def value(score, y, y_partner, _):
        m = score if y > y_partner else -score
        return max(-m, 0.0) + math.log1p(math.exp(-abs(m)))

    @scalar
    def derivative(score, y, y_partner, _):
        sign = 1.0 if y > y_partner else -1.0
        return -sign / (1.0 + math.exp(sign * score))


def test_a_loss():
    check_loss(MyLogistic())

    mine, theirs = (Problem(LinearScore(), loss) for loss in (MyLogistic(), Logistic()))
    solver = PairwiseSGD(schedule=Constant(0.1), domain=Ball(3.0))
    for rows in (X, scipy.sparse.csr_array(X)):
        found, expected = (
            solver.solve(problem, rows, Y, n_passes=2, rng=0) for problem in (mine, theirs)
        )
        same(found.average, expected.average)
    same(
        solver.start(mine, X.shape[1]).learn_many(X, Y).average,
        solver.start(theirs, X.shape[1]).learn_many(X, Y).average,
    )
    assert AUCClassifier(loss=MyLogistic(), random_state=0).fit(X, LABELS).score(X, LABELS) > 0.99


def test_a_loss_by_name_in_the_estimator_the_program_and_the_file(entered, table):
    rows, labels = table
    assert run(program, ["train", "t.csv", "--label", "y", "--loss", "my_logistic"]) == 2
    entered(LOSSES, "my_logistic", MyLogistic)
    model = AUCClassifier(loss="my_logistic", solver="sgd", random_state=0).fit(rows, labels)
    assert same_after_saving(model, rows).loss == "my_logistic"
    model = AUCClassifier(loss=MyLogistic(), solver="sgd", random_state=0).fit(rows, labels)
    assert same_after_saving(model, rows).loss == MyLogistic()
    assert run(program, ["train", "t.csv", "--label", "y", "--loss", "my_logistic"]) == 0
    assert load_model("t.safetensors").loss == "my_logistic"
    assert run(program, ["predict", "t.safetensors", "t.csv"]) == 0


class CubedHinge(PairLoss):
    """(1 - m)_+^3 of the margin m, summed over pairs by the powers of the scores."""

    never_increases = True

    @scalar
    def value(score, y, y_partner, _):
        gap = 1.0 - (score if y > y_partner else -score)
        return gap**3 if gap > 0.0 else 0.0

    @scalar
    def derivative(score, y, y_partner, _):
        sign = 1.0 if y > y_partner else -1.0
        gap = 1.0 - sign * score
        return -3.0 * sign * gap**2 if gap > 0.0 else 0.0

    def values(self, margins):
        return np.maximum(1.0 - margins, 0.0) ** 3

    def slopes(self, margins):
        return -3.0 * np.maximum(1.0 - margins, 0.0) ** 2

    def slope_bound(self, margin_bound):
        return 3.0 * (1.0 + margin_bound) ** 2

    def curvature_bound(self, margin_bound):
        return 6.0 * (1.0 + margin_bound)

    def value_bound(self, margin_bound):
        return (1.0 + margin_bound) ** 3

    def sums(self, p, q, b):
        order = np.argsort(-q)
        q, b = q[order], b[order]
        reach = np.searchsorted(-q, 1.0 - p)
        moments = [np.concatenate([[0.0], np.cumsum(b * q**k)])[reach] for k in range(4)]
        g = 1.0 - p
        cubes = moments[3] + 3 * g * moments[2] + 3 * g**2 * moments[1] + g**3 * moments[0]
        return cubes, -3.0 * (moments[2] + 2 * g * moments[1] + g**2 * moments[0])


def test_what_a_loss_can_do_is_asked_of_the_loss():
    loss = CubedHinge()
    assert (loss.by_sorting, loss.falls(), loss.by_moments) == (True, True, False)
    check_loss(loss)
    scores = np.random.default_rng(0).normal(size=40)
    labels = np.resize([-1.0, 1.0, 1.0], 40)
    gaps = np.maximum(1.0 - (scores[labels > 0, None] - scores[labels < 0]), 0.0)
    # A pair counts in either order, among all ordered pairs.
    assert pair_risk(loss, scores, labels) == pytest.approx(2.0 * (gaps**3).sum() / (40 * 39))
    problem = Problem(LinearScore(), loss)
    lipschitz = problem.constants(norm_bound=1.0, radius=1.0).lipschitz
    assert auc_gradient_change(problem, norm_bound=1.0, radius=1.0) == lipschitz

    class Bent(CubedHinge):
        @scalar
        def derivative(score, y, y_partner, _):
            return 0.0

    # What was known of other functions is not known of these.
    assert (Bent().by_sorting, Bent().falls(), Bent().never_increases) == (False, False, False)


# ---------------------------------------------------------------------------------- a pairing


@dataclass(frozen=True)
class Lagged(Pairing):
    """Each example meets the one `lag` examples earlier."""

    lag: int = 2

    def offline(self, n, rng, y=None):
        return LaggedPath(self.lag, n, rng)

    def online(self, rng):
        return LaggedArrivals(self.lag)


class LaggedPath:
    def __init__(self, lag, n, rng):
        self.lag, self.n, self.rng = lag, n, rng
        self.last = rng.integers(0, n, lag)

    def draw(self, n_steps):
        path = np.concatenate([self.last, self.rng.integers(0, self.n, n_steps)])
        self.last = path[-self.lag :]
        return Plan(path[self.lag :], path[: -self.lag])


class LaggedArrivals(OnlineSource):
    def __init__(self, lag):
        self.lag, self.n_buffered = lag, 0

    def arrive(self, y):
        rows = np.arange(self.n_buffered + len(y))
        self.n_buffered = min(len(rows), self.lag)
        return Arrival(Plan(rows[self.lag :], rows[: -self.lag]), rows[-self.lag :])


def test_a_pairing():
    check_pairing(Lagged(3))

    solver = PairwiseSGD(pairing=Lagged(3), schedule=InverseSqrt(0.1), domain=Ball(1.0))
    found = solver.solve(PROBLEM, X, Y, n_steps=500, rng=0)
    iterates = literal(plan_of(Lagged(3)), Ball(1.0).project)
    same(found.w, iterates[-1])
    same(found.average, average_of(iterates, InverseSqrt(0.1).step_sizes(1, 500)))

    one = PairwiseSGD(pairing=Lagged(1)).start(PROBLEM, X.shape[1])
    previous = PairwiseSGD(pairing=PreviousExample()).start(PROBLEM, X.shape[1])
    for part in np.array_split(np.arange(len(Y)), 7):
        one.learn_many(X[part], Y[part])
        previous.learn_many(X[part], Y[part])
    np.testing.assert_array_equal(one.average, previous.average)


# ------------------------------------------------------------------------------- a comparison


@dataclass(frozen=True)
class LowerAhead(Comparison):
    """The smaller label should be ahead."""

    @scalar
    def direction(y, y_partner, _first, _second):
        if y < y_partner:
            return 1.0
        return -1.0 if y > y_partner else 0.0


def test_a_comparison():
    assert check_comparison(LowerAhead(), [1.0, -1.0]) == 2
    problem = Problem(LinearScore(), Logistic(), LowerAhead())
    solver = PairwiseSGD(schedule=InverseSqrt(0.1))
    found = solver.solve(problem, X, Y, n_steps=500, rng=0)
    other = solver.solve(Problem(LinearScore(), Logistic()), X, -Y, n_steps=500, rng=0)
    np.testing.assert_array_equal(found.average, other.average)


# --------------------------------------------------------------------------------- a schedule


@dataclass(frozen=True)
class Power(Schedule):
    """Steps eta / t^power."""

    power: float = 0.5

    def shape(self, steps):
        return steps**-self.power


def test_a_schedule():
    check_schedule(Power(1.0, power=0.3))

    found, expected = (
        PairwiseSGD(schedule=schedule).solve(PROBLEM, X, Y, n_passes=3, rng=0)
        for schedule in (Power(0.1), InverseSqrt(0.1))
    )
    same(found.average, expected.average)
    model = AUCClassifier(solver=SGD(step_size=0.1, schedule=Power(1.0, power=0.3)), random_state=0)
    assert model.fit(X, LABELS).score(X, LABELS) > 0.99


# ----------------------------------------------------------------------------------- a domain


@dataclass(frozen=True)
class Clipped(CoordinatewiseDomain):
    """Coordinates between -bound and bound."""

    bound: float = 0.05
    is_projection = True

    @property
    def parameters(self):
        return (self.bound, 0.0)

    @scalar
    def proximal(value, step_size, bound, _):
        return min(max(value, -bound), bound)


def test_a_domain():
    check_domain(Clipped())

    mine, theirs = (
        PairwiseSGD(schedule=InverseSqrt(0.1), domain=domain)
        for domain in (Clipped(), Box(-0.05, 0.05))
    )
    for rows in (X, scipy.sparse.csr_array(X)):
        found = mine.solve(PROBLEM, rows, Y, n_steps=500, rng=0)
        same(found.average, theirs.solve(PROBLEM, rows, Y, n_steps=500, rng=0).average)
        assert np.abs(found.w).max() == 0.05
    same(
        mine.start(PROBLEM, X.shape[1]).learn_many(X, Y).average,
        theirs.start(PROBLEM, X.shape[1]).learn_many(X, Y).average,
    )
    same(found.w, literal(plan_of(PreviousExample()), Clipped().project)[-1])
    assert roc_auc(LABELS, X @ found.average) > 0.98


# ------------------------------------------------------------------------------ a feature map


@dataclass(frozen=True)
class Products(FeatureMap):
    """All features, and the products of each with the first."""

    def mapped(self, X):
        return np.hstack([X, X * X[:, :1]])


def test_a_feature_map():
    check_features(Products())

    rng = np.random.default_rng(0)
    rows = rng.normal(size=(2_000, 3))
    labels = (rows[:, 0] * rows[:, 1] + 0.3 * rng.normal(size=2_000) > 0.0).astype(int)
    plane = AUCClassifier().fit(rows, labels)
    bent = AUCClassifier(features=Products()).fit(rows, labels)
    assert plane.score(rows, labels) < 0.6
    assert bent.score(rows, labels) > 0.9
    # The coefficients are those of the mapped rows.
    scores = bent.features_.transform(rows) @ bent.coef_[0]
    same(bent.decision_function(rows), scores - bent.threshold_)


def test_a_map_by_name_in_the_estimator_the_program_and_the_file(entered, table):
    rows, labels = table
    order = ["train", "t.csv", "--label", "y", "--feature-map", "products"]
    assert run(program, order) == 2
    entered(MAPS, "products", Products)
    for given in ("products", Products()):
        model = AUCClassifier(features=given, random_state=0).fit(rows, labels)
        loaded = same_after_saving(model, rows)
        assert loaded.features == given
        assert isinstance(loaded.features_, Products)
    private = PrivateAUCClassifier(50.0, 1e-3, bounds=(-4.0, 4.0), features=Products())
    with pytest.raises(ValueError, match="does not know the bounds"):
        private.fit(rows, labels)
    assert run(program, order) == 0
    assert isinstance(load_model("t.safetensors").features_, Products)
    assert run(program, ["predict", "t.safetensors", "t.csv"]) == 0


def test_a_clone_of_a_fitted_map_is_fitted():
    for made in (Products(), Hats(n_knots=3), Union(Identity(), Hats())):
        fitted = made.fit(X[:, :2])
        copy = clone(AUCClassifier(features=fitted)).features
        assert copy.is_fitted
        np.testing.assert_array_equal(copy.transform(X[:9, :2]), fitted.transform(X[:9, :2]))
        # With other fields it is another map, which nobody has fitted.
        assert not Hats(n_knots=3).fit(X[:, :2]).with_params(n_knots=4).is_fitted


def test_a_search_reaches_the_fields_of_parts():
    search = GridSearchCV(
        AUCClassifier(loss=Hinge(), solver=SGD(0.1, radius=3.0, n_passes=1), random_state=0),
        {"loss__margin": [0.5, 4.0]},
        cv=2,
        scoring="roc_auc",
    ).fit(X, LABELS)
    assert [one["loss__margin"] for one in search.cv_results_["params"]] == [0.5, 4.0]
    assert search.best_estimator_.loss == Hinge(margin=search.best_params_["loss__margin"])
    model = AUCClassifier().set_params(loss=Hinge(), loss__margin=3.0, random_state=1)
    assert (model.loss, model.random_state) == (Hinge(margin=3.0), 1)
    with pytest.raises(ValueError, match="Hinge has no field 'marginn'; did you mean 'margin'"):
        model.set_params(loss__marginn=1.0)


def test_estimators_show_the_fields_of_parts():
    model = AUCClassifier(
        loss=Hinge(margin=2.0), solver=SGD(pairing=FifoBuffer(3)), features=Hats(5)
    )
    found = model.get_params()
    assert (found["loss__margin"], found["solver__pairing__buffer_size"]) == (2.0, 3)
    assert found["features__n_knots"] == 5
    private = PrivateAUCClassifier(1.0, 1e-5, mechanism=CentredStatistics(3))
    assert private.get_params()["mechanism__n_rounds"] == 3
    assert clone(model).loss == Hinge(margin=2.0)
    for part in (Hinge(2.0), Ball(2.0), LinearScore(), Tail(0.2), Constant(2.0), ClassSums()):
        assert part.with_params(**part.get_params()) == part


# ----------------------------------------------------------------------------------- a reader


def open_json_lines(source, schema, **options):
    with open(source) as lines:
        return IteratorReader([json.loads(line) for line in lines], schema, **options)


def test_a_reader_in_the_library_the_program_and_with_a_model(table, capsys):
    rows, labels = table
    examples = [{"a": a, "b": b, "y": int(y)} for (a, b), y in zip(rows, labels, strict=True)]
    with open("t.jsonl", "w") as file:
        file.writelines(json.dumps(example) + "\n" for example in examples)
    order = ["train", "t.jsonl", "--label", "y", "--format", "json_lines"]
    assert run(program, order) == 2
    add_format("json_lines", ".jsonl")(open_json_lines)
    try:
        read = np.concatenate([chunk.X for chunk in open_reader("t.jsonl")])
        np.testing.assert_array_equal(read, np.column_stack([rows, labels]))
        assert run(program, order) == 0
        assert run(program, [*order, "--fit", "stream"]) == 0
        capsys.readouterr()
        assert run(program, ["evaluate", "t.safetensors", "t.jsonl", "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["auc"] > 0.8
    finally:
        del FORMATS["json_lines"], _SUFFIXES[".jsonl"]


# ------------------------------------------------------------------------------- an estimator


class PairClassifier(ClassifierMixin, BaseEstimator):
    """Two classes, by the pairwise hinge in a ball."""

    def __init__(self, radius=1.0, n_passes=20, random_state=None):
        self.radius, self.n_passes, self.random_state = radius, n_passes, random_state

    def fit(self, X, y):
        X, y = validate_data(self, X, y)
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) != 2:
            raise ValueError(f"Only binary classification is supported: {len(self.classes_)} class")
        solver = PairwiseSGD(domain=Ball(self.radius))
        run = {"n_passes": self.n_passes, "rng": self.random_state}
        self.coef_ = solver.solve(PROBLEM, X, 2.0 * codes - 1.0, **run).average
        self.threshold_ = np.median(X @ self.coef_)
        return self

    def decision_function(self, X):
        check_is_fitted(self)
        return validate_data(self, X, reset=False) @ self.coef_ - self.threshold_

    def predict(self, X):
        is_second = self.decision_function(X) > 0.0
        return self.classes_[is_second.astype(int)]

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags


@pytest.mark.filterwarnings("ignore")
def test_an_estimator():
    check_estimator(PairClassifier(n_passes=3, random_state=0))

    pipeline = make_pipeline(StandardScaler(), PairClassifier(random_state=0))
    grid = {"pairclassifier__radius": [0.1, 1.0, 10.0]}
    search = GridSearchCV(pipeline, grid, scoring="roc_auc", cv=3).fit(X, LABELS)
    reference = AUCClassifier(random_state=0).fit(X, LABELS)
    found = roc_auc(LABELS, search.decision_function(X))
    assert found > roc_auc(LABELS, reference.decision_function(X)) - 0.01


# -------------------------------------------------------------------------------- a mechanism


class ClassSums(Mechanism):
    """The mean of y z with Gaussian noise.

    *Sensitivity.* A row of Z is no longer than a corner of the bounds, so one example adds at most
    corner / n; replacing it moves the mean by twice that.
    """

    name = "class_sums"

    def fit(self, Z, signs, *, setting, noise):
        self.check(setting)
        corner = np.linalg.norm(setting.to_standard(setting.upper[None, :]))
        moved = 2.0 if setting.neighbours == "replace" else 1.0
        noisy, release = release_vector(
            signs @ Z / setting.n_examples,
            name="mean of y z",
            sensitivity=moved * corner / setting.n_examples * (1.0 + 1e-9),
            mu=setting.mu * (1.0 - 1e-12),
            noise=noise,
        )
        return PrivateFit(noisy, (release,), threshold=0.0)


def test_a_mechanism():
    # The bound is attained: no sound mechanism of this kind has less noise.
    assert check_mechanism(ClassSums()) == pytest.approx(1.0, rel=1e-5)

    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 4000)
    rows = rng.normal(size=(4000, 5)) + np.outer(labels - 0.5, [2.0, 0.0, 0.0, 1.0, 0.0])
    model = PrivateAUCClassifier(1.0, 1e-5, bounds=(-4.0, 4.0), mechanism=ClassSums())
    model.fit(rows, labels)
    assert roc_auc(labels, model.decision_function(rows)) > 0.9
    assert (model.certificate_.mechanism, model.certificate_.epsilon) == ("class_sums", 1.0)
    # Without noise it is the vector that the docstring says.
    open_one = PrivateAUCClassifier(1e8, 1e-5, bounds=(-4.0, 4.0), mechanism=ClassSums())
    exact = (2.0 * labels - 1.0) @ np.clip(rows, -4.0, 4.0)
    exact /= np.linalg.norm(exact)
    found = open_one.fit(rows, labels).coef_[0]
    np.testing.assert_allclose(found / np.linalg.norm(found), exact, atol=1e-3)


def test_a_mechanism_by_name_in_the_estimator_the_program_and_the_file(entered, table, capsys):
    rows, labels = table
    audit = ["privacy", "audit", "--mechanism", "class_sums", "--runs", "40", "--n", "8", "--json"]
    assert run(program, audit) == 2
    entered(MECHANISMS, ClassSums.name, ClassSums)
    for given in ("class_sums", ClassSums()):
        model = PrivateAUCClassifier(1.0, 1e-3, bounds=(-4.0, 4.0), mechanism=given)
        loaded = same_after_saving(model.fit(rows, labels), rows)
        # The certificate names the mechanism; the file holds nothing else of it.
        assert (loaded.certificate_.mechanism, loaded.mechanism) == ("class_sums", "class_sums")
    capsys.readouterr()
    assert run(program, audit) == 0
    assert json.loads(capsys.readouterr().out)["passed"]
