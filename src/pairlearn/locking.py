# SPDX-License-Identifier: BSD-3-Clause
"""Lock a name for one process at a time; the system releases the lock when the process dies.

The lock is a system lock on a file beside the name, not the existence of that file: a killed
process leaves the file but no lock.
"""

from __future__ import annotations

import contextlib
import errno
import importlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

#: Bytes of a lock file that are read at most.
_LOOKED_AT = 64
_SOMEBODY = "another process"


class HeldError(Exception):
    """Another process or thread holds the name; `holder` describes it."""

    def __init__(self, holder: str) -> None:
        super().__init__(holder)
        self.holder = holder


def try_lock(handle: int) -> bool:
    """Lock an open file for this process until it is closed; return False if another holds it.

    A system without locks, as in a browser, has one process, and no file is held by another.
    """
    try:
        if (unix := _module("fcntl")) is not None:
            unix.flock(handle, unix.LOCK_EX | unix.LOCK_NB)
        elif (windows := _module("msvcrt")) is not None:
            windows.locking(handle, windows.LK_NBLCK, 1)
    except (BlockingIOError, PermissionError):
        return False
    return True


def _module(name: str) -> Any:
    """Return a module that not every system has, or None."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def is_locked(path: str | os.PathLike[str]) -> bool:
    """Whether a process holds the file at `path`; False if there is no file."""
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    except FileNotFoundError:
        return False
    try:
        return not try_lock(handle)
    finally:
        os.close(handle)


#: The names that this process holds: process, thread, and number of nested blocks.
_held: dict[str, tuple[int, int, int]] = {}
_guard = threading.Lock()


@contextlib.contextmanager
def hold(path: str | os.PathLike[str]) -> Iterator[None]:
    """Hold the name `path` inside the block, by a lock on ``PATH.lock``.

    A `HeldError` names the process or thread that holds it. The thread that holds a name may
    enter again.
    """
    name = os.path.realpath(path)
    me = (os.getpid(), threading.get_ident())
    with _guard:
        process, thread, depth = _held.get(name, (*me, 0))
        # a forked child has its parent's table but none of its locks
        if process != me[0]:
            depth = 0
        elif depth and thread != me[1]:
            raise HeldError("another thread of this process")
        handle = None if depth else _locked(Path(f"{name}.lock"))
        _held[name] = (*me, depth + 1)
    try:
        yield
    finally:
        with _guard:
            if depth:
                _held[name] = (*me, depth)
            else:
                del _held[name]
        if handle is not None:
            # remove the name before the lock: a process that opens it in between notices
            with contextlib.suppress(OSError):
                os.unlink(f"{name}.lock")
            os.close(handle)


def _locked(path: Path) -> int:
    """Return the lock file, open, locked and holding our process number."""
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o666)
        try:
            if not try_lock(handle):
                raise HeldError(_holder(handle))
            if _is_still(handle, path):
                if os.fstat(handle).st_size and _holder(handle) == _SOMEBODY:
                    said = "it is no lock of pairlearn; move it, or choose another name"
                    raise FileExistsError(errno.EEXIST, said, str(path))
                os.ftruncate(handle, 0)
                os.lseek(handle, 0, os.SEEK_SET)
                os.write(handle, f"{os.getpid()}\n".encode())
                return handle
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)  # its holder removed the file: try again


def _is_still(handle: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), os.stat(path))
    except FileNotFoundError:
        return False


def _holder(handle: int) -> str:
    # Windows has no pread; nobody else reads by this handle
    os.lseek(handle, 0, os.SEEK_SET)
    text = os.read(handle, _LOOKED_AT).decode("ascii", "replace").strip()
    return f"process {text}" if text.isdigit() else _SOMEBODY
