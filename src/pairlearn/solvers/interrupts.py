# SPDX-License-Identifier: BSD-3-Clause
"""Ctrl-C between blocks of steps, never inside one.

Python raises KeyboardInterrupt when a kernel returns, before its steps are counted. Iterate and
counter would then disagree. So the signal waits until a block is complete.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from signal import SIGINT
from types import FrameType
from typing import Any

try:
    # Those of `signal` ask an enumeration for each handler, which takes longer than many a block.
    from _signal import getsignal, signal  # type: ignore[import-not-found, unused-ignore]
except ImportError:  # It is not part of the language.
    from signal import getsignal, signal


def deferred_interrupt() -> AbstractContextManager[Callable[[], None]]:
    """Delay Ctrl-C until the end of the block, then handle it as usual.

    The block gets a function to call where Ctrl-C may take effect earlier. Nothing changes outside
    the main thread (only it receives signals), where Python does not handle Ctrl-C, and inside
    another such block.
    """
    return _Deferred()


class _Deferred(AbstractContextManager[Callable[[], None]]):
    """A block and the signals received in it."""

    #: Whether the main thread is inside a block. Asking for the handler takes far longer.
    _inside = False

    def __init__(self) -> None:
        self._handler: Callable[[int, FrameType | None], Any] | None = None
        self._received: list[tuple[int, FrameType | None]] = []

    def __enter__(self) -> Callable[[], None]:
        if not _Deferred._inside and threading.current_thread() is threading.main_thread():
            handler = getsignal(SIGINT)
            if callable(handler):
                signal(SIGINT, self._hold)
                self._handler, _Deferred._inside = handler, True
        return self._deliver

    def _hold(self, number: int, frame: FrameType | None) -> None:
        self._received.append((number, frame))

    def _deliver(self) -> None:
        if self._handler is not None and self._received:
            # A handler may ask who holds Ctrl-C, and would hand the signal back.
            signal(SIGINT, self._handler)
            try:
                self._handler(*self._received.pop())
            finally:
                if _Deferred._inside:
                    signal(SIGINT, self._hold)

    def __exit__(self, *error: object) -> None:
        if self._handler is not None:
            _Deferred._inside = False
            signal(SIGINT, self._handler)
            self._deliver()
