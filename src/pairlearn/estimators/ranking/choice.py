# SPDX-License-Identifier: BSD-3-Clause
"""The queries of a ranker: pairs within them, and queries that are held out."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from pairlearn.folds import Keys, deal, splits_of
from pairlearn.pairings import PAIRINGS, Pairing, PreviousExample, RandomPair
from pairlearn.pairings.queries import PreviousOfQuery, has_pairs
from pairlearn.solvers.rows import DenseRows, Rows
from pairlearn.typing import Mask, Places, Vector

#: With at least this many held-out examples, one part is held out; with fewer, several in turn.
_ENOUGH = 2_000
#: The most parts that are held out in turn.
_MOST_FOLDS = 5
#: Pairs are compared in parts of about this number of entries of dense rows.
_NUMBERS = 1 << 20


@dataclass(frozen=True)
class Queries:
    """The queries of stored examples, or of a stream.

    `of_example` is the number of each example's query; None for a stream, which gives queries with
    each chunk. If not `grouped`, all examples are one query.
    """

    of_example: Places | None = None
    grouped: bool = True

    def take(self, index: Places) -> Queries:
        """Return the queries of some of the examples."""
        assert self.of_example is not None
        return Queries(self.of_example[index], self.grouped)

    def pairing(self, given: str | Pairing) -> Pairing:
        """Return the pairing that a solver names: within queries, if there are any."""
        by_name = self.grouped and isinstance(given, str) and given == "previous"
        found = PreviousOfQuery() if by_name else PAIRINGS.make(given)
        if self.grouped:
            if not isinstance(found, PreviousOfQuery) or found.qid is not None:
                raise ValueError(
                    f"pairing={given!r} does not pair within the given queries; use "
                    'pairing="previous" or PreviousOfQuery(max_open=...), or leave out qid.'
                )
            return replace(found, qid=self.of_example)
        if not isinstance(found, PreviousExample | RandomPair):
            raise ValueError(
                f"pairing={given!r} cannot rank examples without queries; use "
                'pairing="previous", "shuffled" or "random", or pass qid with PreviousOfQuery().'
            )
        return found


def count_queries(query: Places, y: Vector) -> tuple[Mask, tuple[int, int, int]]:
    """Return which examples have a pair, and the numbers of useful, single and flat queries."""
    n_queries = int(query.max()) + 1
    size = np.bincount(query, minlength=n_queries)
    highest = np.full(n_queries, -np.inf)
    lowest = np.full(n_queries, np.inf)
    np.maximum.at(highest, query, y)
    np.minimum.at(lowest, query, y)
    mixed = highest > lowest
    n_single = int(np.count_nonzero(size == 1))
    n_flat = int(np.count_nonzero((size > 1) & ~mixed))
    if not mixed.any():
        raise ValueError(
            f"No query has two different grades ({n_single} of one document, {n_flat} of one "
            "grade); there is no pair to learn from. Check y and qid."
        )
    return np.asarray(mixed[query]), (int(np.count_nonzero(mixed)), n_single, n_flat)


def folds_of(
    query: Places, y: Vector, grouped: bool, fraction: float, keys: Keys
) -> list[tuple[Places, Places]]:
    """Return (train, held-out) examples: whole queries, or examples where there are none.

    Keys of the examples deal them, or whole queries by the examples of each. One part is held out,
    or several in turn if a part is small, in the order of the keys. If nothing can be held out,
    training examples are judged.
    """
    everything = np.arange(len(query))
    order, place = keys.permutation(everything), everything
    if grouped:
        place, keys = keys.of_groups(query)
    n = int(place.max()) + 1
    count = round(fraction * n)
    size = max(count, 1)
    n_parts = 1 if fraction * len(query) >= _ENOUGH else min(n // size, _MOST_FOLDS)
    fold = deal([np.arange(n)], n, keys, sizes=[size])[place]
    folds = [
        split
        for split in splits_of(fold, n_parts if count else 0, order)
        if all(has_pairs(query[part], y[part]) for part in split)
    ]
    return folds or [(order, order)]


def pair_scale(
    rows: Rows, pairing: Pairing, order: Places, rng: np.random.Generator, weight: Vector
) -> float:
    """Return the mean squared distance of the examples of a pair, from 2000 pairs.

    The pairing is about the rows in this order. A pair weighs the product of the weights of its
    examples, if there are any.
    """
    plan = pairing.offline(rows.shape[0], rng).draw(2000)
    # A few pairs of wide rows at a time: all of them may need more memory than the data.
    size = max(1, _NUMBERS // max(rows.shape[1], 1))
    total = n_distinct = 0.0
    for begin in range(0, len(plan.left), size):
        some = slice(begin, begin + size)
        sides = [order[np.asarray(side, dtype=np.int64)[some]] for side in (plan.left, plan.right)]
        left, right = (rows.take(side).matrix for side in sides)
        apart = left - right
        squares = apart.astype(np.float64) ** 2 if isinstance(rows, DenseRows) else apart.power(2)
        distinct = sides[0] != sides[1]
        if len(weight):
            own = weight[sides[0]] * weight[sides[1]]
            total += float(own @ np.asarray(squares.sum(axis=1)).reshape(-1))
            n_distinct += float(own[distinct].sum())
        else:
            total += float(squares.sum())
            n_distinct += float(np.count_nonzero(distinct))
    return total / n_distinct if total > 0 else 1.0
