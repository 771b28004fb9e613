# SPDX-License-Identifier: BSD-3-Clause
"""How kernels are compiled, and how they call a scalar function by its address."""

import contextlib
import hashlib
import sys
from pathlib import Path

import numba
from llvmlite import ir
from numba import types
from numba.core.caching import CompileResultCacheImpl, FunctionCache
from numba.core.compiler import Compiler
from numba.extending import intrinsic

#: Vectorised reductions, with NaN and infinity kept as they are so that divergence is seen.
FASTMATH = frozenset({"reassoc", "contract", "nsz", "arcp"})

#: What a kernel returns, plus 4 times the position in the plan at which it stopped.
FINE = 0
DIVERGED = 1
LOSS_IS_NAN = 2


def _stamp():
    """Return a hash of all source files of the kernels: of names and contents."""
    folder = Path(__file__).parent
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        text = path.read_bytes()
        digest.update(f"{path.relative_to(folder).as_posix()} {len(text)}\n".encode() + text)
    return digest.hexdigest()[:16]


#: Machine code holds what it inlines from other files, which numba's cache does not look at: an
#: edit of any of them makes all of it stale.
_STAMP = _stamp()


class _StampedNames(CompileResultCacheImpl):
    """Files of the cache that bear the stamp: code from other sources is under other names."""

    def get_filename_base(self, fullname, abiflags):
        return f"{fullname}-{_STAMP}.{sys.implementation.cache_tag}{abiflags}"


class _Cache(FunctionCache):
    """The cache on disk of a kernel; it keeps the code of one state of the sources."""

    _impl_class = _StampedNames

    def save_overload(self, sig, data):
        if _stamp() != _STAMP:
            return  # edited since this process began: nobody knows what it has read
        try:
            super().save_overload(sig, data)
        except OSError:
            return  # a full disk: the code is compiled, the next process compiles it again
        function = self._impl.filename_base.partition("-")[0]
        for path in Path(self.cache_path).glob(f"{function}-*"):
            if _STAMP not in path.name:
                with contextlib.suppress(OSError):
                    path.unlink()


def jit(function=None, *, cache=True, **options):
    """Compile lazily, cache on disk where that is possible, release the GIL.

    Machine code cannot allocate, and counts no references: those of the caller outlive the call,
    and arrays and tuples of arrays go from function to function for nothing. Without a function,
    return a decorator with these options.
    """
    if function is None:
        return lambda function: jit(function, cache=cache, **options)
    compiled = numba.njit(nogil=True, error_model="numpy", _nrt=False, **options)(function)
    if cache:
        # RuntimeError: no writable place (a container with an odd user), compile in each process.
        with contextlib.suppress(RuntimeError):
            compiled._cache = _Cache(function)
    return compiled


#: Makes a piece that is written into its callers.
inline = jit(cache=False, forceinline=True)


class _Apart(Compiler):
    """The usual compiler, told that no array that a kernel writes overlaps another argument.

    Otherwise loops come in two forms, chosen at run time by how close the arrays lie in memory,
    and a reduction rounds differently in each: the same stream would differ in the last bit from
    one run to the next.
    """

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self.state.flags.noalias = True


_LEARNING = {"fastmath": set(FASTMATH), "pipeline_class": _Apart}
#: Makes a kernel that learns. An array that it writes must not share memory with another argument.
kernel = jit(**_LEARNING)
#: Makes a kernel whose every number is the same wherever it stands: nothing is summed in another
#: order.
elementwise = jit(fastmath={"contract", "nsz"}, pipeline_class=_Apart)
#: Makes a piece of such kernels, written into them.
part = jit(**_LEARNING, cache=False, forceinline=True)
#: Makes a kernel that computes what is written, step by step, at sizes where x + 1 is x.
as_written = jit(pipeline_class=_Apart)


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
def stay_apart(typingctx):
    """Keep the function that begins with this apart from compiled callers.

    Written into one of them it may be simplified and round differently, so that the same steps
    would depend on who calls.
    """

    def codegen(context, builder, signature, args):
        builder.function.attributes.add("noinline")
        return context.get_dummy_value()

    return types.void(), codegen


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
