# SPDX-License-Identifier: BSD-3-Clause
"""Arguments of kernels that go together.

A solver hands over plain tuples, whose types numba knows at once (a named tuple takes it 5 us), and
a kernel gives the names: ``loss = Loss(*loss)``.
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

    At step t the example ``current[t]`` meets the slots from ``first[t]`` to ``stop[t]``; after it
    the slots ``edit_slots`` receive ``edit_rows``, from ``edit_offsets[t]`` to
    ``edit_offsets[t + 1]``.
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
    """The derivative of a loss by address, and the pairs that it looks at."""

    address: Any
    parameter: Any
    one_sided: Any
    all_pairs: Any
