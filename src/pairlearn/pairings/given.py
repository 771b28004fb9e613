# SPDX-License-Identifier: BSD-3-Clause
"""Train on given pairs: rows 2k and 2k + 1 form a pair, or a list names the pairs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pairlearn.pairings.plans import (
    PAIRINGS,
    Arrival,
    Labels,
    OfflineSource,
    OnlineSource,
    Pairing,
    Plan,
)
from pairlearn.pairings.sound import check_rows
from pairlearn.typing import Vector


@PAIRINGS.add()
@dataclass(frozen=True)
class GivenPairs(Pairing):
    """Each step takes one of the given pairs, the rows (2k, 2k + 1) for some k.

    Offline, k is drawn uniformly and independently at each step. On a stream the pairs come in
    order and nothing is remembered.

    Examples
    --------
    >>> import numpy as np
    >>> plan = GivenPairs().offline(10, np.random.default_rng(0)).draw(20)
    >>> bool((plan.right == plan.left + 1).all())
    True
    """

    def offline(self, n: int, rng: np.random.Generator, y: Labels | None = None) -> OfflineSource:
        """Return a source of given pairs."""
        return _Drawn(_n_pairs(n), rng)

    def online(self, rng: np.random.Generator) -> OnlineSource:
        """Return a source that takes the pairs as they come."""
        return _AsTheyCome()


@PAIRINGS.add()
@dataclass(frozen=True, eq=False)
class ListedPairs(Pairing):
    """Each step takes a pair drawn uniformly from a list of pairs of rows."""

    left: NDArray[np.int64]
    right: NDArray[np.int64]

    def __post_init__(self) -> None:
        if self.left.shape != self.right.shape or self.left.ndim != 1 or not len(self.left):
            raise ValueError(
                f"A list of pairs needs as many left as right rows, at least one; got shapes "
                f"{self.left.shape} and {self.right.shape}."
            )

    def offline(self, n: int, rng: np.random.Generator, y: Labels | None = None) -> OfflineSource:
        """Return a source of listed pairs."""
        for side in ("left", "right"):
            check_rows(f"ListedPairs: {side}", getattr(self, side), 0, n)
        return _Listed(self.left, self.right, rng)


def as_rows_of_pairs(pairs: Vector, y: ArrayLike) -> tuple[Vector, Vector]:
    """Return pairs (n, 2, d) as 2 n rows; the labels of a pair are equal if it is similar."""
    signs = np.asarray(y, dtype=np.float64)
    labels = np.column_stack([np.ones(len(signs)), signs]).ravel()
    return np.ascontiguousarray(pairs.reshape(-1, pairs.shape[2])), labels


def _n_pairs(n: int) -> int:
    if n % 2:
        raise ValueError(f"Given pairs need an even number of rows, got {n}.")
    return n // 2


class _Drawn:
    def __init__(self, n_pairs: int, rng: np.random.Generator) -> None:
        self._n_pairs, self._rng = n_pairs, rng

    def draw(self, n_steps: int) -> Plan:
        left = 2 * self._rng.integers(0, self._n_pairs, n_steps)
        return Plan(left, left + 1)


class _Listed:
    def __init__(
        self, left: NDArray[np.int64], right: NDArray[np.int64], rng: np.random.Generator
    ) -> None:
        self._left, self._right, self._rng = left, right, rng

    def draw(self, n_steps: int) -> Plan:
        chosen = self._rng.integers(0, len(self._left), n_steps)
        return Plan(self._left[chosen], self._right[chosen])


class _AsTheyCome(OnlineSource):
    def arrive(self, y: Vector) -> Arrival:
        left = 2 * np.arange(_n_pairs(len(y)))
        return Arrival(Plan(left, left + 1), np.empty(0, dtype=np.int64))

    @property
    def n_remembered(self) -> int:
        return 0
