# SPDX-License-Identifier: BSD-3-Clause
"""``--set PATH=VALUE``: the settings of the parts that a command trains and reads with.

A path names a parameter of the estimator (``objective``) or a field of the part in it
(``objective.power``, ``solver.pairing.size``). Estimators and registers say which paths there are.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import partial
from typing import Any, TypeVar

import click

from pairlearn.register import REGISTERS, Register

__all__ = ["REMOVED", "SetOption", "Setting", "Settings", "build", "field_path", "keep_from_file",
           "moved", "set_option", "set_parts"]  # fmt: skip

#: Options that were removed, and the setting that replaced each.
REMOVED = {
    "step-size": "solver.step_size=VALUE",
    "radius": "solver.radius=VALUE",
    "passes": "solver.n_passes=VALUE (in a stream: --set stream.n_passes=VALUE)",
    "shuffle-buffer": "stream.shuffle_buffer=ROWS",
    "window": "stream.window=ROWS",
    "forget": "stream.forget=ROWS",
    "checkpoint": "stream.checkpoint=FILE",
    "every": "stream.every=ROWS",
    "fresh": "stream.fresh=true",
    "features": "reading.features=A,B",
    "numeric": "reading.numeric=A,B",
    "date": "reading.date=A,B",
    "text": "reading.text=A,B",
    "missing": "reading.missing=VALUE",
    "delimiter": "reading.delimiter=CHARACTER",
    "header": "reading.header=true",
    "no-header": "reading.header=false",
    "n-features": "reading.n_features=D",
    "zero-based": "reading.zero_based=true",
    "single": "reading.single=true",
    "strict": "reading.strict=true",
}
_PATH = re.compile(r"[a-z_]\w*(\.[a-z_]\w*)*", re.IGNORECASE)
_WORDS = {"true": True, "false": False, "null": None, "inf": math.inf, "-inf": -math.inf}
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
    for kind in (int, float):
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


# ------------------------------------------------------------------------------------ the option


class SetOption(click.Option):
    """``--set``, which knows the roots that its command takes; all of them if there are none."""

    roots: tuple[str, ...] = ()

    def takes(self, path: str) -> bool:
        """Return whether the command has settings of this root."""
        return not self.roots or path.split(".")[0] in self.roots


def set_option(*roots: str, example: str) -> Callable[[F], F]:
    """Add ``--set`` to a command, which receives `Settings` as `settings`.

    `roots` are the first names of the paths that the command takes; any if there are none. The help
    shows `example`.
    """

    def read(context: click.Context, option: click.Parameter, given: Iterable[str]) -> Settings:
        found = Settings()
        for text in given:
            path, equals, value = text.partition("=")
            if not equals:
                raise click.UsageError(
                    f"--set must be PATH=VALUE, as in {example.split()[0]}; got {text[:60]!r}."
                )
            setting = Setting.of(path, value)
            if setting.path in found:
                raise click.UsageError(f"--set {setting.path} is given twice; give it once.")
            found[setting.path] = setting
        found = Settings({**context.meta.get(_FROM_FILE, {}), **found})
        for one in found.values():
            if isinstance(option, SetOption) and not option.takes(one.path):
                raise click.UsageError(
                    f"--set {one.path}: this command has settings of {', '.join(roots)} only."
                )
        return found

    add = click.option("--set", "settings", cls=SetOption, multiple=True, metavar="PATH=VALUE",
                       callback=read, help=f"A setting, as in {example}. Repeatable.")  # fmt: skip

    def decorate(function: F) -> F:
        function = add(function)
        params: Any = getattr(function, "__click_params__", getattr(function, "params", ()))
        for option in params:
            if isinstance(option, SetOption):
                option.roots = roots
        return function

    return decorate


def keep_from_file(context: click.Context, entries: Mapping[str, Any]) -> None:
    """Keep the settings of a config file for ``--set``, whose typed settings take precedence."""
    if not isinstance(entries, Mapping):
        raise click.UsageError("'set' must be a table of paths and values.")
    found = context.meta.setdefault(_FROM_FILE, {})

    def note(path: str, value: Any) -> None:
        if isinstance(value, Mapping):
            for name, inner in value.items():
                note(f"{path}.{name}" if path else name, inner)
            return
        setting = Setting.of(path, value)
        found[setting.path] = setting

    note("", entries)


def moved(name: str, command: click.Command) -> str | None:
    """Return the setting that replaced a removed option of a command; None if there is none."""
    setting = REMOVED.get(name.lstrip("-"))
    for option in command.params:
        if isinstance(option, SetOption) and setting is not None and option.takes(setting):
            return setting
    return None


def field_path(name: str) -> str | None:
    """Return the path of a field by its bare name; None if it is none or of several roots.

    >>> field_path("step_size"), field_path("n_features"), field_path("colour")
    ('solver.step_size', 'reading.n_features', None)
    """
    for setting in REMOVED.values():
        path = setting.partition("=")[0]
        if path.partition(".")[2] == name:
            return path
    found = {
        kind
        for kind in ("objective", "features", "solver", "decision")
        if kind in REGISTERS
        for cls in REGISTERS[kind].types.values()
        if name in _fields(cls)
    }
    return f"{found.pop()}.{name}" if len(found) == 1 else None


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
            paths = [name for name in known if name not in owned]
            raise first.refuse(_unknown(first.path, paths, type(model).__name__))
        register = (registers or {}).get(root)
        model.set_params(**{root: build(root, known[root], own, register)})
    return model


def build(path: str, present: Any, own: Settings, register: Register[Any] | None = None) -> Any:
    """Return the value of a parameter after its settings: a plain value, a name or a part.

    Fields go to the part that the settings name, else to the `present` part if it has them, else to
    the only registered part that has them. The paths in `own` are relative to `path`.
    """
    register = register or REGISTERS.get(path.rpartition(".")[2])
    named = own.get("")
    value = present if named is None else named.value
    if named is not None and register is not None and isinstance(value, str) and value != "auto":
        also = "auto" if present == "auto" else ""
        try:
            register.make(value, also=also)
        except ValueError as error:
            raise named.refuse(error) from None
    inner = {name: own.under(name) for name in own.roots() if name}
    if not inner:
        return value
    part = value
    if isinstance(value, str) and register is not None and value in register:
        part = register.make(value)
    if not is_dataclass(part) or not set(inner) <= set(_fields(type(part))):
        first = next(one for one in own.values() if one is not named)
        if named is not None or register is None:
            has = _fields(type(part)) if is_dataclass(part) else ()
            told = f"{path}={value}" if named is not None else path
            raise first.refuse(_lacks(told, next(n for n in inner if n not in has), has))
        part = _only_part(register, path, inner, first)
    new = {name: build(f"{path}.{name}", getattr(part, name, None), one)
           for name, one in inner.items()}  # fmt: skip
    make = part if isinstance(part, type) else partial(replace, part)
    try:
        return make(**new)
    except (TypeError, ValueError, OverflowError) as error:
        raise _guilty(make, new, inner, str(error)).refuse(error) from None


def _guilty(
    make: Callable[..., Any], new: dict[str, Any], inner: dict[str, Settings], message: str
) -> Setting:
    """Return the setting that a part refuses: the first that is refused alone, else the last."""
    for name, value in new.items():
        try:
            make(**{name: value})
        except (TypeError, ValueError, OverflowError) as error:
            if str(error) == message:
                return next(reversed(inner[name].values()))
    return next(reversed(next(reversed(inner.values())).values()))


def _fields(cls: Any) -> list[str]:
    return [field.name for field in fields(cls) if field.init] if is_dataclass(cls) else []


def _only_part(register: Register[Any], path: str, inner: Mapping[str, Any], first: Setting) -> Any:
    """Return the only part with these fields, or its class if it has no short name."""
    parts = {name: register.make(name) for name in register}
    chosen: dict[type, str] = {}
    for name, part in parts.items():
        if set(inner) <= set(_fields(type(part))):
            chosen.setdefault(type(part), name)
    if len(chosen) == 1:
        return parts[next(iter(chosen.values()))]
    if chosen:
        names = " or ".join(f"--set {path}={name}" for name in chosen.values())
        raise click.UsageError(f"{first.typed} needs {names} beside it.")
    unnamed = [cls for cls in register.types.values() if set(inner) <= set(_fields(cls))]
    if len(unnamed) == 1:
        return unnamed[0]
    known = list(dict.fromkeys(f for cls in register.types.values() for f in _fields(cls)))
    odd = next((name for name in inner if name not in known), None)
    if odd is None:
        raise first.refuse(f"no {register.kind} has all of the fields {', '.join(inner)}.")
    raise first.refuse(_lacks(path, odd, known))


def _lacks(told: str, name: str, known: Iterable[str]) -> str:
    """Return that a part has no such field, and which it has."""
    known = list(known)
    near = difflib.get_close_matches(name, known, n=1)
    has = f"did you mean {near[0]}?" if near else f"it has {', '.join(known) or 'no fields'}."
    return f"{told} has no field {name}; {has}"


def _unknown(path: str, names: list[str], owner: str) -> str:
    """Return that an estimator has no such parameter, and the nearest path that there is."""
    last = path.rpartition(".")[2]
    inner = [f"{kind}.{name}" for kind in names if kind in REGISTERS
             for cls in REGISTERS[kind].types.values() for name in _fields(cls)]  # fmt: skip
    near = [p for p in (*names, *inner) if p.rpartition(".")[2] == last]
    near = near or difflib.get_close_matches(path, [*names, *inner], n=1)
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(names)}."
    return f"{owner} has no {path}; {hint}"
