# SPDX-License-Identifier: BSD-3-Clause
"""``pairlearn train --feature-map``: from a table to a model with curves, and back."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

from pairlearn.cli.program import program

RNG = np.random.default_rng(0)


@pytest.fixture
def ring(tmp_path):
    X = RNG.normal(size=(600, 2))
    y = np.where((X**2).sum(axis=1) > 1.4, "yes", "no")
    lines = [f"{a:.4f},{b:.4f},{label}" for (a, b), label in zip(X, y, strict=True)]
    path = tmp_path / "ring.csv"
    path.write_text("a,b,y\n" + "\n".join(lines) + "\n")
    return path


def run(*arguments):
    return CliRunner().invoke(program, [str(one) for one in arguments])


@pytest.mark.thorough
def test_curves_from_the_command_line(ring, tmp_path):
    model = tmp_path / "m.safetensors"
    found = run("train", ring, "--label", "y", "--feature-map", "auto", "-o", model, "--json")
    assert found.exit_code == 0, found.output
    facts = json.loads(found.stdout)
    assert facts["auc"] > 0.95
    assert "held-out AUC" in facts["features"]
    assert {entry["column"] for entry in facts["importance"]} <= {"a", "b"}
    scored = run("evaluate", model, ring, "--json")
    assert json.loads(scored.stdout)["auc"] > 0.95
    plain = run("export", model, "--to", "json")
    assert json.loads(plain.stdout)["features"]["map"] in ("Hats", "RandomFourier")


def test_a_stream_of_mapped_rows(ring, tmp_path):
    model = tmp_path / "m.safetensors"
    found = run("train", ring, "--label", "y", "--feature-map", "hats", "--fit", "stream",
                "-o", model)  # fmt: skip
    assert found.exit_code == 0, found.output
    assert json.loads(run("evaluate", model, ring, "--json").stdout)["auc"] > 0.95


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--problem", "metric", "--feature-map", "auto"], "not for --problem metric"),
        (["--problem", "entropy", "--feature-map", "auto"], "linear, hats, fourier"),
        (["--problem", "ranking", "--feature-map", "hats", "--fit", "stream"], "--fit offline"),
    ],
)
def test_what_is_not_there_is_refused(ring, tmp_path, options, message):
    found = run("train", ring, "--label", "a", *options, "-o", tmp_path / "m")
    assert found.exit_code == 2
    assert message in found.output
