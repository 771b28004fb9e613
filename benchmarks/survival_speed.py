# SPDX-License-Identifier: BSD-3-Clause
"""Large survival data: ``python -m benchmarks.survival_speed [--rows N] [--streamed M]``.

Printed are the CPU time of a stream, M examples (ten million by default) of 10 features in chunks
of 10,000 through `partial_fit`, with the memory of the process after a tenth and at the end; and
the CPU time of the concordance index and of its interval for N examples (a million by default).
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

CHUNK = 10_000
N_FEATURES = 10


def chunk(rng: np.random.Generator, n: int) -> tuple[Any, Any]:
    """Return rows, and events and times."""
    X = rng.normal(size=(n, N_FEATURES))
    risk = X[:, 0] - 0.5 * X[:, 1]
    died, left = rng.exponential(np.exp(-risk)), rng.exponential(1.5, size=n)
    return X, np.column_stack((died <= left, np.minimum(died, left)))


def streamed(rows: int) -> Iterator[tuple[Any, Any]]:
    """Yield chunks that are made when they are asked for."""
    rng = np.random.default_rng(1)
    for _ in range(-(-rows // CHUNK)):
        yield chunk(rng, CHUNK)


def peak() -> float:
    """Return the most memory of the process so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the figures."""
    from pairlearn import ConcordanceIndex, SurvivalRanker

    name = "python -m benchmarks.survival_speed"
    parser = argparse.ArgumentParser(prog=name, description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--streamed", type=int, default=10_000_000)
    given = parser.parse_args(arguments)
    ranker = SurvivalRanker("logistic", solver="sgd", random_state=0)
    ranker.partial_fit(*chunk(np.random.default_rng(3), 100))  # compiles
    spent, seen, tenth = 0.0, 0, 0.0
    for X, y in streamed(given.streamed):
        begin = time.process_time()
        ranker.partial_fit(X, y)
        spent, seen = spent + time.process_time() - begin, seen + len(X)
        tenth = peak() if seen <= given.streamed // 10 else tenth
    worth = ranker.score(*chunk(np.random.default_rng(2), 20_000))
    print(
        f"stream of {seen:,} rows: {spent:.2f} CPU s, memory {tenth:.0f} MB after a tenth and "
        f"{peak():.0f} MB at the end, C {worth:.4f}",
        flush=True,
    )
    rows = given.rows
    rng = np.random.default_rng(0)
    risk = rng.normal(size=rows)
    died, left = rng.exponential(np.exp(-risk)), rng.exponential(1.5, size=rows)
    y = np.empty(rows, dtype=[("event", bool), ("time", float)])
    y["event"], y["time"] = died <= left, np.minimum(died, left)
    metrics = {"Harrell": ConcordanceIndex(), "Uno": ConcordanceIndex(ipcw=True, tau=2.0)}
    for name, metric in metrics.items():
        metric(y[:1000], risk[:1000])
        for what in (metric, metric.interval):
            begin = time.process_time()
            what(y, risk)
            label = "interval" if what == metric.interval else "index"
            print(f"{name}'s {label} of {rows:,} rows: {time.process_time() - begin:.2f} CPU s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
