# SPDX-License-Identifier: BSD-3-Clause
"""Keys that may occur twice, against sets of bits in Python."""

import numpy as np
import pytest

from pairlearn.kernels.hashes import find_suspects


@pytest.mark.parametrize("n_suspects", [64, 3])
@pytest.mark.parametrize("n_bits", [6, 7, 10])
def test_suspects_share_their_first_bits_with_another_key(n_bits, n_suspects):
    rng = np.random.default_rng(n_bits)
    keys = rng.integers(0, 2**64, size=40, dtype=np.uint64)
    keys[[3, 30]] = keys[7]
    words = (1 << n_bits) // 64
    # Words around the bits show what is written outside.
    seen, again = np.zeros((2, words + 200), dtype=np.uint64)
    suspects = np.zeros(n_suspects, dtype=np.uint64)
    middle = slice(100, 100 + words)
    count = find_suspects(keys, np.uint64(64 - n_bits), seen[middle], again[middle], suspects)
    places = [int(key) >> (64 - n_bits) for key in keys]
    twice = [
        key for key, place in zip(keys.tolist(), places, strict=True) if places.count(place) > 1
    ]
    assert count == min(len(twice), n_suspects)
    assert suspects[:count].tolist() == twice[:count]
    bits = np.zeros(64 * words, dtype=bool)
    bits[places] = True
    found = np.unpackbits(seen[middle].astype("<u8").view(np.uint8), bitorder="little")
    np.testing.assert_array_equal(found.astype(bool), bits)
    assert not seen[:100].any()
    assert not seen[100 + words :].any()
