# SPDX-License-Identifier: BSD-3-Clause
"""One cluster of threads for all tests of this folder that need no process of their own."""

import numpy as np
import pytest


@pytest.fixture(scope="session")
def client():
    distributed = pytest.importorskip("distributed", reason="needs the extra dask")
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0"
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        yield client


@pytest.fixture(scope="session")
def examples():
    """Rows, labels and whole weights: columns of several sizes, one of them far from 0."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3_000, 3)) * [1.0, 40.0, 1e-3] + [0.0, 1000.0, 0.0]
    y = (X[:, 0] + rng.normal(size=3_000) > 0).astype(int)
    return X, y, rng.integers(1, 4, size=3_000).astype(float)


@pytest.fixture(scope="session")
def rows(examples):
    """The examples as a table of Arrow."""
    pa = pytest.importorskip("pyarrow")
    X, y, weight = examples
    columns = {f"x{j}": X[:, j] for j in range(X.shape[1])}
    return pa.table({**columns, "y": y, "w": weight})
