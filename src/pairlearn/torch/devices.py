# SPDX-License-Identifier: BSD-3-Clause
"""Which device trains, and random numbers that belong to one run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch


def as_device(device: Any) -> Any:
    """Return the device that a parameter asks for: "auto" is the first GPU, else the CPU."""
    if isinstance(device, str) and device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        found = torch.device(device)
    except (RuntimeError, TypeError):
        raise ValueError(
            f'device must be "auto", "cpu", "cuda" or "cuda:1", got {device!r}.'
        ) from None
    if found.type not in ("cpu", "cuda"):
        raise ValueError(f'device must be the CPU or a CUDA device, got "{found}"; use "auto".')
    if found.type == "cuda":
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if (found.index or 0) >= count:
            has = f"has {count} of them" if count else "has none"
            raise ValueError(
                f'device="{found}" needs a CUDA device, this machine {has}; use "auto" or "cpu".'
            )
    return found


@contextmanager
def own_randomness(seed: int, device: Any) -> Iterator[None]:
    """Draw initial weights and dropout from a seed, and leave the generators of others alone."""
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(seed)
        yield
