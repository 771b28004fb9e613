# SPDX-License-Identifier: BSD-3-Clause
"""Plans, which a pairing gives to a solver: pairs, or a buffer of slots and its changes."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from pairlearn.register import Part, Register
from pairlearn.typing import Vector

Indices = NDArray[np.int32] | NDArray[np.int64]
Labels = Vector

#: The index type that kernels are compiled for first.
_SHORT = np.dtype(np.int32)
#: Contents of a slot other than the row of an example: nothing, or a zero row with a label.
EMPTY, ZERO_NEGATIVE, ZERO_POSITIVE = -1, -2, -3


@dataclass(frozen=True)
class Plan:
    """The pairs of consecutive steps: step t takes (left[t], right[t])."""

    left: Indices
    right: Indices
    #: Whether surely no example meets itself.
    distinct: bool = False

    #: There are no lists of partners, unlike in `SlotPlan`.
    offsets: ClassVar[None] = None

    def __len__(self) -> int:
        return len(self.left)

    @property
    def n_repeats(self) -> int:
        """Number of steps at which an example meets itself, which changes nothing."""
        return 0 if self.distinct else int(np.count_nonzero(self.left == self.right))

    def steps(self, done: int, count: int, n: int) -> tuple[Indices, Indices]:
        """Return the pairs of `count` steps among n examples, in int32 if n allows.

        Each index type costs seconds of compilation for every kernel that receives it.
        """
        left, right = self.left, self.right
        if count < len(left):
            left, right = left[done : done + count], right[done : done + count]
        if n > 2**31 or left.dtype == right.dtype == _SHORT:
            return left, right
        return left.astype(np.int32, copy=False), right.astype(np.int32, copy=False)


@dataclass(frozen=True)
class SlotPlan:
    """The steps of a buffer: at each step, one example meets the examples in a range of slots.

    Step t meets (left[t], q) for the rows q in the slots first[t], ..., stop[t] - 1 and moves
    against scale[t] times the sum of their gradients. After it, for the edits e from
    edit_offsets[t] to edit_offsets[t + 1], slot edit_slots[e] takes row edit_rows[e].

    With a loss of opposite pairs and two labels, the range must include all occupied slots of the
    other label, so that a solver may sort the slots by label.

    A buffer changes little from step to step, so this is much shorter than the list of all pairs,
    which `right` and `offsets` give.
    """

    left: Indices
    start: NDArray[np.int64]
    first: NDArray[np.int64]
    stop: NDArray[np.int64]
    edit_offsets: NDArray[np.int64]
    edit_slots: NDArray[np.int64]
    edit_rows: NDArray[np.int64]
    scale: Vector

    def __len__(self) -> int:
        return len(self.left)

    def part(self, begin: int, end: int) -> tuple[NDArray[Any], ...]:
        """Return the steps from `begin` to before `end` in the kernels' layout, without `scale`."""
        now = slice(begin, end)
        edits = (self.edit_offsets[begin : end + 1], self.edit_slots, self.edit_rows)
        return (self.left[now], self.first[now], self.stop[now], *edits)

    #: A buffer may hold the example of the step; such steps are not counted.
    n_repeats: ClassVar[int] = 0

    @cached_property
    def offsets(self) -> NDArray[np.int64]:
        """Step t meets right[offsets[t]:offsets[t + 1]]."""
        return np.concatenate([[0], np.cumsum(self.stop - self.first)])

    @cached_property
    def right(self) -> NDArray[np.int64]:
        """The rows met by all steps, one step after the other."""
        slots, met = self.start.copy(), []
        for t in range(len(self)):
            met.append(slots[self.first[t] : self.stop[t]].copy())
            edits = slice(self.edit_offsets[t], self.edit_offsets[t + 1])
            for slot, row in zip(self.edit_slots[edits], self.edit_rows[edits], strict=True):
                slots[slot] = row
        return np.concatenate(met) if met else np.empty(0, dtype=np.int64)


@dataclass(frozen=True)
class Arrival:
    """The answer of an online pairing to a chunk of m examples that follows a buffer of b.

    Indices below b are rows of the buffer, the others rows b, ..., b + m - 1 of the chunk. `keep`
    lists the rows that form the next buffer.
    """

    plan: Plan | SlotPlan
    keep: NDArray[np.int64]


class OfflineSource(Protocol):
    """Draws pairs from stored examples."""

    def draw(self, n_steps: int) -> Plan | SlotPlan:
        """Return the next `n_steps` steps."""


class OnlineSource:
    """Pairs arriving examples with remembered ones; the base class for your own.

    The attributes must hold everything that the next arrival depends on. A source with attributes
    other than plain values and arrays must define `state` and `restore`.
    """

    def arrive(self, y: Vector) -> Arrival:
        """Return the steps of arriving examples with labels `y`, and the examples to remember."""
        raise TypeError(f"{type(self).__name__} must define arrive(y).")

    def state(self) -> dict[str, Any]:
        """Return a copy of everything that the next arrival depends on."""
        return copy.deepcopy(vars(self))

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go back to a state returned by `state`, of this or another source of the same pairing."""
        if state.keys() != vars(self).keys():
            raise ValueError(
                f"a state with {sorted(state)} is not one of {type(self).__name__}, which has "
                f"{sorted(vars(self))}; use the pairing that it was made with."
            )
        vars(self).update(copy.deepcopy(dict(state)))


@dataclass(frozen=True)
class Pairing(Part):
    """Base class of pairings."""

    #: Whether a step meets at most one example.
    one_pair_a_step: ClassVar[bool] = True

    @property
    def reach(self) -> int | None:
        """The number s with which pairs of step t hold no example older than that of step t - s.

        None says that an example can stay for ever.
        """
        return None

    @property
    def has_online_form(self) -> bool:
        """Whether the pairing can serve a stream, that is, defines `online`."""
        return type(self).online is not Pairing.online

    def offline(self, n: int, rng: np.random.Generator, y: Labels | None = None) -> OfflineSource:
        """Return a source of pairs of `n` stored examples with labels `y`."""
        raise TypeError(f"{type(self).__name__} has no offline form.")

    def online(self, rng: np.random.Generator) -> OnlineSource:
        """Return a source of pairs of arriving examples."""
        raise ValueError(
            f"{type(self).__name__} needs all examples at once; for a stream use PreviousExample()."
        )


PAIRINGS: Register[Pairing] = Register("pairing", Pairing)


def draw_uniform(
    n: int, count: int, rng: np.random.Generator, *, after: Indices | None = None
) -> Indices:
    """Return `count` independent uniform indices below n, appended to those in `after`."""
    from pairlearn.kernels.plan import draw_indices

    dtype: Any = np.int32 if n <= 2**31 else np.int64
    known = 0 if after is None else len(after)
    out: Indices = np.empty(known + count, dtype=dtype)
    if after is not None:
        out[:known] = after
    draw_indices(rng.integers(0, 2**64, dtype=np.uint64), n, out[known:])
    return out


def known_labels(pairing: Pairing, y: Vector | None) -> Vector:
    """Return the labels; refuse None for a pairing that needs labels."""
    if y is None:
        raise ValueError(f"{type(pairing).__name__} pairs by labels; pass y to offline(n, rng, y).")
    return y
