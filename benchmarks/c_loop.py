# SPDX-License-Identifier: BSD-3-Clause
"""Compile C for this machine; call `previous_example.c`."""

from __future__ import annotations

import ctypes
import functools
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.report import UnavailableError

__all__ = ["Steps", "built", "compiled", "hinge_steps"]

SOURCE = Path(__file__).with_name("previous_example.c")
FLAGS = ("-O3", "-march=native", "-ffast-math", "-fPIC")


@dataclass(frozen=True)
class Steps:
    """A plan lowered to arrays, and the state that it changes."""

    X: NDArray[Any]
    y: NDArray[np.float64]
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    step_sizes: NDArray[np.float64]
    paid: NDArray[np.float64]
    active: NDArray[np.int32]
    w: NDArray[Any]
    weighted_sum: NDArray[Any]
    state: NDArray[np.float64]


def hinge_steps(X: NDArray[Any], y: NDArray[np.float64], path: Any, step_size: float) -> Steps:
    """Return the plan of Algorithm 1 for a path of indices i_0, ..., i_T and constant steps."""
    left, right = path[1:].astype(np.int32), path[:-1].astype(np.int32)
    step_sizes = np.full(len(left), step_size)
    d = X.shape[1]
    return Steps(
        X=X,
        y=y,
        left=left,
        right=right,
        step_sizes=step_sizes,
        # The paper's average owes eta_{t+1} to the iterate that is left at step t.
        paid=np.cumsum(step_sizes),
        active=np.flatnonzero(y[left] != y[right]).astype(np.int32),
        w=np.zeros(d, dtype=X.dtype),
        weighted_sum=np.zeros(d, dtype=X.dtype),
        state=np.array([-step_size]),
    )


def built(source: Path, *defines: str) -> ctypes.CDLL:
    """Compile a file of C for this machine and load it."""
    compiler = shutil.which("gcc")
    if compiler is None:
        raise UnavailableError("gcc is not installed; the comparison with C needs it.")
    folder = tempfile.mkdtemp(prefix="pairlearn-c-")
    try:
        library, code = Path(folder) / f"{source.stem}.so", Path(folder) / f"{source.stem}.o"
        subprocess.run([compiler, *FLAGS, *defines, "-c", source, "-o", code], check=True)
        # Linked without -ffast-math: with it, loading the library would switch off subnormal
        # numbers in the whole process.
        subprocess.run([compiler, "-shared", code, "-o", library, "-lm"], check=True)
        return ctypes.CDLL(str(library))
    finally:
        shutil.rmtree(folder)


@functools.cache
def compiled(dtype: str, ahead: int) -> Callable[[Steps, float, float], None]:
    """Return the loop for a type of data that prefetches `ahead` pairs: (steps, radius, margin)."""
    real = {"float64": "double", "float32": "float"}[dtype]
    function = built(SOURCE, f"-DREAL={real}", f"-DAHEAD={ahead}").descend
    pointer, number = ctypes.c_void_p, ctypes.c_double
    function.argtypes = [
        pointer,
        pointer,
        ctypes.c_size_t,
        *[pointer] * 5,
        ctypes.c_ssize_t,
        *[pointer] * 3,
        number,
        number,
    ]
    function.restype = None

    def descend(steps: Steps, radius: float, margin: float) -> None:
        function(
            steps.X.ctypes.data,
            steps.y.ctypes.data,
            steps.X.shape[1],
            steps.left.ctypes.data,
            steps.right.ctypes.data,
            steps.step_sizes.ctypes.data,
            steps.paid.ctypes.data,
            steps.active.ctypes.data,
            len(steps.active),
            steps.w.ctypes.data,
            steps.weighted_sum.ctypes.data,
            steps.state.ctypes.data,
            radius,
            margin,
        )

    return descend
