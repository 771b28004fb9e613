# SPDX-License-Identifier: BSD-3-Clause
"""The files of a command: none is overwritten that is read, written twice, or somebody else's.

Every option and argument for a file says with a `FilePath` what the command does with it. While
click reads the command line, each file is compared with those before it, so that a clash is refused
before any data are read. A file that no option names (a checkpoint beside a model) is announced
with `announce`.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Literal, TypeVar

import click

from pairlearn.atomic import is_written_directly

F = TypeVar("F", bound=Callable[..., Any])

#: What a command does with a file. A kept file goes on from run to run, and its reader checks it; a
#: printed one is standard output or standard error.
Does = Literal["read", "write", "keep", "print"]

_KNOWN, _FORCE = "pairlearn.files", "pairlearn.force"
#: The endings of the files beside a checkpoint.
BESIDE_CHECKPOINT = (".previous", ".lock")
#: Bytes at the beginning and at the end of a file by which its kind is known.
_ENDS = 1 << 16
_MODEL = b'{"__metadata__":{"pairlearn":'
_CHECKPOINT = b' checkpoint\\"'
#: How far the sum of probabilities that were written may be from 1.
_EXACT = 1e-6
#: Numbers of others are seldom longer.
_LONG = 10

#: The columns of `predict`, after the line: results of each problem, and what a classifier adds.
_RESULTS = re.compile(
    r"(?:score|prediction|z)(?:\d*)(?:,(?:score|z)\d+)*(?:,probability)?(?:,label)?"
)


def _is_scores(start: bytes) -> bool:
    """Whether a file begins as `predict` writes it: the line, then results or probabilities.

    Many tables of others begin with a column `line` too. Where columns of the data stand between
    the line and the results, the numbers of the first row must be spelled as `predict` does, with
    all their digits.
    """
    import csv
    import io
    import json

    text = start.decode("utf-8", "replace")
    try:
        if text.startswith("{"):
            entry = json.loads(text.partition("\n")[0])
            names, values = list(entry), [str(value) for value in entry.values()]
        else:
            names, values = [*islice(csv.reader(io.StringIO(text)), 2), [], []][:2]
    except (ValueError, RecursionError, csv.Error):
        return False
    is_ours = (_are_results(names, values, first) for first in range(1, len(names)))
    return names[:1] == ["line"] and any(is_ours)


def _are_results(names: list[str], values: list[str], first: int) -> bool:
    """Whether the columns from `first` on are results of `predict`."""
    by_name = _RESULTS.fullmatch(",".join(names[first:])) is not None
    if by_name and first == 1:
        return True
    numbers = values[first : -1 if by_name and names[-1] == "label" else None]
    try:
        shares = [float(number) for number in numbers]
    except ValueError:
        return False
    digits = max(map(len, numbers), default=0)
    spelled = digits > _LONG and list(map(repr, shares)) == numbers and values[0].isdigit()
    if by_name:
        return spelled
    # predict --proba names the classes, and probabilities add up to 1
    adds_up = len(shares) > 1 and abs(sum(shares) - 1.0) < _EXACT
    return adds_up and (first == 1 or spelled)


# Kind of file: its name in messages, and whether these bytes begin (and end) one of ours.
KINDS: dict[str, tuple[str, Callable[[bytes], bool]]] = {
    "model": ("a model", lambda b: b[8:].startswith(_MODEL) and _CHECKPOINT not in b[:300]),
    "checkpoint": ("a checkpoint", lambda b: b[8:].startswith(_MODEL) and _CHECKPOINT in b[:300]),
    "certificate": ("a certificate", lambda b: b'"statement":' in b),
    "scores": ("a file of scores", _is_scores),
    "exported": (
        "an exported model",
        lambda b: b.startswith(b'{\n  "estimator": "') or b"pairlearn" in b[:32],
    ),
    "picture": ("a picture", lambda b: b"pairlearn" in b),
    "page": ("a page", lambda b: b"<title>pairlearn" in b or b'content="pairlearn"' in b),
}


@dataclass(frozen=True)
class _File:
    """One file of a command: what is done with it, how the user named it, and what it is."""

    does: Does
    path: str
    said: str
    #: What identifies the file, however it is spelled; None for a terminal or nothing at all.
    identity: tuple[Any, ...] | None
    #: Whether it replaces standard output.
    instead: bool = False
    #: Whether it is a folder, whose files are read or written.
    folder: bool = False

    def __str__(self) -> str:
        return self.said if self.path in self.said else f"{self.said} {self.path}"


class FilePath(click.Path):
    """The type of an option or argument for a file, which says what the command does with it.

    An existing file that is written must be of this `kind` and from this program, unless
    ``--force`` is given. `beside` are endings of further files of the same name. With `instead` the
    file takes what would go to standard output. With `folder` it is a folder for a page, and with
    `inside` a folder for files of these names.
    """

    def __init__(
        self,
        does: Does,
        kind: str = "",
        *,
        beside: Sequence[str] = (),
        instead: bool = False,
        folder: bool = False,
        inside: Sequence[str] = (),
        path_type: Any = None,
    ) -> None:
        is_folder = folder or bool(inside)
        # Whoever opens the file says why it cannot be read.
        super().__init__(
            dir_okay=does == "read" or is_folder,
            file_okay=not is_folder,
            readable=False,
            path_type=path_type,
        )
        self._does: Does = does
        self._inside = inside
        self._how: dict[str, Any] = {
            "kind": kind,
            "beside": beside,
            "instead": instead,
            "folder": folder,
            "makes_folder": bool(inside),
        }

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path, after a comparison with the other files of the command."""
        if not os.fspath(value):
            # As a path it is the present folder.
            self.fail("the name is empty, as of a shell variable that is not set.", param, ctx)
        found: Any = super().convert(value, param, ctx)
        if ctx is not None and param is not None and not ctx.resilient_parsing:
            said = param.opts[0]
            if isinstance(param, click.Argument):
                said = (param.metavar or str(param.name).upper()).rstrip(".")
            for path in [os.path.join(found, name) for name in self._inside] or [found]:
                announce(self._does, path, said, context=ctx, **self._how)
        return found


def read_argument(name: str, **arguments: Any) -> Callable[[F], F]:
    """Add an argument for files to be read; outputs are compared with it, whatever their order."""
    return click.argument(name, type=FilePath("read"), is_eager=True, **arguments)


def force_option(function: F) -> F:
    """Add ``--force`` to a command that writes files."""

    def keep(context: click.Context, option: click.Parameter, value: bool) -> None:
        context.meta[_FORCE] = value

    option = click.option(
        "--force", is_flag=True, is_eager=True, expose_value=False, callback=keep,
        help="Replace even a file that this program did not write.",
    )  # fmt: skip
    return option(function)


def announce(
    does: Does,
    path: str | os.PathLike[str],
    said: str,
    *,
    kind: str = "",
    beside: Sequence[str] = (),
    instead: bool = False,
    folder: bool = False,
    makes_folder: bool = False,
    needed: bool = True,
    context: click.Context | None = None,
) -> None:
    """Say that the present command reads, writes or keeps a file; a clash is an error of usage.

    `said` is how the user named it, `makes_folder` whether the command makes the folder of the
    file, and `needed` whether it fails where the file cannot be written. See `FilePath` for the
    rest.
    """
    context = context or click.get_current_context()
    known: list[_File] = context.meta.setdefault(_KNOWN, [])
    if not known:
        known += _printed()
    text = os.fspath(path)
    if does != "read" and text == "-":
        raise click.UsageError(
            f"{said} - names no file; leave it out for the default, or write ./- for a file of "
            "that name."
        )
    # Click may convert one value twice.
    if does != "read" and any(file.said == said and file.path == text for file in known):
        return
    names = [text]
    if does == "read" and text != "-" and not os.path.exists(text):
        import glob

        names = glob.glob(text, recursive=True) or [text]
    elif beside:
        names += [os.path.realpath(text) + ending for ending in beside]
    # A kill between two renames leaves a checkpoint that is one file with the one before it, so
    # the files of one option are not compared with each other.
    files = [
        _File(does, name, said, _identity(name), instead, folder or os.path.isdir(name))
        for name in names
    ]
    for new in files:
        for old in known:
            _compare(old, new)
    known += files
    if kind and not context.meta.get(_FORCE):
        _refuse_foreign(text, said, kind, folder)
    if does == "write" and needed:
        _refuse_unwritable(text, said, folder=folder, makes_folder=folder or makes_folder)
    if does == "write" and not folder:
        _tell_replaced(context, text)


def _printed() -> Iterator[_File]:
    """Yield standard output and standard error where they are files or pipes."""
    for number, said in ((1, "standard output"), (2, "standard error")):
        try:
            status = os.fstat(number)
        except OSError:  # closed
            continue
        if stat.S_ISREG(status.st_mode) or stat.S_ISFIFO(status.st_mode):
            yield _File("print", said, said, (status.st_dev, status.st_ino))


def _identity(path: str) -> tuple[Any, ...] | None:
    """Return what identifies a file: device and number, or folder and name if it is new."""
    try:
        status = os.fstat(0) if path == "-" else os.stat(path)
    except OSError:
        if path == "-":
            return None
        path = os.path.realpath(path)
        try:
            above = os.stat(os.path.dirname(path))
        except OSError:
            return (os.path.normcase(path),)
        # Some file systems take names for one that differ in case only.
        return above.st_dev, above.st_ino, os.path.basename(path).casefold()
    if stat.S_ISCHR(status.st_mode):
        return None if path == "-" or _takes_all(status) else ("device", status.st_rdev)
    return status.st_dev, status.st_ino


def _takes_all(status: os.stat_result) -> bool:
    """Whether a device is the one that swallows everything."""
    try:
        return status.st_rdev == os.stat(os.devnull).st_rdev
    except OSError:
        return False


def _compare(old: _File, new: _File) -> None:
    """Refuse a file that another role of the command has."""
    for one, other in ((old, new), (new, old)):
        if one.does in ("write", "keep") and other.does == "read":
            _keep_out(one, other)
        elif one.folder and one.does == "write" and other.does in ("write", "keep"):
            _keep_apart(one, other)
    if old.does == new.does and old.does in ("read", "print"):
        return
    if old.identity is None or old.identity != new.identity or (old.folder and new.folder):
        return
    if {old.does, new.does} == {"read", "print"}:
        read = old if old.does == "read" else new
        raise click.UsageError(
            f"{read} is where {(new if read is old else old).said} goes; send that to another file."
        )
    for read, written in ((old, new), (new, old)):
        if read.does == "read":
            raise click.UsageError(
                f"{written} is a file that the command reads ({read}), and writing would destroy "
                "it; name another file."
            )
    if "print" in (old.does, new.does):
        if not (old.instead or new.instead):
            said, written = (old, new) if old.does == "print" else (new, old)
            raise click.UsageError(
                f"{written} is where {said.said} goes too, and both would be mixed; name a file."
            )
        return
    raise click.UsageError(f"{old} and {new} are one file; give each a name of its own.")


def _keep_apart(page: _File, other: _File) -> None:
    """Refuse another result in the folder of a page, under a name that the page may have."""
    folder, path = os.path.realpath(page.path), os.path.realpath(other.path)
    if os.path.dirname(path) == folder and path.endswith((".csv", ".html")):
        raise click.UsageError(
            f"{other} lies in the folder of the page ({page}), which might replace it; name "
            "another file."
        )


def _keep_out(written: _File, read: _File) -> None:
    """Refuse a data file in the folder of a page, and a new data file in a folder of data."""
    if read.path == "-":
        return
    inner, outer = (read, written) if written.folder else (written, read)
    if not outer.folder or inner.folder:
        return
    folder, path = Path(os.path.realpath(outer.path)), Path(os.path.realpath(inner.path))
    if written.folder:
        if path.parent == folder and path.suffix in (".csv", ".html"):
            raise click.UsageError(
                f"{written} is the folder of {read}, which the command reads and a page might "
                "replace; name another folder."
            )
        return
    from pairlearn.streams.readers.arrow import SUFFIXES

    if path.suffix in SUFFIXES and folder in path.parents:
        raise click.UsageError(
            f"{written} lies in the folder {read}, whose files are read as data; name a file "
            "elsewhere."
        )


def _refuse_unwritable(path: str, said: str, *, folder: bool, makes_folder: bool) -> None:
    """Refuse a place where nothing may be written: a stream would learn, and lose its model."""
    place = Path(os.path.realpath(path))
    if not makes_folder and is_written_directly(Path(path)):
        return
    above = place if folder else place.parent
    while makes_folder and not above.exists() and above != above.parent:
        above = above.parent
    if not above.is_dir():
        if above.exists():
            raise click.UsageError(f"{said} {path}: {above} is a file; name a folder.")
        raise click.UsageError(f"the folder {above} does not exist; make it first.")
    if not os.access(above, os.W_OK | os.X_OK):
        raise click.UsageError(
            f"{said} {path}: the folder {above} may not be written to; choose another, or change "
            "its permissions."
        )


def _refuse_foreign(path: str, said: str, kind: str, folder: bool) -> None:
    """Refuse to replace a file that is not of this kind, or that this program did not write."""
    name, is_ours = KINDS[kind]
    if folder:
        page = os.path.join(path, "index.html")
        if os.path.exists(page) and is_ours(_ends(page)):
            return
        entries = sorted(os.listdir(path)) if os.path.isdir(path) else []
        found = [one for one in entries if one == "index.html" or one.endswith(".csv")]
        if found:
            raise click.UsageError(
                f"{said} {path} holds {found[0]}, which this program may not have written; name "
                "another folder, or pass --force."
            )
        return
    if _replaceable(path) and not is_ours(_ends(path)):
        raise click.UsageError(
            f"{said} {path} exists and is not {name} that this program wrote; name another file, "
            "or pass --force."
        )


def _replaceable(path: str) -> bool:
    """Whether there is a file with content that would be replaced."""
    return (
        os.path.isfile(path) and not is_written_directly(Path(path)) and os.path.getsize(path) > 0
    )


def _ends(path: str) -> bytes:
    """Return the first and the last bytes of a file."""
    with open(path, "rb") as file:
        first = file.read(_ENDS)
        file.seek(max(os.fstat(file.fileno()).st_size - _ENDS, len(first)))
        return first + file.read(_ENDS)


def _tell_replaced(context: click.Context, path: str) -> None:
    """Say at the end which file was replaced, and when that was written."""
    if not _replaceable(path):
        return
    before = os.stat(path)

    def tell() -> None:
        try:
            now = os.stat(path)
        except OSError:
            return
        if (now.st_ino, now.st_mtime_ns) != (before.st_ino, before.st_mtime_ns):
            when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(before.st_mtime))
            click.echo(f"pairlearn: replaced {path}, written {when}", err=True)

    context.call_on_close(tell)
