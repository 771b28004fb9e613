# SPDX-License-Identifier: BSD-3-Clause
"""The CSV parser agrees with the standard library, field by field and bit by bit."""

from __future__ import annotations

import io
import math
import random
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pairlearn.streams import ReadError, Schema, open_reader
from pairlearn.tables import text as text_module


def csv_reader(source, schema, **options):
    return open_reader(source, schema, format="csv", **options)


def bits(x):
    return struct.pack("<d", x)


def read_numbers(texts):
    """The column of numbers as the reader sees it."""
    body = "x,y\n" + "".join(f"{text},0\n" for text in texts)
    reader = csv_reader(io.BytesIO(body.encode()), Schema(label="y", missing=0.0), strict=True)
    return np.concatenate([chunk.X[:, 0] for chunk in reader])


numbers = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.integers(-(10**25), 10**25).map(str),
    st.decimals(allow_nan=False, allow_infinity=False).map(str),
    st.from_regex(r"[+-]?[0-9]{0,25}\.[0-9]{1,25}([eE][+-]?[0-9]{1,3})?", fullmatch=True),
    st.from_regex(r"[+-]?[0-9]{1,20}\.?([eE][+-]?[0-9]{1,3})?", fullmatch=True),
    st.from_regex(r"0\.0{0,30}[0-9]{1,20}", fullmatch=True),
).filter(lambda text: math.isfinite(float(text)))


@given(st.lists(numbers, min_size=1, max_size=20))
@settings(max_examples=100, deadline=None)
@pytest.mark.thorough
def test_numbers_are_those_of_float(texts):
    got = read_numbers(texts)
    assert [bits(x) for x in got] == [bits(float(text)) for text in texts]


def test_many_random_doubles_and_ties():
    rng = random.Random(1)
    texts = []
    for _ in range(5000):
        texts.append(repr(struct.unpack("<d", struct.pack("<Q", rng.getrandbits(64)))[0]))
        texts.append(f"{rng.gauss(0, 1):.{rng.randint(0, 18)}f}")
        texts.append(f"{rng.gauss(0, 10.0 ** rng.randint(-30, 30)):.{rng.randint(0, 20)}e}")
        texts.append(f"{rng.getrandbits(rng.randint(1, 64))}e{rng.randint(-330, 308)}")
        # exactly half-way between two doubles, and one unit to each side of it
        middle = 2 * (rng.getrandbits(52) | (1 << 52)) + 1
        texts.extend(str(middle * 4 + k) + f"e{rng.randint(0, 3)}" for k in (-1, 0, 1))
        texts.append(str(middle))
        # the same half-way, divided by a power of two
        k = rng.randint(1, 4)
        texts.append(f"{(middle >> 12 | 1) * 5**k}e-{k}")
        texts.append(f"{(middle * 5**k)}E-0{k}")
    texts = [text for text in texts if math.isfinite(float(text))]
    got = read_numbers(texts)
    assert [bits(x) for x in got] == [bits(float(text)) for text in texts]


def test_every_shape_of_plain_decimals():
    """All numbers of digits before and after the point, around where the fast path ends."""
    rng = random.Random(2)
    texts = []
    for before in range(19):
        for after in range(22):
            for sign in ("", "-", "+"):
                digits = "".join(rng.choice("0123456789") for _ in range(before + after))
                plain = f"{sign}{digits[:before]}.{digits[before:]}"
                texts += [plain] if before + after else []
                texts += [plain.replace("0", "9"), plain.replace(".", "")] * (before > 0)
                texts += [f"{sign}{'0' * before}.{'0' * after}"] if before + after else []
                power = rng.choice(["e-01", "E+00", "e5", "e+012", "e-0000003", "e22", "E-300"])
                texts += [plain + power] if before + after else []
    got = read_numbers(texts)
    assert [bits(x) for x in got] == [bits(float(text)) for text in texts]


@pytest.mark.parametrize(
    "text",
    ["2.2250738585072014e-308", "4.9406564584124654e-324", "2.4703282292062327e-324", "1e-400",
     "0e999999999", "1.7976931348623157e308", "9007199254740993", "9007199254740992.99999999999",
     "0." + "0" * 400 + "1", "1" + "0" * 300, "123456789012345678901234567890e-20",
     "-0", "-0.0", "00000000000000000000000000001.5", "1.", ".5", "+7"],
)  # fmt: skip
def test_hard_numbers(text):
    assert bits(read_numbers([text])[0]) == bits(float(text))


@given(data=st.binary(max_size=400), chunk_rows=st.integers(1, 4))
@settings(max_examples=100, deadline=None)
def test_any_bytes_give_rows_or_a_read_error(data, chunk_rows):
    try:
        reader = csv_reader(io.BytesIO(b"a,b\n" + data), Schema(label="b"), chunk_rows=chunk_rows)
        for chunk in reader:
            assert np.isfinite(chunk.X).all()
    except ReadError as error:
        message = str(error)
        if "\n" in message:
            pytest.fail(message)


@given(
    text=st.text(alphabet='01.,"\n\r e-', max_size=200),
    block=st.integers(1, 40),
)
@settings(max_examples=100, deadline=None)
@pytest.mark.thorough
def test_block_borders_change_nothing(text, block):
    """The same rows, lines and refusals whatever the size of the blocks."""

    def read(size):
        old = text_module._BYTES
        text_module._BYTES = size
        try:
            reader = csv_reader(
                io.BytesIO(b"a,b\n" + text.encode()), Schema(label="b"), chunk_rows=3
            )
            rows = [(c.X.tolist(), c.y.tolist(), c.lines.tolist()) for c in reader]
            return rows, reader.refusals.count, [r.line for r in reader.refusals.first]
        except ReadError as error:
            return str(error)
        finally:
            text_module._BYTES = old

    assert read(block) == read(1 << 20)


@pytest.mark.parametrize("block", [4096, 4097, 5000, 12_288, 1 << 16])
@pytest.mark.parametrize("piece", [100, 4095, 4096, 5000, 1 << 20])
def test_whole_pages_bring_the_same_rows(block, piece, monkeypatch):
    """Blocks of more than a page are read by pages, to places that begin a cache line."""
    rng = random.Random(block + piece)
    rows = [[float(k), rng.gauss(0, 1), float(k % 2)] for k in range(1000)]
    lines = [",".join(map(repr, row)) for row in rows]
    for k in rng.sample(range(1000), 9):
        lines[k] += " " * rng.randint(1, 3 * block)
    text = "a,b,y\n" + "\n".join(lines) + "\n"
    monkeypatch.setattr(text_module, "_BYTES", block)
    reader = csv_reader(Pieces(text.encode(), piece), Schema(label="y"))
    chunks = list(reader)
    assert [[*x, y] for c in chunks for x, y in zip(c.X.tolist(), c.y, strict=True)] == rows


class Pieces(io.RawIOBase):
    """A pipe that gives at most `size` bytes at a time."""

    name = "pipe"

    def __init__(self, data, size):
        self._data = data
        self._size = size

    def readable(self):
        return True

    def readinto(self, buffer):
        part = self._data[: min(self._size, len(buffer))]
        self._data = self._data[len(part) :]
        buffer[: len(part)] = part
        return len(part)


ODD_TEXT = st.text(alphabet='ab01,"\n\r.', max_size=80).map(str.encode)


@given(data=st.one_of(st.binary(max_size=300), ODD_TEXT), header=st.booleans())
@settings(max_examples=100, deadline=None)
def test_any_first_line_is_read_or_refused(data, header):
    try:
        for chunk in csv_reader(io.BytesIO(data), Schema(label=-1), header=header):
            assert np.isfinite(chunk.X).all()
    except ReadError as error:
        message = str(error)
        if "\n" in message:
            pytest.fail(message)


@given(text=st.text(alphabet='01.,"\n\r x', max_size=200), chunk_rows=st.integers(1, 4))
@settings(max_examples=60, deadline=None)
def test_any_text_resumes_exactly(text, chunk_rows, tmp_path_factory):
    path = tmp_path_factory.mktemp("resume") / "a.csv"
    path.write_bytes(b"a,b\n1,1\n" + text.encode())

    def make():
        return csv_reader(path, Schema(label="b"), chunk_rows=chunk_rows)

    whole = list(make())
    for k, chunk in enumerate(whole):
        reader = make()
        reader.restore(chunk.position)
        rest = list(reader)
        assert [c.X.tolist() for c in rest] == [c.X.tolist() for c in whole[k + 1 :]]
        assert [c.position for c in rest] == [c.position for c in whole[k + 1 :]]
