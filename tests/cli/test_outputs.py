# SPDX-License-Identifier: BSD-3-Clause
"""Where results go: permissions, links, pipes, and cells that a spreadsheet would run."""

from __future__ import annotations

import os
import stat

import numpy as np
import pytest

from pairlearn import SGD, AUCClassifier
from pairlearn.cli.program import program
from pairlearn.cli.running import run


@pytest.fixture
def model(tmp_path, rng):
    X = rng.normal(size=(60, 2))
    labels = np.array(["=2+2", "-1"])[(X[:, 0] > 0).astype(int)]
    AUCClassifier(solver=SGD(step_size=0.1), random_state=0).fit(X, labels).save(tmp_path / "m")
    np.savetxt(tmp_path / "new.csv", X, delimiter=",", header="a,b", comments="")
    return tmp_path


def call(*arguments):
    assert run(program, [str(argument) for argument in arguments]) == 0


def test_cells_are_defused(model, capsys):
    def labels(*more):
        call("predict", model / "m", model / "new.csv", *more)
        lines = capsys.readouterr().out.splitlines()
        return {line.split(",")[-1] for line in lines[1:]}, lines

    found, lines = labels()
    assert found == {"'=2+2", "-1"}
    assert any(line.split(",")[1].startswith("-") for line in lines)  # numbers stay numbers
    assert labels("--raw")[0] == {"=2+2", "-1"}
    assert '"label": "=2+2"' in "".join(labels("--json")[1])


def test_predict_respects_the_umask(model):
    before = os.umask(0o022)
    try:
        call("predict", model / "m", model / "new.csv", "-o", model / "out.csv")
    finally:
        os.umask(before)
    assert (model / "out.csv").stat().st_mode & 0o777 == 0o644
    assert sorted(p.name for p in model.iterdir()) == ["m", "new.csv", "out.csv"]


def test_predict_writes_through_links_and_into_pipes(model, capsys):
    (model / "link").symlink_to(model / "there")
    call("predict", model / "m", model / "new.csv", "-o", model / "link")
    assert (model / "link").is_symlink()
    call("predict", model / "m", model / "new.csv")
    assert (model / "there").read_text() == capsys.readouterr().out
    os.mkfifo(model / "pipe")
    reader = os.open(model / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    call("predict", model / "m", model / "new.csv", "-o", model / "pipe")
    assert os.read(reader, 1 << 16).decode() == (model / "there").read_text()
    os.close(reader)
    assert stat.S_ISFIFO((model / "pipe").stat().st_mode)


def test_a_model_into_nothing(model, rng):
    """Training for the numbers alone: the device stays, and nothing is put beside it."""
    X = rng.normal(size=(60, 2))
    table = np.column_stack([X, X[:, 0] > 0])
    np.savetxt(model / "t.csv", table, delimiter=",", header="a,b,y", comments="")
    (model / "null").symlink_to(os.devnull)
    call("train", model / "t.csv", "--label", "y", "-o", model / "null")
    assert stat.S_ISCHR(os.stat(model / "null").st_mode)
    assert sorted(p.name for p in model.iterdir()) == ["m", "new.csv", "null", "t.csv"]
