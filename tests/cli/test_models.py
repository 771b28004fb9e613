# SPDX-License-Identifier: BSD-3-Clause
"""``pairlearn train --model``: which kind is trained, what is said, what takes it."""

from __future__ import annotations

import json

import numpy as np
import pytest
from click.testing import CliRunner

from pairlearn import AUCClassifier, AUCStack, load_model, roc_auc
from pairlearn.cli.program import program

COLOURS = np.array(["red", "green", "blue"])


def run(*arguments):
    return CliRunner().invoke(program, [str(one) for one in arguments])


def trained(*arguments):
    found = run("train", *arguments, "--json")
    assert found.exit_code == 0, found.output
    return json.loads(found.stdout)


def write(path, n, seed, score):
    """Write a table with a gap, a category and a date; the label follows a score and noise."""
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=(2, n))
    colour = rng.integers(3, size=n)
    day = rng.integers(700, size=n)
    positive = score(a, b, colour) + 0.3 * rng.normal(size=n) > 0
    lines = ["a,b,colour,day,y"]
    for k in range(n):
        gap = "" if k % 11 == 0 else f"{a[k]:.4f}"
        date = np.datetime64("2022-01-01") + int(day[k])
        lines.append(
            f"{gap},{b[k]:.4f},{COLOURS[colour[k]]},{date},{'yes' if positive[k] else 'no'}"
        )
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="module")
def crossed(tmp_path_factory):
    """Tables in which the sign of a product decides: no linear score is better than chance."""
    folder = tmp_path_factory.mktemp("crossed")
    write(folder / "test.csv", 300, 1, lambda a, b, c: a * b + 0.3 * (c == 0))
    return write(folder / "train.csv", 500, 0, lambda a, b, c: a * b + 0.3 * (c == 0))


@pytest.fixture(scope="module")
def plane(tmp_path_factory):
    """A table that a linear score describes."""
    return write(tmp_path_factory.mktemp("plane") / "train.csv", 200, 0, lambda a, b, c: a + b)


@pytest.mark.thorough
def test_auto_leaves_the_plane_where_it_must(crossed, tmp_path):
    model, test = tmp_path / "m.safetensors", crossed.parent / "test.csv"
    facts = trained(crossed, "--label", "y", "-o", model)
    assert facts["model_kind"] in ("trees", "stack")
    assert list(facts["model_auc"]) == ["linear", "curves", "trees", "stack"]
    assert facts["model_auc"][facts["model_kind"]] > facts["model_auc"]["linear"] + 0.15
    # a linear model of the same rows is at chance, the chosen one is not
    measured = json.loads(run("evaluate", model, test, "--json").stdout)
    assert measured["auc"] > 0.8
    trained(crossed, "--label", "y", "-o", tmp_path / "l", "--model", "linear")
    assert json.loads(run("evaluate", tmp_path / "l", test, "--json").stdout)["auc"] < 0.7
    # the two columns of the product move the score most
    assert {entry["column"] for entry in facts["importance"][:2]} == {"a", "b"}
    assert sum(entry["share"] for entry in facts["importance"]) == pytest.approx(1.0)

    said = run("inspect", model).stdout
    assert f"kind of model: {facts['model_kind']}" in said
    assert "boosting: HistGradientBoostingClassifier" in said
    assert "importance of columns:\n" in said
    assert f"held-out AUC {facts['auc']:.4f}, 95 % interval" in said
    assert said.index("importance of columns") < said.index("parameters:") < said.index("arrays:")
    again = run("evaluate", model, crossed)
    assert "trained on these very examples" in again.stderr
    page = run("evaluate", model, test, "--report", tmp_path / "page")
    assert page.exit_code == 0, page.output


@pytest.mark.thorough
def test_auto_stays_linear_on_a_plane_and_says_so(plane, tmp_path):
    found = run("train", plane, "--label", "y", "-o", tmp_path / "m")
    assert found.exit_code == 0, found.output
    line = next(line for line in found.stdout.splitlines() if line.startswith("model:"))
    assert line.startswith("model: held-out AUC linear .")
    assert all(f", {kind} ." in line for kind in ("curves", "trees", "stack"))
    assert ": linear (the simplest within a standard error of the best)" in line
    # it is the very model that --model linear makes
    trained(plane, "--label", "y", "-o", tmp_path / "l", "--model", "linear")
    auto, linear = (load_model(tmp_path / name) for name in "ml")
    assert isinstance(auto, AUCClassifier)
    assert auto.coef_.tobytes() == linear.coef_.tobytes()


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["curves", "trees", "stack"])
def test_each_kind_by_name_through_all_commands(crossed, tmp_path, kind):
    model, test = tmp_path / "m.safetensors", crossed.parent / "test.csv"
    facts = trained(crossed, "--label", "y", "-o", model, "--model", kind, "--decision", "accuracy")
    assert (facts["model_kind"], facts["model_reason"]) == (kind, None)
    assert "model_auc" not in facts
    loaded = load_model(model)
    assert isinstance(loaded, AUCClassifier if kind == "curves" else AUCStack)
    assert loaded.decision == "accuracy"

    lines = run("predict", model, test, "--json").stdout.splitlines()
    scored = [json.loads(line) for line in lines]
    assert len(scored) == 300
    assert all(0.0 <= one["probability"] <= 1.0 for one in scored)
    assert all(one["label"] == ("yes" if one["score"] > 0 else "no") for one in scored)
    truth = [line.endswith("yes") for line in test.read_text().splitlines()[1:]]
    measured = json.loads(run("evaluate", model, test, "--json").stdout)
    expected = roc_auc(np.array(truth), np.array([one["score"] for one in scored]))
    assert measured["auc"] == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--fit", "stream"], "trained in memory"),
        (["--loss", "logistic"], "--loss logistic is a setting of this kind alone"),
        (["--set", "scaling=null"], "--set scaling=null is a setting of this kind alone"),
        (["--feature-map", "hats"], "in the features of --feature-map hats"),
        (["--problem", "classes"], "for --problem auc, not classes"),
        (["--problem", "metric"], "for --problem auc, not metric"),
    ],
)
def test_what_auto_cannot_serve_is_linear_and_said(plane, tmp_path, options, reason):
    found = run("train", plane, "--label", "y", "-o", tmp_path / "m", *options)
    assert found.exit_code == 0, found.output
    lines = [line for line in found.stdout.splitlines() if line.startswith("model:")]
    assert len(lines) == 1
    assert lines[0].startswith("model: linear (")
    assert reason in lines[0]


def test_few_rows_of_a_class_and_sparse_rows_are_linear(tmp_path):
    rows = [f"{k % 7},{k % 5},{int(k < 9)}" for k in range(60)]
    (tmp_path / "few.csv").write_text("a,b,y\n" + "\n".join(rows) + "\n")
    facts = trained(tmp_path / "few.csv", "--label", "y", "-o", tmp_path / "m")
    assert facts["model_kind"] == "linear"
    assert facts["model_reason"] == "9 rows of a class are too few to compare models"
    lines = [f"{k % 2} 1:{k % 7} 2:{k % 5}" for k in range(60)]
    (tmp_path / "d.svm").write_text("\n".join(lines) + "\n")
    facts = trained(tmp_path / "d.svm", "-o", tmp_path / "m", "--fit", "offline")
    assert "the 2 features are sparse" in facts["model_reason"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--model", "trees", "--fit", "stream"], "--model trees: trees and stacks are trained in"),
        (["--model", "stack", "--problem", "ranking"], "are for --problem auc, not ranking"),
        (["--model", "stack", "--loss", "hinge"], "AUCStack has no loss"),
        (["--model", "stack", "--set", "members=a"], "use --model trees or --model stack"),
        (["--model", "linear", "--feature-map", "hats"], "set the same; give one"),
        (["--model", "curves", "--feature-map", "hats"], "set the same; give one"),
        (["--model", "forest"], "'forest' is not one of"),
    ],
)
def test_a_kind_that_cannot_be_is_refused(plane, tmp_path, options, message):
    found = run("train", plane, "--label", "y", "-o", tmp_path / "m", *options)
    assert found.exit_code == 2
    assert message in found.output
    assert not (tmp_path / "m").exists()
