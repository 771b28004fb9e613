# SPDX-License-Identifier: BSD-3-Clause
"""A privacy ledger in a file that processes share.

The file holds one JSON object per line: first the budget and an identity, then each spend with its
time. Each line ends with a digest of itself and of all lines before it, so a change by another
program is noticed. This library only appends. A spend takes a file lock, reads the file, decides,
and replaces the file atomically by the longer one; a killed process leaves the old file or the new
one. The spend returns when the entry is on disk. Only then does a fit read the data, so every
release has its entry.

A digest cannot show that whole last lines are missing. Two things do. A process remembers how far
it has read each ledger, and refuses a shorter one. A *seal*, a second small file on another disk or
of another account, holds the number of entries and the last digest. A spend writes the ledger first
and the seal then: a process killed in between leaves a ledger with one entry more than its seal,
which is accepted, and the next spend seals both. A new ledger is sealed before it is written.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import stat
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pairlearn.atomic import HeldError, atomic_write, hold
from pairlearn.privacy.accounting.spend import Budget, Spend

_FORMAT = "pairlearn privacy ledger 2"
_SEAL_FORMAT = "pairlearn ledger seal 1"
#: Seconds to wait for the lock; a spend takes milliseconds.
_PATIENCE = 60.0


class LedgerFileError(ValueError):
    """A file is not a ledger, or another program changed it."""


@dataclass(frozen=True)
class Mark:
    """How far a ledger has been read: its identity, the number of entries and the last digest."""

    identity: str
    n_entries: int
    digest: str


#: What this process has seen: the mark of each ledger by identity, the identity by path.
_seen: dict[str, Mark] = {}
_places: dict[Path, str] = {}
_guard = threading.Lock()


class LedgerFile:
    """The entries of a ledger in a file; `PrivacyLedger.open` wraps it in a ledger.

    Parameters
    ----------
    path : Path
        The file.
    budget : Budget
        The budget in the file.
    identity : str
        The identity in the file, random for each ledger.
    seal : Path, optional
        The file that holds the number of entries and the last digest.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "patients.ledger")
    ...     file = LedgerFile.open(path, {"epsilon": 1.0, "delta": 1e-6, "data": "patients 2026"})
    ...     file.enter(Spend("first model", mu=0.1))
    ...     LedgerFile.open(path, {}).read()[0].purpose
    'first model'
    """

    def __init__(self, path: Path, budget: Budget, identity: str, seal: Path | None = None) -> None:
        self.path, self.budget, self.identity, self.seal = path, budget, identity, seal

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        given: dict[str, Any],
        seal: str | os.PathLike[str] | None = None,
        seen: Mark | None = None,
    ) -> LedgerFile:
        """Open the file at `path`, or create it; see `PrivacyLedger.open`.

        The given fields of the budget define a new file and must agree with an existing one. `seen`
        is what another process has seen of it.
        """
        # One real path, so that all names of a file share its lock.
        place = Path(os.path.realpath(path))
        sealed = None if seal is None else Path(os.path.realpath(seal))
        if seen is not None:
            _remember(place, seen)
        if not place.exists():
            if "epsilon" not in given or "delta" not in given:
                raise FileNotFoundError(
                    f"there is no ledger at {place}; to make one, give its budget: "
                    f"PrivacyLedger.open({str(path)!r}, epsilon=1.0, delta=1e-06)."
                )
            if not place.parent.is_dir():
                raise FileNotFoundError(
                    f"there is no folder {place.parent} for the ledger; make it first."
                )
            with _held(place):
                if not place.exists():
                    return cls._create(place, Budget(**given), sealed)
        read = _parse(place)
        known = _seen.get(_places.get(place, ""))
        if known is not None and known.n_entries and known.identity != read.identity:
            raise _replaced(place)
        if seen is not None:
            read.check(seen, "the process that passed it on")
        facts = asdict(read.budget)
        for name, value in given.items():
            if facts[name] != value:
                raise LedgerFileError(
                    f"the ledger at {place} has {name} = {facts[name]!r}, not {value!r}; open it "
                    "without that argument, or use another file for another budget."
                )
        if sealed is not None and read.seal is None:
            raise LedgerFileError(
                f"the ledger at {place} was made without a seal; open it without seal, or make a "
                "new ledger with one."
            )
        file = cls(place, read.budget, read.identity, sealed or read.seal)
        file.read()
        return file

    @classmethod
    def _create(cls, path: Path, budget: Budget, seal: Path | None) -> LedgerFile:
        """Write a new ledger, its seal first; a killed process leaves a seal of no entry."""
        before = _seen.get(_places.get(path, ""))
        if before is not None and before.n_entries:
            raise LedgerFileError(
                f"the ledger at {path} is gone, of which this process has seen {before.n_entries} "
                "entries; restore it from a copy, or use another name for another ledger."
            )
        if seal is not None and (seal == path or not seal.parent.is_dir()):
            raise LedgerFileError(
                f"the seal must be another file, in a folder that exists; got {seal}."
            )
        if seal is not None and seal.exists():
            plain = _seal_of(seal)
            if plain["entries"] or plain["path"] != str(path):
                raise LedgerFileError(
                    f"{seal} seals the ledger {plain['path']} with {plain['entries']} entries; "
                    "restore that ledger, or use another file for the seal."
                )
        identity = secrets.token_hex(16)
        header = {
            "format": _FORMAT,
            "id": identity,
            **asdict(budget),
            "seal": None if seal is None else str(seal),
            "time": _now(),
        }
        line = _line(header, hashlib.sha256())
        file = cls(path, budget, identity, seal)
        file._write_seal(Mark(identity, 0, json.loads(line)["digest"]))
        atomic_write(path, line)
        file.read()
        return file

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Hold a lock: no other process can read and enter inside the block."""
        with _held(self.path):
            yield

    def read(self) -> list[Spend]:
        """Return the entries that the file holds now."""
        # Seal and memory first: before the file is read, others may add an entry, never remove one.
        sealed = None if self.seal is None else self._sealed()
        seen = _seen.get(self.identity)
        found = _parse(self.path)
        if found.budget != self.budget or found.identity != self.identity:
            raise _replaced(self.path)
        if sealed is not None:
            found.check(sealed, f"its seal {self.seal}")
        if seen is not None:
            found.check(seen, "this process")
        _remember(self.path, found.mark)
        return found.entries

    @property
    def mark(self) -> Mark:
        """How far this process has read the file."""
        return _seen[self.identity]

    def enter(self, entry: Spend) -> None:
        """Write one more entry to disk, and seal it."""
        _check_kind(self.path)
        before = self.path.read_bytes()
        line = _line(asdict(replace(entry, time=_now())), hashlib.sha256(before))
        atomic_write(self.path, before + line)
        mark = Mark(self.identity, before.count(b"\n"), json.loads(line)["digest"])
        _remember(self.path, mark)
        try:
            self._write_seal(mark)
        except OSError as error:
            raise LedgerFileError(
                f"{entry.purpose!r} stands in the ledger {self.path}, but its seal {self.seal} "
                f"cannot be written ({error.strerror}); nothing was released. Make the seal "
                "writable; the next spend seals all entries."
            ) from None

    def _write_seal(self, mark: Mark) -> None:
        if self.seal is None:
            return
        plain = {
            "format": _SEAL_FORMAT,
            "id": mark.identity,
            "path": str(self.path),
            "entries": mark.n_entries,
            "digest": mark.digest,
        }
        atomic_write(self.seal, json.dumps(plain).encode() + b"\n")

    def _sealed(self) -> Mark:
        assert self.seal is not None
        if not self.seal.exists():
            raise LedgerFileError(
                f"the seal {self.seal} of the ledger at {self.path} is missing; put it back, or a "
                "symbolic link to it, or say where it is: seal=PATH."
            )
        plain = _seal_of(self.seal)
        if plain["id"] != self.identity:
            raise LedgerFileError(
                f"{self.seal} seals another ledger, {plain['path']}, not the one at {self.path}."
            )
        return Mark(plain["id"], plain["entries"], plain["digest"])


@dataclass(frozen=True)
class _Parsed:
    """What a ledger file holds, with the digest of each line."""

    path: Path
    budget: Budget
    identity: str
    seal: Path | None
    entries: list[Spend]
    digests: list[str]

    @property
    def mark(self) -> Mark:
        return Mark(self.identity, len(self.entries), self.digests[-1])

    def check(self, mark: Mark, who: str) -> None:
        """Refuse a file that lacks entries of a mark, or has others in their place."""
        if len(self.entries) < mark.n_entries:
            raise LedgerFileError(
                f"the ledger at {self.path} has {len(self.entries)} entries, but {who} has seen "
                f"{mark.n_entries}: lines were removed, or this is an old copy; restore the newest "
                "copy."
            )
        if self.digests[mark.n_entries] != mark.digest:
            raise LedgerFileError(
                f"the ledger at {self.path} has other entries than {who} has seen: it was "
                "rewritten, or copies of it were spent from; restore the one that was first."
            )


def _replaced(path: Path) -> LedgerFileError:
    return LedgerFileError(
        f"another ledger has replaced the one at {path}; restore it from a copy, or use another "
        "name for another ledger."
    )


def _remember(path: Path, mark: Mark) -> None:
    """Remember the longest mark of a ledger."""
    with _guard:
        known = _seen.get(mark.identity)
        if known is None or known.n_entries < mark.n_entries:
            _seen[mark.identity] = mark
        _places[path] = mark.identity


@contextlib.contextmanager
def _held(path: Path) -> Iterator[None]:
    """Lock the file, waiting for the current holder."""
    last = time.monotonic() + _PATIENCE
    with contextlib.ExitStack() as stack:
        while True:
            try:
                stack.enter_context(hold(path))
                break
            except HeldError as error:
                if time.monotonic() > last:
                    raise LedgerFileError(
                        f"the ledger at {path} has been held by {error.holder} for a minute; end "
                        "it or try again."
                    ) from None
                time.sleep(0.002)
        yield


def _check_kind(path: Path) -> None:
    """Refuse what cannot be a ledger: a folder, a device, a file of several names."""
    try:
        found = os.stat(path)
    except FileNotFoundError as error:
        said = "the ledger is gone; restore it from a copy, or open it where it is now"
        raise FileNotFoundError(error.errno, said, str(path)) from None
    if not stat.S_ISREG(found.st_mode):
        kind = "a folder" if stat.S_ISDIR(found.st_mode) else "a device or a pipe"
        raise LedgerFileError(f"{path} is {kind}, not a ledger; name a file.")
    if found.st_nlink > 1:
        raise LedgerFileError(
            f"{path} has {found.st_nlink} names (hard links), and a spend under one would be "
            "missing under the others; remove the other names, or use a symbolic link."
        )


def _bytes_of(path: Path) -> bytes:
    _check_kind(path)
    try:
        return path.read_bytes()
    except PermissionError:
        raise LedgerFileError(
            f"{path} cannot be read by this account; its owner can change that."
        ) from None


def _parse(path: Path) -> _Parsed:
    """Return what a file holds; raise if a digest does not match."""
    lines = _bytes_of(path).splitlines(keepends=True)
    if not lines:
        raise LedgerFileError(
            f"{path} is empty, not a ledger; restore it from a copy, or remove it and make a new "
            "ledger."
        )
    try:
        header = json.loads(lines[0])
        if header["format"] != _FORMAT or not isinstance(header["id"], str):
            raise ValueError("format")
        budget = Budget(**{field.name: header[field.name] for field in fields(Budget)})
        seal = None if header["seal"] is None else Path(header["seal"])
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError):
        raise LedgerFileError(f"{path} is not a ledger of the format {_FORMAT!r}.") from None
    entries, digests, before = [], [], hashlib.sha256()
    for number, line in enumerate(lines, start=1):
        try:
            plain = json.loads(line)
            digests.append(plain.pop("digest"))
            if line != _line(plain, before):
                raise ValueError("digest")
            if number > 1:
                entries.append(Spend(**plain))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise LedgerFileError(
                f"another program changed line {number} of the ledger {path}, or an earlier line; "
                "restore the file from a copy."
            ) from None
        before.update(line)
    return _Parsed(path, budget, header["id"], seal, entries, digests)


def _seal_of(path: Path) -> dict[str, Any]:
    """Return the content of a seal, after checks."""
    try:
        plain = json.loads(_bytes_of(path))
        kinds = {"format": str, "id": str, "path": str, "entries": int, "digest": str}
        if plain["format"] != _SEAL_FORMAT or plain["entries"] < 0:
            raise ValueError("format")
        if any(type(plain[name]) is not kind for name, kind in kinds.items()):
            raise TypeError("type")
    except LedgerFileError:
        raise
    except (ValueError, KeyError, TypeError, RecursionError):
        raise LedgerFileError(
            f"{path} is not a seal of a ledger; restore it from a copy, or name another file."
        ) from None
    return dict(plain)


def _line(values: dict[str, Any], before: Any) -> bytes:
    """Return a line with its digest, given the digest of the lines before it."""
    state = before.copy()
    state.update(json.dumps(values, allow_nan=False).encode())
    plain = {**values, "digest": state.hexdigest()}
    return json.dumps(plain, allow_nan=False).encode() + b"\n"


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
