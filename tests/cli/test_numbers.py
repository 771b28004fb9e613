# SPDX-License-Identifier: BSD-3-Clause
"""Numbers in options, settings and config files: one line with the value, the rule and the cure."""

from __future__ import annotations

import signal

import pytest

from pairlearn.cli.program import program
from pairlearn.cli.running import run
from pairlearn.cli.stopping import SIGNALS, Stopping
from pairlearn.solvers.interrupts import deferred_interrupt
from pairlearn.solvers.two_classes import n_steps_of

ODD = ["1e400", "nan", "", "1_000", "\u0661\u0662", "x", "--", "1e", "0x10", "1,5"]


@pytest.fixture
def refused(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "d.csv").write_text("a,b,y\n" + "1,2,0\n3,1,1\n2,2,1\n5,1,0\n" * 10)

    def refused(*arguments, statuses=(2,)):
        assert run(program, [str(argument) for argument in arguments]) in statuses
        err = capsys.readouterr().err
        assert err.count("\n") == 1
        assert "internal error" not in err
        return err

    return refused


@pytest.mark.parametrize("text", [*ODD, "1.5", "1e20", "99999999999999999999", "9" * 5000])
def test_whole_numbers(refused, text):
    for option in ("seed=", "top="):
        command = {"seed=": ["train", "d.csv"], "top=": ["inspect", "m"]}[option]
        err = refused(*command, f"--{option}{text}")
        assert f"Invalid value for '--{option[:-1]}'" in err
        assert "is not a whole number; write digits" in err or "is too large; choose" in err


@pytest.mark.parametrize("text", ODD)
def test_numbers(refused, text):
    err = refused("privacy", "plan", "--examples", 9, "--features", 2, f"--epsilon={text}")
    assert "is not a number; write digits" in err or "is larger than any number" in err


@pytest.mark.parametrize(
    "arguments",
    [
        ["evaluate", "m", "d.csv", "--report", "p", "--costs", "inf", "1"],
        ["stream", "--alarm", "inf"],
        ["rate", "v.csv", "--prior", "Infinity"],
        ["train", "d.csv", "--private", "--epsilon", "inf"],
        ["privacy", "plan", "--epsilon", "+inf"],
    ],
)
def test_no_number_is_infinite(refused, arguments):
    """Some were refused later, under the name of another option."""
    assert "is not a finite number" in refused(*arguments)


def test_numbers_that_are_right(capsys):
    for text in ("1", "+1", ".5", "1.", "1e0", "1E-3"):
        run(program, ["privacy", "plan", "--examples", "99", "--features", "2", "--epsilon", text])
        assert "Invalid value" not in capsys.readouterr().err


@pytest.mark.parametrize("text", ["1e400", "1.5", "nan", "inf", "true", '"1_000"'])
def test_numbers_in_a_config_file(refused, tmp_path, text):
    (tmp_path / "c.toml").write_text(f'label = "y"\nseed = {text}\n')
    err = refused("train", "d.csv", "--config", "c.toml")
    assert "seed" in err
    assert "whole number" in err or "a text or a number" in err


@pytest.mark.parametrize("text", ["1_000", "\u0661\u0662"])
def test_numbers_in_settings(refused, text):
    train = ["train", "d.csv", "--label", "y", "-o", "m"]
    assert f"got '{text}'" in refused(*train, "--set", f"solver.step_size={text}")
    assert f"got '{text}'" in refused(*train, "--fit", "stream", "--set", f"stream.n_passes={text}")


def test_passes_that_no_machine_runs(refused):
    train = ["train", "d.csv", "--label", "y", "-o", "m"]
    err = refused(*train, "--set", "solver=sgd", "--set", "solver.n_passes=1e20", statuses=(1, 2))
    assert "1e+20 makes 4e+21 steps, which take years; choose at most 2.5e+13" in err
    err = refused(*train, "--fit", "stream", "--set", "stream.n_passes=99999999999999999999")
    assert "n_passes must be at most 1e+09" in err
    assert n_steps_of(0.5, 3) == 2


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_takes_effect_between_two_blocks(number):
    """A long descent asks between its blocks, and the handler must not hand the signal back."""
    with Stopping(always=True) as stop, deferred_interrupt() as deliver:
        signal.raise_signal(number)
        with pytest.raises(KeyboardInterrupt):
            deliver()
    assert stop.received == number
