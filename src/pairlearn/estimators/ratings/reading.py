# SPDX-License-Identifier: BSD-3-Clause
"""Read votes: names as codes, outcomes as shares of a win, a tie and a loss."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
#: How to write an outcome, for messages.
OUTCOMES = "1, a, model_a, win or true; 0.5, tie or draw; 0, b, model_b, loss or false"


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
) -> tuple[NDArray[Any], list[NDArray[np.int64]]]:
    """Return the sorted names in some columns, and each column as places among them.

    >>> names, (a, b) = name_codes({"a": ["x", "y"], "b": ["y", "z"]})
    >>> names.tolist(), a.tolist(), b.tolist()
    (['x', 'y', 'z'], [0, 1], [1, 2])
    """
    arrays = {name: _plain(name, values) for name, values in given.items()}
    for name, array in arrays.items():
        length = len(array) if length is None else length
        if len(array) != length:
            raise ValueError(
                f"{name} must hold one name for each of the {length} votes, got {len(array)}."
            )
    kinds = {array.dtype.kind == "O" for array in arrays.values()}
    if len(kinds) > 1:
        raise ValueError(
            f"{' and '.join(arrays)} must be all texts or all whole numbers, got both."
        )
    joined = (
        np.concatenate(list(arrays.values())) if len(arrays) > 1 else next(iter(arrays.values()))
    )
    names, codes = _texts_coded(joined) if kinds == {True} else _numbers_coded(joined)
    return names, np.split(codes, len(arrays))


def _plain(name: str, values: Any) -> NDArray[Any]:
    """Return names as an array of whole numbers, or as one of objects that are texts."""
    array = np.asarray(values)
    if array.ndim != 1:
        raise ValueError(f"{name} must hold one name for each vote, got shape {array.shape}.")
    if not len(array):
        return array.astype(object)
    if array.dtype.kind in "iu":
        return _whole(name, array)
    if array.dtype.kind in "UT":
        # A list of numbers and texts becomes texts; its own elements tell.
        mixed = isinstance(values, (list, tuple)) and not all(type(v) is str for v in values)
        array = np.array(values, dtype=object) if mixed else array.astype(object)
    if array.dtype.kind != "O":
        raise TypeError(
            f"{name} must hold texts or whole numbers, got {array.dtype}; convert them to texts "
            "(missing values make whole numbers floats: remove these votes)."
        )
    types = set(map(type, array.tolist()))
    if types <= {int}:
        return _whole(name, array)
    if not types <= {str, np.str_}:
        row = next(k for k, one in enumerate(array) if not isinstance(one, str))
        raise ValueError(
            f"{name}: row {row} is {array[row]!r}, where a text must stand; remove votes without "
            "both names, and use texts throughout."
        )
    return array


def _whole(name: str, array: NDArray[Any]) -> NDArray[Any]:
    """Return names that are whole numbers; refuse those that 64 bits do not hold."""
    low, high = int(array.min()), int(array.max())
    if low < -(1 << 63) or high >= 1 << 63:
        raise ValueError(
            f"{name} holds {high if high >= 1 << 63 else low}, too large a whole number for a "
            "name; write such names as texts."
        )
    return array.astype(np.int64)


def _texts_coded(array: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    listed = array.tolist()
    names = sorted(set(listed))
    if names and not names[0].strip():
        row = next(k for k, one in enumerate(listed) if not one.strip())
        raise ValueError(f"a name is empty (value {row}); remove votes without both names.")
    places = {name: place for place, name in enumerate(names)}
    codes = np.fromiter(map(places.__getitem__, listed), dtype=np.int64, count=len(listed))
    return np.array(names, dtype=np.str_), codes


def _numbers_coded(array: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    if not len(array):
        return array, array
    low, high = int(array.min()), int(array.max())
    if high - low > 4 * len(array) + 1024:
        names, codes = np.unique(array, return_inverse=True)
        return names, codes.astype(np.int64)
    shifted = array - low if low else array
    occurs = np.bincount(shifted) > 0
    if occurs.all():
        return np.arange(low, high + 1), shifted
    return np.flatnonzero(occurs) + low, (np.cumsum(occurs) - 1)[shifted]


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
        left = 2.0 - 2.0 * array.astype(np.float64)
        with np.errstate(invalid="ignore"):  # NaN and infinity are refused below
            places = left.astype(np.int64)
        # the usual case takes few passes over the votes
        if n and not (places.min() >= 0 and places.max() <= 2 and bool((places == left).all())):
            places[(places != left) | (places > 2)] = -1
    else:
        places = np.array(word_places(array.tolist()), dtype=np.int64).reshape(n)
    wrong = np.flatnonzero(places < 0)
    if len(wrong):
        raise ValueError(
            f"outcome {array.tolist()[wrong[0]]!r} (row {wrong[0]}) is unknown; write {OUTCOMES} "
            "for a win of the first player, a tie, or a win of the second."
        )
    if array.dtype.kind not in "biuf":
        words = {str(word) for word in set(array.tolist())}
        named = outcome_names(words & set(players))
        if named:
            raise ValueError(
                f"outcome {min(named)!r} is also the name of a player, so it may mean the first "
                "player or that one; write win, tie or loss, or 1, 0.5 or 0."
            )
    return places


def outcome_names(players: Iterable[Any]) -> list[Any]:
    """Return the players who are called like an outcome.

    >>> outcome_names(["ann", "Draw", 1])
    ['Draw']
    """
    return [name for name in players if str(name).strip().casefold() in _WORDS_ALONE]


def word_places(cells: Iterable[Any]) -> list[int]:
    """Return 0, 1 or 2 for each word for an outcome, and -1 for any other word."""
    known: dict[Any, int] = {}
    found = []
    for cell in cells:
        if cell not in known:
            known[cell] = _PLACES.get(str(cell).strip().casefold(), -1)
        found.append(known[cell])
    return found
