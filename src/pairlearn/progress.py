# SPDX-License-Identifier: BSD-3-Clause
"""A progress bar on standard error, shown only on a terminal or on request."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Any, Self, TextIO

#: Seconds between two updates of a line in a notebook.
_SECONDS = 0.5


def format_count(count: float) -> str:
    """Return a number for a person."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if count >= size:
            scale = 1e3 if unit == "k" else size
            return f"{count / scale:.3g} {unit}"
    return f"{count:.0f}"


class Progress:
    """A bar with a count, its rate, a note and the time left.

    If the file (by default standard error) is not a terminal, nothing is shown and nothing is
    imported. With `asked_for` the bar is drawn on any file and stays at the end: a notebook, which
    is not a terminal, shows one updated line, and a file gets one line.
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
        self._bar: Any = None
        self._first: tuple[float, float] | None = None
        self.visible = asked_for or (self._file.isatty() and not quiet)

    def __enter__(self) -> Self:
        if self.visible and not self._file.isatty():
            self._bar = _Line(self._file, rewritten=_is_notebook())
        elif self.visible:
            from rich import progress
            from rich.console import Console

            self._bar = progress.Progress(
                progress.TextColumn("{task.description}"),
                progress.BarColumn(),
                progress.TextColumn("{task.fields[text]}"),
                progress.TimeElapsedColumn(),
                progress.TimeRemainingColumn(),
                console=Console(file=self._file, force_jupyter=False),
                transient=not self._keep,
                refresh_per_second=5,
            )
        if self._bar is not None:
            self._task = self._bar.add_task(self._label, total=self._total, text="")
            self._bar.start()
        return self

    def update(
        self, count: int, total: int | None = None, note: str = "", *, done: int | None = None
    ) -> None:
        """Show the progress; pass `done` if the count does not measure it."""
        if self._bar is None:
            return
        now = time.monotonic()
        self._total = self._total if total is None else total
        self._first = self._first or (now, count)
        known = done is None and self._total is not None
        parts = [f"{count:,}/{self._total:,}" if known else format_count(count)]
        parts[0] += f" {self._unit}"
        rate = (count - self._first[1]) / max(now - self._first[0], 1e-9)
        if rate >= 10.0:
            parts.append(f"{format_count(rate)} {self._unit}/s")
        parts += [note] if note else []
        completed = count if done is None else done
        self._bar.update(self._task, completed=completed, total=self._total, text=", ".join(parts))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()


def _is_notebook() -> bool:
    """Return whether a notebook cell runs this."""
    shell = sys.modules.get("IPython")
    return shell is not None and hasattr(shell.get_ipython(), "kernel")


class _Line:
    """One line of text with the interface of a bar; notebooks need no widgets for it."""

    def __init__(self, file: TextIO, *, rewritten: bool) -> None:
        self._file, self._rewritten = file, rewritten
        self._text, self._longest = "", 0
        self._started = self._written = time.monotonic()

    def add_task(self, label: str, *, total: int | None, text: str) -> int:
        self._label = label
        return 0

    def start(self) -> None:
        self._started = time.monotonic()

    def update(self, task: int, *, completed: int, total: int | None, text: str) -> None:
        share = f"{100 * completed / total:3.0f} %" if total else ""
        self._text = "  ".join(part for part in (self._label, share, text) if part)
        if self._rewritten and time.monotonic() - self._written >= _SECONDS:
            self._write()

    def _write(self) -> None:
        self._written = time.monotonic()
        line = f"{self._text}  {self._written - self._started:.1f} s"
        # blanks hide the rest of a longer line
        start, self._longest = "\r" if self._rewritten else "", max(self._longest, len(line))
        self._file.write(start + line.ljust(self._longest if self._rewritten else 0))
        self._file.flush()

    def stop(self) -> None:
        self._write()
        self._file.write("\n")
