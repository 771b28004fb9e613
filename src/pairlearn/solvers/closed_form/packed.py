# SPDX-License-Identifier: BSD-3-Clause
"""Exact sums as named arrays, which travel and are stored, and the digest of such a state."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairlearn.solvers.closed_form.exact_sums import ExactSums
from pairlearn.solvers.closed_form.grid import Grid
from pairlearn.solvers.closed_form.wide import Wide

#: Covariances of more features than this are refused, since they would not fit in memory.
MOST_FEATURES = 10_000


def packed_sums(sums: Sequence[ExactSums]) -> dict[str, NDArray[Any]]:
    """Return the sums of several classes, all on one grid, as arrays.

    Equal sums have equal arrays, however they came about.
    """
    totals = np.array([one.total for one in sums], dtype=object)
    return {
        **sums[0].grid.state(),
        "totals": Wide.of(totals).packed(),
        "sums": _stacked([one.sums for one in sums]),
        "products": _stacked([one.products for one in sums]),
    }


def _stacked(found: Sequence[Wide]) -> NDArray[np.uint8]:
    parts = [one.packed() for one in found]
    width = max(part.shape[-1] for part in parts)
    return np.stack([_widened(part, width) for part in parts])


def _widened(part: NDArray[np.uint8], width: int) -> NDArray[np.uint8]:
    """Return numbers with so many bytes each: the sign goes on."""
    if part.shape[-1] == width:
        return part
    made = np.empty((*part.shape[:-1], width), dtype=np.uint8)
    made[..., : part.shape[-1]] = part
    made[..., part.shape[-1] :] = np.where(part[..., -1:] & 0x80, 0xFF, 0)
    return made


def unpacked_sums(
    state: Mapping[str, Any], n_classes: int, *, checked: bool = True
) -> list[ExactSums]:
    """Return the sums of classes that a state holds, `checked` unless their origin is known."""
    d = len(np.atleast_1d(np.asarray(state["exponents"])))
    if d > MOST_FEATURES:
        raise ValueError(f"the saved moments have {d} features, more than {MOST_FEATURES}.")
    grid = Grid.from_state(state, d)
    shapes = {"totals": (n_classes,), "sums": (n_classes, d)}
    shapes["products"] = (n_classes, d * (d + 1) // 2)
    found = {}
    for name, shape in shapes.items():
        array = np.asarray(state[name])
        if array.dtype != np.uint8 or array.shape[:-1] != shape or not 1 <= array.shape[-1] <= 2048:
            raise ValueError(
                f"the saved {name} are {array.dtype} of shape {array.shape}, they must be whole "
                f"numbers in bytes, of shape {shape}."
            )
        found[name] = Wide.unpacked(array)
    made = []
    for kind, total in enumerate(found["totals"].numbers()):
        one = ExactSums.restored(grid, int(total), found["sums"][kind], found["products"][kind])
        if checked and not one.is_possible():
            raise ValueError("the saved moments have a negative count or variance.")
        made.append(one)
    return made


def digest_of(state: Mapping[str, NDArray[Any]]) -> str:
    """Return a digest of named arrays."""
    taken = hashlib.sha256()
    for name in sorted(state):
        array = np.asarray(state[name])
        if array.dtype == object:
            # Labels of mixed types: an array of objects has no bytes of its own.
            array = np.array([f"{type(label).__name__} {label!r}" for label in array.ravel()])
        taken.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        taken.update(np.ascontiguousarray(array).tobytes())
    return taken.hexdigest()
