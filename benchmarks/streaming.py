# SPDX-License-Identifier: BSD-3-Clause
"""A stream: chunks of 1,000 rows and single examples, through estimator, learner and solver."""

from __future__ import annotations

import numpy as np

from benchmarks import samples
from benchmarks.c_loop import hinge_steps
from benchmarks.contestants import rival, solver
from benchmarks.native import STEP_SIZE, kernel_call
from benchmarks.report import Effort, Row
from benchmarks.timing import best_of

D = 22
CHUNK = 1_000


def run(effort: Effort) -> list[Row]:
    """Compare `partial_fit` with scikit-learn's, the default stream with descent, single examples.

    Single examples through the bare solver stand beside a bare kernel call, those through the
    default learner beside a budget in microseconds.
    """
    return [
        _partial_fit(effort),
        _by_default(effort),
        _learn_one(effort),
        _learn_one_by_default(effort),
    ]


def _partial_fit(effort: Effort) -> Row:
    from pairlearn import SGD, AUCClassifier

    n_chunks = 20
    X, y = samples.dense(n_chunks * CHUNK, D, positives=samples.DENSE[D])
    chunks = [(X[k : k + CHUNK], y[k : k + CHUNK]) for k in range(0, len(y), CHUNK)]

    def feed(model: object) -> None:
        for X_chunk, y_chunk in chunks:
            model.partial_fit(X_chunk, y_chunk, classes=[-1.0, 1.0])  # type: ignore[attr-defined]

    best = best_of(
        {
            "ours": lambda: feed(
                AUCClassifier(solver=SGD(step_size=0.1, radius=10.0), random_state=0)
            ),
            "rival": lambda: feed(rival(n_epochs=1)),
        },
        seconds=effort.seconds,
    )
    return Row(
        f"partial_fit of {CHUNK} rows d={D} / SGDClassifier.partial_fit",
        1e6 * best["ours"] / n_chunks,
        1e6 * best["rival"] / n_chunks,
        "us",
        3,
        6,
    )


def _by_default(effort: Effort) -> Row:
    from pairlearn import AUCClassifier

    n_chunks = effort.pick(20, 60)
    X, y = samples.dense(n_chunks * CHUNK, D, positives=samples.DENSE[D])

    def feed(solver: str) -> None:
        model = AUCClassifier(solver=solver, random_state=0)
        for k in range(0, len(y), CHUNK):
            model.partial_fit(X[k : k + CHUNK], y[k : k + CHUNK], classes=[-1.0, 1.0])

    best = best_of(
        {"moments": lambda: feed("auto"), "descent": lambda: feed("sgd")}, seconds=effort.seconds
    )
    return Row(
        f"partial_fit of {CHUNK} rows d={D} by default / by descent, a row",
        1e6 * best["moments"] / len(y),
        1e6 * best["descent"] / len(y),
        "us",
        2.5,
        1.5,
        at_most=True,
    )


def _learn_one_by_default(effort: Effort) -> Row:
    from pairlearn import AUCClassifier, OnlineLearner

    n = effort.pick(5_000, 40_000)
    X, y = samples.dense(n, D, positives=0.5)
    labels = y.tolist()

    def stream() -> None:
        learner = OnlineLearner(AUCClassifier(), classes=[-1.0, 1.0])
        for x, label in zip(X, labels, strict=True):
            learner.learn_one(x, label)

    best = best_of({"ours": stream}, seconds=effort.seconds)
    return Row(
        f"OnlineLearner().learn_one d={D} / 10 us",
        1e6 * best["ours"] / n,
        10.0,
        "us",
        1,
        0.5,
        at_most=True,
    )


def _learn_one(effort: Effort) -> Row:
    from pairlearn import Hinge, LinearScore, Problem

    n = 2_000
    X, _ = samples.dense(n, D, positives=0.5)
    # Labels alternate: every example makes a pair, as every bare call does.
    y = np.where(np.arange(n) % 2 == 0, 1.0, -1.0)
    labels = y.tolist()
    problem = Problem(LinearScore(), Hinge())
    ours = solver(step_size=STEP_SIZE, radius=10.0)
    one_step = kernel_call(hinge_steps(X[:2], y[:2], np.array([0, 1]), STEP_SIZE))

    def stream() -> None:
        learner = ours.start(problem, D, rng=0)
        for x, label in zip(X, labels, strict=True):
            learner.learn_one(x, label)

    def bare() -> None:
        for _ in range(n):
            one_step()

    best = best_of({"ours": stream, "bare": bare}, seconds=effort.seconds)
    return Row(
        f"learn_one d={D} / bare kernel call of one step",
        1e6 * best["ours"] / n,
        1e6 * best["bare"] / n,
        "us",
        4,
        2,
        at_most=True,
    )
