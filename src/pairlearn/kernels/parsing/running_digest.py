# SPDX-License-Identifier: BSD-3-Clause
"""A digest of bytes at the speed of memory, to notice other data, not to resist an attacker.

The inner loop is that of XXH3 (Collet, 2019): of every 64 bytes each of eight lanes takes the
product of the halves of one word, after a key was mixed in that depends on the place, and another
word as it is; after a block the lanes are scrambled. All but the products are bijections, and a
word also goes to a lane unmultiplied, so that one changed word always changes the lanes.

Where the bytes are floating-point numbers the same loop sees whether all are finite: a loop of its
own for that takes as long as the digest.
"""

from __future__ import annotations

import functools

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from pairlearn.kernels._native import inline, jit

#: Bytes that are taken at once, in stripes of a word for each lane.
BLOCK = 1024
LANES = 8
_STRIPES = BLOCK // (8 * LANES)
#: Lanes of a register of 256 bits. Wider ones stop some processors for ten microseconds whenever
#: they come after other work, and most calls have little to do.
_TOGETHER = 4
#: Stripes of one turn of the inner loop.
_AT_ONCE = 2
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


#: Of the words of a block, and of the lanes after it.
_KEYS = _keys(LANES * (_STRIPES + 1))


def _blocks_of(number):
    """Return what takes n blocks at one address into the lanes at another.

    It returns 0, or NaN if a number of that type in the blocks is infinite or NaN; without a type
    it does not look.
    """

    def generate(context, builder, signature, arguments):
        address, n, lanes = arguments
        size = address.type
        vector = ir.VectorType(ir.IntType(64), _TOGETHER)
        groups = range(LANES // _TOGETHER)
        # In a table: with constants in one long loop all products are formed before all sums.
        words = ir.Constant(ir.ArrayType(ir.IntType(64), len(_KEYS)), _KEYS)
        table = cgutils.global_constant(builder.module, "running_digest.keys", words)
        keys = builder.ptrtoint(table, size)

        def same(value):
            return ir.Constant(vector, [value] * _TOGETHER)

        def place(begin, stripe, group):
            word = LANES * stripe + _TOGETHER * group
            at = builder.add(begin, ir.Constant(size, 8 * word))
            return builder.inttoptr(at, vector.as_pointer())

        def load(begin, stripe, group):
            return builder.load(place(begin, stripe, group), align=1)

        def change(variable, function):
            builder.store(function(builder.load(variable)), variable)

        def take(group, words, others, key):
            mixed = builder.xor(words, key)
            low = builder.and_(mixed, same(0xFFFFFFFF))
            product = builder.mul(low, builder.lshr(mixed, same(32)))
            change(totals[group], lambda total: builder.add(builder.add(total, product), others))

        def scramble(total, key):
            total = builder.xor(total, builder.lshr(total, same(47)))
            return builder.mul(builder.xor(total, key), same(_FACTOR))

        def look_at(group, words):
            """Add 0 times the numbers: infinity and NaN make that NaN."""
            together = {"flags": ["contract"]}
            product = builder.fmul(builder.bitcast(words, zeros.type), zeros, **together)
            change(looks[group], lambda look: builder.fadd(look, product, **together))

        totals = [cgutils.alloca_once_value(builder, load(lanes, 0, group)) for group in groups]
        if number:
            count = _TOGETHER if number == ir.DoubleType() else 2 * _TOGETHER
            zeros = ir.Constant(ir.VectorType(number, count), None)
            looks = [cgutils.alloca_once_value(builder, zeros) for _ in groups]
        with cgutils.for_range(builder, n) as blocks:
            block = builder.add(address, builder.mul(blocks.index, ir.Constant(size, BLOCK)))
            with cgutils.for_range(builder, ir.Constant(size, _STRIPES // _AT_ONCE)) as stripes:
                offset = builder.mul(stripes.index, ir.Constant(size, 8 * LANES * _AT_ONCE))
                begin, key = builder.add(block, offset), builder.add(keys, offset)
                for stripe in range(_AT_ONCE):
                    words = [load(begin, stripe, group) for group in groups]
                    for group in groups:
                        take(group, words[group], words[group - 1], load(key, stripe, group))
                        if number:
                            look_at(group, words[group])
            for group in groups:
                key = load(keys, _STRIPES, group)
                change(totals[group], lambda total, key=key: scramble(total, key))
        for group in groups:
            builder.store(builder.load(totals[group]), place(lanes, 0, group), align=1)
        if not number:
            return ir.Constant(ir.DoubleType(), 0.0)
        look = functools.reduce(builder.fadd, map(builder.load, looks))
        parts = [builder.extract_element(look, ir.IntType(32)(k)) for k in range(count)]
        sum_of_parts = functools.reduce(builder.fadd, parts)
        if number == ir.DoubleType():
            return sum_of_parts
        return builder.fpext(sum_of_parts, ir.DoubleType())

    @intrinsic
    def take_blocks(typing_context, address, n, lanes):
        return types.float64(types.intp, types.intp, types.intp), generate

    return take_blocks


_of_bytes, _of_singles, _of_doubles = map(_blocks_of, (None, ir.FloatType(), ir.DoubleType()))


@intrinsic
def _copy(typing_context, target, source, size):
    """Copy bytes from one address to another."""

    def generate(context, builder, signature, arguments):
        byte = ir.IntType(8).as_pointer()
        target, source = (builder.inttoptr(address, byte) for address in arguments[:2])
        cgutils.raw_memcpy(builder, target, source, arguments[2], 1)
        return context.get_dummy_value()

    return types.void(types.intp, types.intp, types.intp), generate


@inline
def _take_blocks(address, n, lanes, width):
    """Take n blocks into the lanes; return 0, or NaN if a number of that width is not finite."""
    if width == 8:
        return _of_doubles(address, n, lanes)
    if width == 4:
        return _of_singles(address, n, lanes)
    return _of_bytes(address, n, lanes)


@jit
def digest_bytes(address, size, state, held, width):
    """Take the bytes at an address into the state at another.

    A state is eight words, the lanes, and a block, of which `held` bytes wait for the others.
    Return whether the bytes are known to be finite numbers of that width (4 or 8, or 0 for other
    bytes), as far as they fill blocks.
    """
    known = width > 0 and held % width == 0
    rest = state + 8 * LANES
    if held:
        begin = min(BLOCK - held, size)
        _copy(rest + held, address, begin)
        if held + begin < BLOCK:
            return known
        known &= _take_blocks(rest, 1, state, width) == 0
        address += begin
        size -= begin
    n = size // BLOCK
    known &= _take_blocks(address, n, state, width) == 0
    _copy(rest, address + BLOCK * n, size - BLOCK * n)
    return known
