# SPDX-License-Identifier: BSD-3-Clause
"""The constants of the cost model in docs/guide/cluster.md.

Processor time, so that other work on the machine matters little; one thread. Memory is the peak of
a new process that reads one partition and answers every question about it.

Run with ``python -m benchmarks.cluster_constants``.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.distributed import partition_costs, peak_mb, processor_seconds

D, MANY, ROWS, PARTITIONS = 30, 100, (50_000, 200_000), 200
#: Seconds in which nothing is asked of a cluster.
WAIT = 10.0


def main() -> None:
    """Print the constants."""
    import pandas as pd
    import pyarrow as pa

    pa.set_cpu_count(1)
    with tempfile.TemporaryDirectory() as folder:
        files = []
        for n in ROWS:
            table = pd.DataFrame(np.random.default_rng(0).normal(size=(n, D)))
            table.columns = [f"x{k}" for k in range(D)]
            table["label"] = (table["x0"] > 1.0).astype(np.int8)
            files.append(Path(folder) / f"{n}.parquet")
            table.to_parquet(files[-1])
        _speeds(files[-1])
        for file in files:
            # In a process of its own: memory does not shrink again.
            subprocess.run(
                [sys.executable, "-m", "benchmarks.cluster_constants", str(file)], check=True
            )
    _scheduling()


def _questions(d: int) -> dict[str, Any]:
    from pairlearn import distributed as ours
    from pairlearn.distributed.statistics.sample import SampleKeys
    from pairlearn.estimators.shared.scaling import Scaling
    from pairlearn.solvers import Grid

    units = Scaling(np.ones(d), np.zeros(d), np.ones(d))

    def edges(n: int) -> Any:
        return np.sinh(np.linspace(-4.0, 4.0, n - 1))

    grid = Grid.between(np.full(d, -6.0), np.full(d, 6.0))
    first = {
        "scales": ours.FeatureScales(),
        "extents": ours.ColumnExtents(),
        "keys": SampleKeys(),
    }
    second = {"moments": ours.LabelMoments(grid=grid), "sample": ours.RowSample()}
    return {
        "first pass": ours.Together(first),
        "second pass": ours.Together(second),
        "gradient": ours.Scaled(ours.BinnedScores(np.ones(d), edges(512), (0, 1)), units),
        "last pass": ours.Scaled(ours.ScoreHistogram(np.ones(d), edges(16_384), (0, 1)), units),
    }


def _speeds(file: Path) -> None:
    import dask.dataframe as dd
    import pandas as pd

    from pairlearn.distributed.dask.parts import as_table

    lazy, arrow = dd.read_parquet(file), dd.read_parquet(str(file), filesystem="arrow")
    by_dask, _ = _least(lambda: lazy.compute(scheduler="sync"))
    by_arrow, _ = _least(lambda: arrow.compute(scheduler="sync"))
    took, table = _least(lambda: pd.read_parquet(file))
    X, y = as_table(table.drop(columns="label")), table["label"].to_numpy()
    million = X.size / 1e6
    print(
        f"read: {million / took:.0f} million values a second by pandas, {million / by_dask:.0f} by "
        f'Dask, {million / by_arrow:.0f} by Dask with filesystem="arrow"'
    )
    for name, statistic in _questions(D).items():
        took, state = _least(lambda one=statistic: one.partial_state(X, y))
        size = sum(values.nbytes for values in state.values())
        print(f"{name}: {million / took:.0f} million values a second, {size / 1e6:.2f} MB a state")
        took, _ = _least(lambda one=statistic, part=state: one.merge(part, part))
        print(f"{name}: {1e3 * took:.2f} ms a merge")
    # As a frame stores them.
    X = np.asfortranarray(np.random.default_rng(0).normal(size=(ROWS[0], MANY)))
    y = (X[:, 0] > 1.0).astype(np.int8)
    for name, statistic in _questions(MANY).items():
        took, _ = _least(lambda one=statistic: one.partial_state(X, y))
        speed = X.size / 1e6 / took
        print(f"{name}, {MANY} columns: {speed:.0f} million values a second")


def _memory(file: str) -> None:
    import dask.dataframe  # noqa: F401 - as a worker has it
    import pandas as pd

    import distributed  # noqa: F401
    from pairlearn.distributed.dask.parts import as_table

    questions = _questions(D)
    before = peak_mb()
    table = pd.read_parquet(file)
    read = peak_mb()
    X, y = as_table(table.iloc[:, :-1]), table["label"].to_numpy()
    for statistic in questions.values():
        statistic.partial_state(X, y)
    print(
        f"memory: {before:.0f} MB before, {read:.0f} MB after reading {X.nbytes / 1e6:.0f} MB, "
        f"{peak_mb():.0f} MB in the end"
    )


def _scheduling() -> None:
    import distributed

    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, dashboard_address=":0"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        before = processor_seconds(client)
        time.sleep(WAIT)
        worker, here = (
            100.0 * (b - a) / WAIT for a, b in zip(before, processor_seconds(client), strict=True)
        )
        print(f"waiting: {worker:.1f} % of a processor by the worker, {here:.1f} % by the others")
        for name, (here, worker) in partition_costs(client, PARTITIONS).items():
            print(
                f"{name}: {here:.1f} ms a partition of client and scheduler, "
                f"{worker:.1f} ms of the worker"
            )


def _least(run: Callable[[], Any]) -> tuple[float, Any]:
    """Return the least processor time of three runs, and the result."""
    best, found = np.inf, None
    for _ in range(3):
        begin = time.process_time()
        found = run()
        best = min(best, time.process_time() - begin)
    return best, found


if __name__ == "__main__":
    if len(sys.argv) > 1:
        _memory(sys.argv[1])
    else:
        main()
