# SPDX-License-Identifier: BSD-3-Clause
"""Many machines on one: Parquet files to an AUC model with Dask, one and two workers.

Workers have one thread each, and the clock is that of the wall, since the work is done elsewhere;
these ratios mean something only where nothing else runs. Processor time does anywhere: that of the
worker, and that of client and scheduler, against the same training without Dask, in one process
with one thread, file after file. Bytes are those of the states that partitions send. One process,
one worker and two take turns, and the least time of each counts: what a neighbour on the same
machine takes away in one turn is not ours.

Run alone with ``python -m benchmarks --only distributed``.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.report import Effort, Row, UnavailableError

D = 30
#: Most memory of a worker, in MB.
LIMIT_MB = 400
LOSSES = ("square", "squared_hinge")


def run(effort: Effort) -> list[Row]:
    """Compare one process, one worker and two workers; count bytes and memory."""
    try:
        import dask
    except ImportError as error:
        raise UnavailableError("needs pip install 'pairlearn[dask]'") from error
    n = effort.pick(200_000, 2_000_000)
    # Files of 12 MB, of which a worker must be able to read one in little memory, then of 60 MB.
    layouts = effort.pick(4, 40), effort.pick(2, 8)
    alone: dict[tuple[int, str], tuple[float, Any, int, int, float]] = {}
    seconds: dict[tuple[int, str, int], float] = {}
    spent: dict[tuple[int, str, int], tuple[float, float]] = {}
    peak = 0.0
    with (
        tempfile.TemporaryDirectory() as home,
        # A file is a partition: Dask would read several small ones as one.
        dask.config.set({"dataframe.parquet.minimum-partition-size": 1}),
    ):
        folders = {n_files: Path(home) / str(n_files) for n_files in layouts}
        for n_files, folder in folders.items():
            _write(folder, n, n_files)
        for _ in range(effort.pick(1, 3)):
            for n_files, folder in folders.items():
                for loss in LOSSES:
                    turn = _alone(folder, loss)
                    alone[n_files, loss] = min(turn, alone.get((n_files, loss), turn), key=_taken)
            for n_workers in (1, 2):
                peak = max(peak, _turn(folders, n_workers, alone, seconds, spent))
    rows = []
    for n_files, loss in alone:
        took, _, n_passes, moved, cpu = alone[n_files, loss]
        worker, client_side = spent[n_files, loss, 1]
        one, two = seconds[n_files, loss, 1], seconds[n_files, loss, 2]
        size = n * D * 8 / n_files / 1e6
        name = f"{loss}, {n:,} x {D} in {n_files} files of {size:.0f} MB, {n_passes} passes"
        rows += [
            Row(f"{name}: two workers / one", two, one, "s", 1.6, 1.9),
            Row(f"{name}: one worker / one process", one, took, "s", 1.3, 1.1, at_most=True),
            Row(
                f"{name}: processor time of one worker / one process",
                worker, cpu, "s", 1.3, 1.1, at_most=True,
            ),
            Row(
                f"{name}: processor time of client and scheduler / one process",
                client_side, cpu, "s", 0.3, 0.1, at_most=True,
            ),
            Row(
                f"{name}: bytes of states / of rows read",
                moved / 1e6, n * D * 8 * n_passes / 1e6, "MB", 50, 500,
            ),
        ]  # fmt: skip
    rows.append(
        Row(
            f"peak memory of a worker with the {layouts[0]} files / the limit",
            peak, LIMIT_MB, "MB", 1.0, 0.8, at_most=True,
        )
    )  # fmt: skip
    return rows


def _turn(
    folders: dict[int, Path],
    n_workers: int,
    alone: dict[tuple[int, str], tuple[float, Any, int, int, float]],
    seconds: dict[tuple[int, str, int], float],
    spent: dict[tuple[int, str, int], tuple[float, float]],
) -> float:
    """Fit once each with so many workers, keep the least times, return the peak memory.

    The peak is that with the smaller files: `folders` begins with them.
    """
    import distributed

    peak = 0.0
    with (
        distributed.LocalCluster(
            n_workers=n_workers, threads_per_worker=1, dashboard_address=":0"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        for n_files, folder in folders.items():
            X, y = _collections(folder)
            _fit(X, y, "square", client)
            # As in one process. With the first file Dask lets Arrow have all processors.
            client.run(one_reader)
            for loss in LOSSES:
                key = n_files, loss, n_workers
                before = processor_seconds(client)
                begin = time.perf_counter()
                found = _fit(X, y, loss, client)
                took = time.perf_counter() - begin
                after = processor_seconds(client)
                used = after[0] - before[0], after[1] - before[1]
                seconds[key] = min(took, seconds.get(key, took))
                spent[key] = min(used, spent.get(key, used))
                gap = np.abs(found.coef_ - alone[n_files, loss][1].coef_).max()
                assert gap <= 1e-9 * np.abs(found.coef_).max(), "Dask changed the model"
            peak = peak or max(client.run(peak_mb).values())
    return peak


def _taken(turn: tuple[float, Any, int, int, float]) -> float:
    return turn[0]


def _collections(folder: Path) -> tuple[Any, Any]:
    import dask.dataframe as dd
    from pyarrow.fs import LocalFileSystem

    # By Arrow: the other reader of Dask copies what it has read twice. A folder would be listed in
    # any order.
    files = [str(file) for file in sorted(folder.glob("*.parquet"))]
    table = dd.read_parquet(files, filesystem=LocalFileSystem())
    return table[[f"x{k}" for k in range(D)]], table["label"]


def _write(folder: Path, n: int, n_files: int) -> None:
    import pandas as pd

    folder.mkdir()
    rng = np.random.default_rng(0)
    w = rng.normal(size=D) / np.sqrt(D)
    for part in range(n_files):
        X = rng.normal(size=(n // n_files, D))
        table = pd.DataFrame(X, columns=[f"x{k}" for k in range(D)])
        table["label"] = (X @ w + rng.normal(size=len(X)) > 1.0).astype(np.int8)
        table.to_parquet(folder / f"{part:03}.parquet")


def _fit(X: Any, y: Any, loss: str, client: Any) -> Any:
    from pairlearn import Exact
    from pairlearn.distributed import DaskAUCClassifier

    return DaskAUCClassifier(loss=loss, solver=Exact(1e-3), random_state=0, client=client).fit(X, y)


def processor_seconds(client: Any) -> tuple[float, float]:
    """Return the processor time of all workers, and of this process: client and scheduler."""
    return sum(client.run(time.process_time).values()), time.process_time()


def _alone(folder: Path, loss: str) -> tuple[float, Any, int, int, float]:
    """Return seconds, model, passes, bytes of states and processor time without Dask."""
    import pandas as pd
    import pyarrow as pa
    from threadpoolctl import threadpool_limits

    from pairlearn import Exact
    from pairlearn.distributed import train_auc

    files = sorted(folder.glob("*.parquet"))
    moved = 0

    def run(statistic: Any) -> Any:
        nonlocal moved
        states = []
        for part, file in enumerate(files):
            table = pd.read_parquet(file)
            X, y = table.drop(columns="label").to_numpy(), table["label"].to_numpy()
            states.append(statistic.of_part(part).partial_state(X, y))
            moved += sum(values.nbytes for values in states[-1].values())
        return statistic.merge_all(states)

    n_threads = pa.cpu_count()
    pa.set_cpu_count(1)
    try:
        # As a worker has it.
        with threadpool_limits(1):
            # Once before, as with Dask: files in memory, modules loaded.
            train_auc(run, loss="square", solver=Exact(1e-3), random_state=0)
            moved = 0
            begin, used = time.perf_counter(), time.process_time()
            fit = train_auc(run, loss=loss, solver=Exact(1e-3), random_state=0)
            took, cpu = time.perf_counter() - begin, time.process_time() - used
    finally:
        pa.set_cpu_count(n_threads)
    return took, fit.model, fit.n_passes, moved, cpu


def one_reader() -> None:
    """Let Arrow read with one thread."""
    import pyarrow as pa

    pa.set_cpu_count(1)


def peak_mb() -> float:
    """Return the most memory that this process has had.

    Not by getrusage, where a new process begins with the peak of the one that started it.
    """
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024.0
