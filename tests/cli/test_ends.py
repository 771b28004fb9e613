# SPDX-License-Identifier: BSD-3-Clause
"""How commands end: exit statuses, signals, closed and full outputs, files that are read."""

import os
import signal
import subprocess
import sys
import time

import click
import pytest

from pairlearn.cli.program import program
from pairlearn.cli.running import run, stop
from pairlearn.cli.shared.output import safe

PAIRLEARN = f"{sys.executable} -m pairlearn"


def shell(folder, line):
    line = line.replace("pairlearn", PAIRLEARN, 1)
    return subprocess.run(line, shell=True, cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.skipif(sys.platform != "linux", reason="/dev/full")
@pytest.mark.parametrize(
    ("line", "status", "said"),
    [
        ("pairlearn predict m d.csv | head -n 1", 0, ""),
        ("pairlearn predict m d.csv > /dev/full", 1, "No space left on device; free space"),
        ("pairlearn predict m d.csv >&-", 1, "Bad file descriptor"),
        ("pairlearn predict m d.csv -o new 2>&-", 0, ""),
        ("pairlearn predict m d.csv -o /dev/full", 1, "/dev/full"),
        ("pairlearn nope 2> /dev/full", 2, ""),
        ("pairlearn stream < /dev/null", 0, "0 examples learned"),
    ],
)
def test_outputs_that_are_closed_or_full(made, line, status, said):
    done = shell(made, line)
    assert done.returncode == status, done.stderr
    assert said in done.stderr if said else done.stderr in ("", "pairlearn: new: 60 rows\n")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_a_command_with_its_status(number, capsys):
    @click.command()
    def wait():
        os.kill(os.getpid(), number)
        time.sleep(10)

    before = signal.getsignal(number)
    assert run(wait, []) == 128 + number
    assert capsys.readouterr().err.strip() == "pairlearn: interrupted"
    assert signal.getsignal(number) == before


def test_a_signal_that_is_held_back_waits_for_the_next_opening(capsys):
    steps = []

    @click.command()
    def work():
        with stop.held():
            os.kill(os.getpid(), signal.SIGTERM)
            os.kill(os.getpid(), signal.SIGTERM)  # a second one changes nothing
            steps.append("written")
            with stop.open():
                steps.append("never")

    assert run(work, []) == 143
    assert steps == ["written"]


def test_a_library_that_swallows_the_interrupt_does_not_hide_it(capsys):
    @click.command()
    def work():
        try:
            os.kill(os.getpid(), signal.SIGINT)
        except KeyboardInterrupt:
            raise ValueError("the fit failed") from None

    assert run(work, []) == 130
    assert capsys.readouterr().err.strip() == "pairlearn: interrupted"


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_an_interrupted_stream_writes_its_model_and_ends_with_the_status(tmp_path):
    command = [sys.executable, "-m", "pairlearn", "stream", "-o", "m", "--checkpoint", "c"]
    process = subprocess.Popen(command, cwd=tmp_path, stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)  # fmt: skip
    for k in range(300):
        process.stdin.write(b'{"x": {"a": %d}, "y": %d}\n' % (k % 3, k % 2))
    process.stdin.flush()
    for _ in range(300):
        process.stdout.readline()
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 143
    assert b"300 examples learned" in err
    assert (tmp_path / "m").exists()
    assert (tmp_path / "c").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["train", "d.csv", "--label", "y", "-o", "d.csv"], "-o d.csv is a file that the command"),
        (["train", "d.csv", "--label", "y", "-o", "./link.csv"], "link.csv is a file that"),
        (["train", "*.csv", "--label", "y", "-o", "d.csv"], "d.csv is a file that the command"),
        (["predict", "m", "d.csv", "-o", "m"], "-o m is a file that the command reads (m)"),
        (["evaluate", "m", "d.csv", "--report", "."], "is a file that the command reads (d.csv)"),
        (["predict", "m", "d.csv", "-o", "-"], "-o - names no file"),
        (["predict", "m", "d.csv", "-o", "no/such/file"], "does not exist"),
        (["train", "d.csv", "--label", "y", "--decision", "inf"], "a finite number, got inf"),
    ],
)
def test_an_output_is_no_input(made, arguments, said, monkeypatch, capsys):
    monkeypatch.chdir(made)
    if not (made / "link.csv").exists():
        os.link(made / "d.csv", made / "link.csv")
    before = (made / "d.csv").read_bytes()
    assert run(program, arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""  # refused before anything is read
    assert said in captured.err
    assert (made / "d.csv").read_bytes() == before


NAME = "x\x1b]0;owned\x07\x1b[2J\u202e\nforged: 1"


def test_names_do_not_reach_the_terminal_as_they_are(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    header = f'"{NAME}",b,y\n'
    rows = "".join(f"{k * 7 % 11},{k % 7},{k % 3 % 2}\n" for k in range(80))
    (tmp_path / "e.csv").write_text(header + rows, newline="")
    commands = [["train", "e.csv", "--label", "y", "--model", "linear", "-o", "m"],
                ["train", "e.csv", "--label", "y", "--dry-run"], ["inspect", "m"],
                ["train", "e.csv", "--label", "nope"], ["predict", "m", "missing.csv"]]  # fmt: skip
    (tmp_path / "missing.csv").write_text("b\n1\n")
    (tmp_path / "v.csv").write_text(f'winner,loser\n"{NAME}",b\nb,"{NAME}"\n', newline="")
    for command in [*commands, ["rate", "v.csv", "-o", "r"], ["inspect", "r"]]:
        run(program, command)
        captured = capsys.readouterr()
        shown = captured.out + captured.err
        assert not {"\x1b", "\x07", "\u202e"} & set(shown), command
        assert "\nforged" not in shown, command
    assert safe("a\tb\x85\u2066") == "a\\x09b\\x85\\u2066"


def test_imports_without_placeholders():
    code = "from pairlearn.cli.light_imports import import_scikit_learn as go; go(); import sys; "
    code += "print(type(sys.modules.get('asyncio')).__name__, 'sklearn' in sys.modules)"
    for switch, expected in (("1", "_Later True"), ("0", "False")):
        env = {**os.environ, "PAIRLEARN_LIGHT_IMPORTS": switch}
        done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True,
                              text=True, check=True)  # fmt: skip
        assert done.stdout.strip().endswith(expected)
