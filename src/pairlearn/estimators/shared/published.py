# SPDX-License-Identifier: BSD-3-Clause
"""Fitted attributes: a method that fails changes none, and a stream finds some of them later."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, Concatenate, ParamSpec, TypeVar

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
Model = TypeVar("Model")

#: Names of the attributes that are absent until the model's `finish_stream` has published them.
DEFERRED = "_deferred"


def publish(model: Any, **parts: Any) -> None:
    """Set fitted attributes; those that are deferred go."""
    vars(model).update(parts)
    for name in parts.get(DEFERRED, ()):
        vars(model).pop(name, None)


def published(model: Any) -> Mapping[str, Any]:
    """Return all attributes of a model, none of them left for later."""
    if vars(model).get(DEFERRED):
        model.finish_stream()
    attributes: Mapping[str, Any] = vars(model)
    return attributes


def found_later(model: Any, name: str) -> Any:
    """Return an attribute that is not there yet: the `__getattr__` of estimators that defer."""
    if name in vars(model).get(DEFERRED, ()):
        return published(model)[name]
    return object.__getattribute__(model, name)  # it says what is missing


def all_or_nothing(
    method: Callable[Concatenate[Model, Arguments], Result],
) -> Callable[Concatenate[Model, Arguments], Result]:
    """Leave a model as it was if this method of it fails: learning replaces what it changes."""

    @functools.wraps(method)
    def whole(self: Model, /, *args: Arguments.args, **keywords: Arguments.kwargs) -> Result:
        before = dict(vars(self))
        try:
            return method(self, *args, **keywords)
        except BaseException:
            vars(self).clear()
            vars(self).update(before)
            raise

    return whole
