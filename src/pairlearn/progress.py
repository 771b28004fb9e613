# SPDX-License-Identifier: BSD-3-Clause
"""One progress bar, on standard error and only where a person looks on."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Any, Self, TextIO

__all__ = ["Progress", "format_count"]


def format_count(count: float) -> str:
    """Return a number for a person.

    >>> format_count(950), format_count(1234567), format_count(2.5e9)
    ('950', '1.23 M', '2.5 G')
    """
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if count >= size:
            scale = 1e3 if unit == "k" else size
            return f"{count / scale:.3g} {unit}"
    return f"{count:.0f}"


class Progress:
    """A bar with a count, its rate, a note and the time left.

    Where the file (by default standard error) is not a terminal nothing is shown, and nothing is
    imported for it. With `asked_for` the bar is drawn on any file, and stays when the work is done.

    >>> import io
    >>> with Progress(100, label="reading", file=io.StringIO()) as progress:
    ...     progress.update(50, note="AUC 0.91")
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
        if self.visible:
            from rich import progress
            from rich.console import Console

            self._bar = progress.Progress(
                progress.TextColumn("{task.description}"),
                progress.BarColumn(),
                progress.TextColumn("{task.fields[text]}"),
                progress.TimeElapsedColumn(),
                progress.TimeRemainingColumn(),
                console=Console(file=self._file),
                transient=not self._keep,
                refresh_per_second=5,
            )
            self._task = self._bar.add_task(self._label, total=self._total, text="")
            self._bar.start()
        return self

    def update(
        self, count: int, total: int | None = None, note: str = "", *, done: int | None = None
    ) -> None:
        """Show how far the work is; `done` where the count does not measure it."""
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
