# SPDX-License-Identifier: BSD-3-Clause
"""Compile scalar functions of losses and domains, which kernels call by address.

A scalar function of four numbers, ``(score, y, y_partner, parameter)`` of a loss or
``(value, step_size, first, second)`` of a domain, is compiled once per process, on first use, and
passed to a kernel as an integer. So kernels never depend on the code of a loss: their disk cache
works in every process and cannot go stale when a loss is edited. The function itself is cached on
disk too if it uses only its arguments and the modules math and numpy.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import inspect
import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pairlearn.typing import Vector

ScalarFunction = Callable[[float, float, float, float], float]


_SIGNATURE = "float64(float64, float64, float64, float64)"
#: The largest relative difference between the compiled and the Python function.
_ROUNDING = 1e-12


class Scalar:
    """A scalar function of four numbers, in Python that numba compiles, with a compiled version.

    Calling it runs the plain Python function; `address` compiles it (numba is imported only then).
    In a class it acts as a static method. Pickling keeps only the Python function: an address is
    meaningless in another process.

    >>> square = Scalar(lambda score, y, y_partner, parameter: score * score)
    >>> square(3.0, 1.0, -1.0, 0.0)
    9.0
    """

    def __init__(self, function: ScalarFunction) -> None:
        self.function = function
        self._compiled: Any = None
        functools.update_wrapper(self, function)

    def __call__(self, score: float, y: float, y_partner: float, parameter: float = 0.0) -> float:
        """Run the plain Python function."""
        return self.function(score, y, y_partner, parameter)

    def many(
        self, scores: ArrayLike, y: ArrayLike, y_partner: ArrayLike, parameter: float = 0.0
    ) -> Vector:
        """Run the compiled function on arrays, element by element, with NumPy broadcasting."""
        from pairlearn.kernels._native import call_each

        given = np.broadcast_arrays(scores, y, y_partner)
        flat = [np.ascontiguousarray(array, dtype=np.float64).ravel() for array in given]
        result = np.empty(given[0].size)
        call_each(self.address, *flat, float(parameter), result)
        return result.reshape(given[0].shape)

    def __get__(self, instance: object, owner: type | None = None) -> Scalar:
        return self

    def __reduce__(self) -> tuple[type[Scalar], tuple[ScalarFunction]]:
        return (Scalar, (self.function,))

    def __repr__(self) -> str:
        return f"Scalar({self.function.__qualname__})"

    @property
    def address(self) -> int:
        """Address of the compiled function, valid in this process only."""
        if self._compiled is None:
            self._compiled = _compile(self.function)
        return int(self._compiled.address)


class GapScalar(Scalar):
    """The product of the absolute difference of the labels and another scalar function."""

    def __init__(self, inner: Scalar) -> None:
        def weighted(score: float, y: float, y_partner: float, parameter: float) -> float:
            return abs(y - y_partner) * inner.function(score, y, y_partner, parameter)

        super().__init__(weighted)
        self.inner = inner

    def __reduce__(self) -> tuple[Any, ...]:
        return (GapScalar, (self.inner,))

    @property
    def address(self) -> int:
        """Address of the compiled function, valid in this process only."""
        if self._compiled is None:
            inner = _inlined(self.inner)

            def weighted(score: float, y: float, y_partner: float, parameter: float) -> float:
                return abs(y - y_partner) * inner(score, y, y_partner, parameter)  # type: ignore[no-any-return]

            self._compiled = _compile_joined(weighted)
        return int(self._compiled.address)


class ComparedScalar(Scalar):
    """A scalar function of a loss with the labels of a comparison's direction.

    `direction` is a function of ``(y, y_partner, first, second)``. The inner function gets the
    labels (1, -1) or (-1, 1), and its value is multiplied by the size of the direction. A pair
    without a direction gives 0, as does one in the other direction if `one_sided`.
    """

    def __init__(
        self, direction: Scalar, first: float, second: float, inner: Scalar, one_sided: bool
    ) -> None:
        self._made_of = (direction, float(first), float(second), inner, bool(one_sided))
        super().__init__(_compared(direction.function, first, second, inner.function, one_sided))

    def __reduce__(self) -> tuple[Any, ...]:
        return (ComparedScalar, self._made_of)

    @property
    def address(self) -> int:
        """Address of the compiled function, valid in this process only."""
        if self._compiled is None:
            direction, first, second, inner, one_sided = self._made_of
            joined = _compared(_inlined(direction), first, second, _inlined(inner), one_sided)
            self._compiled = _compile_joined(joined)
        return int(self._compiled.address)


def _compared(
    direction: ScalarFunction, first: float, second: float, inner: ScalarFunction, one_sided: bool
) -> ScalarFunction:
    def compared(score: float, y: float, y_partner: float, parameter: float) -> float:
        ahead = direction(y, y_partner, first, second)
        if ahead > 0.0:
            return ahead * inner(score, 1.0, -1.0, parameter)
        if ahead < 0.0 and not one_sided:
            return -ahead * inner(score, -1.0, 1.0, parameter)
        # a direction of NaN must not pass for a pair that does not count
        return 0.0 if ahead <= 0.0 else math.nan

    return compared


def _inlined(part: Scalar) -> Any:
    """Return the function of a scalar for use inside another compiled function."""
    import numba

    return numba.njit(part.function, error_model="numpy")


def _compile_joined(function: ScalarFunction) -> Any:
    """Compile a function that is not cached on disk: the key would not see what it calls."""
    import numba

    return numba.cfunc(_SIGNATURE, error_model="numpy")(function)


def scalar(function: ScalarFunction) -> Scalar:
    """Mark a function of a `PairLoss` or a `CoordinatewiseDomain` as compilable.

    Parameters
    ----------
    function : callable
        ``function(score, y, y_partner, parameter) -> float`` of a loss, or
        ``function(value, step_size, first, second) -> float`` of a domain, in the subset of Python
        that numba compiles. It takes no self: all it needs is in its parameters.

    Returns
    -------
    Scalar
        The function, callable as before, with its compiled version.

    Examples
    --------
    >>> @scalar
    ... def miss(score, y, y_partner, _):
    ...     return 1.0 if (score > 0) != (y > y_partner) else 0.0
    >>> miss(0.5, -1.0, 1.0)
    1.0
    """
    return Scalar(function)


def _compile(function: ScalarFunction) -> Any:
    """Return the compiled function, from the disk if it stands alone and was compiled before."""
    import numba

    if _stands_alone(function):
        # RuntimeError: no place for a cache, in a prompt, a notebook or a read-only installation.
        with contextlib.suppress(RuntimeError):
            return numba.cfunc(_SIGNATURE, cache=True, error_model="numpy")(function)
    return _compile_joined(function)


def check_compiled(
    name: str, function: Scalar, points: Iterable[tuple[float, float, float, float]]
) -> None:
    """Refuse a scalar function whose compiled version gives other numbers at some points."""
    compiled = ctypes.CFUNCTYPE(ctypes.c_double, *[ctypes.c_double] * 4)(function.address)
    for point in points:
        expected, found = function(*point), compiled(*point)
        if not math.isclose(found, expected, rel_tol=_ROUNDING, abs_tol=_ROUNDING):
            raise ValueError(
                f"{name} gives {expected!r} in Python and {found!r} compiled, at {point}; it may "
                "rely on something that numba treats differently, such as integer overflow or a "
                "global that changes."
            )


def _stands_alone(function: ScalarFunction) -> bool:
    """Return whether the machine code depends only on the text of the function.

    Numba's cache checks the file of the function but not the files of its helpers and constants:
    cached code that uses them would be stale after they are edited.
    """
    used = inspect.getclosurevars(function)
    return not used.nonlocals and all(
        value is math or value is np or inspect.isbuiltin(value) for value in used.globals.values()
    )
