# SPDX-License-Identifier: BSD-3-Clause
"""Bad input through the program: an exit status and one line that names the cure."""

from __future__ import annotations

import os
import resource
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pairlearn import SGD, AUCClassifier
from pairlearn.cli.program import program
from pairlearn.cli.running import run
from pairlearn.models import ModelRecord, write_model

GOOD = "a,b,y\n" + "".join(f"{k % 7},{k % 5},{k % 2}\n" for k in range(200))


def train(folder, capsys, name="d.csv", *more):
    arguments = ["train", str(folder / name), "--label", "y", "-o", str(folder / "m"), *more]
    status = run(program, arguments)
    captured = capsys.readouterr()
    assert "Traceback" not in captured.err
    return status, captured.out, captured.err


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty; check that it was written completely"),
        (b"a,b,y\n", "has a header and no rows"),
        (b"\n\r\n\n", "holds blank lines only"),
        (bytes(range(256)) * 50, "is not text: it has a zero byte at offset 0"),
        (b"a,b,z\n1,2,3\n", "has no label column 'y'; its columns: 'a', 'b', 'z'"),
        (b"a,y,y\n1,0,1\n", "more than one column named 'y'; rename all but the one"),
        (b"a,b,y\n1,2\n3\n4,5,6,7\n", "no usable row: 3 rows refused; first:"),
        (b"1,2,0\n3,4,1\n", "pass --set reading.header=false"),
        (b"a,b,y\n1,2,0\n3,4,0\n", "has the label 0, and two are needed"),
        (b"a,b,y\n1,2,0\n3,4,1\n5,6,2\n", "has the labels 0, 1, 2, and two are needed"),
        (b"a,b,y\n1,2,no\n3,4,yes\n5,6,perhaps\n", "two are needed; name two with --classes"),
        (b"a,b,y\n" + b"1" * 10_000_000 + b"\n", "no usable row: 1 row refused"),
        (b"\x1f\x8b\x08\x00garbage", "it is damaged or cut short"),
        (b"%PDF-1.4\n\x00", "is a PDF file, not text; save its table as CSV"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1", "is a workbook (xls) file, not text; save its sheet as CSV"),
        (b"PK\x03\x04 zip", "is a zip file, not text; unpack"),
    ],
)
def test_files_that_cannot_be_used(content, message, tmp_path, capsys):
    (tmp_path / "d.csv").write_bytes(content)
    status, out, err = train(tmp_path, capsys)
    assert status == 1
    assert out == ""
    assert message in err
    assert err.count("\n") == 1
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize("data", [("-", "-"), ("d.csv", "-"), ("-", "d.csv")])
def test_standard_input_is_read_alone(data, tmp_path, capsys, monkeypatch):
    """The file before it was scored first, and the file after it was taken."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "d.csv").write_text(GOOD)
    assert train(tmp_path, capsys)[0] == 0
    for arguments in (
        ["predict", "m", *data],
        ["train", *data, "--label", "y", "-o", "n"],
        ["rate", *data],
    ):
        assert run(program, [*arguments, "--format", "csv"]) == 2
        captured = capsys.readouterr()
        assert captured.out == ""
        assert "standard input is read alone; name files" in captured.err


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may read everything")
def test_a_file_that_may_not_be_read(tmp_path, capsys):
    (tmp_path / "d.csv").write_text(GOOD)
    (tmp_path / "d.csv").chmod(0)
    status, _, err = train(tmp_path, capsys)
    assert status == 1
    assert "permission denied; run `chmod u+r" in err


def test_some_bad_rows_are_counted(tmp_path, capsys):
    (tmp_path / "d.csv").write_text(GOOD + "1,2\n" + "x,1,1\n" + "1,1,9\n" + '"open,1,1\n')
    status, out, err = train(tmp_path, capsys, "d.csv", "--classes", "0,1")
    assert status == 0
    assert "201 rows" in out
    assert "3 rows refused; first:" in err
    assert "d.csv:202: " in err
    assert "column 'a': 1 value taken as missing; first:" in err
    assert "d.csv:203: 'x' is not a number" in err
    status, out, err = train(
        tmp_path, capsys, "d.csv", "--classes", "0,1", "--set", "reading.missing=refuse"
    )
    assert "200 rows" in out
    assert "4 rows refused; first:" in err
    status, _, err = train(
        tmp_path, capsys, "d.csv", "--classes", "0,1", "--set", "reading.strict=true"
    )
    assert status == 1
    assert "d.csv:202: " in err
    assert "strict" in err


def test_a_column_of_which_nothing_can_be_read(tmp_path, capsys):
    """All of its values counted as missing, all rows had one score, and the status was 0."""
    (tmp_path / "d.csv").write_text(GOOD)
    assert train(tmp_path, capsys)[0] == 0
    predict = ["predict", str(tmp_path / "m"), str(tmp_path / "new.csv"), "-o", str(tmp_path / "o")]
    for n_rows, status in ((19, 0), (20, 1)):
        rows = "".join(f"{k % 7} pieces;{k % 5}\n" for k in range(n_rows))
        (tmp_path / "new.csv").write_text("a;b\n" + rows)
        assert run(program, predict) == status
        assert (tmp_path / "o").exists() is (status == 0)
        (tmp_path / "o").unlink(missing_ok=True)
    told = capsys.readouterr().err
    assert "20 of the first 20 values of column 'a' cannot be read: " in told
    assert "`predict --missing impute` takes it as missing" in told
    assert run(program, [*predict, "--missing", "impute"]) == 0


def test_a_label_seen_late(tmp_path, capsys):
    """The second class after thousands of rows is found; a third one is refused by row."""
    rows = "".join(f"{k % 7},{k % 5},0\n" for k in range(20_000))
    (tmp_path / "d.csv").write_text("a,b,y\n" + rows + "9,9,1\n" * 20_000 + "1,1,2\n")
    status, out, err = train(tmp_path, capsys, "d.csv", "--fit", "stream")
    assert status == 0
    assert "40 k rows" in out
    assert "1 row refused; first:" in err
    assert "d.csv:40002: label '2' is not among the classes" in err
    status, out, err = train(tmp_path, capsys)
    assert status == 1
    assert "has the labels 0 (20000 rows), 1 (20000 rows), 2 (1 row), and two are needed" in err


def test_wrong_usage(tmp_path, capsys):
    (tmp_path / "d.csv").write_text(GOOD)
    for more, message in (
        (["--classes", "0"], "--classes must be two labels"),
        (["--classes", "1,0"], "the larger is the positive one; write 0,1"),
        (["--set", "solver.step_size=big"], "step_size must be a number, got 'big'"),
        (["--set", "stream.forget=soon"], 'forget must be a number of rows or "drop"'),
        (["--categorical", "a,,b"], "--categorical must be names between commas"),
        (
            ["--categorical", "a", "--set", "reading.numeric=a"],
            "--categorical a: the column is named twice",
        ),
        (
            ["--set", "reading.missing=sometimes"],
            "--set reading.missing must be auto, refuse, indicator or a number",
        ),
        (
            ["--fit", "offline", "--set", "stream.fresh=true"],
            "--set stream.fresh=true: this is for a stream",
        ),
        (["--set", "reading.n_features=3"], "--set reading.n_features is for svmlight files"),
        (["--set", "reading.zero_based=true"], "--set reading.zero_based is for svmlight files"),
        (["--set", "reading.features=a,,b"], "names between commas"),
        (["--set", "stream.n_passes=0"], "--set stream.n_passes=0: n_passes must be at least 1"),
        (["--loss", "zero"], "is not one of"),
        (["--set", "solver.step_size=-1"], "--set solver.step_size=-1: step_size must be"),
    ):
        status, _, err = train(tmp_path, capsys, "d.csv", *more)
        assert status == 2, more
        assert message in err
        assert err.count("\n") == 1
    missing = ["train", str(tmp_path / "d.csv"), "--label", "y", "-o", str(tmp_path / "no" / "m")]
    assert run(program, missing) == 2
    assert "does not exist; make it first" in capsys.readouterr().err
    for more, message in (
        (["--set", "reading.features=a,q"], "has no feature column 'q'"),
        (["--set", "reading.delimiter=;"], "has no label column"),
        (["--format", "parquet"], "Parquet"),
    ):
        status, _, err = train(tmp_path, capsys, "d.csv", *more)
        assert status == 1, more
        assert message in err
        assert err.count("\n") == 1


def limited(arguments, size, folder):
    """Run the program where no file may grow beyond `size` bytes, as on a full disk."""
    code = (
        "import resource, sys\n"
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({size}, {size}))\n"
        "from pairlearn.cli import main\n"
        "main()\n"
    )
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False)


@pytest.mark.thorough
def test_a_full_disk_leaves_the_old_model(tmp_path, capsys):
    assert hasattr(resource, "RLIMIT_FSIZE")
    (tmp_path / "d.csv").write_text(GOOD)
    # The first run stores its machine code, which the limit would stop before the model is written.
    for passes in ("2", "1"):
        status, _, _ = train(tmp_path, capsys, "d.csv", "--set", f"solver.n_passes={passes}")
        assert status == 0
    old = (tmp_path / "m").read_bytes()
    done = limited(
        ["train", "d.csv", "--label", "y", "-o", "m", "--set", "solver.n_passes=2"], 500, tmp_path
    )
    assert done.returncode == 1
    assert "cannot be written" in done.stderr
    assert "Traceback" not in done.stderr
    assert (tmp_path / "m").read_bytes() == old
    done = limited(["predict", "m", "d.csv", "-o", "p.csv"], 500, tmp_path)
    assert done.returncode == 1
    assert not (tmp_path / "p.csv").exists()
    assert not list(tmp_path.glob(".*tmp"))


@pytest.fixture
def model(tmp_path, rng):
    X = rng.normal(size=(100, 2))
    AUCClassifier(solver=SGD(step_size=0.1), random_state=0).fit(X, X[:, 0] > 0).save(
        tmp_path / "m"
    )
    return tmp_path / "m"


@pytest.mark.parametrize("command", ["predict", "evaluate"])
def test_models_that_cannot_be_used(command, model, tmp_path, capsys):
    (tmp_path / "d.csv").write_text(GOOD)
    (tmp_path / "cut").write_bytes(model.read_bytes()[:-4])
    write_model(tmp_path / "strange", ModelRecord("Strange", {"coef": np.ones(2)}))
    (tmp_path / "three.csv").write_text("a,b,c\n1,2,3\n")
    for arguments, message in (
        (["none", "d.csv"], "none does not exist"),
        (["d.csv", "d.csv"], "not a model file"),
        (["cut", "d.csv"], "cut short or damaged"),
        (["strange", "d.csv"], "unknown to this version"),
        (["m", "none.csv", "--label", "a"], "none.csv does not exist"),
        (["m", "three.csv", "--label", "q"], "has no label column 'q'"),
        (
            ["m", "d.csv", "--set", "reading.features=a", "--label", "y"],
            "gives 1 features and the model has 2",
        ),
    ):
        plain = [a.startswith("--") or "=" in a or (len(a) == 1 and a != "m") for a in arguments]
        paths = [a if p else str(tmp_path / a) for p, a in zip(plain, arguments, strict=True)]
        assert run(program, [command, *paths]) == 1, arguments
        captured = capsys.readouterr()
        assert captured.out == ""
        assert message in captured.err
        assert captured.err.count("\n") == 1


def test_evaluating_one_class(model, tmp_path, capsys):
    (tmp_path / "one.csv").write_text("a,b,y\n1,2,1\n3,4,1\n")
    assert run(program, ["evaluate", str(model), str(tmp_path / "one.csv"), "--label", "y"]) == 1
    err = capsys.readouterr().err
    assert "one class only" in err
    assert err.count("\n") == 1
    assert run(program, ["evaluate", str(model), str(tmp_path / "one.csv")]) == 1
    assert "pass --label" in capsys.readouterr().err


def test_options_that_a_format_does_not_have(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = [f"{k % 2} qid:{k // 4} 1:{k} 2:{k % 3}\n" for k in range(40)]
    (tmp_path / "d.svm").write_text("".join(lines))
    assert run(program, ["train", "d.svm", "--problem", "ranking", "-o", "m"]) == 0
    capsys.readouterr()
    for arguments, message in (
        (["train", "d.svm", "-o", "n", "--set", "reading.delimiter=;"], "is for csv and tsv files"),
        (["train", "d.svm", "-o", "n", "--set", "reading.header=false"], "not for svmlight"),
        (["predict", "m", "d.svm", "--set", "reading.header=false"], "not for svmlight"),
        (["predict", "m", "d.svm", "--set", "reading.text=a"], "is for tables in files"),
        (["evaluate", "m", "d.svm", "--confidence", "0.5"], "--confidence is for AUC;"),
        (["evaluate", "m", "d.svm", "--report", "page"], "--report is for AUC;"),
    ):
        assert run(program, arguments) == 2, arguments
        err = capsys.readouterr().err
        assert message in err
        assert err.count("\n") == 1


def test_files_of_two_shapes_or_formats(tmp_path, capsys):
    (tmp_path / "d.csv").write_text(GOOD)
    header, _, rest = GOOD.partition("\n")
    more = rest.replace("\n", ",7\n")
    (tmp_path / "e.csv").write_text(f"{header},extra\n{more}")
    status, out, _ = train(tmp_path, capsys, "d.csv", str(tmp_path / "e.csv"), "--dry-run")
    assert status == 0
    assert f"'extra' left out: {tmp_path / 'e.csv'} has what the first file has not" in out
    (tmp_path / "f.svm").write_text("1 1:5\n0 1:3\n")
    status, _, err = train(tmp_path, capsys, "d.csv", str(tmp_path / "f.svm"))
    assert status == 2
    assert "f.svm is svmlight; files of one format are read together" in err
    # One reader reads both.
    (tmp_path / "g.tsv").write_text(GOOD.replace(",", "\t"))
    assert train(tmp_path, capsys, "d.csv", str(tmp_path / "g.tsv"), "--dry-run")[0] == 0


def test_columns_in_the_names_of_folders_matter_where_all_are_taken(tmp_path, capsys):
    pairs = [line.split(",") for line in GOOD.splitlines()[1:]]
    table = pa.table({name: [float(one[k]) for one in pairs] for k, name in enumerate("aby")})
    for part in ("v1", "v2"):
        (tmp_path / "run" / f"plan={part}").mkdir(parents=True)
        pq.write_table(table, tmp_path / "run" / f"plan={part}" / "a.parquet")
    status, _, err = train(tmp_path, capsys, "run", "--model", "linear")
    assert status == 1
    assert "column 'plan' is in the names of folders only, such as 'plan=v" in err
    files = [str(path) for path in sorted((tmp_path / "run").rglob("*.parquet"))]
    assert train(tmp_path, capsys, files[0], *files[1:], "--model", "linear")[0] == 0
    # A model says which columns it needs.
    assert run(program, ["predict", str(tmp_path / "m"), str(tmp_path / "run")]) == 0
    assert capsys.readouterr().out.count("\n") == 401
