# SPDX-License-Identifier: BSD-3-Clause
"""Run reservoir sampling over a path of examples, and record the changed slots.

Arrays
------
rows : int64, shape (n_steps,)
    The examples in the order of their arrival.
random : uint64, shape (1,)
    The state of SplitMix64, modified in place, so the sample does not depend on the chunks.
slots : int64
    The content of each slot, modified in place.
edit_offsets, edit_slots, edit_rows : int64
    Receive the edits after each step, as in `pairings.SlotPlan`.
"""

import math

import numpy as np

from pairlearn.kernels._native import kernel, part
from pairlearn.kernels.splitmix import STRIDE, below, mixed


@part
def _bits(random):
    """Return the next 64 random bits."""
    random[0] += STRIDE
    return mixed(random[0])


@part
def _below(random, n):
    """Return a uniform index below n < 2**32."""
    return np.int64(below(_bits(random), np.uint64(n)))


@part
def _uniform(random):
    """Return a uniform number in (0, 1]."""
    return (np.float64(_bits(random) >> np.uint64(11)) + 1.0) * 2.0**-53


@kernel
def fill_with_replacement(rows, n_seen, random, slots, before, edit_offsets, edit_slots, edit_rows):
    """Run RS-x (Kar et al. 2013) with replacement; return the number of edits.

    With empty `edit_slots` the edits are only counted. `before` is scratch, as long as `slots`.
    """
    size = len(slots)
    writes = len(edit_slots) > 0
    n_edits = 0
    for t in range(len(rows)):
        n_now = n_seen + t + 1
        if n_now <= size:
            slots[n_now - 1] = rows[t]
            if writes:
                edit_slots[n_edits] = n_now - 1
                edit_rows[n_edits] = rows[t]
            n_edits += 1
        elif n_now == size + 1:
            for q in range(size):
                before[q] = slots[q]
            for q in range(size):
                pick = _below(random, n_now)
                row = rows[t] if pick == size else before[pick]
                slots[q] = row
                if writes:
                    edit_slots[n_edits] = q
                    edit_rows[n_edits] = row
                n_edits += 1
        else:
            # Each slot is taken with probability 1/n; the gaps between takes are geometric.
            log_stay = math.log1p(-1.0 / n_now)
            gap = math.log(_uniform(random)) / log_stay
            q = 0
            while gap < size - q:
                q += np.int64(gap)
                slots[q] = rows[t]
                if writes:
                    edit_slots[n_edits] = q
                    edit_rows[n_edits] = rows[t]
                n_edits += 1
                q += 1
                gap = math.log(_uniform(random)) / log_stay
        edit_offsets[t + 1] = n_edits
    return n_edits


@kernel
def fill_by_class(
    rows,
    labels,
    sizes,
    n_seen,
    random,
    slots,
    zero_filled,
    sums,
    first,
    stop,
    edit_offsets,
    edit_slots,
    edit_rows,
    scale,
):
    """Run a reservoir without replacement for each class (Zhao et al. 2011); return the edits.

    `sizes` and `n_seen` hold the numbers for positives and negatives; the positives' slots come
    first. An example meets the slots of the other class, all of them if `zero_filled`. `scale` is
    max(1, N/s) if `sums`, else one over the number of slots met.
    """
    n_edits = 0
    for t in range(len(rows)):
        own = 0 if labels[t] > 0.0 else 1
        other = 1 - own
        size = sizes[other]
        filled = size if zero_filled else min(n_seen[other], size)
        first[t] = 0 if other == 0 else sizes[0]
        stop[t] = first[t] + filled
        if sums:
            scale[t] = max(1.0, n_seen[other] / size)
        else:
            scale[t] = 1.0 / max(filled, 1)
        n_seen[own] += 1
        slot = n_seen[own] - 1
        if slot >= sizes[own]:
            # Uniform among all examples of the class so far: kept with probability s/N.
            slot = _below(random, n_seen[own])
        if slot < sizes[own]:
            slot += own * sizes[0]
            slots[slot] = rows[t]
            edit_slots[n_edits] = slot
            edit_rows[n_edits] = rows[t]
            n_edits += 1
        edit_offsets[t + 1] = n_edits
    return n_edits
