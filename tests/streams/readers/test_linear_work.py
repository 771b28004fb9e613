# SPDX-License-Identifier: BSD-3-Clause
"""Hostile data take work in proportion to their size: bytes looked at and calls, not seconds."""

from __future__ import annotations

import contextlib
import io

import numpy as np
import pytest

from pairlearn.streams.readers.base import ReadError
from pairlearn.streams.readers.byte_source import ByteSource
from pairlearn.streams.readers.byte_window import Blocks
from pairlearn.streams.readers.csv import CsvReader
from pairlearn.streams.readers.schema import Schema
from pairlearn.streams.readers.svmlight import SvmlightReader

SCHEMA = Schema(label="y")
HEAD = b"x,y\n"

NEVER_CLOSED = {
    "the review": b'x","\n',
    "each line opens": b'"a\n',
    "opened after numbers": b'1,"\n',
    "doubled": b'"""",""\n',
}


class Trickle(io.RawIOBase):
    """A pipe that brings a few bytes at a time, and counts how often it is asked."""

    def __init__(self, data: bytes, step: int) -> None:
        self._file, self._step, self.calls = io.BytesIO(data), step, 0

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        self.calls += 1
        return self._file.read(min(self._step, size))


def scanned(source: object, **options: object) -> int:
    """Read everything; return how many bytes the parser has looked at."""
    reader = CsvReader(source, SCHEMA, **options)  # type: ignore[arg-type]
    blocks = reader._blocks
    # Nothing but rows that are refused is no data.
    with contextlib.suppress(ReadError):
        list(reader)
    return blocks.scanned


@pytest.mark.parametrize("kind", NEVER_CLOSED)
@pytest.mark.parametrize("limit", [1 << 12, 1 << 25])
def test_quotes_that_never_close_are_looked_at_a_few_times(kind: str, limit: int) -> None:
    line = NEVER_CLOSED[kind]
    for n in (2_000, 40_000):
        text = HEAD + line * (n // 2) + b'"' + line * (n // 2)
        assert scanned(io.BytesIO(text), max_line_bytes=limit) <= 6 * len(text)


def test_a_slow_pipe_is_not_read_again_for_every_piece() -> None:
    for size in (10_000, 200_000):
        wide = HEAD + b"1" * size + b",0\n"
        assert scanned(Trickle(wide, 64)) <= 3 * len(wide)
        lines = HEAD + b'"' + b"1\n" * size + b'",0\n'
        assert scanned(Trickle(lines, 64)) <= 20 * len(lines)


def test_a_complete_line_of_a_slow_pipe_does_not_wait() -> None:
    text = b"t,x,y\n" + b'"' + b"\n" * 2000 + b'",1,0\n' + b",2,1\n" * 1000
    pipe = Trickle(text, 4)
    chunks = iter(CsvReader(pipe, Schema(label="y", features=("x",)), chunk_rows=1))
    assert next(chunks).y == [0.0]
    assert pipe.calls < 2020 // 4 * 1.3
    calls = pipe.calls
    for _ in range(100):
        next(chunks)
    assert pipe.calls <= calls + 130


def test_blank_lines_before_the_header_are_passed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looked = []
    original = Blocks._newline

    def counted(self: Blocks, begin: int, stop: int) -> int:
        place = original(self, begin, stop)
        looked.append((stop if place < 0 else place + 1) - begin)
        return place

    monkeypatch.setattr(Blocks, "_newline", counted)
    for n in (1_000, 50_000):
        looked.clear()
        blocks = Blocks(ByteSource(io.BytesIO(b"\n" * n + b"x,y\n1,0\n")), 1 << 20)
        blocks.refill()
        assert blocks.first_record() == ("x,y", 4, n + 1)
        assert sum(looked) <= 2 * n + 20
        assert len(looked) <= n + 5


def test_a_header_is_looked_at_once_from_a_slow_pipe() -> None:
    text = b'"' + b"x\n" * 5000 + b'",y\n1,0\n'
    [chunk] = CsvReader(Trickle(text, 7), Schema(label="y"))
    assert chunk.lines.tolist() == [5002]
    with pytest.raises(ReadError, match="longer than 1000 bytes"):
        CsvReader(Trickle(text, 7), Schema(label="y"), max_line_bytes=1000)


class Counted(str):
    """A column name that counts how often it is compared."""

    calls = 0

    def __eq__(self, other: object) -> bool:
        Counted.calls += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def test_names_of_columns_are_found_without_a_search() -> None:
    for n in (200, 2_000):
        names = [Counted(f"c{j}") for j in range(n)]
        Counted.calls = 0
        wanted = tuple(f"c{j}" for j in reversed(range(1, n)))
        Schema(label="c0", features=wanted).layout(names, "a.csv")
        with pytest.raises(ReadError, match="more than one column"):
            Schema().layout([*names, *names], "a.csv")
        assert Counted.calls <= 20 * n


def test_svmlight_from_a_slow_pipe_is_read_once() -> None:
    for n in (1_000, 40_000):
        row = b"1 " + b" ".join(b"%d:1" % j for j in range(1, n)) + b"\n"
        pipe = Trickle(row * 2, 64)
        reader = SvmlightReader(pipe, n_features=n)
        refills = []
        original = reader._blocks.refill

        def refill(kept: list[int] = refills, blocks: Blocks = reader._blocks,
                   call: object = original) -> None:  # fmt: skip
            kept.append(blocks.end - blocks.start)
            call()  # type: ignore[operator]

        reader._blocks.refill = refill  # type: ignore[method-assign]
        assert sum(len(chunk) for chunk in reader) == 2
        assert sum(refills) <= 4 * len(row)


# ------------------------------------------------------------------- the same results as before


def record_end(text: bytes, begin: int) -> int | None:
    """Return where the record at `begin` ends; None if a quote stays open."""
    p = begin
    while True:
        if text[p : p + 1] == b'"':
            p += 1
            while True:
                p = text.find(b'"', p)
                if p < 0:
                    return None
                if text[p + 1 : p + 2] != b'"':
                    break
                p += 2
            p += 1
        while p < len(text) and text[p : p + 1] not in (b",", b"\n"):
            p += 1
        if text[p : p + 1] != b",":
            return min(p + 1, len(text))
        p += 1


def lines_of_open_quotes(text: bytes) -> list[int]:
    """Return the lines at which a record opens a quote for good, one look ahead for each."""
    place, line, found = 0, 1, []
    while place < len(text):
        end = record_end(text, place)
        if end is None:
            found.append(line)
            end = text.find(b"\n", place) + 1 or len(text)
        line += text.count(b"\n", place, end)
        place = end
    return found


def refused(text: bytes, reader: CsvReader) -> list[int]:
    """Return the lines that a reader refuses for an open quote."""
    found: list[int] = []
    original = reader.refuse

    def refuse(refusals: object, source: str, line: int, reason: str) -> object:
        if "never closed" in reason:
            found.append(line)
        return original(refusals, source, line, reason)  # type: ignore[arg-type]

    reader.refuse = refuse  # type: ignore[method-assign, assignment]
    with contextlib.suppress(ReadError):
        list(reader)
    return found


def test_lines_refused_are_those_of_one_look_ahead_for_each() -> None:
    rng = np.random.default_rng(5)
    for _ in range(400):
        symbols = rng.choice(list('"",,\n\n1x'), size=int(rng.integers(1, 40)))
        text = b"1,0\n" + "".join(symbols).encode()
        reader = CsvReader(io.BytesIO(text), Schema(label=1), header=False)
        assert refused(text, reader) == lines_of_open_quotes(text), text


def test_resuming_between_open_quotes_gives_the_same_rows(tmp_path: object) -> None:
    path = tmp_path / "a.csv"  # type: ignore[operator]
    rng = np.random.default_rng(6)
    for _ in range(20):
        lines = rng.choice(["1,0\n", '2,"1"\n', '"3\n', '"4\n",1\n', '5,"\n'], size=60)
        path.write_bytes(HEAD + "".join(lines).encode())
        options = {"chunk_rows": 2, "max_line_bytes": 32}
        chunks = list(CsvReader(path, SCHEMA, **options))  # type: ignore[arg-type]
        for k, chunk in enumerate(chunks[:-1]):
            reader = CsvReader(path, SCHEMA, **options)  # type: ignore[arg-type]
            reader.restore(chunk.position)
            rest = list(reader)
            assert [c.lines.tolist() for c in rest] == [c.lines.tolist() for c in chunks[k + 1 :]]
            assert rest[-1].position == chunks[-1].position
