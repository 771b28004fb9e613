# SPDX-License-Identifier: BSD-3-Clause
"""What a command prints: text for a person, JSON for a machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from pairlearn.cli.shared.paths import FilePath, force_option
from pairlearn.shown import defused

F = TypeVar("F", bound=Callable[..., Any])


def with_options(function: F, *options: Callable[[Any], Any]) -> F:
    """Return the command with options, which its help lists in this order."""
    for option in reversed(options):
        function = option(function)
    return function


def typed_beside(*known: str) -> list[str]:
    """Return the typed options of the present command that are not known, as the user spells them.

    `known` are names of parameters of the command.
    """
    context = click.get_current_context()
    return [
        option.opts[-1]
        for option in context.command.params
        if option.expose_value
        and option.name not in known
        and context.get_parameter_source(str(option.name)) is not ParameterSource.DEFAULT
    ]


def json_option(function: F) -> F:
    """Add ``--json`` to a command, passed on as `as_json`."""
    option = click.option("--json", "as_json", is_flag=True, help="Print JSON for a script.")
    return option(function)


def result_options(store: str) -> Callable[[F], F]:
    """Return a decorator that adds ``--store``, ``--report`` and ``--quiet``."""
    return lambda function: with_options(
        function,
        click.option("--store", type=FilePath("keep", beside=[".lock"], path_type=Path),
                     default=Path(store), show_default=True,
                     help="Database of results. The same command goes on where a killed one "
                          "stopped."),
        click.option("--report", type=FilePath("write", "page", folder=True, path_type=Path),
                     help="Write a self-contained HTML page and CSV files into this folder."),
        force_option,
        click.option("--quiet", is_flag=True, help="No progress bar."),
    )  # fmt: skip


def csv_cell(value: Any, *, raw: bool = False) -> str:
    """Return a value as a cell of CSV.

    A text that a spreadsheet would run is defused, unless `raw`.

    >>> print(csv_cell("=1+1"), csv_cell(-1.0), csv_cell('a "b", c'))
    '=1+1 -1.0 "a ""b"", c"
    """
    if not isinstance(value, str):
        return repr(value)
    text = value if raw else defused(value)
    if any(c in text for c in ',"\n\r'):
        return '"' + text.replace('"', '""') + '"'
    return text


def emit(values: Mapping[str, Any], text: str, *, as_json: bool) -> None:
    """Print the values as one line of JSON, or the text."""
    if as_json:
        import json

        # JSON has no NaN, and parsers refuse it.
        text = json.dumps(values, ensure_ascii=False, allow_nan=False)
    click.echo(text)


def show_warning(message: Any, *_: Any, **__: Any) -> None:
    """Print a warning in one line, in place of `warnings.showwarning`."""
    click.echo(f"pairlearn: warning: {message}", err=True)
