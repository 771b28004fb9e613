# SPDX-License-Identifier: BSD-3-Clause
"""The exact AUC of the last W examples, updated as examples enter and leave.

The scores of the window are in sorted blocks of about sqrt(W) entries, which a directory lists in
order. An example that enters or leaves changes the number of correctly ordered pairs by its rank
among the other class. The rank is a sum over the directory and a search in one block.
"""

from __future__ import annotations

import numpy as np

from pairlearn.kernels._native import inline, jit

# Positions in the integer state of a window.
HEAD, SIZE, N_POSITIVE, TWICE_WINS, N_BLOCKS, N_FREE = range(6)
STATE_SIZE = 6


@inline
def _find_block(score, order, n_blocks, keys, sizes):
    """Position in the directory of the first block whose last key is not below the score."""
    low, high = 0, n_blocks
    while low < high:
        middle = (low + high) // 2
        b = order[middle]
        if keys[b, sizes[b] - 1] < score:
            low = middle + 1
        else:
            high = middle
    return low


@inline
def _find_key(score, keys, b, size):
    """Index of the first key that is not below the score."""
    low, high = 0, size
    while low < high:
        middle = (low + high) // 2
        if keys[b, middle] < score:
            low = middle + 1
        else:
            high = middle
    return low


@inline
def _count(score, wanted, order, state, keys, labels, sizes, positives):
    """Return how many entries with label `wanted` lie below the score, and how many equal it."""
    place = _find_block(score, order, state[N_BLOCKS], keys, sizes)
    n_below, positive_below = 0, 0
    for k in range(place):
        b = order[k]
        n_below += sizes[b]
        positive_below += positives[b]
    n_equal, positive_equal = 0, 0
    k = place
    while k < state[N_BLOCKS]:
        b = order[k]
        if keys[b, 0] > score:
            break
        if keys[b, 0] == score and keys[b, sizes[b] - 1] == score:
            n_equal += sizes[b]
            positive_equal += positives[b]
        else:
            i = _find_key(score, keys, b, sizes[b])  # beyond the first block this is 0
            n_below += i
            for j in range(i):
                positive_below += np.int64(labels[b, j])
            while i < sizes[b] and keys[b, i] == score:
                n_equal += 1
                positive_equal += np.int64(labels[b, i])
                i += 1
            if i < sizes[b]:
                break
        k += 1
    if wanted:
        return positive_below, positive_equal
    return n_below - positive_below, n_equal - positive_equal


@inline
def _gain(score, label, order, state, keys, labels, sizes, positives):
    """Twice the number of correctly ordered pairs (a tie is half) with this example."""
    below, equal = _count(score, 1 - label, order, state, keys, labels, sizes, positives)
    if label:
        return 2 * below + equal
    return 2 * (state[N_POSITIVE] - below - equal) + equal


@inline
def _insert(score, label, order, free, state, keys, labels, sizes, positives):
    """Insert an example into its block, and split the block if it is full."""
    place = min(
        _find_block(score, order, state[N_BLOCKS], keys, sizes), max(0, state[N_BLOCKS] - 1)
    )
    if state[N_BLOCKS] == 0:
        state[N_FREE] -= 1
        order[0] = free[state[N_FREE]]
        sizes[order[0]] = 0
        positives[order[0]] = 0
        state[N_BLOCKS] = 1
    b = order[place]
    capacity = keys.shape[1]
    if sizes[b] == capacity:
        state[N_FREE] -= 1
        new = free[state[N_FREE]]
        half = capacity // 2
        moved = 0
        for i in range(half, capacity):
            keys[new, i - half] = keys[b, i]
            labels[new, i - half] = labels[b, i]
            moved += labels[b, i]
        sizes[new], positives[new] = capacity - half, moved
        sizes[b] = half
        positives[b] -= moved
        for k in range(state[N_BLOCKS], place + 1, -1):
            order[k] = order[k - 1]
        order[place + 1] = new
        state[N_BLOCKS] += 1
        if score > keys[b, half - 1]:
            b = new
    i = _find_key(score, keys, b, sizes[b])
    for j in range(sizes[b], i, -1):
        keys[b, j] = keys[b, j - 1]
        labels[b, j] = labels[b, j - 1]
    keys[b, i] = score
    labels[b, i] = label
    sizes[b] += 1
    positives[b] += label
    state[N_POSITIVE] += label


@inline
def _remove(score, label, order, free, state, keys, labels, sizes, positives):
    """Remove an example from its block, and free the block if it becomes empty."""
    k = _find_block(score, order, state[N_BLOCKS], keys, sizes)
    while k < state[N_BLOCKS]:
        b = order[k]
        i = _find_key(score, keys, b, sizes[b])
        with_label = positives[b] if label else sizes[b] - positives[b]
        if with_label > 0:
            while i < sizes[b] and keys[b, i] == score and labels[b, i] != label:
                i += 1
            if i < sizes[b] and keys[b, i] == score:
                for j in range(i, sizes[b] - 1):
                    keys[b, j] = keys[b, j + 1]
                    labels[b, j] = labels[b, j + 1]
                sizes[b] -= 1
                positives[b] -= label
                state[N_POSITIVE] -= label
                if sizes[b] == 0:
                    for j in range(k, state[N_BLOCKS] - 1):
                        order[j] = order[j + 1]
                    state[N_BLOCKS] -= 1
                    free[state[N_FREE]] = b
                    state[N_FREE] += 1
                return
        k += 1


@jit
def fill_blocks(n, sorted_keys, sorted_labels, order, free, state, keys, labels, sizes, positives):
    """Write n entries, sorted by key, into half-full blocks."""
    n_all, half = len(sizes), keys.shape[1] // 2
    used = 0
    for begin in range(0, n, half):
        stop = min(n, begin + half)
        sizes[used], positives[used] = stop - begin, 0
        for i in range(begin, stop):
            keys[used, i - begin] = sorted_keys[i]
            labels[used, i - begin] = sorted_labels[i]
            positives[used] += np.int64(sorted_labels[i])
        order[used] = used
        used += 1
    state[N_BLOCKS] = used
    state[N_FREE] = n_all - used
    for k in range(n_all - used):
        free[k] = n_all - 1 - k


@inline
def _pack(order, free, state, keys, labels, sizes, positives, spare_keys, spare_labels):
    """Refill the blocks when splitting has used all of them."""
    n = 0
    for k in range(state[N_BLOCKS]):
        b = order[k]
        for i in range(sizes[b]):
            spare_keys[n] = keys[b, i]
            spare_labels[n] = labels[b, i]
            n += 1
    fill_blocks(n, spare_keys, spare_labels, order, free, state, keys, labels, sizes, positives)


@jit
def slide(
    scores, classes, ring_scores, ring_labels, order, free, state, keys, labels, sizes, positives,
    spare_keys, spare_labels,
):  # fmt: skip
    """Let examples enter the window one by one; each pushes out the oldest if it is full."""
    window = len(ring_scores)
    for t in range(len(scores)):
        head = state[HEAD]
        if state[SIZE] == window:
            old, label = ring_scores[head], np.int64(ring_labels[head])
            _remove(old, label, order, free, state, keys, labels, sizes, positives)
            state[TWICE_WINS] -= _gain(old, label, order, state, keys, labels, sizes, positives)
        else:
            state[SIZE] += 1
        if state[N_FREE] == 0:
            _pack(order, free, state, keys, labels, sizes, positives, spare_keys, spare_labels)
        score, label = scores[t], np.int64(classes[t])
        state[TWICE_WINS] += _gain(score, label, order, state, keys, labels, sizes, positives)
        _insert(score, label, order, free, state, keys, labels, sizes, positives)
        ring_scores[head] = score
        ring_labels[head] = label
        state[HEAD] = head + 1 if head + 1 < window else 0
