# SPDX-License-Identifier: BSD-3-Clause
"""``evaluate --report``: every metric that suits, printed and drawn."""

import json

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.metrics import log_loss

pytest.importorskip("matplotlib", reason="figures need matplotlib")

from pairlearn import (
    AUCClassifier,
    AveragePrecision,
    BrierScore,
    ExpectedCost,
    HandTill,
    MulticlassAUCClassifier,
    PartialAUC,
    PrecisionAt,
)
from pairlearn.cli.program import program
from pairlearn.cli.running import run


@pytest.fixture
def measured(tmp_path, rng):
    X = rng.normal(size=(400, 3))
    y = (X[:, 0] + rng.normal(size=400) > 1.0).astype(int)
    model = AUCClassifier(solver="exact", ridge=0.1, random_state=0).fit(X[:200], y[:200])
    model.save(tmp_path / "m")
    table = np.column_stack([X[200:], y[200:]])
    np.savetxt(tmp_path / "t.csv", table, delimiter=",", header="a,b,c,y", comments="",
               fmt="%.17g")  # fmt: skip
    return tmp_path, model, X[200:], y[200:]


def call(capsys, *arguments, status=0):
    assert run(program, [str(argument) for argument in arguments]) == status
    return capsys.readouterr()


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
    assert page.count("<svg ") == 4
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


def test_many_classes(tmp_path, capsys):
    X, y = load_iris(return_X_y=True)
    model = MulticlassAUCClassifier(random_state=0).fit(X, y)
    model.save(tmp_path / "m")
    names = "a,b,c,d,y"
    np.savetxt(tmp_path / "t.csv", np.column_stack([X, y]), delimiter=",", header=names,
               comments="", fmt="%.17g")  # fmt: skip
    command = ("evaluate", tmp_path / "m", tmp_path / "t.csv", "--label", "y")
    found = json.loads(call(capsys, *command, "--json").out)
    chances = model.predict_proba(X)
    assert found["hand_till"] == pytest.approx(HandTill()(y, chances))
    assert found["accuracy"] == pytest.approx((model.predict(X) == y).mean())
    assert found["log_loss"] == pytest.approx(log_loss(y, chances))
    lines = call(
        capsys, "predict", tmp_path / "m", tmp_path / "t.csv", "--label", "y", "--json"
    ).out
    labels = [json.loads(line)["label"] for line in lines.splitlines()]
    assert labels == model.predict(X).tolist()
    _, err = call(capsys, *command, "--report", tmp_path / "p", status=2)
    assert "--report is for AUC of two classes" in err
