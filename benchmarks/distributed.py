# SPDX-License-Identifier: BSD-3-Clause
"""Many machines on one: Parquet files to an AUC model with Dask, one worker and two.

Processor time means something on a busy machine, too: two workers are as quick as the one of them
that has more to do. Run alone with ``python -m benchmarks --only distributed``.
"""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.report import Effort, Row, UnavailableError

#: Features, and examples in a file of 12 MB, which a worker reads in little memory.
D, IN_FILE = 30, 50_000


def run(effort: Effort) -> list[Row]:
    """Compare one process, one worker and two workers by processor time."""
    try:
        import dask
    except ImportError as error:
        raise UnavailableError("needs pip install 'pairlearn[dask]'") from error
    with (
        tempfile.TemporaryDirectory() as home,
        # A file is a partition: Dask would read several small ones as one.
        dask.config.set({"dataframe.parquet.minimum-partition-size": 1}),
        _cluster(1) as one,
        _cluster(2) as two,
    ):
        files = _write(Path(home), effort.pick(4, 100))
        alone = min(_alone(files) for _ in range(3))
        workers = {client: _fit(files, client) for client in (one, two, one, two)}
    (busy_one, all_one), (busy_two, _) = workers[one], workers[two]
    name = f"{len(files) * IN_FILE:,} x {D} in {len(files)} files"
    return [
        Row(f"{name}: the busier of two workers / one", busy_two, busy_one, "s", 1.6, 1.9),
        Row(f"{name}: one worker / one process", all_one, alone, "s", 2.0, 1.1, at_most=True),
    ]


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


def _write(folder: Path, n_files: int) -> list[Path]:
    import pandas as pd

    rng, files = np.random.default_rng(0), []
    for part in range(n_files):
        X = rng.normal(size=(IN_FILE, D))
        table = pd.DataFrame(X, columns=[f"x{k}" for k in range(D)])
        table["label"] = (X[:, 0] + rng.normal(size=IN_FILE) > 1.0).astype(int)
        files.append(folder / f"{part}.parquet")
        table.to_parquet(files[-1])
    return files


def _alone(files: list[Path]) -> float:
    """Return the processor time of the same passes in this process."""
    import pyarrow.dataset

    from pairlearn import AUCClassifier
    from pairlearn.cluster import OnArrow, fit_on

    begin = time.process_time()
    rows = pyarrow.dataset.dataset([str(file) for file in files])
    fit_on(OnArrow(rows, target="label"), AUCClassifier(random_state=0))
    return time.process_time() - begin


def _fit(files: list[Path], client: Any) -> tuple[float, float]:
    """Return the processor time of the busiest worker, and of all workers."""
    import dask.dataframe

    from pairlearn import AUCClassifier
    from pairlearn.cluster import OnDask, fit_on

    table = dask.dataframe.read_parquet([str(file) for file in files])
    features = table[[name for name in table.columns if name != "label"]]
    before = client.run(time.process_time)
    fit_on(OnDask(features, table["label"], client=client), AUCClassifier(random_state=0))
    after = client.run(time.process_time)
    used = [after[worker] - before[worker] for worker in before]
    return max(used), sum(used)
