# SPDX-License-Identifier: BSD-3-Clause
"""Ratings of many votes: ``python -m benchmarks.ratings [--votes N] [--streamed M]``.

Printed are the CPU times of a fit of N votes (300,000 by default) between 120 players given as
numbers and as words, with scores and their intervals; of the counts alone; and of one pass over M
votes (ten million by default) in chunks of 100,000, which are made when they are asked for, with
the memory of the process after a tenth of them and at the end.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

N_PLAYERS = 120
CHUNK = 100_000


def votes(rng: np.random.Generator, n: int) -> tuple[Any, Any, Any]:
    """Return the players of each vote, and whether the first one won."""
    strength = np.random.default_rng(0).normal(size=N_PLAYERS)
    a = rng.integers(0, N_PLAYERS, n)
    b = (a + rng.integers(1, N_PLAYERS, n)) % N_PLAYERS
    chance = 1.0 / (1.0 + np.exp(strength[b] - strength[a]))
    return a, b, (rng.random(n) < chance).astype(float)


def least(run: Callable[[], object], rounds: int = 7) -> float:
    """Return the least CPU time in milliseconds; the first run does not count."""
    run()
    spent = []
    for _ in range(rounds):
        begin = time.process_time()
        run()
        spent.append(time.process_time() - begin)
    return 1000.0 * min(spent)


def peak() -> float:
    """Return the most memory of the process so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the figures."""
    from pairlearn import PairwiseRatings
    from pairlearn.estimators import Votes

    parser = argparse.ArgumentParser(prog="python -m benchmarks.ratings", description=__doc__)
    parser.add_argument("--votes", type=int, default=300_000)
    parser.add_argument("--streamed", type=int, default=10_000_000)
    given = parser.parse_args(arguments)
    a, b, outcome = votes(np.random.default_rng(1), given.votes)
    names = np.array([f"model {k}" for k in range(N_PLAYERS)])
    words = names[a], names[b]
    runs = {
        "counts alone": lambda: Votes.count(a, b, outcome),
        "scores": lambda: PairwiseRatings().fit(a, b, outcome).scores_,
        "scores and intervals": lambda: PairwiseRatings().fit(a, b, outcome).intervals(),
        "scores and intervals, players as words": lambda: (
            PairwiseRatings().fit(*words, outcome).intervals()
        ),
    }
    for what, run in runs.items():
        print(f"{what} of {given.votes:,} votes: {least(run):.1f} CPU ms", flush=True)
    rng, total, spent, seen, tenth = np.random.default_rng(2), None, 0.0, 0, 0.0
    while seen < given.streamed:
        part = votes(rng, CHUNK)
        begin = time.process_time()
        counted = Votes.count(*part)
        total = counted if total is None else total.merge(counted)
        spent, seen = spent + time.process_time() - begin, seen + CHUNK
        tenth = peak() if seen <= given.streamed // 10 else tenth
    print(
        f"one pass over {seen:,} votes: {spent:.2f} CPU s, memory {tenth:.0f} MB after a tenth and "
        f"{peak():.0f} MB at the end"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
