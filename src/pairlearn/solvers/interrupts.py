# SPDX-License-Identifier: BSD-3-Clause
"""Ctrl-C between blocks of steps, never inside one.

Python raises KeyboardInterrupt when a kernel returns, before its steps are counted: iterate and
counter would not belong together any more. So the signal is held back until a block is complete.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from types import FrameType
from typing import Any

__all__ = ["deferred_interrupt"]


def deferred_interrupt() -> AbstractContextManager[Callable[[], None]]:
    """Hold Ctrl-C back until the end of the block, then let it do what it would have done.

    The block gets a function to call where Ctrl-C may take effect earlier. Only the main thread
    receives signals; elsewhere, where Ctrl-C is not handled by Python, and inside another such
    block, which holds it back anyway, nothing is changed.
    """
    return _Deferred()


class _Deferred(AbstractContextManager[Callable[[], None]]):
    """A block and the signals that it has received."""

    #: Whether the main thread is inside a block. To ask for the handler takes far longer.
    _inside = False

    def __init__(self) -> None:
        self._handler: Callable[[int, FrameType | None], Any] | None = None
        self._received: list[tuple[int, FrameType | None]] = []

    def __enter__(self) -> Callable[[], None]:
        if not _Deferred._inside and threading.current_thread() is threading.main_thread():
            handler = signal.getsignal(signal.SIGINT)
            if callable(handler):
                signal.signal(signal.SIGINT, self._hold)
                self._handler, _Deferred._inside = handler, True
        return self._deliver

    def _hold(self, number: int, frame: FrameType | None) -> None:
        self._received.append((number, frame))

    def _deliver(self) -> None:
        if self._handler is not None and self._received:
            self._handler(*self._received.pop())

    def __exit__(self, *error: object) -> None:
        if self._handler is not None:
            _Deferred._inside = False
            signal.signal(signal.SIGINT, self._handler)
            self._deliver()
