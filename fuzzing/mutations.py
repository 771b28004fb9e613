# SPDX-License-Identifier: BSD-3-Clause
"""Damage: to bytes, to trees of plain values and to arrays."""

from __future__ import annotations

import copy
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["NUMBERS", "damage_array", "damage_bytes", "damage_tree"]

#: Numbers at which something ends.
NUMBERS = (0, 1, -1, 2, 3, 7, 255, 256, 1023, 2**15, 2**31 - 1, 2**31, 2**32, 2**53 + 1, 2**62,
           2**63 - 1, -(2**63), 10**30, 0.5, -0.5, 1e-320, 1e-300, 1e60, 1e155, -1e200,
           1.7976931348623157e308)  # fmt: skip
_TEXTS = ("", "a", "$array", "float64", "<U400000000", "é\u2028", "x" * 3000, "\x00", "nan",
          "inf", "0:", "../../etc", "part", "1", "-1", "null")  # fmt: skip
_BYTES = (b"\x00", b"\xff", b"\n", b"\r\n", b'"', b'""', b",", b"\t", b" ", b":", b"#", b"-", b"e",
          b"1e999", b"0x1", b"\xef\xbb\xbf", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\\ud800",
          b"[" * 40, b"9" * 30, b"\x7f\xff\xff\xff", b"\x80\x00\x00\x00", b"\xff" * 8)  # fmt: skip


def damage_bytes(rng: Random, data: bytes, tokens: tuple[bytes, ...] = _BYTES) -> bytes:
    """Return bytes with one to eight flaws; few are more probable than many."""
    found = bytearray(data)
    for _ in range(1 + int(8 * rng.random() ** 3)):
        at = rng.randrange(len(found) + 1)
        span = 1 + int(min(len(found), 64) * rng.random() ** 3)
        kind = rng.randrange(8)
        if kind == 0 and at < len(found):
            found[at] ^= 1 << rng.randrange(8)
        elif kind == 1 and at < len(found):
            found[at] = rng.randrange(256)
        elif kind == 2:
            found[at:at] = rng.choice(tokens)
        elif kind == 3:
            del found[at : at + span]
        elif kind == 4:
            found[at:at] = found[at : at + span]
        elif kind == 5:
            token = rng.choice(tokens)
            found[at : at + len(token)] = token
        elif kind == 6:
            other = rng.randrange(len(found) + 1)
            found[at : at + span] = found[other : other + span]
        elif rng.random() < 0.3:
            del found[at:]
    return bytes(found)


def _odd_value(rng: Random) -> Any:
    kind = rng.randrange(8)
    if kind < 3:
        return rng.choice(NUMBERS)
    if kind == 3:
        return rng.choice(_TEXTS)
    if kind == 4:
        return rng.choice([None, True, False])
    if kind == 5:
        return rng.choice([[], {}, [[]], [1, 2], {"$tuple": [1]}, {"$float": "nan"}, {"a": {}}])
    if kind == 6:
        return [rng.choice(NUMBERS)] * rng.choice([1, 2, 40])
    return rng.uniform(-3, 3)


def _places(tree: Any, found: list[tuple[Any, Any]]) -> None:
    """Collect every entry of a tree as what holds it and its key."""
    if isinstance(tree, dict):
        for key, value in tree.items():
            found.append((tree, key))
            _places(value, found)
    elif isinstance(tree, list):
        for key, value in enumerate(tree):
            found.append((tree, key))
            _places(value, found)


def damage_tree(rng: Random, tree: Any) -> Any:
    """Return a copy of plain values with some entries changed, gone, doubled or exchanged."""
    tree = copy.deepcopy(tree)
    for _ in range(1 + int(3 * rng.random() ** 2)):
        places: list[tuple[Any, Any]] = []
        _places(tree, places)
        if not places:
            return _odd_value(rng)
        holder, key = rng.choice(places)
        kind = rng.randrange(8)
        if kind < 4:
            holder[key] = _odd_value(rng)
        elif kind == 4:
            del holder[key]
        elif kind == 5:
            other, place = rng.choice(places)
            if place in other if isinstance(other, dict) else place < len(other):
                holder[key] = copy.deepcopy(other[place])
        elif kind == 6 and isinstance(holder, list):
            holder.insert(key, copy.deepcopy(holder[key]))
        elif isinstance(holder[key], (int, float)) and not isinstance(holder[key], bool):
            holder[key] = rng.choice([holder[key] - 1, holder[key] + 1, -holder[key]])
    return tree


def damage_array(rng: Random, array: NDArray[Any]) -> NDArray[Any]:
    """Return an array with other values, another length, shape or type."""
    array = array.copy()
    for _ in range(1 + int(3 * rng.random() ** 2)):
        kind = rng.randrange(8)
        if kind < 4 and array.size:
            values: tuple[Any, ...] = (*NUMBERS, np.nan, np.inf, -np.inf)
            with np.errstate(all="ignore"):
                value = np.array(rng.choice(values), dtype=np.float64).astype(array.dtype)
            at = rng.randrange(array.size)
            array.reshape(-1)[at : None if rng.random() < 0.1 else at + 1] = value
        elif kind == 4 and array.ndim:
            array = array[: rng.randrange(len(array) + 1)]
        elif kind == 5 and array.ndim:
            array = np.concatenate([array, array[: rng.randrange(len(array) + 1)]])
        elif kind == 6:
            kinds = ("<f8", "<f4", "<i8", "<i4", "|u1", "|b1")
            with np.errstate(all="ignore"):
                array = array.astype(rng.choice(kinds))
        elif kind == 7:
            array = rng.choice([array.reshape(-1), array[np.newaxis], np.flip(array)])
    return np.ascontiguousarray(array) if array.ndim else array
