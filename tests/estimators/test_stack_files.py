# SPDX-License-Identifier: BSD-3-Clause
"""Stacks in the safe model file: trees score as scikit-learn's do, and bad nodes are refused."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.ensemble import (
    ExtraTreesClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.naive_bayes import GaussianNB

from pairlearn import AUCClassifier, AUCStack, load_model
from pairlearn.estimators.stack.trees import TreeScores, tree_scores
from pairlearn.models import ModelFileError
from pairlearn.models.file import dump_model, parse_model


@pytest.fixture
def table(rng):
    X = rng.normal(size=(400, 5))
    X[:, 1] = rng.integers(0, 12, 400) * 2.5 - 3.0
    X[:, 3] = rng.integers(0, 5, 400)
    y = (X[:, 0] + X[:, 1] % 2 + X[:, 2] * X[:, 3] > 0.5).astype(int)
    X[rng.random(X.shape) < 0.1] = np.nan
    return X, y


KINDS = [
    HistGradientBoostingClassifier(max_iter=20, random_state=0),
    HistGradientBoostingClassifier(max_iter=20, categorical_features=[1, 3], random_state=0),
    RandomForestClassifier(10, random_state=0),
    ExtraTreesClassifier(10, max_depth=6, random_state=0),
]


@pytest.mark.parametrize("model", KINDS, ids=str)
def test_trees_score_as_in_scikit_learn(model, table):
    X, y = table
    model = clone(model).fit(X, y)
    new = X.copy()
    new[:50, 1], new[50:60] = 99.0, np.nan  # an unknown category, and nothing but gaps
    scored = getattr(model, "decision_function", lambda X: model.predict_proba(X)[:, 1])(new)
    trees = tree_scores(model, takes_gaps=True)
    np.testing.assert_allclose(trees.decision_function(new), scored, rtol=0, atol=1e-12)
    loaded = TreeScores.from_record(parse_model(dump_model(trees.to_record({}))))
    np.testing.assert_array_equal(loaded.decision_function(new), trees.decision_function(new))
    assert loaded.unfitted().get_params() == model.get_params()


def test_a_stack_survives_its_file(table, tmp_path):
    X, y = table
    labels = np.array(["no", "yes"])[y]
    clf = AUCStack(random_state=0).fit(X, labels)
    clf.save(tmp_path / "stack.safetensors")
    for loaded in (AUCStack.load(tmp_path / "stack.safetensors"),
                   load_model(tmp_path / "stack.safetensors")):  # fmt: skip
        np.testing.assert_allclose(
            loaded.decision_function(X), clf.decision_function(X), rtol=0, atol=1e-12
        )
        assert (loaded.predict(X) == clf.predict(X)).all()
        np.testing.assert_allclose(loaded.predict_proba(X), clf.predict_proba(X), atol=1e-12)
        assert loaded.weights_ == clf.weights_
        assert loaded.held_out_auc_ == clf.held_out_auc_
        assert loaded.members == "auto"
    # A loaded stack can be saved again, and be fitted again.
    loaded.save(tmp_path / "again.safetensors")
    again = AUCStack.load(tmp_path / "again.safetensors")
    np.testing.assert_array_equal(again.decision_function(X), loaded.decision_function(X))
    clone(loaded).fit(X, y)


def test_given_members_come_back_unfitted(table, tmp_path):
    X, y = table
    members = [("curves", AUCClassifier(features="hats")), ("cats", KINDS[1])]
    clf = AUCStack(members, random_state=0).fit(X, y)
    clf.save(tmp_path / "stack")
    loaded = AUCStack.load(tmp_path / "stack")
    np.testing.assert_allclose(loaded.decision_function(X), clf.decision_function(X), atol=1e-12)
    assert [name for name, _ in loaded.members] == ["curves", "cats"]
    assert dict(loaded.members)["cats"].get_params() == KINDS[1].get_params()
    assert dict(loaded.members)["curves"].features == "hats"


def test_other_members_are_refused(table, tmp_path):
    X, y = table
    clf = AUCStack([("bayes", GaussianNB()), ("trees", KINDS[0])]).fit(X, y)
    with pytest.raises(ModelFileError, match=r"member 'bayes' is a GaussianNB.*pickle or skops"):
        clf.save(tmp_path / "stack")
    assert not (tmp_path / "stack").exists()


@pytest.mark.parametrize(
    ("name", "spoil"),
    [
        ("left", lambda left: np.where(left >= 0, 0, left)),  # a walk that never ends
        ("right", lambda right: np.where(right >= 0, right + 10**6, right)),
        ("feature", lambda feature: feature + 100),
        ("bits", lambda bits: np.where(bits >= 0, 10**6, bits)),
        ("encoded", lambda encoded: encoded + 1),
        ("category_ends", lambda ends: ends + 1),
        ("begins", lambda begins: begins + 1),
    ],
)
def test_nodes_that_do_not_fit_are_refused(table, name, spoil):
    trees = tree_scores(clone(KINDS[1]).fit(*table), takes_gaps=True)
    bad = {**trees.nodes, name: spoil(trees.nodes[name])}
    with pytest.raises(ModelFileError, match="do not fit together"):
        TreeScores.from_record(replace(trees, nodes=bad).to_record({}))


def test_numbers_beyond_single_precision_are_refused_as_by_scikit_learn(table):
    X, y = table
    trees = tree_scores(clone(KINDS[2]).fit(X, y), takes_gaps=True)
    with pytest.raises(ValueError, match="float32"):
        trees.decision_function(np.full((1, 5), 1e200))


def test_a_stack_in_a_stack_is_refused(table):
    """A file of nested stacks took 200 times its size of memory."""
    from pairlearn.estimators.stack.classifier import _from_bytes

    X, y = table
    members = [("a", HistGradientBoostingClassifier(max_iter=3, random_state=0))]
    with pytest.raises(ValueError, match="member 'inner' is a stack"):
        AUCStack([("inner", AUCStack(members))]).fit(X, y)
    inner = AUCStack(members, random_state=0).fit(X, y).to_record({"member": "inner"})
    with pytest.raises(ModelFileError, match="a stack in a stack is refused"):
        _from_bytes(dump_model(inner))
