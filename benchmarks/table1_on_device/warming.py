# SPDX-License-Identifier: BSD-3-Clause
"""Compile the kernels of all widths at once, beside the work on the first data sets."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Thread
from typing import Any

import numpy as np

from benchmarks.table1_on_device.fits import compare_on_device
from pairlearn.data import Dataset
from pairlearn.experiments.methods.base import Method

__all__ = ["compile_beside"]


def compile_beside(widths: Sequence[int], methods: Sequence[Method], device: Any) -> list[Thread]:
    """Train the methods on a few examples of each number of features, a thread for each.

    The compiler leaves the interpreter free, so that several widths are compiled at the same time.
    """
    threads = [
        Thread(target=_trained, args=(d, methods, device), daemon=True) for d in reversed(widths)
    ]
    for thread in threads:
        thread.start()
    return threads


def _trained(d: int, methods: Sequence[Method], device: Any) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, d)), np.where(np.arange(40) % 2, 1.0, -1.0)
    data = Dataset(X, y, f"warming {d}", "normal numbers", (1.0,), "made here", "0" * 64)
    compare_on_device([data], methods, device=device, n_splits=1)
