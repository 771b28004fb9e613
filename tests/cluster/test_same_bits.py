# SPDX-License-Identifier: BSD-3-Clause
"""The program of the gallery that trains one model in eight ways prints one digest."""

import os
import subprocess
import sys
from importlib.util import find_spec

import pytest

#: The engines of the program, and the modules that they need.
ENGINES = {
    "in memory": None,
    "shuffled chunks": None,
    "a killed stream": None,
    "Dask, partitions: 1": "dask",
    "Dask, partitions: 7": "dask",
    "Dask, partitions: 50": "dask",
    "Spark": "pyspark",
    "DuckDB": "duckdb",
}


@pytest.mark.slow
def test_every_engine_prints_the_digest_of_one_machine(root):
    pytest.importorskip("matplotlib")
    done = subprocess.run(
        [sys.executable, str(root / "examples" / "plot_same_bits.py")],
        capture_output=True,
        text=True,
        timeout=1800,
        check=False,
        env={**os.environ, "MPLBACKEND": "Agg"},
    )
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stdout.splitlines() if line.strip()]
    begin, middle = lines.index("20,000 rows"), lines.index("without 1,000 of them")
    told = {line[:20].strip(): line[20:].strip() for line in lines[begin + 1 : middle]}
    again = {line[:20].strip(): line[20:].strip() for line in lines[middle + 1 :]}
    there = [name for name, needs in ENGINES.items() if needs is None or find_spec(needs)]
    assert list(told) == list(ENGINES)
    for name in set(ENGINES) - set(there):
        assert told.pop(name) == f"left out: {ENGINES[name]} is not installed"
    assert list(again) == [*there, "never seen"]
    digests, others = set(told.values()), set(again.values())
    assert len(digests) == len(others) == 1
    assert digests != others
    assert len(digests.pop()) == 32
