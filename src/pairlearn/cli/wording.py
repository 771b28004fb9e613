# SPDX-License-Identifier: BSD-3-Clause
"""Messages of the library in the words of the program: arguments become options or settings."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable

import click

from pairlearn.cli.shared.names import register_at
from pairlearn.cli.shared.reading import READING_SETTINGS
from pairlearn.cli.shared.settings import field_names

#: Arguments of the library whose options have other names.
_ALIASES = {"features": "feature-map", "n_splits": "splits", "random_state": "seed"}
#: The registers of parts whose fields are settings.
_PARTS = (
    "solvers.top.objectives.OBJECTIVES", "features.MAPS", "estimators.shared.solvers.SOLVERS",
    "estimators.shared.rules.DECISIONS",
)  # fmt: skip
#: Arguments of Python, the option that a command must have, and what is typed there instead.
_SWITCHES = {
    "verify_digest=False": ("no-verify", "--no-verify"),
    "groups=...": ("bounds", 'person = "COLUMN" in the file of --bounds'),
}
_ASSIGNED = re.compile(
    r"(?<![\w.])([a-z]+(?:_[a-z]+)*)=(?:'([^']*)'|\"([^\"]*)\"|(True|False)"
    r"|([+-]?\d+(?:\.\d+)?(?:e[+-]?\d+)?|\.{3}|[A-Za-z]\w*)|([\[(][^\[\](){}]*[\])]))?"
)
#: A call of Python. What stands between its brackets is no option of the program.
_CALL = re.compile(r"[A-Za-z_][\w.]*\([^()]*\)")
#: The call that makes a ledger, which has a command of its own.
_LEDGER = re.compile(r"PrivacyLedger(?:\.open)?\((?:'([^']*)'|\"([^\"]*)\")?,?\s*([^()]*)\)")
_UNDERSCORED = re.compile(r"(?<![\w./-])([a-z]+(?:_[a-z]+)+)(?![\w./(=])")


def options_of(command: click.Command) -> set[str]:
    """Return the long options of a command and of the commands in it, without dashes."""
    found = {
        name[2:]
        for parameter in command.params
        for name in (*parameter.opts, *parameter.secondary_opts)
        if name.startswith("--")
    }
    for inner in getattr(command, "commands", {}).values():
        found |= options_of(inner)
    return found


def _setting(name: str) -> str | None:
    """Return the path of a field by its bare name; None if there is none or several."""
    from pairlearn.cli.training.stream_training import StreamSettings

    if name in READING_SETTINGS:
        return f"reading.{name}"
    kinds = {
        register.kind
        for register in map(register_at, _PARTS)
        for part in register.types.values()
        if name in field_names(part)
    }
    if not kinds and name in field_names(StreamSettings):
        return f"stream.{name}"
    return f"{kinds.pop()}.{name}" if len(kinds) == 1 else None


def in_options(message: str, options: Iterable[str]) -> str:
    """Return a message in which options and settings of a command replace arguments.

    >>> in_options("index 0; pass zero_based=True", ["zero-based"])
    'index 0; pass --zero-based'
    >>> in_options("step_size must be positive; pass format='csv'.", ["step-size", "format"])
    '--step-size must be positive; pass --format csv.'
    >>> in_options("pass n_features=7.", ["n-features"])
    'pass --n-features 7.'
    >>> in_options("step_size=1.0 is large.", ["step-size"])
    '--step-size 1.0 is large.'
    >>> in_options("step_size=1.0 is large; pass header=False.", ["set"])
    '--set solver.step_size=1.0 is large; pass --set reading.header=false.'
    >>> in_options('use PrivacyLedger(epsilon=1.0, unit="person"), or seal=PATH.', ["seal"])
    'use pairlearn privacy ledger create new.ledger --epsilon 1.0 --unit person, or --seal PATH.'
    """
    known = set(options)

    def option(name: str) -> str | None:
        dashed = _ALIASES.get(name, name).replace("_", "-")
        if dashed in known:
            return f"--{dashed}"
        path = _setting(name) if "set" in known else None
        return None if path is None else f"--set {path}"

    def assigned(match: re.Match[str]) -> str:
        found = option(match[1])
        if found is None:
            return match[0]
        value = match[2] or match[3] or match[5]
        if found.startswith("--set "):
            return f"{found}={value or (match[4] or '').lower() or match[6] or ''}"
        if match[6]:  # the items of a list
            value = ",".join(item.strip(" '\"") for item in match[6][1:-1].split(","))
        return f"{found} {value}" if value else found

    for python, (needed, typed) in _SWITCHES.items():
        if needed in known:
            message = message.replace(python, typed)
    parts, end = [], 0
    for call in _CALL.finditer(message):
        parts += [_translated(message[end : call.start()], assigned, option), _command(call[0])]
        end = call.end()
    return "".join([*parts, _translated(message[end:], assigned, option)])


def _translated(
    text: str, assigned: Callable[[re.Match[str]], str], option: Callable[[str], str | None]
) -> str:
    text = _ASSIGNED.sub(assigned, text)
    return _UNDERSCORED.sub(lambda match: option(match[1]) or match[0], text)


def _command(call: str) -> str:
    """Return the command for a call that makes a ledger, and any other call as it stands."""
    ledger = _LEDGER.fullmatch(call)
    if ledger is None:
        return call
    typed = ["pairlearn privacy ledger create", shlex.quote(ledger[1] or ledger[2] or "new.ledger")]
    for name, *values in _ASSIGNED.findall(ledger[3]):
        typed.append(f"--{name.replace('_', '-')} {''.join(values)}")
    return " ".join(typed)
