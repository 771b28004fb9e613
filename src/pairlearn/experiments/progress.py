# SPDX-License-Identifier: BSD-3-Clause
"""One progress bar on stderr, and only when a person looks."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator

__all__ = ["cell_bar", "download_bar"]


@contextlib.contextmanager
def cell_bar(*, quiet: bool = False) -> Iterator[Callable[[int, int, str], None] | None]:
    """Yield a callback for `compare`, or None where stderr is not a terminal."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.description}"),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None)

        def tell(done: int, total: int, label: str) -> None:
            bar.update(task, completed=done, total=total, description=label)

        yield tell


@contextlib.contextmanager
def download_bar(
    name: str, *, quiet: bool = False
) -> Iterator[Callable[[int, int | None], None] | None]:
    """Yield a callback for `load`, or None where stderr is not a terminal."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(name, total=None)

        def tell(have: int, total: int | None) -> None:
            bar.update(task, completed=have, total=total)

        yield tell
