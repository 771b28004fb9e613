# SPDX-License-Identifier: BSD-3-Clause
"""Read the data sets in other processes, while this one imports torch and wakes the device."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing import get_context

import numpy as np

from pairlearn.data import Dataset, load, lookup

__all__ = ["by_size", "reading"]

#: Processes: the largest set has one to itself.
_PROCESSES = 3


@contextmanager
def reading(names: Sequence[str]) -> Iterator[Callable[[str], Dataset]]:
    """Begin to read data sets; yield a function that returns one by its name."""
    # A forked process must not use CUDA, and a failed device must not wait for the data.
    pool = ProcessPoolExecutor(_PROCESSES, mp_context=get_context("spawn"))
    # The largest set takes longest, so it begins first.
    futures = {name: pool.submit(_loaded, name) for name in reversed(by_size(names))}
    try:
        yield lambda name: futures[name].result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def by_size(names: Sequence[str]) -> list[str]:
    """Return names of data sets, the smallest first: it is the first to be ready."""
    return sorted(names, key=lambda name: lookup(name).n * lookup(name).d)


def _loaded(name: str) -> Dataset:
    """Return a data set in few bytes to pass on: float32, as the device takes it, without zeros."""
    data = load(name, dense=None if lookup(name).built_in else False)
    return replace(data, X=data.X.astype(np.float32))
