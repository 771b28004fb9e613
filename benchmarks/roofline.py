# SPDX-License-Identifier: BSD-3-Clause
"""How far each hot path is from what the machine can do.

A unit of work moves some bytes and does some operations on numbers. Plain C, compiled here, copies
as many bytes as the data of the path have, multiplies in registers, and reads digits. The limit of
a path is the longer of its bytes at the speed of the copy and its operations at the speed of the
products; a copied byte counts twice, read and written. The ratio is the share of the limit that the
path reaches: 1 is as fast as the machine can be. For CSV a second row has the plain C loop over
digits as its limit.

Counted are the bytes and operations that the task needs, not those that our code takes: rows that
are read once, and numbers that must be changed. Steps have the square loss, so that every pair of
opposite labels changes the coefficients, and half of the pairs have opposite labels.

Run alone with ``python -m benchmarks --only roofline``. The guide on scaling says what keeps each
path from its limit.
"""

from __future__ import annotations

import ctypes
import functools
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import samples
from benchmarks.c_loop import built
from benchmarks.contestants import solver
from benchmarks.readers import D, open_ours, read_ours, write_files
from benchmarks.report import Effort, Row
from benchmarks.timing import best_of

SOURCE = Path(__file__).with_name("roofline.c")
#: Rounds of products in a call; each does 128 operations.
_PRODUCTS = 20_000
#: The share of the limit that must, and should, be reached.
_BAR, _GOAL = 0.6, 0.8


@dataclass(frozen=True)
class HotPath:
    """Work of some units, each of which needs so many bytes and operations; data of some bytes."""

    name: str
    work: Callable[[], object]
    units: float
    n_bytes: float
    n_operations: float
    size: int
    bar: float = _BAR
    goal: float = _GOAL


@functools.cache
def plain() -> ctypes.CDLL:
    """Return the plain loops in C."""
    library = built(SOURCE)
    pointer, size = ctypes.c_void_p, ctypes.c_size_t
    library.copy.argtypes, library.copy.restype = [pointer, pointer, size], None
    library.multiply.argtypes, library.multiply.restype = [pointer, size], None
    library.read_digits.argtypes = [ctypes.c_char_p, size]
    library.read_digits.restype = ctypes.c_double
    return library


def run(effort: Effort) -> list[Row]:
    """Compare every path with the nearer of its limits."""
    rows = [_row(path, effort) for make in (_steps, _moments, _predict) for path in make(effort)]
    with tempfile.TemporaryDirectory() as folder:
        files = Path(folder, "files")
        write_files(files, effort.pick(10_000, 50_000))
        rows += [_row(path, effort) for path in _readers(files)]
        rows.append(_digits(files / "six.csv", effort))
    return rows


def _row(path: HotPath, effort: Effort) -> Row:
    """Return our time of a unit beside the longer of the times of its bytes and operations."""
    library = plain()
    n = max(path.size // 8, 1)
    there, here, numbers = np.ones(n), np.zeros(n), np.ones(64)
    # Small data are copied many times, so that the clock sees enough.
    times = max(1, 4_000_000 // n)

    def copy() -> None:
        for _ in range(times):
            library.copy(here.ctypes.data, there.ctypes.data, n)

    best = best_of(
        {
            "ours": path.work,
            "copy": copy,
            "products": lambda: library.multiply(numbers.ctypes.data, _PRODUCTS),
        },
        seconds=effort.seconds / 2,
    )
    by_bytes = path.n_bytes * best["copy"] / (16.0 * n * times)
    by_operations = path.n_operations * best["products"] / (128.0 * _PRODUCTS)
    nearer = "bytes" if by_bytes >= by_operations else "operations"
    return Row(
        f"{path.name}: {path.n_bytes:.3g} B at {16.0 * n * times / best['copy'] / 1e9:.1f} GB/s, "
        f"{path.n_operations:.3g} operations at {128.0 * _PRODUCTS / best['products'] / 1e9:.1f} "
        f"G/s; limit of {nearer} / ours",
        1e9 * best["ours"] / path.units, 1e9 * max(by_bytes, by_operations), "ns",
        path.bar, path.goal,
    )  # fmt: skip


def _steps(effort: Effort) -> list[HotPath]:
    """Return steps on dense and sparse rows, and those of a grid of models."""
    from benchmarks.sweep import RADII, STEP_SIZES, train_grid
    from pairlearn import LinearScore, Problem, Square

    problem, ours = Problem(LinearScore(), Square()), solver(step_size=0.05, radius=1e6)
    found = []
    for d in (22, 256):
        n = 20_000 if d < 256 else 5_000
        X, y = samples.dense(n, d, positives=0.5)
        n_steps = effort.pick(4, 10) * n
        # An active pair: a difference, its score, the step, and what the average is owed.
        work = functools.partial(ours.solve, problem, X, y, n_steps=n_steps, rng=0)
        found.append(
            HotPath(
                f"dense step d={d}", work, n_steps / 2, 16.0 * d, 7.0 * d, X.nbytes,
                *((_BAR, _GOAL) if d >= 256 else (0.1, 0.3)),
            )
        )  # fmt: skip
        models = len(STEP_SIZES) * len(RADII)
        n_sweep = effort.pick(1, 4) * (20_000 if d < 256 else 2_500)
        work = functools.partial(train_grid, problem, X, y, n_sweep)
        # Coefficients and their sums lie in a cache: they are no bytes of memory.
        needs = 16.0 * d / models, 6.0 * d + d / models
        bars = (_BAR, _GOAL) if d >= 256 else (0.3, 0.6)
        found.append(
            HotPath(f"sweep d={d}, a model", work, models * n_sweep / 2, *needs, X.nbytes, *bars)
        )
    X, y = samples.text("rcv1-like", effort.pick(4_000, 20_000))
    n_steps = 4 * X.shape[0]
    nnz = 2.0 * X.nnz / X.shape[0]
    work = functools.partial(ours.solve, problem, X, y, n_steps=n_steps, rng=0)
    # A value, its place, a coefficient read and written; a score and a step.
    found.append(
        HotPath(
            "CSR step, rcv1-like", work, n_steps / 2, 28.0 * nnz, 4.0 * nnz, X.data.nbytes, 0.2, 0.4
        )
    )
    return found


def _moments(effort: Effort) -> list[HotPath]:
    """Return the exact class moments of rows."""
    from pairlearn.solvers import ClassMoments, Extents, Grid

    found = []
    for d in (22, 128):
        n = effort.pick(400_000, 2_000_000) // d
        rng = np.random.default_rng(0)
        X, y = rng.normal(size=(n, d)), np.where(rng.random(n) < 0.5, 1.0, -1.0)
        grid = Grid.of(Extents.of(X), bits=22)

        def work(X: Any = X, y: Any = y, grid: Any = grid, d: int = d) -> object:
            return ClassMoments(d, grid).add(X, y).values

        # A half of the products of a row with itself.
        bars = (_BAR, _GOAL) if d >= 128 else (0.2, 0.4)
        found.append(
            HotPath(f"exact moments d={d}, a row", work, n, 8.0 * d, d * (d + 1.0), X.nbytes, *bars)
        )
    return found


def _predict(effort: Effort) -> list[HotPath]:
    """Return the scores of rows by a model."""
    from pairlearn import AUCClassifier

    found = []
    for d in (22, 256):
        n = effort.pick(400_000, 2_000_000) // d
        X, y = samples.dense(n, d, positives=0.5)
        model = AUCClassifier(random_state=0).fit(X[:1000], y[:1000])
        work = functools.partial(model.decision_function, X)
        found.append(
            HotPath(f"predict d={d}, a row", work, n, 8.0 * d, 2.0 * d, X.nbytes, 0.3, 0.6)
        )
    return found


def _readers(files: Path) -> list[HotPath]:
    """Return readers of text and of Parquet; a byte of CSV and a value of Parquet are the units."""
    csv, parquet = files / "six.csv", files / "a.parquet"
    size = csv.stat().st_size
    n_values = sum(len(chunk.y) for chunk in open_ours(parquet)) * (D + 1)
    return [
        HotPath("read CSV, a byte", lambda: read_ours(csv), size, 1.0, 2.0, size, 0.4, 0.6),
        HotPath(
            "read Parquet, a value", lambda: read_ours(parquet), n_values, 8.0, 0.0,
            8 * n_values, 0.2, 0.4,
        ),
    ]  # fmt: skip


def _digits(path: Path, effort: Effort) -> Row:
    """Return our reader of CSV beside a plain loop over the same digits."""
    text = path.read_bytes().partition(b"\n")[2]
    best = best_of(
        {
            "ours": lambda: read_ours(path),
            "plain": lambda: plain().read_digits(text, len(text)),
        },
        seconds=effort.seconds / 2,
    )
    return Row(
        f"read CSV, a byte: plain C loop over digits "
        f"({len(text) / best['plain'] / 1e6:.0f} MB/s) / ours",
        1e9 * best["ours"] / len(text), 1e9 * best["plain"] / len(text), "ns", 0.4, 0.8,
    )  # fmt: skip
