# SPDX-License-Identifier: BSD-3-Clause
"""Signals end a command in order.

They are SIGINT (Ctrl-C), SIGTERM (what `docker stop` and a shutdown send) and SIGHUP (a terminal
that was closed).
"""

from __future__ import annotations

import inspect
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from types import FrameType
from typing import Any

#: The signals; Windows has no SIGHUP.
SIGNALS = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
)
#: Seconds after which a signal is tried again that came inside an import or was dropped.
_SOON = 0.005
#: A second signal within this many seconds counts as the first: a key was pressed twice, or a
#: shell and a wrapper both passed it on. A later signal ends what the first did not.
_SAME = 1.0


def leave_by(status: int | None) -> None:
    """Let the signals end the process at once, with `status`; None is the status of the signal.

    For the time before and after a command, when there is nothing to put in order: otherwise a
    second Ctrl-C ends the program with a traceback while it is leaving.
    """

    def leave(number: int, frame: FrameType | None) -> None:
        with suppress(Exception):
            sys.stdout.flush()
        os._exit(128 + number if status is None else status)

    for number in SIGNALS:
        # A shell without job control lets background programs ignore Ctrl-C, `nohup` SIGHUP.
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, leave)


def ignore() -> None:
    """Ignore the signals: at exit Python drops handlers, which would change the status."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)


class Stopping(AbstractContextManager["Stopping"]):
    """Inside its block signals are noted, and raise KeyboardInterrupt only while `open`.

    A signal that comes while it is not open waits for the next opening; each opening is ended by
    one signal, so that a second one does not disturb what the first has set going. With `always`
    every signal raises, but for one that comes within a second of another. Every signal does
    whatever Ctrl-C does: where Ctrl-C is held back (`deferred_interrupt`), so is SIGTERM. One that
    comes inside an import waits for its end, since modules turn an interrupt into other errors or
    swallow it. One that came where Python drops exceptions (a function that C called, a finalizer)
    is sent again. A signal that was ignored before stays ignored. Only the main thread can receive
    signals; elsewhere the block changes nothing.
    """

    def __init__(self, *, always: bool = False) -> None:
        self.open = always
        self._always = always
        #: The first signal received.
        self.received: int | None = None
        self._raised_at = -float("inf")
        self._before: dict[int, Any] = {}
        self._ignored: set[int] = set()
        self._outer: Stopping | None = None
        self._entered = 0
        self._told = sys.unraisablehook

    @property
    def status(self) -> int:
        """The exit status of a program that was stopped by the signal received."""
        return 128 + (self.received or signal.SIGINT)

    def __enter__(self) -> Stopping:
        if threading.current_thread() is threading.main_thread():
            here = inspect.currentframe()
            self._entered = id(None if here is None else here.f_back)
            for number in SIGNALS:
                before = signal.getsignal(number)
                self._before[number] = before
                outer = getattr(before, "__self__", None)
                self._outer = outer if isinstance(outer, Stopping) else self._outer
                # A shell without job control lets background programs ignore Ctrl-C.
                if before is signal.SIG_IGN:
                    self._ignored.add(number)
                signal.signal(number, self._receive)
            if self._outer is not None:
                self._ignored |= self._outer._ignored
            self._told, sys.unraisablehook = sys.unraisablehook, self._dropped
        return self

    def __exit__(self, *exception: object) -> None:
        self.open = self._always = False
        if self._outer is not None and self._outer.received is None:
            self._outer.received = self.received
        if self._before:
            sys.unraisablehook = self._told
        for number, handler in self._before.items():
            # None: the handler was installed by C, and Python cannot restore it.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)

    def _receive(self, number: int, frame: FrameType | None) -> None:
        if number in self._ignored:
            return
        holder = signal.getsignal(signal.SIGINT)
        if callable(holder) and holder != self._receive:
            holder(number, frame)  # Another handler delays Ctrl-C and passes it on later.
            return
        if self.received is None:
            self.received = number
        if self.open and time.monotonic() - self._raised_at > _SAME:
            if self._is_importing(frame):
                _send_soon(number)
                return
            self.open = self._always
            self._raised_at = time.monotonic() if self._always else self._raised_at
            raise KeyboardInterrupt

    def _dropped(self, unraisable: sys.UnraisableHookArgs) -> None:
        """Send the signal again whose interrupt Python could not pass on and dropped."""
        if self.received is None or not issubclass(unraisable.exc_type, KeyboardInterrupt):
            self._told(unraisable)
            return
        self.open, self._raised_at = True, -float("inf")
        _send_soon(self.received)

    def _is_importing(self, frame: FrameType | None) -> bool:
        """Whether a frame runs inside an import that began within the block."""
        while frame is not None and id(frame) != self._entered:
            if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
                return True
            frame = frame.f_back
        return False

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Let a signal end the block, even a signal from before the block."""
        self.open = True
        try:
            if self.received is not None:
                raise KeyboardInterrupt
            yield
        finally:
            self.open = self._always


def _send_soon(number: int) -> None:
    """Send a signal to the main thread in a moment, and in the meantime go on."""
    timer = threading.Timer(_SOON, _send_again, (number,))
    timer.daemon = True
    timer.start()


def _send_again(number: int) -> None:
    """Send a signal to the main thread, unless its block is over."""
    handler = signal.getsignal(number)
    if not isinstance(getattr(handler, "__self__", None), Stopping):
        return
    if hasattr(signal, "pthread_kill"):  # also ends a wait for input
        signal.pthread_kill(threading.main_thread().ident or 0, number)
    else:
        signal.raise_signal(number)


def held(path: str | None) -> AbstractContextManager[None]:
    """Keep other processes from the checkpoint until it is removed."""
    if path is None:
        return nullcontext()
    from pairlearn.streams.checkpoint import hold_checkpoint

    return hold_checkpoint(path)
