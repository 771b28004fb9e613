# SPDX-License-Identifier: BSD-3-Clause
import numpy as np
import pytest

pa = pytest.importorskip("pyarrow")


@pytest.fixture(scope="session")
def examples():
    """Rows, labels and whole weights: columns of several sizes, one of them far from 0."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3_000, 3)) * [1.0, 40.0, 1e-3] + [0.0, 1000.0, 0.0]
    y = (X[:, 0] + rng.normal(size=3_000) > 0).astype(int)
    return X, y, rng.integers(1, 4, size=3_000).astype(float)


@pytest.fixture(scope="session")
def table(examples):
    X, y, weight = examples
    columns = {f"x{j}": X[:, j] for j in range(X.shape[1])}
    return pa.table({**columns, "y": y, "w": weight})
