# SPDX-License-Identifier: BSD-3-Clause
"""Write files atomically: after a crash there is the old file or the new one, never half of one."""

from __future__ import annotations

import contextlib
import errno
import glob
import io
import os
import secrets
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from pairlearn.locking import is_locked, try_lock

T = TypeVar("T")

#: Random bytes in the name of a temporary file.
_RANDOM_BYTES = 4


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


class _NamedFile(io.FileIO):
    """A file whose errors name the file that the user asked for."""

    #: The name for errors.
    asked = ""

    def write(self, data: Any) -> int:
        """Write bytes, or raise an error with the name."""
        try:
            return super().write(data)
        except OSError as error:
            raise OSError(error.errno, error.strerror, self.asked) from None

    def close(self) -> None:
        """Close the file, or raise an error with the name: a network may refuse bytes so late."""
        with _naming(Path(self.asked)):
            super().close()


@contextlib.contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Let errors of the system in the block name `path`."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), str(path)) from None


def open_named(
    file: int | Path, name: str | os.PathLike[str], *, closefd: bool = True
) -> io.BufferedWriter:
    """Open a path or a descriptor for writing; errors bear this name."""
    named = _NamedFile(file, "wb", closefd=closefd)
    named.asked = os.fspath(name)
    return io.BufferedWriter(named)


def previous_of(path: str | os.PathLike[str]) -> Path:
    """Return the path of the previous version, beside the file."""
    path = _target(Path(path))
    return path.with_name(path.name + ".previous")


def atomic_write(
    path: str | os.PathLike[str], data: bytes | memoryview, *, keep_previous: bool = False
) -> None:
    """Replace the file at `path` by `data` in one step that survives a crash; see `atomic_open`."""
    with atomic_open(path, keep_previous=keep_previous) as file:
        file.write(data)


@contextlib.contextmanager
def atomic_open(
    path: str | os.PathLike[str], *, keep_previous: bool = False, secret: bool = False
) -> Iterator[BinaryIO]:
    """Open a new file that takes the name `path` when the block ends well.

    The bytes go to a temporary file in the same folder and are forced to the disk. A rename gives
    the file its name, and then the folder is forced to the disk. On any error (a full disk, a
    signal) the old file is untouched and the temporary one is removed. After kill -9 a temporary
    file ``.NAME.*.tmp`` may remain until the next write. With `keep_previous` the replaced file
    stays as ``NAME.previous``, and `path` exists at every moment. The permissions are those of the
    replaced file, or the umask's for a new one; only the owner may read or write a `secret` file.

    A symbolic link stays, and its target is replaced. A device or a pipe is written directly.
    """
    path = Path(path)
    if is_written_directly(path):
        file = open_named(path, path)
        try:
            yield file
        finally:
            with _naming(path):
                file.close()
        return
    path = _target(path)
    if not keep_previous:  # callers that keep one write often and remove leftovers once themselves
        remove_leftovers(path)
    mode = 0o600 if secret else _mode_of(path)
    made: list[str] = []  # known before the file exists, so that no signal can leave it behind
    try:
        handle = _temporary(path, 0o666 if mode is None else mode, made)
        temporary = made[-1]
        with open_named(handle, path) as file:
            yield file
            with _naming(path):
                file.flush()
                os.fsync(file.fileno())
                # A network may refuse bytes as late as at the end. Closing a second handle asks
                # for it while the file has no name yet; the first one keeps its lock.
                os.close(os.dup(file.fileno()))
                if mode is not None:
                    os.chmod(temporary, mode)
                if keep_previous and path.exists():
                    _keep(path, temporary + ".old")
                # the file is still open and locked, so no other process removes it as a leftover
                os.replace(temporary, path)
    except BaseException:
        for name in made:
            for left in (name, name + ".old"):
                with contextlib.suppress(OSError):
                    os.unlink(left)
        raise
    _sync_folder(path.parent)


def try_to_write(path: str | os.PathLike[str]) -> None:
    """Raise now what `atomic_open` would raise if no file can be made at `path`.

    For results that are paid for before they are written.
    """
    path = Path(path)
    if is_written_directly(path):
        return
    made: list[str] = []
    try:
        open_named(_temporary(_target(path), 0o600, made), path).close()
    finally:
        for name in made:
            with contextlib.suppress(OSError):
                os.unlink(name)


def is_written_directly(path: Path) -> bool:
    """Whether `path` cannot be replaced: a device, a pipe, an open descriptor."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(mode):
        return True
    # /dev/stdout leads to /proc/self/fd/1, whose link may look like a path but is none
    while path.is_symlink():
        if os.path.realpath(path.parent).startswith("/proc/"):
            return True
        path = path.parent / os.readlink(path)
    return False


def remove_leftovers(path: str | os.PathLike[str]) -> int:
    """Remove temporary files of killed processes beside `path`; return their number.

    Files that a live process is writing are locked and stay.
    """
    path = _target(Path(path))
    count = 0
    # only names that `_temporary` makes: a file that looks similar is somebody else's
    ours = f".{glob.escape(path.name)}.{'[0-9a-f]' * 2 * _RANDOM_BYTES}.tmp"
    for entry in [*path.parent.glob(ours), *path.parent.glob(f"{ours}.old")]:
        # the ".old" link is removed before its temporary file
        owner = str(entry).removesuffix(".old")
        with contextlib.suppress(OSError):
            if not is_locked(owner):
                entry.unlink()
                count += 1
    return count


def _temporary(path: Path, mode: int, made: list[str]) -> int:
    """Create a file beside `path` and return it, open and locked; its name is the last of `made`.

    The name is in `made` before the file exists: a signal in between then leaves nothing.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0)
    while True:
        name = str(path.with_name(f".{path.name}.{secrets.token_hex(_RANDOM_BYTES)}.tmp"))
        made.append(name)
        try:
            handle = os.open(name, flags, mode)
        except FileExistsError:
            made.pop()  # somebody else's
            continue
        except FileNotFoundError as error:
            said = "the folder does not exist, make it first"
            raise FileNotFoundError(error.errno, said, str(path.parent)) from None
        except OSError as error:  # name the requested file, not the temporary one
            raise OSError(error.errno, error.strerror, str(path)) from None
        with contextlib.suppress(OSError):  # a file system without locks
            try_lock(handle)
        # before it was locked, another process may have removed it as a leftover
        if os.path.exists(name):
            return handle
        os.close(handle)


def _target(path: Path) -> Path:
    """Return the target of a symbolic link, or the path itself."""
    return Path(os.path.realpath(path)) if path.is_symlink() else path


def _mode_of(path: Path) -> int | None:
    """Return the permissions of the file to be replaced, or None if there is none."""
    try:
        return path.stat().st_mode & 0o7777
    except FileNotFoundError:
        return None


def _keep(path: Path, spare: str) -> None:
    """Give the present file its second name without removing the first."""
    try:
        os.link(path, spare)
    except OSError:  # a file system without hard links
        import shutil

        shutil.copy2(path, spare)
    os.replace(spare, previous_of(path))
    # after a kill between two renames both names are one file, and renaming them does nothing
    with contextlib.suppress(FileNotFoundError):
        os.unlink(spare)


def _sync_folder(folder: Path) -> None:
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:  # not every system lets a folder be opened
        return
    try:
        os.fsync(handle)
    except OSError:
        pass
    finally:
        os.close(handle)


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
        if not previous.exists():
            raise
        try:
            value = load(previous)
        except refused:
            raise newest from None
        return value, f"{path} cannot be used ({newest}); {previous.name} is used instead."
