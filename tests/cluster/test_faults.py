# SPDX-License-Identifier: BSD-3-Clause
"""Workers come, go and die: the same bits, or a clear error."""

import asyncio
import contextlib
import os
import signal
import threading
import time

import numpy as np
import pytest

from pairlearn import AUCClassifier
from pairlearn.cluster import LabelMoments, OnDask, WorkersLostError, fit_on

MODEL = AUCClassifier(random_state=0)

dask = pytest.importorskip("dask", reason="needs the extra dask")
da = pytest.importorskip("dask.array", reason="needs the extra dask")
distributed = pytest.importorskip("distributed", reason="needs the extra dask")


def collections(n=3000, n_parts=12):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 5))
    y = (X[:, 0] + rng.normal(size=n) > 0.5).astype(int)
    size = n // n_parts
    return da.from_array(X, chunks=(size, -1)), da.from_array(y, chunks=size)


@contextlib.contextmanager
def processes(n_workers):
    """Yield a cluster that waits for killed workers to come back, on a busy machine too."""
    with (
        dask.config.set({"distributed.deploy.lost-worker-timeout": "10 minutes"}),
        distributed.LocalCluster(
            n_workers=n_workers, threads_per_worker=1, processes=True, dashboard_address=":0"
        ) as cluster,
    ):
        yield cluster


class Killer:
    """Kills a worker process before some of the passes, a moment after they have begun."""

    def __init__(self, client, passes, seed=0):
        self.client, self.passes, self.rng = client, set(passes), np.random.default_rng(seed)
        self.killed = 0

    def __call__(self, number, purpose):
        if number in self.passes:
            threading.Timer(0.02, self.kill).start()

    def kill(self):
        workers = self.client.run(os.getpid)
        if workers:
            os.kill(int(self.rng.choice(sorted(workers.values()))), signal.SIGKILL)
            self.killed += 1


def check_kills(n_workers, passes, n_fits=1):
    X, y = collections()
    expected = fit_on(OnDask(X, y), MODEL)
    killed = 0
    with processes(n_workers) as cluster, distributed.Client(cluster) as client:
        for seed in range(n_fits):
            killer = Killer(client, passes, seed)
            engine = OnDask(X, y, client=client, worker_timeout=300.0)
            found = fit_on(engine, MODEL, progress=killer)
            np.testing.assert_array_equal(found.coef_, expected.coef_)
            assert found.threshold_ == expected.threshold_
            assert found.cluster_report_ == expected.cluster_report_
            killed += killer.killed
            time.sleep(1.0)
    return killed


@pytest.mark.thorough
def test_the_same_bits_on_two_processes_of_which_two_are_killed():
    assert check_kills(2, passes=(1, 3)) == 2


@pytest.mark.slow
def test_the_same_bits_after_twenty_killed_workers():
    assert check_kills(4, passes=(1, 2, 4, 6), n_fits=5) == 20


@pytest.mark.thorough
def test_any_number_of_workers_gives_the_same_bits(client):
    X, y = collections(n=800)
    two = fit_on(OnDask(X, y, client=client), MODEL)
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0"
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as other,
    ):
        one = fit_on(OnDask(X, y, client=other), MODEL)
    np.testing.assert_array_equal(one.coef_, two.coef_)
    assert one.threshold_ == two.threshold_


def test_without_workers_a_fit_ends_with_an_error():
    X, y = collections(n=240)
    with (
        distributed.LocalCluster(n_workers=0, processes=False, dashboard_address=":0") as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
        pytest.raises(WorkersLostError, match=r"No worker has been there for 0\.6 seconds"),
    ):
        fit_on(OnDask(X, y, client=client, worker_timeout=0.6), MODEL)


def test_the_loss_of_all_workers_is_an_error_too():
    X, y = collections(n=240)
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0"
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):

        def stop(number, purpose):
            if number == 2:
                cluster.scale(0)
                while client.nthreads():
                    time.sleep(0.05)

        with pytest.raises(WorkersLostError, match="start workers and fit again"):
            fit_on(OnDask(X, y, client=client, worker_timeout=0.6), MODEL, progress=stop)


def test_an_asynchronous_client_is_refused(client, monkeypatch):
    monkeypatch.setattr(type(client), "asynchronous", True)
    with pytest.raises(ValueError, match="asynchronous client cannot wait"):
        OnDask(*collections(n=240), client=client)


def test_a_scheduler_that_does_not_answer_ends_a_fit(client, monkeypatch):
    """A call for the number of workers once waited for ever."""

    async def ncores(**_):
        await asyncio.sleep(60)

    monkeypatch.setattr(distributed.Future, "done", lambda self: False)
    monkeypatch.setattr(client.scheduler, "ncores", ncores)
    monkeypatch.setattr("pairlearn.cluster.dask._ANSWER", 0.2)
    X, y = collections(n=240)
    with pytest.raises(WorkersLostError, match="No worker has been there"):
        OnDask(X, y, client=client, worker_timeout=0.5).run(LabelMoments())


def _dies(block):
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.thorough
def test_a_partition_that_kills_its_workers_is_an_error():
    # A worker that exceeds its limit of memory is killed, too.
    X, y = collections(n=240, n_parts=1)
    fatal = X.map_blocks(_dies, meta=np.empty((0, 0)))
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 0}),
        processes(1) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
        pytest.raises(WorkersLostError, match=r"workers died of the same task .* smaller part"),
    ):
        fit_on(OnDask(fatal, y, client=client, worker_timeout=300.0), MODEL)
