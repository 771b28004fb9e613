# SPDX-License-Identifier: BSD-3-Clause
"""Results as JSON lines, one for each cell, appended as they arrive.

The key of a result contains everything that determines it. So a run that was killed, or that gets
more splits or methods, computes only missing cells, and a changed setting never reuses an old one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any


class StoreError(Exception):
    """The file of results cannot be used."""


@dataclass(frozen=True)
class Result:
    """One cell of a comparison.

    Seconds are for training alone; `tune_cpu_seconds` is 0 if parameters were chosen once for all
    splits. The method reports `n_gradients` and `state_bytes`; `peak_bytes` is the additional
    memory while training. A checkpoint is [cpu_seconds, n_gradients, test AUC]; `curves` are as in
    `pairlearn.experiments.comparison.curves`.
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


def make_key(parts: Mapping[str, Any]) -> str:
    """Return the digest of a mapping written as canonical JSON.

    >>> make_key({"a": 1, "b": 2}) == make_key({"b": 2, "a": 1})
    True
    """
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()


class Store:
    """The results of comparisons in one file, created if needed; one run at a time writes to it."""

    def __init__(self, path: str | Path) -> None:
        from filelock import FileLock, Timeout

        self.path = Path(path)
        self._lock = FileLock(f"{self.path}.lock")
        #: What is stored, by kind and key; of two lines with one key the later one counts.
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

    def _put(self, kind: str, key: str, entry: Mapping[str, Any]) -> None:
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

    def put(self, key: str, result: Result) -> None:
        """Store a result."""
        self._put("result", key, asdict(result))

    def get(self, keys: Iterable[str]) -> dict[str, Result]:
        """Return the stored results by key."""
        found = {}
        for key in keys:
            entry = self._stored.get(("result", key))
            if entry is not None:
                try:
                    found[key] = Result(**{k: v for k, v in entry.items() if k != "at"})
                except TypeError as error:
                    raise StoreError(
                        f"{self.path} holds no result of this version ({error}); name another file."
                    ) from None
        return found

    def put_tuning(self, key: str, params: dict[str, Any], cpu_seconds: float) -> None:
        """Store parameters that were chosen once for a data set."""
        self._put("tuning", key, {"params": params, "cpu_seconds": cpu_seconds})

    def get_tuning(self, key: str) -> dict[str, Any] | None:
        """Return stored parameters; None if there are none."""
        entry = self._stored.get(("tuning", key))
        return None if entry is None else entry["params"]

    def put_failure(self, key: str, failure: Mapping[str, Any]) -> None:
        """Store a failure; the next run tries the cell again."""
        self._put("failure", key, failure)

    def put_run(self, **facts: Any) -> None:
        """Store the command, the settings and the environment of a run."""
        self._put("run", make_key(facts), facts)
