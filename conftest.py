# SPDX-License-Identifier: BSD-3-Clause
"""What is collected: code and pages that need the extra torch only where it is installed."""

import importlib.util

#: Files that import torch, or Triton for kernels of a graphics processor.
_TORCH = ["src/pairlearn/torch/*", "docs/guide/torch.md"]
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
