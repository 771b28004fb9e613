# SPDX-License-Identifier: BSD-3-Clause
"""`pairlearn bounds`: what it prints agrees with the theory functions, and with itself."""

import json

import numpy as np
import pytest

from pairlearn.cli.program import program
from pairlearn.cli.running import run
from pairlearn.theory import advise, hinge_problem, measure_stability, stability_nonsmooth


def printed(capsys, *arguments):
    assert run(program, ["bounds", *arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_stability_is_that_of_the_library(capsys):
    found = printed(
        capsys, "stability", "--n", "60", "--steps", "300", "--runs", "4", "--seed", "3"
    )
    problem = hinge_problem(2)
    same = measure_stability(problem, 60, n_steps=300, step_size=0.01, n_runs=4, rng=3)
    np.testing.assert_array_equal(found["columns"]["mean"], same.mean)
    assert found["columns"]["steps"][-1] == 300
    assert found["columns"]["bound"][-1] == pytest.approx(
        stability_nonsmooth(60, 300, lipschitz=problem.constants.lipschitz, step_size=0.01)
    )
    assert found["theorem"] == "Theorem 4"
    assert found["runs_above_the_bound_of_their_path"] == 0


def test_a_smooth_loss_has_theorem_5(capsys):
    found = printed(capsys, "stability", "--loss", "square", "--n", "50", "--steps", "100")
    assert found["theorem"] == "Theorem 5"
    assert found["runs_above_the_bound_of_their_path"] == 0
    # cp times the sum of eta_j Omega_j is about linear in the number of steps
    assert found["slopes"]["bound"] == pytest.approx(1.0, abs=0.35)


def test_excess_is_below_the_bound_and_falls(capsys):
    found = printed(capsys, "excess", "--loss", "logistic", "--sizes", "50,200,800", "--runs", "5")
    columns = found["columns"]
    assert found["sizes_above_the_bound"] == 0
    assert columns["examples"] == [50, 200, 800]
    assert found["slopes"]["bound"] == pytest.approx(-0.5, abs=0.02)
    assert np.all(np.diff(columns["mean"]) < 0)


def test_the_table_for_a_person(capsys):
    assert run(program, ["bounds", "excess", "--sizes", "50,100", "--runs", "2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split()[:2] == ["examples", "mean"]
    assert [line.split()[0] for line in lines[2:5]] == ["50", "100", "slope"]
    assert lines[-1].startswith("sizes whose mean is above the bound: 0")


def test_advice_is_that_of_the_library(capsys):
    found = printed(
        capsys, "advise", "--n", "1000", "--norm-bound", "1", "--radius", "2", "--setting", "online"
    )
    same = advise(1000, lipschitz=2.0, diameter=4.0, distance=2.0, setting="online")
    assert found["step_size"] == pytest.approx(same.step_size)
    assert found["bound"] == pytest.approx(same.bound)
    assert run(program, ["bounds", "advise", "--n", "9", "--norm-bound", "1", "--radius", "1"]) == 0
    assert "Theorem 1" in capsys.readouterr().out


@pytest.mark.parametrize("kind", ["png", "svg"])
@pytest.mark.parametrize("which", [["stability", "--steps", "50"], ["excess", "--sizes", "20,40"]])
@pytest.mark.thorough
def test_pictures(tmp_path, capsys, kind, which):
    path = tmp_path / f"picture.{kind}"
    assert run(program, ["bounds", *which, "--runs", "2", "--plot", str(path)]) == 0
    start = {"png": b"\x89PNG", "svg": b"<?xml"}[kind]
    assert path.read_bytes().startswith(start)
    assert str(path) in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["excess", "--sizes", "100,50"], "increasing"),
        (["excess", "--sizes", "ten"], "increasing"),
        (["stability", "--plot", "picture.xyz"], "must end in one of"),
        (["stability", "--loss", "exponential"], "exponential"),
    ],
)
def test_wrong_usage(capsys, arguments, message):
    assert run(program, ["bounds", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_a_step_size_must_be_positive(capsys):
    assert run(program, ["bounds", "stability", "--step-size", "-1"]) == 1
    assert "--step-size must be a positive number, got -1.0" in capsys.readouterr().err
