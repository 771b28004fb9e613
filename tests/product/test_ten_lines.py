# SPDX-License-Identifier: BSD-3-Clause
"""A part of one's own in about ten lines: written, checked, used.

Reads from top to bottom like a tutorial. Each section defines one part, tries it with the check
that the package offers for it, and then trains with it; the result is compared with a built-in
part that does the same, or with the plain reference.
"""

import math
from dataclasses import dataclass

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import BaseEstimator, ClassifierMixin
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
from pairlearn.domains import CoordinatewiseDomain, check_domain
from pairlearn.features import FeatureMap, check_features
from pairlearn.losses import check_loss
from pairlearn.pairings import Arrival, OnlineSource, Pairing, Plan, check_pairing
from pairlearn.privacy import check_mechanism
from pairlearn.privacy.mechanisms.base import Mechanism, PrivateFit
from pairlearn.privacy.release import release_vector
from pairlearn.reference import average_of, pairwise_sgd
from pairlearn.schedules import Schedule, check_schedule

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
    assert check_loss(MyLogistic()).symmetric

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
    report = check_pairing(Lagged(3))
    assert (report.n_remembered, report.most_partners, report.needs_labels) == (3, 1, False)

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


# --------------------------------------------------------------------------------- a schedule


@dataclass(frozen=True)
class Power(Schedule):
    """Steps eta / t^power."""

    power: float = 0.5

    def shape(self, steps):
        return steps**-self.power


def test_a_schedule():
    assert check_schedule(Power(1.0, power=0.3)).non_increasing

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
    assert check_domain(Clipped()).keeps_zero

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
    report = check_features(Products())
    assert report.n_outputs == 2 * report.n_inputs

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
        self.check(setting, noise)
        corner = np.linalg.norm(setting.to_standard(setting.upper[None, :]))
        moved = 2.0 if setting.neighbours == "replace" else 1.0
        noisy, release = release_vector(
            signs @ Z / setting.n_examples,
            name="mean of y z",
            sensitivity=moved * corner / setting.n_examples * (1.0 + 1e-9),
            mu=setting.mu * (1.0 - 1e-12),
            noise=noise,
        )
        accounting = "one Gaussian release, converted exactly"
        return PrivateFit(noisy, 0.0, (release,), release.mu, accounting, secure=noise.secure)


def test_a_mechanism():
    report = check_mechanism(ClassSums())
    assert report.relations == ("replace", "add_remove")
    # The bound is attained: no sound mechanism of this kind has less noise.
    assert report.largest_share == pytest.approx(1.0)

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
