# SPDX-License-Identifier: BSD-3-Clause
"""Files that a command reads and writes: it never writes a file that it reads."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

import click

from pairlearn.atomic import is_written_directly

F = TypeVar("F", bound=Callable[..., Any])

_INPUTS = "pairlearn.inputs"


def _named(
    kind: click.Path, value: Any, param: click.Parameter | None, ctx: click.Context | None
) -> Any:
    if not os.fspath(value):  # as a path it is the present folder
        kind.fail("the name is empty, as of a shell variable that is not set.", param, ctx)
    return click.Path.convert(kind, value, param, ctx)


class InputPath(click.Path):
    """The type of an option or argument for a file that is read."""

    def __init__(self) -> None:
        # Whoever opens the file says why that is refused, and names the cure.
        super().__init__(readable=False)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path, and note it for `check_output`."""
        path = _named(self, value, param, ctx)
        if ctx is not None:
            ctx.meta.setdefault(_INPUTS, []).append(os.fspath(path))
        return path


class OutputPath(click.Path):
    """The type of an option for a file, or a folder, that is written."""

    def __init__(self, *, folder: bool = False, path_type: Any = None) -> None:
        super().__init__(dir_okay=folder, file_okay=not folder, path_type=path_type)
        self._folder = folder

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path, if it may be written."""
        path = _named(self, value, param, ctx)
        said = param.opts[0] if param is not None else "the file"
        check_output(os.fspath(path), said, folder=self._folder, context=ctx)
        return path


def check_output(
    path: str, said: str, *, folder: bool = False, context: click.Context | None = None
) -> None:
    """Refuse an output that the command reads, or that cannot be written; `said` is its option."""
    context = context or click.get_current_context()
    if path == "-":
        raise click.UsageError(f"{said} - names no file; write ./- for a file of that name.")
    for entry in context.meta.get(_INPUTS, ()):
        for source in [entry] if os.path.exists(entry) else glob.glob(entry, recursive=True):
            # A page may replace index.html and the CSV files of its folder.
            same = os.path.exists(path) and os.path.samefile(source, path)
            inside = (
                folder
                and source.endswith((".csv", ".html"))
                and (os.path.dirname(os.path.realpath(source)) == os.path.realpath(path))
            )
            if same or inside or os.path.realpath(source) == os.path.realpath(path):
                raise click.UsageError(
                    f"{said} {path} is a file that the command reads ({source}); name another."
                )
    place = Path(os.path.realpath(path))
    if not folder and not is_written_directly(Path(path)) and not place.parent.is_dir():
        raise click.UsageError(
            f"{said} {path}: the folder {place.parent} does not exist; make it first."
        )


def read_argument(name: str, **arguments: Any) -> Callable[[F], F]:
    """Add an argument for files to be read; it comes before the outputs, which must be others."""
    return click.argument(name, type=InputPath(), is_eager=True, **arguments)


def read_option(*names: str, **arguments: Any) -> Callable[[F], F]:
    """Add an option for a file to be read."""
    return click.option(*names, type=InputPath(), is_eager=True, metavar="FILE", **arguments)


def result_options(store: str) -> Callable[[F], F]:
    """Return a decorator that adds ``--store``, ``--report`` and ``--quiet``."""

    def add(function: F) -> F:
        for option in (
            click.option("--quiet", is_flag=True, help="No progress bar."),
            click.option("--report", type=OutputPath(folder=True, path_type=Path),
                         help="Write a self-contained HTML page and CSV files into this folder."),
            click.option("--store", type=OutputPath(path_type=Path), default=Path(store),
                         show_default=True, help="Database of results. The same command goes on "
                                                 "where a killed one stopped."),
        ):  # fmt: skip
            function = option(function)
        return function

    return add


def need_matplotlib() -> None:
    """Refuse what draws, if nothing can be drawn."""
    if find_spec("matplotlib") is None:
        raise click.UsageError("plots need matplotlib; install pairlearn[plot].")
