# SPDX-License-Identifier: BSD-3-Clause
"""The bound of a loop in a kernel, for the compiler of Triton and for its interpreter.

The interpreter holds a number as an array of one element. Up to Triton 3.6 it hands that array to
`range`, and NumPy from 2.4 on takes no array with a dimension for a whole number.
"""

import triton
from triton.runtime.interpreter import InterpretedFunction


@triton.jit
def _unchanged(value):
    return value


def _whole(value):
    """Return the whole number that the interpreter holds."""
    return int(value) if isinstance(value, int) else int(value.handle.data.item())


#: A kernel writes ``range(bound(begin), bound(end))``. The compiler sees the number itself.
bound = _whole if isinstance(_unchanged, InterpretedFunction) else _unchanged
