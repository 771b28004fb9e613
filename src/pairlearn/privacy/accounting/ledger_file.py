# SPDX-License-Identifier: BSD-3-Clause
"""A privacy ledger in a file that processes share.

The file holds one JSON object per line: first the budget, then each spend with its time. Each line
ends with a digest of itself and of all lines before it, so a change by another program is noticed.
This library only appends. A spend takes a file lock, reads the file, decides, and replaces the file
atomically by the longer one; a killed process leaves the old file or the new one. The spend returns
when the entry is on disk. Only then does a fit read the data, so every release has its entry.
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
from pairlearn.privacy.accounting.spend import Budget, Spend

_FORMAT = "pairlearn privacy ledger 1"
#: Seconds to wait for the lock; a spend takes milliseconds.
_PATIENCE = 60.0


class LedgerFileError(ValueError):
    """A file is not a ledger, or another program changed it."""


class LedgerFile:
    """The entries of a ledger in a file; `PrivacyLedger.open` wraps it in a ledger.

    Parameters
    ----------
    path : Path
        The file.
    budget : Budget
        The budget in the file.

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

    def __init__(self, path: Path, budget: Budget) -> None:
        self.path, self.budget = path, budget

    @classmethod
    def open(cls, path: str | os.PathLike[str], given: dict[str, Any]) -> LedgerFile:
        """Open the file at `path`, or create it; see `PrivacyLedger.open`.

        The given fields of the budget define a new file and must agree with an existing one.
        """
        place = Path(os.path.abspath(path))
        with _held(place):
            if not place.exists():
                if "epsilon" not in given or "delta" not in given:
                    raise FileNotFoundError(
                        f"there is no ledger at {place}; to make one give its budget: "
                        "PrivacyLedger.open(path, epsilon=..., delta=...)."
                    )
                budget = Budget(**given)
                header = {"format": _FORMAT, **asdict(budget), "time": _now()}
                atomic_write(place, _line(header, hashlib.sha256()))
                return cls(place, budget)
        budget, _ = _parse(place)
        facts = asdict(budget)
        for name, value in given.items():
            if facts[name] != value:
                raise LedgerFileError(
                    f"the ledger at {place} has {name} = {facts[name]!r}, not {value!r}; open it "
                    "without that argument, or use another file for another budget."
                )
        return cls(place, budget)

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Hold a lock: no other process can read and enter inside the block."""
        with _held(self.path):
            yield

    def read(self) -> list[Spend]:
        """Return the entries that the file holds now."""
        budget, entries = _parse(self.path)
        if budget != self.budget:
            raise LedgerFileError(f"another ledger has replaced the one at {self.path}.")
        return entries

    def enter(self, entry: Spend) -> None:
        """Write one more entry to disk."""
        before = self.path.read_bytes()
        line = _line(asdict(replace(entry, time=_now())), hashlib.sha256(before))
        atomic_write(self.path, before + line)


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


def _parse(path: Path) -> tuple[Budget, list[Spend]]:
    """Return the budget and the entries of a file; raise if a digest does not match."""
    lines = path.read_bytes().splitlines(keepends=True)
    try:
        header = json.loads(lines[0])
        if header.pop("format") != _FORMAT:
            raise ValueError("format")
        budget = Budget(*(header[name] for name in ("epsilon", "delta", "neighbours", "data")))
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError):
        raise LedgerFileError(f"{path} is not a ledger of the format {_FORMAT!r}.") from None
    entries, before = [], hashlib.sha256()
    for number, line in enumerate(lines, start=1):
        try:
            plain = json.loads(line)
            del plain["digest"]
            if line != _line(plain, before):
                raise ValueError("digest")
            if number > 1:
                entries.append(Spend(**plain))
        except (ValueError, KeyError, TypeError, RecursionError):
            raise LedgerFileError(
                f"another program changed line {number} of the ledger {path}, or an earlier line; "
                "restore the file from a copy."
            ) from None
        before.update(line)
    return budget, entries


def _line(values: dict[str, Any], before: Any) -> bytes:
    """Return a line with its digest, given the digest of the lines before it."""
    state = before.copy()
    state.update(json.dumps(values, allow_nan=False).encode())
    plain = {**values, "digest": state.hexdigest()}
    return json.dumps(plain, allow_nan=False).encode() + b"\n"


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
