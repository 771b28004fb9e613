# SPDX-License-Identifier: BSD-3-Clause
"""The stack: weights against a second formulation, held-out scores, gaps, weights and refusals."""

import pickle
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.ensemble import BaggingClassifier, ExtraTreesClassifier, RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import RobustScaler, StandardScaler
from sklearn.tree import DecisionTreeClassifier

from pairlearn import AUCClassifier, AUCStack, roc_auc
from pairlearn.estimators.stack.blend import stack_weights
from pairlearn.estimators.stack.members import Filling, takes_gaps


@pytest.fixture
def table(rng):
    X = rng.normal(size=(240, 4))
    y = (X[:, 0] + X[:, 1] * X[:, 2] + 0.7 * rng.normal(size=240) > 0.4).astype(int)
    return X, y


def quick():
    return [
        ("linear", LogisticRegression()),
        ("tree", DecisionTreeClassifier(max_depth=4, random_state=0)),
        ("forest", RandomForestClassifier(30, oob_score=True, random_state=0)),
    ]


pytestmark = pytest.mark.filterwarnings("ignore:Some inputs do not have OOB:UserWarning")


def test_weights_minimise_the_sum_over_pairs(rng):
    from scipy.optimize import minimize

    positive = rng.random(60) < 0.4
    Z = rng.normal(size=(60, 3)) + np.outer(positive, [1.0, 0.4, -0.5])
    a = rng.uniform(0.5, 2.0, 60)
    pull = 2.0
    V = (Z[positive][:, None] - Z[~positive][None]).reshape(-1, 3)
    pairs = (a[positive][:, None] * a[~positive][None]).ravel()
    pairs = pairs / pairs.sum()

    def mean(w):
        return pairs @ np.maximum(1.0 - V @ w, 0.0) ** 2

    common = minimize(lambda s: mean(np.full(3, s[0])), [0.3], bounds=[(0, None)]).x[0]
    rarer = min(a[k].sum() ** 2 / (a[k] ** 2).sum() for k in (positive, ~positive))

    def objective(w):
        return mean(w) + pull / rarer * ((w - common) ** 2).sum()

    best = minimize(
        objective, np.full(3, 0.3), bounds=[(0, None)] * 3, options={"ftol": 1e-14, "gtol": 1e-9}
    ).x
    found = stack_weights(Z, positive, a, pull=pull)
    np.testing.assert_allclose(found, best / best.sum(), atol=1e-4)
    assert found.sum() == pytest.approx(1.0)
    np.testing.assert_allclose(stack_weights(Z, positive, a, pull=1e9), 1 / 3, atol=1e-6)


def test_a_member_without_held_out_spread_has_no_weight(rng):
    positive = np.arange(40) < 15
    Z = np.column_stack([positive + rng.normal(size=40), np.zeros(40)])
    assert stack_weights(Z, positive, np.ones(40), pull=3.0).tolist() == [1.0, 0.0]
    assert stack_weights(0 * Z, positive, np.ones(40), pull=3.0).tolist() == [0.5, 0.5]


def test_scores_are_the_weighted_sum_in_units_of_each_member(table):
    X, y = table
    clf = AUCStack(quick(), random_state=0).fit(X, y)
    total = 0.0
    for k, (name, member) in enumerate(clf.members_.items()):
        s = (
            member.decision_function(X)
            if hasattr(member, "decision_function")
            else member.predict_proba(X)[:, 1]
        )
        total = total + clf.weights_[name] * (s - clf.centres_[k]) / clf.spreads_[k]
    np.testing.assert_allclose(clf.decision_function(X), total - clf.threshold_, atol=1e-12)
    assert sum(clf.weights_.values()) == pytest.approx(1.0)
    assert clf.score(X, y) == roc_auc(y, clf.decision_function(X))
    # One row alone has the score that it has among others.
    np.testing.assert_allclose(clf.decision_function(X[:1]), clf.decision_function(X)[:1])


def test_auto_goes_beyond_a_line(rng):
    X = rng.normal(size=(600, 3))
    y = (X[:, 0] * X[:, 1] + 0.3 * X[:, 2] + 0.3 * rng.normal(size=600) > 0).astype(int)
    clf = AUCStack(random_state=0).fit(X[:400], y[:400])
    linear = AUCClassifier(random_state=0).fit(X[:400], y[:400])
    assert clf.score(X[400:], y[400:]) > linear.score(X[400:], y[400:]) + 0.1
    assert list(clf.weights_) == ["linear", "boosting", "forest"]
    # The estimate is that of new examples: within four standard errors (one in 15,000).
    found, new = clf.held_out_auc_["stack"], clf.score(X[400:], y[400:])
    assert abs(found.value - new) < 4 * np.hypot(found.standard_error, 0.02)
    probability = clf.predict_proba(X[400:])[:, 1]
    assert abs(probability.mean() - y[400:].mean()) < 0.1
    assert ((probability > 0) & (probability < 1)).all()


def test_noise_has_a_held_out_auc_of_a_half(rng):
    X, y = rng.normal(size=(300, 3)), (np.arange(300) % 3 == 0).astype(int)
    clf = AUCStack(quick(), random_state=0).fit(X, y)
    found = clf.held_out_auc_
    for name in (*clf.members_, "stack"):
        assert found[name].low - 0.05 < 0.5 < found[name].high + 0.05, name


def test_threads_and_seeds_give_the_same(table):
    X, y = table
    first = AUCStack(quick(), random_state=0).fit(X, y)
    second = AUCStack(quick(), random_state=0, n_jobs=2).fit(X, y)
    np.testing.assert_array_equal(first.decision_function(X), second.decision_function(X))
    assert first.weights_ == second.weights_


def test_gaps_are_filled_for_members_that_do_not_take_them(table, rng):
    X, y = table
    X = X.copy()
    X[rng.random(240) < 0.3, 0] = np.nan
    members = [
        ("linear", LogisticRegression()),
        ("pipe", make_pipeline(SimpleImputer(strategy="constant", fill_value=9.0), GaussianNB())),
        ("scaled", make_pipeline(StandardScaler(), LogisticRegression())),
    ]
    clf = AUCStack(members, random_state=0).fit(X, y)
    assert clf.members_["linear"].n_features_in_ == 5
    assert clf.members_["pipe"].n_features_in_ == 4  # its own imputer saw the gaps
    assert clf.members_["scaled"].n_features_in_ == 5
    gone = X.copy()
    gone[0] = np.nan
    assert np.isfinite(clf.decision_function(gone)).all()
    auto = AUCStack(random_state=0).fit(X, y)
    assert np.isfinite(auto.decision_function(gone)).all()
    with pytest.raises(ValueError, match="infinity"):
        clf.predict(np.where(np.isnan(X), np.inf, X))


def test_filling():
    X = np.array([[1.0, np.nan, np.nan], [3.0, 2.0, np.nan], [5.0, 4.0, np.nan]])
    filling = Filling.of(X)
    assert filling.apply(X).tolist() == [[1, 3, 0, 1, 1], [3, 2, 0, 0, 1], [5, 4, 0, 0, 1]]
    assert takes_gaps(make_pipeline(SimpleImputer(), GaussianNB()))
    assert not takes_gaps(make_pipeline("passthrough", GaussianNB()))
    # A scaler takes gaps and leaves them to the next step.
    assert takes_gaps(make_pipeline(StandardScaler(), SimpleImputer(), GaussianNB()))
    scaled = make_pipeline(StandardScaler(), LogisticRegression())
    assert not takes_gaps(scaled)
    assert not takes_gaps(make_pipeline(RobustScaler(), scaled))


@pytest.mark.parametrize("n_positive", [2, 5])
def test_few_positives(rng, n_positive):
    X = rng.normal(size=(60, 2))
    y = (np.arange(60) < n_positive).astype(int)
    X[:n_positive] += 3.0
    clf = AUCStack(quick(), random_state=0).fit(X, y)
    assert np.isfinite([one.standard_error for one in clf.held_out_auc_.values()]).all()
    assert clf.score(X, y) > 0.8


def test_one_positive_is_refused(rng):
    with pytest.raises(ValueError, match=r"two examples of each.*got 1.*AUCClassifier"):
        AUCStack(quick()).fit(rng.normal(size=(9, 2)), [1] + [0] * 8)


def test_weights_of_examples(table, rng):
    X, y = table
    weight = (np.arange(240) < 160) * 2.0
    members = [("linear", LogisticRegression()), ("bayes", GaussianNB())]
    kept = AUCStack(members, random_state=0).fit(X[:160], y[:160])
    weighted = AUCStack(members, random_state=0).fit(X, y, sample_weight=weight)
    np.testing.assert_allclose(weighted.decision_function(X), kept.decision_function(X))
    uneven = AUCStack(members, random_state=0).fit(X, y, sample_weight=rng.uniform(0.1, 3, 240))
    assert not np.allclose(uneven.decision_function(X), kept.decision_function(X))
    with pytest.raises(ValueError, match=r"member 'near' \(KNeighborsClassifier\) does not take"):
        AUCStack([("near", KNeighborsClassifier())]).fit(X, y, rng.uniform(0.1, 3, 240))


def test_labels_and_decisions(table):
    X, y = table
    labels = np.array(["no", "yes"])[y]
    clf = AUCStack(quick(), random_state=0, decision="probability").fit(X, labels)
    agree = (clf.predict_proba(X)[:, 1] > 0.5) == (clf.predict(X) == "yes")
    assert agree.all()
    heavy = AUCStack(quick(), random_state=0, class_weight={"no": 1.0, "yes": 50.0})
    assert (heavy.fit(X, labels).predict(X) == "yes").mean() > (clf.predict(X) == "yes").mean()
    assert heavy.weights_ == clf.weights_


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"members": "all"}, 'members must be "auto" or a list'),
        ({"members": []}, 'members must be "auto" or a list'),
        ({"members": [GaussianNB()]}, "no pair of a name and a classifier"),
        ({"members": [("a", GaussianNB()), ("a", GaussianNB())]}, "two members are named 'a'"),
        ({"members": [("a__b", GaussianNB())]}, "name 'a__b'"),
        ({"members": [("stack", GaussianNB())]}, "name 'stack'"),
        ({"members": [("pull", GaussianNB())]}, "name 'pull'"),
        ({"members": [("a", GaussianNB)]}, "an object and not a class"),
        ({"members": [("a", SimpleImputer())]}, "it needs fit, and decision_function"),
        ({"n_folds": 1}, "n_folds must be at least 2"),
        ({"pull": -1.0}, "pull must be a finite number of at least 0, got -1.0"),
        ({"pull": np.nan}, "pull must be a finite number"),
        ({"decision": "best"}, "best"),
    ],
)
def test_refusals(table, given, message):
    with pytest.raises(ValueError, match=message):
        AUCStack(**given).fit(*table)


def test_an_error_inside_names_the_member(table):
    with pytest.raises(ValueError, match="max_iter") as caught:
        AUCStack([("odd", LogisticRegression(max_iter=-1))]).fit(*table)
    assert "member 'odd'" in caught.value.__notes__[0]


def test_parameters_reach_members(table):
    X, y = table
    clf = AUCStack(quick(), random_state=0)
    assert clone(clf).set_params(tree__max_depth=2).get_params()["tree__max_depth"] == 2
    other = clone(clf).set_params(tree=GaussianNB())
    assert isinstance(dict(other.members)["tree"], GaussianNB)
    assert isinstance(dict(clf.members)["tree"], DecisionTreeClassifier)
    fitted = clf.fit(X, y)
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.predict_proba(X), fitted.predict_proba(X))


@pytest.mark.parametrize("kind", [RandomForestClassifier, ExtraTreesClassifier, BaggingClassifier])
def test_scores_out_of_bag_count_only_if_every_example_has_one(kind, table):
    """A row that all trees have seen was the least likely one of all, or as likely as the mean."""
    X, y = table
    given = {} if kind is BaggingClassifier else {"bootstrap": True}

    def stack(n_trees, oob_score):
        member = kind(n_estimators=n_trees, oob_score=oob_score, random_state=0, **given)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # bagging divides 0 by 0
            return AUCStack([("trees", member), ("linear", LogisticRegression())], random_state=0
                            ).fit_told(X, y).scores["trees"]  # fmt: skip

    assert np.array_equal(stack(4, True), stack(4, False))
    assert not np.array_equal(stack(40, True), stack(40, False))
