# SPDX-License-Identifier: BSD-3-Clause
"""Find the device to train on, and explain why it is missing."""

from __future__ import annotations

import os
from typing import Any

from pairlearn.validation import warn_caller

#: The allowed devices.
DEVICES = ("cpu", "cuda", "auto")


class DeviceError(RuntimeError):
    """The requested device is not available."""


class DeviceWarning(UserWarning):
    """device="auto" found no GPU and uses the CPU."""


def check_device(device: str) -> str:
    """Return the name of a device; refuse an unknown name."""
    if device not in DEVICES:
        raise ValueError(f"device must be one of {', '.join(DEVICES)}, got {device!r}.")
    return device


def find_device(device: str) -> Any:
    """Return the torch device to run on, or None for the CPU kernels.

    If CUDA is not available, "cuda" raises, and "auto" warns and uses the CPU. With
    TRITON_INTERPRET=1 in the environment, the same kernels run on the CPU, step by step: for tests.
    """
    if check_device(device) == "cpu":
        return None
    trouble = _trouble()
    if trouble:
        if device == "cuda":
            raise DeviceError(f'{trouble}; or use device="cpu".')
        warn_caller(f"{trouble}. Running on the CPU.", DeviceWarning)
        return None
    import torch

    return torch.device("cpu" if _interpreted() else "cuda")


def _interpreted() -> bool:
    return os.environ.get("TRITON_INTERPRET") == "1"


def _trouble() -> str:
    """Return why there is no device, and the cure; empty if there is one."""
    try:
        import torch
        import triton  # noqa: F401
    except ImportError as error:
        # A CPU build of torch comes without Triton.
        package = '"pairlearn[torch]"' if error.name != "triton" else "triton"
        return (
            f'device="cuda" needs torch and triton, and {error.name} is not installed: '
            f"pip install {package}"
        )
    if not _interpreted() and not torch.cuda.is_available():
        return (
            f'device="cuda" needs a CUDA device, and torch {torch.__version__} sees none: check '
            "nvidia-smi, and that torch is a CUDA build"
        )
    return ""
