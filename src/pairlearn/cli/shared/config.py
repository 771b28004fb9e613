# SPDX-License-Identifier: BSD-3-Clause
"""``--config FILE``: options and settings from a TOML file; what is typed takes precedence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from pairlearn.cli.shared.paths import FilePath
from pairlearn.cli.shared.settings import keep_from_file

#: Most bytes of a file of options; a device may have no end.
_LONGEST = 1 << 24

F = TypeVar("F", bound=Callable[..., Any])


def config_option(function: F) -> F:
    """Add ``--config`` to a command.

    Entries are options by their long names. Tables, and names with dots, are settings: the table
    ``[set]`` holds paths as ``--set`` takes them.
    """
    option = click.option(
        "--config", type=FilePath("read"), metavar="FILE", is_eager=True, multiple=True,
        expose_value=False, callback=_read,
        help="Options from a TOML file, as in label = \"y\" or exclude = [\"id\"]; settings under "
             "[set].",
    )  # fmt: skip
    return option(function)


def read_toml(path: str) -> dict[str, Any]:
    """Return the entries of a TOML file; a `ValueError` says in one line why it is not TOML."""
    import tomllib

    with open(path, "rb") as file:
        data = file.read(_LONGEST + 1)
    if len(data) > _LONGEST:
        raise ValueError(f"{path} is longer than {_LONGEST} bytes; name a file of options.")
    try:
        return tomllib.loads(data.decode())
    except RecursionError:
        raise ValueError(f"{path} is nested too deeply; write lists of texts or numbers.") from None
    # int() and the decoder raise a ValueError too, and tomllib does not catch it.
    except ValueError as error:
        raise ValueError(f"{path} is not TOML: {str(error)[:200].rstrip('.')}.") from None


def _read(context: click.Context, parameter: click.Parameter, paths: Sequence[str]) -> None:
    """Take the options of a file as defaults of the command."""
    if not paths:
        return
    if len(paths) > 1:  # Click would take the last one, and say nothing.
        raise click.UsageError(f"--config names {len(paths)} files; put all options into one.")
    path = paths[0]
    try:
        given = read_toml(path)
    except OSError as error:
        raise click.UsageError(f"--config {path}: {error.strerror or error}.") from None
    except ValueError as error:
        raise click.UsageError(f"--config {error}") from None
    options: dict[str, click.Option] = {}
    for known in context.command.params:
        if isinstance(known, click.Option) and known is not parameter:
            for name in known.opts:
                options[name.lstrip("-")] = known
    defaults: dict[str, Any] = {}
    try:
        for name, value in given.items():
            option = options.get(name.replace("_", "-"))
            if name == "set" and option is not None:
                keep_from_file(context, value)
            elif option is not None:
                defaults[str(option.name)] = _default(name, value, option)
            elif "set" in options and ("." in name or isinstance(value, dict)):
                keep_from_file(context, {name: value})
            else:
                shown = ", ".join(sorted(name for name in options if len(name) > 1))
                raise click.UsageError(
                    f"there is no option {name[:60]!r}; the options are {shown}."
                )
    except click.UsageError as error:
        raise click.UsageError(f"--config {path}: {error.message}") from None
    context.default_map = {**(context.default_map or {}), **defaults}


def _default(name: str, value: Any, option: click.Option) -> Any:
    """Return the value of an entry as click takes it."""
    if option.multiple:
        return [str(entry) for entry in (value if isinstance(value, list) else [value])]
    if isinstance(value, list):
        return ",".join(map(str, value))
    if isinstance(value, dict):
        raise click.UsageError(f"{name!r} must be a value, not a table.")
    if isinstance(value, bool) != option.is_flag:
        wanted = "true or false" if option.is_flag else "a text or a number"
        raise click.UsageError(f"{name!r} must be {wanted}.")
    return value
