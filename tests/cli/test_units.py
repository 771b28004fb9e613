# SPDX-License-Identifier: BSD-3-Clause
"""Units do not matter to the program either: whatever the units of the columns, the same AUC."""

import io
import json
import sys

import numpy as np
import pytest
from click.testing import CliRunner

from pairlearn import load_model, roc_auc
from pairlearn.cli.program import program

LAW, N = 0.002, 1600
TRAIN, TEST = slice(0, N // 2), slice(N // 2, N)


def sample():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 4)) * [1.0, 30.0, 0.01, 1.0]
    y = (X[:, 0] + X[:, 1] / 30.0 + rng.normal(size=N) > 0.3).astype(int)
    return X, y


def changed(X):
    return {
        "as they are": X,
        "times 1e-6": X * 1e-6,
        "times 1e6": X * 1e6,
        "each its own": X * 10.0 ** np.array([-6, 6, 3, 0]),
        "shifted": X + np.array([1e4, -1e5, 7.0, 0.0]),
        "with a constant": np.column_stack([X, np.full(N, 1e7)]),
    }


def auc_of(model, Z, y):
    """Return the test AUC of a model, which may have left out a column."""
    columns = [int(name[1:]) for name in model.feature_names_in_]
    return roc_auc(y[TEST], Z[TEST][:, columns] @ model.coef_[0])


def test_train_as_a_stream(tmp_path):
    X, y = sample()
    found = {}
    for name, Z in changed(X).items():
        table, model = tmp_path / f"{name}.csv", tmp_path / f"{name}.safetensors"
        header = ",".join([f"c{k}" for k in range(Z.shape[1])] + ["y"])
        rows = np.column_stack([Z, y])[TRAIN]
        np.savetxt(table, rows, delimiter=",", header=header, comments="", fmt="%.17g")
        arguments = ["train", str(table), "--label", "y", "--fit", "stream", "-o", str(model)]
        done = CliRunner().invoke(program, arguments)
        assert done.exit_code == 0, done.output
        found[name] = auc_of(load_model(model), Z, y)
    assert min(found.values()) > 0.8
    assert max(found.values()) - min(found.values()) < LAW, found


def test_stream(tmp_path, monkeypatch):
    X, y = sample()
    found = {}
    for name, Z in changed(X).items():
        lines = (
            json.dumps({"x": {f"c{k}": value for k, value in enumerate(row)}, "y": label})
            for row, label in zip(Z[TRAIN].tolist(), y[TRAIN].tolist(), strict=True)
        )
        text = "\n".join(lines).encode()
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
        path = tmp_path / f"{name}.safetensors"
        with pytest.raises(SystemExit) as ended:
            program(["stream", "-o", str(path)])
        assert not ended.value.code
        found[name] = auc_of(load_model(path), Z, y)
    assert min(found.values()) > 0.8
    assert max(found.values()) - min(found.values()) < LAW, found
