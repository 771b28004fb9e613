# SPDX-License-Identifier: BSD-3-Clause
"""Choose the kernel that takes the steps, by loss, number type and row length.

A model holds the position of a kernel in `KERNELS` instead of the kernel. Kernels are imported when
a position is first asked for, since they import numba.
"""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["KERNELS", "dense_kernel", "finding_kernel", "meeting_kernel"]

#: The kernels in use.
KERNELS: list[Any] = []


def _place_of(kernel: Any) -> int:
    """Return the position of a kernel, for a model to hold.

    Tools that walk over all objects of a model, as River does to measure memory, would otherwise
    walk into the compiler.
    """
    if kernel not in KERNELS:
        KERNELS.append(kernel)
    return KERNELS.index(kernel)


def dense_kernel(d: int, dtype: Any, *, hinge: bool) -> tuple[int, Any]:
    """Return the position of the kernel for dense rows of d numbers, and its scratch space."""
    if _in_registers(d, dtype, hinge=hinge):
        from pairlearn.kernels.steps.short_rows import LANES, descend_short

        return _place_of(descend_short), (0,) * -(-d // LANES)
    from pairlearn.kernels.steps.dense import descend

    return _place_of(descend), np.empty(d, dtype=dtype)


def meeting_kernel(d: int, dtype: Any, *, hinge: bool) -> int:
    """Return the position of the kernel that learns one example as `dense_kernel` would."""
    if _in_registers(d, dtype, hinge=hinge):
        from pairlearn.kernels.steps.short_rows import meet_short

        return _place_of(meet_short)
    from pairlearn.kernels.steps.dense import meet_previous

    return _place_of(meet_previous)


def finding_kernel() -> int:
    """Return the position of the kernel that finds the active pairs of a plan."""
    from pairlearn.kernels.plan import find_active

    return _place_of(find_active)


def _in_registers(d: int, dtype: Any, *, hinge: bool) -> bool:
    """Return whether the iterate and rows of d numbers fit in registers."""
    from pairlearn.kernels.steps.short_rows import LONGEST, SHORTEST

    return hinge and dtype == np.float64 and SHORTEST <= d <= LONGEST
