# SPDX-License-Identifier: BSD-3-Clause
"""Files that are either the old one or the new one, whatever happens while writing."""

from __future__ import annotations

import contextlib
import glob
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

__all__ = ["atomic_write", "previous_of", "read_newest", "remove_leftovers"]

T = TypeVar("T")


def previous_of(path: str | os.PathLike[str]) -> Path:
    """Return where the file before the last one is kept."""
    path = Path(path)
    return path.with_name(path.name + ".previous")


def atomic_write(
    path: str | os.PathLike[str], data: bytes | memoryview, *, keep_previous: bool = False
) -> None:
    """Replace the file at `path` by `data` in one step that survives a crash.

    The bytes go to a temporary file in the same folder, are forced to the disk, and take the
    name by a rename; then the folder is forced to the disk. On any error (a full disk, a
    signal) the old file is untouched and the temporary one is removed. After kill -9 at most a
    temporary file named ``.NAME.*.tmp`` remains. With `keep_previous` the replaced file stays as
    ``NAME.previous``; at every moment `path` exists.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "a")
    ...     atomic_write(path, b"one")
    ...     atomic_write(path, b"two", keep_previous=True)
    ...     path.read_bytes(), previous_of(path).read_bytes()
    (b'two', b'one')
    """
    path = Path(path)
    folder = path.parent
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=folder)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, _mode(path))
        if keep_previous and path.exists():
            _keep(path, temporary + ".old")
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    _sync_folder(folder)


def remove_leftovers(path: str | os.PathLike[str]) -> int:
    """Remove temporary files that killed processes left beside `path`, and return how many.

    Nobody else may be writing the same file.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, ".a.x1.tmp").write_bytes(b"half")
    ...     remove_leftovers(Path(folder, "a"))
    1
    """
    path = Path(path)
    count = 0
    for entry in path.parent.glob(f".{glob.escape(path.name)}.*.tmp*"):
        with contextlib.suppress(OSError):
            entry.unlink()
            count += 1
    return count


def _mode(path: Path) -> int:
    """Return the permissions of the file to be replaced, or those of a new file."""
    try:
        return path.stat().st_mode & 0o7777
    except FileNotFoundError:
        mask = os.umask(0)
        os.umask(mask)
        return 0o666 & ~mask


def _keep(path: Path, spare: str) -> None:
    """Give the present file its second name without taking away the first."""
    try:
        os.link(path, spare)
    except OSError:  # a file system without hard links
        import shutil

        shutil.copy2(path, spare)
    os.replace(spare, previous_of(path))


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
    """Load the file at `path`, or the one kept before it when that is refused.

    `load` raises one of `refused` on a file that cannot be used. Returned is its value, and why the
    newest file was passed over, if it was.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "a")
    ...     atomic_write(path, b"1")
    ...     atomic_write(path, b"cut off", keep_previous=True)
    ...     read_newest(path, lambda p: int(p.read_bytes()))[0]
    1
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
