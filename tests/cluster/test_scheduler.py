# SPDX-License-Identifier: BSD-3-Clause
"""A scheduler that dies ends everything that waits for it, with one clear error."""

import contextlib
import subprocess
import sys

import numpy as np
import pytest

from pairlearn import AUCClassifier
from pairlearn.cluster import OnDask, WorkersLostError, fit_on, score_on

MODEL = AUCClassifier(random_state=0)

da = pytest.importorskip("dask.array", reason="needs the extra dask")
distributed = pytest.importorskip("distributed", reason="needs the extra dask")
dask = pytest.importorskip("dask", reason="needs the extra dask")

LOST = r"connection to the scheduler of Dask is lost .*; start the cluster again"
#: A scheduler and its worker in a process of their own, until it is killed.
PROGRAM = """
import time
from distributed import LocalCluster
cluster = LocalCluster(
    n_workers=1, threads_per_worker=1, processes=False, protocol="tcp", host="127.0.0.1",
    dashboard_address=":0",
)
print(cluster.scheduler_address, flush=True)
time.sleep(600)
"""


@contextlib.contextmanager
def killable():
    """Yield a client, and the process of its scheduler."""
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        try:
            address = process.stdout.readline().strip()
            # A client that has lost its scheduler waits this long for another.
            with dask.config.set({"distributed.comm.timeouts.connect": "2s"}):
                client = distributed.Client(address, set_as_default=False, timeout="60s")
                try:
                    yield client, process
                finally:
                    client.close(timeout=1)
        finally:
            process.kill()


def collections():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 3))
    y = (X[:, 0] + rng.normal(size=600) > 0.5).astype(int)
    return da.from_array(X, chunks=(100, -1)), da.from_array(y, chunks=100)


def dies(process):
    process.kill()
    process.wait()


@pytest.mark.thorough
@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_fit_ends_whenever_the_scheduler_dies(number):
    X, y = collections()
    with killable() as (client, process):

        def kill(now, purpose):
            if now == number:
                dies(process)

        engine = OnDask(X, y, client=client)
        with pytest.raises(WorkersLostError, match=LOST):
            fit_on(engine, MODEL, progress=kill)
        # Nothing waits for it a second time either.
        with pytest.raises(WorkersLostError, match=LOST):
            fit_on(engine, MODEL)


@pytest.mark.thorough
def test_a_score_ends_when_the_scheduler_dies():
    X, y = collections()
    model = fit_on(OnDask(X, y), MODEL)
    with killable() as (client, process):
        engine = OnDask(X, y, client=client)
        assert score_on(engine, model) == score_on(OnDask(X, y), model)
        dies(process)
        with pytest.raises(WorkersLostError, match=LOST):
            score_on(engine, model)
