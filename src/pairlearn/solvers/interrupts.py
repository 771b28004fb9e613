# SPDX-License-Identifier: BSD-3-Clause
"""Ctrl-C between blocks of steps, never inside one.

Python raises KeyboardInterrupt when a kernel returns, before its steps are counted: iterate and
counter would not belong together any more. So the signal is held back until the block is complete.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["deferred_interrupt"]


@contextmanager
def deferred_interrupt() -> Iterator[None]:
    """Hold Ctrl-C back until the end of the block, then let it do what it would have done.

    Only the main thread receives signals; elsewhere, where Ctrl-C is not handled by Python, and
    inside another such block, which holds it back anyway, nothing is changed.

    Examples
    --------
    >>> with deferred_interrupt():
    ...     complete = True
    """
    handler = signal.getsignal(signal.SIGINT)
    if (
        threading.current_thread() is not threading.main_thread()
        or not callable(handler)
        or isinstance(handler, _Held)
    ):
        yield
        return
    held = _Held()
    signal.signal(signal.SIGINT, held)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if held.received:
            handler(*held.received[0])


class _Held:
    """A handler that remembers the signals it gets."""

    def __init__(self) -> None:
        self.received: list[tuple[int, FrameType | None]] = []

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self.received.append((number, frame))
