# SPDX-License-Identifier: BSD-3-Clause
"""Products of matrices take one thread where more would stand in each other's way.

NumPy and SciPy have a BLAS each, with threads of its own. Those of the one that waits keep the
processors from those of the other, so small products by turns are up to 30 times slower.
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

#: Tables with fewer numbers, and fewer multiplications for all products of two columns, are not
#: shared among threads. A thread that has had a share waits for the next one at full speed: chunks
#: of 1,000 rows of 28 kept a second processor busy from the first to the last.
FEW_NUMBERS, _FEW_PRODUCTS = 2**13, 2**18
#: What a feature map may give: most maps to choose from have so many outputs.
_MAPPED_FEATURES = 2048
#: Rows times squared features from which on all threads work: some seconds of one thread.
_WORTH_ALL_THREADS = 2.0**38

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
Model = TypeVar("Model")


class OneThread:
    """A context in which products of matrices take one thread each.

    The first thread of Python that enters sets the limit for all, and the last one that leaves
    lifts it.
    """

    def __init__(self) -> None:
        self._turns, self._n_inside = threading.Lock(), 0
        self._before: list[int] = []
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._renew)

    def _renew(self) -> None:
        # The thread that held it in the parent does not exist here.
        self._turns = threading.Lock()

    @functools.cached_property
    def _libraries(self) -> list[Any]:
        import scipy.linalg.blas  # noqa: F401  (what is not loaded is not found)
        from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

        return list(ThreadpoolController().select(user_api="blas").lib_controllers)

    def __enter__(self) -> None:
        with self._turns:
            if not self._n_inside:
                # A limit of threadpoolctl takes twice as long, a tenth of learning 300 rows.
                self._before = [library.get_num_threads() for library in self._libraries]
                for library in self._libraries:
                    library.set_num_threads(1)
            self._n_inside += 1

    def __exit__(self, *_: object) -> None:
        with self._turns:
            self._n_inside -= 1
            if not self._n_inside:
                for library, before in zip(self._libraries, self._before, strict=True):
                    library.set_num_threads(before)


one_thread = OneThread()


def with_one_thread(
    method: Callable[Concatenate[Model, Arguments], Result],
) -> Callable[Concatenate[Model, Arguments], Result]:
    """Let a method that takes a table `X` have one thread for products, unless `X` is large.

    A small table is left, too: its products take one thread anyway.
    """

    @functools.wraps(method)
    def limited(self: Model, /, *args: Arguments.args, **keywords: Arguments.kwargs) -> Result:
        if not _is_better_alone(self, args[0] if args else keywords.get("X")):
            return method(self, *args, **keywords)
        with one_thread:
            return method(self, *args, **keywords)

    return limited


def _is_better_alone(model: object, X: object) -> bool:
    shape: tuple[int, ...] = getattr(X, "shape", ())
    if len(shape) != 2:
        return False
    n_rows, n_features = shape
    if getattr(model, "features", "linear") != "linear":
        n_features = max(n_features, _MAPPED_FEATURES)
    n_numbers = n_rows * n_features
    n_products = n_numbers * n_features
    few = n_numbers < FEW_NUMBERS and n_products < _FEW_PRODUCTS
    return not few and n_products <= _WORTH_ALL_THREADS
