# SPDX-License-Identifier: BSD-3-Clause
"""Measure the cost of drawing an example, and a pair, as the number of examples grows."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pairlearn.validation import check_count


def draw_pairs(
    n: int, count: int, *, rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return `count` ordered pairs of distinct indices below n, uniform, in O(count).

    The second index is drawn from n - 1 values and moved up by one where it is not below the first.
    """
    check_count("n", n, minimum=2)
    left = rng.integers(n, size=count)
    right = rng.integers(n - 1, size=count)
    right += right >= left
    return left, right


def _one_example(n: int, count: int, seed: int) -> None:
    np.random.default_rng(seed).integers(n, size=count)


def _vectorised_pair(n: int, count: int, seed: int) -> None:
    draw_pairs(n, count, rng=np.random.default_rng(seed))


def _choices(rng: np.random.Generator | np.random.RandomState, n: int, count: int) -> None:
    for _ in range(count):
        rng.choice(n, 2, replace=False)


#: Ways to draw, by name: the function, and the number of timed draws for a given n.
SCHEMES: dict[str, tuple[Callable[[int, int, int], None], Callable[[int], int]]] = {
    "one example": (_one_example, lambda n: 200_000),
    "pair, two draws with a shift": (_vectorised_pair, lambda n: 200_000),
    "pair, Generator.choice": (
        lambda n, count, seed: _choices(np.random.default_rng(seed), n, count),
        lambda n: 500,
    ),
    # The legacy interface is what the paper measures.
    "pair, legacy choice": (
        lambda n, count, seed: _choices(np.random.RandomState(seed), n, count),
        lambda n: max(3, min(500, 2_000_000 // n)),
    ),
}


@dataclass(frozen=True)
class SamplingTime:
    """CPU seconds of one draw: the best repetition, which interruptions affect least."""

    scheme: str
    n: int
    seconds: float


def measure_sampling(
    sizes: Sequence[int] = (1_000, 10_000, 100_000, 1_000_000), *, repeats: int = 5, seed: int = 0
) -> list[SamplingTime]:
    """Measure every scheme at every size; schemes take turns, and the fastest repetition counts."""
    check_count("repeats", repeats)
    for n in sizes:
        check_count("sizes", n, minimum=2)
    best: dict[tuple[str, int], float] = {}
    for repeat in range(repeats):
        for n in sizes:
            for scheme, (draw, how_many) in SCHEMES.items():
                count = how_many(n)
                start = time.process_time()
                draw(n, count, seed + repeat)
                seconds = (time.process_time() - start) / count
                best[scheme, n] = min(seconds, best.get((scheme, n), np.inf))
    return [SamplingTime(scheme, n, best[scheme, n]) for scheme in SCHEMES for n in sizes]
