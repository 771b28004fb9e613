# SPDX-License-Identifier: BSD-3-Clause
"""Hostile checkpoints take work in proportion to their size: calls and bytes, not seconds."""

from __future__ import annotations

import contextlib
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pairlearn.models.file import dump_model
from pairlearn.models.record import ModelRecord
from pairlearn.streams.checkpoint import CHECKPOINT_VERSION, CheckpointError, read_checkpoint
from pairlearn.streams.state import StateError, unpack

#: n -> a state and its arrays that take about n times as much of something.
HOSTILE: dict[str, Callable[[int], tuple[Any, dict[str, Any]]]] = {
    "a long key above a long list": lambda n: ({"k" * (20 * n): list(range(10 * n))}, {}),
    "many keys": lambda n: ({f"k{j}": j for j in range(10 * n)}, {}),
    "many small arrays": lambda n: (
        {f"a{j}": {"$array": f"a{j}"} for j in range(n)},
        {f"a{j}": np.zeros(2) for j in range(n)},
    ),
    "many labels": lambda n: ({"y": {"$listed": [["ab"] * (10 * n), "<U2"]}}, {}),
    "many pairs": lambda n: ({"p": {"$pairs": [[j, "a"] for j in range(5 * n)]}}, {}),
    "one array, named often": lambda n: (
        {f"a{j}": {"$array": "w"} for j in range(n)},
        {"w": np.zeros(100 * n)},
    ),
    "labels that ask for much": lambda n: ({"y": {"$listed": [["a"], f"<U{10_000 * n}"]}}, {}),
}


def work(path: Path) -> tuple[int, int]:
    """Read a checkpoint; return the calls that it takes and the most bytes."""
    calls = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    tracemalloc.start()
    sys.setprofile(count)
    try:
        with contextlib.suppress(CheckpointError):
            read_checkpoint(path)
    finally:
        sys.setprofile(None)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return calls, peak


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_checkpoint_takes_calls_and_memory_for_its_bytes(kind: str, tmp_path: Path) -> None:
    found = []
    for n in (50, 400):
        state, arrays = HOSTILE[kind](n)
        record = ModelRecord(
            "OnlineLearner checkpoint",
            arrays,
            parameters={"checkpoint_version": CHECKPOINT_VERSION, "settings": {}},
            provenance={"state": state, "position": None, "finished_passes": 0},
        )
        path = tmp_path / f"{n}.ckpt"
        path.write_bytes(dump_model(record))
        if not found:
            work(path)  # what is imported and cached at the first time is no work of the file
        calls, peak = work(path)
        size = path.stat().st_size
        assert peak <= 40 * size + 200_000, (n, peak, size)
        found.append(calls)
    assert found[1] <= 8.5 * found[0]


def test_an_array_stands_in_one_place() -> None:
    with pytest.raises(StateError, match=r"damaged at \$array"):
        unpack([{"$array": "w"}, {"$array": "w"}], {"w": np.zeros(3)})
