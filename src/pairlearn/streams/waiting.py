# SPDX-License-Identifier: BSD-3-Clause
"""Examples that wait to be learned together."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from pairlearn.streams.dict_rows import DictRows, can_read_dicts
from pairlearn.typing import Vector

#: An example with the sign of its label.
Pair = tuple[dict[Any, float], float]


class Waiting:
    """Examples with the signs of their labels, in order of arrival.

    A usual example becomes a row at once (`DictRows`). Another waits as a dict, and so do all that
    come after it, until they are taken: rows are older than dicts. Many threads may add examples;
    one at a time may do anything else.

    Parameters
    ----------
    pairs : iterable, optional
        Examples that wait already.
    room : int, default=1
        How many examples are learned together.
    """

    def __init__(self, pairs: Iterable[Pair] = (), room: int = 1) -> None:
        self._pairs: list[Pair] = list(pairs)
        self._rows: DictRows | None = None
        #: How many more examples are learned together.
        self.room = room
        #: Adds a usual example, as `DictRows.put` does, and returns None for all others.
        self.put: Callable[[Any, Any], bool | None] = _leave

    def __len__(self) -> int:
        return len(self._pairs) + (0 if self._rows is None else len(self._rows))

    def add(self, x: dict[Any, float], sign: float) -> bool:
        """Add an example as a dict; return whether more may come before they are learned."""
        # One operation, so that neither a thread nor a Ctrl-C comes in between.
        self._pairs.append((x, sign))
        n, rows = len(self._pairs), self._rows
        return n < self.room and (rows is None or n + len(rows) < self.room)

    @property
    def expected(self) -> tuple[Any, ...] | None:
        """The names of usual examples, in order; None if all examples wait as dicts."""
        return None if self._rows is None else self._rows.names

    def expect(self, names: tuple[Any, ...] | None) -> None:
        """Change the names of usual examples."""
        self._make_dicts()
        self._rows, self.put = None, _leave
        if names is not None and can_read_dicts():
            self._rows = DictRows(names, others=self._pairs, size=_size_for(self.room))
            self.put = self._rows.put
            self.set_room(self.room)

    def set_room(self, room: int) -> None:
        """Change how many more examples are learned together."""
        self.room = room
        if self._rows is not None:
            if room > self._rows.size:
                self.expect(self._rows.names)
            else:
                self._rows.open(room)

    def take_rows(self) -> tuple[Vector, Vector] | None:
        """Take all examples as rows, with labels; None if one is unusual, or none is there."""
        rows = self._rows
        if rows is None or self._pairs or not len(rows):
            return None
        found = rows.take()
        self.set_room(self.room - len(found[1]))
        return found

    def take(self) -> list[Pair]:
        """Take as many examples as are learned together, as dicts."""
        self._make_dicts()
        taken = self._pairs[: max(self.room, 1)]
        del self._pairs[: len(taken)]  # Other threads may have added to its end.
        self.set_room(self.room - len(taken))
        return taken

    def put_back(self, pairs: list[Pair]) -> None:
        """Let examples wait again that were taken."""
        self._make_dicts()
        self._pairs[:0] = pairs
        self.set_room(self.room + len(pairs))

    def pairs(self) -> list[Pair]:
        """Return all examples as dicts; they wait on as they are."""
        # Dicts first: what comes in between is later than all of them, and all rows.
        pairs, rows = self._pairs.copy(), self._rows
        return pairs if rows is None else [*_dicts_of(rows.names, *rows.look()), *pairs]

    def _make_dicts(self) -> None:
        """Let all rows wait as dicts; `set_room` lets further examples become rows."""
        if self._rows is not None:
            self._pairs[:0] = _dicts_of(self._rows.names, *self._rows.take())

    def __reduce__(self) -> tuple[type[Waiting], tuple[list[Pair], int]]:
        return (Waiting, (self.pairs(), self.room))


def _dicts_of(names: tuple[Any, ...], X: Vector, y: Vector) -> list[Pair]:
    """Return rows as dicts with these names, and their labels."""
    return [
        (dict(zip(names, row, strict=True)), sign)
        for row, sign in zip(X.tolist(), y.tolist(), strict=True)
    ]


def _leave(x: Any, y: Any) -> bool | None:
    """Leave an example to the interpreter."""
    return None


def _size_for(room: int) -> int:
    """Return the size of a table that grows seldom."""
    return 1 << (max(room, 128) - 1).bit_length()
