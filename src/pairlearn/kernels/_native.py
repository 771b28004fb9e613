# SPDX-License-Identifier: BSD-3-Clause
"""Compile kernels, cache them on disk, and call scalar functions by address."""

import contextlib
import hashlib
import sys
from pathlib import Path

import numba
from llvmlite import ir
from numba import types
from numba.core.caching import CompileResultCacheImpl, FunctionCache
from numba.core.compiler import Compiler
from numba.core.runtime import rtsys
from numba.extending import intrinsic

#: Allows vectorised sums, but keeps NaN and infinity so that divergence is noticed.
FASTMATH = frozenset({"reassoc", "contract", "nsz", "arcp"})

#: The status of a kernel, plus 4 times the position in the plan at which it stopped.
FINE = 0
DIVERGED = 1
LOSS_IS_NAN = 2


def _stamp():
    """Return a hash of the names and contents of all kernel source files."""
    folder = Path(__file__).parent
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        text = path.read_bytes()
        digest.update(f"{path.relative_to(folder).as_posix()} {len(text)}\n".encode() + text)
    return digest.hexdigest()[:16]


#: Machine code contains what it inlines from other files, and numba's cache does not check those.
#: So an edit of any file makes all cached code stale.
_STAMP = _stamp()


#: What stands in the names of functions of numba's runtime, and of what it resolves at run time.
_RUNTIME = (b"NRT_", b".numba.unresolved$")


class _Rebuilt(CompileResultCacheImpl):
    """Makes loaded machine code ready to run."""

    def rebuild(self, target_context, payload):
        # The functions that count references are machine code of their own, and are called by name.
        # Compiling them takes longer than loading a kernel, and kernels need none of them.
        _, kind, parts = payload[0]
        if kind != "object" or any(name in part for part in parts for name in _RUNTIME):
            rtsys.initialize(target_context)
        return super().rebuild(target_context, payload)


class _StampedNames(_Rebuilt):
    """Names of cache files that contain the stamp, so code from other sources has other names."""

    def get_filename_base(self, fullname, abiflags):
        return f"{fullname}-{_STAMP}.{sys.implementation.cache_tag}{abiflags}"


class WarmCache(FunctionCache):
    """A disk cache that gives machine code without what only a compiler needs.

    Numba's own first fills its tables of all functions, which takes longer than loading numba. The
    compiler fills them when it is asked to compile.
    """

    _impl_class = _Rebuilt

    def load_overload(self, sig, target_context):
        with self._guard_against_spurious_io_errors():
            return self._load_overload(sig, target_context)


class _Cache(WarmCache):
    """The disk cache of a kernel; it keeps the code of one version of the sources."""

    _impl_class = _StampedNames

    def save_overload(self, sig, data):
        if _stamp() != _STAMP:
            return  # edited since this process started: its version is unknown
        try:
            super().save_overload(sig, data)
        except OSError:
            return  # a full disk: this process has the code, the next one compiles it again
        function = self._impl.filename_base.partition("-")[0]
        for path in Path(self.cache_path).glob(f"{function}-*"):
            if _STAMP not in path.name:
                with contextlib.suppress(OSError):
                    path.unlink()


def jit(function=None, *, cache=True, nogil=True, **options):
    """Compile lazily, cache on disk where possible, release the GIL unless told otherwise.

    Kernels do not allocate or count references: the caller's references outlive the call, and
    passing arrays and tuples between functions costs nothing. Without a function, return a
    decorator with these options.
    """
    if function is None:
        return lambda function: jit(function, cache=cache, nogil=nogil, **options)
    compiled = numba.njit(nogil=nogil, error_model="numpy", _nrt=False, **options)(function)
    if cache:
        keep_on_disk(compiled, function)
    return compiled


def keep_on_disk(compiled, function):
    """Give machine code of a function the disk cache of kernels, where one is possible."""
    # RuntimeError: no folder is writable (a container with an odd user); compile per process.
    with contextlib.suppress(RuntimeError):
        compiled._cache = _Cache(function)


#: Makes a piece that is inlined into its callers.
inline = jit(cache=False, forceinline=True)


class _Apart(Compiler):
    """The usual compiler, told that an array that a kernel writes overlaps no other argument.

    Otherwise loops have two versions, chosen at run time by the distance of the arrays in memory. A
    reduction rounds differently in each, so runs could differ in their last bits.
    """

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self.state.flags.noalias = True


_LEARNING = {"fastmath": set(FASTMATH), "pipeline_class": _Apart}
#: Makes a learning kernel. An array that it writes must not share memory with other arguments.
kernel = jit(**_LEARNING)
#: Makes a kernel whose numbers do not depend on their position: sums keep their order.
_IN_ORDER = {"fastmath": {"contract", "nsz"}, "pipeline_class": _Apart}
elementwise = jit(**_IN_ORDER)
#: Makes an inlined piece of such kernels.
elementwise_part = jit(**_IN_ORDER, cache=False, forceinline=True)
#: Makes an inlined piece of such kernels.
part = jit(**_LEARNING, cache=False, forceinline=True)
#: Makes a kernel that computes exactly as written, even for sizes where x + 1 equals x. Flags that
#: are not given are those of the kernel for which it is compiled first, so they are given.
as_written = jit(fastmath=False, pipeline_class=_Apart)
#: Makes an inlined piece of such kernels.
part_as_written = jit(fastmath=False, pipeline_class=_Apart, cache=False, forceinline=True)


def everywhere(builder, value, n):
    """Return a vector that holds the value in all n lanes."""
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
def double_bits(typingctx, value):
    """Return the bits of a number of double precision."""

    def codegen(context, builder, signature, args):
        return builder.bitcast(args[0], ir.IntType(64))

    return types.uint64(types.float64), codegen


@intrinsic
def stay_apart(typingctx):
    """Mark a function, by its first statement, as never inlined into compiled callers.

    Inlined, it might be simplified and round differently, so results would depend on the caller.
    """

    def codegen(context, builder, signature, args):
        builder.function.attributes.add("noinline")
        return context.get_dummy_value()

    return types.void(), codegen


def _prefetching(locality):
    @intrinsic
    def ask(typingctx, array, index):
        """Prefetch the cache line of ``array[index]`` of a flat array."""

        def codegen(context, builder, signature, args):
            array_type, _ = signature.args
            value = context.make_array(array_type)(context, builder, args[0])
            address = builder.gep(value.data, [args[1]])
            byte_pointer = ir.IntType(8).as_pointer()
            pointer = builder.bitcast(address, byte_pointer)
            flag = ir.IntType(32)
            kind = ir.FunctionType(ir.VoidType(), [byte_pointer, flag, flag, flag])
            function = builder.module.declare_intrinsic("llvm.prefetch", [byte_pointer], kind)
            builder.call(function, [pointer, flag(0), flag(locality), flag(1)])
            return context.get_dummy_value()

        return types.void(array, types.uintp), codegen

    return ask


#: Prefetch the cache line of ``array[index]``: into all levels, or into the second and below.
prefetch, prefetch_second = _prefetching(3), _prefetching(2)


@kernel
def call_each(address, scores, y, y_partner, parameter, result):
    """Fill `result` with the scalar function of each pair."""
    for k in range(len(scores)):
        result[k] = call_scalar(address, scores[k], y[k], y_partner[k], parameter)
