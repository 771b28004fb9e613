# SPDX-License-Identifier: BSD-3-Clause
"""A line of progress on standard error, shown only on a terminal, in a notebook or on request."""

from __future__ import annotations

import sys
import time
from typing import Any, Self, TextIO

#: Seconds between two updates of the line.
_SECONDS = 0.2


def format_count(count: float) -> str:
    """Return a number for a person."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if count >= size:
            scale = 1e3 if unit == "k" else size
            return f"{count / scale:.3g} {unit}"
    return f"{count:.0f}"


class Progress:
    """One line with a count, its rate, a note and the time, which is written over.

    If the file (by default standard error) is not a terminal, nothing is shown. With `asked_for`
    the line stays at the end: a notebook shows it while it changes, and a file gets the last one.
    """

    def __init__(
        self,
        total: int | None = None,
        *,
        label: str = "",
        unit: str = "rows",
        file: TextIO | None = None,
        quiet: bool = False,
        asked_for: bool = False,
    ) -> None:
        self._file = sys.stderr if file is None else file
        self._total, self._label, self._unit, self._keep = total, label, unit, asked_for
        terminal = self._file.isatty()
        self.visible = asked_for or (terminal and not quiet)
        self._rewrites = terminal or _is_notebook()
        self._first: tuple[float, float] | None = None
        self._text, self._longest, self._written = label, 0, 0.0

    def __enter__(self) -> Self:
        self._started = time.monotonic()
        return self

    def update(
        self, count: int, total: int | None = None, note: str = "", *, done: int | None = None
    ) -> None:
        """Show the progress; pass `done` if the count does not measure it."""
        if not self.visible:
            return
        now = time.monotonic()
        self._total = self._total if total is None else total
        self._first = self._first or (now, count)
        known = done is None and self._total is not None
        shown = f"{count:,}/{self._total:,}" if known else format_count(count)
        rate = (count - self._first[1]) / max(now - self._first[0], 1e-9)
        share = ""
        if self._total:
            share = f"{100 * (count if done is None else done) / self._total:3.0f} %"
        facts = [f"{shown} {self._unit}"]
        facts += [f"{format_count(rate)} {self._unit}/s"] if rate >= 10.0 else []
        facts += [note] if note else []
        self._text = "  ".join(filter(None, (self._label, share, ", ".join(facts))))
        if self._rewrites and now - self._written >= _SECONDS:
            self._write()

    def _write(self) -> None:
        self._written = time.monotonic()
        line = f"{self._text}  {self._written - self._started:.1f} s"
        # Blanks hide the rest of a longer line.
        self._longest = max(self._longest, len(line))
        self._file.write(f"\r{line.ljust(self._longest)}" if self._rewrites else line)
        self._file.flush()

    def __exit__(self, *_: Any) -> None:
        if self.visible and self._keep:
            self._write()
            self._file.write("\n")
        elif self.visible:
            self._file.write(f"\r{' ' * self._longest}\r")


def _is_notebook() -> bool:
    """Return whether a notebook cell runs this."""
    shell = sys.modules.get("IPython")
    return shell is not None and hasattr(shell.get_ipython(), "kernel")
