# SPDX-License-Identifier: BSD-3-Clause
"""A sample by content: any order, chunks and copies give the sample of a plain sort."""

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from pairlearn.content import keys_of, row_hashes
from pairlearn.solvers.rows import as_rows
from pairlearn.solvers.streams.sample import ContentSample


def plain(X, y, weight, seed, size):
    """Return the sample by dictionaries: key -> (row, weight, copies), sorted and cut."""
    rows, signs, weights = [], [], []
    for sign in (-1.0, 1.0):
        found = {}
        for row, w in zip(X[y == sign], weight[y == sign], strict=True):
            key = int(keys_of(row_hashes(row[None]), seed)[0])
            _, total, copies = found.get(key, (row, 0.0, 0))
            found[key] = (row, total + w, copies + 1)
        kept = [found[key] for key in sorted(found)[:size]]
        room = sum(c for _, _, c in kept) <= size and all(w == c for _, w, c in kept)
        for row, w, c in kept:
            for _ in range(c if room else 1):
                rows.append(row)
                signs.append(sign)
                weights.append(1.0 if room else w)
    return np.array(rows).reshape(-1, X.shape[1]), np.array(signs), np.array(weights)


def same(sample, expected):
    found = sample.drawn()
    X, y, weight = expected
    np.testing.assert_array_equal(found.X, X)
    np.testing.assert_array_equal(found.y, y)
    own = found.weight if len(found.weight) else np.ones(len(y))
    np.testing.assert_array_equal(own, weight)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 12), st.integers(1, 7), st.booleans())
def test_any_order_and_chunks_give_the_sample_of_a_plain_sort(seed, size, n_chunks, weighted):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 60))
    X = rng.integers(0, 4, size=(n, 2)) * 1.0
    y = rng.choice([-1.0, 1.0], n)
    weight = rng.integers(1, 4, n) * 1.0 if weighted else np.ones(n)
    sample = ContentSample(2, seed=5, size=size)
    order = rng.permutation(n)
    for part in np.array_split(order, n_chunks):
        made = scipy.sparse.csr_array(X[part]) if rng.random() < 0.3 else X[part]
        sample.add(as_rows(made), y[part], weight[part])
        if rng.random() < 0.3:
            sample = ContentSample.from_state(sample.state(), 2)
    same(sample, plain(X, y, weight, 5, size))
    # Up to `size` different examples of a class can go, and others take their places.
    gone = order[: min(n // 2, size)]
    left = order[len(gone) :]
    rest = sample.without(as_rows(X[gone]), y[gone], weight[gone])
    same(rest, plain(X[left], y[left], weight[left], 5, size))
    same(sample, plain(X, y, weight, 5, size))


def test_examples_that_were_not_added_are_refused():
    X, y = np.arange(8.0)[:, None], np.tile([-1.0, 1.0], 4)
    sample = ContentSample(1, seed=0).add(as_rows(X), y)
    for rows, labels in (([[9.0]], [1.0]), ([[0.0]], [1.0]), ([[0.0], [0.0]], [-1.0, -1.0])):
        with pytest.raises(ValueError, match="not all among those that were learned"):
            sample.without(as_rows(np.array(rows)), np.array(labels))
    with pytest.raises(ValueError, match="not all among those that were learned"):
        sample.without(as_rows(X[:1]), y[:1], np.array([2.0]))
