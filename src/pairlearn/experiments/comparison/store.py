# SPDX-License-Identifier: BSD-3-Clause
"""Results as JSON lines, one for each cell, appended as they arrive.

The key of a result contains everything that determines it. So a run that was killed, or that gets
more splits or methods, computes only missing cells, and a changed setting never reuses an old one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any


class StoreError(Exception):
    """The file of results cannot be used."""


def make_key(parts: Mapping[str, Any]) -> str:
    """Return the digest of a mapping written as canonical JSON.

    >>> make_key({"a": 1, "b": 2}) == make_key({"b": 2, "a": 1})
    True
    """
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()


class Store:
    """The results of comparisons in one file, created if needed; one run at a time writes to it.

    An entry has a kind ("result", "tuning", "failure" or "run") and a key; of two with one key the
    later one counts.
    """

    def __init__(self, path: str | Path) -> None:
        from filelock import FileLock, Timeout

        self.path = Path(path)
        self._lock = FileLock(f"{self.path}.lock")
        self._stored: dict[tuple[str, str], dict[str, Any]] = {}
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._lock.acquire(timeout=0)
        except Timeout:
            raise StoreError(
                f"another run is writing to {self.path}; wait for it or name another store."
            ) from None
        except OSError as error:
            raise StoreError(f"{self.path} cannot be opened ({error}); name another.") from None
        try:
            self._read()
        except BaseException:
            self._lock.release()
            raise

    def _read(self) -> None:
        number = 0
        try:
            whole = self.path.read_bytes() if self.path.exists() else b""
            lines = whole.splitlines(keepends=True)
            if lines and not lines[-1].endswith(b"\n"):
                # A run was killed while it wrote its last line.
                with open(self.path, "r+b") as file:
                    file.truncate(len(whole) - len(lines.pop()))
            for line in lines:
                number += 1
                entry = json.loads(line)
                self._stored[entry.pop("kind"), entry.pop("key")] = entry
        except OSError as error:
            raise StoreError(f"{self.path} cannot be read ({error}); name another file.") from None
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise StoreError(
                f"{self.path} is not a store of results (line {number}); name another file."
            ) from None

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *exception: object) -> None:
        self._lock.release()

    def put(self, kind: str, key: str, entry: Mapping[str, Any]) -> None:
        """Store an entry."""
        now = datetime.now(UTC).isoformat(timespec="seconds")
        line = json.dumps({"kind": kind, "key": key, "at": now, **entry}, default=str)
        try:
            with open(self.path, "a", encoding="utf-8") as file:
                file.write(line + "\n")
        except OSError as error:
            raise StoreError(
                f"{self.path} cannot be written ({error}); make free space, or name another store."
            ) from None
        self._stored[kind, key] = {**entry}

    def get(self, kind: str, key: str) -> dict[str, Any] | None:
        """Return the entry of a kind and key; None if there is none."""
        entry = self._stored.get((kind, key))
        return None if entry is None else {k: v for k, v in entry.items() if k != "at"}
