# SPDX-License-Identifier: BSD-3-Clause
"""What commands print: names made safe, cells of CSV, JSON, errors in the words of the program."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from pairlearn.shown import defused

F = TypeVar("F", bound=Callable[..., Any])

#: Control characters, line ends of all kinds, and what turns the direction of text. A terminal
#: would obey them: clear the screen, change its title, or write to the clipboard.
_UNSAFE = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")

#: Arguments of the library whose options have other names.
_ALIASES = {"n_splits": "splits", "random_state": "seed"}
#: A call of Python, whose arguments are no options of the program.
_CALL = re.compile(r"([A-Za-z_][\w.]*\([^()]*\))")
#: ``name=value`` in a message of the library.
_ASSIGNED = re.compile(
    r"(?<![\w.])([a-z]+(?:_[a-z]+)*)=(?:'([^']*)'|\"([^\"]*)\"|([A-Za-z]\w*|[+-]?[\d.]+(?:e[+-]?\d+)?))"
)


def safe(text: object) -> str:
    r"""Return a text of a file as a terminal may show it, on one line.

    >>> print(safe("a\x1b[2J\nb\u202e"))
    a\x1b[2J\x0ab\u202e
    """

    def spelled(match: re.Match[str]) -> str:
        code = ord(match[0])
        return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"

    return _UNSAFE.sub(spelled, str(text))


def safe_lines(lines: Iterable[str]) -> str:
    """Return lines as one text, each of them made safe."""
    return "\n".join(map(safe, lines))


def tell(*messages: object) -> None:
    """Print messages on standard error, one line each."""
    for message in messages:
        click.echo(f"pairlearn: {safe(message)}", err=True)


def emit(values: Mapping[str, Any], text: str, *, as_json: bool) -> None:
    """Print the values as one line of JSON, or the text, whose lines are made safe."""
    if as_json:
        import json

        # JSON has no NaN, and parsers refuse it.
        click.echo(json.dumps(values, ensure_ascii=False, allow_nan=False))
    else:
        click.echo(safe_lines(text.split("\n")))


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


def json_option(function: F) -> F:
    """Add ``--json`` to a command, passed on as `as_json`."""
    option = click.option("--json", "as_json", is_flag=True, help="Print JSON for a script.")
    return option(function)


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


def in_options(message: str, options: set[str]) -> str:
    """Return a message of the library with options of a command in place of arguments.

    >>> in_options("pass format='csv' or n_features=7.", {"format", "set"})
    'pass --format csv or --set reading.n_features=7.'
    """
    from pairlearn.cli.shared.reading import READING_SETTINGS

    def assigned(match: re.Match[str]) -> str:
        name, value = match[1], match[2] or match[3] or match[4]
        dashed = _ALIASES.get(name, name).replace("_", "-")
        if dashed in options:
            return f"--{dashed}" if value == "True" else f"--{dashed} {value}"
        if "set" in options and name in READING_SETTINGS:
            shown = value.lower() if value in ("True", "False") else value
            return f"--set reading.{name}={shown}"
        return match[0]

    if "bounds" in options:
        message = message.replace("groups=...", 'person = "COLUMN" in the file of --bounds')
    parts = _CALL.split(message)
    parts[::2] = [_ASSIGNED.sub(assigned, part) for part in parts[::2]]
    for place, call in enumerate(parts):
        if call.startswith("PrivacyLedger("):
            values = _ASSIGNED.findall(call)
            typed = [f"--{name.replace('_', '-')} {''.join(value)}" for name, *value in values]
            parts[place] = " ".join(["pairlearn privacy ledger create new.ledger", *typed])
    return "".join(parts)
