# SPDX-License-Identifier: BSD-3-Clause
"""The parts that estimators are composed of, and one register for each kind of part.

A *part* is a frozen dataclass: a loss, a pairing, a solver, an objective. A *register* finds the
parts of one kind by a short name, for estimators and the program, and by class name, for model
files. Both names stand here and nowhere else.
"""

from __future__ import annotations

import copy
import difflib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass, replace
from typing import Any, Generic, Self, TypeVar

P = TypeVar("P")
T = TypeVar("T", bound=type)

#: All registers by kind.
REGISTERS: dict[str, Register[Any]] = {}


class Part:
    """A mixin that makes frozen dataclasses work with scikit-learn.

    ``solver__step_size`` works in a grid search, and `clone` copies a part.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True, repr=False)
    ... class Step(Part):
    ...     size: float = 1.0
    ...     shape: str = "flat"
    >>> Step(2.0)
    Step(size=2.0)
    >>> Step().get_params()
    {'size': 1.0, 'shape': 'flat'}
    >>> Step(2.0).with_params(shape="round")
    Step(size=2.0, shape='round')
    >>> Step().with_params(sise=2.0)
    Traceback (most recent call last):
        ...
    ValueError: Step has no field 'sise'; did you mean 'size'?
    """

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the fields by name; if `deep`, also those of inner parts, as ``part__field``."""
        found: dict[str, Any] = {}
        for field in fields(self):  # type: ignore[arg-type]
            if not field.init:
                continue
            value = found[field.name] = getattr(self, field.name)
            if deep and isinstance(value, Part):
                found |= {f"{field.name}__{k}": v for k, v in value.get_params().items()}
        return found

    def with_params(self, **changes: Any) -> Self:
        """Return a copy with other values; ``part__field=value`` changes an inner part."""
        own: dict[str, Any] = {}
        inner: dict[str, dict[str, Any]] = {}
        known = self.get_params(deep=False)
        for key, value in changes.items():
            name, _, rest = key.partition("__")
            if name not in known:
                raise ValueError(
                    f"{type(self).__name__} has no field {name!r}{nearest(name, known)}"
                )
            if rest:
                inner.setdefault(name, {})[rest] = value
            else:
                own[name] = value
        for name, values in inner.items():
            part = own.get(name, known[name])
            if not isinstance(part, Part):
                raise ValueError(
                    f"{type(self).__name__}.{name} is {part!r}, which has no fields; pass an "
                    "object there first."
                )
            own[name] = part.with_params(**values)
        return replace(self, **own)  # type: ignore[type-var]

    def __sklearn_clone__(self) -> Self:
        return copy.deepcopy(self)

    def __repr__(self) -> str:
        told = []
        for field in fields(self):  # type: ignore[arg-type]
            if not (field.init and field.repr):
                continue
            value, default = getattr(self, field.name), field.default
            if default is MISSING and field.default_factory is not MISSING:
                default = field.default_factory()
            if default is MISSING or type(value) is not type(default) or value != default:
                told.append(f"{field.name}={value!r}")
        return f"{type(self).__name__}({', '.join(told)})"


class Register(Mapping[str, Callable[..., P]], Generic[P]):
    """The parts of one kind.

    Parameters
    ----------
    kind : str
        The name of the parameter that takes such parts: "loss", "solver".
    base : type or union of types
        The base class of the parts; it may be abstract.
    **traits : str
        Attributes that tell these parts from other parts of the same base class.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> class Shape: ...
    >>> SHAPES = Register("shape", Shape)
    >>> @SHAPES.add("disc")
    ... @dataclass(frozen=True)
    ... class Disc(Shape):
    ...     radius: float = 1.0
    >>> SHAPES.make("disc"), SHAPES.make(Disc(2.0))
    (Disc(radius=1.0), Disc(radius=2.0))
    >>> SHAPES.make("disk")
    Traceback (most recent call last):
        ...
    ValueError: shape must be 'disc' or a Shape, got 'disk'; did you mean 'disc'?
    >>> _ = REGISTERS.pop("shape")
    """

    def __init__(self, kind: str, base: Any, /, **traits: str) -> None:
        self.kind, self.base, self._traits = kind, base, traits
        self._makers: dict[str, Callable[..., P]] = {}
        self._made: dict[str, type[P]] = {}
        self._types: dict[str, type[P]] = {}
        REGISTERS[kind] = self

    def __getitem__(self, name: str) -> Callable[..., P]:
        return self._makers[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._makers)

    def __len__(self) -> int:
        return len(self._makers)

    @property
    def types(self) -> Mapping[str, type[P]]:
        """The classes by class name, as stored in model files."""
        return self._types

    def add(
        self, name: str | None = None, make: Callable[..., P] | None = None
    ) -> Callable[[T], T]:
        """Return a decorator that registers a class.

        Parameters
        ----------
        name : str, optional
            The short name of the part for estimators and the program. Without it only model files
            know the class.
        make : callable, optional
            Makes the part with this name, if that is not the class with its defaults.

        Returns
        -------
        callable
            The decorator.
        """

        def enter(cls: T) -> T:
            if not (self.takes(cls) and is_dataclass(cls)):
                traits = "".join(f" with {k} = {v!r}" for k, v in self._traits.items())
                raise TypeError(
                    f"{getattr(cls, '__name__', cls)!r} must be a dataclass that derives from "
                    f"{self._base_name}{traits} to be a {self.kind}."
                )
            before = find_type(cls.__name__)
            if before is not None and before is not cls:
                # A cell of a notebook that is run again defines its class anew.
                again = before.__module__ == cls.__module__
                again = again and before.__qualname__ == cls.__qualname__
                if again:
                    self.discard(before)
            if (find_type(cls.__name__) or cls) is not cls:
                raise ValueError(
                    f"a part of the class name {cls.__name__!r} is already known; rename yours."
                )
            if name is not None and name in self._makers:
                raise ValueError(f"the {self.kind} {name!r} is already known; choose another name.")
            known: Any = cls
            self._types[cls.__name__] = known
            if name is not None:
                self._makers[name], self._made[name] = make or known, known
            return cls

        return enter

    def takes(self, cls: Any) -> bool:
        """Return whether a class is of this kind, by its base class and its traits."""
        return (
            isinstance(cls, type)
            and issubclass(cls, self.base)
            and all(
                # A property says something of an object, not of the class.
                getattr(cls, name) == value or isinstance(getattr(cls, name), property)
                for name, value in self._traits.items()
            )
        )

    def discard(self, cls: type) -> None:
        """Remove a class and its names; for tests of custom parts."""
        self._types.pop(cls.__name__, None)
        for name in [name for name, made in self._made.items() if made is cls]:
            del self._makers[name], self._made[name]

    @property
    def _base_name(self) -> str:
        return getattr(self.base, "__name__", self.kind.capitalize())

    def make(self, given: Any, *, also: str = "") -> P:
        """Return the part with a given name, or the given part itself.

        Parameters
        ----------
        given : str or part
            A registered name, or an object of the base class.
        also : str, optional
            Another value that the caller accepts, for the message.

        Returns
        -------
        part
            The part.
        """
        if isinstance(given, self.base):
            return given  # type: ignore[no-any-return]
        if isinstance(given, str) and given in self._makers:
            return self._makers[given]()
        names = ", ".join(repr(name) for name in (*filter(None, (also,)), *self._makers))
        near = nearest(given, self._makers) if isinstance(given, str) else "."
        end = near if "mean" in near else "."
        raise ValueError(
            f"{self.kind} must be {'one of ' if ', ' in names else ''}{names} or a "
            f"{self._base_name}, got {given!r}{end}"
        )

    def name_of(self, part: P) -> str:
        """Return the short name of a part's class, or the name of the class if it has none."""
        for name, maker in self._makers.items():
            if maker is type(part):
                return name
        return type(part).__name__


class Record:
    """Base class of records of a fit: dataclasses that a model file carries, such as a choice."""


RECORDS: Register[Record] = Register("record", Record)


class EqualFields:
    """A mixin for frozen dataclasses with ``eq=False``: fields are equal, and NaN equals NaN.

    A dataclass compares NaN by ``==``, or by identity first, which depends on the version of
    Python. So a result without a standard error would not equal its own copy from a pickle.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True, eq=False)
    ... class Found(EqualFields):
    ...     value: float
    ...     error: float
    >>> Found(0.5, float("nan")) == Found(0.5, float("nan"))
    True
    >>> Found(0.5, float("nan")) == Found(0.5, 0.0)
    False
    """

    def __eq__(self, other: object) -> bool:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return _values(self) == _values(other)

    def __hash__(self) -> int:
        return hash(_values(self))


def _values(record: Any) -> tuple[Any, ...]:
    """Return the fields that are compared, with one object in the place of every NaN."""
    values = (getattr(record, field.name) for field in fields(record) if field.compare)
    return tuple(_NAN if isinstance(value, float) and value != value else value for value in values)


_NAN = object()


def find_type(name: str) -> type | None:
    """Return the class of that name that a register knows; None if there is none."""
    return next((r.types[name] for r in REGISTERS.values() if name in r.types), None)


def register_of(cls: Any) -> Register[Any] | None:
    """Return the register that takes a class; None if it is no part."""
    return next((register for register in REGISTERS.values() if register.takes(cls)), None)


def nearest(name: str, known: Any) -> str:
    """Return the end of a message: the most similar known name, or all of them.

    >>> nearest("rigde", ["ridge"]), nearest("x", ["ridge", "radius"])
    ("; did you mean 'ridge'?", '; there are ridge, radius.')
    """
    found = difflib.get_close_matches(name, list(known), n=1)
    return f"; did you mean {found[0]!r}?" if found else f"; there are {', '.join(known)}."
