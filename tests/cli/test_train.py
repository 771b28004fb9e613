# SPDX-License-Identifier: BSD-3-Clause
"""train, predict, evaluate, export, stream and privacy: what they print and how they end."""

from __future__ import annotations

import io
import json
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from pairlearn import SGD, AUCClassifier, PrivateAUCClassifier, Threshold, load_model, roc_auc
from pairlearn.cli.program import program
from pairlearn.cli.running import run
from pairlearn.models import read_model
from pairlearn.streams import Schema, open_reader


def call(capsys, *arguments, status=0):
    code = run(program, [str(argument) for argument in arguments])
    captured = capsys.readouterr()
    assert code == status, captured.err
    return captured.out, captured.err


@pytest.fixture
def data(rng):
    X = rng.normal(size=(3000, 3))
    return X, (X[:, 0] + 0.7 * rng.normal(size=3000) > 0).astype(int)


@pytest.fixture
def files(data, tmp_path):
    X, y = data
    colour = np.array(["red", "blue"])[(X[:, 1] > 0).astype(int)]
    for name, part in (("train", slice(0, 2000)), ("test", slice(2000, 3000))):
        rows = [
            ",".join([*map(repr, x), c, "yes" if label else "no", str(label)])
            for x, c, label in zip(X[part].tolist(), colour[part], y[part].tolist(), strict=True)
        ]
        (tmp_path / f"{name}.csv").write_text("a,b,c,colour,word,y\n" + "\n".join(rows) + "\n")
        lines = [
            f"{2 * label - 1} " + " ".join(f"{j}:{v!r}" for j, v in enumerate(x, 1))
            for x, label in zip(X[part].tolist(), y[part].tolist(), strict=True)
        ]
        (tmp_path / f"{name}.svm").write_text("\n".join(lines) + "\n")
    return tmp_path


COLUMNS = ("--set", "reading.features=a,b,c")


def test_from_file_to_model_and_back(files, data, capsys):
    X, y = data
    model = files / "m.safetensors"
    out, err = call(capsys, "train", files / "train.csv", "--label", "y", *COLUMNS, "-o", model,
                    "--fit", "stream")  # fmt: skip
    assert "2000 rows, 3 features, progressive AUC" in out
    assert err == ""
    assert sorted(p.name for p in files.glob("m.*")) == ["m.safetensors"]
    fitted = load_model(model)
    assert fitted.classes_.tolist() == [0, 1]
    assert fitted.feature_names_in_.tolist() == ["a", "b", "c"]

    # the same as learning in the library
    from pairlearn.streams import OnlineLearner

    schema = Schema(label="y", features=("a", "b", "c"))
    reader = open_reader(files / "train.csv", schema, shuffle_buffer="auto")
    learner = OnlineLearner(AUCClassifier(random_state=0)).fit_stream(reader)
    assert fitted.coef_.tobytes() == learner.model.coef_.tobytes()

    out, _ = call(capsys, "evaluate", model, files / "test.csv", "--json")
    found = json.loads(out)
    scores = X[2000:] @ fitted.coef_[0]
    assert found["auc"] == pytest.approx(roc_auc(y[2000:], scores), abs=1e-12)
    assert found["low"] < found["auc"] < found["high"]
    own = found["thresholds"][0]
    decided = scores - fitted.threshold_ > 0
    assert own["recall"] == pytest.approx(decided[y[2000:] == 1].mean())
    assert own["accuracy"] == pytest.approx((decided == y[2000:]).mean())
    rates = [row["false_positive_rate"] for row in found["thresholds"][1:]]
    assert rates == pytest.approx([0.01, 0.05, 0.1, 0.2, 0.5], abs=0.004)
    out, _ = call(capsys, "evaluate", model, files / "test.csv")
    assert out.startswith(f"AUC {found['auc']:.4f}, 95 % interval [")

    out, _ = call(capsys, "predict", model, files / "test.csv")
    lines = out.splitlines()
    assert lines[0] == "line,score,probability,label"
    line, score, probability, label = lines[1].split(",")
    assert (line, label) == ("2", str(int(decided[0])))
    assert float(score) == pytest.approx(scores[0] - fitted.threshold_, abs=1e-12)
    assert 0 < float(probability) < 1
    assert len(lines) == 1001
    _, err = call(capsys, "predict", model, files / "test.csv", "--json", "-o", files / "p.jsonl")
    assert "1000 rows" in err
    entry = json.loads((files / "p.jsonl").read_text().splitlines()[0])
    assert entry["label"] == int(decided[0])


@pytest.mark.parametrize(
    "how",
    [
        ["--fit", "stream"],
        ["--fit", "offline"],
        ["--set", "stream.n_passes=3", "--set", "reading.single=true", "--fit", "stream"],
        ["--set", "stream.forget=500"],
        ["--set", "stream.forget=drop", "--set", "stream.window=200"],
        ["--loss", "logistic", "--set", "solver.step_size=0.1", "--set", "solver.radius=5"],
        [
            "--loss",
            "logistic",
            "--set",
            "solver.step_size=0.1",
            "--set",
            "solver.radius=5",
            "--fit",
            "stream",
        ],
    ],
)
def test_ways_to_train(how, files, capsys):
    model = files / "m"
    call(capsys, "train", files / "train.svm", "-o", model, *how)
    out, _ = call(capsys, "evaluate", model, files / "test.svm", "--json")
    assert json.loads(out)["auc"] > 0.85
    assert load_model(model).classes_.tolist() == [-1, 1]


def test_other_formats(files, data, capsys):
    import pyarrow
    import pyarrow.parquet

    X, y = data
    table = pyarrow.table({"a": X[:, 0], "b": X[:, 1], "y": y})
    pyarrow.parquet.write_table(table, files / "t.parquet")
    np.save(files / "t.npy", np.column_stack([X, y]))
    for name, label in (("t.parquet", "y"), ("t.npy", "3")):
        call(capsys, "train", files / name, "--label", label, "-o", files / "m")
        out, _ = call(capsys, "evaluate", files / "m", files / name, "--json")
        assert json.loads(out)["auc"] > 0.85
    bare = "\n".join(
        ",".join(map(repr, [*x, v])) for x, v in zip(X.tolist(), y.tolist(), strict=True)
    )
    (files / "bare.csv").write_text(bare + "\n")
    call(
        capsys,
        "train",
        files / "bare.csv",
        "--set",
        "reading.header=false",
        "--label",
        "-1",
        "-o",
        files / "m",
    )
    out, _ = call(
        capsys,
        "evaluate",
        files / "m",
        files / "bare.csv",
        "--set",
        "reading.header=false",
        "--json",
    )
    assert json.loads(out)["auc"] > 0.85


def test_standard_input(files, capsys, monkeypatch):
    class Stdin:
        buffer = io.BytesIO((files / "train.csv").read_bytes())

    monkeypatch.setattr(sys, "stdin", Stdin)
    call(capsys, "train", "-", "--format", "csv", "--label", "y", *COLUMNS, "--classes", "0,1",
         "-o", files / "m")  # fmt: skip
    assert load_model(files / "m").n_examples_ == 2000
    Stdin.buffer = io.BytesIO((files / "train.csv").read_bytes())
    call(capsys, "train", "-", "--format", "csv", "--label", "y", *COLUMNS, "--classes", "0,1",
         "-o", files / "m", "--fit", "stream")  # fmt: skip
    assert load_model(files / "m").n_examples_ == 2000
    _, err = call(capsys, "train", "-", "--label", "y", "--classes", "0,1", "-o", files / "m",
                  status=2)  # fmt: skip
    assert "--format" in err
    _, err = call(capsys, "train", "-", "--format", "csv", "-o", files / "m", status=2)
    assert "--label" in err
    _, err = call(capsys, "train", "-", "--format", "csv", "-o", files / "m", "--label", "y",
                  "--fit", "stream", status=2)  # fmt: skip
    assert "--classes" in err


# --------------------------------------------------------------------------------- interrupts


@pytest.mark.thorough
def test_an_interrupted_run_goes_on(files, rng):
    X = rng.normal(size=(150_000, 3))
    y = (X[:, 0] > 0).astype(int)
    np.savetxt(files / "long.csv", np.column_stack([X, y]), delimiter=",", fmt="%.9g",
               header="a,b,c,y", comments="")  # fmt: skip
    command = [sys.executable, "-m", "pairlearn", "train", "long.csv", "--label", "y",
               "--set", "stream.n_passes=2000", "--fit", "stream", "-o", "m"]  # fmt: skip
    process = subprocess.Popen(
        [*command, "--set", "stream.every=8192"], cwd=files, stderr=subprocess.PIPE
    )
    checkpoint = files / "m.checkpoint"
    for _ in range(600):
        if checkpoint.exists() or process.poll() is not None:
            break
        time.sleep(0.1)
    assert checkpoint.exists()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate()
    assert process.returncode == 130, err
    assert b"the same command goes on from m.checkpoint" in err
    assert err.count(b"\n") == 1
    assert not (files / "m").exists()


def test_going_on_gives_the_same_model(files, capsys):
    """A checkpoint made by the library halfway, then the program: the model is that of one run."""
    from pairlearn.streams import OnlineLearner, ShuffledReader
    from pairlearn.tables import TableOptions, TableReader, plan_table

    class EnoughError(Exception):
        pass

    arguments = [
        "train",
        files / "train.csv",
        "--label",
        "y",
        *COLUMNS,
        "--set",
        "reading.missing=refuse",
        "--fit",
        "stream",
    ]
    call(capsys, *arguments, "-o", files / "whole", "--set", "stream.n_passes=3")
    data = [str(files / "train.csv")]
    options = TableOptions(label="y", features=("a", "b", "c"), missing="refuse")
    reader = ShuffledReader(TableReader(data, plan_table(data, options).encoder))
    left = [1]

    def stop(learner, chunk):
        left[0] -= 1
        if left[0] < 0:
            raise EnoughError

    learner = OnlineLearner(AUCClassifier(random_state=0), classes=(0.0, 1.0))
    with pytest.raises(EnoughError):
        learner.fit_stream(reader, checkpoint=files / "m.checkpoint", every=1, n_passes=3,
                           progress=stop)  # fmt: skip
    _, err = call(capsys, *arguments, "-o", files / "m", "--set", "stream.n_passes=3")
    assert "going on from" in err
    assert (files / "m").read_bytes() == (files / "whole").read_bytes()
    assert not (files / "m.checkpoint").exists()


def test_several_passes_tell_of_the_first(tmp_path, capsys):
    rng = np.random.default_rng(0)
    text = "".join(
        f"{x},{'abc'[k % 3] if k % 50 else '??'},{'soon' if k % 40 == 7 else k % 9},{int(y)}\n"
        for k, (x, y) in enumerate(zip(rng.normal(size=400), rng.random(400) < 0.4, strict=True))
    )
    (tmp_path / "d.csv").write_text(f"x,c,n,y\n{text}")
    told = []
    for passes in (1, 3):
        out, _ = call(
            capsys, "train", tmp_path / "d.csv", "--label", "y", "--fit", "stream", "--json",
            "--set", f"stream.n_passes={passes}", "-o", tmp_path / "m",
        )  # fmt: skip
        told.append({**json.loads(out), "seconds": 0})
    assert told[0]["rows"] == 400
    assert "column 'n': 10 values taken as missing" in told[0]["taken_as_missing"][0]
    # Rows that come again are known to the model: neither their AUC nor their number counts.
    assert told[1] == told[0]


# ------------------------------------------------------------------------------------- export


def test_export_json(files, data, capsys):
    X, _ = data
    call(
        capsys,
        "train",
        files / "train.csv",
        "--label",
        "y",
        *COLUMNS,
        "--model",
        "linear",
        "-o",
        files / "m",
    )
    out, _ = call(capsys, "export", files / "m", "--to", "json")
    plain = json.loads(out)
    model = load_model(files / "m")
    coef = [plain["coefficients"][name] for name in ("a", "b", "c")]
    np.testing.assert_allclose(X @ coef + plain["intercept"],
                               X @ model.coef_[0] + model.intercept_[0], rtol=1e-14)  # fmt: skip
    line = plain["probability"]
    odds = line["slope"] * (X @ coef) + line["offset"]
    found = model.predict_proba(__import__("pandas").DataFrame(X, columns=["a", "b", "c"]))[:, 1]
    np.testing.assert_allclose(1 / (1 + np.exp(-odds)), found, rtol=1e-12)
    call(capsys, "export", files / "m", "--to", "json", "-o", files / "m.json")
    assert json.loads((files / "m.json").read_text()) == plain
    _, err = call(capsys, "export", files / "m", "--to", "onnx", status=2)
    assert "-o FILE" in err


@pytest.mark.parametrize("kind", ["texts", "integers", "floats", "isotonic", "private"])
def test_export_onnx(kind, data, tmp_path, capsys):
    pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    X, y = data
    if kind == "private":
        model = PrivateAUCClassifier(bounds=(-1.0, 1.0)).fit(X, y)
        X = X.copy()
        X[0, 0] = np.nan
    else:
        labels = {"texts": np.array(["no", "yes"]), "floats": np.array([0.5, 1.5])}
        calibrate = "isotonic" if kind == "isotonic" else "sigmoid"
        model = AUCClassifier(
            solver=SGD(step_size=0.1), decision=Threshold(calibration=calibrate), random_state=0
        )
        model.fit(X, labels.get(kind, np.array([0, 1]))[y])
    model.save(tmp_path / "m")
    call(capsys, "export", tmp_path / "m", "--to", "onnx", "-o", tmp_path / "m.onnx")
    session = runtime.InferenceSession(
        (tmp_path / "m.onnx").read_bytes(), providers=["CPUExecutionProvider"]
    )
    found = dict(
        zip([o.name for o in session.get_outputs()], session.run(None, {"X": X}), strict=True)
    )
    np.testing.assert_allclose(found["score"], model.decision_function(X), atol=1e-6)
    assert found["label"].tolist() == model.predict(X).tolist()
    if kind in ("isotonic", "private"):
        assert "probability" not in found
    else:
        np.testing.assert_allclose(found["probability"], model.predict_proba(X)[:, 1], atol=1e-6)


# ------------------------------------------------------------------------------------- stream


# ------------------------------------------------------------------------------------ privacy


def plan(capsys, *arguments, status=0):
    return call(capsys, "privacy", "plan", "--features", 10, *arguments, status=status)


def test_privacy_plan(capsys):
    out, _ = plan(capsys, "--examples", 20000, "--epsilon", 1)
    assert out.startswith("With 20,000 examples, 10 features and epsilon 1, expect an AUC of about")
    assert "Nothing was said about the range" in out
    out, _ = plan(capsys, "--n", 500, "--epsilon", 1, "--json")
    assert json.loads(out)["loss"] > 0
    out, _ = plan(capsys, "--n", 500, "--range", -50, 50, "--spread", 4, "--json")
    found = json.loads(out)
    assert found["epsilon"] == found["smallest_epsilon"]
    out, _ = plan(capsys, "--examples", 2000, "--persons", 500, "--epsilon", 1, "--json")
    assert (json.loads(out)["n_examples"], json.loads(out)["n_persons"]) == (2000, 500)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--n", "-5"], "is not in the range"),
        (["--n", "10", "--epsilon", "-1"], "is not in the range"),
        (["--n", "10", "--range", "5", "2", "--spread", "1"], "the lower end comes first"),
        (["--n", "10", "--range", "0", "1", "--spread", "3"], "at most half of the width"),
        (["--n", "10", "--range", "0", "1"], "belong together"),
        (["--n", "10", "--persons", "20"], "each person has at least one"),
        (["--persons", "5"], "how many examples are there?"),
        ([], "how many examples are there?"),
    ],
)
def test_privacy_plan_refuses_in_one_line(capsys, arguments, message):
    _, err = plan(capsys, *arguments, status=2)
    assert message in err
    assert err.count("\n") == 1


def test_privacy_certify(data, tmp_path, capsys):
    from dataclasses import replace

    from pairlearn.models import write_model

    X, y = data
    PrivateAUCClassifier(bounds=(-4, 4)).fit(X, y).save(tmp_path / "m")
    out, _ = call(capsys, "privacy", "certify", tmp_path / "m", "--delta", "1e-9")
    assert "differentially private" in out
    assert "At delta = 1e-09: epsilon = " in out
    record = read_model(tmp_path / "m")
    for change, problem in (
        ({"epsilon": 0.1}, "means epsilon ="),
        ({"mu": record.certificate["mu"] / 2}, "releases have mu ="),
        ({"private": False}, "can be reproduced"),
    ):
        broken = replace(record, certificate={**record.certificate, **change})
        write_model(tmp_path / "broken", broken)
        out, _ = call(capsys, "privacy", "certify", tmp_path / "broken", "--json", status=1)
        assert any(problem in p for p in json.loads(out)["problems"])
    AUCClassifier(solver=SGD(step_size=0.1)).fit(X, y).save(tmp_path / "plain")
    _, err = call(capsys, "privacy", "certify", tmp_path / "plain", status=1)
    assert "has no certificate" in err


@pytest.mark.thorough
def test_privacy_audit(capsys):
    out, _ = call(capsys, "privacy", "audit", "--runs", 100, "--n", 16, "--json")
    assert json.loads(out)["passed"] is True
    _, err = call(capsys, "privacy", "audit", "--mechanism", "none", status=2)
    assert "'none' is not one of 'statistics'" in err


# ------------------------------------------------------------------------------ order of rows


@pytest.fixture
def sorted_file(files, data):
    """Return a file whose rows are sorted by label, and as many others to judge by."""
    X, y = data
    order = np.argsort(y[:2000], kind="stable")
    rows = [f"{','.join(map(repr, X[i].tolist()))},{int(y[i])}" for i in order]
    (files / "sorted.csv").write_text("a,b,c,y\n" + "\n".join(rows) + "\n")
    return files / "sorted.csv", X[2000:], y[2000:], X[:2000], y[:2000]


def test_a_sorted_file_is_shuffled(files, sorted_file, capsys):
    path, X, y, X_train, y_train = sorted_file

    def judged(name, *options):
        _, err = call(capsys, "train", path, "--label", "y", "--fit", "stream", *COLUMNS,
                      "--set", "reading.missing=refuse", "-o", files / name, *options)  # fmt: skip
        return roc_auc(y, X @ load_model(files / name).coef_[0]), err

    # Moments do not depend on the order.
    by_moments, err = judged("m0", "--set", "stream.shuffle_buffer=0")
    assert err == ""
    descent = ("--set", "solver=sgd")
    shuffled, err = judged("m1", *descent)
    assert err == ""
    assert abs(judged("m3")[0] - by_moments) < 0.005
    own, err = judged("m2", *descent, "--set", "stream.shuffle_buffer=0")
    assert "the order of the examples depends on their labels" in err
    assert own < shuffled
    some = np.random.default_rng(0).permutation(2000)
    expected = AUCClassifier(solver="sgd").partial_fit(X_train[some], y_train[some], classes=[0, 1])
    assert abs(shuffled - roc_auc(y, X @ expected.coef_[0])) < 0.01
    bounded, err = judged("m4", *descent, "--set", "stream.shuffle_buffer=200")
    assert "the order of the examples" in err
    _, err = judged("m5", *descent, "--set", "stream.forget=1000")
    assert "the order of the examples" in err
    assert bounded <= shuffled + 0.01
