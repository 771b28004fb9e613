# SPDX-License-Identifier: BSD-3-Clause
"""The table on the device has the cells that the CPU computes."""

import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks.table1_on_device import __main__ as program
from pairlearn.data import load
from pairlearn.experiments.comparison.runner import PAPER, compare
from pairlearn.experiments.methods.pairwise import RecipeMethod
from pairlearn.experiments.methods.table import TABLE
from pairlearn.experiments.paper.outcome import Settings


def few(**grid):
    given = {"n_passes": 0.5, "step_sizes": (0.1, 10.0), **grid}
    ball = {**given, "radii": (0.1, 10.0), "tuning": "sweep"}
    return [
        RecipeMethod(name="ours", recipe="previous_example", **ball),
        RecipeMethod(name="sgd-pair", recipe="sgd_pair", **ball),
        RecipeMethod(name="spauc", recipe="spauc", records=False, **given),
    ]


def small(n):
    data = load("breast_cancer")
    rows = np.random.default_rng(0).choice(data.n, n, replace=False)
    X = np.ascontiguousarray(data.X[rows][:, :4])
    return replace(data, X=X, y=data.y[rows], sha256="a" * 64, feature_names=())


@pytest.mark.filterwarnings("ignore:.*encountered in:RuntimeWarning")
def test_cells_are_those_of_the_cpu(tmp_path):
    torch = pytest.importorskip("torch")
    pytest.importorskip("triton")
    from benchmarks.table1_on_device.fits import compare_on_device, runs_on_device

    data, methods = small(32), few()
    assert all(runs_on_device(method) for method in methods)
    found, times = compare_on_device([data], methods, device=torch.device("cpu"), n_splits=1)
    expected = compare([data], methods, store=tmp_path / "cells.sqlite", n_splits=1)
    assert not expected.failures
    for a, b in zip(found.results, expected.results, strict=True):
        assert (a.dataset, a.split, a.method, a.params) == (b.dataset, b.split, b.method, b.params)
        assert (a.n_train, a.n_test) == (b.n_train, b.n_test)
        assert a.auc == pytest.approx(b.auc, abs=1e-12)
    assert [time.method for time in times] == ["ours", "sgd-pair", "spauc"]


def test_which_methods_run_there():
    pytest.importorskip("triton")
    from benchmarks.table1_on_device.fits import compare_on_device, runs_on_device

    assert [name for name in TABLE if runs_on_device(TABLE[name])] == ["ours", "sgd-pair", "spauc"]
    with pytest.raises(ValueError, match="use the protocol honest"):
        compare_on_device([small(30)], few(), device=None, n_splits=1, protocol=PAPER)


@pytest.mark.filterwarnings("ignore:.*encountered in:RuntimeWarning")
def test_the_table_stands_beside_the_papers_and_says_what_was_left_out(monkeypatch, tmp_path):
    torch = pytest.importorskip("torch")
    pytest.importorskip("triton")
    for method in few(n_passes=0.2):
        monkeypatch.setitem(TABLE, method.name, method)
    settings = Settings(store=tmp_path / "cells.sqlite", n_splits=2)
    shelf = SimpleNamespace(take=lambda names: [replace(small(32), name="diabetes")])
    found = program.device_table("table1", settings, shelf, torch.device("cpu"))
    assert "0.831" in found
    assert "one pair a step: olp, oam." in found
    assert "tuning s" in found
    assert not (tmp_path / "cells.sqlite").exists()


def test_the_program_refuses_buffers_on_a_device(capsys):
    pytest.importorskip("triton")
    assert program.main(["table1", "--methods", "olp", "--data", "breast_cancer"]) == 1
    assert "olp cannot run on a device" in capsys.readouterr().err


def test_the_program_says_what_is_missing(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "torch", None)
    assert program.main([]) == 1
    assert "torch is not installed: pip install torch" in capsys.readouterr().err
    monkeypatch.undo()
    torch = pytest.importorskip("torch")
    pytest.importorskip("triton")
    monkeypatch.delenv("TRITON_INTERPRET")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert program.main([]) == 1
    assert "use `pairlearn reproduce table1`" in capsys.readouterr().err
