# SPDX-License-Identifier: BSD-3-Clause
"""The table of deep objectives, on bars that stand for digits."""

import importlib.util
import math
import sys
import types

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


@pytest.fixture
def digits(benchmark, rng, tmp_path, monkeypatch):
    """Return a file of bars; three epochs of batches of 32."""
    y = rng.integers(0, 10, size=400).astype(np.uint8)
    X = rng.integers(0, 60, size=(400, 28, 28)).astype(np.uint8)
    for image, digit in zip(X, y, strict=True):
        image[2 * digit : 2 * digit + 4, 5:20] += 120
    np.savez(tmp_path / "digits.npz", X=X, y=y)
    monkeypatch.setattr(benchmark, "N_TEST", 100)
    monkeypatch.setattr(benchmark, "EPOCHS", 3)
    monkeypatch.setattr(benchmark, "BATCH", 32)
    return str(tmp_path / "digits.npz")


def rows_of(told):
    rows = [line for line in told.splitlines() if line.startswith("|")][2:]
    return {row.split("|")[1].strip(): float(row.split("|")[2].split()[0]) for row in rows}


def test_all_objectives_are_trained_and_compared(benchmark, digits, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "libauc", None)
    arguments = ["--seeds", "2", "--share", "0.2", "--device", "cpu", "--epochs", "4"]
    assert benchmark.main([digits, *arguments]) == 0
    told = capsys.readouterr()
    assert "20% positives, 2 seeds, 4 epochs, cpu" in told.out
    assert "without LibAUC" in told.err
    found = rows_of(told.out)
    assert list(found) == [
        "cross-entropy",
        "cross-entropy, balanced",
        "all pairs",
        "previous example",
    ]
    assert all(0.5 < auc <= 1.0 for name, auc in found.items() if name != "cross-entropy")


def test_a_rival_that_is_installed_has_a_row(benchmark, digits, monkeypatch, capsys):
    class AUCMLoss(torch.nn.Module):
        def __init__(self, device=None):
            super().__init__()
            self.device = device

        def forward(self, scores, labels):
            assert bool(((scores > 0.0) & (scores < 1.0)).all())
            return torch.nn.functional.binary_cross_entropy(scores[:, 0], labels)

    divided, made = [], []

    class PESG(torch.optim.SGD):
        def __init__(self, parameters, *, loss_fn, mode, lr, momentum, **settings):
            self.steps = 0
            made.append((mode, lr))
            super().__init__(parameters, lr=lr, momentum=momentum)

        def step(self):
            self.steps += 1
            super().step()

        def update_regularizer(self, decay_factor):
            divided.append((self.steps, decay_factor))

    for name, member in (("losses", AUCMLoss), ("optimizers", PESG)):
        module = types.ModuleType(f"libauc.{name}")
        setattr(module, member.__name__, member)
        monkeypatch.setitem(sys.modules, f"libauc.{name}", module)
    monkeypatch.setitem(sys.modules, "libauc", types.ModuleType("libauc"))
    rival = "AUCM of LibAUC"
    benchmark.main(
        [digits, "--seeds", "1", "--share", "0.2", "--device", "cpu", "--digits", "200",
         "--only", rival]
    )  # fmt: skip
    assert list(rows_of(capsys.readouterr().out)) == ["cross-entropy, balanced", rival]
    assert made == [("sgd", 0.1)]
    # After one of three epochs, and after two: a half and three quarters, rounded down.
    (early, _), (late, factor) = divided
    assert (late, factor) == (2 * early, 10)
    with pytest.raises(SystemExit):
        benchmark.main([digits, "--only", "triplets"])
    assert "['triplets']: there are cross-entropy" in capsys.readouterr().err


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
