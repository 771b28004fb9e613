# SPDX-License-Identifier: BSD-3-Clause
"""A digest of bytes at memory speed. It detects changed data; it does not resist attackers.

The inner loop is that of XXH3 (Collet, 2019). From every 64 bytes, each of eight lanes adds the
product of the two halves of a word, mixed with a key of its position, and another word as it is.
After a block the lanes are scrambled. All operations but the products are bijections, and every
word also enters a lane unmultiplied, so one changed word always changes the lanes.

If the bytes are floating-point numbers, the same loop checks whether all are finite. A separate
loop would take as long as the digest.
"""

from __future__ import annotations

import functools

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from pairlearn.kernels._native import inline, jit

#: Bytes in a block, which has stripes of one word per lane.
BLOCK = 1024
LANES = 8
_STRIPES = BLOCK // (8 * LANES)
#: Lanes of a 256-bit register. Wider registers stall some processors for ten microseconds after
#: other work, and most calls are short.
_TOGETHER = 4
#: Stripes per turn of the inner loop.
_AT_ONCE = 2
_ALL = (1 << 64) - 1
_FACTOR = 0x9E3779B185EBCA87


def _keys(n):
    """Return n fixed words that look random: SplitMix64 from 0."""
    found = []
    for k in range(1, n + 1):
        z = k * 0x9E3779B97F4A7C15 & _ALL
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & _ALL
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB & _ALL
        found.append(z ^ (z >> 31))
    return found


#: Keys of the words of a block, and of the lanes after it.
_KEYS = _keys(LANES * (_STRIPES + 1))


def _blocks_of(number):
    """Return a function that adds n blocks at one address to the lanes at another.

    It returns 0, or NaN if the blocks hold a number of that type that is not finite. Without a type
    it does not check.
    """

    def generate(context, builder, signature, arguments):
        """Emit code of the loop over blocks: keys, products, scrambling, and the finite check."""
        address, n, lanes = arguments
        size = address.type
        vector = ir.VectorType(ir.IntType(64), _TOGETHER)
        groups = range(LANES // _TOGETHER)
        # Keys in a table: as constants, they make the compiler form all products before all sums.
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
            """Add 0 times the numbers, which is NaN for infinity and NaN."""
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
    """Add n blocks to the lanes; return 0, or NaN if a number of that width is not finite."""
    if width == 8:
        return _of_doubles(address, n, lanes)
    if width == 4:
        return _of_singles(address, n, lanes)
    return _of_bytes(address, n, lanes)


@jit
def digest_bytes(address, size, state, held, width):
    """Add the bytes at an address to the state at another.

    A state is eight words, the lanes, and an unfinished block with `held` bytes. Return whether the
    bytes that fill blocks are known to be finite numbers of that width (4 or 8; 0 for other bytes).
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
