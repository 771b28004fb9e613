# SPDX-License-Identifier: BSD-3-Clause
"""A scheduler that dies ends everything that waits for it, with one clear error."""

import contextlib
import subprocess
import sys

import numpy as np
import pytest

from pairlearn.distributed import DaskAUCClassifier, DaskPairwiseRanker, WorkersLostError

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
@pytest.mark.parametrize("number", [1, 2, 4])
def test_a_fit_ends_whenever_the_scheduler_dies(number):
    X, y = collections()
    with killable() as (client, process):

        def kill(now, purpose):
            if now == number:
                dies(process)

        model = DaskAUCClassifier(random_state=0, client=client, progress=kill)
        with pytest.raises(WorkersLostError, match=LOST):
            model.fit(X, y)
        # Nothing waits for it a second time either.
        with pytest.raises(WorkersLostError, match=LOST):
            model.fit(X, y)
        assert not hasattr(model, "model_")


@pytest.mark.thorough
def test_a_score_ends_when_the_scheduler_dies():
    X, y = collections()
    qid = da.from_array(np.arange(600) // 10, chunks=100)
    model = DaskAUCClassifier(random_state=0).fit(X, y)
    ranker = DaskPairwiseRanker().fit(X, y, qid)
    with killable() as (client, process):
        model.set_params(client=client)
        ranker.set_params(client=client)
        known = model.score(X, y)
        dies(process)
        for asked in (lambda: model.score(X, y), lambda: ranker.score(X, y, qid)):
            with pytest.raises(WorkersLostError, match=LOST):
                asked()
        # Predictions are lazy: they need the scheduler that computes them, and no other.
        with dask.config.set(scheduler="synchronous"):
            assert model.score(X.compute(), y.compute()) == known
            assert model.predict(X).compute().shape == (600,)
