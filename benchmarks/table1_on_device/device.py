# SPDX-License-Identifier: BSD-3-Clause
"""Find the device to train on, and say what is missing."""

from __future__ import annotations

import os
from typing import Any


class DeviceError(RuntimeError):
    """There is no device."""


def find_device() -> Any:
    """Return the torch device to run on.

    With TRITON_INTERPRET=1 in the environment, the same kernels run on the CPU, step by step: for
    tests.
    """
    try:
        import torch
        import triton  # noqa: F401
    except ImportError as error:
        raise DeviceError(
            f"a GPU needs torch and triton, and {error.name} is not installed: "
            f"pip install {error.name}"
        ) from error
    if os.environ.get("TRITON_INTERPRET") == "1":
        return torch.device("cpu")
    if not torch.cuda.is_available():
        raise DeviceError(
            f"torch {torch.__version__} sees no CUDA device: check nvidia-smi, and that torch is a "
            "CUDA build; or use `pairlearn reproduce table1`"
        )
    return torch.device("cuda")
