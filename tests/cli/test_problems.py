# SPDX-License-Identifier: BSD-3-Clause
"""train, predict and evaluate for rankings, regressions and metrics, as in the library."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

from pairlearn import OnlineLearner, PairwiseRanker, load_model, ndcg, pair_accuracy, roc_auc
from pairlearn.cli.program import program
from pairlearn.cli.running import run
from pairlearn.metrics import error_entropy
from pairlearn.streams import Schema, SvmlightReader, open_reader


def call(capsys, *arguments, status=0):
    code = run(program, [str(argument) for argument in arguments])
    captured = capsys.readouterr()
    assert code == status, captured.err
    return captured.out, captured.err


def write(path, names, *columns):
    rows = zip(*[np.asarray(column).tolist() for column in columns], strict=True)
    lines = [",".join(names), *(",".join(map(repr, row)) for row in rows)]
    path.write_text("\n".join(lines) + "\n")


@pytest.fixture
def features(rng):
    return rng.normal(size=(3000, 3))


@pytest.fixture
def ranked(features, rng, tmp_path):
    """Graded documents of interleaved queries, as CSV and as svmlight text."""
    X = features
    qid = rng.integers(0, 150, 3000)
    grades = np.clip(np.rint(X[:, 0] + 0.3 * rng.normal(size=3000) + 1), 0, 4).astype(int)
    for name, part in (("train", slice(0, 2000)), ("test", slice(2000, 3000))):
        write(tmp_path / f"{name}.csv", ["q", "a", "b", "c", "grade"], qid[part],
              *X[part].T, grades[part])  # fmt: skip
        lines = [
            f"{g} qid:{q} " + " ".join(f"{j}:{v!r}" for j, v in enumerate(x, 1))
            for g, q, x in zip(grades[part], qid[part], X[part].tolist(), strict=True)
        ]
        (tmp_path / f"{name}.svm").write_text("\n".join(lines) + "\n")
    return tmp_path, X[2000:], grades[2000:], qid[2000:]


@pytest.mark.parametrize("form", ["csv", "svm"])
def test_ranking(form, ranked, capsys):
    folder, X, grades, qid = ranked
    model = folder / "m"
    columns = ["--label", "grade", "--qid", "q"] if form == "csv" else []
    out, err = call(
        capsys,
        "train",
        folder / f"train.{form}",
        "--problem",
        "ranking",
        *columns,
        "-o",
        model,
        "--json",
        "--fit",
        "stream",
        "--set",
        "stream.shuffle_buffer=0",
    )
    assert json.loads(out)["problem"] == "ranking"
    assert err == ""
    fitted = load_model(model)
    if form == "csv":
        reader = open_reader(folder / "train.csv", Schema(label="grade", qid="q"))
        assert fitted.feature_names_in_.tolist() == ["a", "b", "c"]
    else:
        reader = SvmlightReader(folder / "train.svm", qid=True)
    learner = OnlineLearner(PairwiseRanker(random_state=0)).fit_stream(reader)
    assert fitted.coef_.tobytes() == learner.model.coef_.tobytes()

    scores = X @ fitted.coef_
    out, _ = call(capsys, "evaluate", model, folder / f"test.{form}", "--json")
    found = json.loads(out)
    assert found["pair_accuracy"] == pytest.approx(pair_accuracy(grades, scores, qid=qid))
    assert found["ndcg@10"] == pytest.approx(ndcg(grades, scores, qid=qid, k=10))
    assert found["pair_accuracy"] > 0.9
    out, _ = call(capsys, "evaluate", model, folder / f"test.{form}")
    assert out.startswith("pair accuracy 0.9")
    out, _ = call(capsys, "predict", model, folder / f"test.{form}")
    lines = out.splitlines()
    assert lines[0] == "line,score"
    assert float(lines[1].split(",")[1]) == pytest.approx(scores[0])
    assert len(lines) == 1001


def test_ranking_without_queries_and_offline(ranked, capsys):
    folder, *_ = ranked
    for how in (
        ["--set", "reading.features=a,b,c"],
        ["--qid", "q", "--fit", "offline", "--set", "solver.n_passes=2"],
    ):
        said, _ = call(capsys, "train", folder / "train.csv", "--problem", "ranking", "--label",
                       "grade", "--loss", "logistic", *how, "-o", folder / "m")  # fmt: skip
        # of a fifth of the queries, which the model that is measured has not seen
        accuracy = re.search(r"held out: pair accuracy ([0-9.]+)", said)
        assert float(accuracy[1]) == pytest.approx(0.95, abs=0.05)
        assert ("ndcg@10" in said) == ("--qid" in how)
        out, _ = call(capsys, "evaluate", folder / "m", folder / "test.csv", "--json")
        found = json.loads(out)
        assert found["pair_accuracy"] > 0.9
        assert ("ndcg@10" in found) == ("--qid" in how)


def test_entropy(features, rng, tmp_path, capsys):
    X = features
    target = X @ [1.0, 2.0, -1.0] + np.where(rng.random(3000) < 0.1, 30.0, 0.1) * rng.normal(
        size=3000
    )
    write(tmp_path / "train.csv", ["a", "b", "c", "price"], *X[:2000].T, target[:2000])
    write(tmp_path / "test.csv", ["a", "b", "c", "price"], *X[2000:].T, target[2000:])
    model = tmp_path / "m"
    out, _ = call(capsys, "train", tmp_path / "train.csv", "--problem", "entropy",
                  "--label", "price", "-o", model)  # fmt: skip
    assert "2000 rows, 3 features\n" in out
    fitted = load_model(model)
    _, err = call(capsys, "train", tmp_path / "train.csv", "--problem", "entropy", "--label",
                  "price", "--fit", "stream", "-o", model, status=2)  # fmt: skip
    assert "--problem entropy is fitted in memory" in err
    errors = target[2000:] - X[2000:] @ fitted.coef_ - fitted.intercept_
    out, _ = call(capsys, "evaluate", model, tmp_path / "test.csv", "--json")
    found = json.loads(out)
    assert found["median_absolute_error"] == pytest.approx(np.median(np.abs(errors)))
    assert found["median_absolute_error"] < 0.2
    assert found["error_entropy"] == pytest.approx(error_entropy(errors, fitted.bandwidth_))
    out, _ = call(capsys, "predict", model, tmp_path / "test.csv", "--json")
    entry = json.loads(out.splitlines()[0])
    assert entry["prediction"] == pytest.approx(target[2000] - errors[0])
    out, _ = call(capsys, "train", tmp_path / "train.csv", "--problem", "entropy", "--label",
                  "price", "-o", model, "--json")  # fmt: skip
    assert json.loads(out)["held_out"]["median_absolute_error"] < 0.2
    write(tmp_path / "few.csv", ["a", "b", "c", "price"], *X[:20].T, target[:20])
    out, _ = call(capsys, "train", tmp_path / "few.csv", "--problem", "entropy", "--label",
                  "price", "-o", model)  # fmt: skip
    assert "held out: not measured (20 rows are too few); evaluate the model on new data" in out


def test_metric(rng, tmp_path, capsys):
    y = rng.integers(0, 3, 3000)
    X = np.column_stack([3.0 * y + 0.5 * rng.normal(size=3000), 5.0 * rng.normal(size=3000)])
    write(tmp_path / "train.csv", ["a", "b", "kind"], *X[:2000].T, y[:2000])
    write(tmp_path / "test.csv", ["a", "b", "kind"], *X[2000:].T, y[2000:])
    model = tmp_path / "m"
    call(capsys, "train", tmp_path / "train.csv", "--problem", "metric", "--label", "kind",
         "-o", model)  # fmt: skip
    fitted = load_model(model)
    out, _ = call(capsys, "evaluate", model, tmp_path / "test.csv", "--json")
    found = json.loads(out)
    order = np.random.default_rng(0).permutation(1000)
    step = X[2000:][order] - X[2000:][np.roll(order, 1)]
    similar = y[2000:][order] == y[2000:][np.roll(order, 1)]
    learned = -np.einsum("ij,jk,ik->i", step, fitted.get_mahalanobis_matrix(), step)
    assert found["pair_auc"] == pytest.approx(roc_auc(similar, learned))
    assert found["pair_auc"] > roc_auc(similar, -(step**2).sum(axis=1)) + 0.1
    out, _ = call(capsys, "predict", model, tmp_path / "test.csv")
    lines = out.splitlines()
    assert lines[0].startswith("line,z0")
    images = np.array([line.split(",")[1:] for line in lines[1:]], dtype=float)
    np.testing.assert_allclose(images, X[2000:] @ fitted.components_.T, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("problem", "form"),
    [("ranking", "csv"), ("ranking", "svm"), ("entropy", "csv"), ("metric", "csv")],
)
def test_says_that_a_model_was_trained_on_these_examples(problem, form, ranked, capsys):
    folder, *_ = ranked
    options = ["--label", "grade"] * (form == "csv")
    query = ["--qid", "q"] * (form == "csv" and problem == "ranking")
    call(capsys, "train", folder / f"train.{form}", "--problem", problem, "-o", folder / "m",
         "--fit", "offline", *options, *query)  # fmt: skip
    for name, same in (("train", True), ("test", False)):
        command = ("evaluate", folder / "m", folder / f"{name}.{form}")
        assert ("was trained on these very examples" in call(capsys, *command)[1]) is same
        assert json.loads(call(capsys, *command, "--json")[0])["training_data"] is same


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--problem", "ranking"], "name its column with --label"),
        (["--problem", "entropy", "--label", "grade", "--loss", "hinge"], "take one of gaussian"),
        (["--problem", "metric", "--label", "grade", "--classes", "0,1"], "is for --problem auc"),
        (["--problem", "metric", "--label", "grade", "--qid", "q"], "is for --problem ranking"),
    ],
)
def test_wrong_usage(arguments, message, ranked, capsys):
    folder, *_ = ranked
    _, err = call(capsys, "train", folder / "train.csv", *arguments, "-o", folder / "m", status=2)
    assert message in err


def test_a_metric_of_sparse_rows_is_refused_in_words_of_the_program(ranked, tmp_path, capsys):
    (tmp_path / "few.svm").write_text("1 1:2 2:3\n-1 1:1\n")
    _, err = call(capsys, "train", tmp_path / "few.svm", "--problem", "metric", status=2)
    assert "these are sparse" in err
    assert "toarray" not in err


def test_plots_are_for_auc(ranked, capsys):
    folder, *_ = ranked
    call(capsys, "train", folder / "train.svm", "--problem", "ranking",
         "--set", "solver.n_passes=2", "--set", "solver.step_size=0.1",
         "-o", folder / "m")  # fmt: skip
    _, err = call(capsys, "evaluate", folder / "m", folder / "test.svm", "--report", folder / "p",
                  status=2)  # fmt: skip
    assert "--report is for AUC" in err
    _, err = call(capsys, "train", folder / "train.svm", "--problem", "ranking", "--set",
                  "stream.forget=100", "-o", folder / "m", status=1)  # fmt: skip
    assert "leave forget at None" in err


@pytest.mark.parametrize("problem", ["ranking", "entropy", "metric"])
def test_export(problem, ranked, capsys):
    folder, X, *_ = ranked
    columns = [
        "--label",
        "grade",
        "--set",
        "reading.features=a,b,c",
        "--set",
        "solver.n_passes=2",
        "--set",
        "solver.step_size=0.1",
    ]
    call(capsys, "train", folder / "train.csv", "--problem", problem, *columns, "-o", folder / "m")
    fitted = load_model(folder / "m")
    if problem == "metric":
        expected = X @ fitted.components_.T
    else:
        expected = X @ fitted.coef_ + getattr(fitted, "intercept_", 0.0)
    out, _ = call(capsys, "export", folder / "m", "--to", "json")
    found = json.loads(out)
    if problem == "metric":
        plain = X @ np.array(found["components"]).T
    else:
        plain = X @ list(found["coefficients"].values()) + found["intercept"]
    np.testing.assert_allclose(plain, expected, rtol=1e-12, atol=1e-12)
    onnxruntime = pytest.importorskip("onnxruntime")
    call(capsys, "export", folder / "m", "--to", "onnx", "-o", folder / "m.onnx")
    session = onnxruntime.InferenceSession(str(folder / "m.onnx"))
    [values] = session.run(None, {"X": X})
    np.testing.assert_allclose(values, expected, rtol=1e-9, atol=1e-9)
