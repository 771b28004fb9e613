# SPDX-License-Identifier: BSD-3-Clause
"""Products of matrices take one thread where more would stand in each other's way.

NumPy and SciPy have a BLAS each, with threads of its own. Those of the one that waits keep the
processors from those of the other, so small products by turns are up to 30 times slower.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
Model = TypeVar("Model")

#: Tables of fewer numbers take one thread anyway.
_FEW_NUMBERS = 2**13
#: What a feature map may give: most maps to choose from have so many outputs.
_MAPPED_FEATURES = 2048
#: Rows times squared features from which on all threads work: some seconds of one thread.
_WORTH_ALL_THREADS = 2.0**38


@functools.cache
def _libraries() -> Any:
    import scipy.linalg.blas  # noqa: F401  (what is not loaded is not found)
    from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

    return ThreadpoolController()


def with_one_thread(
    method: Callable[Concatenate[Model, Arguments], Result],
) -> Callable[Concatenate[Model, Arguments], Result]:
    """Let a method that takes a table `X` have one thread for products, unless `X` is large."""

    @functools.wraps(method)
    def limited(self: Model, /, *args: Arguments.args, **keywords: Arguments.kwargs) -> Result:
        shape: tuple[int, ...] = getattr(args[0] if args else keywords.get("X"), "shape", ())
        n, d = shape if len(shape) == 2 else (0, 0)
        if getattr(self, "features", "linear") != "linear":
            d = max(d, _MAPPED_FEATURES)
        if n * d < _FEW_NUMBERS or n * d * d > _WORTH_ALL_THREADS:
            return method(self, *args, **keywords)
        with _libraries().limit(limits=1, user_api="blas"):
            return method(self, *args, **keywords)

    return limited
