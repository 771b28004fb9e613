# SPDX-License-Identifier: BSD-3-Clause
"""Vectors of 64 bytes in registers: eight doubles or whole numbers, or sixteen floats.

What a kernel computes with them does not depend on how the compiler would cut its loops: every sum
has the order in which it is written here. On processors with shorter registers a vector takes
several of them.
"""

from llvmlite import ir
from numba import types
from numba.core.cgutils import get_or_insert_function
from numba.core.datamodel import models, register_default
from numba.extending import intrinsic

from pairlearn.kernels._native import everywhere

#: Bytes of a vector: the length of a line of the cache.
BYTES = 64
#: Doubles of a vector.
_DOUBLES = 8


class _Vector(types.Type):
    """The type of a vector of numbers, or of its first part if it is cut into `parts`."""

    def __init__(self, real, parts=1):
        self.real = real
        self.n = _lanes_of(real)[0] // parts
        super().__init__(name=f"Vector({real}, {self.n})")


def _lanes_of(real):
    """Return how many numbers a vector holds, and their type in LLVM."""
    if real == types.uint64:
        kind = ir.IntType(64)
    else:
        kind = ir.DoubleType() if real == types.float64 else ir.FloatType()
    return 8 * BYTES // real.bitwidth, kind


@register_default(_Vector)
class _VectorModel(models.PrimitiveModel):
    def __init__(self, manager, vector):
        _, kind = _lanes_of(vector.real)
        super().__init__(manager, vector, ir.VectorType(kind, vector.n))


def _pointer(context, builder, array_type, array, place, vector_type):
    """Return the address of the vector that begins at a place of an array."""
    data = context.make_array(array_type)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [place]), vector_type.as_pointer())


def _loaded(context, builder, array_type, array, place):
    n, kind = _lanes_of(array_type.dtype)
    pointer = _pointer(context, builder, array_type, array, place, ir.VectorType(kind, n))
    return builder.load(pointer, align=array_type.dtype.bitwidth // 8)


@intrinsic
def read(typing_context, array, place):
    """Return the vector that begins at a place of a flat array."""

    def generate(context, builder, signature, arguments):
        return _loaded(context, builder, signature.args[0], *arguments)

    return _Vector(array.dtype)(array, types.uintp), generate


@intrinsic
def write(typing_context, array, place, vector):
    """Write a vector to a place of a flat array, rounded to the type of the array."""

    def generate(context, builder, signature, arguments):
        array, place, vector = arguments
        kind = signature.args[0]
        if kind.dtype.bitwidth < signature.args[2].real.bitwidth:
            vector = builder.fptrunc(vector, ir.VectorType(ir.FloatType(), vector.type.count))
        pointer = _pointer(context, builder, kind, array, place, vector.type)
        builder.store(vector, pointer, align=kind.dtype.bitwidth // 8)
        return context.get_dummy_value()

    return types.void(array, types.uintp, vector), generate


def _mask(builder, n, count):
    """Return flags of `count` lanes: whether a lane is one of the first n."""
    limit = everywhere(builder, n, count)
    return builder.icmp_unsigned("<", ir.Constant(limit.type, list(range(count))), limit)


def _loaded_first(context, builder, array_type, array, place, n, count):
    """Return a vector of `count` lanes, of which the first n are read and the others are 0."""
    kind = ir.VectorType(_lanes_of(array_type.dtype)[1], count)
    pointer = _pointer(context, builder, array_type, array, place, kind)
    mask = _mask(builder, n, count)
    align = ir.IntType(32)
    wanted = ir.FunctionType(kind, [pointer.type, align, mask.type, kind])
    bits = array_type.dtype.bitwidth
    name = f"llvm.masked.load.v{count}f{bits}.p0"
    load = get_or_insert_function(builder.module, wanted, name)
    return builder.call(load, [pointer, align(bits // 8), mask, ir.Constant(kind, None)])


@intrinsic
def read_first(typing_context, array, place, n, parts):
    """Return the n numbers that begin at a place of a flat array, and 0 in the other lanes.

    The vector has 64 bytes divided by the length of the tuple `parts`.
    """

    def generate(context, builder, signature, arguments):
        vector = signature.return_type
        return _loaded_first(context, builder, signature.args[0], *arguments[:3], vector.n)

    kinds = (array, types.uintp, types.uintp, parts)
    return _Vector(array.dtype, len(parts))(*kinds), generate


@intrinsic
def read_doubles(typing_context, array, place):
    """Return eight numbers of a flat array as doubles."""

    def generate(context, builder, signature, arguments):
        kind = ir.VectorType(_lanes_of(signature.args[0].dtype)[1], _DOUBLES)
        pointer = _pointer(context, builder, signature.args[0], *arguments, kind)
        return _widened(builder, builder.load(pointer, align=signature.args[0].dtype.bitwidth // 8))

    return _Vector(types.float64)(array, types.uintp), generate


@intrinsic
def read_first_doubles(typing_context, array, place, n):
    """Return n numbers of a flat array as doubles, and 0 in the other lanes."""

    def generate(context, builder, signature, arguments):
        found = _loaded_first(context, builder, signature.args[0], *arguments, _DOUBLES)
        return _widened(builder, found)

    return _Vector(types.float64)(array, types.uintp, types.uintp), generate


def _widened(builder, vector):
    wide = ir.VectorType(ir.DoubleType(), vector.type.count)
    return vector if vector.type == wide else builder.fpext(vector, wide)


@intrinsic
def bits_of(typing_context, doubles):
    """Return the bits of doubles as whole numbers; adding 0.0 turns -0.0 into 0.0."""

    def generate(context, builder, signature, arguments):
        [doubles] = arguments
        positive = builder.fadd(doubles, ir.Constant(doubles.type, [0.0] * doubles.type.count))
        return builder.bitcast(positive, ir.VectorType(ir.IntType(64), doubles.type.count))

    return _Vector(types.uint64)(doubles), generate


@intrinsic
def folded(typing_context, numbers, down):
    """Return whole numbers, each combined (xor) with itself shifted down."""

    def generate(context, builder, signature, arguments):
        numbers, down = arguments
        return builder.xor(
            numbers, builder.lshr(numbers, everywhere(builder, down, numbers.type.count))
        )

    return numbers(numbers, types.uint64), generate


@intrinsic
def masked(typing_context, numbers, mask):
    """Return the bits of whole numbers that the mask has."""

    def generate(context, builder, signature, arguments):
        numbers, mask = arguments
        return builder.and_(numbers, everywhere(builder, mask, numbers.type.count))

    return numbers(numbers, types.uint64), generate


@intrinsic
def plus_whole_product(typing_context, a, b, c):
    """Return a + b c of whole numbers, modulo 2^64."""

    def generate(context, builder, signature, arguments):
        a, b, c = arguments
        return builder.add(a, builder.mul(b, c))

    return a(a, b, c), generate


def _extreme(sign):
    @intrinsic
    def of_both(typing_context, a, b):
        """Return the smaller (or the larger) of two numbers in each lane; b where a is NaN."""

        def generate(context, builder, signature, arguments):
            a, b = arguments
            whole = a.type.element == ir.IntType(64)
            compare = builder.icmp_unsigned if whole else builder.fcmp_ordered
            return builder.select(compare(sign, a, b), a, b)

        return a(a, b), generate

    return of_both


#: The smaller and the larger of two numbers in each lane; the second one where the first is NaN.
lesser, greater = _extreme("<"), _extreme(">")


@intrinsic
def plus(typing_context, a, b):
    """Return a + b."""

    def generate(context, builder, signature, arguments):
        return builder.fadd(*arguments)

    return a(a, b), generate


@intrinsic
def write_first(typing_context, array, n, vector):
    """Write the first n numbers of a vector to the beginning of a flat array."""

    def generate(context, builder, signature, arguments):
        array, n, vector = arguments
        start = ir.IntType(64)(0)
        pointer = _pointer(context, builder, signature.args[0], array, start, vector.type)
        mask = _mask(builder, n, vector.type.count)
        align = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [vector.type, pointer.type, align, mask.type])
        bits = signature.args[0].dtype.bitwidth
        name = f"llvm.masked.store.v{vector.type.count}f{bits}.p0"
        store = get_or_insert_function(builder.module, kind, name)
        builder.call(store, [vector, pointer, align(bits // 8), mask])
        return context.get_dummy_value()

    return types.void(array, types.uintp, vector), generate


@intrinsic
def gather(typing_context, array, start, places, first):
    """Return the numbers of an array at `start` plus the places from the first on."""

    def generate(context, builder, signature, arguments):
        array, start, places, first = arguments
        n, kind = _lanes_of(signature.args[0].dtype)
        data = context.make_array(signature.args[0])(context, builder, array).data
        which = context.make_array(signature.args[2])(context, builder, places).data
        found = ir.Constant(ir.VectorType(kind, n), ir.Undefined)
        for lane in range(n):
            own = builder.load(builder.gep(which, [builder.add(first, first.type(lane))]))
            place = builder.add(start, builder.zext(own, start.type))
            number = builder.load(builder.gep(data, [place]))
            found = builder.insert_element(found, number, ir.IntType(32)(lane))
        return found

    kinds = (array, types.uintp, places, types.uintp)
    return _Vector(array.dtype)(*kinds), generate


@intrinsic
def clipped(typing_context, vector):
    """Return a vector with its numbers clipped to [0, 1]."""

    def generate(context, builder, signature, arguments):
        [vector] = arguments
        for sign, bound in ((">", 0.0), ("<", 1.0)):
            limit = ir.Constant(vector.type, [bound] * vector.type.count)
            inside = builder.fcmp_ordered(sign, vector, limit)
            vector = builder.select(inside, vector, limit)
        return vector

    return vector(vector), generate


@intrinsic
def filled(typing_context, number):
    """Return a vector with a number in all lanes."""

    def generate(context, builder, signature, arguments):
        return everywhere(builder, arguments[0], _lanes_of(signature.args[0])[0])

    return _Vector(number)(number), generate


def _fused(builder, a, b, c):
    kind = ir.FunctionType(a.type, [a.type] * 3)
    bits = 64 if a.type.element == ir.DoubleType() else 32
    name = f"llvm.fmuladd.v{a.type.count}f{bits}"
    return builder.call(get_or_insert_function(builder.module, kind, name), [b, c, a])


@intrinsic
def plus_multiple(typing_context, a, factor, b):
    """Return a + factor b, rounded once where the processor can do so."""

    def generate(context, builder, signature, arguments):
        a, factor, b = arguments
        return _fused(builder, a, everywhere(builder, factor, a.type.count), b)

    return a(a, a.real, b), generate


@intrinsic
def multiple(typing_context, factor, a):
    """Return factor a."""

    def generate(context, builder, signature, arguments):
        factor, a = arguments
        return builder.fmul(everywhere(builder, factor, a.type.count), a)

    return a(a.real, a), generate


@intrinsic
def minus(typing_context, a, b):
    """Return a - b."""

    def generate(context, builder, signature, arguments):
        return builder.fsub(*arguments)

    return a(a, b), generate


@intrinsic
def times(typing_context, a, b):
    """Return a b."""

    def generate(context, builder, signature, arguments):
        return builder.fmul(*arguments)

    return a(a, b), generate


@intrinsic
def plus_product(typing_context, a, b, c):
    """Return a + b c, rounded once where the processor can do so."""

    def generate(context, builder, signature, arguments):
        return _fused(builder, *arguments)

    return a(a, b, c), generate


@intrinsic
def difference_in_units(typing_context, rows, first, second, unit, place):
    """Return (x - x') * unit, computed in doubles and rounded once to the type of the rows.

    The vectors of x and x' begin at `first` and `second`, that of the unit begins at `place`.
    """

    def generate(context, builder, signature, arguments):
        rows, first, second, unit, place = arguments
        kind = signature.args[0]
        x, z = (_loaded(context, builder, kind, rows, start) for start in (first, second))
        n, _ = _lanes_of(kind.dtype)
        wide = ir.VectorType(ir.DoubleType(), n)
        pointer = _pointer(context, builder, signature.args[3], unit, place, wide)
        factor = builder.load(pointer, align=8)
        if kind.dtype == types.float64:
            return builder.fmul(builder.fsub(x, z), factor)
        narrow = x.type
        x, z = builder.fpext(x, wide), builder.fpext(z, wide)
        return builder.fptrunc(builder.fmul(builder.fsub(x, z), factor), narrow)

    kinds = (rows, types.uintp, types.uintp, unit, types.uintp)
    return _Vector(rows.dtype)(*kinds), generate


@intrinsic
def first_in_units(typing_context, rows, first, second, unit, n, parts):
    """Do what `difference_in_units` does for rows of n numbers; the other lanes are 0."""

    def generate(context, builder, signature, arguments):
        rows, first, second, unit, n, _ = arguments
        kind, count = signature.args[0], signature.return_type.n
        _, real = _lanes_of(kind.dtype)
        x, z = (
            _loaded_first(context, builder, kind, rows, start, n, count)
            for start in (first, second)
        )
        start = ir.IntType(64)(0)
        factor = _loaded_first(context, builder, signature.args[3], unit, start, n, count)
        wide = factor.type
        if kind.dtype == types.float64:
            return builder.fmul(builder.fsub(x, z), factor)
        x, z = builder.fpext(x, wide), builder.fpext(z, wide)
        return builder.fptrunc(builder.fmul(builder.fsub(x, z), factor), ir.VectorType(real, count))

    kinds = (rows, types.uintp, types.uintp, unit, types.uintp, parts)
    return _Vector(rows.dtype, len(parts))(*kinds), generate


def _by_halves(builder, vector, join):
    """Join the lanes of a vector, half by half, to one number."""
    lane = ir.IntType(32)
    n = vector.type.count
    while n > 1:
        n //= 2
        halves = [
            builder.shuffle_vector(
                vector,
                ir.Constant(vector.type, ir.Undefined),
                ir.Constant(ir.VectorType(lane, n), [start + k for k in range(n)]),
            )
            for start in (0, n)
        ]
        vector = join(*halves)
    return builder.extract_element(vector, lane(0))


@intrinsic
def total(typing_context, vector):
    """Return the sum of the lanes, half by half."""

    def generate(context, builder, signature, arguments):
        whole = arguments[0].type.element == ir.IntType(64)
        return _by_halves(builder, arguments[0], builder.add if whole else builder.fadd)

    return vector.real(vector), generate


@intrinsic
def largest_of(typing_context, vector):
    """Return the largest of whole numbers."""

    def generate(context, builder, signature, arguments):
        def larger(a, b):
            return builder.select(builder.icmp_unsigned(">", a, b), a, b)

        return _by_halves(builder, arguments[0], larger)

    return vector.real(vector), generate


@intrinsic
def joined(typing_context, n, a, b):
    """Return the first n lanes of a and the others of b."""

    def generate(context, builder, signature, arguments):
        n, a, b = arguments
        return builder.select(_mask(builder, n, a.type.count), a, b)

    return a(types.uintp, a, b), generate


@intrinsic
def chosen(typing_context, first, a, b):
    """Return a if `first`, else b, without a branch."""

    def generate(context, builder, signature, arguments):
        return builder.select(*arguments)

    return a(types.boolean, a, b), generate


@intrinsic
def where_below(typing_context, a, b, x, z):
    """Return x in the lanes where a < b, else z."""

    def generate(context, builder, signature, arguments):
        a, b, x, z = arguments
        return builder.select(builder.fcmp_ordered("<", a, b), x, z)

    return x(a, b, x, z), generate


@intrinsic
def over_root(typing_context, a, b):
    """Return a divided by the square root of b."""

    def generate(context, builder, signature, arguments):
        a, b = arguments
        bits = 64 if a.type.element == ir.DoubleType() else 32
        name = f"llvm.sqrt.v{a.type.count}f{bits}"
        root = get_or_insert_function(builder.module, ir.FunctionType(b.type, [b.type]), name)
        return builder.fdiv(a, builder.call(root, [b]))

    return a(a, b), generate
