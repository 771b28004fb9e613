# SPDX-License-Identifier: BSD-3-Clause
"""``pairlearn export --to onnx`` of trees and stacks: onnxruntime scores as scikit-learn does."""

import numpy as np
import pytest
from click.testing import CliRunner
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression

from pairlearn import AUCClassifier, AUCStack
from pairlearn.cli.program import program

pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")


def run(*arguments):
    return CliRunner().invoke(program, [str(one) for one in arguments])


def outputs_of(path, X):
    session = runtime.InferenceSession(path.read_bytes(), providers=["CPUExecutionProvider"])
    names = [one.name for one in session.get_outputs()]
    return dict(zip(names, session.run(None, {"X": X}), strict=True))


def table(rng, n=300, *, gaps=True):
    X = rng.normal(size=(n, 3))
    y = np.where(X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=n) > 0, "yes", "no")
    if gaps:
        X[rng.random((n, 3)) < 0.1] = np.nan
    return X, y


MEMBERS = {
    "linear": AUCClassifier(random_state=0),
    "curves": AUCClassifier(features="hats", random_state=0),
    "boosting": HistGradientBoostingClassifier(max_iter=20, random_state=0),
    "forest": RandomForestClassifier(10, random_state=0),
    # Leaves of half the rows leave nothing to split: each tree is one leaf.
    "leaves": HistGradientBoostingClassifier(max_iter=3, min_samples_leaf=150, random_state=0),
}


@pytest.mark.parametrize(
    "names",
    [["boosting"], ["forest"], ["linear", "boosting", "forest"], ["curves", "leaves"]],
    ids=" ".join,
)
@pytest.mark.parametrize("gaps", [True, False], ids=["gaps", "whole"])
def test_onnxruntime_scores_as_the_members_do(names, gaps, rng, tmp_path):
    X, y = table(rng, gaps=gaps)
    model = AUCStack([(name, MEMBERS[name]) for name in names], random_state=0).fit(X, y)
    model.save(tmp_path / "m")
    done = run("export", tmp_path / "m", "--to", "onnx", "-o", tmp_path / "m.onnx")
    assert done.exit_code == 0, done.output
    new = rng.normal(size=(500, 3)) * 2.0
    new[rng.random((500, 3)) < 0.15] = np.nan
    # Thresholds themselves, which go left, and the ends of the range.
    new[:3] = X[:3]
    new[3], new[4] = 1e30, -1e30
    found = outputs_of(tmp_path / "m.onnx", new)
    # `model` holds scikit-learn's own trees: the graph was made from the file.
    np.testing.assert_allclose(found["score"], model.decision_function(new), rtol=1e-6, atol=1e-6)
    assert found["label"].tolist() == model.predict(new).tolist()
    np.testing.assert_allclose(found["probability"], model.predict_proba(new)[:, 1], atol=1e-6)


def test_what_has_no_graph_is_refused(rng, tmp_path):
    X, y = table(rng, gaps=False)
    X[:, 2] = rng.integers(4, size=len(X))
    splits = HistGradientBoostingClassifier(max_iter=5, categorical_features=[2], random_state=0)
    AUCStack([("levels", splits)], random_state=0).fit(X, y).save(tmp_path / "m")
    found = run("export", tmp_path / "m", "--to", "onnx", "-o", tmp_path / "m.onnx")
    assert found.exit_code == 2
    assert "member 'levels' of the stack splits categories" in found.output
    assert not (tmp_path / "m.onnx").exists()
    plain = run("export", tmp_path / "m", "--to", "json")
    assert plain.exit_code == 2
    assert "of trees or a stack, which are not exported to JSON; pass --to onnx" in plain.output
    # A member of another library has no safe file, so it never comes so far.
    stack = AUCStack([("other", LogisticRegression())], random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="no safe form"):
        stack.save(tmp_path / "other")
