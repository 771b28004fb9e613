# SPDX-License-Identifier: BSD-3-Clause
"""``evaluate --report``: every metric that suits, printed and drawn."""

import json

import numpy as np
import pytest
import scipy.sparse
from sklearn.datasets import load_iris
from sklearn.metrics import confusion_matrix, log_loss, roc_auc_score

pytest.importorskip("matplotlib", reason="figures need matplotlib")

from pairlearn import (
    AUCClassifier,
    AveragePrecision,
    Exact,
    ExpectedCost,
    HandTill,
    MulticlassAUCClassifier,
    OrdinalAUCClassifier,
    PartialAUC,
    PrecisionAt,
)
from pairlearn.cli.program import program
from pairlearn.cli.running import run
from pairlearn.metrics import BrierScore
from pairlearn.models import load_model


@pytest.fixture
def measured(tmp_path, rng):
    X = rng.normal(size=(400, 3))
    y = (X[:, 0] + rng.normal(size=400) > 1.0).astype(int)
    model = AUCClassifier(solver=Exact(ridge=0.1), random_state=0).fit(X[:200], y[:200])
    model.save(tmp_path / "m")
    table = np.column_stack([X[200:], y[200:]])
    np.savetxt(tmp_path / "t.csv", table, delimiter=",", header="a,b,c,y", comments="",
               fmt="%.17g")  # fmt: skip
    return tmp_path, model, X[200:], y[200:]


def call(capsys, *arguments, status=0):
    assert run(program, [str(argument) for argument in arguments]) == status
    return capsys.readouterr()


def test_says_that_a_model_was_trained_on_these_examples(measured, capsys):
    folder, _, X, y = measured
    command = ("evaluate", folder / "again", folder / "t.csv", "--label", "y")
    for labels, dense in ((y, True), (y, False), (np.where(y == 1, 2, X[:, 1] > 0), True)):
        table = np.column_stack([X, labels])
        np.savetxt(folder / "t.csv", table, delimiter=",", header="a,b,c,y", comments="",
                   fmt="%.17g")  # fmt: skip
        rows = X if dense else scipy.sparse.csr_array(X)
        AUCClassifier(solver=Exact(ridge=0.1), random_state=0).fit(rows, labels).save(
            folder / "again"
        )
        assert "was trained on these very examples" in call(capsys, *command).err
        page = ("--report", folder / "page")
        assert json.loads(call(capsys, *command, "--json", *page).out)["training_data"] is True
        assert "these very examples" in (folder / "page" / "index.html").read_text()
        np.savetxt(folder / "t.csv", table[::-1], delimiter=",", header="a,b,c,y", comments="",
                   fmt="%.17g")  # fmt: skip
        found = call(capsys, *command)
        assert "these very examples" not in found.err


@pytest.mark.parametrize("n", [-1, 0, 1 << 70, "many", None])
def test_what_a_file_says_of_its_training_is_not_trusted(measured, capsys, n):
    folder, model, _, _ = measured
    model.save(folder / "m", provenance={"rows_seen": n, "data_fingerprint": "ab"})
    found = call(capsys, "evaluate", folder / "m", folder / "t.csv", "--label", "y")
    assert "AUC" in found.out
    assert "these very" not in found.err


def test_prints_and_draws_every_metric_that_suits(measured, capsys):
    folder, model, X, y = measured
    command = ("evaluate", folder / "m", folder / "t.csv", "--label", "y", "--report",
               folder / "page", "--costs", 1, 20)  # fmt: skip
    out, _ = call(capsys, *command, "--json")
    found = json.loads(out)
    scores, chances = model.decision_function(X), model.predict_proba(X)[:, 1]
    by_name = {one["name"]: one for one in found["measures"]}
    for name, metric, values in (
        ("AUC", PartialAUC(), scores),
        ("partial AUC, fpr <= 0.05", PartialAUC(0.05), scores),
        ("average precision", AveragePrecision(), scores),
        ("precision at 10", PrecisionAt(10), scores),
        ("cost at the model's threshold (1, 20)", ExpectedCost(1.0, 20.0), scores),
        ("Brier score", BrierScore(), chances),
    ):
        expected = metric.interval(y, values)
        one = by_name[name]
        assert (one["value"], one["low"], one["high"]) == pytest.approx(
            (expected.value, expected.low, expected.high)
        )
    # The top percent of 200 examples is two of them: nothing to measure.
    assert "enrichment of the top 5 %" in by_name
    assert "enrichment of the top 1 %" not in by_name
    page = (folder / "page" / "index.html").read_text(encoding="utf-8")
    assert found["page"] == str(folder / "page" / "index.html")
    assert page.count("<img ") == 4
    assert "http" not in page.replace("http://www.w3.org", "")
    names = {"measures", "decisions", "roc", "precision-recall", "calibration", "scores"}
    assert {path.stem for path in (folder / "page").glob("*.csv")} == names
    curve = np.loadtxt(folder / "page" / "roc.csv", delimiter=",", skiprows=1)
    assert (curve[:, 2] <= curve[:, 1]).all()
    assert (curve[:, 1] <= curve[:, 3]).all()
    text, _ = call(capsys, *command)
    for name in by_name:
        assert name in text


def test_costs_without_a_report_and_costs_of_nothing(measured, capsys):
    folder, *_ = measured
    base = ("evaluate", folder / "m", folder / "t.csv", "--label", "y")
    _, err = call(capsys, *base, "--costs", 1, 2, status=2)
    assert "--costs are for --report" in err
    _, err = call(capsys, *base, "--report", folder / "p", "--costs", 0, 2, status=2)
    assert "0.0 is not in the range x>0" in err


def write_table(path, X, y):
    names = ",".join(f"x{k}" for k in range(X.shape[1]))
    rows = [",".join([*(f"{v:.17g}" for v in row), str(label)]) for row, label in zip(X, y)]  # noqa: B905
    path.write_text("\n".join([f"{names},y", *rows]) + "\n")


@pytest.mark.parametrize("texts", [False, True])
def test_many_classes(tmp_path, capsys, texts):
    X, y = load_iris(return_X_y=True)
    X = X[:, :2]
    if texts:
        y = np.array(["setosa", "versicolor", "virginica"])[y]
    model = AUCClassifier(solver=Exact(ridge=0.1), random_state=0).fit(X, y)
    model.save(tmp_path / "m")
    write_table(tmp_path / "t.csv", X, y)
    command = ("evaluate", tmp_path / "m", tmp_path / "t.csv", "--label", "y")
    report = ("--report", tmp_path / "page") if texts else ()
    found = json.loads(call(capsys, *command, *report, "--json").out)
    chances = model.predict_proba(X)
    assert found["hand_till"] == pytest.approx(HandTill()(y, chances))
    expected = HandTill(pairs=True).interval(y, model.pair_scores(X))
    assert found["hand_till_pairs"] == pytest.approx(expected.value)
    assert found["hand_till_pairs_low"] == pytest.approx(expected.low)
    assert found["accuracy"] == pytest.approx((model.predict(X) == y).mean())
    assert found["log_loss"] == pytest.approx(log_loss(y, chances))
    np.testing.assert_array_equal(found["confusion"], confusion_matrix(y, model.predict(X)))
    for k, one in enumerate(found["classes"]):
        assert one["class"] == model.classes_[k]
        assert one["auc"] == pytest.approx(roc_auc_score(y == model.classes_[k], chances[:, k]))
        assert one["low"] < one["auc"] < one["high"] or one["auc"] == 1.0
    if report:
        page = (tmp_path / "page" / "index.html").read_text(encoding="utf-8")
        assert page.count("<img ") == 4
        names = {"measures", "classes", "confusions", "roc-0", "roc-1", "roc-2", "calibration"}
        assert {path.stem for path in (tmp_path / "page").glob("*.csv")} == names
    text = call(capsys, *command).out
    assert "Hand and Till's M, scores of the pairs" in text
    assert "confusions" in text
    lines = call(
        capsys, "predict", tmp_path / "m", tmp_path / "t.csv", "--label", "y", "--json"
    ).out
    labels = [json.loads(line)["label"] for line in lines.splitlines()]
    assert labels == model.predict(X).tolist()
    for option in (("--report", tmp_path / "p", "--costs", 1, 2),):
        _, err = call(capsys, *command, *option, status=2)
        assert "for two classes" in err


def test_many_classes_of_other_models_and_data(tmp_path, capsys):
    X, y = load_iris(return_X_y=True)
    write_table(tmp_path / "t.csv", X, y)
    command = ("evaluate", tmp_path / "m", tmp_path / "t.csv", "--label", "y", "--json")
    MulticlassAUCClassifier(solver=Exact(ridge=0.1), random_state=0).fit(X, y).save(tmp_path / "m")
    assert json.loads(call(capsys, *command).out)["hand_till_pairs"] > 0.99
    model = OrdinalAUCClassifier(solver=Exact(ridge=0.1), random_state=0).fit(X, y)
    model.save(tmp_path / "m")
    found = json.loads(call(capsys, *command).out)
    assert "hand_till_pairs" not in found
    assert found["accuracy"] == pytest.approx((model.predict(X) == y).mean())
    out = call(capsys, "predict", tmp_path / "m", tmp_path / "t.csv", "--label", "y", "--json").out
    assert [json.loads(one)["label"] for one in out.splitlines()] == model.predict(X).tolist()
    # A class that the data lack, a label that the model lacks, one class only.
    write_table(tmp_path / "t.csv", X[:100], y[:100])
    found = json.loads(call(capsys, *command).out)
    assert found["classes"][2]["auc"] is None
    write_table(tmp_path / "t.csv", X[:100], y[:100] + 7)
    assert "none of the classes" in call(capsys, *command, status=1).err
    write_table(tmp_path / "t.csv", X[:50], y[:50])
    assert "one class only" in call(capsys, *command, status=1).err


@pytest.mark.parametrize("texts", [False, True])
def test_many_classes_from_a_file_to_a_page(tmp_path, capsys, texts, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X, y = load_iris(return_X_y=True)
    labels = np.array(["Setosa", "Versicolor", "Virginica"])[y] if texts else y + 1
    write_table(tmp_path / "iris.csv", X, labels)
    base = ("train", "iris.csv", "--label", "y")
    assert "--problem classes" in call(capsys, *base, status=1).err
    base += ("--problem", "classes")
    found = json.loads(call(capsys, *base, "--json").out)
    held = found["held_out"]
    assert 0.8 < held["low"] <= held["hand_till"] <= held["high"] <= 1.0
    assert held["accuracy"] > 0.85
    model = load_model("iris.safetensors")
    assert model.classes_.tolist() == sorted(set(labels.tolist()))
    table = ("iris.safetensors", "iris.csv")
    found = json.loads(call(capsys, "evaluate", *table, "--json").out)
    assert found["accuracy"] > 0.9
    assert [one["examples"] for one in found["classes"]] == [50, 50, 50]
    out = call(capsys, "predict", *table, "--json").out
    told = [json.loads(line)["label"] for line in out.splitlines()]
    assert np.mean(np.array(told) == labels) == pytest.approx(found["accuracy"])
    plain = json.loads(call(capsys, "export", "iris.safetensors", "--to", "json").out)
    assert len(plain["pairs"]) == 3
    assert "pair_coef" in call(capsys, "inspect", "iris.safetensors").out
    for option, status, match in (
        (("--fit", "stream"), 2, "fitted in memory"),
        (("--loss", "hinge"), 2, "not for --problem classes"),
        (("--set", "solver.step_size=1"), 1, "is for two: with more, the score of each pair"),
        (("--feature-map", "auto"), 2, "not for --problem classes"),
    ):
        assert match in call(capsys, *base, *option, status=status).err
