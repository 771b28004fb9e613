# SPDX-License-Identifier: BSD-3-Clause
"""The store keeps what was put into it, through a kill too, and refuses what is no store."""

import json

import pytest

from pairlearn.experiments.comparison.store import Result, Store, StoreError

RESULT = Result("toy", 0, "m", 0.75, 1.0, 1.0, 0.0, 10, 5, params={"c": 1.0})


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "s.jsonl"
    with Store(path) as store:
        store.put("a", RESULT)
        store.put_tuning("t", {"c": 1}, 1.0)
        store.put_run(command="compare", settings={})
    return path


def test_what_was_put_is_there(path):
    with Store(path) as store:
        assert store.get(["a", "b"]) == {"a": RESULT}
        assert store.get_tuning("t") == {"c": 1}
        assert store.get_tuning("u") is None


def test_a_line_that_a_kill_cut_is_left_out(path):
    whole = path.read_bytes()
    path.write_bytes(whole + whole[: len(whole) // 3])
    with Store(path) as store:
        store.put("b", RESULT)
    assert path.read_bytes()[: len(whole)] == whole
    with Store(path) as store:
        assert store.get("ab") == {"a": RESULT, "b": RESULT}


@pytest.mark.parametrize(
    "line", [b"something else\n", b"{}\n", b"[]\n", b"3\n", b"\xff\x00\n", b"[" * 100_000 + b"\n"]
)
def test_what_is_no_store(path, line):
    path.write_bytes(path.read_bytes() + line)
    with pytest.raises(StoreError, match=r"not a store of results \(line 4\)"):
        Store(path)
    # The lock is free again.
    path.unlink()
    Store(path).__exit__()


def test_a_result_of_another_version(path):
    entry = {"kind": "result", "key": "b", "older": 1}
    path.write_text(json.dumps(entry) + "\n")
    with Store(path) as store, pytest.raises(StoreError, match="no result of this version"):
        store.get(["b"])


def test_a_folder_in_the_place_of_the_store(tmp_path):
    with pytest.raises(StoreError):
        Store(tmp_path)
