# SPDX-License-Identifier: BSD-3-Clause
"""What a command prints: text for a person, JSON for a machine, progress for who looks on."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, TextIO, TypeVar

import click

__all__ = ["Progress", "emit", "format_count", "json_option"]

F = TypeVar("F", bound=Callable[..., Any])


def json_option(function: F) -> F:
    """Add ``--json`` to a command, passed on as `as_json`."""
    option = click.option("--json", "as_json", is_flag=True, help="Print JSON for a script.")
    return option(function)


def emit(values: Mapping[str, Any], text: str, *, as_json: bool) -> None:
    """Print the values as one line of JSON, or the text.

    Examples
    --------
    >>> emit({"auc": 0.5}, "AUC 0.5", as_json=True)
    {"auc": 0.5}
    """
    if as_json:
        import json

        # JSON has no NaN: a script must not receive what its parser refuses
        text = json.dumps(values, ensure_ascii=False, allow_nan=False)
    click.echo(text)


def format_count(count: float) -> str:
    """Return a number for a person.

    Examples
    --------
    >>> format_count(950), format_count(1234567), format_count(2.5e9)
    ('950', '1.23 M', '2.5 G')
    """
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if count >= size:
            scale = 1e3 if unit == "k" else size
            return f"{count / scale:.3g} {unit}"
    return f"{count:.0f}"


class Progress:
    """A bar with rows per second, a note and the time left, on a terminal only.

    Where standard error is not a terminal nothing is shown, and nothing is imported for it.

    Parameters
    ----------
    total : int, optional
        The amount of work (bytes or rows); without it no time left is shown.
    label : str
        What is going on.
    stream : text file, optional
        By default standard error.
    every : float, default 0.2
        Seconds between two drawings.

    Examples
    --------
    >>> import io
    >>> with Progress(100, label="reading", stream=io.StringIO()) as progress:
    ...     progress.update(rows=50, done=50, note="AUC 0.91")
    """

    def __init__(
        self,
        total: int | None = None,
        *,
        label: str = "",
        stream: TextIO | None = None,
        every: float = 0.2,
    ) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._total = total
        self._label = label
        self._every = every
        self._bar: Any = None
        self._next = 0.0
        self.visible = self._stream.isatty()

    def __enter__(self) -> Progress:
        self._begin = time.monotonic()
        if self.visible:
            from rich.console import Console
            from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
            from rich.progress import Progress as Bar

            columns = [
                TextColumn("{task.description}"),
                BarColumn(),
                TextColumn("{task.fields[text]}"),
            ]
            if self._total is not None:
                columns.append(TimeRemainingColumn())
            self._bar = Bar(*columns, console=Console(file=self._stream), auto_refresh=False,
                            transient=True)  # fmt: skip
            self._task = self._bar.add_task(self._label, total=self._total, text="")
            self._bar.start()
        return self

    def update(self, *, rows: int, done: int | None = None, note: str = "") -> None:
        """Show how far the work is: rows so far, the part of `total` done, and a note."""
        if self._bar is None:
            return
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + self._every
        rate = rows / max(now - self._begin, 1e-9)
        text = f"{format_count(rows)} rows, {format_count(rate)} rows/s"
        self._bar.update(
            self._task, completed=rows if done is None else done, refresh=True,
            text=f"{text}, {note}" if note else text,
        )  # fmt: skip

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
