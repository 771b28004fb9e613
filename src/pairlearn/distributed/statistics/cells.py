# SPDX-License-Identifier: BSD-3-Clause
"""What the cells of a histogram hold: in few bytes to travel, and as a table to merge.

Pages of a new array are cleared before they are written for the first time. On a worker of Dask,
whose allocator returns every large array to the system, this takes longer than merging. So tables
stand in room that is used again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairlearn.distributed.statistics.base import State, in_order
from pairlearn.distributed.statistics.chunk import room_for, same_width
from pairlearn.solvers.closed_form.grid import FEW_NUMBERS
from pairlearn.typing import Places, Vector

#: The columns of a table. Behind them stand the sums of the rows of a cell, if they are asked for.
FACTS = ("weight", "mean", "squares", "low", "high")
_WEIGHT, _MEAN, _SQUARES, _LOW, _HIGH = range(len(FACTS))
#: What a cell has beside its weight and its mean, and tells nothing new if its scores are equal.
_OF_SPREAD = ("squares", "low", "high")


@dataclass(frozen=True, eq=False)
class Room:
    """Room for the cells of one table, which are at most so many."""

    cells: Places
    facts: Vector

    @classmethod
    def of(cls, n: int, width: int, numbers: Vector | None = None) -> Room:
        """Return room for n cells with so many facts each, in numbers that are there or new."""
        numbers = np.empty(n * (1 + width)) if numbers is None else numbers
        return cls(numbers[:n].view(np.intp), numbers[n:].reshape(n, width))


@dataclass(frozen=True, eq=False)
class Cells:
    """The cells that are not empty, in increasing order, and what they hold."""

    cells: Places
    #: A row for each cell, see `FACTS`.
    facts: Vector
    n_examples: NDArray[np.int64]
    room: Room | None = None

    @classmethod
    def unpacked(cls, state: State, room: Room | None = None) -> Cells:
        """Return what was packed, in a room if there is one."""
        m, sums = len(state["cells"]), state.get("rows")
        room = Room.of(m, _width(state)) if room is None else room
        cells, facts = room.cells[:m], room.facts[:m]
        cells[:], facts[:, _WEIGHT] = state["cells"], state["weight"]
        mean = state["mean"]
        facts[:, _MEAN], facts[:, _SQUARES], facts[:, _LOW], facts[:, _HIGH] = mean, 0.0, mean, mean
        spread = np.flatnonzero(np.unpackbits(state["spread"], count=m))
        for name in _OF_SPREAD:
            facts[spread, FACTS.index(name)] = state[name]
        if sums is not None:
            facts[:, len(FACTS) :] = sums
        return cls(cells, facts, state["n_examples"], room)

    def packed(self) -> State:
        """Return a state in few bytes, since states travel between machines."""
        facts = self.facts
        spread = facts[:, _LOW] < facts[:, _HIGH]
        wide = np.flatnonzero(spread)
        state = {
            "cells": short(self.cells),
            "weight": short(facts[:, _WEIGHT]),
            "mean": facts[:, _MEAN].copy(),
            **{name: facts[wide, FACTS.index(name)] for name in _OF_SPREAD},
            "n_examples": self.n_examples,
            "spread": np.packbits(spread),
        }
        if facts.shape[1] > len(FACTS):
            state["rows"] = facts[:, len(FACTS) :].copy()
        return state

    @classmethod
    def of(
        cls, scores: Vector, cell: Places, weight: Vector | None, n: int, sums: Vector | None
    ) -> Cells:
        """Return what cells hold from the scores, cells and weights of examples.

        `n` is the number of cells, half of them for each class. Without weights all are 1. `sums`
        are those of the rows of each cell, if they are asked for.
        """
        d = 0 if sums is None else sums.shape[1]
        if len(scores) > FEW_NUMBERS:
            from pairlearn.kernels.steps.binned import GATHERED, gather_cells, hold_cells

            with room_for(n * GATHERED) as room:
                gathered = room.reshape(n, GATHERED)
                gather_cells(scores, cell, np.ones(1) if weight is None else weight, gathered)
                m = int(np.count_nonzero(gathered[:, 0]))
                made, sizes = Room.of(m, len(FACTS) + d), np.zeros(2, dtype=np.int64)
                hold_cells(gathered, made.cells, made.facts, sizes)
            cells, facts = made.cells, made.facts
        else:
            # NumPy sorts short numbers by their digits.
            order = np.argsort(cell.astype(np.uint16) if n <= 1 << 16 else cell, kind="stable")
            cell, scores = cell[order], scores[order]
            own = np.ones(len(scores)) if weight is None else weight[order]
            starts = np.flatnonzero(np.diff(cell, prepend=-1))
            cells, each = cell[starts], np.diff(starts, append=len(cell))
            total = np.add.reduceat(own, starts)
            # About the first score of a bin: sums of squares of large scores would cancel.
            excess = scores - np.repeat(scores[starts], each)
            offset = np.add.reduceat(own * excess, starts) / total
            excess -= np.repeat(offset, each)
            facts = np.empty((len(cells), len(FACTS) + d))
            facts[:, _WEIGHT], facts[:, _MEAN] = total, scores[starts] + offset
            facts[:, _SQUARES] = np.add.reduceat(own * excess**2, starts)
            facts[:, _LOW] = np.minimum.reduceat(scores, starts)
            facts[:, _HIGH] = np.maximum.reduceat(scores, starts)
            sizes = np.bincount(cells // (n // 2), each, minlength=2).astype(np.int64)
        if sums is not None:
            facts[:, len(FACTS) :] = sums[cells]
        return cls(cells, facts, sizes)

    def placed(self, cells: Places) -> Vector:
        """Return the facts of these cells, of which the table may lack some."""
        table = np.zeros((len(cells), self.facts.shape[1]))
        table[:, _LOW], table[:, _HIGH] = np.inf, -np.inf
        table[np.searchsorted(cells, self.cells)] = self.facts
        return table

    def merged(self, other: Cells, room: Room | None) -> Cells:
        """Return what the cells of both hold, in a room if there are many."""
        n_examples = self.n_examples + other.n_examples
        if room is None:
            return Cells(*self._merged(other), n_examples)
        from pairlearn.kernels.steps.binned import merge_cells

        tables = self.cells, self.facts, other.cells, other.facts
        m = merge_cells(*tables, room.cells, room.facts)
        return Cells(room.cells[:m], room.facts[:m], n_examples, room)

    def _merged(self, other: Cells) -> tuple[Places, Vector]:
        """Return the cells of both and their facts, without machine code."""
        cells = np.union1d(self.cells, other.cells)
        a, b = self.placed(cells), other.placed(cells)
        merged = np.empty(a.shape)
        own, theirs = a[:, _WEIGHT], b[:, _WEIGHT]
        merged[:, _WEIGHT] = total = own + theirs
        # An empty bin has no mean of its own.
        start = np.where(own > 0, a[:, _MEAN], b[:, _MEAN])
        gap = np.where((own > 0) & (theirs > 0), b[:, _MEAN] - a[:, _MEAN], 0.0)
        merged[:, _MEAN] = start + theirs / total * gap
        squares = a[:, _SQUARES] + b[:, _SQUARES]
        merged[:, _SQUARES] = squares + own * theirs / total * gap**2
        merged[:, _LOW] = np.minimum(a[:, _LOW], b[:, _LOW])
        merged[:, _HIGH] = np.maximum(a[:, _HIGH], b[:, _HIGH])
        merged[:, len(FACTS) :] = a[:, len(FACTS) :] + b[:, len(FACTS) :]
        return cells, merged


class Merger:
    """Merges states of at most n cells, in room that is used again."""

    def __init__(self, n: int) -> None:
        self._n, self._free = n, list[Room]()
        self._lent = contextlib.ExitStack()

    def merge_all(self, states: Iterable[State]) -> State:
        """Return the state of all, as if each merge packed and unpacked."""
        with self._lent:
            found = in_order(self._merge, map(self._unpacked, states), None)
            return {} if found is None else found.packed()

    def _unpacked(self, state: State) -> Cells | None:
        return Cells.unpacked(state, self._room(_width(state))) if state else None

    def _merge(self, a: Cells | None, b: Cells | None) -> Cells | None:
        if a is None or b is None:
            return b if a is None else a
        width = a.facts.shape[1]
        same_width(width, b.facts.shape[1])
        # Up to so many numbers machine code is not worth its loading.
        many = (len(a.cells) + len(b.cells)) * width > FEW_NUMBERS
        merged = a.merged(b, self._room(width) if many else None)
        self._free += [one.room for one in (a, b) if one.room is not None]
        return merged

    def _room(self, width: int) -> Room:
        if self._free:
            return self._free.pop()
        numbers = self._lent.enter_context(room_for(self._n * (1 + width)))
        return Room.of(self._n, width, numbers)


def _width(state: State) -> int:
    return len(FACTS) + (state["rows"].shape[1] if "rows" in state else 0)


def short(values: NDArray[Any]) -> NDArray[Any]:
    """Return whole numbers in as few bytes as the largest of them needs, others as they are.

    >>> short(np.array([3.0, 200.0])).dtype, short(np.array([0.5])).dtype
    (dtype('uint8'), dtype('float64'))
    """
    largest = values.max(initial=0)
    if largest < 1 << 32:
        found = values.astype(np.min_scalar_type(int(largest)))
        if (found == values).all():
            return found
    return values.copy()
