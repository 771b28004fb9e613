# SPDX-License-Identifier: BSD-3-Clause
"""Files larger than memory should be: the program reads them, and its memory must stay flat.

Text goes to the program through a pipe, so it needs no disk; a Parquet file of the whole size lies
in a temporary folder while it is read. Each command also runs on a twentieth of the data: the peak
of its memory may hardly differ.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

__all__ = ["LargeFile", "large_table", "run_large"]

#: Bytes by which the peak of the whole may lie above that of a twentieth.
_MOST_GROWTH = 48 << 20
_SHARE = 20
#: Rows of the block that is repeated, and its features.
_ROWS, _FEATURES = 20_000, 12
_NAMES = [f"f{j}" for j in range(_FEATURES)]


@dataclass(frozen=True)
class LargeFile:
    """The peak of memory of one command, in bytes, for a small part of the data and for all."""

    command: str
    gigabytes: float
    rows: int
    small_peak: int
    peak: int

    @property
    def grew(self) -> bool:
        """Whether memory depends on the size of the data."""
        return self.peak - self.small_peak > _MOST_GROWTH


def _block() -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(_ROWS, _FEATURES)).round(6)
    return X, (X[:, 0] + rng.normal(size=_ROWS) > 0).astype(np.int64)


def _csv() -> tuple[bytes, bytes]:
    """Return the header of a CSV file and the block of rows that is repeated."""
    X, y = _block()
    rows = (
        f"{','.join(map(repr, row))},{t}\n" for row, t in zip(X.tolist(), y.tolist(), strict=True)
    )
    return (",".join(_NAMES) + ",y\n").encode(), "".join(rows).encode()


def _lines() -> tuple[bytes, bytes]:
    """Return the lines of a conversation, nothing before them."""
    X, y = _block()
    examples = zip(X.tolist(), y.tolist(), strict=True)
    return b"", b"".join(
        json.dumps({"x": dict(zip(_NAMES, row, strict=True)), "y": t}).encode() + b"\n"
        for row, t in examples
    )


def _write_parquet(path: Path, n_bytes: float) -> int:
    """Write row groups of other numbers each until the file has its size; return the rows."""
    import pyarrow as pa
    import pyarrow.parquet

    X, y = _block()
    n = 0
    columns = {name: X[:, j] for j, name in enumerate(_NAMES)} | {"y": y}
    schema = pa.table(columns).schema
    with pyarrow.parquet.ParquetWriter(path, schema, use_dictionary=False) as writer:
        while path.stat().st_size < n_bytes:
            columns = {name: np.roll(X[:, j], n) + 1e-9 * n for j, name in enumerate(_NAMES)}
            writer.write_table(pa.table(columns | {"y": np.roll(y, n)}))
            n += _ROWS
    return n


def _peak(arguments: list[str], folder: Path, pieces: Iterator[bytes] | None = None) -> int:
    """Run the program, feed its standard input, and return the peak of its memory."""
    pipe = subprocess.DEVNULL if pieces is None else subprocess.PIPE
    log = folder / "log"
    with open(log, "wb") as errors:
        child = subprocess.Popen(
            [sys.executable, "-m", "pairlearn.cli", *arguments],
            stdin=pipe, stdout=subprocess.DEVNULL, stderr=errors,
        )  # fmt: skip
        if child.stdin is not None:
            assert pieces is not None
            with contextlib.suppress(BrokenPipeError):  # its status tells why it left
                for piece in pieces:
                    child.stdin.write(piece)
                child.stdin.close()
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        text = log.read_text(encoding="utf-8", errors="replace")
        raise RuntimeError(f"{arguments[0]} ended with {child.returncode}: {text[-500:]}")
    return int(usage.ru_maxrss) * (1 if sys.platform == "darwin" else 1024)


def _repeated(head: bytes, block: bytes, n_bytes: float) -> Iterator[bytes]:
    yield head
    for _ in range(_n_blocks(block, n_bytes)):
        yield block


def _n_blocks(block: bytes, n_bytes: float) -> int:
    return max(int(n_bytes / len(block)), 1)


def run_large(
    gigabytes: float, *, tell: Callable[[str], None] = lambda text: None
) -> list[LargeFile]:
    """Train, predict and stream on so many gigabytes; return the peaks of memory."""
    found = []

    def note(command: str, rows: int, peaks: list[int]) -> None:
        found.append(LargeFile(command, gigabytes, rows, *peaks))
        state = "grew" if found[-1].grew else "flat"
        tell(f"{command}: {peaks[0] / 1e6:.0f} MB, then {peaks[1] / 1e6:.0f} MB, {state}")

    whole = 1e9 * gigabytes
    with TemporaryDirectory() as name:
        folder = Path(name)
        model = str(folder / "model")
        train = ["--label", "y", "--fit", "stream", "-o", model, "--force"]
        texts: tuple[tuple[str, list[str], tuple[bytes, bytes]], ...] = (
            ("train, CSV", ["train", "-", "--format", "csv", "--classes", "0,1", *train], _csv()),
            ("predict, CSV", ["predict", model, "-", "--format", "csv"], _csv()),
            ("stream, JSON lines", ["stream", "-o", str(folder / "streamed")], _lines()),
        )
        peaks = []
        for part in (whole / _SHARE, whole):
            path = folder / "large.parquet"
            rows = _write_parquet(path, part)
            peaks.append(_peak(["train", str(path), *train], folder))
            path.unlink()
        note("train, Parquet", rows, peaks)
        for command, arguments, (head, block) in texts:
            peaks = [_peak(arguments, folder, _repeated(head, block, part))
                     for part in (whole / _SHARE, whole)]  # fmt: skip
            note(command, _ROWS * _n_blocks(block, whole), peaks)
    return found


def large_table(found: list[LargeFile]) -> str:
    """Return the peaks as lines of a Markdown table."""
    rows = ["| command and data | GB | rows | peak of a twentieth, MB | peak, MB |",
            "| --- | ---: | ---: | ---: | ---: |"]  # fmt: skip
    rows += [
        f"| {one.command} | {one.gigabytes:g} | {one.rows:,} | {one.small_peak / 1e6:.0f} | "
        f"{one.peak / 1e6:.0f} |"
        for one in found
    ]
    return "\n".join(rows)
