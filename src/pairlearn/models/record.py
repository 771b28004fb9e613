# SPDX-License-Identifier: BSD-3-Clause
"""A fitted model as plain values, the content of a model file, and what each estimator allows.

An estimator registers itself by name when its module is imported; the library's own modules are
imported when needed. A file can only name an entry of the register or of a door: it never decides
what is imported or called.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

_MAX_NAME = 200
#: Levels of nested lists and dicts at most.
_MAX_DEPTH = 12
#: Characters of a place, or of a reason, in an error message.
_SHOWN = 200
_TYPES = ("float64", "float32", "int64", "int32", "uint8", "bool")


class ModelFileError(ValueError):
    """A model file cannot be written or read; the one-line message names the cure."""


def reason(error: Exception) -> str:
    """Return one short line on why the library refused a value of a file."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."


class _FlawError(Exception):
    """A value that a file cannot hold; its place is collected on the way out."""

    def __init__(self, text: str) -> None:
        self.text, self.place = text, list[str]()


def check_plain(value: Any, where: str) -> Any:
    """Return a copy made of None, bool, int, finite float, str, list and dict only."""
    try:
        return _plain(value, 0)
    except _FlawError as flaw:
        place = where + "".join(reversed(flaw.place))
        raise ModelFileError(f"{place[:_SHOWN]} {flaw.text}") from None


def _plain(value: Any, depth: int) -> Any:
    if depth > _MAX_DEPTH:
        raise _FlawError(f"is nested more than {_MAX_DEPTH} deep.")
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, str):
        try:
            value.encode("utf-8")
        except UnicodeEncodeError:
            raise _FlawError("is not text that UTF-8 can hold.") from None
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise _FlawError(f"is {value}; a model file holds finite numbers only.")
        return value
    if isinstance(value, Mapping):
        return {_key(key): _inner(one, key, depth) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_inner(one, k, depth) for k, one in enumerate(value)]
    raise _FlawError(f"is a {type(value).__name__}; use numbers, texts, lists and dicts of them.")


def _key(key: Any) -> str:
    if not isinstance(key, str):
        raise _FlawError(f"has the key {key!r:.60}; keys must be texts.")
    return str(_plain(key, 0))


def _inner(value: Any, key: str | int, depth: int) -> Any:
    try:
        return _plain(value, depth + 1)
    except _FlawError as flaw:
        flaw.place.append(f".{key[:60]}" if isinstance(key, str) else f"[{key}]")
        raise


def _check_name(value: Any, where: str) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= _MAX_NAME or not value.isprintable():
        raise ModelFileError(f"{where} must be a printable text of 1 to {_MAX_NAME} characters.")
    return value


@dataclass(frozen=True, eq=False)
class ModelRecord:
    """The content of one fitted model.

    Parameters
    ----------
    estimator : str
        Registered name of the estimator, such as ``"AUCClassifier"``.
    arrays : mapping of str to ndarray
        Fitted arrays: float64, float32, int64, int32, uint8 or bool; floats must be finite.
    parameters : mapping
        Constructor parameters as plain values.
    classes : sequence, optional
        Labels in the order of the scores.
    feature_names : sequence of str, optional
        Names of the features, in order.
    provenance : mapping
        The origin of the model: rows seen, fingerprint of the data, date, ...
    certificate : mapping, optional
        The privacy certificate.
    library_version : str
        Version of the library that made the model; filled in when writing.

    Examples
    --------
    >>> import numpy as np
    >>> record = ModelRecord("AUCClassifier", {"coef": np.zeros(2)}, classes=[0, 1])
    >>> record.classes
    (0, 1)
    """

    estimator: str
    arrays: Mapping[str, NDArray[Any]]
    parameters: Mapping[str, Any] = field(default_factory=dict)
    classes: tuple[Any, ...] | None = None
    feature_names: tuple[str, ...] | None = None
    provenance: Mapping[str, Any] = field(default_factory=dict)
    certificate: Mapping[str, Any] | None = None
    library_version: str = ""

    def __post_init__(self) -> None:
        def put(name: str, value: Any) -> None:
            object.__setattr__(self, name, value)

        _check_name(self.estimator, "estimator")
        if self.library_version != "":
            _check_name(self.library_version, "library_version")
        for name in ("arrays", "parameters", "provenance", "certificate"):
            value = getattr(self, name)
            if value is None and name == "certificate":
                continue
            if not isinstance(value, Mapping):
                raise ModelFileError(f"{name} must be a mapping, got {type(value).__name__}.")
            if name == "arrays":
                put(name, {_check_name(k, "array name"): _array(k, v) for k, v in value.items()})
            else:
                put(name, check_plain(value, name))
        if self.classes is not None:
            classes = _sequence(self.classes, "classes")
            if any(isinstance(c, (list, dict)) or c is None for c in classes):
                raise ModelFileError("classes must be numbers or texts.")
            if len(set(classes)) != len(classes):  # true is 1, and 1.0 too
                raise ModelFileError("classes must be different from one another.")
            put("classes", classes)
        if self.feature_names is not None:
            names = _sequence(self.feature_names, "feature_names")
            if not all(isinstance(name, str) for name in names):
                raise ModelFileError("feature_names must be texts.")
            put("feature_names", names)


def _sequence(value: Any, where: str) -> tuple[Any, ...]:
    value = value.tolist() if isinstance(value, np.ndarray) else value
    if isinstance(value, (str, bytes, Mapping)) or not hasattr(value, "__iter__"):
        raise ModelFileError(f"{where} must be a list, got {type(value).__name__}.")
    return tuple(check_plain(list(value), where))


def _array(name: str, value: Any) -> NDArray[Any]:
    """Return a read-only copy of an array; refuse what a model file cannot hold."""
    array = np.array(value, order="C")
    if array.dtype.name not in _TYPES:
        raise ModelFileError(
            f"array {name!r} is {array.dtype}; use float64, float32, int64, int32, uint8 or bool."
        )
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise ModelFileError(f"array {name!r} contains NaN or infinity; fit the model again.")
    if array.dtype.kind == "b" and (array.view(np.uint8) > 1).any():
        raise ModelFileError(f"array {name!r} holds bytes that are neither true nor false.")
    array = array.astype(array.dtype.newbyteorder("="), copy=False)
    array.flags.writeable = False
    return array


@dataclass(frozen=True)
class ArraySpec:
    """Type and shape of one array.

    Parameters
    ----------
    shape : tuple of int or str
        Sides; equal names must have equal lengths. The name ``"n_features"`` must also match the
        feature names, ``"n_classes"`` the classes.
    dtypes : tuple of str
        Allowed types.
    required : bool
        Whether the array is required.
    low, high : float
        The smallest and the largest allowed value.
    order : {"any", "rising", "strictly rising"}
        The order of the values of a vector.
    """

    shape: tuple[int | str, ...]
    dtypes: tuple[str, ...] = ("float64",)
    required: bool = True
    low: float = -math.inf
    high: float = math.inf
    order: Literal["any", "rising", "strictly rising"] = "any"

    def check(self, name: str, array: NDArray[Any], owner: str, sides: dict[str, int]) -> None:
        """Refuse another type or shape, and values that no fit gives; note the named sides."""
        if array.dtype.name not in self.dtypes:
            raise ModelFileError(
                f"array {name!r} is {array.dtype.name}, {owner} needs {' or '.join(self.dtypes)}."
            )
        good = len(array.shape) == len(self.shape)
        for side, wanted in zip(array.shape, self.shape, strict=False):
            length = sides.setdefault(wanted, side) if isinstance(wanted, str) else wanted
            good = good and side == length
        if not good:
            raise ModelFileError(
                f"array {name!r} has shape {array.shape}, {owner} needs "
                f"({', '.join(map(str, self.shape))}) with {sides}."
            )
        if array.size and not (array.min() >= self.low and array.max() <= self.high):
            odd = array.min() if array.min() < self.low else array.max()
            raise ModelFileError(
                f"array {name!r} holds {odd:g}, it must lie between {self.low:g} and {self.high:g}."
            )
        if self.order != "any":
            strictly = self.order == "strictly rising"
            bad = array[1:] <= array[:-1] if strictly else array[1:] < array[:-1]
            if bad.any():
                raise ModelFileError(f"array {name!r} must be {self.order}.")


class ModelSpec(NamedTuple):
    """What a record of one estimator may hold, and what builds the estimator from it."""

    arrays: Mapping[str, ArraySpec]
    parameters: tuple[str, ...]
    build: Callable[[ModelRecord], Any]


_SPECS: dict[str, ModelSpec] = {}
#: The library's own estimators that need torch; the others stand in the door of the estimators.
_OF_TORCH = ("EmbeddingLearner", "NeuralAUCClassifier", "PrivateNeuralAUCClassifier")


def register_model(name: str, spec: ModelSpec) -> None:
    """Let files hold an estimator; its name must be new."""
    if _SPECS.get(name, spec) != spec:
        raise ModelFileError(f"an estimator named {name!r} is already registered.")
    _SPECS[name] = spec


def _spec_of(name: str) -> ModelSpec:
    if name not in _SPECS:
        room = importlib.import_module(
            f"pairlearn.{'torch' if name in _OF_TORCH else 'estimators'}"
        )
        if name in room.__all__:
            getattr(room, name)  # its module registers it
    if name not in _SPECS:
        raise ModelFileError(
            f"it holds a model of {name[:60]!r}, unknown to this version; upgrade pairlearn, or "
            "import the module that defines it first."
        )
    return _SPECS[name]


def build_model(record: ModelRecord) -> Any:
    """Return the fitted estimator of a checked record."""
    return _spec_of(record.estimator).build(record)


def check_record(record: ModelRecord, *, allow_unregistered: bool = False) -> None:
    """Check a record against the entry of its estimator."""
    owner = record.estimator
    if allow_unregistered and owner not in _SPECS:
        return
    spec = _spec_of(owner)
    for name in sorted(set(record.parameters) - set(spec.parameters)):
        raise ModelFileError(f"{owner} has no parameter {name[:60]!r}.")
    for name in sorted(set(record.arrays) - set(spec.arrays)):
        raise ModelFileError(f"{owner} has no array {name!r}.")
    known = {"n_features": record.feature_names, "n_classes": record.classes}
    sides = {side: len(names) for side, names in known.items() if names is not None}
    for name, rule in spec.arrays.items():
        if name in record.arrays:
            rule.check(name, record.arrays[name], owner, sides)
        elif rule.required:
            raise ModelFileError(f"array {name!r} of {owner} is missing.")
    if 0 in (sides.get("n_features"), sides.get("n_mapped")):
        raise ModelFileError(f"a {owner} without features cannot be used.")
