# SPDX-License-Identifier: BSD-3-Clause
"""Many machines on one: Parquet files to an AUC model with Dask, one and two workers.

Workers have one thread each. One process without Dask, one worker and two take turns, and the least
time of each counts: what a neighbour on the same machine takes away in one turn is not ours. The
clock of the wall means something only where nothing else runs; processor time does anywhere. Then
two workers are as quick as the one of them that has more to do. Bytes are those of the states that
partitions send.

Run alone with ``python -m benchmarks --only distributed``, which takes ten minutes.
"""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.report import Effort, Row, UnavailableError

D = 30
#: Most memory of a worker, in MB.
LIMIT_MB = 400
#: Milliseconds that a partition may cost client and scheduler, and its worker.
MOST_MS = 4.0, 8.0
#: Examples in a file of 12 MB, which a worker can read in little memory.
IN_FILE = 50_000
#: Files for each loss: ten million examples, and fewer where passes are many.
N_FILES = {"square": 200, "squared_hinge": 40}


@dataclass
class _Times:
    """What the turns of one contestant took."""

    seconds: list[float] = field(default_factory=list)
    #: Processor time of the busiest worker, of all workers, and of client and scheduler.
    cpu: list[tuple[float, float, float]] = field(default_factory=list)

    def least(self, which: int) -> float:
        return min(turn[which] for turn in self.cpu)


def run(effort: Effort) -> list[Row]:
    """Compare one process, one worker and two workers; count bytes, memory and milliseconds."""
    try:
        import dask
    except ImportError as error:
        raise UnavailableError("needs pip install 'pairlearn[dask]'") from error
    rows = []
    with (
        tempfile.TemporaryDirectory() as home,
        # A file is a partition: Dask would read several small ones as one.
        dask.config.set({"dataframe.parquet.minimum-partition-size": 1}),
        _cluster(1) as one,
        _cluster(2) as two,
    ):
        files = _write(Path(home), effort.pick(4, max(N_FILES.values())))
        X, y = _collections(files)
        # Who comes first compiles, if machine code is not on disk: that takes memory of its own.
        for client in (two, one):
            _fit(X, y, "square", client)
            # As in one process. With the first file Dask lets Arrow have all processors.
            client.run(one_reader)
        for loss, n_files in N_FILES.items():
            rows += _turns(files[:n_files], loss, (one, two), effort.pick(1, 5))
        rows.append(
            Row(
                f"peak memory of a worker with {len(files)} files, code on disk / the limit",
                max(one.run(peak_mb).values()), LIMIT_MB, "MB", 1.0, 0.8, at_most=True,
            )
        )  # fmt: skip
        rows += _passes(X, y, one, len(files) * IN_FILE)
        rows += _partitions(one, effort.pick(100, 1_000))
    return rows


@contextlib.contextmanager
def _cluster(n_workers: int) -> Iterator[Any]:
    import distributed

    with (
        distributed.LocalCluster(
            n_workers=n_workers, threads_per_worker=1, dashboard_address=":0"
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        yield client


def _turns(files: list[Path], loss: str, clients: tuple[Any, Any], n_turns: int) -> list[Row]:
    """Let one process, one worker and two take turns with a loss."""
    X, y = _collections(files)
    alone = _Times()
    by_workers = (_Times(), _Times())
    for _ in range(n_turns):
        took, model, n_passes, moved, cpu = _alone(files, loss)
        alone.seconds.append(took)
        alone.cpu.append((cpu, cpu, 0.0))
        for client, times in zip(clients, by_workers, strict=True):
            before = client.run(time.process_time), time.process_time()
            begin = time.perf_counter()
            found = _fit(X, y, loss, client)
            times.seconds.append(time.perf_counter() - begin)
            after = client.run(time.process_time), time.process_time()
            used = [after[0][worker] - before[0][worker] for worker in before[0]]
            times.cpu.append((max(used), sum(used), after[1] - before[1]))
            gap = np.abs(found.coef_ - model.coef_).max()
            assert gap <= 1e-9 * np.abs(found.coef_).max(), "Dask changed the model"
    one, two = by_workers
    n, size = len(files) * IN_FILE, IN_FILE * D * 8 / 1e6
    name = f"{loss}, {n:,} x {D} in {len(files)} files of {size:.0f} MB, {n_passes} passes"
    turns = ", ".join(f"{a / b:.2f}" for a, b in zip(one.seconds, two.seconds, strict=True))
    return [
        Row(
            f"{name}: two workers / one by the clock (turns: {turns})",
            min(two.seconds), min(one.seconds), "s", 1.6, 1.9,
        ),
        Row(
            f"{name}: processor time of the busier of two workers / of one",
            two.least(0), one.least(0), "s", 1.6, 1.9,
        ),
        Row(
            f"{name}: one worker / one process by the clock",
            min(one.seconds), min(alone.seconds), "s", 1.15, 1.05, at_most=True,
        ),
        Row(
            f"{name}: processor time of one worker / one process",
            one.least(1), alone.least(1), "s", 1.15, 1.05, at_most=True,
        ),
        Row(
            f"{name}: processor time of client and scheduler / one process",
            one.least(2), alone.least(1), "s", 0.3, 0.1, at_most=True,
        ),
        Row(
            f"{name}: bytes of states / of rows read",
            moved / 1e6, n * D * 8 * n_passes / 1e6, "MB", 50, 500,
        ),
    ]  # fmt: skip


def _passes(X: Any, y: Any, client: Any, n: int) -> list[Row]:
    """Compare single passes with the reading of the same files, by processor time of a worker."""
    from pairlearn import distributed as ours
    from pairlearn.distributed.dask.parts import parts_of
    from pairlearn.solvers import Grid

    parts, engine = parts_of(X, y), ours.DaskEngine(client)
    grid = Grid.between(np.full(D, -6.0), np.full(D, 6.0))
    w = np.ones(D)
    asked = {
        "read only": _nothing()(),
        "moments": ours.LabelMoments(grid=grid),
        "histogram": ours.ScoreHistogram(w, np.linspace(-30.0, 30.0, 4_095), (0, 1)),
    }
    least = dict.fromkeys(asked, np.inf)
    # Single passes of less than a second differ by a tenth.
    for _ in range(8):
        for name, statistic in asked.items():
            before = processor_seconds(client)[0]
            engine.run(parts, statistic)
            least[name] = min(least[name], processor_seconds(client)[0] - before)
    return [
        Row(
            f"{n:,} x {D}, a pass of one worker with reading / reading alone: {name}",
            least[name], least["read only"], "s", 1.25, 1.1, at_most=True,
        )
        for name in ("moments", "histogram")
    ]  # fmt: skip


def _partitions(client: Any, n_parts: int) -> list[Row]:
    """Compare what small partitions cost with what they may cost."""
    found = []
    for name, costs in partition_costs(client, n_parts).items():
        sides = zip(("client and scheduler", "the worker"), costs, MOST_MS, strict=True)
        found += [
            Row(
                f"{n_parts:,} partitions of {name}, each for {side} / at most {most:g} ms",
                cost, most, "ms", 1.0, 0.5, at_most=True,
            )
            for side, cost, most in sides
        ]  # fmt: skip
    return found


def partition_costs(client: Any, n_parts: int) -> dict[str, tuple[float, float]]:
    """Return milliseconds of client and scheduler, and of workers, for a partition of ten rows."""
    import dask.array as da
    import dask.dataframe as dd
    import pandas as pd

    from pairlearn.distributed import DaskEngine, LabelMoments
    from pairlearn.distributed.dask.parts import parts_of

    X, y = np.zeros((10 * n_parts, 2)), np.arange(10 * n_parts) % 2
    frame = dd.from_pandas(pd.DataFrame(X, columns=["a", "b"]).assign(y=y), npartitions=n_parts)
    given = {
        "arrays": parts_of(da.from_array(X, chunks=(10, -1)), da.from_array(y, chunks=10)),
        "frames": parts_of(frame[["a", "b"]], frame["y"]),
    }
    engine, found = DaskEngine(client), {}
    for name, parts in given.items():
        engine.run(parts, LabelMoments())
        before = processor_seconds(client)
        engine.run(parts, LabelMoments())
        worker, here = (b - a for a, b in zip(before, processor_seconds(client), strict=True))
        found[name] = 1e3 * here / n_parts, 1e3 * worker / n_parts
    return found


def _nothing() -> type:
    from pairlearn.distributed import Statistic

    class Nothing(Statistic):
        """Only reads."""

        def partial_state(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
            return {"n": np.array(len(X))}

        def combine(self, a: Any, b: Any) -> Any:
            return {"n": a["n"] + b["n"]}

        def finish(self, state: Any) -> int:
            return int(state["n"])

    return Nothing


def _collections(files: list[Path]) -> tuple[Any, Any]:
    import dask.dataframe as dd
    from pyarrow.fs import LocalFileSystem

    # By Arrow: the other reader of Dask copies what it has read twice.
    table = dd.read_parquet([str(file) for file in files], filesystem=LocalFileSystem())
    return table[[f"x{k}" for k in range(D)]], table["label"]


def _write(folder: Path, n_files: int) -> list[Path]:
    import pandas as pd

    rng = np.random.default_rng(0)
    w = rng.normal(size=D) / np.sqrt(D)
    files = [folder / f"{part:03}.parquet" for part in range(n_files)]
    for file in files:
        X = rng.normal(size=(IN_FILE, D))
        table = pd.DataFrame(X, columns=[f"x{k}" for k in range(D)])
        table["label"] = (X @ w + rng.normal(size=len(X)) > 1.0).astype(np.int8)
        table.to_parquet(file)
    return files


def _fit(X: Any, y: Any, loss: str, client: Any) -> Any:
    from pairlearn import Exact
    from pairlearn.distributed import DaskAUCClassifier

    return DaskAUCClassifier(loss=loss, solver=Exact(1e-3), random_state=0, client=client).fit(X, y)


def processor_seconds(client: Any) -> tuple[float, float]:
    """Return the processor time of all workers, and of this process: client and scheduler."""
    return sum(client.run(time.process_time).values()), time.process_time()


def _alone(files: list[Path], loss: str) -> tuple[float, Any, int, int, float]:
    """Return seconds, model, passes, bytes of states and processor time without Dask."""
    import pandas as pd
    import pyarrow as pa
    from threadpoolctl import threadpool_limits

    from pairlearn import Exact
    from pairlearn.distributed import train_auc

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
