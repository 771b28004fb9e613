# SPDX-License-Identifier: BSD-3-Clause
"""``pairlearn train`` ends in order, whenever a signal comes: nothing is lost or written twice."""

from __future__ import annotations

import atexit
import math
import signal

import pytest

import pairlearn.models
from pairlearn.cli import main, running, stopping
from pairlearn.cli.program import program
from pairlearn.cli.running import run
from pairlearn.cli.stopping import Stopping
from pairlearn.cli.training import train
from pairlearn.streams import OnlineLearner

SIGNALS = [signal.SIGINT, signal.SIGTERM]
ARGUMENTS = [
    "train",
    "a.csv",
    "--label",
    "y",
    "--fit",
    "stream",
    "--set",
    "stream.n_passes=3",
    "--set",
    "stream.every=50",
]
N = 200


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = (f"{math.sin(k)},{math.cos(3 * k)},{int(math.sin(k + 0.4) > 0)}\n" for k in range(N))
    (tmp_path / "a.csv").write_text("a,b,y\n" + "".join(rows))
    return tmp_path


@pytest.fixture
def happens(monkeypatch):
    """Let signals come at places of a run, and count what is written."""
    counts = {"model": 0, "checkpoint removed": 0, "learned": 0}
    signals: dict[str, list[int]] = {}

    def wrap(owner, name, what, key):
        true_function = getattr(owner, name)

        def function(*arguments, **options):
            for number in signals.pop(f"before {what}", ()):
                signal.raise_signal(number)
            found = true_function(*arguments, **options)
            counts[key] += 1
            for number in signals.pop(f"after {what}", ()):
                signal.raise_signal(number)
            for number in signals.pop(f"after {what} {counts[key]}", ()):
                signal.raise_signal(number)
            return found

        monkeypatch.setattr(owner, name, function)

    wrap(pairlearn.models, "write_model", "the model", "model")
    wrap(train, "remove_checkpoint", "the checkpoint", "checkpoint removed")
    wrap(OnlineLearner, "_learn_part", "chunk", "learned")
    return counts, signals


def check(folder, happens, capsys, place, numbers, *, ends):
    """Train with signals at a place; what is left to do is done by the same command."""
    counts, signals = happens
    assert run(program, [*ARGUMENTS, "-o", "whole"]) == 0
    counts.update(dict.fromkeys(counts, 0))
    capsys.readouterr()
    signals[place] = numbers
    before = [signal.getsignal(number) for number in SIGNALS]
    status = run(program, [*ARGUMENTS, "-o", "m"])
    assert [signal.getsignal(number) for number in SIGNALS] == before
    assert not signals
    err = capsys.readouterr().err
    if ends:
        assert status == 128 + numbers[0]
        assert err.count("\n") == 1
        assert "the same command goes on from m.checkpoint" in err
        assert (counts["model"], counts["checkpoint removed"]) == (0, 0)
        assert not (folder / "m").exists()
        assert run(program, [*ARGUMENTS, "-o", "m"]) == 0
    else:
        assert (status, err) == (0, "")
    assert (counts["model"], counts["checkpoint removed"]) == (1, 1)
    assert (folder / "m").read_bytes() == (folder / "whole").read_bytes()
    assert sorted(path.name for path in folder.iterdir()) == ["a.csv", "m", "whole"]


@pytest.mark.parametrize("number", SIGNALS)
def test_two_signals_in_the_middle(folder, happens, capsys, number):
    check(folder, happens, capsys, "after chunk 2", [number, number], ends=True)


@pytest.mark.slow
@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("place", ["before chunk", "after chunk 1", "after chunk 3"])
def test_a_signal_while_it_learns(folder, happens, capsys, place, times, number):
    check(folder, happens, capsys, place, [number] * times, ends=True)


@pytest.mark.slow
@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize(
    "place",
    ["before the model", "after the model", "before the checkpoint", "after the checkpoint"],
)
def test_a_signal_at_the_end_waits(folder, happens, capsys, place, times, number):
    check(folder, happens, capsys, place, [number] * times, ends=False)


@pytest.mark.parametrize("number", SIGNALS)
def test_a_fit_in_memory_that_is_stopped_writes_nothing(folder, monkeypatch, capsys, number):
    true_offline = train._offline

    def offline(*arguments):
        signal.raise_signal(number)
        return true_offline(*arguments)

    monkeypatch.setattr(train, "_offline", offline)
    status = run(program, ["train", "a.csv", "--label", "y", "--fit", "offline", "-o", "m"])
    assert status == 128 + number
    assert capsys.readouterr().err == "pairlearn: interrupted; nothing was written\n"
    assert [path.name for path in folder.iterdir()] == ["a.csv"]


@pytest.mark.parametrize("number", SIGNALS)
def test_a_second_signal_does_not_disturb_the_end_by_the_first(folder, monkeypatch, capsys, number):
    def opened(*arguments):
        try:
            signal.raise_signal(number)
        finally:
            signal.raise_signal(number)

    def say(message, true_say=running._say):
        signal.raise_signal(number)
        true_say(message)

    monkeypatch.setattr(train, "open_training_data", opened)
    monkeypatch.setattr(running, "_say", say)
    assert run(program, [*ARGUMENTS, "-o", "m"]) == 128 + number
    assert capsys.readouterr().err.strip() == "pairlearn: interrupted"


def test_a_later_signal_ends_what_the_first_did_not(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(stopping.time, "monotonic", lambda: now[0])
    with Stopping(always=True) as stop:
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGINT)
        now[0] = 2.0
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert stop.status == 143


def test_a_program_that_leaves_is_not_disturbed(monkeypatch, capsys):
    before = [signal.getsignal(number) for number in SIGNALS]
    left = []
    monkeypatch.setattr(stopping.os, "_exit", left.append)
    monkeypatch.setattr("sys.argv", ["pairlearn", "--version"])
    try:
        with pytest.raises(SystemExit) as ended:
            main()
        assert ended.value.code == 0
        for number in SIGNALS:
            signal.raise_signal(number)
        stopping.leave_by(None)
        for number in SIGNALS:
            signal.raise_signal(number)
        stopping.ignore()
        for number in SIGNALS:
            signal.raise_signal(number)
    finally:
        atexit.unregister(stopping.ignore)
        for number, handler in zip(SIGNALS, before, strict=True):
            signal.signal(number, handler)
    assert left == [0, 0, 130, 143]
    assert capsys.readouterr().out.startswith("pairlearn ")
