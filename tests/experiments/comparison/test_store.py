# SPDX-License-Identifier: BSD-3-Clause
"""A damaged store ends in an error of ours, and what is read is proportional to what is asked."""

from __future__ import annotations

import json
import sqlite3

import numpy as np
import pytest

from pairlearn.experiments.comparison import store as module
from pairlearn.experiments.comparison.store import Result, Store, StoreError

RESULT = Result("toy", 0, "m", 0.75, 1.0, 1.0, 0.0, 10, 5)


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "s.sqlite"
    with Store(path) as store:
        store.put("a", RESULT)
        store.put_tuning("t", dataset="toy", method="m", params={"c": 1}, cpu_seconds=1.0)
        store.put_run(command="compare", settings={}, environment={})
    return path


def read_all(path):
    with Store(path) as store:
        return store.get(["a"]), store.get_tunings(["t"])


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE results SET params = '{'",
        "UPDATE results SET params = '3'",
        "UPDATE results SET checkpoints = NULL",
        "UPDATE results SET warnings = x'ff'",
        "UPDATE results SET auc = 'high'",
        "UPDATE results SET split = 'first'",
        "UPDATE results SET dataset = CAST(x'ff' AS TEXT)",
        "UPDATE results SET params = '" + "[" * 100_000 + "'",
        "ALTER TABLE results DROP COLUMN auc",
        "ALTER TABLE results ADD COLUMN more TEXT",
        "DROP TABLE tunings; CREATE TABLE tunings (key TEXT)",
        "UPDATE tunings SET params = '[1]'",
    ],
)
def test_damaged_rows(path, change):
    db = sqlite3.connect(path)
    db.executescript(change)
    db.close()
    with pytest.raises(StoreError) as caught:
        read_all(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_any_damaged_bytes(path):
    good, rng = path.read_bytes(), np.random.default_rng(0)
    for _ in range(100):
        data = bytearray(good)
        for place in rng.integers(0, len(data), 40):
            data[place] = rng.integers(0, 256)
        path.write_bytes(data)
        try:
            read_all(path)
        except StoreError as error:
            message = str(error)
            assert "\n" not in message
    path.write_bytes(good[: len(good) // 2])
    with pytest.raises(StoreError):
        read_all(path)


def test_a_lock_that_is_no_database(path):
    path.with_name(path.name + ".lock").write_bytes(b"something else entirely" * 100)
    with pytest.raises(StoreError, match="not a lock"):
        Store(path)


def test_a_folder_in_the_place_of_the_store(tmp_path):
    with pytest.raises(StoreError):
        Store(tmp_path)


@pytest.mark.thorough
def test_only_what_is_asked_for_is_parsed(tmp_path, monkeypatch):
    calls = []
    for n in (10, 200):
        with Store(tmp_path / f"{n}.sqlite") as store:
            for k in range(n):
                store.put(f"k{k}", RESULT)
            with monkeypatch.context() as patch:
                patch.setattr(module.json, "loads", lambda t: (calls.append(t), json.JSONDecoder().decode(t))[1])  # fmt: skip  # noqa: E501
                assert len(store.get(f"k{k}" for k in range(5))) == 5
        assert len(calls) == 20  # four fields of JSON in each of five
        calls.clear()
