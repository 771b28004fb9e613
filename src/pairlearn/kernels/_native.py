# SPDX-License-Identifier: BSD-3-Clause
"""How kernels are compiled, and how they call a scalar function by its address."""

import numba
from llvmlite import ir
from numba import types
from numba.core.compiler import Compiler
from numba.extending import intrinsic

#: Vectorised reductions, with NaN and infinity kept as they are so that divergence is seen.
FASTMATH = frozenset({"reassoc", "contract", "nsz", "arcp"})

#: What a kernel returns, plus 4 times the position in the plan at which it stopped.
FINE = 0
DIVERGED = 1
LOSS_IS_NAN = 2


class _Apart(Compiler):
    """The usual compiler, told that no array that a kernel writes overlaps another argument.

    Otherwise loops come in two forms, chosen at run time by how close the arrays lie in memory,
    and a reduction rounds differently in each: the same stream would differ in the last bit from
    one run to the next.
    """

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self.state.flags.noalias = True


_OPTIONS = {
    "nogil": True,
    "fastmath": set(FASTMATH),
    "error_model": "numpy",
    "pipeline_class": _Apart,
}


def kernel(function):
    """Compile lazily, cache on disk where that is possible, release the GIL.

    An array that the kernel writes must not share memory with another argument.
    """
    try:
        return numba.njit(cache=True, **_OPTIONS)(function)
    except RuntimeError:
        # No writable place for a cache (a container with an odd user): compile in each process.
        return numba.njit(**_OPTIONS)(function)


def part(function):
    """Compile a piece of kernels, written into them: its arrays cost no counting of references."""
    return numba.njit(forceinline=True, **_OPTIONS)(function)


def everywhere(builder, value, n):
    """Return a vector with the value in all its n lanes."""
    lane = ir.IntType(32)
    undefined = ir.Constant(ir.VectorType(value.type, n), ir.Undefined)
    one = builder.insert_element(undefined, value, lane(0))
    return builder.shuffle_vector(one, undefined, ir.Constant(ir.VectorType(lane, n), [0] * n))


@intrinsic
def call_scalar(typingctx, address, score, y, y_partner, parameter):
    """Call the compiled scalar function at ``address``."""

    def codegen(context, builder, signature, args):
        double = ir.DoubleType()
        function_type = ir.FunctionType(double, [double] * 4)
        return builder.call(builder.inttoptr(args[0], function_type.as_pointer()), args[1:])

    return types.float64(types.intp, *[types.float64] * 4), codegen


@intrinsic
def prefetch(typingctx, array, index):
    """Ask for the cache line of ``array[index]`` of a flat array: data that is read soon."""

    def codegen(context, builder, signature, args):
        array_type, _ = signature.args
        value = context.make_array(array_type)(context, builder, args[0])
        address = builder.gep(value.data, [args[1]])
        byte_pointer = ir.IntType(8).as_pointer()
        pointer = builder.bitcast(address, byte_pointer)
        flag = ir.IntType(32)
        function_type = ir.FunctionType(ir.VoidType(), [byte_pointer, flag, flag, flag])
        function = builder.module.declare_intrinsic("llvm.prefetch", [byte_pointer], function_type)
        builder.call(function, [pointer, flag(0), flag(3), flag(1)])
        return context.get_dummy_value()

    return types.void(array, types.uintp), codegen
