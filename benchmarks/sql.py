# SPDX-License-Identifier: BSD-3-Clause
"""What moments and models from queries cost: ``python -m benchmarks.sql --rows 200000``.

Processor time, in one thread, beside the same work on rows in memory.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from contextlib import closing
from typing import Any

import numpy as np

from pairlearn import AUCClassifier
from pairlearn.cluster import (
    ColumnExtents,
    LabelMoments,
    OnArrow,
    class_moments,
    fit_on,
)
from pairlearn.solvers import Grid


def cost(work: Callable[[], Any], times: int) -> float:
    """Return the least processor time of a few runs."""
    found = []
    for _ in range(times):
        begin = time.process_time()
        work()
        found.append(time.process_time() - begin)
    return min(found)


def in_memory(X: Any, y: Any) -> Callable[[Any], Any]:
    """Return an engine of passes over one part in memory."""

    def run(statistic: Any) -> Any:
        return statistic.partial_state(X, y)

    return run


def moments(run: Callable[[Any], Any]) -> Any:
    """Return the state of exact moments."""
    extents = ColumnExtents()
    return run(LabelMoments(grid=Grid.of(extents.finish(run(extents)))))


def main() -> None:
    """Print the table."""
    import duckdb
    import polars
    import pyarrow as pa

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--columns", type=int, default=10)
    parser.add_argument("--times", type=int, default=3)
    given = parser.parse_args()
    rng = np.random.default_rng(0)
    X = rng.normal(size=(given.rows, given.columns))
    y = (X[:, 0] + rng.normal(size=given.rows) > 0).astype(np.int64)
    names = [f"x{j}" for j in range(given.columns)]
    table = pa.table({**dict(zip(names, X.T, strict=True)), "y": y})
    asked = {"columns": names, "target": "y"}
    model = AUCClassifier(random_state=0)
    with closing(duckdb.connect(config={"threads": 1})) as duck:
        duck.register("given", table)
        duck.execute("CREATE TABLE t AS SELECT * FROM given")
        frame = polars.from_arrow(table).lazy()
        query = "SELECT * FROM t"
        tasks: dict[str, dict[str, Callable[[], Any]]] = {
            "exact moments": {
                "rows in memory": lambda: moments(in_memory(X, y)),
                "SELECT in DuckDB": lambda: class_moments(duck, table="t", ranges=(-8, 8), **asked),
            },
            "fit_on": {
                "rows in memory": lambda: fit_on(in_memory(X, y), model),
                "batches of DuckDB": lambda: fit_on(OnArrow(duck, query, target="y"), model),
                "batches of Polars": lambda: fit_on(OnArrow(frame, target="y"), model),
            },
        }
        print(f"{given.rows} rows, {given.columns} columns; microseconds a row, and ratios")
        for task, ways in tasks.items():
            found = {name: cost(work, given.times) for name, work in ways.items()}
            first = next(iter(found.values()))
            for name, seconds in found.items():
                print(
                    f"{task:<26}{name:<20}{1e6 * seconds / given.rows:>8.2f} us"
                    f"{seconds / first:>8.1f} x"
                )


if __name__ == "__main__":
    main()
