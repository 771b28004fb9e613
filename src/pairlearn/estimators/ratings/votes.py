# SPDX-License-Identifier: BSD-3-Clause
"""Votes as counts: how often each player won, tied and lost against each other one.

A cell is a distinct combination of first player, second player, group and covariates. Everything
that the model needs is the numbers of wins, ties and losses of each cell, so a state is as large as
the number of distinct cells, not as the number of votes. Counts add: states of parts merge into the
state of the whole, and a part can be taken out again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pairlearn.estimators.ratings.reading import (
    check_outcomes,
    column_of,
    columns_of,
    name_codes,
    votes_in,
)
from pairlearn.typing import Vector
from pairlearn.validation import check_positive, check_weights

Codes = NDArray[np.int64]
#: Up to this many sums are made without sorting.
_MOST_BINS = 1 << 22
#: What rounding may leave of a count after a subtraction, relative to the count.
_RESIDUE = 1e-9


@dataclass(frozen=True, eq=False)
class Votes:
    """Counts of votes between players, which merge and subtract.

    Make one with `Votes.count`. With weights that are whole numbers and without `half_life`, sums
    are exact: neither the order of the votes nor their division into parts changes a bit.

    Parameters
    ----------
    players : ndarray
        The players, sorted.
    first, second : ndarray of int64
        The two players of each cell, as places in `players`.
    counts : ndarray of shape (n_cells, 3)
        Wins of the first player, ties, and wins of the second.
    n_votes : int
        Number of rows that were counted; those of weight 0 are not.
    ordered : bool
        Whether `first` is the player whom the votes name first.
    group : ndarray of int64, optional
        The group of each cell, as a place in `groups`.
    groups : ndarray, optional
        The groups, sorted.
    covariates : ndarray of shape (n_cells, n_covariates), optional
        Covariates of each cell, in favour of the first player.
    squares : ndarray of shape (n_cells, 3), optional
        Sums of squared discounts, if votes are discounted.
    half_life : float, optional
        The number of later votes after which a vote counts half.
    total : float, optional
        The sum of the weights, by which these votes make earlier ones older, if votes are
        discounted and weighted. None is one for each.

    Examples
    --------
    >>> from pairlearn.estimators import Votes
    >>> monday = Votes.count(["ann", "bob"], ["bob", "cid"])
    >>> tuesday = Votes.count(["ann", "ann"], ["bob", "cid"], [1, 0.5])
    >>> both = monday.merge(tuesday)
    >>> both.n_votes, both.counts.tolist()
    (4, [[2.0, 0.0, 0.0], [0.0, 1.0, 0.0], [1.0, 0.0, 0.0]])
    >>> both.without(tuesday).counts.tolist() == monday.counts.tolist()
    True
    """

    players: NDArray[Any]
    first: Codes
    second: Codes
    counts: Vector
    n_votes: int
    ordered: bool
    group: Codes | None = None
    groups: NDArray[Any] | None = None
    covariates: Vector | None = None
    squares: Vector | None = None
    half_life: float | None = None
    total: float | None = None

    @classmethod
    def count(
        cls,
        a: Any,
        b: Any = None,
        outcome: Any = None,
        *,
        sample_weight: ArrayLike | None = None,
        groups: Any = None,
        covariates: Any = None,
        half_life: float | None = None,
    ) -> Self:
        """Count votes.

        Parameters
        ----------
        a : array-like of shape (n,), or frame
            As in `PairwiseRatings.fit`.
        b, outcome : array-like of shape (n,), optional
            As in `PairwiseRatings.fit`.
        sample_weight, groups : array-like of shape (n,), optional
            As in `PairwiseRatings.fit`.
        covariates : array-like of shape (n,) or (n, m), optional
            As in `PairwiseRatings.fit`.
        half_life : float, optional
            After this many later votes a vote counts half. A row of weight k is k votes in a row.

        Returns
        -------
        Votes
            The counts.
        """
        columns = None
        if b is None:
            if outcome is not None:
                raise ValueError("outcome needs a and b; pass all three, or a frame alone.")
            columns = columns_of(a)
            a, b, outcome = votes_in(columns)
        sample_weight = column_of(columns, "sample_weight", sample_weight)
        groups = column_of(columns, "groups", groups)
        covariates = column_of(columns, "covariates", covariates)
        ordered = outcome is not None
        players, (first, second) = name_codes({"a": a, "b": b} if ordered else
                                              {"winners": a, "losers": b})  # fmt: skip
        n = len(first)
        same = np.flatnonzero(first == second)
        if len(same):
            twice = players.tolist()[first[same[0]]]
            raise ValueError(
                f"row {same[0]} is a vote between {twice!r} and the same player; "
                f"remove such rows ({len(same)} of {n})."
            )
        place = (
            check_outcomes(outcome, n, players.tolist()) if ordered else np.zeros(n, dtype=np.int64)
        )
        weight = None
        if sample_weight is not None:
            weight = check_weights(sample_weight, n, name="sample_weight")
        extra = None if covariates is None else _covariates(covariates, n)
        if not ordered:  # Nobody was named first: the player that sorts first stands first.
            swap = first > second
            first, second = np.minimum(first, second), np.maximum(first, second)
            place = np.where(swap, 2, 0)
            if extra is not None:
                extra[swap] *= -1.0
        group = labels = squares = total = None
        if groups is not None:
            labels, (group,) = name_codes({"groups": groups}, n)
        if weight is not None and not weight.all():
            # A row of weight 0 is no vote: it makes others no older, either.
            kept = np.flatnonzero(weight)
            first, second, place, weight = first[kept], second[kept], place[kept], weight[kept]
            group = None if group is None else group[kept]
            extra, n = None if extra is None else extra[kept], len(kept)
        if half_life is not None:
            half_life = check_positive("half_life", half_life)
            if weight is None:
                weight = np.exp2((np.arange(n) - (n - 1)) / half_life)
                squares = weight**2
            else:
                total = float(weight.sum())
                weight, squares = _discounted(weight, half_life)
        raw = cls(players, first, second, np.empty((0, 3)), n, ordered, group, labels, extra,
                  None, half_life, total)  # fmt: skip
        return raw._gathered(place, weight, squares)

    @property
    def n_covariates(self) -> int:
        """The number of covariates of a vote."""
        return 0 if self.covariates is None else self.covariates.shape[1]

    @property
    def _weight(self) -> float:
        return float(self.n_votes) if self.total is None else self.total

    def of_players(self) -> Vector:
        """Return the number of votes on each player, weighted as they count."""
        k, totals = len(self.players), self.counts.sum(axis=1)
        both = np.bincount(self.first, totals, k) + np.bincount(self.second, totals, k)
        return both.astype(np.float64)

    def merge(self, other: Votes) -> Self:
        """Return the counts of both; with `half_life` the votes of `other` are the later ones."""
        self._check_alike(other)
        old, total = 1.0, None
        if self.half_life is not None:
            old = float(np.exp2(-other._weight / self.half_life))
            if (self.total, other.total) != (None, None):
                total = self._weight + other._weight
        both = replace(self._joined(other, old, 1.0), total=total)
        return both._distinct(self.n_votes + other.n_votes)

    def without(self, other: Votes) -> Self:
        """Return the counts without those of `other`, which must be among them."""
        self._check_alike(other)
        if self.half_life is not None:
            raise ValueError(
                "votes cannot be taken out of counts with half_life, since their ages are "
                "forgotten; count the votes that remain."
            )
        both = self.merge(other)
        left = None
        if both.counts.shape == self.counts.shape and self.n_votes >= other.n_votes:
            left = 2.0 * self.counts - both.counts  # The cells of both stand in one order.
        if left is None or (left < -_RESIDUE * both.counts).any():
            raise ValueError(
                "the votes to take out are not among those that were counted; pass counts that "
                "were merged into these before."
            )
        left[left <= _RESIDUE * both.counts] = 0.0
        return replace(self, counts=left)._distinct(self.n_votes - other.n_votes)

    def _check_alike(self, other: Votes) -> None:
        for name, mine, theirs in (
            ("half_life", self.half_life, other.half_life),
            ("the number of covariates", self.n_covariates, other.n_covariates),
            ("groups", self.group is not None, other.group is not None),
        ):
            if mine != theirs:
                raise ValueError(
                    f"counts can be joined only if they agree in {name}, got {mine} and {theirs}; "
                    "count both in one way."
                )

    def _joined(self, other: Votes, mine: float, theirs: float) -> Self:
        """Return the cells of both, weighted; equal cells are not yet added."""
        players, (p, q) = _united(self.players, other.players, "players")
        covariates, extra = self.covariates, other.covariates
        squares = group = groups = None
        if self.squares is not None and other.squares is not None:
            squares = np.concatenate([mine**2 * self.squares, theirs**2 * other.squares])
        if self.group is not None and other.group is not None:
            assert self.groups is not None
            assert other.groups is not None
            groups, (g, h) = _united(self.groups, other.groups, "groups")
            group = np.concatenate([g[self.group], h[other.group]])
        if covariates is not None and extra is not None:
            covariates = np.concatenate([covariates, extra])
        return replace(
            self,
            players=players,
            first=np.concatenate([p[self.first], q[other.first]]),
            second=np.concatenate([p[self.second], q[other.second]]),
            counts=np.concatenate([mine * self.counts, theirs * other.counts]),
            ordered=self.ordered and other.ordered,
            group=group,
            groups=groups,
            covariates=covariates,
            squares=squares,
        )

    def _distinct(self, n_votes: int) -> Self:
        """Return the counts with each cell once, in order, and without what has no votes."""
        squares = None if self.squares is None else self.squares.ravel()
        each: dict[str, Any] = {
            name: None if (value := getattr(self, name)) is None else np.repeat(value, 3, axis=0)
            for name in ("first", "second", "group", "covariates")
        }
        place = np.tile(np.arange(3), len(self.first))
        rows = replace(self, n_votes=n_votes, **each)
        return rows._gathered(place, self.counts.ravel(), squares)

    def _gathered(self, place: Codes, weight: Vector | None, squares: Vector | None) -> Self:
        """Return the counts of rows: this object says their cells, `place` their outcomes."""
        n, n_groups, levels = len(self.players), 1, None
        key, size = self.first * n + self.second, n * n
        if self.group is not None:
            assert self.groups is not None
            n_groups = max(len(self.groups), 1)
            key, size = key * n_groups + self.group, size * n_groups
        if self.covariates is not None:
            levels, codes = _levels(self.covariates)
            key, size = key * len(levels) + codes, size * max(len(levels), 1)
        if size >= 1 << 60:
            raise ValueError(
                f"{n} players, {n_groups} groups and so many covariates are too many to count "
                "together; leave out the groups, or round the covariates."
            )
        kept, counts, squared = _tallied(key, size, place, weight, squares)
        extra = group = groups = None
        if levels is not None:
            kept, codes = np.divmod(kept, max(len(levels), 1))
            extra = levels[codes]
        if self.group is not None:
            assert self.groups is not None
            kept, group = np.divmod(kept, n_groups)
            groups, group = _used(self.groups, group)
        first, second = np.divmod(kept, max(n, 1))
        players, both = _used(self.players, np.concatenate([first, second]))
        return replace(
            self,
            players=players,
            first=both[: len(first)],
            second=both[len(first) :],
            counts=counts,
            group=group,
            groups=groups,
            covariates=extra,
            squares=squared,
        )


def _tallied(
    key: Codes, size: int, place: Codes, weight: Vector | None, squares: Vector | None
) -> tuple[Codes, Vector, Vector | None]:
    """Return the distinct keys in order, and their sums of weights for each place."""
    fine = key * 3 + place
    squared: Vector | None = None
    if 3 * size <= min(_MOST_BINS, max(1024, 8 * len(key))):
        counts = _sums(fine, weight, 3 * size).reshape(size, 3)
        kept: Codes = np.flatnonzero(counts.any(axis=1))
        if squares is not None:
            squared = _sums(fine, squares, 3 * size).reshape(size, 3)[kept]
        return kept, counts[kept], squared
    known, inverse = np.unique(fine, return_inverse=True)
    cells = known // 3
    new = np.ones(len(known), dtype=np.bool_)
    new[1:] = cells[1:] != cells[:-1]
    places = (np.cumsum(new) - 1, known % 3)
    counts = np.zeros((int(new.sum()), 3))
    counts[places] = _sums(inverse, weight, len(known))
    some = counts.any(axis=1)
    if squares is not None:
        squared = np.zeros_like(counts)
        squared[places] = _sums(inverse, squares, len(known))
        squared = squared[some]
    return cells[new][some], counts[some], squared


def _discounted(weight: Vector, half_life: float) -> tuple[Vector, Vector]:
    """Return the sums of the discounts of weighted rows, and of their squares.

    A row of weight k is k votes one after another: their discounts are a geometric sum, which is
    defined for any k, and does not change if a row is divided into two.

    >>> _discounted(np.array([2.0, 1.0]), 1.0)[0].tolist()
    [0.75, 1.0]
    """
    later = np.cumsum(weight[::-1])[::-1] - weight
    rate = np.log(2.0) / half_life

    def added(power: int) -> Vector:
        votes = np.expm1(-power * rate * weight) / np.expm1(-power * rate)
        return np.asarray(np.exp2(-power * later / half_life) * votes)

    return added(1), added(2)


def _sums(places: NDArray[Any], weight: Vector | None, size: int) -> Vector:
    return np.bincount(places, weight, size).astype(np.float64)


def _levels(table: Vector) -> tuple[Vector, Codes]:
    """Return the distinct rows of a table in order, and the place of each row among them."""
    order = np.lexsort(tuple(table.T[::-1]))
    table = table[order]
    new = np.ones(len(table), dtype=np.bool_)
    new[1:] = (table[1:] != table[:-1]).any(axis=1)
    codes = np.empty(len(table), dtype=np.int64)
    codes[order] = np.cumsum(new) - 1
    return table[new], codes


def _covariates(values: Any, n: int) -> Vector:
    table = np.array(values, dtype=np.float64)
    if table.ndim == 1:
        table = table[:, None]
    if table.ndim != 2 or len(table) != n or not table.shape[1]:
        raise ValueError(
            f"covariates must have one row for each of the {n} votes, got shape {table.shape}."
        )
    if not np.isfinite(table).all():
        raise ValueError("covariates contain NaN or infinity; remove or impute these votes.")
    return table + 0.0  # no -0.0, which would be a cell of its own


def _used(labels: NDArray[Any], codes: Codes) -> tuple[NDArray[Any], Codes]:
    """Return the labels that occur, and the codes among them."""
    occurs = np.bincount(codes, minlength=len(labels)) > 0
    if occurs.all():
        return labels, codes
    return labels[occurs], (np.cumsum(occurs) - 1)[codes]


def _united(
    mine: NDArray[Any], theirs: NDArray[Any], what: str
) -> tuple[NDArray[Any], tuple[Codes, Codes]]:
    """Return the labels of both, and the places of each among them."""
    if mine.dtype.kind != theirs.dtype.kind and len(mine) and len(theirs):
        raise ValueError(
            f"the {what} of one part are texts and those of the other numbers; use one type."
        )
    known = np.union1d(mine, theirs)
    return known, (np.searchsorted(known, mine), np.searchsorted(known, theirs))
