# SPDX-License-Identifier: BSD-3-Clause
"""``--set PATH=VALUE``: the settings of the parts that a command trains and reads with.

A path names a parameter of the estimator (``objective``) or a field of the part in it
(``objective.power``, ``solver.pairing.size``). Estimators and registers say which paths there are.
"""

from __future__ import annotations

import difflib
import inspect
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import partial
from typing import Any, TypeVar

import click

from pairlearn.cli.shared.numbers import NUMBER
from pairlearn.register import REGISTERS, Register, nearest

_PATH = re.compile(r"[a-z_]\w*(\.[a-z_]\w*)*", re.IGNORECASE)
_WORDS = {"true": True, "false": False, "null": None, "inf": math.inf, "-inf": -math.inf}
#: The types of plain parameters, in the words of the program.
_TYPES = {"bool": "true or false", "int": "a whole number", "float": "a number", "str": "a text",
          "None": "null"}  # fmt: skip
#: The key in a click context of the settings that a config file holds.
_FROM_FILE = "pairlearn.settings"

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class Setting:
    """One setting: where it goes, its text, its value, and how the user gave it."""

    path: str
    text: str
    value: Any
    typed: str

    @classmethod
    def of(cls, path: str, value: Any, typed: str = "") -> Setting:
        """Return a setting; a text is read as a number, true, false, null, inf, JSON or text."""
        path = path.strip().replace("-", "_")
        text = ",".join(map(str, value)) if isinstance(value, list) else str(value)
        typed = typed or f"--set {path}={text[:60]}"
        if not _PATH.fullmatch(path):
            raise click.UsageError(
                f"--set must be PATH=VALUE, as in solver.step_size=0.1; got {path[:60]!r}."
            )
        if isinstance(value, str):
            value = _value(value.strip(), typed)
        if isinstance(value, float) and math.isnan(value):
            raise click.UsageError(f"{typed}: NaN is no value; leave the setting out.")
        return cls(path, text, value, typed)

    def refuse(self, error: object) -> click.UsageError:
        """Return an error in one line that names the setting."""
        return click.UsageError(f"{self.typed}: {' '.join(str(error).split())}")


def _value(text: str, typed: str) -> Any:
    """Return what a text says."""
    if not text:
        raise click.UsageError(f"{typed} has no value; write one after the equals sign.")
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    if text[0] in "[{":
        import json

        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            raise click.UsageError(f'{typed} is not JSON; write it as {{"age": 1}}.') from None
    if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        return text[1:-1]
    # Python's own reader takes 1_000 and digits of all scripts; here these are texts.
    for kind in (int, float) if NUMBER.fullmatch(text) else ():
        try:
            number = kind(text)
        except ValueError:
            continue
        if math.isinf(number) and any(c.isdigit() for c in text):
            raise click.UsageError(
                f"{typed} is larger than any number (about 1.8e308); write inf for infinity."
            )
        return number
    return text


class Settings(dict[str, Setting]):
    """Settings by path."""

    def under(self, root: str) -> Settings:
        """Return the settings of one root, without it; its own value has an empty path."""
        return Settings({path[len(root) + 1 :]: one for path, one in self.items()
                         if path.split(".")[0] == root})  # fmt: skip

    def without(self, *roots: str) -> Settings:
        """Return the settings of other roots."""
        return Settings({p: one for p, one in self.items() if p.split(".")[0] not in roots})

    def roots(self) -> list[str]:
        """Return the first names of the paths, each once."""
        return list(dict.fromkeys(path.split(".")[0] for path in self))

    def named(self, path: str, value: Any, typed: str) -> None:
        """Add what an option of its own says, unless it is None."""
        if value is None:
            return
        if path in self:
            raise click.UsageError(f"{typed} and {self[path].typed} set the same; give one.")
        self[path] = Setting.of(path, value, typed)

    def plain(self) -> dict[str, str]:
        """Return the texts by path, for the model file."""
        return {path: self[path].text for path in sorted(self)}


@contextmanager
def naming(settings: Settings) -> Iterator[None]:
    """Name the setting in an error of the block whose message starts with the setting's name."""
    try:
        yield
    except (TypeError, ValueError, OverflowError) as error:
        guilty = _guilty(error, settings)
        if guilty is None:
            raise
        raise guilty.refuse(error) from None


def _guilty(error: Exception, settings: Settings) -> Setting | None:
    """Return the setting whose name starts the message of an error."""
    name = str(error).partition(" ")[0]
    return next((one for one in settings.values() if one.path.rpartition(".")[2] == name), None)


# ------------------------------------------------------------------------------------ the option


def set_option(*roots: str, example: str) -> Callable[[F], F]:
    """Add ``--set`` to a command, which receives `Settings` as `settings`.

    `roots` are the first names of the paths that the command takes; any if there are none. The help
    shows `example`.
    """

    def read(context: click.Context, option: click.Parameter, given: Iterable[str]) -> Settings:
        typed = Settings()
        for text in given:
            path, equals, value = text.partition("=")
            if not equals:
                first = example.split()[0].rstrip(",")
                raise click.UsageError(
                    f"--set must be PATH=VALUE, as in {first}; got {text[:60]!r}."
                )
            setting = Setting.of(path, value)
            if setting.path in typed:
                raise click.UsageError(f"--set {setting.path} is given twice; give it once.")
            typed[setting.path] = setting
        found = Settings({**context.meta.get(_FROM_FILE, {}), **typed})
        for setting in found.without(*roots).values() if roots else ():
            raise click.UsageError(
                f"--set {setting.path}: this command has settings of {', '.join(roots)} only."
            )
        return found

    return click.option("--set", "settings", multiple=True, metavar="PATH=VALUE", callback=read,
                        help=f"A setting, as in {example}. Repeatable.")  # fmt: skip


def keep_from_file(context: click.Context, entries: Any, root: str = "") -> None:
    """Keep the settings of a config file for ``--set``, whose typed settings take precedence."""
    if not isinstance(entries, Mapping):
        raise click.UsageError("'set' must be a table of paths and values.")
    for name, value in entries.items():
        if isinstance(value, Mapping):
            keep_from_file(context, value, f"{root}{name}.")
        else:
            setting = Setting.of(f"{root}{name}", value)
            context.meta.setdefault(_FROM_FILE, {})[setting.path] = setting


# -------------------------------------------------------------------------------------- the parts


def set_parts(
    model: Any,
    settings: Settings,
    owned: Mapping[str, str],
    registers: Mapping[str, Register[Any]] | None = None,
) -> Any:
    """Set parameters of an estimator, and fields of the parts in them; return the estimator.

    `owned` holds parameters that the program sets itself, with what to use instead; `registers`
    those registers that do not have the name of their parameter.
    """
    known = model.get_params(deep=False)
    for root in settings.roots():
        own = settings.under(root)
        first = next(iter(own.values()))
        if root in owned:
            raise first.refuse(owned[root])
        if root not in known:
            names = [name for name in known if name not in owned]
            raise first.refuse(f"{type(model).__name__} has no {first.path}; "
                               f"{_nearest_path(first.path, names)}")  # fmt: skip
        if "" in own:
            _check_type(own[""], inspect.signature(type(model)).parameters[root].annotation)
        register = (registers or {}).get(root)
        model.set_params(**{root: build(root, known[root], own, register)})
    return model


def _nearest_path(path: str, names: list[str]) -> str:
    """Return the end of a message: a path with the same last name, the nearest, or all names."""
    inner = [f"{kind}.{field}" for kind in names if kind in REGISTERS
             for part in REGISTERS[kind].types.values() for field in field_names(part)]  # fmt: skip
    last = path.rpartition(".")[2]
    near = [p for p in (*names, *inner) if p.rpartition(".")[2] == last]
    near = near or difflib.get_close_matches(path, [*names, *inner], n=1)
    return f"did you mean {near[0]}?" if near else f"there are {', '.join(names)}."


def _check_type(setting: Setting, annotation: Any) -> None:
    """Refuse a value of the wrong type for a parameter that takes plain values only."""
    wanted = str(annotation).split(" | ")
    given = type(setting.value).__name__.removesuffix("Type")
    fits = given in wanted or (given == "int" and "float" in wanted)
    if set(wanted) <= set(_TYPES) and not fits:
        rule = " or ".join(_TYPES[name] for name in wanted)
        raise setting.refuse(f"{setting.path} must be {rule}, got {setting.text!r}.")


def build(path: str, present: Any, own: Settings, register: Register[Any] | None = None) -> Any:
    """Return the value of a parameter after its settings: a plain value, a name or a part.

    Fields go to the part that the settings name, else to the `present` part if it has them, else to
    the only registered part that has them. The paths in `own` are relative to `path`.
    """
    register = register or REGISTERS.get(path.rpartition(".")[2])
    named = own.get("")
    part = value = present if named is None else named.value
    if register is not None and isinstance(value, str):
        try:
            if value in register or (named is not None and value != "auto"):
                part = register.make(value, also="auto" if present == "auto" else "")
        except ValueError as error:
            raise (named or next(iter(own.values()))).refuse(error) from None
    inner = {name: own.under(name) for name in own.roots() if name}
    if not inner:
        return value
    has = field_names(part)
    odd = [name for name in inner if name not in has]
    if odd:
        first = next(one for one in own.values() if one is not named)
        if named is not None or register is None:
            told = path if named is None else f"{path}={value}"
            end = nearest(odd[0], has) if has else "; it has no fields."
            raise first.refuse(f"{told} has no field {odd[0]}{end}")
        part = _only_part(register, path, inner, first)
    new = {name: build(f"{path}.{name}", getattr(part, name, None), one)
           for name, one in inner.items()}  # fmt: skip
    make = part if isinstance(part, type) else partial(replace, part)
    try:
        return make(**new)
    except (TypeError, ValueError, OverflowError) as error:
        raise (_guilty(error, own) or next(reversed(own.values()))).refuse(error) from None


def field_names(part: Any) -> list[str]:
    """Return the fields of a part or of its class; none if it is another value."""
    return [field.name for field in fields(part) if field.init] if is_dataclass(part) else []


def _only_part(register: Register[Any], path: str, inner: Mapping[str, Any], first: Setting) -> Any:
    """Return the only part with these fields, or its class if it has no short name."""

    def fits(part: Any) -> bool:
        return set(inner) <= set(field_names(part))

    named: dict[type, tuple[str, Any]] = {}
    for name in register:
        part = register.make(name)
        if fits(part):
            named.setdefault(type(part), (name, part))
    if len(named) == 1:
        return next(iter(named.values()))[1]
    if named:
        names = " or ".join(f"--set {path}={name}" for name, _ in named.values())
        raise click.UsageError(f"{first.typed} needs {names} beside it.")
    classes = list(register.types.values())
    unnamed = [cls for cls in classes if fits(cls)]
    if len(unnamed) == 1:
        return unnamed[0]
    known = list(dict.fromkeys(field for cls in classes for field in field_names(cls)))
    for name in inner:
        if name not in known:
            raise first.refuse(f"{path} has no field {name}{nearest(name, known)}")
    raise first.refuse(f"no {register.kind} has all of the fields {', '.join(inner)}.")
