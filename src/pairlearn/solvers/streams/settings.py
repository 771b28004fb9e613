# SPDX-License-Identifier: BSD-3-Clause
"""Settings that must stay while a stream runs.

A stream is made of the settings of its model once. A setting that is changed later would be
ignored, so the next chunk is refused. A state names the parts of its stream, and a stream of others
refuses it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from hashlib import sha256
from numbers import Real
from operator import attrgetter, is_
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from pairlearn.features import FeatureMap

#: Where a model keeps the settings that its stream began with.
_BEGUN_WITH = "_begun_with"


@functools.cache
def _reader(names: tuple[str, ...]) -> Callable[[Any], tuple[Any, ...]]:
    return attrgetter(*names)


def keep_settings(model: Any, names: tuple[str, ...], *, begun: bool) -> None:
    """Note the settings that a stream begins with; refuse others once it has begun.

    `names` holds two names or more. Models of older versions have no note, and begin one.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> model = SimpleNamespace(loss="hinge", scaling=None)
    >>> keep_settings(model, ("loss", "scaling"), begun=False)
    >>> model.loss = "logistic"
    >>> keep_settings(model, ("loss", "scaling"), begun=True)
    Traceback (most recent call last):
        ...
    ValueError: the stream began with loss='hinge' and would ignore loss='logistic'; ...
    """
    now = _reader(names)(model)
    before = vars(model).get(_BEGUN_WITH) if begun else None
    if before is None:
        vars(model)[_BEGUN_WITH] = now
        return
    if all(map(is_, now, before)):
        return
    for name, old, new in zip(names, before, now, strict=True):
        if not _is_same(old, new):
            raise ValueError(
                f"the stream began with {name}={old!r:.200} and would ignore {name}={new!r:.200}; "
                "set it back, or begin anew with `fit` or with sklearn.base.clone of the model."
            )
    # Equal values: the next look is at their identities alone.
    vars(model)[_BEGUN_WITH] = now


def check_map(before: FeatureMap | None, now: FeatureMap) -> None:
    """Refuse a map other than that of the coefficients that a stream goes on from, if any."""
    if before is not None and not _is_same(before, now):
        raise ValueError(
            f"the coefficients are those of the map {before!r:.200}, and the stream has "
            f"{now!r:.200}, another map or one of other rows; pass features=model.features_, or "
            "begin anew with `fit` or with sklearn.base.clone of the model."
        )


def told(part: Any) -> str:
    """Return the same words for equal parts in every process, and others for other fields.

    A class without a `repr` of its own would show the fields of its base only.

    >>> from pairlearn.domains import Ball
    >>> told(Ball(2)), told(Ball(np.float64(3.0)))
    ('Ball(radius=2.0)', 'Ball(radius=3.0)')
    """
    if is_dataclass(part):
        own = (f"{one.name}={told(getattr(part, one.name))}" for one in fields(part) if one.init)
        return f"{type(part).__name__}({', '.join(own)})"
    if isinstance(part, np.ndarray):
        return f"{part.dtype}{part.shape} {sha256(part.tobytes()).hexdigest()[:16]}"
    if isinstance(part, Real) and not isinstance(part, bool):
        return repr(float(part))
    plain = part is None or isinstance(part, bool | str | tuple)
    return repr(part) if plain else type(part).__name__


def check_made_of(state: Mapping[str, Any], made_of: Mapping[str, Any]) -> None:
    """Refuse a state whose stream was made of other parts or numbers than these, by their names."""
    for name, own in made_of.items():
        # States from before they had names do not tell.
        if state.get(name, own) != own:
            raise ValueError(
                f"the saved stream has the {name} {state[name]}, and this one {own}; start "
                "this one with it."
            )


def _is_same(old: Any, new: Any) -> bool:
    if old is new:
        return True
    if type(old) is not type(new):
        return np.array_equal(old, new)
    if is_dataclass(old):
        names = [field.name for field in fields(old)]
        if hasattr(old, "n_inputs"):  # a feature map
            names += ["n_inputs", "learned"]
        return all(_is_same(getattr(old, name), getattr(new, name)) for name in names)
    if isinstance(old, Mapping):
        return old.keys() == new.keys() and all(_is_same(old[key], new[key]) for key in old)
    if isinstance(old, list | tuple):
        return len(old) == len(new) and all(map(_is_same, old, new))
    return np.array_equal(old, new)
