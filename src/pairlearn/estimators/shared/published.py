# SPDX-License-Identifier: BSD-3-Clause
"""Fitted attributes that belong together, published by one assignment.

A thread that predicts beside one that learns must not see the coefficients of one model and the
threshold of another. So all parts that predictions need stand in one record. The record is never
changed but replaced as a whole, and a prediction reads it once.

Expensive parts can be deferred: the record names them, and reading the record, or one of them,
finishes the stream of the model first.

`all_or_nothing` takes a method back that fails on its way.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, Concatenate, ParamSpec, TypeVar

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
Model = TypeVar("Model")

_RECORD = "_model"
#: Names of the parts that are out of date until the model's `finish_stream` has published them.
DEFERRED = "_deferred"


def publish(model: Any, **parts: Any) -> None:
    """Replace these parts of the record, all at once."""
    vars(model)[_RECORD] = {**_record(model), **parts}


def _record(model: Any) -> Mapping[str, Any]:
    record: Mapping[str, Any] = vars(model).get(_RECORD, {})
    return record


def published(model: Any) -> Mapping[str, Any]:
    """Return the current record, for reading only."""
    record = _record(model)
    # Another thread may learn the next chunk between finishing and reading.
    while record.get(DEFERRED):
        model.finish_stream()
        record = _record(model)
    return record


def all_or_nothing(
    method: Callable[Concatenate[Model, Arguments], Result],
) -> Callable[Concatenate[Model, Arguments], Result]:
    """Leave a model as it was if this method of it fails or is interrupted.

    What learning changes is replaced and not written to, so that the attributes of before are the
    model of before.
    """

    @functools.wraps(method)
    def whole(self: Model, /, *args: Arguments.args, **keywords: Arguments.kwargs) -> Result:
        before = dict(vars(self))
        try:
            return method(self, *args, **keywords)
        except BaseException:
            for name in vars(self).keys() - before.keys():
                del vars(self)[name]
            vars(self).update(before)
            raise

    return whole


class Attribute:
    """A fitted attribute that stands in the record.

    Examples
    --------
    >>> class Line:
    ...     slope_, intercept_ = Attribute(), Attribute()
    >>> line = Line()
    >>> hasattr(line, "slope_")
    False
    >>> publish(line, slope_=2.0, intercept_=1.0)
    >>> line.slope_, published(line)
    (2.0, {'slope_': 2.0, 'intercept_': 1.0})
    """

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, model: Any, owner: type) -> Any:
        if model is None:
            return self
        record = _record(model)
        if self._name in record.get(DEFERRED, ()):
            record = published(model)
        try:
            return record[self._name]
        except KeyError:
            raise AttributeError(
                f"{owner.__name__!r} object has no attribute {self._name!r}: it is not fitted."
            ) from None

    def __set__(self, model: Any, value: Any) -> None:
        publish(model, **{self._name: value})

    def __delete__(self, model: Any) -> None:
        self.__get__(model, type(model))
        vars(model)[_RECORD] = {k: v for k, v in _record(model).items() if k != self._name}
