# SPDX-License-Identifier: BSD-3-Clause
"""Which kernel takes the steps of a descent: by the width and type of rows, and the loss."""

from __future__ import annotations

from typing import Any

import numpy as np

from pairlearn.problem import Problem

#: The kernels in use. A model holds the place of a kernel here and not the kernel itself. Kernels
#: are imported when the first place is asked for, since numba comes with them.
KERNELS: list[Any] = []


def _place_of(kernel: Any) -> int:
    """Return the place of a kernel, for a model to hold.

    What walks over the objects that a model holds, as River does to measure its memory, would be
    led into the compiler.
    """
    if kernel not in KERNELS:
        KERNELS.append(kernel)
    return KERNELS.index(kernel)


def dense_kernel(d: int, dtype: Any, *, hinge: bool) -> tuple[int, Any]:
    """Return the place of the kernel for dense rows of d numbers, and its scratch space."""
    if _in_registers(d, dtype, hinge=hinge):
        from pairlearn.kernels.steps.short_rows import LANES, descend_short

        return _place_of(descend_short), (0,) * -(-d // LANES)
    from pairlearn.kernels.steps.dense import descend

    return _place_of(descend), np.empty(d, dtype=dtype)


def meeting_kernel(d: int, dtype: Any, *, hinge: bool) -> int:
    """Return the place of the kernel that learns one example as `dense_kernel` would."""
    if _in_registers(d, dtype, hinge=hinge):
        from pairlearn.kernels.steps.short_rows import meet_short

        return _place_of(meet_short)
    from pairlearn.kernels.steps.dense import meet_previous

    return _place_of(meet_previous)


def finding_kernel(problem: Problem) -> tuple[int, tuple[Any, ...]]:
    """Return the place of the kernel that finds the active pairs of a plan, and its rule.

    Active pairs differ in their labels, or a comparison of its own says which they are.
    """
    from pairlearn.kernels.plan import find_active, find_compared

    loss, comparison = problem.loss, problem.comparison
    if problem.by_labels:
        return _place_of(find_active), (loss.one_sided, not loss.opposite_labels_only)
    rule = (comparison.direction.address, *comparison.parameters, loss.one_sided)
    return _place_of(find_compared), rule


def _in_registers(d: int, dtype: Any, *, hinge: bool) -> bool:
    """Tell whether iterate and rows of d numbers stay in registers."""
    from pairlearn.kernels.steps.short_rows import LONGEST, SHORTEST

    return hinge and dtype == np.float64 and SHORTEST <= d <= LONGEST
