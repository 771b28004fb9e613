# SPDX-License-Identifier: BSD-3-Clause
"""CSV and svmlight text: whole, in small pieces, compressed and resumed."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import io
import lzma
from abc import abstractmethod
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from fuzzing.campaign import Target
from fuzzing.mutations import damage_bytes
from pairlearn.streams import Chunk, CsvReader, Reader, ReadError, Schema, SvmlightReader

__all__ = ["CsvText", "SvmlightText", "check_chunks"]

_NUMBERS = ("1", "-2.5", "3e2", " 4 ", "", "NA", "nan", "inf", "1e999", "1e-400", "0x10", "abc",
            "1_0", ".", "-", "1.2.3", "9" * 40, "0." + "0" * 50 + "1", "१", '"7"', '"8', '9"',
            '"a""b"', "1e308", "-0", "+5", "1e60", "5e-324", '"\n"')  # fmt: skip
_COMPRESSIONS: tuple[Callable[[bytes], bytes], ...] = (
    lambda data: gzip.compress(data, mtime=0), bz2.compress,
    lambda data: lzma.compress(data, preset=0),
)  # fmt: skip


class _Pieces(io.RawIOBase):
    """A pipe that brings a few bytes at a time."""

    def __init__(self, data: bytes, step: int) -> None:
        self._file, self._step = io.BytesIO(data), step

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        """Return at most `step` bytes."""
        return self._file.read(self._step if size < 0 else min(self._step, size))


def _number(rng: Random) -> str:
    if rng.random() < 0.15:
        return rng.choice(_NUMBERS)
    kind = int(4 * rng.random())
    if kind == 0:
        return f"{rng.gauss(0, 10):.{int(18 * rng.random())}f}"
    if kind == 1:
        return repr(rng.gauss(0, 1))
    return str(int(19 * rng.random()) - 9) if kind == 2 else f"{rng.gauss(0, 1):.3e}"


def _damaged(rng: Random, data: bytes) -> bytes:
    """Return text that is damaged, compressed, damaged then, or left alone."""
    if rng.random() < 0.6:
        data = damage_bytes(rng, data)
    if rng.random() < 0.1:
        data = rng.choice(_COMPRESSIONS)(data)
        if rng.random() < 0.7:
            data = damage_bytes(rng, data)
    return data


def _repeated(rng: Random, rows: list[str]) -> list[str]:
    """Return rows, and now and then so many of the same ones that a reader has several windows."""
    if rows and rng.random() < 0.0005:
        return rng.choices(rows, k=rng.randrange(20_000, 40_000))
    return rows


def _n_rows(rng: Random) -> int:
    return int(60 * rng.random() ** 2)


def check_chunks(chunks: list[Chunk], n_features: int) -> None:
    """Assert what every chunk promises."""
    row = 0
    for chunk in chunks:
        assert len(chunk) > 0
        assert chunk.first_row == row
        assert chunk.X.shape[1] == n_features
        values = chunk.X
        if hasattr(values, "tocsr"):
            assert values.indptr[0] == 0
            assert (np.diff(values.indptr) >= 0).all()
            assert values.indptr[-1] == len(values.indices) == len(values.data)
            assert not len(values.indices) or values.indices.min() >= 0
            assert not len(values.indices) or values.indices.max() < n_features
            values = values.data
        assert np.isfinite(values).all()
        assert chunk.y is None or (len(chunk.y) == len(chunk) and np.isfinite(chunk.y).all())
        assert chunk.qid is None or len(chunk.qid) == len(chunk)
        assert len(chunk.lines) == len(chunk)
        row += len(chunk)
        assert chunk.position.row == row


def content(chunks: list[Chunk]) -> tuple[Any, ...]:
    """Return everything that chunks hold, however they are cut."""
    X = [c.X.toarray() if hasattr(c.X, "tocsr") else c.X for c in chunks]
    return (
        np.concatenate(X).tobytes(),
        None if chunks[0].y is None else np.concatenate([c.y for c in chunks]).tobytes(),
        None if chunks[0].qid is None else np.concatenate([c.qid for c in chunks]).tobytes(),
        np.concatenate([c.lines for c in chunks]).tolist(),
    )


def _refused(reader: Reader) -> tuple[int, list[int]]:
    """Return how many rows were refused, and the lines of the first ones."""
    refusals = reader.refusals
    return refusals.count, [refusal.line for refusal in refusals.first]


class _Text(Target):
    """What the text formats share: three ways of reading that must agree."""

    expected = (ReadError,)

    def prepare(self, folder: Path) -> None:
        # What is compiled here need not be compiled, or loaded, by every child.
        rng = Random(0)
        for _ in range(40):
            with contextlib.suppress(ReadError):
                self.use((*self.draw(rng, sound=True), 2), folder)

    @abstractmethod
    def draw(self, rng: Random, *, sound: bool = False) -> tuple[bytes, dict[str, Any]]:
        """Return a text, damaged or not, and options of its reader."""

    def make(self, rng: Random) -> tuple[bytes, dict[str, Any], int]:
        return *self.draw(rng), rng.randrange(1, 50)

    @abstractmethod
    def open(self, source: Any, options: dict[str, Any]) -> Reader:
        """Return the reader of a source."""

    def use(self, given: tuple[bytes, dict[str, Any], int], folder: Path) -> None:
        data, options, step = given
        way = step % 4
        try:
            reader = self.open(io.BytesIO(data), options)
            chunks = list(reader)
        except ReadError:
            if way == 0 and b"\n" in data[:4]:
                self._refused_too(_Pieces(data, step), options)
            raise
        check_chunks(chunks, reader.n_features)
        if way == 0 and len(data) < 5000:
            twin = self.open(_Pieces(data, step), options)
            again = list(twin)
            name = "from a slow pipe"
        elif way == 1:
            twin = self.open(io.BytesIO(data), {**options, "chunk_rows": step})
            again = list(twin)
            name = f"in chunks of {step}"
        elif way == 2 and len(data) < 5000:
            path = folder / "a.txt"
            path.write_bytes(data)
            small = {**options, "chunk_rows": 1 + step % 9}
            again = list(self.open(path, small))
            at = step % len(again)
            twin = self.open(path, small)
            twin.restore(again[at].position)
            again = again[: at + 1] + list(twin)
            name = "resumed"
        else:
            return
        assert content(again) == content(chunks), f"{name} it is other data"
        assert _refused(twin) == _refused(reader), f"{name} it refuses other rows"

    def _refused_too(self, source: Any, options: dict[str, Any]) -> None:
        try:
            list(self.open(source, options))
        except ReadError:
            return
        raise AssertionError("what is refused whole is read from a slow pipe")


_SCHEMAS = (
    Schema(label="y"),
    Schema(label="y", missing=0.0),
    Schema(label="y", missing="indicator", dtype="float32"),
    Schema(label=-1, categorical={"b": 8, "c": ["red", "blue"]}, unknown="ignore"),
    Schema(label="y", qid="c", features=("a", "b")),
    Schema(label="y", classes=("0", "1")),
    Schema(label="y", classes=(0.0, 1.0)),
    Schema(features=("a",), missing={"a": -1.0}),
)


class CsvText(_Text):
    """Delimited text with every kind of schema."""

    name = "csv"
    weight = 4

    def draw(self, rng: Random, *, sound: bool = False) -> tuple[bytes, dict[str, Any]]:
        delimiter = rng.choice(",,,;\t|")
        end = rng.choice(["\n", "\n", "\r\n"])
        rows = [delimiter.join("abcy")]
        for _ in range(_n_rows(rng)):
            fields = [_number(rng) for _ in range(3)] + [rng.choice("0011 x")]
            if rng.random() < 0.2:
                fields[2] = rng.choice(["red", "blue", "3", '"red"', '"r""x"', '"a,b"', '"a\nb"'])
            if rng.random() < 0.03:
                fields = fields[: rng.randrange(5)] + ["1"] * rng.randrange(2)
            rows.append(delimiter.join(fields))
        rows[1:] = _repeated(rng, rows[1:])
        data = (end.join(rows) + end * rng.randrange(2)).encode()
        options = {
            "schema": rng.choice(_SCHEMAS),
            "delimiter": delimiter,
            "strict": rng.random() < 0.05,
        }
        return (data if sound else _damaged(rng, data)), options

    def open(self, source: Any, options: dict[str, Any]) -> Reader:
        return CsvReader(source, **options)


class SvmlightText(_Text):
    """Sparse rows, with and without queries."""

    name = "svmlight"
    weight = 4

    def draw(self, rng: Random, *, sound: bool = False) -> tuple[bytes, dict[str, Any]]:
        rows = []
        zero_based = rng.random() < 0.2
        for _ in range(_n_rows(rng)):
            places = sorted(rng.sample(range(0 if zero_based else 1, 30), rng.randrange(8)))
            if rng.random() < 0.03:
                places.append(rng.choice([0, -1, 31, 2**31 - 2, 2**31, 10**25]))
            entries = [f"{j}:{_number(rng)}" for j in places]
            start = [rng.choice(["1", "-1", "0", "1.5", "x", ""][: 4 if rng.random() < 0.9 else 6])]
            if rng.random() < 0.5:
                start.append(f"qid:{rng.choice([0, 1, 2, 3, -1, 10**20])}")
            rows.append(" ".join(start + entries) + rng.choice(["", "", "", " # note", " "]))
        end = rng.choice(["\n", "\n", "\r\n"])
        rows = _repeated(rng, rows)
        data = (end.join(rows) + end * rng.randrange(2)).encode()
        options = {
            "n_features": 30,
            "zero_based": zero_based,
            "qid": rng.random() < 0.2,
            "dtype": rng.choice(["float64", "float32"]),
            "classes": rng.choice([None, None, (-1.0, 1.0)]),
            "strict": rng.random() < 0.05,
        }
        if rng.random() < 0.2:
            options["n_features"] = None
        return (data if sound else _damaged(rng, data)), options

    def use(self, given: tuple[bytes, dict[str, Any], int], folder: Path) -> None:
        data, options, _ = given
        if options["n_features"] is not None:
            super().use(given, folder)
            return
        path = folder / "a.svm"  # the width is searched in a file only
        path.write_bytes(data)
        reader = self.open(path, options)
        check_chunks(list(reader), reader.n_features)

    def open(self, source: Any, options: dict[str, Any]) -> Reader:
        return SvmlightReader(source, **options)
