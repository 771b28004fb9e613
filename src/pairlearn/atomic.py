# SPDX-License-Identifier: BSD-3-Clause
"""Write files whole: after a crash there is the old file or the new one. Lock names by `hold`."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

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


class _NamedFile:
    """A binary file whose errors name the file that the user asked for."""

    def __init__(self, file: BinaryIO, name: str | os.PathLike[str]) -> None:
        self._file, self._name = file, os.fspath(name)

    def write(self, data: Any) -> int:
        with _naming(self._name):
            return self._file.write(data)

    def flush(self) -> None:
        with _naming(self._name):
            self._file.flush()

    def close(self) -> None:
        # A network may refuse bytes so late.
        with _naming(self._name):
            self._file.close()

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


@contextlib.contextmanager
def _naming(path: str | os.PathLike[str]) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), os.fspath(path)) from None


def open_named(file: int | Path, name: str | os.PathLike[str], *, closefd: bool = True) -> BinaryIO:
    """Open a path or a descriptor for writing; errors bear this name."""
    with _naming(name):
        named: Any = _NamedFile(open(file, "wb", closefd=closefd), name)  # noqa: SIM115
    return named  # type: ignore[no-any-return]


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
    if is_written_directly(Path(path)):
        with open_named(Path(path), path) as file:
            yield file
        return
    target = Path(os.path.realpath(path))
    mode = 0o600 if secret else target.stat().st_mode & 0o7777 if target.exists() else None
    temporary, handle = _temporary(path, target, 0o666 if mode is None else mode)
    try:
        with open_named(handle, path) as file:
            yield file
            file.flush()
            with _naming(path):
                os.fsync(handle)
        with _naming(path):
            if mode is not None:
                os.chmod(temporary, mode)
            if keep_previous and target.exists():
                _copy_aside(target)
            os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
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


def _copy_aside(target: Path) -> None:
    import shutil

    spare = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
    try:
        try:
            os.link(target, spare)
        except OSError:  # a file system without hard links
            shutil.copy2(target, spare)
        os.replace(spare, previous_of(target))
    finally:
        with contextlib.suppress(OSError):  # two names of one file: nothing was renamed
            os.unlink(spare)


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
