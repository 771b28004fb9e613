# SPDX-License-Identifier: BSD-3-Clause
"""Check that a kernel can run a plan: kernels do not check that a row exists.

The pairings of this library name existing rows by construction. All other plans are checked before
they reach a kernel, in linear time.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pairlearn.pairings.plans import EMPTY, ZERO_POSITIVE, OfflineSource, Pairing, Plan, SlotPlan
from pairlearn.typing import Vector

_INTEGERS = (np.dtype(np.int32), np.dtype(np.int64))
_PACKAGE = __name__.partition(".")[0]


def is_own(pairing: Pairing) -> bool:
    """Return whether a pairing belongs to this library; a user's subclass does not.

    The type of the pairing decides, not that of its source: a user may ask one of our sources for
    more rows than there are.
    """
    return type(pairing).__module__.partition(".")[0] == _PACKAGE


def sound_source(
    pairing: Pairing, n: int, rng: np.random.Generator, y: Vector | None = None
) -> OfflineSource:
    """Return the offline source of a pairing; its plans are safe for kernels on n rows."""
    source = pairing.offline(n, rng, y)
    return source if is_own(pairing) else _Checked(type(pairing).__name__, source, n)


class _Checked:
    """A source that checks its plans."""

    def __init__(self, name: str, source: OfflineSource, n: int) -> None:
        self._name, self._source, self._n = name, source, n

    def draw(self, n_steps: int) -> Plan | SlotPlan:
        plan = self._source.draw(n_steps)
        check_plan(self._name, plan, self._n, n_steps)
        return plan


def check_plan(name: str, plan: Any, n: int, count: int | None = None) -> None:
    """Refuse a plan that a kernel cannot run on n rows, or that does not have `count` steps."""
    if not isinstance(plan, Plan | SlotPlan):
        raise ValueError(f"{name} gives {plan!r}; return a Plan or a SlotPlan.")
    check_rows(f"{name}: left", plan.left, 0, n)
    if count is not None and len(plan) != count:
        raise ValueError(
            f"{name} draws {len(plan)} steps instead of {count}; a step without a partner may name "
            "its own row twice."
        )
    if isinstance(plan, SlotPlan):
        _check_slots(name, plan, n)
        return
    check_rows(f"{name}: right", plan.right, 0, n)
    if len(plan.right) != len(plan.left):
        raise ValueError(
            f"{name}: {len(plan.left)} left and {len(plan.right)} right rows; a step needs both."
        )


def check_keep(name: str, keep: Any, n: int) -> None:
    """Refuse rows to remember that do not exist."""
    check_rows(f"{name}: keep", keep, 0, n)


def check_rows(what: str, rows: Any, low: int, stop: int) -> None:
    """Refuse anything but a vector of int32 or int64 from `low` to below `stop`."""
    if not isinstance(rows, np.ndarray) or rows.ndim != 1 or rows.dtype not in _INTEGERS:
        found = f"{getattr(rows, 'dtype', type(rows).__name__)} of shape {np.shape(rows)}"
        raise ValueError(f"{what} is {found}; it must be a vector of int32 or int64.")
    if len(rows) and (rows.min() < low or rows.max() >= stop):
        at = int(np.argmax((rows < low) | (rows >= stop)))
        raise ValueError(
            f"{what} holds {rows[at]} at place {at}; it must lie between {low} and {stop - 1}."
        )


def _check_slots(name: str, plan: SlotPlan, n: int) -> None:
    """Refuse a plan of slots with wrong types, indices, lengths, ranges or scales."""
    size, n_steps = len(plan.start), len(plan)
    check_rows(f"{name}: start", plan.start, ZERO_POSITIVE, n)
    check_rows(f"{name}: first", plan.first, 0, size + 1)
    check_rows(f"{name}: stop", plan.stop, 0, size + 1)
    check_rows(f"{name}: edit_slots", plan.edit_slots, 0, size)
    check_rows(f"{name}: edit_rows", plan.edit_rows, 0, n)
    edges = plan.edit_offsets
    check_rows(f"{name}: edit_offsets", edges, 0, len(plan.edit_slots) + 1)
    lengths = (len(plan.first), len(plan.stop), len(plan.scale), len(edges) - 1)
    if set(lengths) != {n_steps}:
        raise ValueError(
            f"{name}: first, stop, scale and edit_offsets[1:] are of the lengths {lengths} for "
            f"{n_steps} steps."
        )
    ends = (int(edges[0]), int(edges[-1]), len(plan.edit_rows))
    if ends != (0, len(plan.edit_slots), len(plan.edit_slots)) or (np.diff(edges) < 0).any():
        raise ValueError(f"{name}: edit_offsets must grow from 0 to the number of edits.")
    if (plan.first > plan.stop).any():
        raise ValueError(f"{name}: a range of slots ends before it begins.")
    _check_occupied(name, plan)
    scale = plan.scale
    if (
        getattr(scale, "dtype", None) != np.float64
        or not (np.isfinite(scale) & (scale >= 0.0)).all()
    ):
        raise ValueError(f"{name}: scale must hold finite float64 numbers of at least 0.")


def _check_occupied(name: str, plan: SlotPlan) -> None:
    """Refuse a step that meets an empty slot."""
    # The first step that may meet each slot: an edit takes effect after its own step.
    ready = np.where(plan.start == EMPTY, len(plan), 0)
    if not ready.any():
        return
    step = np.repeat(np.arange(1, len(plan) + 1), np.diff(plan.edit_offsets))
    np.minimum.at(ready, plan.edit_slots, step)
    meets = np.flatnonzero(plan.stop > plan.first)
    ranges = np.column_stack([plan.first[meets], plan.stop[meets]]).ravel()
    latest = np.maximum.reduceat(np.append(ready, 0), ranges)[::2] if len(meets) else meets
    if (latest > meets).any():
        t = int(meets[np.argmax(latest > meets)])
        raise ValueError(
            f"{name}: step {t} meets the slots {plan.first[t]} to {plan.stop[t] - 1}, but one of "
            "them is still empty; let a range hold occupied slots only."
        )
