# SPDX-License-Identifier: BSD-3-Clause
"""The table of deep objectives, on bars that stand for digits."""

import importlib.util
import math

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs the extra torch: make test-torch")


@pytest.fixture(scope="module")
def benchmark(root):
    path = root / "benchmarks" / "deep_objectives.py"
    spec = importlib.util.spec_from_file_location("deep_objectives", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_all_objectives_are_trained_and_compared(benchmark, rng, tmp_path, monkeypatch, capsys):
    y = rng.integers(0, 10, size=400).astype(np.uint8)
    X = rng.integers(0, 60, size=(400, 28, 28)).astype(np.uint8)
    for image, digit in zip(X, y, strict=True):
        image[2 * digit : 2 * digit + 4, 5:20] += 120
    np.savez(tmp_path / "digits.npz", X=X, y=y)
    monkeypatch.setattr(benchmark, "N_TEST", 100)
    monkeypatch.setattr(benchmark, "EPOCHS", 3)
    monkeypatch.setattr(benchmark, "BATCH", 32)
    arguments = ["--seeds", "2", "--share", "0.2", "--device", "cpu"]
    assert benchmark.main([str(tmp_path / "digits.npz"), *arguments]) == 0
    told = capsys.readouterr().out
    assert "20% positives, 2 seeds, cpu" in told
    rows = [line for line in told.splitlines() if line.startswith("|")][2:]
    assert [row.split("|")[1].strip() for row in rows] == [
        "cross-entropy",
        "cross-entropy, balanced",
        "all pairs",
        "all pairs and a memory of 256",
        "previous example",
    ]
    assert all(0.5 < float(row.split("|")[2].split()[0]) <= 1.0 for row in rows[1:])


def test_auc_by_ranks_and_intervals(benchmark):
    class Identity(torch.nn.Module):
        def forward(self, x):
            return x

    scores = torch.tensor([[0.0], [1.0], [1.0], [2.0]])
    positive = torch.tensor([False, True, False, True])
    assert benchmark.test_auc(torch, Identity(), scores, positive) == pytest.approx(3.5 / 4)
    # Student's t with 4 degrees of freedom.
    values = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
    half = 2.776 * math.sqrt(2.5) / math.sqrt(5)
    assert benchmark.interval(values) == f"3.0000 ± {half:.4f}"
