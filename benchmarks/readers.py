# SPDX-License-Identifier: BSD-3-Clause
"""Files to a trained model, row by row: our readers and solver, pandas or loaders and SGD.

The files are generated: 28 normal features and a label of two classes, as CSV with six decimals,
with all digits (what ``DataFrame.to_csv`` writes) and with short numbers of mixed kinds, as
Parquet, as svmlight text and as ``.npy``. Each contestant reads the whole file and learns from
every row once.

Ratios are of processor time and, in rows of their own, of the clock: we read chunks in a thread
while others are learned, and there PyArrow has all its threads, too. These rows mean something
only on a machine with two processors and nothing else to do.

Run alone with ``python -m benchmarks --only readers``.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.report import Effort, Row
from benchmarks.timing import best_of

D = 28
CHUNK = 8_192
Chunks = Iterator[tuple[Any, Any]]


def run(effort: Effort) -> list[Row]:
    """Compare rows per CPU second from file to model, and the growth of memory with the file."""
    n = effort.pick(20_000, 100_000)
    with tempfile.TemporaryDirectory() as folder:
        small, large = Path(folder, "1"), Path(folder, "3")
        write_files(small, n)
        rows = [row for case in CASES for row in _compare(case, small, n, effort)]
        if effort.quick:
            # Long files show what memory does.
            return rows
        write_files(large, 3 * n)
        rows += [_memory(name, small, large) for name in ("six.csv", "a.svm", "a.parquet", "X.npy")]
    return rows


def write_files(folder: Path, n_rows: int) -> None:
    """Write the same data in every format."""
    import pyarrow
    import pyarrow.parquet

    folder.mkdir()
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, D))
    y = (X[:, 0] + rng.normal(size=n_rows) > 0).astype(np.int64)
    names = [f"f{j}" for j in range(D)]
    with (
        open(folder / "six.csv", "w", encoding="utf-8") as six,
        open(folder / "full.csv", "w", encoding="utf-8") as full,
        open(folder / "mixed.csv", "w", encoding="utf-8") as mixed,
        open(folder / "a.svm", "w", encoding="utf-8") as svm,
    ):
        for file in (six, full, mixed):
            file.write(",".join(["y", *names]) + "\n")
        for label, values in zip(y.tolist(), X, strict=True):
            row = values.tolist()
            six.write(f"{label}," + ",".join([f"{v:.6f}" for v in row]) + "\n")
            full.write(f"{label}," + ",".join([repr(v) for v in row]) + "\n")
            short = [f"{v:.3g}" if j % 2 else f"{1000 * v:.0f}" for j, v in enumerate(row)]
            mixed.write(f"{label}," + ",".join(short) + "\n")
            entries = [f" {j}:{v:.6g}" for j, v in enumerate(row, start=1)]
            svm.write(f"{2 * label - 1}" + "".join(entries) + "\n")
    np.save(folder / "X.npy", X)
    np.save(folder / "y.npy", y)
    table = pyarrow.table({"y": y, **{name: X[:, j] for j, name in enumerate(names)}})
    pyarrow.parquet.write_table(table, folder / "a.parquet", row_group_size=50_000)


def open_ours(path: Path) -> Any:
    """Return our reader of a file."""
    from pairlearn.streams import NpyReader, Schema, SvmlightReader, open_reader

    if path.suffix == ".svm":
        return SvmlightReader(path, n_features=D)
    if path.suffix == ".npy":
        return NpyReader(path, path.with_name("y.npy"))
    return open_reader(path, Schema(label="y"))


def train_ours(path: Path) -> None:
    """Learn from every row of a file with the solver's stream."""
    from pairlearn import Constant, Hinge, LinearScore, PairwiseSGD, Problem

    reader = open_ours(path)
    stream = PairwiseSGD(schedule=Constant(0.01)).start(Problem(LinearScore(), Hinge()), D, rng=0)
    for chunk in reader:
        stream.learn_many(chunk.X, chunk.y)


def read_ours(path: Path) -> None:
    """Read every row of a file."""
    for _ in open_ours(path):
        pass


def pandas_chunks(path: Path) -> Chunks:
    """Yield what ``pandas.read_csv`` gives."""
    import pandas

    for frame in pandas.read_csv(path, chunksize=CHUNK):
        y = frame.pop("y").to_numpy()
        yield frame.to_numpy(), y


def pandas_exact_chunks(path: Path) -> Chunks:
    """Yield what ``pandas.read_csv`` gives when its numbers are correctly rounded, as ours are."""
    import pandas

    for frame in pandas.read_csv(path, chunksize=CHUNK, float_precision="round_trip"):
        y = frame.pop("y").to_numpy()
        yield frame.to_numpy(), y


def parquet_chunks_by_threads(path: Path) -> Chunks:
    """Yield what PyArrow's batches give as data frames, read by all its threads."""
    return parquet_chunks(path, use_threads=True)


def parquet_chunks(path: Path, use_threads: bool = False) -> Chunks:
    """Yield what PyArrow's batches give as data frames."""
    import pyarrow.parquet

    for batch in pyarrow.parquet.ParquetFile(path).iter_batches(CHUNK, use_threads=use_threads):
        frame = batch.to_pandas()
        y = frame.pop("y").to_numpy()
        yield frame.to_numpy(), y


def svmlight_whole(path: Path) -> Chunks:
    """Yield the file as scikit-learn loads it."""
    from sklearn.datasets import load_svmlight_file

    X, y = load_svmlight_file(str(path), n_features=D)
    X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)
    yield X, y


def npy_chunks(path: Path) -> Chunks:
    """Yield pieces of a memory map."""
    X, y = np.load(path, mmap_mode="r"), np.load(path.with_name("y.npy"), mmap_mode="r")
    for begin in range(0, len(y), CHUNK):
        yield X[begin : begin + CHUNK], y[begin : begin + CHUNK]


def train_rival(chunks: Callable[[Path], Chunks], path: Path) -> None:
    """Learn from every row with scikit-learn."""
    from sklearn.linear_model import SGDClassifier

    model = SGDClassifier(random_state=0)
    classes = [-1, 1] if path.suffix == ".svm" else [0, 1]
    for X, y in chunks(path):
        model.partial_fit(X, y, classes=classes)


def read_rival(chunks: Callable[[Path], Chunks], path: Path) -> None:
    """Read every row as the rival does."""
    for _ in chunks(path):
        pass


# file, what the rival reads it with, its name, bar and goal for training
CASES: tuple[tuple[str, Callable[[Path], Chunks], str, float, float], ...] = (
    ("six.csv", pandas_chunks, "pandas", 3, 6),
    ("full.csv", pandas_chunks, "pandas", 3.2, 6),
    ("full.csv", pandas_exact_chunks, "pandas round_trip", 3, 6),
    ("mixed.csv", pandas_chunks, "pandas", 3, 6),
    ("a.parquet", parquet_chunks, "PyArrow and pandas", 2.5, 4),
    ("a.svm", svmlight_whole, "load_svmlight_file", 5, 10),
    ("X.npy", npy_chunks, "memory map", 1, 2),
)


def to_a_model(
    case: tuple[Any, ...],
    folder: Path,
    n: int,
    effort: Effort,
    how: str,
    ours: Callable[[Path], object],
) -> list[Row]:
    """Compare our training from a file with the rival's, by processor time and by the clock."""
    name, chunks, rival, bar, goal = case
    path, micro, rows = folder / name, 1e6 / n, []
    for clock, by in ((time.process_time, ""), (time.perf_counter, ", by the clock")):
        best = best_of(
            {"ours": lambda: ours(path), "rival": lambda chunks=chunks: train_rival(chunks, path)},
            seconds=effort.seconds,
            clock=clock,
        )
        rows.append(
            Row(
                f"{name} to a model by {how} / {rival} + SGDClassifier, a row{by}",
                micro * best["ours"], micro * best["rival"], "us", bar, goal,
            )
        )  # fmt: skip
        if chunks is parquet_chunks:
            chunks = parquet_chunks_by_threads
    return rows


def _compare(case: tuple[Any, ...], folder: Path, n: int, effort: Effort) -> list[Row]:
    name, chunks, rival, _, goal = case
    path, micro = folder / name, 1e6 / n
    rows = to_a_model(case, folder, n, effort, "the solver's stream", train_ours)
    if name == "X.npy":  # a map reads nothing until it is used
        return rows
    best = best_of(
        {"our reader": lambda: read_ours(path), "rival reader": lambda: read_rival(chunks, path)},
        seconds=effort.seconds,
    )
    return [
        *rows,
        Row(
            f"{name} read ({path.stat().st_size / best['our reader'] / 1e6:.0f} MB/s) / {rival}, "
            "a row",
            micro * best["our reader"], micro * best["rival reader"], "us", 1, goal,
        ),
    ]  # fmt: skip


def _memory(name: str, small: Path, large: Path) -> Row:
    one, three = (_peak(folder / name) for folder in (small, large))
    growth = max(three - one, 0.1)
    return Row(
        f"{name}: growth of peak memory ({one:.0f} MB) when the file grows 3 times / 20 MB",
        growth, 20.0, "MB", 1, 0.5, at_most=True,
    )  # fmt: skip


def _peak(path: Path) -> float:
    """Peak memory in MB of a fresh process that learns from a file."""
    code = f"from benchmarks.readers import show_peak; show_peak({str(path)!r})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return float(done.stdout)


def show_peak(path: str) -> None:
    """Learn from a file and print the peak memory of this process in MB."""
    train_ours(Path(path))
    try:
        # ru_maxrss would start at what the parent process held
        status = Path("/proc/self/status").read_text(encoding="utf-8")
        peak = float(status.partition("VmHWM:")[2].split()[0]) / 1024
    except (OSError, IndexError):
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(peak)
