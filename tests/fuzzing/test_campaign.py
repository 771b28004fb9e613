# SPDX-License-Identifier: BSD-3-Clause
"""The fuzzer finds what is planted, says how to make it again, and goes on."""

from __future__ import annotations

import ctypes
import json
import time
from dataclasses import replace

import numpy as np
import pytest
from fuzzing.__main__ import TARGETS, main
from fuzzing.campaign import Budget, Tally, Target, input_of, run_batch, run_campaign
from fuzzing.growing import Growing
from fuzzing.kills import KINDS, run_kills

BUDGET = Budget(cpu_seconds=0.5, memory=1 << 28)


class Planted(Target):
    """Inputs are their own numbers; some of them do harm."""

    name = "planted"
    expected = (LookupError,)

    def make(self, rng):
        return rng.random()

    def use(self, given, folder):
        self.seen = getattr(self, "seen", -1) + 1
        harm = self.harms.get(self.begin + self.seen)
        if harm is not None:
            harm()


def planted(harms, begin):
    target = Planted()
    target.harms, target.begin = harms, begin
    return target


def crash():
    ctypes.string_at(0)


def spin():
    while True:
        pass


def sleep():
    time.sleep(600)


def eat():
    np.ones(1 << 27)


def fail():
    raise ZeroDivisionError("planted")


def refuse():
    raise LookupError("one line")


def chatter():
    raise LookupError("two\nlines")


@pytest.mark.parametrize(
    ("harm", "kind", "text"),
    [
        (crash, "crash", "SIGSEGV"),
        (spin, "hang", "processor time"),
        (sleep, "hang", "did nothing"),
        (eat, "memory", "over 268435456 B"),
        (fail, "error", "ZeroDivisionError: planted"),
        (chatter, "error", "not one line"),
    ],
)
def test_what_is_planted_is_found_and_the_rest_is_tried(harm, kind, text):
    tally = Tally()
    budget = replace(BUDGET, patience=3.0) if harm is sleep else BUDGET
    target = planted({5: harm, 7: refuse}, 3)
    # After a crash the next child starts behind it, and counts from there.
    run_batch(target, 11, 3, 6, tally, budget)
    target = planted({7: refuse}, 6)
    run_batch(target, 11, 6, 10, tally, budget)
    [finding] = tally.findings
    assert (finding.target, finding.seed, finding.index) == ("planted", 11, 5)
    assert finding.kind == kind
    assert text in finding.message
    assert "--only planted --seed 11 --index 5" in str(finding)
    assert (tally.n_used, tally.n_refused, tally.n_inputs) == (5, 1, 7)


@pytest.mark.thorough
def test_a_child_that_died_is_followed_by_another():
    class Deadly(Planted):
        def use(self, given, folder):
            if given < 0.2:
                crash()

    tally = Tally()
    run_batch(Deadly(), 1, 0, 30, tally, BUDGET)
    deadly = [k for k in range(30) if input_of(Deadly(), 1, k) < 0.2]
    assert len(deadly) > 2
    assert [finding.index for finding in tally.findings] == deadly
    assert tally.n_inputs == 30


@pytest.mark.parametrize("kind", TARGETS)
@pytest.mark.thorough
def test_a_short_run_of_each_format_finds_nothing(kind):
    [tally] = run_campaign([kind()], 60 * kind.weight, 20211112).values()
    assert not tally.findings, "\n".join(map(str, tally.findings))
    assert tally.n_inputs == 60 * kind.weight
    # Neither is everything refused nor nothing; inputs that grow are large, and sound.
    assert tally.n_used > 5
    assert tally.n_refused > 5 or not kind().expected or kind is Growing


@pytest.mark.parametrize("kind", TARGETS)
def test_an_input_is_made_again_from_seed_and_number(kind, tmp_path):
    one, two = kind(), kind()
    one.prepare(tmp_path)
    if vars(one):  # otherwise it only loads what it needs
        two.prepare(tmp_path)
    first = [input_of(one, 4, k) for k in range(20)]
    assert repr(first) == repr([input_of(two, 4, k) for k in range(20)])
    assert repr(first) != repr([input_of(one, 5, k) for k in range(20)])


@pytest.mark.thorough
def test_a_bug_in_a_parser_is_found(monkeypatch):
    from pairlearn.streams.readers import encode

    column_numbers = encode.column_numbers

    def broken(column, *arguments):
        if "1e999" in column.to_list():
            raise IndexError("planted")
        return column_numbers(column, *arguments)

    monkeypatch.setattr(encode, "column_numbers", broken)
    [csv] = [kind for kind in TARGETS if kind.name == "csv"]
    monkeypatch.setattr(csv, "prepare", lambda self, folder: None)
    [tally] = run_campaign([csv()], 300, 3).values()
    assert tally.findings
    assert all("IndexError: planted" in finding.message for finding in tally.findings)


def test_the_program_tells_and_writes_what_it_found(tmp_path, capsys):
    path = tmp_path / "figures.json"
    assert main(["--only", "npy", "--inputs", "30", "--seed", "2", "--json", str(path)]) == 0
    assert "| npy | 30 |" in capsys.readouterr().out
    assert json.loads(path.read_text())["targets"]["npy"]["n_inputs"] == 30
    assert main(["--only", "npy", "--seed", "2", "--index", "7"]) == 0
    assert "npy 7: " in capsys.readouterr().out


@pytest.mark.thorough
def test_killed_runs_end_with_the_same_model(tmp_path):
    found = run_kills(tmp_path, len(KINDS), 1)
    assert sum(counts["kills"] for counts in found.values()) >= len(KINDS)
    for counts in found.values():
        assert counts["finished"] >= 1
        wrong = {name: counts[name] for name in ("differences", "failures", "leftovers")}
        assert wrong == {"differences": 0, "failures": 0, "leftovers": 0}


@pytest.mark.slow
def test_two_hundred_kills(tmp_path):
    found = run_kills(tmp_path, 200, 2)
    assert all(counts["differences"] + counts["failures"] == 0 for counts in found.values())


@pytest.mark.thorough
def test_a_model_that_differs_after_a_kill_is_found(tmp_path, monkeypatch):
    """A learner that forgets its place in the data learns some of them twice."""
    from pairlearn.streams.readers.csv import CsvReader

    monkeypatch.setattr(CsvReader, "restore", lambda self, position: None)
    monkeypatch.setattr("fuzzing.kills.KINDS", {"train": KINDS["csv"]})
    found = run_kills(tmp_path, 3, 1)
    assert found["train"]["differences"] + found["train"]["failures"] >= 1


def test_kills_of_some_formats_are_refused(capsys):
    with pytest.raises(SystemExit):
        main(["--only", "npy", "--inputs", "0", "--kills", "3"])
    assert "--kills is about all formats" in capsys.readouterr().err
