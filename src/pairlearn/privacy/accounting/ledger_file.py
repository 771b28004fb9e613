# SPDX-License-Identifier: BSD-3-Clause
"""A privacy budget in a file, which processes share.

The file is text, one JSON object in a line: what the budget is, and then one line for each spend
with its time. A line ends with the digest of itself and of all lines before it. Lines are never
changed or taken away by this library, and one that somebody else has changed is noticed. A spend
holds a lock of the system, reads the file, decides, and puts the longer file in the place of the
old one in one step; a process that is killed on the way leaves the old one or the new one. It
returns when the entry is on the disk, and only then is anything computed from the data: what is
released is entered.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pairlearn.atomic import atomic_write
from pairlearn.locking import HeldError, hold
from pairlearn.privacy.accounting.ledger import PrivacyLedger, Spend

__all__ = ["LedgerFile", "LedgerFileError"]

_FORMAT = "pairlearn privacy ledger 1"
_FACTS = ("epsilon", "delta", "neighbours", "data")
#: Seconds to wait for another process that is spending, which takes milliseconds.
_PATIENCE = 60.0


class LedgerFileError(ValueError):
    """A file is no ledger, or one that was changed by somebody else."""


class LedgerFile(PrivacyLedger):
    """A ledger that is kept in a file; made by `PrivacyLedger.open`.

    Copies and pickles of it, in whatever process, are the same ledger: they hold the path.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "patients.ledger")
    ...     ledger = PrivacyLedger.open(path, epsilon=1.0, delta=1e-6, data="patients 2026")
    ...     ledger.spend("first model", mu=0.1)
    ...     PrivacyLedger.open(path).entries[0].purpose
    'first model'
    """

    def __init__(self, path: Path, facts: dict[str, Any]) -> None:
        self.path = path
        self._set_budget(**facts)

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        neighbours: str | None = None,
        data: str | None = None,
    ) -> LedgerFile:
        """Return the ledger at `path`; see `PrivacyLedger.open`."""
        place = Path(os.path.abspath(path))
        given = {"epsilon": epsilon, "delta": delta, "neighbours": neighbours, "data": data}
        given = {name: value for name, value in given.items() if value is not None}
        with _held(place):
            if not place.exists():
                if epsilon is None or delta is None:
                    raise FileNotFoundError(
                        f"there is no ledger at {place}; to make one give its budget: "
                        "PrivacyLedger.open(path, epsilon=..., delta=...)."
                    )
                ledger = cls(place, {"neighbours": "replace", "data": "", **given})
                facts = {name: getattr(ledger, name) for name in _FACTS}
                header = {"format": _FORMAT, **facts, "time": _now()}
                atomic_write(place, _line(header, hashlib.sha256()))
                return ledger
        facts, _ = _parse(place)
        for name, value in given.items():
            if facts[name] != value:
                raise LedgerFileError(
                    f"the ledger at {place} has {name} = {facts[name]!r}, not {value!r}; open it "
                    "without that argument, or use a file of its own for another budget."
                )
        return cls(place, facts)

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        with _held(self.path):
            yield

    def _read(self) -> list[Spend]:
        facts, entries = _parse(self.path)
        if facts != {name: getattr(self, name) for name in _FACTS}:
            raise LedgerFileError(f"another ledger has taken the place of the one at {self.path}.")
        return entries

    def _enter(self, entry: Spend) -> None:
        before = self.path.read_bytes()
        line = _line(asdict(replace(entry, time=_now())), hashlib.sha256(before))
        atomic_write(self.path, before + line)

    def __reduce__(self) -> tuple[Any, ...]:
        return LedgerFile.open, (self.path,)


@contextlib.contextmanager
def _held(path: Path) -> Iterator[None]:
    """Hold the file, after whoever holds it now."""
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


def _parse(path: Path) -> tuple[dict[str, Any], list[Spend]]:
    """Return the budget and the entries of a file, or say which line is not what it was."""
    lines = path.read_bytes().splitlines(keepends=True)
    try:
        header = json.loads(lines[0])
        if header.pop("format") != _FORMAT:
            raise ValueError("format")
        facts = {name: header[name] for name in _FACTS}
        # Refuses a budget that is none.
        PrivacyLedger(**facts)
    except (ValueError, KeyError, IndexError, TypeError):
        raise LedgerFileError(f"{path} is no ledger that this version reads ({_FORMAT}).") from None
    entries, before = [], hashlib.sha256()
    for number, line in enumerate(lines, start=1):
        try:
            plain = json.loads(line)
            del plain["digest"]
            if line != _line(plain, before):
                raise ValueError("digest")
            if number > 1:
                entries.append(Spend(**plain))
        except (ValueError, KeyError, TypeError):
            raise LedgerFileError(
                f"line {number} of the ledger {path}, or one before it, was changed by somebody "
                "else; restore the file from a copy."
            ) from None
        before.update(line)
    return facts, entries


def _line(values: dict[str, Any], before: Any) -> bytes:
    """Return a line, given the digest so far of those before it."""
    state = before.copy()
    state.update(json.dumps(values, allow_nan=False).encode())
    plain = {**values, "digest": state.hexdigest()}
    return json.dumps(plain, allow_nan=False).encode() + b"\n"


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
