# SPDX-License-Identifier: BSD-3-Clause
"""Threads that teach one model take turns.

A chunk changes a model in many places, and kernels let other threads run, so two chunks at once
would mix. The second thread waits until the first has finished. Nothing is lost, and chunks are
learned in the order of arrival.
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable
from threading import get_ident
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
Model = TypeVar("Model")


#: How often this process was forked; asking for the process id takes longer than a step.
_forks = 0


def _count_fork() -> None:
    global _forks, _making
    _forks += 1
    # The thread that held it in the parent does not exist here.
    _making = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_count_fork)


class Turns:
    """A block for one thread at a time; a copy of a model gets its own turns."""

    __slots__ = ("_holder", "_holder_forks", "_lock")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holder: int | None = None
        self._holder_forks = 0

    def __enter__(self) -> None:
        if not self._lock.acquire(False):
            self._wait()
        self._holder, self._holder_forks = get_ident(), _forks

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._holder = None
        self._lock.release()

    def _wait(self) -> None:
        """Wait for the thread that learns; raise if the wait would never end."""
        holder = self._holder
        if holder is not None and self._holder_forks != _forks:
            raise RuntimeError(
                "this process was forked while another thread taught this model, and the copy is "
                "unfinished; load the model anew here, or start processes with spawn."
            )
        if holder == get_ident():
            raise RuntimeError(
                "this model is learning already, in this very thread; a callback or a part of "
                "your own must not teach the model that calls it."
            )
        self._lock.acquire()

    def __reduce__(self) -> tuple[type[Turns], tuple[()]]:
        # A copied or pickled model does not wait for threads of the original.
        return (Turns, ())


#: The turns of models, kept outside them: they are not copied, compared or saved.
_known: WeakKeyDictionary[Any, Turns] = WeakKeyDictionary()
_making = threading.Lock()


def turns_of(model: Any) -> Turns:
    """Return the turns of the threads that teach a model."""
    turns = _known.get(model)
    if turns is None:
        with _making:
            turns = _known.setdefault(model, Turns())
    return turns


def one_at_a_time(
    method: Callable[Concatenate[Model, Arguments], Result],
) -> Callable[Concatenate[Model, Arguments], Result]:
    """Let threads take turns with this method of a model, and with all methods so decorated."""

    @functools.wraps(method)
    def taking_turns(self: Model, /, *args: Arguments.args, **keywords: Arguments.kwargs) -> Result:
        with turns_of(self):
            return method(self, *args, **keywords)

    return taking_turns
