# SPDX-License-Identifier: BSD-3-Clause
"""Which device is meant; runs without torch."""

import sys

import numpy as np
import pytest

from pairlearn import Hinge, LinearScore, Problem
from pairlearn.gpu.device import DeviceError, DeviceWarning, find_device
from pairlearn.solvers.descent.sweep import Sweep


@pytest.fixture
def examples(rng):
    X = rng.normal(size=(30, 2))
    return X, np.where(X[:, 0] > 0, 1.0, -1.0)


def test_the_cpu_needs_nothing():
    assert find_device("cpu") is None


def test_an_unknown_device_is_refused():
    with pytest.raises(ValueError, match="one of cpu, cuda, auto, got 'mps'"):
        Sweep((1.0,), (1.0,), device="mps")


def test_without_torch_there_is_one_line_with_the_cure(monkeypatch, examples):
    monkeypatch.setitem(sys.modules, "torch", None)
    problem = Problem(LinearScore(), Hinge())
    with pytest.raises(
        DeviceError, match=r'torch is not installed: pip install "pairlearn\[torch\]"'
    ):
        Sweep((1.0,), (1.0,), device="cuda").solve(problem, *examples, n_steps=5, rng=0)
    with pytest.warns(DeviceWarning, match=r"torch is not installed.*Running on the CPU"):
        found = Sweep((1.0,), (1.0,), device="auto").solve(problem, *examples, n_steps=5, rng=0)
    usual = Sweep((1.0,), (1.0,)).solve(problem, *examples, n_steps=5, rng=0)
    assert np.array_equal(found.averages, usual.averages)


def test_without_triton_the_cure_is_triton(monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.setitem(sys.modules, "triton", None)
    with pytest.raises(DeviceError, match="triton is not installed: pip install triton"):
        find_device("cuda")


def test_without_cuda_it_is_refused_or_left_to_the_cpu(monkeypatch):
    torch = pytest.importorskip("torch")
    pytest.importorskip("triton")
    monkeypatch.delenv("TRITON_INTERPRET")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(DeviceError, match=r'needs a CUDA device.*or use device="cpu"'):
        find_device("cuda")
    with pytest.warns(DeviceWarning, match="Running on the CPU"):
        assert find_device("auto") is None
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert find_device("auto").type == "cuda"
