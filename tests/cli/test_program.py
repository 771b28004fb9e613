# SPDX-License-Identifier: BSD-3-Clause
"""The program: help without heavy imports, exit codes, one-line errors."""

from __future__ import annotations

import io
import json
import subprocess
import sys

import click
import numpy as np
import pytest

from pairlearn.cli.program import COMMANDS, program
from pairlearn.cli.running import run
from pairlearn.cli.shared.output import emit
from pairlearn.models import ModelRecord, write_model
from pairlearn.progress import Progress


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "m.safetensors"
    record = ModelRecord(
        "ExampleClassifier",
        {"coef": np.array([0.5, -2.0, 0.0])},
        parameters={"loss": "hinge"},
        classes=("no", "yes"),
        feature_names=("age", "height", "weight"),
        provenance={"rows_seen": 7},
        certificate={"epsilon": 1.0},
    )
    write_model(path, record)
    return path


def test_help_imports_nothing_heavy():
    code = (
        "import sys\n"
        "from pairlearn.cli.program import program\n"
        "from pairlearn.cli.running import run\n"
        "assert run(program, ['--help']) == 0\n"
        "heavy = {'numpy', 'scipy', 'sklearn', 'numba', 'pandas', 'pyarrow'}\n"
        "print(sorted(heavy & set(sys.modules)), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"
    for name in COMMANDS:
        assert name in done.stdout


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself(name, capsys):
    assert run(program, [name, "--help"]) == 0
    out = capsys.readouterr().out
    # a paragraph that was wrapped by mistake has the first example on the line of the heading
    assert "Examples:" in [line.strip() for line in out.splitlines()]
    assert "\\b" not in out
    assert COMMANDS[name][1].rstrip(".") in " ".join(out.split())


def test_no_arguments_show_the_help(capsys):
    assert run(program, []) == 0
    assert "Commands" in capsys.readouterr().out


def test_version(capsys):
    import pairlearn

    assert run(program, ["--version"]) == 0
    assert capsys.readouterr().out == f"pairlearn {pairlearn.__version__}\n"


def test_inspect(model, capsys):
    assert run(program, ["inspect", str(model)]) == 0
    out = capsys.readouterr().out
    assert "ExampleClassifier" in out
    assert "rows_seen: 7" in out
    lines = out.splitlines()
    assert lines[lines.index("largest coefficients:") + 1].split() == ["height", "-2"]
    # what it predicts comes first, arrays and format last
    assert lines[0] == "ExampleClassifier, predicts yes against no, from 3 features and 7 rows"
    assert lines[-1].startswith("written by pairlearn ")
    assert lines.index("largest coefficients:") < lines.index("provenance:")


def test_inspect_json(model, capsys):
    assert run(program, ["inspect", "--json", "--top", "1", str(model)]) == 0
    values = json.loads(capsys.readouterr().out)
    assert values["coefficients"] == [{"feature": "height", "value": -2.0}]
    assert values["classes"] == ["no", "yes"]
    assert values["arrays"] == {"coef": {"dtype": "float64", "shape": [3]}}


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["inspect"], 2, "Missing argument 'MODEL'"),
        (["inspect", "--nope", "x"], 2, "No such option"),
        (["inspect", "--top", "-1", "x"], 2, "is not in the range"),
        (["inspct", "x"], 2, "there is no command 'inspct'; did you mean 'inspect'?"),
        (["xyz"], 2, "see `pairlearn --help`"),
        (["inspect", "no-such-file"], 1, "no-such-file does not exist; check the path."),
        (["inspect", "."], 1, ". is a directory; name the model file."),
    ],
)
def test_wrong_calls(arguments, status, message, capsys):
    assert run(program, arguments) == status
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert captured.err.startswith("pairlearn: ")
    assert message in captured.err


@pytest.mark.parametrize(
    "arguments",
    [
        ["train", "", "--label", "y"],
        ["train", "data.csv", "--label", "y", "-o", ""],
        ["predict", "", "data.csv"],
        ["evaluate", "model", "data.csv", "--report", ""],
        ["compare", "data.csv", "--store", ""],
        ["stream", "--checkpoint", ""],
    ],
)
def test_an_empty_name_is_not_the_present_folder(arguments, capsys):
    """`train "$FILE"` learned from all Parquet files here where FILE was not set."""
    assert run(program, arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "the name is empty, as of a shell variable that is not set" in captured.err


def test_a_damaged_model(model, capsys):
    model.write_bytes(model.read_bytes()[:-1])
    assert run(program, ["inspect", str(model)]) == 1
    assert "cut short or damaged" in capsys.readouterr().err


def raising(error):
    def callback():
        raise error

    return click.Command("x", callback=callback)


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (KeyboardInterrupt(), 130, "interrupted"),
        (ValueError("two\nlines"), 1, "error: two lines"),
        (OSError(28, "No space left on device"), 1, "No space left"),
        (ZeroDivisionError(), 1, "ZeroDivisionError"),
        (click.ClickException("no"), 1, "no"),
        (AttributeError("x"), 1, "internal error: AttributeError: x (please report it"),
    ],
)
def test_how_errors_end(error, status, message, capsys):
    assert run(raising(error), []) == status
    err = capsys.readouterr().err
    assert message in err
    assert "Traceback" not in err
    assert "\n" not in err.strip()  # click ends the line in which ^C was typed


def test_traceback_on_request(monkeypatch, capsys):
    monkeypatch.setenv("PAIRLEARN_TRACEBACK", "1")
    assert run(raising(ValueError("x")), []) == 1
    assert "Traceback" in capsys.readouterr().err


def test_the_process_exits_with_the_status(tmp_path):
    def call(*arguments):
        return subprocess.run([sys.executable, "-m", "pairlearn", *arguments],
                              capture_output=True, text=True, check=False)  # fmt: skip

    assert call("--help").returncode == 0
    assert call("nope").returncode == 2
    failed = call("inspect", str(tmp_path / "none"))
    assert failed.returncode == 1
    assert failed.stdout == ""
    assert failed.stderr.count("\n") == 1


def test_a_closed_pipe_is_silent():
    process = subprocess.Popen(
        [sys.executable, "-m", "pairlearn", "--help"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    process.stdout.close()
    _, err = process.communicate()
    assert b"Traceback" not in err
    assert b"BrokenPipe" not in err


def test_json_refuses_nan():
    with pytest.raises(ValueError, match="JSON compliant"):
        emit({"a": float("nan")}, "", as_json=True)


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_progress_is_for_terminals_only(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    quiet = io.StringIO()
    with Progress(10, label="reading", file=quiet) as progress:
        progress.update(5, done=5)
    assert quiet.getvalue() == ""
    monkeypatch.setattr("pairlearn.progress._SECONDS", 0.0)
    for total in (10, None):
        screen = Terminal()
        with Progress(total, label="reading", file=screen) as progress:
            progress.update(0)
            progress.update(20_000, done=5, note="AUC 0.91")
        assert "20 k rows" in screen.getvalue()
        assert "rows/s" in screen.getvalue()
        assert "AUC 0.91" in screen.getvalue()
    screen = Terminal()
    with Progress(unit="cells", file=screen) as progress:
        progress.update(3, 8, "german split 0")
    assert "3/8 cells, german split 0" in screen.getvalue()
    with Progress(10, file=(screen := Terminal()), quiet=True) as progress:
        progress.update(5)
    assert screen.getvalue() == ""
