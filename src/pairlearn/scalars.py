# SPDX-License-Identifier: BSD-3-Clause
"""Scalar functions that a kernel calls by address.

A function ``(score, y, y_partner, parameter) -> float`` is compiled once per process, on first
use, and handed to a kernel as an integer. Kernels therefore never depend on the code of a loss:
their cache on disk hits in every process and cannot go stale when a loss is edited. The function
itself is cached on disk too if it uses nothing but its arguments and the modules math and numpy.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["GapScalar", "Scalar", "scalar"]

ScalarFunction = Callable[[float, float, float, float], float]


_SIGNATURE = "float64(float64, float64, float64, float64)"


class Scalar:
    """A scalar function with a compiled twin.

    Calling it runs the plain Python function; `address` compiles it (numba is imported only then).
    Inside a class it behaves as a static method. Pickling keeps the Python function alone: an
    address means nothing in another process.

    Parameters
    ----------
    function : callable
        ``function(score, y, y_partner, parameter) -> float`` in the subset of Python that numba
        compiles.

    Examples
    --------
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
    """The product of the absolute difference of the labels and another scalar function.

    Parameters
    ----------
    inner : Scalar
        The other function.

    Examples
    --------
    >>> GapScalar(Scalar(lambda score, y, y_partner, parameter: score))(3.0, 1.0, -1.0)
    6.0
    """

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
            import numba

            inner: Any = numba.njit(self.inner.function, error_model="numpy")

            def weighted(score: float, y: float, y_partner: float, parameter: float) -> float:
                return abs(y - y_partner) * inner(score, y, y_partner, parameter)  # type: ignore[no-any-return]

            # Not cached on disk: the key of a cache would not see the inner function.
            self._compiled = numba.cfunc(_SIGNATURE, error_model="numpy")(weighted)
        return int(self._compiled.address)


def scalar(function: ScalarFunction) -> Scalar:
    """Mark a function of a `PairLoss` as compilable.

    Parameters
    ----------
    function : callable
        ``function(score, y, y_partner, parameter) -> float`` in the subset of Python that numba
        compiles. It takes no self: what a loss needs to know is in `parameter`.

    Returns
    -------
    Scalar
        The function, which can be called as before, and its compiled twin.

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
    import numba

    compiled = numba.cfunc(_SIGNATURE, error_model="numpy", cache=_stands_alone(function))
    try:
        return compiled(function)
    except RuntimeError:
        # Nowhere to put a cache: a prompt, a notebook cell, a read-only installation.
        return numba.cfunc(_SIGNATURE, error_model="numpy")(function)


def _stands_alone(function: ScalarFunction) -> bool:
    """Return whether machine code depends on the text of a function alone.

    Numba's cache looks at the file of the function, not at those of the helpers and constants that
    it takes from elsewhere: with such the code would outlive their edits.
    """
    used = inspect.getclosurevars(function)
    return not used.nonlocals and all(
        value is math or value is np or inspect.isbuiltin(value) for value in used.globals.values()
    )
