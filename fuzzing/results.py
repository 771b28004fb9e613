# SPDX-License-Identifier: BSD-3-Clause
"""The store of results: damaged files, and sound ones with odd cells."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from random import Random
from typing import Any

from fuzzing.campaign import Target
from fuzzing.mutations import damage_bytes, damage_tree
from pairlearn.experiments.comparison.store import Result, Store, StoreError

__all__ = ["ResultStore"]

_KEYS = ("one", "two")
_CELLS: tuple[Any, ...] = (None, -1, 2**62, 1e308, "", "x", b"\xff\x00", "[" * 3000, "{}", "[]",
                           '{"a":1}', "NaN", "é", "1", 0.5, "[1,[2,[3]]]", "9" * 5000)  # fmt: skip


class ResultStore(Target):
    """An SQLite file from somewhere."""

    name = "store"
    weight = 3
    expected = (StoreError,)

    def prepare(self, folder: Path) -> None:
        path = folder / "sound.sqlite"
        path.unlink(missing_ok=True)
        with Store(path) as store:
            for key in _KEYS:
                store.put(key, _result())
            store.put_tuning("t", dataset="a", method="m", params={"c": 1.0}, cpu_seconds=0.5)
            store.put_failure("f", dataset="a", split=1, method="m", message="no")
            store.put_run(command="compare", settings={"a": 1}, environment={"b": "c"})
        # An input depends on its seed alone, not on the clock.
        sound = sqlite3.connect(path)
        with sound:
            for table in ("results", "tunings", "failures"):
                sound.execute(f"UPDATE {table} SET finished_at = '2021'")
            sound.execute("UPDATE runs SET started_at = '2021'")
        self._sound = sound.serialize()
        sound.close()

    def make(self, rng: Random) -> bytes:
        if rng.random() < 0.5:
            return damage_bytes(rng, self._sound)
        with_cells = sqlite3.connect(":memory:")
        with_cells.deserialize(self._sound)
        for _ in range(rng.randrange(1, 4)):
            table = rng.choice(["results", "tunings", "failures", "runs"])
            names = [row[1] for row in with_cells.execute(f"PRAGMA table_info({table})")]
            if not names:
                continue
            kind = rng.random()
            if kind < 0.85:
                cell = rng.choice(_CELLS)
                if rng.random() < 0.2:
                    cell = json.dumps(damage_tree(rng, {"a": [1, 2], "b": {"c": "d"}}))
                if isinstance(cell, int) and not -(2**63) <= cell < 2**63:
                    cell = 0
                column = rng.choice(names)
                if column != "key":
                    # The key may have got another name; its cells stay different then.
                    with_cells.execute(f"UPDATE OR IGNORE {table} SET {column} = ?", (cell,))
            elif kind < 0.92:
                with_cells.execute(f"DROP TABLE {table}")
            elif kind < 0.97 and "odd" not in names:
                with_cells.execute(f"ALTER TABLE {table} RENAME COLUMN {rng.choice(names)} TO odd")
            else:
                with_cells.execute(f"PRAGMA user_version = {rng.choice([0, 2, -1])}")
        with_cells.commit()
        data = with_cells.serialize()
        with_cells.close()
        return data

    def use(self, given: bytes, folder: Path) -> None:
        path = folder / "a.sqlite"
        for name in ("", "-journal", "-wal", "-shm", ".lock", ".lock-journal"):
            path.with_name(path.name + name).unlink(missing_ok=True)
        path.write_bytes(given)
        with Store(path) as store:
            found = store.get(_KEYS)
            assert set(found) <= set(_KEYS)
            for result in found.values():
                assert isinstance(result.params, dict)
                assert result.auc + 0.0 >= 0 or result.auc < 0
            store.get_tunings(["t"])
            store.put("three", _result())
            assert store.get(["three"])["three"] == _result()


def _result() -> Result:
    return Result("a", 0, "ours", 0.9, 0.1, 0.2, 0.3, 10, 5, 100, 1000, 64, {"step_size": 0.5},
                  [[0.1, 5.0, 0.8]], ["slow"])  # fmt: skip
