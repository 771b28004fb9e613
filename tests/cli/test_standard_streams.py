# SPDX-License-Identifier: BSD-3-Clause
"""Standard streams that are closed, full or read by nobody: a defined status, nothing lost."""

from __future__ import annotations

import errno
import io
import math
import os
import subprocess
import sys

import click
import pytest

from pairlearn.atomic import open_named
from pairlearn.cli import standard_streams
from pairlearn.cli.program import LazyGroup, program
from pairlearn.cli.running import run

PREDICT = "pairlearn predict m d.csv"
TRAIN = "pairlearn train d.csv --label y -o new"
STREAM = """echo '{"x": {"a": 1}, "y": 1}' | pairlearn stream -o new"""
CLOSED = "pairlearn: error: standard output: Bad file descriptor; open it, or send it to a file.\n"
FULL = "pairlearn: error: standard output: No space left on device; free space"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made")
    rows = (f"{math.sin(k)},{math.cos(3 * k)},{int(math.sin(k + 0.4) > 0)}\n" for k in range(60))
    (folder / "d.csv").write_text("a,b,y\n" + "".join(rows))
    arguments = ["train", folder / "d.csv", "--label", "y", "-o", folder / "m"]
    assert run(program, [str(a) for a in arguments]) == 0
    return folder


def shell(folder, line):
    line = line.replace("pairlearn", f"{sys.executable} -m pairlearn")
    done = subprocess.run(["bash", "-c", f"set -o pipefail; {line}"], cwd=folder,
                          capture_output=True, text=True, check=False)  # fmt: skip
    assert "Traceback" not in done.stderr
    assert "internal error" not in done.stderr
    assert "Exception ignored" not in done.stderr
    return done


def cases(*first):
    """The first case runs always, the others in the thorough run: each starts a process."""
    return [pytest.param(*case, marks=pytest.mark.thorough if k else ())
            for k, case in enumerate(first)]  # fmt: skip


@pytest.mark.parametrize(
    ("line", "status", "said"),
    cases(
        ("pairlearn --version >&-", 1, CLOSED),
        ("pairlearn --version > /dev/full", 1, FULL),
        ("pairlearn nope 2>&-", 2, ""),
        ("pairlearn nope 2> /dev/full", 2, ""),
        (f"{PREDICT} >&-", 1, CLOSED),
        (f"{PREDICT} > /dev/full", 1, FULL),
        (f"{PREDICT} -o /dev/full", 1, "error: /dev/full: No space left on device; free space"),
        (f"{PREDICT} <&- >&- 2>&-", 1, ""),
        (f"{TRAIN} > /dev/full", 1, FULL),
        (f"{TRAIN} -o /dev/full", 1, "/dev/full cannot be written: No space left on device"),
        ("pairlearn inspect m > /dev/full", 1, FULL),
        ("pairlearn evaluate m d.csv > /dev/full", 1, FULL),
        ("pairlearn export m --to json > /dev/full", 1, FULL),
        ("pairlearn privacy plan --n 99 --d 2 --epsilon 1 > /dev/full", 1, FULL),
    ),
)
def test_how_it_ends(made, line, status, said):
    done = shell(made, line)
    assert done.returncode == status
    assert said in done.stderr if said else done.stderr == ""
    assert not (made / "new").exists()


@pytest.mark.parametrize(
    "line",
    [case for case in cases(
        (f"{PREDICT} 2>&-",),
        (f"{PREDICT} 2> /dev/full",),
        (f"{PREDICT} -o /dev/stdout 2>&-",),
    )],
)  # fmt: skip
def test_results_come_without_messages(made, line):
    done = shell(made, line)
    assert done.returncode == 0
    assert done.stdout.startswith("line,score,probability,label\n")
    assert done.stdout.count("\n") == 61


@pytest.mark.parametrize("where", ["> /dev/full", "| true"])
def test_an_error_after_the_first_results_keeps_its_status(made, where):
    """Results that waited to be written ended in a traceback of Python, and in status 120."""
    done = shell(made, f"{PREDICT} no-such-file {where}")
    assert done.returncode == 1
    assert done.stderr == "pairlearn: error: no-such-file does not exist; check the path.\n"


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("line", "status"),
    [
        (f"{TRAIN} 2>&- > log", 0),
        (f"{TRAIN} 2> /dev/full > log", 0),
        (f"{STREAM} > /dev/full", 1),
        (f"{STREAM} >&-", 1),
        (f"{STREAM} 2>&- > log", 0),
    ],
)
def test_the_model_is_not_lost(made, line, status):
    try:
        assert shell(made, line).returncode == status
        assert shell(made, "pairlearn inspect new").returncode == 0
    finally:
        (made / "new").unlink(missing_ok=True)


def test_a_pipe_that_is_an_output_is_named(capsys):
    """Only a broken standard output is silent."""

    group = LazyGroup(table={}, package="")

    def broken(name):
        def callback():
            raise OSError(errno.EPIPE, "Broken pipe", name)

        group.get_command = lambda *_: click.Command("x", callback=callback)
        group.resolve_command = lambda *_: ("x", group.get_command(), [])
        assert run(group, ["x"]) == 1
        return capsys.readouterr().err

    assert broken("fifo") == "pairlearn: error: fifo: Broken pipe; try again.\n"


@pytest.mark.thorough
@pytest.mark.parametrize("arguments", [["predict", "m", "d.csv"], ["--help"], ["inspect", "m"]])
def test_output_that_nobody_reads(made, arguments):
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run([sys.executable, "-m", "pairlearn", *arguments], cwd=made,
                          stdout=write, stderr=subprocess.PIPE, text=True, check=False)  # fmt: skip
    os.close(write)
    assert (done.returncode, done.stderr) == (1, "")


def test_messages_that_cannot_be_shown_are_dropped():
    number = os.open("/dev/full", os.O_WRONLY)
    stream = standard_streams._Forgiving(open_named(number, "x", closefd=False), "utf-8")
    assert stream.write("text") == 4
    stream.flush()
    assert stream.write("x" * 100_000) == 100_000
    stream.flush()
    os.dup2(os.open(os.devnull, os.O_WRONLY), number)
    stream.close()


def test_closed_descriptors_are_taken(monkeypatch):
    """Otherwise the next file that is opened would be standard error."""
    opened = []
    true_fstat = os.fstat

    def fstat(number):
        if number < 3:
            raise OSError(errno.EBADF, "closed")
        return true_fstat(number)

    with monkeypatch.context() as patched:
        patched.setattr(sys, "stdout", io.StringIO())
        patched.setattr(sys, "stderr", io.StringIO())
        patched.setattr(os, "fstat", fstat)
        patched.setattr(os, "open", lambda *a: opened.append(a))
        standard_streams.mend()
    assert [flags for _, flags in opened] == [os.O_RDONLY, os.O_RDONLY, os.O_WRONLY]
