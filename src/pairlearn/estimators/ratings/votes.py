# SPDX-License-Identifier: BSD-3-Clause
"""Votes as counts: how often each player won, tied and lost against each other one.

A cell is a distinct combination of first player, second player, group and covariates. Everything
that the model needs is the numbers of wins, ties and losses of each cell, so a state is as large as
the number of distinct cells, not as the number of votes. Counts add: states of parts merge into the
state of the whole, and a part can be taken out again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from numbers import Integral
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pairlearn.typing import Vector
from pairlearn.validation import check_positive, check_weights

Codes = NDArray[np.int64]
#: What rounding may leave of a count after a subtraction, relative to the count.
_RESIDUE = 1e-9
#: Words for the outcome of a vote. Rows of the table are: first won, tie, second won.
_WORDS = (
    ("1", "1.0", "a", "model_a", "win", "true"),
    ("0.5", ".5", "tie", "draw", "tie (bothbad)"),
    ("0", "0.0", "b", "model_b", "loss", "false"),
)
_PLACES = {word: place for place, words in enumerate(_WORDS) for word in words}
#: The same words for labels that are compared exactly, as private ones are, with their places.
PUBLIC_OUTCOMES = {
    form: place
    for place, words in enumerate(_WORDS)
    for word in words
    if word not in ("1.0", ".5", "0.0")  # a number equals its text there
    for form in dict.fromkeys((word, word.capitalize(), word.title(), word.upper()))
}
#: Those of them that may also be the name of a player.
_WORDS_ALONE = frozenset(word for word in _PLACES if word[0] not in "01.")
#: How NumPy and pandas write a missing name as a text.
_MISSING = frozenset(("nan", "NaN", "<NA>", "NaT", "None"))
#: How to write an outcome, for messages.
OUTCOMES = "1, a, model_a, win or true; 0.5, tie or draw; 0, b, model_b, loss or false"


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
        discounted.

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
        a, b, outcome, sample_weight, groups, covariates : array-like
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
            weight = np.ones(n) if weight is None else weight
            total = float(weight.sum())
            weight, squares = _discounted(weight, half_life)

        def of_outcomes(values: Vector) -> Vector:
            table = np.zeros((n, 3))
            table[np.arange(n), place] = values
            return table

        counts = of_outcomes(np.ones(n) if weight is None else weight)
        rows = cls(players, first, second, counts, n, ordered, group, labels, extra,
                   None if squares is None else of_outcomes(squares), half_life, total)  # fmt: skip
        return rows._distinct(n)

    @property
    def n_covariates(self) -> int:
        """The number of covariates of a vote."""
        return 0 if self.covariates is None else self.covariates.shape[1]

    def of_players(self) -> Vector:
        """Return the number of votes on each player, weighted as they count."""
        k, totals = len(self.players), self.counts.sum(axis=1)
        both = np.bincount(self.first, totals, k) + np.bincount(self.second, totals, k)
        return both.astype(np.float64)

    def merge(self, other: Votes) -> Self:
        """Return the counts of both; with `half_life` the votes of `other` are the later ones."""
        for name, own, theirs in (
            ("half_life", self.half_life, other.half_life),
            ("the number of covariates", self.n_covariates, other.n_covariates),
            ("groups", self.group is not None, other.group is not None),
        ):
            if own != theirs:
                raise ValueError(
                    f"counts can be joined only if they agree in {name}, got {own} and {theirs}; "
                    "count both in one way."
                )
        old, total = 1.0, None
        if self.half_life is not None and self.total is not None and other.total is not None:
            old, total = float(np.exp2(-other.total / self.half_life)), self.total + other.total
        players, (p, q) = _united(self.players, other.players, "players")
        groups = group = None
        if self.group is not None and other.group is not None:
            groups, (g, h) = _united(self.groups, other.groups, "groups")
            group = np.concatenate([g[self.group], h[other.group]])

        def joined(mine: Vector | None, theirs: Vector | None, factor: float = 1.0) -> Any:
            if mine is None or theirs is None:
                return None
            return np.concatenate([factor * mine, theirs])

        return replace(
            self,
            players=players,
            first=np.concatenate([p[self.first], q[other.first]]),
            second=np.concatenate([p[self.second], q[other.second]]),
            counts=joined(self.counts, other.counts, old),
            ordered=self.ordered and other.ordered,
            group=group,
            groups=groups,
            covariates=joined(self.covariates, other.covariates),
            squares=joined(self.squares, other.squares, old**2),
            total=total,
        )._distinct(self.n_votes + other.n_votes)

    def without(self, other: Votes) -> Self:
        """Return the counts without those of `other`, which must be among them."""
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

    def _distinct(self, n_votes: int) -> Self:
        """Return the counts with each cell once, in order, and without what has no votes."""
        keys = [self.first, self.second]
        keys += [] if self.group is None else [self.group]
        keys += [] if self.covariates is None else list(self.covariates.T)
        order = np.lexsort(keys[::-1])
        new = np.any([np.diff(key[order], prepend=np.nan) != 0 for key in keys], axis=0)
        begins = np.flatnonzero(new)

        def tallied(values: Vector) -> Vector:
            return np.add.reduceat(values[order], begins) if len(begins) else values

        counts = tallied(self.counts)
        some = counts.any(axis=1)
        rows = order[begins][some]
        first, second = self.first[rows], self.second[rows]
        players, both = _used(self.players, np.concatenate([first, second]))
        group = groups = None
        if self.group is not None and self.groups is not None:
            groups, group = _used(self.groups, self.group[rows])
        return replace(
            self,
            players=players,
            first=both[: len(first)],
            second=both[len(first) :],
            counts=counts[some],
            n_votes=n_votes,
            group=group,
            groups=groups,
            covariates=None if self.covariates is None else self.covariates[rows],
            squares=None if self.squares is None else tallied(self.squares)[some],
        )


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


def _united(mine: Any, theirs: Any, what: str) -> tuple[NDArray[Any], tuple[Codes, Codes]]:
    """Return the labels of both, and the places of each among them."""
    if mine.dtype.kind != theirs.dtype.kind and len(mine) and len(theirs):
        raise ValueError(
            f"the {what} of one part are texts and those of the other numbers; use one type."
        )
    known = np.union1d(mine, theirs)
    return known, (np.searchsorted(known, mine), np.searchsorted(known, theirs))


def columns_of(frame: Any) -> Mapping[str, Any]:
    """Return the columns of a frame, a mapping or a list of tuples by name.

    >>> columns_of([("x", "y"), ("y", "z")])
    {'winner': ['x', 'y'], 'loser': ['y', 'z']}
    """
    if isinstance(frame, Mapping):
        return frame
    if isinstance(frame, list) and frame and all(isinstance(one, tuple) for one in frame):
        names = {2: ("winner", "loser"), 3: ("a", "b", "outcome")}.get(len(frame[0]))
        other = next((k for k, one in enumerate(frame) if len(one) != len(frame[0])), None)
        if names is None or other is not None:
            raise ValueError(
                "a list of votes must hold tuples (winner, loser), or tuples (a, b, outcome); "
                f"vote {other or 0} is {frame[other or 0]!r}."
            )
        return dict(zip(names, map(list, zip(*frame, strict=True)), strict=True))
    names = getattr(frame, "column_names", None)  # Arrow
    if names is None:
        names = getattr(frame, "columns", None)
    if names is None or isinstance(frame, np.ndarray):
        raise TypeError(
            "votes must be winners and losers, or a, b and outcome, or a frame with such columns, "
            f"or a list of tuples; got one {type(frame).__name__}."
        )
    return {str(name): frame[name] for name in names}


def votes_in(columns: Mapping[str, Any]) -> tuple[Any, Any, Any]:
    """Return a, b and outcome of a frame; outcome is None if it names winners and losers."""
    for names in (("a", "b", "outcome"), ("winner", "loser")):
        if all(name in columns for name in names):
            found = [columns[name] for name in names]
            return found[0], found[1], found[2] if len(found) > 2 else None
    raise ValueError(
        "the frame must have the columns winner and loser, or a, b and outcome; its columns are "
        f"{', '.join(map(str, columns))}; rename them, or pass the columns themselves."
    )


def column_of(columns: Mapping[str, Any] | None, name: str, given: Any) -> Any:
    """Return an argument that may be the name of a column, or a list of names."""
    many = isinstance(given, (list, tuple)) and given and all(isinstance(g, str) for g in given)
    if not isinstance(given, str) and not (many and name == "covariates"):
        return given
    wanted = [given] if isinstance(given, str) else list(given)
    if columns is None:
        raise ValueError(
            f"{name}={given!r} names a column, but the votes are no frame; pass the values."
        )
    for one in wanted:
        if one not in columns:
            raise ValueError(
                f"{name}: the frame has no column {one!r}; its columns are "
                f"{', '.join(map(str, columns))}."
            )
    if name != "covariates":
        return columns[wanted[0]]
    return np.column_stack([np.asarray(columns[one], dtype=np.float64) for one in wanted])


def name_codes(
    given: Mapping[str, Any], length: int | None = None
) -> tuple[NDArray[Any], list[Codes]]:
    """Return the sorted names in some columns, and each column as places among them.

    >>> names, (a, b) = name_codes({"a": ["x", "y"], "b": ["y", "z"]})
    >>> names.tolist(), a.tolist(), b.tolist()
    (['x', 'y', 'z'], [0, 1], [1, 2])
    """
    columns = {name: _names(name, values) for name, values in given.items()}
    for name, column in columns.items():
        length = len(column) if length is None else length
        if len(column) != length:
            raise ValueError(
                f"{name} must hold one name for each of the {length} votes, got {len(column)}."
            )
    kinds = {type(column[0]) for column in columns.values() if column}
    if len(kinds) > 1:
        raise ValueError(
            f"{' and '.join(columns)} must be all texts or all whole numbers, got both."
        )
    names = sorted({name for column in columns.values() for name in column})
    places = {name: place for place, name in enumerate(names)}
    codes = [
        np.fromiter(map(places.__getitem__, column), dtype=np.int64, count=len(column))
        for column in columns.values()
    ]
    return np.array(names, dtype=np.int64 if kinds == {int} else np.str_), codes


def _names(what: str, values: Any) -> list[Any]:
    """Return names as a list of texts or of whole numbers; refuse missing ones."""
    array = np.asarray(values)
    if array.ndim != 1:
        raise ValueError(f"{what} must hold one name for each vote, got shape {array.shape}.")
    if array.dtype.kind in "UT" and isinstance(values, list | tuple):
        array = np.array(values, dtype=object)  # numbers and missing values became texts
    if array.dtype.kind not in "iuOUT" and len(array):
        raise TypeError(
            f"{what} must hold texts or whole numbers, got {array.dtype}; convert them to texts "
            "(missing values make whole numbers floats: remove these votes)."
        )
    names = array.tolist()
    kind = int if names and _is_whole(names[0]) else str
    for name in set(names):
        if not (_is_whole(name) if kind is int else isinstance(name, str)):
            row = next(k for k, one in enumerate(names) if one is name or one == name)
            stand = "a whole number" if kind is int and not isinstance(name, str) else "a text"
            raise ValueError(
                f"{what}: row {row} is {name!r}, where {stand} must stand; remove votes without "
                "both names, and use texts throughout, or whole numbers."
            )
        if kind is str and (not name.strip() or name in _MISSING):
            raise ValueError(
                f"a name is empty or missing ({what}: row {names.index(name)} is {name!r}); remove "
                "votes without both names."
            )
        if kind is int and not -(1 << 63) <= name < 1 << 63:
            raise ValueError(
                f"{what} holds {name}, too large a whole number for a name; write such names as "
                "texts."
            )
    return list(map(kind, names))


def _is_whole(name: Any) -> bool:
    return isinstance(name, Integral) and not isinstance(name, bool)


def check_outcomes(outcome: Any, n: int, players: Iterable[Any] = ()) -> NDArray[np.int64]:
    """Return for each vote 0 for a win of the first player, 1 for a tie, 2 for a loss.

    A word that is also the name of a player is refused: it may stand for the winner.

    >>> check_outcomes([1, 0, 0.5], 3).tolist()
    [0, 2, 1]
    """
    array = np.asarray(outcome)
    if array.shape != (n,):
        raise ValueError(
            f"outcome must hold one value for each of the {n} votes, got shape {array.shape}."
        )
    if array.dtype.kind in "biuf":
        values = array.astype(np.float64)
        places = np.select([values == 1.0, values == 0.5, values == 0.0], [0, 1, 2], -1)
    else:
        places = np.array(word_places(array.tolist()), dtype=np.int64).reshape(n)
        named = outcome_names({str(word) for word in set(array.tolist())} & set(players))
        if named and (places >= 0).all():
            raise ValueError(
                f"outcome {min(named)!r} is also the name of a player, so it may mean the first "
                "player or that one; write win, tie or loss, or 1, 0.5 or 0."
            )
    wrong = np.flatnonzero(places < 0)
    if len(wrong):
        raise ValueError(
            f"outcome {array.tolist()[wrong[0]]!r} (row {wrong[0]}) is unknown; write {OUTCOMES} "
            "for a win of the first player, a tie, or a win of the second."
        )
    return places.astype(np.int64)


def outcome_names(players: Iterable[Any]) -> list[Any]:
    """Return the players who are called like an outcome.

    >>> outcome_names(["ann", "Draw", 1])
    ['Draw']
    """
    return [name for name in players if str(name).strip().casefold() in _WORDS_ALONE]


def word_places(cells: Iterable[Any]) -> list[int]:
    """Return 0, 1 or 2 for each word for an outcome, and -1 for any other word."""
    place = cache(lambda cell: _PLACES.get(str(cell).strip().casefold(), -1))
    return [place(cell) for cell in cells]
