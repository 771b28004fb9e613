# SPDX-License-Identifier: BSD-3-Clause
"""Threads for `n_jobs`: folds and classes that are tried side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["threads"]


@contextmanager
def threads(n_jobs: int | None) -> Iterator[Callable[..., Any]]:
    """Map a function over threads, in order. `n_jobs=-1` uses all processors."""
    if n_jobs is None or n_jobs == 1:
        yield map
        return
    import os
    from concurrent.futures import ThreadPoolExecutor

    if n_jobs == 0 or n_jobs < -1:
        raise ValueError(f"n_jobs must be a number of threads, -1 for all, or None, got {n_jobs}.")
    with ThreadPoolExecutor(os.cpu_count() if n_jobs == -1 else n_jobs) as pool:
        yield pool.map
