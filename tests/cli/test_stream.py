# SPDX-License-Identifier: BSD-3-Clause
"""``pairlearn stream`` loses nothing, whatever line or signal comes."""

from __future__ import annotations

import io
import json
import math
import os
import signal
import subprocess
import sys

import numpy as np
import pytest

import pairlearn.streams.checkpoint as checkpoints
from pairlearn import AUCClassifier, roc_auc
from pairlearn.cli.program import program
from pairlearn.cli.running import run
from pairlearn.models import read_model

LINES = [
    json.dumps({"id": k, "x": {"a": math.sin(k), "b": 1.0}, "y": int(math.sin(k) > 0)})
    for k in range(100)
]


class Input:
    """Standard input with something that happens before certain lines are read."""

    def __init__(self, lines, events=()):
        self.buffer = self
        self._lines = io.BytesIO("\n".join([*lines, ""]).encode())
        self._events = dict(events)
        self.n_read = 0

    def readline(self, limit):
        for number in self._events.pop(self.n_read, ()):
            signal.raise_signal(number)
        self.n_read += 1
        return self._lines.readline(limit)


@pytest.fixture
def stream(monkeypatch, capsysbinary, tmp_path):
    monkeypatch.chdir(tmp_path)

    def call(lines, *arguments, events=()):
        monkeypatch.setattr(sys, "stdin", Input(lines, events))
        status = run(program, ["stream", *arguments])
        out, err = capsysbinary.readouterr()

        def refuse(text):
            raise AssertionError(f"{text} is not JSON")

        answers = [json.loads(x, parse_constant=refuse) for x in out.decode().splitlines()]
        return status, answers, err.decode()

    return call


@pytest.fixture
def written(monkeypatch):
    """Count the files that are written, and let a signal come while they are."""
    counts = {"checkpoint": 0, "model": 0, "signals": ()}
    write, save = checkpoints.write_checkpoint, AUCClassifier.save

    def write_checkpoint(*arguments):
        if arguments[0] == os.devnull:  # the rehearsal
            return write(*arguments)
        counts["checkpoint"] += 1
        for number in counts["signals"]:
            signal.raise_signal(number)
        return write(*arguments)

    def save_model(*arguments, **options):
        if arguments[1] == os.devnull:
            return save(*arguments, **options)
        for number in counts["signals"]:
            signal.raise_signal(number)
        counts["model"] += 1
        return save(*arguments, **options)

    monkeypatch.setattr(checkpoints, "write_checkpoint", write_checkpoint)
    monkeypatch.setattr(AUCClassifier, "save", save_model)
    return counts


@pytest.mark.parametrize("shift", [0.0, 1e4])
@pytest.mark.parametrize("option", [(), ("--set", "solver.step_size=0.1")], ids=["", "descent"])
def test_written_scores_are_those_that_the_auc_counts(stream, rng, shift, option):
    X = rng.normal(size=(2000, 2))
    y = X @ [1.0, -1.0] + rng.normal(size=2000) > 0.5
    rows = zip((X + shift).tolist(), y.tolist(), strict=True)
    lines = [json.dumps({"x": {"a": a, "b": b}, "y": int(label)}) for (a, b), label in rows]
    _, answers, err = stream(lines, "--json", *option)
    scores = [one["score"] for one in answers]
    assert json.loads(err.splitlines()[-1])["auc"] == pytest.approx(roc_auc(y, scores), abs=1e-9)
    assert roc_auc(y, scores) > 0.8
    late = slice(1000, None)
    assert np.mean((np.array(scores)[late] > 0.0) == y[late]) > 0.7


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("place", [40, 100, "end"])
def test_a_signal_ends_it_in_order(stream, written, number, times, place):
    events = {}
    if place == "end":
        written["signals"] = [number] * times
    else:
        events = {place: [number] * times}
        written["signals"] = [number] * (times - 1)
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    status, answers, err = stream(LINES, "--checkpoint", "c", "-o", "m", "--json", events=events)
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before
    expected = 100 if place == "end" else place
    assert status == (0 if place == "end" else 128 + number)
    assert (written["checkpoint"], written["model"]) == (1, 1)
    facts = json.loads(err)
    assert facts["lines"] == facts["learned"] == len(answers) == expected
    found = checkpoints.read_checkpoint("c").state
    assert found["lines"] == found["auc"]["n_seen"] == expected
    assert found["learner"]["n_taken"] + len(found["learner"]["labels"]) == expected
    assert read_model("m").provenance["rows_seen"] == expected


def test_a_signal_before_anything(stream, written):
    status, _, err = stream(LINES, "--checkpoint", "c", "-o", "m", events={0: [signal.SIGTERM]})
    assert status == 143
    assert "0 examples learned" in err
    assert (written["checkpoint"], written["model"]) == (0, 0)


def test_interrupted_and_resumed_is_the_same_model(stream, tmp_path):
    stream(LINES, "-o", "whole")
    stream(LINES, "--checkpoint", "c", events={37: [signal.SIGINT]})
    assert run(program, ["stream", "--checkpoint", "c", "--resume"]) == 0
    status, _, err = stream(LINES[37:], "--checkpoint", "c", "-o", "halves")
    assert status == 0
    assert "going on from c: 37 lines consumed, 37 examples learned" in err
    assert (tmp_path / "halves").read_bytes() == (tmp_path / "whole").read_bytes()
    made = {name for name in os.listdir(tmp_path) if not name.endswith(".lock")}
    assert made == {"c", "c.previous", "halves", "whole"}


def test_a_checkpoint_of_another_window_is_refused(stream):
    stream(LINES, "--checkpoint", "c", "--window", "50")
    status, _, err = stream(LINES, "--checkpoint", "c")
    assert status != 0
    assert "made with --window 50, this run has 10000" in err


def test_resume_prints_the_place(stream, capsysbinary):
    def place(*more):
        status = run(program, ["stream", "--resume", *more])
        return status, capsysbinary.readouterr().out.decode().strip()

    assert place("--checkpoint", "c") == (0, "0")
    stream([*LINES[:5], "no json", "", *LINES[5:9]], "--checkpoint", "c")
    assert place("--checkpoint", "c") == (0, "11")
    status, out = place("--checkpoint", "c", "--json")
    assert (status, json.loads(out)) == (0, {"checkpoint": "c", "lines": 11})
    assert place()[0] == 2


HOSTILE = {
    "beyond squares": '{"id": 1, "x": {"a": 1e155}, "y": 1}',
    "beyond powers": '{"id": 1, "x": {"a": 1e200}, "y": 1}',
    "a long integer": '{"id": 1, "x": {"a": %s}}' % ("9" * 400),
    "a longer integer": '{"id": 1, "x": {"a": %s}}' % ("9" * 5000),
    "infinite": '{"id": 1, "x": {"a": 1e999}, "y": 1}',
    "an infinite id": '{"id": 1e999, "x": {"a": 1}, "y": 1}',
    "an id that is no number": '{"id": NaN, "x": {"a": 1}}',
    "an id that is true": '{"id": true, "x": {"a": 1}}',
    "half an id": r'{"id": "\ud800", "x": {"a": 1}}',
    "half a name": r'{"id": 1, "x": {"\udfff": 1}, "y": 1}',
    "half a label": r'{"id": 1, "x": {"a": 1}, "y": "\ud800"}',
    "half an entry": r'{"\ud800": 1, "x": {"a": 1}}',
    "deep": "[" * 100_000,
    "long": '{"id": "%s", "x": {"a": 1}}' % ("x" * (1 << 20)),
    "a list as a label": '{"x": {"a": 1}, "y": []}',
    "zero bytes": "\0\0\0",
    "not UTF-8 in place of a name": "\udcff".encode("utf-8", "surrogateescape").decode("latin-1"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_no_line_ends_it(stream, name):
    lines = [*LINES[:50], HOSTILE[name], *LINES[50:]]
    status, answers, err = stream(lines, "--checkpoint", "c", "-o", "m", "--json")
    assert status == 0, err
    assert [answer["id"] for answer in answers] == list(range(100))
    first, last = err.splitlines()
    assert first.startswith("pairlearn: line 51 refused: ")
    assert len(first) < 300
    facts = json.loads(last)
    assert (facts["lines"], facts["learned"], facts["refused"]) == (101, 100, 1)


def test_an_id_that_comes_again_replaces_the_example_that_waits(stream):
    waiting = [json.dumps({"id": k, "x": {"a": 1.0}}) for k in (1, 2, 1, 3)]
    labels = [json.dumps({"id": k, "y": 1}) for k in (1, 3, 2)]
    _, answers, err = stream([*waiting, *labels], "--pending", "2", "--json")
    told = err.splitlines()
    facts = json.loads(told[-1])
    assert [answer["id"] for answer in answers] == [1, 2, 1, 3]
    # The first example of id 1 was replaced; that of id 2 had then waited longest.
    assert "the id '2' is not waiting" in told[0]
    assert (facts["forgotten"], facts["learned"], facts["waiting"]) == (2, 2, 0)


def test_a_model_that_diverges_does_not_end_it(stream):
    arguments = (
        "--loss",
        "square",
        "--set",
        "solver.step_size=1e80",
        "--checkpoint",
        "c",
        "--json",
    )
    status, answers, err = stream(LINES, *arguments)
    assert status == 0
    assert len(answers) == 100
    assert err.count("warning") == 5
    facts = json.loads(err.splitlines()[-1])
    assert facts["learned"] + facts["not_learned"] == 100
    assert facts["not_learned"] > 30


def test_answers_are_utf8_whatever_the_terminal(stream, monkeypatch):
    _, answers, _ = stream(['{"id": "ø", "x": {"å": 1}, "y": 1}'])
    assert answers[0]["id"] == "ø"


def test_who_reads_the_answers_may_leave(stream, written, monkeypatch):
    class Gone:
        buffer = property(lambda self: self)
        n = 0

        def write(self, text):
            self.n += 1
            if self.n > 10:
                raise BrokenPipeError

        def flush(self):
            pass

        def fileno(self):
            return os.open(os.devnull, os.O_WRONLY)

    monkeypatch.setattr(sys, "stdout", Gone())
    status, _, _ = stream(LINES, "--checkpoint", "c", "-o", "m")
    assert status == 1
    assert (written["checkpoint"], written["model"]) == (1, 1)
    assert checkpoints.read_checkpoint("c").state["lines"] == 11


@pytest.mark.thorough
def test_the_second_process_is_told_that_the_checkpoint_is_in_use(tmp_path):
    """Two signals to a process that waits for a line, and a second process meanwhile."""
    command = [sys.executable, "-m", "pairlearn", "stream", "--checkpoint", "c"]
    first = subprocess.Popen([*command, "-o", "m"], cwd=tmp_path, stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE)  # fmt: skip
    try:
        first.stdin.write("\n".join([*LINES, ""]).encode())
        first.stdin.flush()
        for _ in LINES:
            first.stdout.readline()
        second = subprocess.run(command, cwd=tmp_path, input=b"", capture_output=True, check=False)
        assert second.returncode == 1
        assert second.stderr.decode() == (
            "pairlearn: error: the checkpoint c is in use by another process or thread; wait until "
            "it ends, or give this run a checkpoint of its own.\n"
        )
        first.send_signal(signal.SIGTERM)
        first.send_signal(signal.SIGTERM)
        _, err = first.communicate(timeout=60)
    finally:
        first.kill()
        first.wait()
    assert first.returncode == 143
    assert b"100 examples learned" in err
    made = {name for name in os.listdir(tmp_path) if not name.endswith(".lock")}
    assert made == {"c", "m"}
