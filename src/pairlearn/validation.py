# SPDX-License-Identifier: BSD-3-Clause
"""Checks whose messages name the value received, the rule and the cure."""

from __future__ import annotations

import inspect
import math
import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pairlearn.typing import Vector

__all__ = [
    "AssumptionWarning",
    "DivergenceError",
    "as_counts",
    "check_count",
    "check_flag",
    "check_fraction",
    "check_generator",
    "check_labels",
    "check_names",
    "check_number",
    "check_one_type",
    "check_positive",
    "check_scored",
    "check_steps",
    "check_vector",
    "check_weights",
    "finite_numbers",
    "float_array",
    "real_array",
    "refuse_masked",
    "refuse_times",
    "warn_caller",
]


class DivergenceError(ArithmeticError):
    """The iterate stopped being finite: the step size is too large for the data."""


class AssumptionWarning(UserWarning):
    """A statement was evaluated outside the conditions under which it is proved."""


#: Modules whose lines are not the user's: this library and libraries that call it.
_LIBRARIES = ("pairlearn.", "sklearn.", "torch.")


def warn_caller(message: str, category: type[Warning]) -> None:
    """Warn at the user's line that led here, from any depth inside the library.

    Python shows a warning once per source line. At a line of the library, the warning of the first
    model would silence all later ones.
    """
    frame = inspect.currentframe()
    level = 1
    while frame and (frame.f_globals.get("__name__") or "").startswith(_LIBRARIES):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


def check_number(name: str, value: float) -> float:
    """Return `value` as a float if it is a number; texts, True and False are none."""
    try:
        # Python would read "1_000", digits of all scripts, and True as 1.
        if isinstance(value, str | bool | np.bool_):
            raise TypeError
        return float(value)
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be a number, got {value!r}.") from None


def check_positive(name: str, value: float, *, allow_infinite: bool = False) -> float:
    """Return `value` as a float if it is a positive number."""
    number = check_number(name, value)
    if not number > 0 or (math.isinf(number) and not allow_infinite):
        raise ValueError(f"{name} must be a positive number, got {value!r}; choose {name} > 0.")
    return number


def check_count(name: str, value: int, *, minimum: int = 1) -> int:
    """Return `value` as an int if it is a whole number of at least `minimum`."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"{name} must be a whole number, got {value!r}.")
    if value < minimum:
        raise ValueError(f"{name} must be at least {minimum}, got {value}.")
    return int(value)


def check_flag(name: str, value: bool) -> bool:
    """Return `value` if it is True or False: the text "no" would count as true."""
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name} must be True or False, got {value!r}.")
    return bool(value)


def check_verbose(value: int) -> int:
    """Return how much a fit prints: a whole number from 0 on, or True or False."""
    flag = isinstance(value, bool | np.bool_)
    return int(value) if flag else check_count("verbose", value, minimum=0)


def check_fraction(name: str, value: float) -> float:
    """Return `value` as a float if it lies strictly between 0 and 1."""
    number = check_number(name, value)
    if not 0.0 < number < 1.0:
        raise ValueError(f"{name} must lie strictly between 0 and 1, got {value!r}.")
    return number


def check_generator(rng: Any) -> np.random.Generator:
    """Return a `numpy.random.Generator` made from a seed, a generator or None."""
    if isinstance(rng, np.random.Generator):
        return rng
    if isinstance(rng, np.random.RandomState):
        return np.random.default_rng(rng.randint(0, 2**32, size=4, dtype=np.uint32))
    try:
        return np.random.default_rng(rng)
    except (TypeError, ValueError) as error:
        raise type(error)(
            f"random_state must be None, a whole number of at least 0 or a NumPy generator, "
            f"got {rng!r}."
        ) from error


def real_array(name: str, values: Any) -> NDArray[Any]:
    """Return `values` as an array of any type; refuse complex numbers, times and masked values.

    NumPy would drop the imaginary parts, with a warning at best, the mask, and the unit.
    """
    refuse_masked(name, values)
    array = np.asarray(values)
    refuse_times(name, array.dtype)
    if array.dtype.kind == "c":
        raise ValueError(
            f"{name} holds complex numbers; pass {name}.real, {name}.imag or abs({name})."
        )
    return array


def float_array(name: str, values: Any, *, ordered: bool = False) -> Vector:
    """Return `values` as float64, in any shape; refuse what is no number.

    With `ordered`, whole numbers whose order would be lost are refused, too: 2^60 and 2^60 + 1 are
    the same float64.
    """
    given = real_array(name, values)
    try:
        floats = np.asarray(given, dtype=np.float64, order="C")
    except (TypeError, ValueError, OverflowError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"{name} must hold numbers: {error}.") from None
    large = ordered and given.dtype.kind in "iuO" and np.abs(floats).max(initial=0.0) > 2.0**53
    if large and len(set(given.ravel().tolist())) > len(np.unique(floats)):
        raise ValueError(
            f"{name} holds different whole numbers beyond 2^53 that are equal as float64; "
            "subtract the least of them, or pass their ranks."
        )
    return floats


def finite_numbers(name: str, given: Any) -> Vector:
    """Return a list of finite numbers, at least one: a check of no points would pass everything."""
    array = real_array(name, given)
    numbers = array.dtype.kind in "biuf"
    if array.ndim != 1 or not array.size or not numbers or not np.isfinite(array).all():
        raise ValueError(f"{name} must be a list of finite numbers, got {given!r}.")
    return array.astype(np.float64)


def refuse_masked(name: str, values: Any) -> None:
    """Refuse masked values: NumPy would use the values below the mask."""
    masked: Any = np.ma.getmaskarray(values) if isinstance(values, np.ma.MaskedArray) else ()
    n_masked = int(np.count_nonzero(masked))
    if n_masked:
        raise ValueError(
            f"{name} is a masked array with {n_masked} masked values; fill them "
            f"({name}.filled(...)) or leave these rows out."
        )


def refuse_times(name: str, dtype: Any) -> None:
    """Refuse dates and durations: NumPy counts their units, and NaT is -9.2e18 of them."""
    kind = getattr(dtype, "kind", "")
    if kind in ("m", "M"):
        what, since = ("durations", name) if kind == "m" else ("dates", f"({name} - first day)")
        raise ValueError(
            f"{name} holds {what} ({dtype}), whose numbers depend on their unit; pass numbers, "
            f'such as {since} / np.timedelta64(1, "D"), without missing ones.'
        )


def check_names(name: str, values: Any, what: str) -> NDArray[Any]:
    """Return labels, groups or queries as an array; refuse missing ones, and types of no order.

    `what` is the word for one of them. NumPy would take each NaN for a name of its own in one
    place and all for one name in another, and a list of texts with NaN for texts.
    """
    refuse_masked(name, values)
    array = np.asarray(values)
    kind = str(getattr(values, "dtype", ""))
    if array.ndim != 1:
        return array
    if array.dtype.kind in "fcmM":
        missing = array != array
        row = int(np.argmax(missing)) if missing.any() else None
    elif isinstance(values, list | tuple) or array.dtype.kind == "O" or kind in ("str", "string"):
        array = np.asarray(values, dtype=object)
        row = next((k for k, one in enumerate(array) if is_missing(one)), None)
    else:
        return array
    if row is not None:
        raise ValueError(
            f"{name} has no {what} in row {row} ({array.tolist()[row]!r}); leave out the examples "
            "without one."
        )
    kinds = {type(one) for one in array} if array.dtype.kind == "O" else set()
    if 0 < sum(issubclass(kind, str) for kind in kinds) < len(kinds):
        names = " and ".join(sorted(kind.__name__ for kind in kinds))
        raise ValueError(
            f"{name} mixes values of the types {names}; give all of them one type, such as "
            f"{name}.astype(str)."
        )
    return np.asarray(values)


def check_one_type(name: str, now: Any, before: Any, what: str) -> None:
    """Refuse a text after numbers in a stream, or a number after texts.

    "7" and 7 would be two of `what`. Within one chunk, `check_names` refuses a mixture.
    """
    if isinstance(now, str) != isinstance(before, str):
        raise ValueError(
            f"{name} holds {now!r} in this chunk and held {before!r} in one before: a text and a "
            f"number are different {what}; give all chunks one type, such as {name}.astype(str)."
        )


def is_missing(value: Any) -> bool:
    """Whether a value is None, NaN or a missing value of pandas."""
    nan = isinstance(value, float | np.floating) and value != value
    return value is None or bool(nan) or type(value).__name__ in ("NAType", "NaTType")


def check_vector(name: str, value: ArrayLike, length: int) -> Vector:
    """Return `value` as a finite float vector of the given length."""
    vector = float_array(name, value)
    if vector.shape != (length,):
        raise ValueError(f"{name} must have shape ({length},), got {vector.shape}.")
    if not np.isfinite(vector).all():
        raise ValueError(f"{name} contains NaN or infinity; remove or impute these values.")
    return vector


def check_labels(y: ArrayLike, n: int) -> Vector:
    """Return `y` as a finite float vector with one entry for each of `n` examples."""
    labels = np.atleast_1d(float_array("y", y, ordered=True))
    if labels.ndim != 1 or len(labels) != n:
        raise ValueError(
            f"y must hold one number for each of the {n} rows of X, got shape {labels.shape}."
        )
    if not np.isfinite(labels).all():
        raise ValueError("y contains NaN or infinity; remove or correct these examples.")
    return labels


def check_weights(weights: ArrayLike, n: int, *, name: str = "example_weight") -> Vector:
    """Return `n` non-negative finite weights, one for each example."""
    weight = np.atleast_1d(float_array(name, weights))
    if weight.shape != (n,):
        raise ValueError(f"{name} must have shape ({n},), got {weight.shape}.")
    wrong = ~(np.isfinite(weight) & (weight >= 0))
    if wrong.any():
        raise ValueError(
            f"{name} must hold finite numbers of at least 0, got {weight[wrong][0]}; use 0 to "
            "leave an example out."
        )
    least, largest = weight.min(initial=np.inf, where=weight > 0), weight.max(initial=0.0)
    if largest and not least / largest > 0:
        raise ValueError(
            f"{name} holds {least:g} beside {largest:g}, whose ratio is no number; use 0 to leave "
            "an example out."
        )
    return weight


def as_counts(weight: Vector) -> Vector:
    """Return weights in the unit in which examples of positive weight have 1 on average.

    Where weights are added up to numbers of examples, as by Platt's smoothed targets, their own
    unit must not matter.
    """
    positive = weight[weight > 0.0]
    return weight / positive.mean() if len(positive) else weight


def check_scored(scores: ArrayLike, is_positive: ArrayLike) -> tuple[Vector, NDArray[Any]]:
    """Return the scores of examples, and a mask of the positive ones, as vectors."""
    found = np.ascontiguousarray(scores, dtype=np.float64)
    labels = np.atleast_1d(np.asarray(is_positive))
    if found.ndim != 1 or found.shape != labels.shape:
        raise ValueError(
            f"scores and is_positive must be vectors of one length, got shapes {found.shape} "
            f"and {labels.shape}."
        )
    if not np.isfinite(found).all():
        raise ValueError("scores contain NaN or infinity; the model has diverged.")
    if labels.dtype != np.bool_ and not np.isin(labels, (0, 1)).all():
        raise ValueError("is_positive must hold True and False (or 1 and 0); pass y == 1.")
    return found, labels


def check_steps(n: int, n_steps: int | None, n_passes: float | None) -> int:
    """Return the number of steps on `n` examples, given as steps or as passes over them."""
    if n < 2:
        raise ValueError(f"Pairs need at least 2 examples, got {n}.")
    if n_steps is not None and n_passes is None:
        return check_count("n_steps", n_steps, minimum=0)
    if n_passes is None or n_steps is not None:
        raise ValueError("Give one of n_steps and n_passes.")
    return math.ceil(check_positive("n_passes", n_passes) * n)
