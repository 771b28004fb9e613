# SPDX-License-Identifier: BSD-3-Clause
"""``python -m pairlearn.cli.warm_cache``: compile the kernels now, so that later runs start fast.

Compiled code is kept next to the library, or in the folder named by NUMBA_CACHE_DIR.
"""

from __future__ import annotations

import time

import numpy as np
from scipy.sparse import csr_matrix


def warm_learners() -> None:
    """Compile steps, moments and running AUC for dense and sparse examples of both types."""
    from pairlearn.estimators import AUCClassifier
    from pairlearn.estimators.shared.solvers import SGD
    from pairlearn.streams.online import OnlineLearner

    X, y = np.arange(8.0).reshape(4, 2), np.array([0.0, 1.0, 0.0, 1.0])
    for chunk in (X, X.astype(np.float32), csr_matrix(X)):
        model = AUCClassifier(solver=SGD(step_size=0.1))
        OnlineLearner(model, classes=[0, 1], window=1000).learn_many(chunk, y)
    # By class moments the choice of a memory comes after a block of 128 examples.
    OnlineLearner(classes=[0, 1]).learn_many(np.tile(X, (33, 1)), np.tile(y, 33))
    rng = np.random.default_rng(0)
    for dtype in (np.float64, np.float32):
        many, labels = rng.normal(size=(600, 3)).astype(dtype), np.tile(y, 150)
        for options in ({}, {"solver": "sgd"}, {"features": "auto"}):
            AUCClassifier(random_state=0, **options).fit(many, labels)


if __name__ == "__main__":
    begin = time.perf_counter()
    warm_learners()
    print(f"ready in {time.perf_counter() - begin:.1f} s")
