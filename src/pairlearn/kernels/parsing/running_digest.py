# SPDX-License-Identifier: BSD-3-Clause
"""A digest of bytes at the speed of memory, to notice other data, not to resist an attacker.

The inner loop is that of XXH3 (Collet, 2019): of every 64 bytes each of eight lanes takes the
product of the halves of one word, after a key was mixed in that depends on the place, and the word
beside it as it is; after a block the lanes are scrambled. All but the products are bijections, and
a word also goes to a lane unmultiplied, so that one changed word always changes the lanes.
"""

from __future__ import annotations

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from pairlearn.kernels._native import jit

#: Bytes that are taken at once, in stripes of a word for each lane.
BLOCK = 1024
LANES = 8
_STRIPE = 8 * LANES
_ALL = (1 << 64) - 1
_FACTOR = 0x9E3779B185EBCA87


def _keys(n):
    """Return n fixed words that look random: the sequence of SplitMix64 from 0."""
    found = []
    for k in range(1, n + 1):
        z = k * 0x9E3779B97F4A7C15 & _ALL
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & _ALL
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB & _ALL
        found.append(z ^ (z >> 31))
    return found


@intrinsic
def _take_block(typing_context, address, lanes):
    """Take the block at one address into the lanes at another."""

    def generate(context, builder, signature, arguments):
        address, lanes = arguments
        vector = ir.VectorType(ir.IntType(64), LANES)

        def same(value):
            return ir.Constant(vector, [value] * LANES)

        keys = _keys(LANES * (BLOCK // _STRIPE + 1))
        order = ir.VectorType(ir.IntType(32), LANES)
        neighbours = ir.Constant(order, [k ^ 1 for k in range(LANES)])
        place = builder.inttoptr(lanes, vector.as_pointer())
        total = builder.load(place, align=1)
        for k in range(BLOCK // _STRIPE):
            at = builder.add(address, ir.Constant(address.type, k * _STRIPE))
            words = builder.load(builder.inttoptr(at, vector.as_pointer()), align=1)
            mixed = builder.xor(words, ir.Constant(vector, keys[k * LANES : (k + 1) * LANES]))
            low = builder.and_(mixed, same(0xFFFFFFFF))
            product = builder.mul(low, builder.lshr(mixed, same(32)))
            beside = builder.shuffle_vector(words, words, neighbours)
            total = builder.add(builder.add(total, product), beside)
        total = builder.xor(total, builder.lshr(total, same(47)))
        total = builder.xor(total, ir.Constant(vector, keys[-LANES:]))
        builder.store(builder.mul(total, same(_FACTOR)), place, align=1)
        return context.get_dummy_value()

    return types.void(types.intp, types.intp), generate


@jit
def digest_blocks(address, n, lanes):
    """Take the n blocks at an address into the eight words at the address `lanes`."""
    for k in range(n):
        _take_block(address + BLOCK * k, lanes)
