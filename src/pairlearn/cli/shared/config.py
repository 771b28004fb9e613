# SPDX-License-Identifier: BSD-3-Clause
"""``--config FILE``: options from a file of TOML; what is typed takes precedence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

__all__ = ["config_option", "read_toml"]

#: Bytes of a file of options; a device may have no end.
_LONGEST = 1 << 24

F = TypeVar("F", bound=Callable[..., Any])


def config_option(function: F) -> F:
    """Add ``--config`` to a command; its entries are the command's options by their long names."""
    option = click.option(
        "--config", type=click.Path(dir_okay=False), metavar="FILE", is_eager=True,
        expose_value=False, callback=_read,
        help="Options from a TOML file, as in label = \"y\" or exclude = [\"id\"].",
    )  # fmt: skip
    return option(function)


def read_toml(path: str) -> dict[str, Any]:
    """Return what a file of TOML says; a `ValueError` tells in one line why it is none."""
    import tomllib

    with open(path, "rb") as file:
        data = file.read(_LONGEST + 1)
    if len(data) > _LONGEST:
        raise ValueError(f"{path} is longer than {_LONGEST} bytes; name a file of options.")
    try:
        return tomllib.loads(data.decode())
    except RecursionError:
        raise ValueError(f"{path} is nested too deeply; write lists of texts or numbers.") from None
    # Not only what tomllib calls so: it lets pass what int() and the decoder say.
    except ValueError as error:
        raise ValueError(f"{path} is not TOML: {str(error)[:200].rstrip('.')}.") from None


def _read(context: click.Context, parameter: click.Parameter, path: str | None) -> None:
    if path is None:
        return
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
    for name, value in given.items():
        option = options.get(name.replace("_", "-"))
        if option is None or option.name is None:
            shown = ", ".join(sorted(name for name in options if len(name) > 1))
            raise click.UsageError(
                f"--config {path}: there is no option {name[:60]!r}; the options are {shown}."
            )
        if option.multiple:
            value = [str(entry) for entry in (value if isinstance(value, list) else [value])]
        elif isinstance(value, list):
            value = ",".join(map(str, value))
        elif isinstance(value, dict):
            raise click.UsageError(f"--config {path}: {name!r} must be a value, not a table.")
        elif isinstance(value, bool) != option.is_flag:
            wanted = "true or false" if option.is_flag else "a text or a number"
            raise click.UsageError(f"--config {path}: {name!r} must be {wanted}.")
        defaults[option.name] = value
    context.default_map = {**(context.default_map or {}), **defaults}
