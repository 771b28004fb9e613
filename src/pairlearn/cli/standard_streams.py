# SPDX-License-Identifier: BSD-3-Clause
"""Standard output and standard error that are closed, full, or read by nobody.

A message that cannot be shown must not end the work, and a result that cannot be shown must not
pass for a success.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
from typing import Any

from pairlearn.atomic import open_named

#: The name of standard output in errors.
OUTPUT = "standard output"


class _Forgiving(io.TextIOWrapper):
    """A text stream that drops what cannot be written."""

    def write(self, text: str) -> int:
        """Write a text, or drop it."""
        try:
            return super().write(text)
        except OSError:
            return len(text)

    def flush(self) -> None:
        """Write what is left, or drop it."""
        with contextlib.suppress(OSError):
            super().flush()


def mend() -> None:
    """Make the standard streams of this process usable.

    A closed descriptor is given to /dev/null: otherwise the next file that is opened would get its
    number, and messages would go into that file. Writing to a standard output that was closed is
    still an error. Messages on standard error that cannot be written are dropped.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # An output that is open for reading only refuses what is written to it.
            os.open(os.devnull, os.O_RDONLY if number < 2 else os.O_WRONLY)
    if sys.stdin is None:
        sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(0, closefd=False)), "utf-8")
    # A program that runs this one within itself may have put streams of its own in their place.
    if sys.stdout is sys.__stdout__:
        out = open_named(1, OUTPUT, closefd=False)
        sys.stdout = io.TextIOWrapper(out, **_how(sys.stdout))
    if sys.stderr is sys.__stderr__:
        err = open_named(2, "standard error", closefd=False)
        sys.stderr = _Forgiving(err, **{**_how(sys.stderr), "errors": "backslashreplace"})


def _how(stream: Any) -> dict[str, Any]:
    """Return how a standard stream turns text into bytes; None is one that was closed."""
    if stream is None:
        return {"encoding": "utf-8", "errors": "backslashreplace"}
    stream.flush()
    names = ("encoding", "errors", "line_buffering", "write_through")
    return {name: getattr(stream, name) for name in names}


def is_about_output(error: OSError) -> bool:
    """Whether an error is about standard output, which is given up then."""
    if error.filename != OUTPUT and not (
        error.filename is None and isinstance(error, BrokenPipeError)
    ):
        return False
    # Python would try again at its end, and complain.
    with open(os.devnull, "wb") as nothing:
        os.dup2(nothing.fileno(), 1)
    return True
