# SPDX-License-Identifier: BSD-3-Clause
"""Compile kernels, cache them on disk, and call scalar functions by address."""

import contextlib
import hashlib
import shutil
from pathlib import Path

import numba
from llvmlite import ir
from numba import types
from numba.core.compiler import Compiler
from numba.extending import intrinsic

#: Allows vectorised sums, but keeps NaN and infinity so that divergence is noticed.
FASTMATH = frozenset({"reassoc", "contract", "nsz", "arcp"})

#: The status of a kernel, plus 4 times the position in the plan at which it stopped.
FINE = 0
DIVERGED = 1
LOSS_IS_NAN = 2


def _stamp():
    """Return a hash of the names and contents of all kernel source files."""
    folder, digest = Path(__file__).parent, hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        text = path.read_bytes()
        digest.update(f"{path.relative_to(folder).as_posix()} {len(text)}\n".encode() + text)
    return digest.hexdigest()[:16]


def _cache_folder():
    """Return the folder of the machine code of these sources, or None if no folder is writable.

    Machine code contains what it inlines from other files, and numba's cache does not look at
    those. So each version of the sources has a folder of its own.
    """
    beside = Path(__file__).parent / "__pycache__"
    given = numba.config.CACHE_DIR
    for base in [Path(given)] if given else [beside, Path("~/.cache/pairlearn").expanduser()]:
        folder = base / f"kernels-{_stamp()}"
        with contextlib.suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            for old in beside.glob("kernels-*"):
                if old != folder:
                    shutil.rmtree(old, ignore_errors=True)
            return str(folder)
    return None


_FOLDER = _cache_folder()


def _keep_on_disk(compiled):
    """Give a compiled function the disk cache of kernels, where one is possible."""
    before = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = _FOLDER
    try:
        # RuntimeError: no folder is writable; each process compiles.
        with contextlib.suppress(RuntimeError):
            compiled.enable_caching()
    finally:
        numba.config.CACHE_DIR = before


def jit(function=None, *, cache=True, nogil=True, **options):
    """Compile lazily, cache on disk where possible, release the GIL unless told otherwise.

    Kernels do not allocate or count references: the caller's references outlive the call, and
    passing arrays and tuples between functions costs nothing. Without a function, return a
    decorator with these options.
    """
    if function is None:
        return lambda function: jit(function, cache=cache, nogil=nogil, **options)
    compiled = numba.njit(nogil=nogil, error_model="numpy", _nrt=False, **options)(function)
    if cache and _FOLDER is not None:
        _keep_on_disk(compiled)
    return compiled


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
#: Makes an inlined piece of such kernels.
part = jit(**_LEARNING, cache=False, forceinline=True)
#: Makes a kernel that computes exactly as written, even for sizes where x + 1 equals x. Flags that
#: are not given are those of the kernel for which it is compiled first, so they are given.
as_written = jit(fastmath=False, pipeline_class=_Apart)
#: Makes an inlined piece of such kernels.
part_as_written = jit(fastmath=False, pipeline_class=_Apart, cache=False, forceinline=True)


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
    """Prefetch the cache line that holds the number `index` of a C-contiguous array."""

    def codegen(context, builder, signature, args):
        numbers = context.make_array(signature.args[0])(context, builder, args[0]).data
        bytes_, flag = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [bytes_, flag, flag, flag])
        ask = builder.module.declare_intrinsic("llvm.prefetch", [bytes_], kind)
        address = builder.bitcast(builder.gep(numbers, [args[1]]), bytes_)
        builder.call(ask, [address, flag(0), flag(3), flag(1)])
        return context.get_dummy_value()

    return types.void(array, types.uintp), codegen


@kernel
def call_each(address, scores, y, y_partner, parameter, result):
    """Fill `result` with the scalar function of each pair."""
    for k in range(len(scores)):
        result[k] = call_scalar(address, scores[k], y[k], y_partner[k], parameter)
