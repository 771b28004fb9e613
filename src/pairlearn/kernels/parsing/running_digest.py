# SPDX-License-Identifier: BSD-3-Clause
"""A digest of bytes at the speed of memory, to notice other data, not to resist an attacker.

The inner loop is that of XXH3 (Collet, 2019): of every 64 bytes each of eight lanes takes the
product of the halves of one word, after a key was mixed in that depends on the place, and the word
beside it as it is; after a block the lanes are scrambled. All but the products are bijections, and
a word also goes to a lane unmultiplied, so that one changed word always changes the lanes.
"""

from __future__ import annotations

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from pairlearn.kernels._native import jit

#: Bytes that are taken at once, in stripes of a word for each lane.
BLOCK = 1024
LANES = 8
_STRIPE = 8 * LANES
#: Lanes of a register of 256 bits. Wider ones stop some processors for ten microseconds whenever
#: they come after other work, and most calls have little to do.
_TOGETHER = 4
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
        vector = ir.VectorType(ir.IntType(64), _TOGETHER)
        order = ir.VectorType(ir.IntType(32), _TOGETHER)
        neighbours = ir.Constant(order, [k ^ 1 for k in range(_TOGETHER)])
        keys = _keys(LANES * (BLOCK // _STRIPE + 1))

        def same(value):
            return ir.Constant(vector, [value] * _TOGETHER)

        def key(word):
            return ir.Constant(vector, keys[word : word + _TOGETHER])

        def place(begin, word):
            at = builder.add(begin, ir.Constant(begin.type, 8 * word))
            return builder.inttoptr(at, vector.as_pointer())

        for lane in range(0, LANES, _TOGETHER):
            total = builder.load(place(lanes, lane), align=1)
            for word in range(lane, BLOCK // 8, LANES):
                words = builder.load(place(address, word), align=1)
                mixed = builder.xor(words, key(word))
                low = builder.and_(mixed, same(0xFFFFFFFF))
                product = builder.mul(low, builder.lshr(mixed, same(32)))
                beside = builder.shuffle_vector(words, words, neighbours)
                total = builder.add(builder.add(total, product), beside)
            total = builder.xor(total, builder.lshr(total, same(47)))
            total = builder.xor(total, key(BLOCK // 8 + lane))
            builder.store(builder.mul(total, same(_FACTOR)), place(lanes, lane), align=1)
        return context.get_dummy_value()

    return types.void(types.intp, types.intp), generate


@intrinsic
def _copy(typing_context, target, source, size):
    """Copy bytes from one address to another."""

    def generate(context, builder, signature, arguments):
        byte = ir.IntType(8).as_pointer()
        target, source = (builder.inttoptr(address, byte) for address in arguments[:2])
        cgutils.raw_memcpy(builder, target, source, arguments[2], 1)
        return context.get_dummy_value()

    return types.void(types.intp, types.intp, types.intp), generate


@jit
def digest_bytes(address, size, state, held):
    """Take the bytes at an address into the state at another.

    A state is eight words, the lanes, and a block, of which `held` bytes wait for the others.
    """
    rest = state + 8 * LANES
    if held:
        begin = min(BLOCK - held, size)
        _copy(rest + held, address, begin)
        if held + begin < BLOCK:
            return
        _take_block(rest, state)
        address += begin
        size -= begin
    n = size // BLOCK
    for k in range(n):
        _take_block(address + BLOCK * k, state)
    _copy(rest, address + BLOCK * n, size - BLOCK * n)
