# SPDX-License-Identifier: BSD-3-Clause
"""Who may learn: threads that teach one model take turns.

A chunk changes a model in many places and kernels let other threads run, so two chunks at once
would mix. The second thread waits until the first has finished: nothing is lost, and the order of
the chunks is that in which the threads came.
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, TypeVar

__all__ = ["Turns", "one_at_a_time"]

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
Model = TypeVar("Model")


class Turns:
    """A block that one thread at a time is in; a copy of a model gets turns of its own.

    >>> turns = Turns()
    >>> with turns, turns:
    ...     pass
    Traceback (most recent call last):
        ...
    RuntimeError: this model is learning already, in this very thread; ...
    """

    __slots__ = ("_holder", "_lock")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holder: tuple[int, int] | None = None

    def __enter__(self) -> None:
        me = (os.getpid(), threading.get_ident())
        if not self._lock.acquire(blocking=False):
            self._wait(me)
        self._holder = me

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._holder = None
        self._lock.release()

    def _wait(self, me: tuple[int, int]) -> None:
        """Wait for the thread that learns, unless it would be for ever."""
        holder = self._holder
        if holder == me:
            raise RuntimeError(
                "this model is learning already, in this very thread; a callback or a part of "
                "your own must not teach the model that calls it."
            )
        if holder is not None and holder[0] != me[0]:
            raise RuntimeError(
                "this process was forked while another thread taught this model, and the copy is "
                "unfinished; load the model anew here, or start processes with spawn."
            )
        self._lock.acquire()

    def __reduce__(self) -> tuple[type[Turns], tuple[()]]:
        # Neither a copy nor a pickled model waits for threads of the original.
        return (Turns, ())


def one_at_a_time(
    method: Callable[Concatenate[Model, Arguments], Result],
) -> Callable[Concatenate[Model, Arguments], Result]:
    """Let threads take turns with this method of a model, and with all others so marked."""

    @functools.wraps(method)
    def taking_turns(self: Model, *args: Arguments.args, **keywords: Arguments.kwargs) -> Result:
        # Made when it is needed, in one step: an estimator may set nothing in its constructor.
        turns: Any = vars(self).setdefault("_turns", Turns())
        with turns:
            return method(self, *args, **keywords)

    return taking_turns
