# SPDX-License-Identifier: BSD-3-Clause
"""`pairlearn bounds`: what it prints agrees with the theory functions, and with itself."""

import json
from dataclasses import replace

import numpy as np
import pytest

from pairlearn.cli.program import program
from pairlearn.cli.running import run
from pairlearn.theory import (
    ExcessMeasurement,
    StabilityMeasurement,
    advise,
    hinge_problem,
    measure_stability,
    stability_nonsmooth,
)


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
    assert lines[5].startswith("sizes whose mean is above the bound: 0")
    assert lines[6].startswith("bound is vacuous everywhere: at least 0.25, the excess risk of w")
    told = {line.split("  ")[0] for line in lines[9:]}
    assert told == {"examples", "mean", "largest", "bound", "paper bound", "slope"}
    assert all(line.endswith(".") for line in lines[9:])


def test_a_vacuous_bound_is_called_so(capsys):
    found = printed(capsys, "stability", "--runs", "2", "--averaging", "last")
    columns, diameter = found["columns"], 2.0
    assert found["trivial"] == diameter
    for name in ("bound", "paper_bound"):
        above = [t for t, b in zip(columns["steps"], columns[name], strict=True) if b >= diameter]
        assert found["vacuous"][name] == above
    assert set(found["meaning"]) == {*columns, "slope"}
    small = ["--n", "100", "--norm-bound", "1", "--radius", "5"]
    found = printed(capsys, "advise", *small)
    assert found["vacuous"]
    assert found["trivial"] == 0.5
    assert run(program, ["bounds", "advise", *small]) == 0
    assert "take more examples or a smaller ball" in capsys.readouterr().out
    assert not printed(capsys, "advise", "--n", "100000", *small[2:])["vacuous"]
    assert printed(capsys, "advise", *small, "--loss", "logistic")["trivial"] == pytest.approx(
        np.log(2) / 2
    )


def test_rounding_is_not_a_violation():
    steps = np.array([3, 5])
    found = StabilityMeasurement(
        steps=steps, distances=np.array([[1.7e-18, 0.1], [0.0, 0.1 + 1e-16]]),
        realized=np.array([[0.0, 0.1], [0.0, 0.1]]), expected=np.ones(2), paper=np.ones(2),
    )  # fmt: skip
    assert found.n_runs_above == 0
    assert replace(found, distances=np.array([[1e-9, 0.1], [0.0, 0.1]])).n_runs_above == 1
    excess = ExcessMeasurement(
        sizes=steps, excess=np.array([[1e-17, 0.3]]), bounds=np.array([0.0, 0.2]), paper=np.ones(2)
    )
    assert excess.n_sizes_above == 1


def test_advice_is_that_of_the_library(capsys):
    found = printed(
        capsys, "advise", "--n", "1000", "--norm-bound", "1", "--radius", "2", "--setting", "online"
    )
    same = advise(1000, lipschitz=2.0, diameter=4.0, distance=2.0, setting="online")
    assert found["step_size"] == pytest.approx(same.step_size)
    assert found["bound"] == pytest.approx(same.bound)
    assert run(program, ["bounds", "advise", "--n", "9", "--norm-bound", "1", "--radius", "1"]) == 0
    assert "Theorem 1" in capsys.readouterr().out


@pytest.mark.parametrize("option", ["--norm-bound", "--radius"])
@pytest.mark.parametrize("value", ["-1", "0", "inf"])
def test_advice_names_the_option_that_is_wrong(capsys, option, value):
    good = ["--n", "9", "--norm-bound", "1", "--radius", "1"]
    assert run(program, ["bounds", "advise", *good, option, value]) == 2
    assert f"Invalid value for '{option}'" in capsys.readouterr().err


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
