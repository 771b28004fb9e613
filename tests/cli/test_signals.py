# SPDX-License-Identifier: BSD-3-Clause
"""A signal ends any command with its own status and one line, whenever it comes."""

from __future__ import annotations

import ctypes
import math
import os
import signal
import subprocess
import sys
import time
import warnings

import click
import pytest

from pairlearn.cli import stopping
from pairlearn.cli.program import program
from pairlearn.cli.running import run
from pairlearn.cli.stopping import SIGNALS, Stopping

#: Run the program, and send a signal to the own process when a module is about to be imported.
INTERRUPTED = """
import os, sys
from pairlearn.cli import main

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == wanted:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), number)

wanted, number = sys.argv[1], int(sys.argv[2])
sys.argv[1:] = sys.argv[3:]
sys.meta_path.insert(0, Finder())
main()
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made")
    rows = (f"{math.sin(k)},{math.cos(3 * k)},{int(math.sin(k + 0.4) > 0)}\n" for k in range(60))
    (folder / "d.csv").write_text("a,b,y\n" + "".join(rows))
    arguments = ["train", folder / "d.csv", "--label", "y", "-o", folder / "m"]
    assert run(program, [str(a) for a in arguments]) == 0
    return folder


@pytest.fixture
def folder(tmp_path, made):
    for name in ("d.csv", "m"):
        (tmp_path / name).write_bytes((made / name).read_bytes())
    return tmp_path


def interrupted(folder, module, number, *arguments):
    """Call the program in a process of its own; a signal comes when it imports the module."""
    before = sorted(folder.iterdir())
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, module, str(int(number)), *arguments],
        cwd=folder, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode == 128 + number, done.stderr
    assert len(done.stderr.strip().splitlines()) <= 1
    assert sorted(folder.iterdir()) == before


TRAIN = ["train", "d.csv", "--label", "y", "-o", "new"]
MOMENTS = [
    (["evaluate", "m", "d.csv"], "pairlearn.metrics", signal.SIGTERM),
    *[
        pytest.param(arguments, module, number, marks=pytest.mark.thorough)
        for arguments, module, number in [
            (TRAIN, "sklearn.base", signal.SIGINT),
            (TRAIN, "scipy.sparse", signal.SIGHUP),
            (TRAIN, "pairlearn.cli.training.fitted", signal.SIGINT),
            ([*TRAIN, "--fit", "stream"], "numba", signal.SIGTERM),
            ([*TRAIN, "--fit", "stream"], "pairlearn.streams.online", signal.SIGINT),
            (["predict", "m", "d.csv", "-o", "new"], "sklearn.base", signal.SIGTERM),
            (["evaluate", "m", "d.csv", "--report", "new"], "matplotlib", signal.SIGHUP),
            (["export", "m", "--to", "onnx", "-o", "new"], "onnx", signal.SIGTERM),
            (["stream"], "pairlearn.streams.drift", signal.SIGTERM),
            (["compare", "digits"], "pairlearn.experiments", signal.SIGTERM),
        ]
    ],
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "module", "number"), MOMENTS)
def test_a_signal_inside_an_import(folder, arguments, module, number):
    interrupted(folder, module, number, *arguments)


@pytest.fixture
def swallowing(tmp_path, monkeypatch):
    """Return a function that writes a module in which a signal comes, and a command for it."""
    monkeypatch.syspath_prepend(tmp_path)

    def make(number, then):
        (tmp_path / "swallows.py").write_text(
            f"import signal\ntry:\n    signal.raise_signal({int(number)})\n"
            f"except BaseException:\n    {then}\n"
        )

        def callback():
            import swallows  # noqa: F401

            for _ in range(500):
                time.sleep(0.01)
            raise AssertionError("the signal was lost")

        return click.Command("x", callback=callback)

    yield make
    sys.modules.pop("swallows", None)


@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize("then", ["pass", "raise ImportError('half')"])
def test_a_module_cannot_swallow_a_signal(swallowing, capsys, number, then):
    assert run(swallowing(number, then), []) == 128 + number
    assert capsys.readouterr().err.strip() == "pairlearn: interrupted"


class Finalized:
    def __init__(self, number):
        self.number = number

    def __del__(self):
        signal.raise_signal(self.number)


def called_by_c(number):
    ctypes.CFUNCTYPE(None)(lambda: signal.raise_signal(number))()


@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize("dropping", [Finalized, called_by_c])
def test_a_signal_where_python_drops_exceptions_is_not_lost(capsys, dropping, number):
    """Compilers call functions of Python from C; an interrupt there is printed and ignored."""

    def callback():
        dropping(number)
        for _ in range(500):
            time.sleep(0.01)
        raise AssertionError("the signal was lost")

    hook = sys.unraisablehook
    assert run(click.Command("x", callback=callback), []) == 128 + number
    assert capsys.readouterr().err.strip() == "pairlearn: interrupted"
    assert sys.unraisablehook == hook


def test_what_else_python_drops_is_told_as_before(monkeypatch):
    told = []
    monkeypatch.setattr(sys, "unraisablehook", told.append)
    with Stopping(always=True) as stopping:
        ctypes.CFUNCTYPE(None)(lambda: 1 / 0)()
    assert stopping.received is None
    assert [one.exc_type for one in told] == [ZeroDivisionError]


def test_an_error_that_a_signal_became(capsys):
    """A library may turn the interrupt into an error of its own; what was not written is told."""

    def callback(error):
        try:
            signal.raise_signal(signal.SIGTERM)
        except KeyboardInterrupt:
            raise error from None

    assert run(click.Command("x", callback=lambda: callback(AttributeError("half"))), []) == 143
    assert capsys.readouterr().err.strip() == "pairlearn: interrupted"
    full = OSError(28, "No space left on device")
    assert run(click.Command("x", callback=lambda: callback(full)), []) == 143
    assert "interrupted; No space left on device; free space" in capsys.readouterr().err


def test_the_outer_block_knows_what_the_inner_received():
    with Stopping(always=True) as outer:
        with Stopping() as inner:
            signal.raise_signal(signal.SIGTERM)
        assert (inner.received, outer.received) == (signal.SIGTERM, signal.SIGTERM)


@pytest.mark.parametrize("number", SIGNALS)
def test_an_ignored_signal_stays_ignored(number):
    before = signal.signal(number, signal.SIG_IGN)
    try:
        with Stopping(always=True) as outer, Stopping(always=True) as inner:
            signal.raise_signal(number)
        assert (outer.received, inner.received) == (None, None)
        assert signal.getsignal(number) is signal.SIG_IGN
    finally:
        signal.signal(number, before)


def test_a_signal_after_the_block_is_not_sent_again():
    stopping._send_again(signal.SIGTERM)


@pytest.mark.parametrize("number", SIGNALS)
def test_a_fit_by_steps_that_is_stopped_writes_nothing(folder, monkeypatch, capsys, number):
    """The solver keeps the average so far and warns; the program writes no such model."""
    from pairlearn.solvers import running

    true_warn = running.warn_caller
    monkeypatch.setattr(running, "warn_caller", lambda *a: warned.append(a) or true_warn(*a))
    warned = []
    advanced = []

    class Clock:
        perf_counter = staticmethod(time.perf_counter)

        @staticmethod
        def process_time():
            advanced.append(1)
            if len(advanced) == 2:
                signal.raise_signal(number)
            return time.process_time()

    monkeypatch.setattr(running, "time", Clock)
    monkeypatch.chdir(folder)
    arguments = [*TRAIN, "--set", "solver=sgd", "--set", "solver.step_size=0.1"]
    assert run(program, arguments) == 128 + number
    assert warned
    assert capsys.readouterr().err == "pairlearn: interrupted; nothing was written\n"
    assert not os.path.exists("new")


@pytest.mark.parametrize("command", ["compare", "reproduce"])
@pytest.mark.parametrize("number", SIGNALS)
def test_a_comparison_says_how_to_go_on(tmp_path, monkeypatch, capsys, command, number):
    monkeypatch.chdir(tmp_path)

    def compare(*arguments, **options):
        signal.raise_signal(number)

    monkeypatch.setattr("pairlearn.experiments.compare", compare)
    monkeypatch.setattr("pairlearn.experiments.paper.targets.reproduce", compare)
    name = {"compare": "breast_cancer", "reproduce": "table1"}[command]
    assert run(program, [command, name, "--store", "s.sqlite", "--quiet"]) == 128 + number
    said = capsys.readouterr().err.strip()
    assert said == "pairlearn: stopped; the same command goes on from s.sqlite"


def test_warnings_are_one_line_and_name_no_file(capsys):
    def callback():
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.warn("a row is odd.", UserWarning, stacklevel=2)

    assert run(click.Command("x", callback=callback), []) == 0
    assert capsys.readouterr().err == "pairlearn: warning: a row is odd.\n"
