# SPDX-License-Identifier: BSD-3-Clause
"""A fitted model as plain values, exactly the content of a model file."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

MAX_NAME = 200
#: Levels of nested lists and dicts at most.
MAX_DEPTH = 12
#: Characters of a place in an error message.
_SHOWN = 200
_KINDS = ("<f8", "<f4", "<i8", "<i4", "|u1", "|b1")


class ModelFileError(ValueError):
    """A model file cannot be written or read; the one-line message names the cure."""


def reason(error: Exception) -> str:
    """Return one line on why the library refused a value of a file.

    It is shortened, as it may repeat a long value.
    """
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."


def check_plain(value: Any, where: str) -> Any:
    """Return a copy made of None, bool, int, finite float, str, list and dict only."""
    path: list[str | int] = []
    try:
        return _plain(value, path)
    except _FlawError as flaw:
        # build the text of the place only on an error: for each element it would cost as much as
        # the longest key above it
        place = where + "".join(f"[{k}]" if isinstance(k, int) else f".{k[:60]}" for k in path)
        raise ModelFileError(f"{flaw.args[0]}{place[:_SHOWN]} {flaw.args[1]}") from None


class _FlawError(Exception):
    """The texts before and after the place in the error for a value that a file cannot hold."""


def _is_simple(value: Any) -> bool:
    """Whether a value is plain at first sight, as nearly all values of a wide table are."""
    kind = type(value)
    return (
        value is None
        or kind is bool
        or kind is int
        or (kind is str and value.isascii())
        or (kind is float and math.isfinite(value))
    )


def _plain(value: Any, path: list[str | int]) -> Any:
    """Return a plain copy; on an error `path` leads to the value."""
    if len(path) > MAX_DEPTH:
        raise _FlawError("", f"is nested more than {MAX_DEPTH} deep.")
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, str):
        return _utf8(value, "")
    if isinstance(value, float):
        if not math.isfinite(value):
            raise _FlawError("", f"is {value}; a model file holds finite numbers only.")
        return value
    is_deepest = len(path) == MAX_DEPTH
    if isinstance(value, (list, tuple)):
        copied: list[Any] = []
        for k, entry in enumerate(value):
            if is_deepest or not _is_simple(entry):
                path.append(k)
                entry = _plain(entry, path)
                path.pop()
            copied.append(entry)
        return copied
    if isinstance(value, Mapping):
        named = {}
        for key, entry in value.items():
            if not isinstance(key, str):
                raise _FlawError("", f"has the key {key!r:.60}; keys must be texts.")
            if not key.isascii():
                _utf8(key, "a key of ")
            if is_deepest or not _is_simple(entry):
                path.append(key)
                entry = _plain(entry, path)
                path.pop()
            named[key] = entry
        return named
    raise _FlawError(
        "", f"is a {type(value).__name__}; use numbers, texts, lists and dicts of them."
    )


def _utf8(text: str, what: str) -> str:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise _FlawError(what, "is not text that UTF-8 can hold.") from None
    return text


def _check_name(value: Any, where: str) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= MAX_NAME or not value.isprintable():
        raise ModelFileError(f"{where} must be a printable text of 1 to {MAX_NAME} characters.")
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
        if not isinstance(self.library_version, str) or len(self.library_version) > MAX_NAME:
            raise ModelFileError(f"library_version must be a text of up to {MAX_NAME} characters.")
        if not isinstance(self.arrays, Mapping):
            raise ModelFileError("arrays must be a mapping from names to arrays.")
        put("arrays", {_check_name(k, "array name"): _array(k, v) for k, v in self.arrays.items()})
        for name in ("parameters", "provenance", "certificate"):
            value = getattr(self, name)
            if value is None and name == "certificate":
                continue
            if not isinstance(value, Mapping):
                raise ModelFileError(f"{name} must be a mapping, got {type(value).__name__}.")
            put(name, check_plain(value, name))
        if self.classes is not None:
            classes = tuple(check_plain(_sequence(self.classes, "classes"), "classes"))
            if any(isinstance(c, (list, dict)) or c is None for c in classes):
                raise ModelFileError("classes must be numbers or texts.")
            if len(set(classes)) != len(classes):  # true is 1, and 1.0 too
                raise ModelFileError("classes must be different from one another.")
            put("classes", classes)
        if self.feature_names is not None:
            names = _sequence(self.feature_names, "feature_names")
            if not all(isinstance(name, str) for name in names):
                raise ModelFileError("feature_names must be texts.")
            put("feature_names", tuple(check_plain(names, "feature_names")))


def _sequence(value: Any, where: str) -> list[Any]:
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, (str, bytes, Mapping)) or not hasattr(value, "__iter__"):
        raise ModelFileError(f"{where} must be a list, got {type(value).__name__}.")
    return list(value)


def _array(name: str, value: Any) -> NDArray[Any]:
    """Return a read-only copy of an array; refuse types that a model file cannot hold."""
    array = np.array(value, order="C", ndmin=0)
    if array.dtype.newbyteorder("<").str not in _KINDS:
        raise ModelFileError(
            f"array {name!r} is {array.dtype}; use float64, float32, int64, int32, uint8 or bool."
        )
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise ModelFileError(f"array {name!r} contains NaN or infinity; fit the model again.")
    array = array.astype(array.dtype.newbyteorder("="), copy=False)
    array.flags.writeable = False
    return array
