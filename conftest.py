# SPDX-License-Identifier: BSD-3-Clause
"""What is collected: code that needs the extra torch only where that is. No figure stays open."""

import importlib.util
import sys

import pytest

#: Files that import torch, or Triton for kernels of a graphics processor.
_TORCH = ["src/pairlearn/torch/*"]
_TRITON = [
    "src/pairlearn/gpu/[!_d]*",
    "src/pairlearn/gpu/draws.py",
    "src/pairlearn/solvers/sweep_gpu.py",
    "src/pairlearn/experiments/paper/on_device.py",
]

collect_ignore_glob = [
    *([] if importlib.util.find_spec("torch") else _TORCH),
    *([] if importlib.util.find_spec("triton") else _TRITON),
]


@pytest.fixture(autouse=True)
def no_open_figures():
    """Close what a test or a page has drawn: matplotlib keeps it, and warns when there is much."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")
