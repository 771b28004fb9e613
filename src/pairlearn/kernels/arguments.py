# SPDX-License-Identifier: BSD-3-Clause
"""Groups of kernel arguments.

A solver passes plain tuples, which numba types fast (a named tuple costs 5 us), and a kernel names
their fields: ``loss = Loss(*loss)``.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class Csr(NamedTuple):
    """Examples in CSR form, no index twice in a row."""

    data: Any
    indices: Any
    indptr: Any


class Meetings(NamedTuple):
    """The steps of a `pairings.SlotPlan`: int64 arrays.

    At step t the example ``current[t]`` meets the slots from ``first[t]`` to ``stop[t]``. Then the
    entries from ``edit_offsets[t]`` to ``edit_offsets[t + 1]`` put ``edit_rows`` into
    ``edit_slots``.
    """

    current: Any
    first: Any
    stop: Any
    edit_offsets: Any
    edit_slots: Any
    edit_rows: Any


class Iterate(NamedTuple):
    """The iterate and its weighted sum, modified in place, as in the dense kernel."""

    w: Any
    weighted_sum: Any
    left_iterate: Any
    state: Any


class Loss(NamedTuple):
    """The derivative of a loss by address, and which pairs count."""

    address: Any
    parameter: Any
    one_sided: Any
    all_pairs: Any
