# SPDX-License-Identifier: BSD-3-Clause
"""Ctrl-C between blocks of steps, never inside one.

Python raises KeyboardInterrupt when a kernel returns, before its steps are counted: iterate and
counter would not belong together any more. So the signal is held back until a block is complete.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["deferred_interrupt"]


@contextmanager
def deferred_interrupt() -> Iterator[Callable[[], None]]:
    """Hold Ctrl-C back until the end of the block, then let it do what it would have done.

    The block gets a function to call where Ctrl-C may take effect earlier. Only the main thread
    receives signals; elsewhere, and where Ctrl-C is not handled by Python, nothing is changed.

    Examples
    --------
    >>> with deferred_interrupt() as deliver:
    ...     complete = True
    ...     deliver()
    """
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        yield lambda: None
        return
    received: list[tuple[int, FrameType | None]] = []

    def deliver() -> None:
        if received:
            handler(*received.pop())

    signal.signal(signal.SIGINT, lambda number, frame: received.append((number, frame)))
    try:
        yield deliver
    finally:
        signal.signal(signal.SIGINT, handler)
        deliver()
