# SPDX-License-Identifier: BSD-3-Clause
"""Settings: ``--set PATH=VALUE``, ``--config FILE`` and the parts of an estimator that they make.

A path names a parameter of the estimator (``objective``) or a field of the part in it
(``objective.power``, ``solver.pairing.size``). Estimators and registers say which paths there are.
"""

from __future__ import annotations

import ast
import importlib
import math
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import fields, is_dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import click

from pairlearn.cli.shared.files import read_option
from pairlearn.register import REGISTERS, Register, nearest

_PATH = re.compile(r"[a-z_]\w*(\.[a-z_]\w*)*", re.IGNORECASE)
_WORDS = {"true": True, "false": False, "null": None, "none": None, "inf": math.inf,
          "-inf": -math.inf}  # fmt: skip
#: The key in a click context of the settings that a config file holds.
_FROM_FILE = "pairlearn.settings"

F = TypeVar("F", bound=Callable[..., Any])


class Setting(NamedTuple):
    """One setting: where it goes, its text, its value, and how the user gave it."""

    path: str
    text: str
    value: Any
    typed: str

    def refuse(self, error: object) -> click.UsageError:
        """Return an error in one line that names the setting."""
        return click.UsageError(f"{self.typed}: {' '.join(str(error).split())}")


def setting_of(path: str, given: Any, typed: str = "") -> Setting:
    """Return a setting; a text is a literal of Python, true, false, null, inf or a text."""
    path = path.strip().replace("-", "_")
    if not _PATH.fullmatch(path):
        raise click.UsageError(
            f"--set must be PATH=VALUE, as in solver.step_size=0.1; got {path[:60]!r}."
        )
    text = ",".join(map(str, given)) if isinstance(given, list) else str(given)
    typed = typed or f"--set {path}={text[:60]}"
    if not isinstance(given, str):
        return Setting(path, text, given, typed)
    if not (stripped := given.strip()):
        raise click.UsageError(f"{typed} has no value; write one after the equals sign.")
    value: Any = stripped
    if stripped.lower() in _WORDS:
        return Setting(path, text, _WORDS[stripped.lower()], typed)
    with suppress(ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        value = ast.literal_eval(stripped)
    if isinstance(value, float) and math.isinf(value):
        raise click.UsageError(f"{typed} is larger than any number; write inf for infinity.")
    return Setting(path, text, value, typed)


class Settings(dict[str, Setting]):
    """Settings by path."""

    def under(self, root: str) -> Settings:
        """Return the settings of one root, without it; its own value has an empty path."""
        return Settings({path[len(root) + 1 :]: setting for path, setting in self.items()
                         if path.split(".")[0] == root})  # fmt: skip

    def without(self, *roots: str) -> Settings:
        """Return the settings of other roots."""
        return Settings({p: s for p, s in self.items() if p.split(".")[0] not in roots})

    def roots(self) -> list[str]:
        """Return the first names of the paths, each once."""
        return list(dict.fromkeys(path.split(".")[0] for path in self))

    def add(self, path: str, value: Any, typed: str) -> None:
        """Add what an option of its own says, unless it is None."""
        if value is None:
            return
        if path in self:
            raise click.UsageError(f"{typed} and {self[path].typed} set the same; give one.")
        self[path] = setting_of(path, value, typed)

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
    name = str(error).partition(" ")[0]
    return next((one for one in settings.values() if one.path.rpartition(".")[2] == name), None)


# ----------------------------------------------------------------------------------- the options


class Named(click.Choice[str]):
    """A choice among the names in registers, such as "losses.LOSSES", loaded when needed."""

    def __init__(self, *places: str, also: Iterable[str] = ()) -> None:
        self._places, self._also = places, tuple(also)
        super().__init__(())

    @property
    def choices(self) -> Any:
        """The names, each once."""
        known = [name for place in self._places for name in register_at(place)]
        return tuple(dict.fromkeys([*self._also, *known]))

    @choices.setter
    def choices(self, _: Any) -> None:
        """Ignore what click assigns: the registers hold the names."""


def register_at(place: str) -> Any:
    """Return the register at a place within the package, such as "losses.LOSSES"."""
    module, _, register = place.rpartition(".")
    return getattr(importlib.import_module(f"pairlearn.{module}"), register)


def set_option(*roots: str, example: str) -> Callable[[F], F]:
    """Add ``--set`` to a command, which receives `Settings` as `settings`.

    `roots` are the first names of the paths that the command takes; any if there are none.
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
            setting = setting_of(path, value)
            if setting.path in typed:
                raise click.UsageError(f"--set {setting.path} is given twice; give it once.")
            typed[setting.path] = setting
        settings = Settings({**context.meta.get(_FROM_FILE, {}), **typed})
        for setting in settings.without(*roots).values() if roots else ():
            raise click.UsageError(
                f"--set {setting.path}: this command has settings of {', '.join(roots)} only."
            )
        return settings

    return click.option("--set", "settings", multiple=True, metavar="PATH=VALUE", callback=read,
                        help=f"A setting, as in {example}. Repeatable.")  # fmt: skip


def config_option(function: F) -> F:
    """Add ``--config``: a TOML file of options by their long names, and settings under [set]."""
    return read_option(
        "--config", expose_value=False, callback=_read_config,
        help='Options from a TOML file, as in label = "y" or exclude = ["id"]; settings under '
             "[set].",
    )(function)  # fmt: skip


def read_toml(path: str) -> dict[str, Any]:
    """Return the entries of a TOML file; a `ValueError` says in one line why it is not TOML."""
    try:
        return tomllib.loads(Path(path).read_bytes().decode())
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not TOML: {str(error)[:200].rstrip('.')}.") from None


def _read_config(context: click.Context, parameter: click.Parameter, path: str | None) -> None:
    """Take the options of a file as defaults of the command."""
    if path is None:
        return
    options = {name.lstrip("-"): option for option in context.command.params
               if isinstance(option, click.Option) and option is not parameter
               for name in option.opts}  # fmt: skip
    defaults: dict[str, Any] = {}
    try:
        for name, value in read_toml(path).items():
            option = options.get(name.replace("_", "-"))
            if name == "set" or (option is None and ("." in name or isinstance(value, dict))):
                _keep_settings(context, value if name == "set" else {name: value})
            elif option is None:
                raise ValueError(f"there is no option {name[:60]!r}{nearest(name, options)}")
            elif option.multiple:
                entries = value if isinstance(value, list) else [value]
                defaults[str(option.name)] = [str(entry) for entry in entries]
            elif isinstance(value, dict) or isinstance(value, bool) != option.is_flag:
                wanted = "true or false" if option.is_flag else "a text, a number or a list"
                raise ValueError(f"{name!r} must be {wanted}.")
            else:
                text = ",".join(map(str, value)) if isinstance(value, list) else value
                defaults[str(option.name)] = text
    except OSError as error:
        raise click.UsageError(f"--config {path}: {error.strerror or error}.") from None
    except (ValueError, click.UsageError) as error:
        said = error.message if isinstance(error, click.UsageError) else error
        raise click.UsageError(f"--config {path}: {said}") from None
    context.default_map = {**(context.default_map or {}), **defaults}


def _keep_settings(context: click.Context, entries: Any, root: str = "") -> None:
    """Keep the settings of a config file for ``--set``, whose typed settings take precedence."""
    if not isinstance(entries, Mapping):
        raise ValueError("'set' must be a table of paths and values.")
    for name, value in entries.items():
        if isinstance(value, Mapping):
            _keep_settings(context, value, f"{root}{name}.")
        else:
            setting = setting_of(f"{root}{name}", value)
            context.meta.setdefault(_FROM_FILE, {})[setting.path] = setting


# ------------------------------------------------------------------------------------- the parts


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
            raise first.refuse(f"{type(model).__name__} has no {first.path}{nearest(root, names)}")
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
    if not set(inner) <= set(_field_names(part)):
        first = next(setting for setting in own.values() if setting is not named)
        if named is not None or register is None:
            has = _field_names(part)
            odd = next(name for name in inner if name not in has)
            raise first.refuse(f"{part!r} has no field {odd}{nearest(odd, has) if has else '.'}")
        part = _only_part(register, path, inner, first)
    new = {name: build(f"{path}.{name}", getattr(part, name, None), settings)
           for name, settings in inner.items()}  # fmt: skip
    make = part if isinstance(part, type) else partial(replace, part)
    try:
        return make(**new)
    except (TypeError, ValueError, OverflowError) as error:
        raise (_guilty(error, own) or next(reversed(own.values()))).refuse(error) from None


def _field_names(part: Any) -> list[str]:
    return [field.name for field in fields(part) if field.init] if is_dataclass(part) else []


def _only_part(register: Register[Any], path: str, inner: Iterable[str], first: Setting) -> Any:
    """Return the only part with these fields, or its class if it has no short name."""
    named = {type(part): (name, part) for name in reversed(list(register))
             if set(inner) <= set(_field_names(part := register.make(name)))}  # fmt: skip
    if len(named) == 1:
        return next(iter(named.values()))[1]
    if named:
        names = " or ".join(f"--set {path}={name}" for name, _ in reversed(named.values()))
        raise click.UsageError(f"{first.typed} needs {names} beside it.")
    by_class = {cls: _field_names(cls) for cls in register.types.values()}
    unnamed = [cls for cls, names in by_class.items() if set(inner) <= set(names)]
    if len(unnamed) == 1:
        return unnamed[0]
    known = dict.fromkeys(name for names in by_class.values() for name in names)
    odd = next((name for name in inner if name not in known), "")
    raise first.refuse(f"no {register.kind} has {odd or 'all of these fields'}"
                       f"{nearest(odd, known) if odd else '.'}")  # fmt: skip
