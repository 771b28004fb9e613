# SPDX-License-Identifier: BSD-3-Clause
"""A table as it is: train, predict, evaluate and compare with no option beyond the label."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from pairlearn import SGD, load_model, roc_auc
from pairlearn.cli.program import program
from pairlearn.cli.running import run
from pairlearn.models import read_model

_PATH = Path(__file__).parents[1] / "tables" / "real_files.py"
_SPEC = importlib.util.spec_from_file_location("real_files", _PATH)
real_files = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(real_files)


def call(capsys, *arguments, status=0):
    code = run(program, [str(argument) for argument in arguments])
    captured = capsys.readouterr()
    assert code == status, captured.err
    assert "Traceback" not in captured.err
    return captured.out, captured.err


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["pairlearn"])


def test_json_has_every_coefficient_where_names_repeat(tmp_path, capsys):
    levels = ["(other)", "blue", "red"]
    rows = "".join(f"{levels[k % 3]},{k * k % 17},{k // 3 % 2}\n" for k in range(60))
    Path("t.csv").write_text("c,x,y\n" + rows)
    call(capsys, "train", "t.csv", "--label", "y", "--model", "linear", "-o", "m")
    out, _ = call(capsys, "export", "m", "--to", "json")
    assert [*json.loads(out)["coefficients"].values()] == load_model("m").coef_[0].tolist()


def test_a_name_with_a_comma_is_given_in_quotes(tmp_path, capsys):
    rows = "".join(f"{k * k % 17},{k % 5},{k // 3 % 2}\n" for k in range(60))
    Path("t.csv").write_text('x,"city, state",y\n' + rows)
    start = ("train", "t.csv", "--label", "y", "--dry-run", "--exclude")
    out, _ = call(capsys, *start, '"city, state"')
    assert re.search("city, state +excluded", out)
    assert "has no excluded column 'city'" in call(capsys, *start, "city, state", status=1)[1]


def test_a_word_for_nothing_costs_no_row_of_a_streamed_model(tmp_path, capsys):
    rows = "".join(f"{k * k % 17},{k % 5},{k // 3 % 2}\n" for k in range(60))
    Path("t.csv").write_text("a,b,y\n" + rows)
    call(capsys, "train", "t.csv", "--label", "y", "--fit", "stream", "-o", "m")
    words = ("", "-", "NULL", "n/a", "NaN", "<NA>", "#N/A", " none ")
    Path("new.csv").write_text("a,b\n" + "".join(f"{word},1\n" for word in words))
    out, err = call(capsys, "predict", "m", "new.csv", "--json")
    scores = {json.loads(line)["score"] for line in out.splitlines()}
    assert len(out.splitlines()) == len(words)
    assert len(scores) == 1
    assert not err


@pytest.mark.parametrize("name", real_files.FILES)
def test_real_files(name, tmp_path, capsys):
    file, label = real_files.FILES[name](tmp_path, np.random.default_rng(7))
    model = f"{name}.safetensors"
    out, _ = call(capsys, "train", file, "--label", label)
    interval = re.search(r"held-out AUC (\S+), 95 % interval \[(\S+), (\S+)\]", out)
    low, high = float(interval[2]), float(interval[3])
    assert low < float(interval[1]) < high
    assert "settings: solver exact" in out
    assert "most important columns: " in out
    assert "progressive" not in out
    out, _ = call(capsys, "evaluate", model, "new.csv", "--json")
    found = json.loads(out)
    assert found["auc"] > real_files.LEAST[name]
    # two intervals of 95 % that are far apart would mean that one of them is wrong
    assert found["high"] > low
    assert found["low"] < high
    call(capsys, "predict", model, "new.csv", "-o", "scores.csv")
    lines = Path("scores.csv").read_text().splitlines()
    ids = load_model(model).provenance_["table"].get("ids", [])
    assert lines[0] == ",".join(["line", *ids, "score,probability,label"])
    assert len(lines) == 151
    out, _ = call(capsys, "predict", model, "new.csv", "--proba", "--json")
    fitted = load_model(model)
    entry = json.loads(out.splitlines()[0])
    assert list(entry) == ["line", *ids, *map(str, fitted.classes_)]
    assert sum(list(entry.values())[-2:]) == pytest.approx(1.0)


@pytest.mark.thorough
def test_compare_a_table(tmp_path, capsys):
    pytest.importorskip("matplotlib")
    file, label = real_files.FILES["customers"](tmp_path, np.random.default_rng(7))
    out, _ = call(capsys, "compare", file, "--label", label, "--splits", 2, "--methods",
                  "linear,logistic", "--exclude", "newsletter")  # fmt: skip
    assert re.search(r"newsletter +excluded", out)
    assert "4 cells computed, 4 in all" in out
    page = (tmp_path / "customers-report" / "index.html").read_text()
    assert "customers" in page
    _, err = call(capsys, "compare", file, status=2)
    assert "name its column with --label, one of 'customer_id'" in err
    _, err = call(capsys, "compare", "nothing.csv", "--label", "y", status=1)
    assert "nothing.csv does not exist" in err


def test_german_by_default(data_folder, tmp_path, capsys):
    """The first 800 rows of german.numer through the program, and the others to test."""
    from pairlearn.data import read_libsvm

    X, y = read_libsvm(data_folder / "german.numer.libsvm.xz", dense=True)
    for name, part in (("train", slice(0, 800)), ("test", slice(800, 1000))):
        np.savetxt(tmp_path / f"{name}.csv", np.column_stack([X[part], y[part]]), delimiter=",",
                   fmt="%g", header=",".join([*(f"a{j}" for j in range(24)), "bad"]),
                   comments="")  # fmt: skip
    call(capsys, "train", "train.csv", "--label", "bad")
    out, _ = call(capsys, "evaluate", "train.safetensors", "test.csv", "--json")
    assert json.loads(out)["auc"] >= 0.79


# ------------------------------------------------------------------------------------- options


def test_what_is_said_of_columns_with_words_and_units(tmp_path, capsys):
    file, label = real_files.FILES["hospital"](tmp_path, np.random.default_rng(7))
    out, err = call(capsys, "train", file, "--label", label)
    assert re.search(r"^Nº +id ", out, re.MULTILINE)
    assert re.search(r"^Glucosa +number .*'mg/dl', 's/d' are no value; gaps", out, re.MULTILINE)
    assert re.search(r"^Peso +number .*unit kg", out, re.MULTILINE)
    assert re.search(r"^Provincia +category .*leading zeros", out, re.MULTILINE)
    assert "2 rows refused; first: hospital.csv:2: the label is missing" in err
    file, label = real_files.FILES["orders"](tmp_path, np.random.default_rng(7))
    out, err = call(capsys, "train", file, "--label", label, "--dry-run")
    assert re.search(r"^weight +number .*unit kg, g converted", out, re.MULTILINE)
    assert re.search(r"^picked +number .*1:30 is 1.5", out, re.MULTILINE)
    assert re.search(r"^quarter +date ", out, re.MULTILINE)
    assert re.search(r"^phone +id ", out, re.MULTILINE)
    assert (
        "label 'returned': yes (positive) against no; 'unknown' is no class; such rows are left out"
        in out
    )
    assert "note: 1 line above the header left out" in out


def test_many_columns_and_many_classes(tmp_path, capsys):
    names = ["id", *(f"s{k}" for k in range(60)), "kind"]
    rows = [[f"r{i}", *(f"{(i * k) % 97}.5" for k in range(60)), "abc"[i % 3]] for i in range(60)]
    for row in rows[::3]:
        row[31] = ""
    (tmp_path / "wide.csv").write_text("\n".join(",".join(row) for row in [names, *rows]))
    arguments = ["train", "wide.csv", "--label", "kind"]
    out, _ = call(capsys, *arguments, "--problem", "classes", "--dry-run")
    assert len(out.splitlines()) == 44
    assert "... and 21 columns more, which --json lists" in out
    assert re.search(r"^s30 +number +33.3 % +2 ", out, re.MULTILINE)
    assert "label 'kind': 3 classes (a, b, c)" in out
    for command in ("train", "compare"):
        _, err = call(capsys, command, "wide.csv", "--label", "kind", status=1)
        assert "train with --problem classes" in err


def test_dry_run_and_overrides(tmp_path, capsys):
    file, label = real_files.FILES["patients"](tmp_path, np.random.default_rng(7))
    out, _ = call(capsys, "train", file, "--label", label, "--dry-run")
    assert re.search(r"^zip +category .*codes with leading zeros; 3 levels", out, re.MULTILINE)
    assert re.search(r"^ward +constant .*left out: always A", out, re.MULTILINE)
    assert not list(tmp_path.glob("*.safetensors"))
    out, _ = call(capsys, "train", file, "--label", label, "--dry-run", "--json", "--exclude",
                  "site,ward", "--set", "reading.numeric=zip", "--categorical", "age")  # fmt: skip
    kinds = {entry["column"]: entry["kind"] for entry in json.loads(out)["columns"]}
    assert (kinds["site"], kinds["zip"], kinds["age"]) == ("excluded", "number", "category")
    out, _ = call(
        capsys,
        "train",
        file,
        "--label",
        label,
        "--dry-run",
        "--set",
        "reading.text=site",
        "--categorical",
        "zip:8",
        "--set",
        "reading.date=age",
        status=1,
    )
    (tmp_path / "x.svm").write_text("1 1:2\n")
    _, err = call(capsys, "train", "x.svm", "--dry-run", status=2)
    assert "svmlight has none" in err


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        (("-o", "nowhere/m.safetensors"), "nowhere does not exist"),
        (("--model", "trees", "--loss", "hinge"), "--loss hinge: AUCStack has no loss"),
        (("--objective", "nothing"), "--objective nothing: objective must be one of"),
        (("--set", "solver.nothing=3"), "solver.nothing=3"),
    ],
)
def test_a_dry_run_refuses_what_the_training_would_refuse(typed, message, tmp_path, capsys):
    file, label = real_files.FILES["patients"](tmp_path, np.random.default_rng(7))
    _, err = call(capsys, "train", file, "--label", label, "--dry-run", *typed, status=2)
    assert message in err


def test_options_from_a_file(tmp_path, capsys):
    file, label = real_files.FILES["patients"](tmp_path, np.random.default_rng(7))
    (tmp_path / "train.toml").write_text(
        f'label = "{label}"\nexclude = ["site", "ward"]\noutput = "m"\nloss = "hinge"\n'
        "[set]\nsolver.step_size = 0.5\n'reading.strict' = false\n"
    )
    call(capsys, "train", file, "--config", "train.toml", "--seed", 3)
    model = load_model("m")
    assert (model.solver, model.loss) == (SGD(step_size=0.5), "hinge")
    assert "site=north" not in model.feature_names_in_
    call(capsys, "train", file, "--config", "train.toml", "--output", "n",
         "--set", "solver.step_size=0.25")  # fmt: skip
    assert load_model("n").solver.step_size == 0.25
    for text, message in (
        ("labels = 3", "there is no option 'labels'"),
        ("label = ", "is not TOML"),
        ("json = 3", "'json' must be true or false"),
        ("set = 3", "'set' must be a table"),
        ("[set]\nreading.strict = 3", "reading.strict=3: strict must be true or false"),
        ("label = true", "'label' must be a text, a number or a list"),
        ("[train]\nlabel = 'y'", "AUCClassifier has no train.label"),
    ):
        (tmp_path / "bad.toml").write_text(text)
        _, err = call(capsys, "train", file, "--config", "bad.toml", status=2)
        assert message in err
    _, err = call(capsys, "train", file, "--config", "none.toml", status=2)
    assert "No such file" in err


@pytest.mark.thorough
def test_a_stream_of_mixed_columns_goes_on(tmp_path, capsys):
    """Interrupted after a checkpoint and taken up again: the same model, bit for bit."""
    file, label = real_files.FILES["visits"](tmp_path, np.random.default_rng(7))
    text = (tmp_path / file).read_text().splitlines(keepends=True)
    (tmp_path / "long.csv").write_text(text[0] + "".join(text[1:]) * 100)
    arguments = ["train", "long.csv", "--label", label, "--fit", "stream"]
    out, _ = call(capsys, *arguments, "-o", "whole")
    assert "progressive AUC 0." in out
    from pairlearn.streams import OnlineLearner

    class EnoughError(Exception):
        pass

    before = OnlineLearner.fit_stream

    def stopped(learner, reader, **given):
        def stop(learner, chunk):
            if learner.n_seen > 20_000:
                raise EnoughError

        return before(learner, reader, **{**given, "every": 1, "progress": stop})

    OnlineLearner.fit_stream = stopped
    try:
        assert run(program, [*arguments, "-o", "parts"]) == 1
    finally:
        OnlineLearner.fit_stream = before
    capsys.readouterr()
    assert Path("parts.checkpoint").exists()
    _, err = call(capsys, *arguments, "-o", "parts")
    assert "going on from parts.checkpoint" in err
    assert Path("parts").read_bytes() == Path("whole").read_bytes()
    out, _ = call(capsys, "evaluate", "whole", "new.csv", "--json")
    assert json.loads(out)["auc"] > 0.7


@pytest.mark.parametrize("how", ["stream", "offline"])
def test_queries_are_texts(tmp_path, capsys, how):
    """1 and 01 are two queries, and so are two numbers that one float stands for."""
    rng = np.random.default_rng(3)
    ids = [*range(1, 30), *(f"0{k}" for k in range(1, 30)), 2**53, 2**53 + 1]
    rows = [f"{q},{x},{int(x > 0)}" for q in ids for x in rng.normal(size=6).round(3)]
    (tmp_path / "q.csv").write_text("\n".join(["query,a,grade", *rows]))
    call(capsys, "train", "q.csv", "--problem", "ranking", "--label", "grade", "--qid", "query",
         "--fit", how)  # fmt: skip
    out, _ = call(capsys, "evaluate", "q.safetensors", "q.csv", "--json")
    found = json.loads(out)
    assert found["queries"] == len(ids)


@pytest.mark.parametrize(
    ("header", "line"),
    [
        ("a, b, y", "{},{},{}"),
        ("a ,b,y ", "{},{},{}"),
        ("gr\xf6\xdfe,b,y", "{},{},{}"),
        ("a,b,y", '{}, "{}", {}'),
        ("a,b,y", "{},{},{},"),
        ("a,b,y", "{}\xa0,{},{}"),
        ("a,b,y", "{},{},{} "),
        ("a,b,y", "{},{}, {}"),
    ],
)
@pytest.mark.parametrize("classes", ["01", ("no", "yes")])
def test_a_stream_reads_the_fields_of_a_table(tmp_path, capsys, header, line, classes):
    """Blanks, letters of Windows and empty fields at the end, where a strict reader is misled."""
    rng = np.random.default_rng(3)
    rows = [line.format(a, b, classes[int(a > 0)]) for a, b in rng.normal(size=(60, 2)).round(3)]
    (tmp_path / "t.csv").write_text("\n".join([header, *rows]), encoding="latin-1")
    for how in ("offline", "stream"):
        out, _ = call(capsys, "train", "t.csv", "--label", "y", "--fit", how, "--json",
                      "--model", "linear")  # fmt: skip
        found = json.loads(out)
        assert (found["rows"], found["refused"], found["n_features"]) == (60, 0, 2)
        out, _ = call(capsys, "predict", "t.safetensors", "t.csv")
        assert len(out.splitlines()) == 61


def test_numbers_of_columns_count_from_both_ends(tmp_path, capsys):
    """Options that name columns by number: -2 was checked, and then left aside."""
    rng = np.random.default_rng(3)
    rows = [f"{a},{b},{c},{a > 0:d}" for a, b, c in rng.integers(-4, 4, size=(60, 3))]
    (tmp_path / "t.csv").write_text("\n".join(rows))
    start = ["train", "t.csv", "--label", "-1", "--set", "reading.header=false", "--dry-run"]
    for options, expected in (
        (["--exclude", "-2"], ["number", "number", "excluded"]),
        (["--categorical", "-2"], ["number", "number", "category"]),
        (["--set", "reading.features=0,-2"], ["number", "excluded", "number"]),
    ):
        out, _ = call(capsys, *start, *options, "--json")
        assert [column["kind"] for column in json.loads(out)["columns"]] == expected
    _, err = call(capsys, *start, "--exclude", "-2", "--categorical", "2", status=1)
    assert "drop one of them" in err


def test_a_column_to_exclude_must_exist(tmp_path, capsys):
    frame = pd.DataFrame({"a": [0.5, 1.5] * 30, "b": [1.0, 2.0, 4.0] * 20, "y": [0, 1] * 30})
    frame.to_csv("t.csv", index=False)
    frame.to_parquet("t.parquet", index=False)
    for data in ("t.csv", "t.parquet"):
        out, _ = call(capsys, "train", data, "--label", "y", "--exclude", "a", "--dry-run")
        assert "1 column gives 1 feature" in out
        _, err = call(capsys, "train", data, "--label", "y", "--exclude", "A", status=1)
        assert "no excluded column 'A' (did you mean 'a'?)" in err


@pytest.mark.parametrize("form", ["csv", "parquet"])
@pytest.mark.parametrize("word", [False, True])
def test_files_of_other_layouts_are_read_together(tmp_path, capsys, form, word):
    """Columns in another order, a further column, and in a text another delimiter and a title."""
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(rng.normal(size=(120, 2)).round(3), columns=["a", "b"])
    frame["y"] = (frame["a"] > 0).astype(int)
    if word:
        frame["c"] = rng.choice(["red", "blue"], 120)
    parts = [frame[:40], frame[40:80][frame.columns[::-1]], frame[80:].assign(z=1)]
    names = [f"{k}.{form}" for k in range(3)]
    for k, (name, part) in enumerate(zip(names, parts, strict=True)):
        if form == "parquet":
            part.to_parquet(name, index=False)
            continue
        text = part.to_csv(index=False, sep=",;\t"[k])
        Path(name).write_text(f"a title\n\n{text}" if k == 2 else text)
    frame.to_csv("all.csv", index=False)
    for how in ("offline", "stream"):
        scores = []
        for data in (["all.csv"], names):
            call(capsys, "train", *data, "--label", "y", "--fit", how, "--model", "linear",
                 "-o", "m")  # fmt: skip
            for read in (["all.csv"], names):
                out, _ = call(capsys, "predict", "m", *read)
                # of several files each row has its own in front
                column = 2 if len(read) > 1 else 1
                cells = [line.split(",") for line in out.splitlines()[1:]]
                assert column == 1 or [row[0] for row in cells] == [
                    f for f in names for _ in range(40)
                ]
                scores.append([float(row[column]) for row in cells])
        np.testing.assert_array_equal(scores, [scores[0]] * 4)


@pytest.mark.parametrize("odd", ["1e999", "inf", "abc", "1_000", "0x10"])
def test_a_stream_takes_unreadable_numbers_of_its_sample_as_missing(tmp_path, capsys, odd):
    rng = np.random.default_rng(3)
    rows = [f"{a},{b},{int(a > 0)}" for a, b in rng.normal(size=(60, 2)).round(3)]
    rows[7] = f"{odd},1,1"
    (tmp_path / "t.csv").write_text("\n".join(["a,b,y", *rows]))
    for how in ("offline", "stream"):
        out, _ = call(capsys, "train", "t.csv", "--label", "y", "--fit", how, "--json",
                      "--model", "linear")  # fmt: skip
        found = json.loads(out)
        assert (found["rows"], found["refused"]) == (60, 0)
        assert "t.csv:9" in found["taken_as_missing"][0]


def test_the_table_is_the_library(tmp_path, capsys):
    """The model of the program is that of the estimator on the encoded rows."""
    from pairlearn import AUCClassifier
    from pairlearn.tables import TableOptions, load_table

    file, label = real_files.FILES["customers"](tmp_path, np.random.default_rng(7))
    call(capsys, "train", file, "--label", label)
    table = load_table([file], TableOptions(label=label))
    expected = AUCClassifier(random_state=0).fit(table.X, table.y)
    fitted = load_model("customers.safetensors")
    assert fitted.coef_.tobytes() == expected.coef_.tobytes()
    assert fitted.feature_names_in_.tolist() == list(table.plan.encoder.feature_names)
    out, _ = call(capsys, "evaluate", "customers.safetensors", file, "--json")
    auc = roc_auc(table.y, expected.decision_function(table.X))
    assert json.loads(out)["auc"] == pytest.approx(auc, abs=1e-12)
    out, _ = call(capsys, "inspect", "customers.safetensors")
    assert "  plan: category (3 levels (basic, pro, team, large))" in out


def test_a_damaged_table_in_a_model(tmp_path, capsys):
    from dataclasses import replace

    from pairlearn.models import write_model

    file, label = real_files.FILES["customers"](tmp_path, np.random.default_rng(7))
    call(capsys, "train", file, "--label", label, "-o", "m")
    record = read_model("m")
    table = record.provenance["table"]
    for change, message in (
        ({"version": 99}, "has version 99, this library reads 3; train the model again"),
        ({"columns": table["columns"][:2]}, "the model has 14 features and its columns give"),
    ):
        broken = {**record.provenance, "table": {**table, **change}}
        write_model("broken", replace(record, provenance=broken))
        _, err = call(capsys, "predict", "broken", "new.csv", status=1)
        assert message in err
    for name in ("features", "numeric", "date", "text"):
        _, err = call(capsys, "predict", "m", "new.csv", "--set", f"reading.{name}=a", status=2)
        assert f"--set reading.{name} was settled when the model was trained" in err
    # A column that is not the label was a feature all the same; the label itself is not read.
    _, err = call(capsys, "predict", "m", "new.csv", "--label", "nope", status=2)
    assert f"--label nope: no label is read here, and that of the model is {label!r}" in err
    out, _ = call(capsys, "predict", "m", file, "--label", label)
    assert out == call(capsys, "predict", "m", file)[0]
    (tmp_path / "x.svm").write_text("1 1:2\n")
    _, err = call(capsys, "predict", "m", "x.svm", status=2)
    assert "was trained on named columns" in err


def test_zero_based(tmp_path, capsys):
    rng = np.random.default_rng(5)
    x = rng.normal(size=(60, 2))
    lines = [f"{int(a > 0)} 0:{a:.3f} 1:{b:.3f}\n" for a, b in x]
    (tmp_path / "z.svm").write_text("".join(lines))
    _, err = call(capsys, "train", "z.svm", status=1)
    assert "pass --set reading.zero_based=true" in err
    call(capsys, "train", "z.svm", "--set", "reading.zero_based=true")
    out, _ = call(
        capsys, "evaluate", "z.safetensors", "z.svm", "--set", "reading.zero_based=true", "--json"
    )
    assert json.loads(out)["auc"] > 0.99


@pytest.mark.thorough
def test_small_tables_need_no_compiled_code(tmp_path):
    """A plane is trained and used without numba, pandas and SciPy's statistics.

    Curves and trees need them.
    """
    file, label = real_files.FILES["customers"](tmp_path, np.random.default_rng(7))
    code = (
        "import sys\n"
        "from pairlearn.cli.program import program\n"
        "from pairlearn.cli.running import run\n"
        f"command = ['train', {file!r}, '--label', {label!r}, '--model', 'linear']\n"
        "assert run(program, command) == 0\n"
        "assert run(program, ['predict', 'customers.safetensors', 'new.csv']) == 0\n"
        # The interval of an AUC needs Student's quantile of scipy.special.
        "heavy = ('numba', 'pandas', 'scipy.stats._stats_py', 'pyarrow', 'matplotlib', "
        "'asyncio.events')\n"
        "heavy = [name for name in heavy if name in sys.modules]\n"
        "print(heavy, file=sys.stderr)\n"
        "import scipy.stats, pandas\n"
        "import scipy.special; from scipy.special import expit\n"
        "import asyncio, asyncio.events\n"
        "assert asyncio.run(asyncio.sleep(0, 7)) == 7\n"
        "assert asyncio.events is sys.modules['asyncio.events']\n"
        "assert scipy.special.expit(0.0) == expit(0.0) == 0.5\n"
        "assert scipy.stats.norm.cdf(0.0) == 0.5 and len(pandas.DataFrame({'a': [1]})) == 1\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr.strip().splitlines()[-1] == "[]"


@pytest.mark.parametrize("classes", [("x" * 100_000, "no", "yes"), ("x" * 100_000, "no")])
def test_a_label_of_any_length_is_told_in_a_line(tmp_path, capsys, classes):
    rows = "".join(f"{k % 7}.5,{classes[k % len(classes)]}\n" for k in range(60))
    (tmp_path / "t.csv").write_text("a,y\n" + rows)
    run(program, ["train", str(tmp_path / "t.csv"), "--label", "y", "--dry-run"])
    found = capsys.readouterr()
    assert "xxx…" in found.out + found.err
    assert len(found.out + found.err) < 600


@pytest.mark.parametrize("command", ["train", "compare"])
def test_copies_of_rows_are_told(command, capsys):
    rng = np.random.default_rng(0)
    rows = [f"{x:.4f},{rng.normal():.4f},{int(x + rng.normal() > 0)}" for x in rng.normal(size=60)]
    Path("a.csv").write_text("a,b,y\n" + "\n".join(2 * rows))
    more = ["--methods", "ours,logistic", "--splits", "1"] if command == "compare" else []
    out, err = call(capsys, command, "a.csv", "--label", "y", *more)
    assert "60 of 120 rows are exact copies of others" in out + err


def test_a_model_of_a_stream_finds_the_delimiter_and_takes_words_as_missing(tmp_path, capsys):
    rows = [f"{np.sin(k):.4f};{k % 7};{int(np.sin(k + 0.4) > 0)}\n" for k in range(100)]
    (tmp_path / "a.csv").write_text("a;b;y\n" + "".join(rows))
    (tmp_path / "b.csv").write_text("y\tb\ta\n1\t2\t0.5\n0\tx\t0.5\n0\t\t0.5\n")
    model = tmp_path / "m.safetensors"
    call(capsys, "train", tmp_path / "a.csv", "--label", "y", "--fit", "stream", "-o", model)
    out, _ = call(capsys, "predict", model, tmp_path / "a.csv")
    assert out.count("\n") == 101
    out, err = call(capsys, "predict", model, tmp_path / "b.csv")
    assert [line.split(",")[0] for line in out.splitlines()] == ["line", "2", "3", "4"]
    assert "b.csv:3: 'x' is not a number" in err


@pytest.mark.parametrize("kind", ["number as text", "label as text", "label true or false"])
def test_a_stream_of_parquet_with_numbers_that_are_texts(kind, tmp_path, capsys):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet

    a = [round(np.sin(k), 4) for k in range(100)]
    y = [int(np.sin(k + 0.4) > 0) for k in range(100)]
    if kind == "number as text":
        a = list(map(str, a))
    else:
        y = list(map(str if kind == "label as text" else bool, y))
    pyarrow.parquet.write_table(pa.table({"a": a, "b": [k % 7 for k in range(100)], "y": y}), "p")
    call(capsys, "train", "p", "--label", "y", "--fit", "stream", "-o", "m")
    out, err = call(capsys, "evaluate", "m", "p", "--json")
    assert (json.loads(out)["rows"], err) == (100, "")


@pytest.mark.parametrize("command", ["predict", "evaluate"])
def test_a_column_of_unknown_levels_is_told(command, capsys):
    rows = [(f"{k % 5:02d}", f"{np.sin(k):.4f}", int(np.sin(k + 0.4) > 0)) for k in range(60)]
    for name, cut in (("a.csv", 0), ("b.csv", 1)):
        lines = (f"{code[cut:]},{a},{y}\n" for code, a, y in rows)
        Path(name).write_text("code,a,y\n" + "".join(lines))
    call(capsys, "train", "a.csv", "--label", "y", "--model", "linear", "-o", "m")
    assert "code" not in call(capsys, command, "m", "a.csv")[1]
    assert (
        "column 'code': none of the first 60 values of b.csv is one of the 5 levels"
        in call(capsys, command, "m", "b.csv")[1]
    )
