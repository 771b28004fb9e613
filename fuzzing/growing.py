# SPDX-License-Identifier: BSD-3-Clause
"""Wide, long, deep and repetitive inputs: the cost of reading one grows with its size, not faster.

Most inputs are small and only need to be read or refused. A few are large: they are read at a size
and at four times that size, and the second may take at most `_MOST` times the processor time of
the first. Linear cost takes 4 times, quadratic cost 16 times.
"""

from __future__ import annotations

import contextlib
import io
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

from fuzzing.campaign import Target
from fuzzing.learners import named_learner
from pairlearn.cli.shared.settings import read_toml
from pairlearn.cli.stream import Conversation, _reply
from pairlearn.streams import ProgressiveAUC, ReadError
from pairlearn.tables.fitting import TableOptions, plan_table

__all__ = ["Growing", "check_growth"]

#: How many times longer four times the input may take.
_MOST = 6.0
#: Seconds below which a clock says nothing about growth.
_TOO_SHORT = 0.02
#: A busy machine is given this number of chances.
_CHANCES = 4
#: The share of inputs that are large.
_LARGE = 0.005


def _rows(names: list[str], rows: list[list[str]]) -> bytes:
    return "\n".join(",".join(row) for row in (names, *rows)).encode() + b"\n"


def _wide(n: int) -> bytes:
    body = [[f"{(j * k) % 97}.5" for j in range(n)] + [str(k % 2)] for k in range(4)]
    return _rows([*(f"c{j}" for j in range(n)), "y"], body)


def _same_names(n: int) -> bytes:
    return _rows([*["c"] * n, "y"], [["1.5"] * n + ["0"], ["2.5"] * n + ["1"]])


def _levels(n: int) -> bytes:
    return _rows(["c", "y"], [[f"level {k // 2}", str(k % 2)] for k in range(2 * n)])


def _commas(n: int) -> bytes:
    return b"c,y\n1.5,0\n2.5,1\n" + b"," * (10 * n) + b"\n"


def _long_line(n: int) -> bytes:
    return b"c,y\n1.5,0\n2.5,1\n" + b"word " * (10 * n) + b",1\n"


def _quotes(n: int) -> bytes:
    return b"c,y\n1.5,0\n2.5,1\n" + b'"a""b' * (4 * n) + b"\n"


def _read_table(data: bytes, folder: Path) -> None:
    plan_table([io.BytesIO(data)], TableOptions(label="y"))


def _read_options(data: bytes, folder: Path) -> None:
    path = folder / "options.toml"
    path.write_bytes(data)
    read_toml(str(path))


def _read_line(data: bytes, folder: Path) -> None:
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    for kind in ("moments", "descent"):
        talk = Conversation(named_learner(kind), ProgressiveAUC(10), 3)
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            _reply(talk, data.decode(), False, 1 << 30)


def _many_names(n: int) -> bytes:
    return json.dumps({"x": {f"c{j}": 1.5 for j in range(n)}, "y": 1}).encode()


#: Each shape: how to write it at a size, and who reads it.
_SHAPES: dict[str, tuple[Callable[[int], bytes], Callable[[bytes, Path], None]]] = {
    "many columns": (_wide, _read_table),
    "one name for all columns": (_same_names, _read_table),
    "many levels": (_levels, _read_table),
    "commas": (_commas, _read_table),
    "a long line": (_long_line, _read_table),
    "quotes": (_quotes, _read_table),
    "deep lists": (lambda n: b"[" * n + b"]" * n, _read_line),
    "deep objects": (lambda n: b'{"x":' * n + b"1" + b"}" * n, _read_line),
    "many features": (_many_names, _read_line),
    "deep TOML": (lambda n: b"a = " + b"[" * n + b"]" * n, _read_options),
    "dotted TOML": (lambda n: b".".join([b"a"] * min(n, 2_000)) + b" = 1\n", _read_options),
}


@dataclass(frozen=True)
class _Input:
    shape: str
    size: int
    #: Whether the cost is compared with that of four times the size.
    is_large: bool


def check_growth(read: Callable[[int], None], size: int) -> None:
    """Assert that four times the size takes at most `_MOST` times the processor time."""
    for _ in range(_CHANCES):
        first, second = (_seconds(read, n) for n in (size, 4 * size))
        if second <= _MOST * max(first, _TOO_SHORT):
            return
    raise AssertionError(
        f"size {size} takes {first:.3f} s and {4 * size} takes {second:.3f} s, in each of "
        f"{_CHANCES} attempts"
    )


def _seconds(read: Callable[[int], None], size: int) -> float:
    begin = time.process_time()
    read(size)
    return time.process_time() - begin


class Growing(Target):
    """Inputs of a shape that can grow without end."""

    name = "growing"
    expected = (ReadError, ValueError)

    def make(self, rng: Random) -> _Input:
        """Return a shape and a size."""
        large = rng.random() < _LARGE
        size = rng.randrange(2_000, 4_000) if large else rng.randrange(1, 60)
        return _Input(rng.choice(list(_SHAPES)), size, large)

    def use(self, given: _Input, folder: Path) -> None:
        """Read the input; a large one twice, to compare the cost."""
        write, read = _SHAPES[given.shape]
        if not given.is_large:
            read(write(given.size), folder)
            return
        refusals: list[Exception] = []

        def attempt(size: int) -> None:
            try:
                read(write(size), folder)
            except self.expected as error:
                refusals.append(error)

        check_growth(attempt, given.size)
        if refusals:
            raise refusals[-1]
