# SPDX-License-Identifier: BSD-3-Clause
"""Store results in SQLite, one by one as they arrive.

The key of a result contains everything that determines it. So a run that was killed, or that gets
more splits or methods, computes only missing cells, and a changed setting never reuses an old one.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

_VERSION = 2

_SCHEMA = """
CREATE TABLE IF NOT EXISTS results (
    key TEXT PRIMARY KEY, dataset TEXT, split INTEGER, method TEXT, auc REAL,
    cpu_seconds REAL, wall_seconds REAL, tune_cpu_seconds REAL, n_gradients INTEGER,
    peak_bytes INTEGER, state_bytes INTEGER, n_train INTEGER, n_test INTEGER,
    params TEXT, checkpoints TEXT, warnings TEXT, finished_at TEXT, curves TEXT DEFAULT '{}'
);
CREATE TABLE IF NOT EXISTS tunings (
    key TEXT PRIMARY KEY, dataset TEXT, method TEXT, params TEXT, cpu_seconds REAL,
    finished_at TEXT
);
CREATE TABLE IF NOT EXISTS failures (
    key TEXT PRIMARY KEY, dataset TEXT, split INTEGER, method TEXT, message TEXT, finished_at TEXT
);
CREATE TABLE IF NOT EXISTS runs (
    started_at TEXT, command TEXT, settings TEXT, environment TEXT
);
"""


class StoreError(Exception):
    """The file of results cannot be used."""


@dataclass(frozen=True)
class Result:
    """One cell of a comparison.

    Seconds are for training alone; `tune_cpu_seconds` is 0 if parameters were chosen once for all
    splits. The method reports `n_gradients` and `state_bytes`; `peak_bytes` is the additional
    memory while training. A checkpoint is [cpu_seconds, n_gradients, test AUC]; `curves` are as in
    `pairlearn.experiments.comparison.curve_points`.
    """

    dataset: str
    split: int
    method: str
    auc: float
    cpu_seconds: float
    wall_seconds: float
    tune_cpu_seconds: float
    n_train: int
    n_test: int
    n_gradients: int | None = None
    peak_bytes: int | None = None
    state_bytes: int | None = None
    params: dict[str, Any] = field(default_factory=dict)
    checkpoints: list[list[float]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    curves: dict[str, list[float]] = field(default_factory=dict)


_JSON_FIELDS = {"params": dict, "checkpoints": list, "warnings": list, "curves": dict}
_TEXTS = ("dataset", "method")
_NUMBERS = ("auc", "cpu_seconds", "wall_seconds", "tune_cpu_seconds")
_COUNTS = ("split", "n_train", "n_test")


def _plain(text: Any, kind: type) -> Any:
    """Return the JSON value of a field; refuse another type than was written."""
    value = json.loads(text)
    if not isinstance(value, kind):
        raise TypeError(f"a field holds {str(text)[:40]!r}, not a {kind.__name__}")
    return value


def _check_result(row: Mapping[str, Any]) -> None:
    """Refuse a result whose fields have wrong types, which SQLite allows."""
    for names, kind in ((_TEXTS, str), (_NUMBERS, (int, float)), (_COUNTS, int)):
        for name in names:
            if not isinstance(row[name], kind):
                raise TypeError(f"a result has {name}={str(row[name])[:40]!r}")


#: How the names of SQLite's errors begin that are about the disk.
_DISK = ("SQLITE_FULL", "SQLITE_IOERR", "SQLITE_READONLY", "SQLITE_CANTOPEN")


def _said(error: Exception) -> str:
    """Return the text of an error on one line; it may quote the damaged file."""
    return " ".join(str(error).split())[:200]


def make_key(parts: Mapping[str, Any]) -> str:
    """Return the digest of a mapping written as canonical JSON.

    >>> make_key({"a": 1, "b": 2}) == make_key({"b": 2, "a": 1})
    True
    """
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


class Store:
    """The results of comparisons in one SQLite file, created if needed.

    Only one run at a time writes to a store. The lock is an open transaction on a second file,
    which the operating system releases however the process ends.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        lock = self.path.with_name(self.path.name + ".lock")
        with self._ours():
            self._lock = sqlite3.connect(lock, timeout=0.1)
        try:
            self._lock.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError as error:
            self._lock.close()
            self._refuse_disk(error)
            raise StoreError(
                f"another run is writing to {self.path}; wait for it or name another store."
            ) from error
        except sqlite3.DatabaseError as error:
            self._lock.close()
            raise StoreError(
                f"{lock} is not a lock ({_said(error)}); delete it, or name another store."
            ) from error
        try:
            self._db = sqlite3.connect(self.path)
        except sqlite3.Error as error:
            self._lock.close()
            raise StoreError(
                f"{self.path} cannot be opened ({_said(error)}); name another file."
            ) from error
        try:
            version = self._db.execute("PRAGMA user_version").fetchone()[0]
            if version == 1:
                # results computed before curves were stored are still valid
                with self._db:
                    self._db.execute("ALTER TABLE results ADD COLUMN curves TEXT DEFAULT '{}'")
            elif version not in (0, _VERSION):
                raise StoreError(
                    f"{self.path} has version {version}, this program writes {_VERSION}; name "
                    "another store."
                )
            with self._db:
                self._db.executescript(_SCHEMA)
                self._db.execute(f"PRAGMA user_version = {_VERSION}")
        except (sqlite3.DatabaseError, ValueError) as error:  # ValueError: texts that are not UTF-8
            self.close()
            self._refuse_disk(error)
            raise StoreError(
                f"{self.path} is not a store of results ({_said(error)}); name another file."
            ) from error
        except StoreError:
            self.close()
            raise

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the file and its lock."""
        self._db.close()
        self._lock.close()

    def put(self, key: str, result: Result) -> None:
        """Store a result; forget an earlier failure of the same key."""
        row = asdict(result)
        for name in _JSON_FIELDS:
            row[name] = json.dumps(row[name])
        row |= {"key": key, "finished_at": _now()}
        columns = ", ".join(row)
        marks = ", ".join(f":{name}" for name in row)
        with self._ours(), self._db:
            self._db.execute(f"INSERT OR REPLACE INTO results ({columns}) VALUES ({marks})", row)
            self._db.execute("DELETE FROM failures WHERE key = ?", (key,))

    def get(self, keys: Iterable[str]) -> dict[str, Result]:
        """Return the stored results by key."""
        wanted = set(keys)
        found = {}
        with self._ours():
            cursor = self._db.execute("SELECT * FROM results")
            names = [column[0] for column in cursor.description]
            for values in cursor:
                row = dict(zip(names, values, strict=True))
                key = row.pop("key")
                if key in wanted:
                    del row["finished_at"]
                    for name, kind in _JSON_FIELDS.items():
                        row[name] = _plain(row[name], kind)
                    _check_result(row)
                    found[key] = Result(**row)
        return found

    def put_tuning(
        self, key: str, *, dataset: str, method: str, params: dict[str, Any], cpu_seconds: float
    ) -> None:
        """Store parameters that were chosen once for a data set."""
        with self._ours(), self._db:
            self._db.execute(
                "INSERT OR REPLACE INTO tunings VALUES (?, ?, ?, ?, ?, ?)",
                (key, dataset, method, json.dumps(params), cpu_seconds, _now()),
            )
            self._db.execute("DELETE FROM failures WHERE key = ?", (key,))

    def get_tunings(self, keys: Iterable[str]) -> dict[str, dict[str, Any]]:
        """Return the stored parameters by key."""
        wanted = set(keys)
        with self._ours():
            rows = self._db.execute("SELECT key, params FROM tunings")
            return {key: _plain(params, dict) for key, params in rows if key in wanted}

    def put_failure(self, key: str, *, dataset: str, split: int, method: str, message: str) -> None:
        """Store a failure; the next run tries the cell again."""
        with self._ours(), self._db:
            self._db.execute(
                "INSERT OR REPLACE INTO failures VALUES (?, ?, ?, ?, ?, ?)",
                (key, dataset, split, method, message, _now()),
            )

    def put_run(
        self, *, command: str, settings: Mapping[str, Any], environment: Mapping[str, Any]
    ) -> None:
        """Store the start of a run, its command and its environment."""
        with self._ours(), self._db:
            self._db.execute(
                "INSERT INTO runs VALUES (?, ?, ?, ?)",
                (_now(), command, json.dumps(settings), json.dumps(environment)),
            )

    @contextmanager
    def _ours(self) -> Iterator[None]:
        """Turn errors of a damaged file or a full disk into one that names the cure."""
        try:
            yield
        except (sqlite3.Error, ValueError, TypeError, KeyError, RecursionError) as error:
            self._refuse_disk(error)
            raise StoreError(
                f"{self.path} cannot be used ({type(error).__name__}: {_said(error)}); it is "
                "damaged. Put back a copy, or name another store."
            ) from error

    def _refuse_disk(self, error: Exception) -> None:
        """Raise an error with the cure if not the file but its disk is to blame."""
        if getattr(error, "sqlite_errorname", "").startswith(_DISK):
            raise StoreError(
                f"{self.path} cannot be written ({_said(error)}); free space, look at the "
                "permissions, or name another store."
            ) from error
