# SPDX-License-Identifier: BSD-3-Clause
"""``pairlearn warm-cache``: compile the kernels before the first run needs them."""

from __future__ import annotations

from collections.abc import Callable

import click

from pairlearn.cli.output import emit, json_option


def warm_readers() -> None:
    """Compile the text parsers for both types of features."""
    import io
    from typing import Literal

    from pairlearn.streams.readers.csv import CsvReader
    from pairlearn.streams.readers.schema import Schema
    from pairlearn.streams.readers.svmlight import SvmlightReader

    types: tuple[Literal["float64"], Literal["float32"]] = ("float64", "float32")
    for dtype in types:
        text = io.BytesIO(b"a,y\n1,0\n2,1\n")
        for _ in CsvReader(text, Schema(label="y", dtype=dtype)):
            pass
        for _ in SvmlightReader(io.BytesIO(b"1 1:2\n"), n_features=1, dtype=dtype):
            pass


def warm_learners() -> None:
    """Compile steps, moments and running AUC for dense and sparse examples of both types."""
    import numpy as np
    from scipy.sparse import csr_matrix

    from pairlearn.estimators.auc.classifier import AUCClassifier
    from pairlearn.estimators.shared.solvers import SGD
    from pairlearn.kernels.steps.short_rows import LANES, LONGEST, SHORTEST
    from pairlearn.solvers import ClassMoments
    from pairlearn.solvers.streams.order import OrderWatch
    from pairlearn.streams.online import OnlineLearner

    X, y = np.arange(8.0).reshape(4, 2), np.array([0.0, 1.0, 0.0, 1.0])
    # Short rows have machine code of their own for each number of registers.
    short = [np.tile(X, n // 2) for n in range(SHORTEST, LONGEST + 1, LANES)]
    for chunk in (X, X.astype(np.float32), csr_matrix(X), *short):
        model = AUCClassifier(solver=SGD(step_size=0.1))
        learner = OnlineLearner(model, classes=[0, 1], window=1000)
        for _ in range(2):
            learner.learn_many(chunk, y)
        learner.learn_many(chunk[:1], y[:1])
    # By class moments: the first solution comes after 8 examples, the choice of a memory after a
    # block of 128.
    OnlineLearner(classes=[0, 1]).learn_many(np.tile(X, (33, 1)), np.tile(y, 33))
    # Exact sums of many rows, and their ranges.
    for dtype in (np.float64, np.float32):
        many = np.tile(X, (600, 1)).astype(dtype)
        ClassMoments(2).add(many, np.tile(2.0 * y - 1.0, 600))
    # The check of the order of labels starts after some hundred labels.
    OrderWatch().note(np.tile(y, 100))


# name: what to run; each entry compiles the kernels of one part of the library
WARMERS: dict[str, Callable[[], None]] = {"readers": warm_readers, "learners": warm_learners}


@click.command("warm-cache")
@json_option
def command(as_json: bool) -> None:
    r"""Compile the kernels now, so that later runs start fast.

    Compiled code is kept next to the library, or in the folder named by NUMBA_CACHE_DIR. Useful
    after an upgrade and when building a container image.

    \b
    Examples:
      pairlearn warm-cache
      NUMBA_CACHE_DIR=/opt/cache pairlearn warm-cache
    """
    import time

    seconds: dict[str, float] = {}
    for name, warm in WARMERS.items():
        begin = time.perf_counter()
        warm()
        seconds[name] = round(time.perf_counter() - begin, 3)
    lines = [f"{name}: ready in {spent:.1f} s" for name, spent in seconds.items()]
    emit({"seconds": seconds}, "\n".join(lines), as_json=as_json)
