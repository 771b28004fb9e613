# SPDX-License-Identifier: BSD-3-Clause
"""Long runs, shortened: nothing leaks, and what is planted is found."""

from __future__ import annotations

import os
import threading
from contextlib import nullcontext
from pathlib import Path

import pytest
from fuzzing.long import RUNS, long_table, measure

from fuzzing import long

pytestmark = [
    pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc of Linux"),
    pytest.mark.filterwarnings("ignore"),
]

#: How often each run is repeated here; the others take minutes.
SHORT = {
    "partial_fit": 200,
    "learn_one": 200,
    "learn_one of names": 2000,
    "answers of a stream": 1000,
    "predictions beside learning": 50,
    "models fitted and dropped": 20,
    "saves and loads": 20,
    "files read and refused": 8,
}


@pytest.mark.thorough
@pytest.mark.parametrize("name", SHORT)
def test_a_short_run_takes_no_more_at_its_end(name, tmp_path):
    found = measure(name, SHORT[name], tmp_path)
    if found.leaks:
        # A library may have started another thread of its pool meanwhile. A leak comes again.
        found = measure(name, SHORT[name], tmp_path)
    assert found.leaks == []
    assert f"| {name} | {SHORT[name]:,} |" in long_table([found])


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
def test_a_hundredth_of_every_run(name, tmp_path):
    assert measure(name, max(RUNS[name].calls // 100, 10), tmp_path).leaks == []


@pytest.mark.parametrize("kind", ["memory", "Python", "file", "thread", "nothing"])
def test_what_is_planted_is_found(kind, tmp_path, monkeypatch):
    kept = []
    over = threading.Event()

    def step(k):
        if kind == "memory":
            kept.append(b"x" * 1_000_000 + bytes([k % 256]))
        elif kind == "Python":
            kept.append(bytes(50_000))  # 40 times the limit: other threads of the tests free some
        elif kind == "file":
            kept.append(os.open(os.devnull, os.O_RDONLY))
        elif kind == "thread":
            kept.append(threading.Thread(target=over.wait))
            kept[-1].start()

    monkeypatch.setitem(long.RUNS, "planted", long._Run(1, lambda folder: nullcontext(step)))
    calls = 20 if kind in ("file", "thread") else 200
    try:
        found = measure("planted", calls, tmp_path).leaks
        if kind == "nothing" and found:
            # other threads of the tests open files and allocate meanwhile: a leak is there again
            found = measure("planted", calls, tmp_path).leaks
    finally:
        over.set()
        for one in kept:
            if kind == "file":
                os.close(one)
            elif kind == "thread":
                one.join()
    expected = {
        "memory": "the process grew by",
        "Python": "bytes more after each stretch",
        "file": "more files are open",
        "thread": "more threads run",
    }
    if kind == "nothing":
        assert found == []
    else:
        assert any(expected[kind] in leak for leak in found)
