# SPDX-License-Identifier: BSD-3-Clause
"""Ctrl-C between blocks of steps, never inside one.

Python raises KeyboardInterrupt when a kernel returns, before its steps are counted: iterate and
counter would not belong together any more. So the signal is held back until the block is complete.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from types import FrameType, TracebackType
from typing import Any

__all__ = ["deferred_interrupt"]


def deferred_interrupt() -> AbstractContextManager[None]:
    """Hold Ctrl-C back until the end of the block, then let it do what it would have done.

    Only the main thread receives signals; elsewhere, where Ctrl-C is not handled by Python, and
    inside another such block, which holds it back anyway, nothing is changed.

    Examples
    --------
    >>> with deferred_interrupt():
    ...     complete = True
    """
    return _Deferred()


class _Deferred(AbstractContextManager[None]):
    """A block and the signals that it has received."""

    #: Whether the main thread is inside a block. To ask for the handler takes far longer.
    _inside = False

    def __init__(self) -> None:
        self._handler: Callable[[int, FrameType | None], Any] | None = None
        self._received: list[tuple[int, FrameType | None]] = []

    def __enter__(self) -> None:
        if _Deferred._inside or threading.current_thread() is not threading.main_thread():
            return
        handler = signal.getsignal(signal.SIGINT)
        if callable(handler):
            signal.signal(signal.SIGINT, self._hold)
            self._handler, _Deferred._inside = handler, True

    def _hold(self, number: int, frame: FrameType | None) -> None:
        self._received.append((number, frame))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        handler = self._handler
        if handler is None:
            return
        _Deferred._inside = False
        signal.signal(signal.SIGINT, handler)
        if self._received:
            handler(*self._received[0])
