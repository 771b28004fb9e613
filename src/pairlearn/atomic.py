# SPDX-License-Identifier: BSD-3-Clause
"""Write files whole: after a crash there is the old file or the new one. Lock names by `hold`."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import shutil
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, TypeVar

T = TypeVar("T")

#: What helps against an error of the system, by its name in `errno`.
_CURES = {
    "free space or choose another folder": "ENOSPC EDQUOT EFBIG",
    "choose another folder, or change its permissions": "EACCES EPERM EROFS",
    "look whether the disk or the network is in order, and try again": "EIO ESTALE ETIMEDOUT",
    "check the path": "ENOENT ENOTDIR ENAMETOOLONG ELOOP",
    "name a file": "EISDIR",
    "open it, or send it to a file": "EBADF",
    "raise the limit of open files (ulimit -n)": "EMFILE ENFILE",
}


def described(error: OSError, name: str = "") -> str:
    """Return an error of the system in words: the file, the reason and the cure.

    `name` stands for a file that the error does not name.

    >>> described(OSError(errno.ENOSPC, "No space left on device", "model"))
    'model: No space left on device; free space or choose another folder.'
    """
    name = str(error.filename) if error.filename is not None else name
    return f"{name}{': ' * bool(name)}{error.strerror or error}; {cure_of(error)}."


def cure_of(error: OSError) -> str:
    """Return what helps against an error of the system, in words."""
    code = errno.errorcode.get(error.errno or 0, "")
    return next((cure for cure, codes in _CURES.items() if code in codes.split()), "try again")


def previous_of(path: str | os.PathLike[str]) -> Path:
    """Return the path of the previous version, beside the file."""
    path = Path(os.path.realpath(path))
    return path.with_name(path.name + ".previous")


def atomic_write(
    path: str | os.PathLike[str], data: bytes | memoryview, *, keep_previous: bool = False
) -> None:
    """Replace the file at `path` by `data` in one step; see `atomic_open`."""
    with atomic_open(path, keep_previous=keep_previous) as file:
        file.write(data)


@contextlib.contextmanager
def atomic_open(
    path: str | os.PathLike[str], *, keep_previous: bool = False, secret: bool = False
) -> Iterator[BinaryIO]:
    """Open a new file that takes the name `path` when the block ends well.

    The bytes go to a temporary file in the same folder, are forced to the disk, and a rename gives
    the file its name. On an error the old file is untouched and the temporary one is removed; after
    kill -9 a file ``.NAME.*.tmp`` may remain. With `keep_previous` the replaced file stays as
    ``NAME.previous``. The permissions are those of the replaced file, or the umask's for a new one;
    only the owner may read a `secret` file. The target of a symbolic link is replaced. A device or
    a pipe is written directly.
    """
    target, temporary = Path(os.path.realpath(path)), None
    try:
        if is_written_directly(Path(path)):
            with open(path, "wb") as file:
                yield file
            return
        mode = 0o600 if secret else target.stat().st_mode & 0o7777 if target.exists() else None
        temporary, handle = _temporary(path, target, 0o666 if mode is None else mode)
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(handle)
        if mode is not None:
            os.chmod(temporary, mode)
        if keep_previous and target.exists():
            spare = temporary.with_suffix(".old.tmp")
            shutil.copy2(target, spare)
            os.replace(spare, previous_of(target))
        os.replace(temporary, target)
    except BaseException as error:
        for leftover in (temporary, temporary and temporary.with_suffix(".old.tmp")):
            if leftover is not None:
                leftover.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename in (None, str(temporary)):
            raise OSError(error.errno, error.strerror or str(error), os.fspath(path)) from None
        raise


def _temporary(asked: str | os.PathLike[str], target: Path, mode: int) -> tuple[Path, int]:
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
    try:
        return temporary, os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL, mode)
    except FileNotFoundError as error:
        reason = "the folder does not exist, make it first"
        raise FileNotFoundError(error.errno, reason, str(target.parent)) from None
    except OSError as error:  # name the requested file, not the temporary one
        raise OSError(error.errno, error.strerror, os.fspath(asked)) from None


def try_to_write(path: str | os.PathLike[str]) -> None:
    """Raise now what `atomic_open` would raise if no file can be made at `path`.

    For results that are paid for before they are written.
    """
    if not is_written_directly(Path(path)):
        temporary, handle = _temporary(path, Path(os.path.realpath(path)), 0o600)
        os.close(handle)
        os.unlink(temporary)


def is_written_directly(path: Path) -> bool:
    """Whether `path` cannot be replaced: a device, a pipe, an open descriptor."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    # /dev/stdout leads to /proc/self/fd/1, whose link may look like a path but is none.
    while path.is_symlink() and stat.S_ISREG(mode):
        if os.path.realpath(path.parent).startswith("/proc/"):
            return True
        path = path.parent / os.readlink(path)
    return not stat.S_ISREG(mode)


def read_newest(
    path: str | os.PathLike[str],
    load: Callable[[Path], T],
    *,
    refused: type[Exception] | tuple[type[Exception], ...] = (ValueError, OSError),
) -> tuple[T, str | None]:
    """Load the file at `path`, or the previous version if that is refused.

    `load` raises one of `refused` for an unusable file. Return its value, and the reason if the
    newest file was passed over.
    """
    path = Path(path)
    try:
        return load(path), None
    except refused as newest:
        previous = previous_of(path)
        try:
            value = load(previous)
        except refused:
            raise newest from None
        return value, f"{path} cannot be used ({newest}); {previous.name} is used instead."


class HeldError(Exception):
    """Another process or thread holds the name; `holder` describes it."""

    def __init__(self, holder: str) -> None:
        super().__init__(holder)
        self.holder = holder


@contextlib.contextmanager
def hold(path: str | os.PathLike[str]) -> Iterator[None]:
    """Hold the name `path` inside the block, by a lock of the system on ``PATH.lock``.

    A `HeldError` says that another process or thread holds it. The thread that holds a name may
    enter again. A process that dies holds nothing.
    """
    from filelock import FileLock, Timeout

    lock = FileLock(f"{os.path.realpath(path)}.lock", timeout=0, is_singleton=True)
    try:
        lock.acquire()
    except Timeout:
        raise HeldError("another process or thread") from None
    try:
        yield
    finally:
        lock.release()
