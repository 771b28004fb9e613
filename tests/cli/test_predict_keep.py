# SPDX-License-Identifier: BSD-3-Clause
"""Predictions carry the ids of rows along, and a file that lacks columns is told which."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest

from pairlearn.cli.program import program
from pairlearn.cli.running import run

NAMES = ("customer", "nr", "usage", "plan", "churned")


def call(capsys, *arguments, status=0):
    code = run(program, [str(argument) for argument in arguments])
    captured = capsys.readouterr()
    assert code == status, captured.err
    return captured.out, captured.err


def write(path, rows, columns):
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow([NAMES[k] for k in columns])
        writer.writerows([row[k] for k in columns] for row in rows)


def rows_of(text):
    return list(csv.DictReader(io.StringIO(text)))


@pytest.fixture
def table(tmp_path, monkeypatch, capsys):
    """A model of a table with two ids, one of them with gaps, and new rows."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(3)
    rows = []
    for k in np.flatnonzero(rng.random(400) < 0.7).tolist():
        usage, plan = rng.normal(), rng.choice(["basic", "pro"])
        churned = int(usage + (plan == "pro") + rng.normal() > 1)
        rows.append((f"C,{k:05d}", k + 1, f"{usage:.4f}", plan, churned))
    write("train.csv", rows[:200], range(5))
    call(capsys, "train", "train.csv", "--label", "churned", "-o", "model")
    return rows[200:]


def test_ids_are_carried_along(table, capsys):
    write("new.csv", table, range(4))
    out, err = call(capsys, "predict", "model", "new.csv")
    found = rows_of(out)
    assert list(found[0]) == ["line", "customer", "nr", "score", "probability", "label"]
    assert [(row["customer"], row["nr"]) for row in found] == [(r[0], str(r[1])) for r in table]
    plain, _ = call(capsys, "predict", "model", "new.csv", "--keep", "none")
    scores = [row["score"] for row in rows_of(plain)]
    assert scores == [row["score"] for row in found]
    assert list(rows_of(plain)[0]) == ["line", "score", "probability", "label"]
    assert err == ""


def test_kept_columns_are_those_of_their_rows_also_where_rows_are_refused(table, capsys):
    write("new.csv", table[:6], range(5))
    path = Path("new.csv")
    lines = path.read_text(encoding="utf-8").splitlines()
    lines[3] += ",9,9"  # too many fields
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    out, err = call(capsys, "predict", "model", "new.csv", "--keep", "plan,customer", "--json")
    found = [json.loads(line) for line in out.splitlines()]
    left = table[:2] + table[3:6]
    assert [(row["plan"], row["customer"]) for row in found] == [(r[3], r[0]) for r in left]
    assert "1 row" in err


def test_a_kept_column_of_a_name_of_ours_is_told_apart(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    x = rng.normal(size=80)
    lines = [f"{v:.3f},{int(v + rng.normal() > 0)}\n" for v in x]
    (tmp_path / "t.csv").write_text("x,label\n" + "".join(lines))
    call(capsys, "train", "t.csv", "--label", "label", "-o", "m")
    out, _ = call(capsys, "predict", "m", "t.csv", "--keep", "label")
    found = rows_of(out)
    assert list(found[0]) == ["line", "label (data)", "score", "probability", "label"]
    assert [row["label (data)"] for row in found] == [line.strip().split(",")[1] for line in lines]


def test_a_class_called_line_does_not_take_the_place_of_the_line(tmp_path, monkeypatch, capsys):
    """Its probabilities stood where the numbers of the lines belong."""
    rows = [f"{k % 7},{'line' if k % 7 > 3 else 'score'}" for k in range(70)]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "named.csv").write_text("\n".join(["x,y", *rows]) + "\n")
    call(capsys, "train", "named.csv", "--label", "y", "--model", "linear", "-o", "named")
    out, _ = call(capsys, "predict", "named", "named.csv", "--proba")
    head, first = out.splitlines()[:2]
    assert head in ("line,line (class),score", "line,score,line (class)")
    assert first.startswith("2,")


def test_a_column_to_keep_must_be_there(table, capsys):
    write("new.csv", table, range(4))
    _, err = call(capsys, "predict", "model", "new.csv", "--keep", "plans", status=1)
    assert "no kept column 'plans' (did you mean 'plan'?)" in err


def test_all_lacking_columns_are_named_and_can_be_imputed(table, capsys):
    write("new.csv", table, [0])
    _, err = call(capsys, "predict", "model", "new.csv", status=1)
    assert "lacks 2 feature columns of the model, 'usage', 'plan'" in err
    assert "--missing impute" in err
    _, err = call(capsys, "predict", "model", "new.csv", "--missing", "impute", status=1)
    assert "has no column of the model" in err
    write("new.csv", table, [0, 2])
    out, err = call(capsys, "predict", "model", "new.csv", "--missing", "impute")
    assert "new.csv has no column 'plan': taken as missing" in err
    empty = [(*row[:3], "") for row in table]
    write("empty.csv", empty, range(4))
    expected, _ = call(capsys, "predict", "model", "empty.csv")
    assert [r["score"] for r in rows_of(out)] == [r["score"] for r in rows_of(expected)]


def test_a_model_without_a_table_has_no_columns_to_keep(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    X[:, 2] = X[:, 0] > 0
    np.save("t.npy", X)
    call(capsys, "train", "t.npy", "--label", "2", "-o", "m")
    for option in (["--keep", "a"], ["--missing", "impute"]):
        _, err = call(capsys, "predict", "m", "t.npy", *option, status=2)
        assert "not trained on a table of named columns" in err


def test_a_kept_column_is_never_lost_to_another_of_its_name(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    rows = "".join(f"{a:.3f},{b:.3f},{int(a > 0)}\n" for a, b in rng.normal(size=(60, 2)))
    Path("d.csv").write_text("a,b,y\n" + rows)
    call(capsys, "train", "d.csv", "--label", "y", "--model", "linear", "-o", "m")
    Path("n.csv").write_text("a,b,score,line,score (data)\n1,2,9,8,7\n")
    out, _ = call(capsys, "predict", "m", "n.csv", "--keep", "score,line,score (data)")
    [row] = rows_of(out)
    assert {row[name] for name in row if "(data)" in name} == {"9", "8", "7"}
    Path("twice.csv").write_text("a,a,b\n1,2,3\n")
    _, err = call(capsys, "predict", "m", "twice.csv", status=1)
    assert "more than one column named 'a'" in err or "more than one column named a" in err
    out, _ = call(capsys, "predict", "m", "n.csv", "d.csv")
    assert [row["file"] for row in rows_of(out)] == ["n.csv", *["d.csv"] * 60]
