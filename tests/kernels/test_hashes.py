# SPDX-License-Identifier: BSD-3-Clause
"""Keys that may occur twice, against sets of bits in Python."""

import numpy as np
import pytest

from pairlearn.kernels.hashes import find_suspects


@pytest.mark.parametrize("n_suspects", [64, 3])
@pytest.mark.parametrize("n_bits", [7, 8, 10])
def test_suspects_share_their_first_bits_with_another_key(n_bits, n_suspects):
    rng = np.random.default_rng(n_bits)
    keys = rng.integers(0, 2**64, size=40, dtype=np.uint64)
    keys[[3, 30]] = keys[7]
    words, few = (1 << n_bits) // 64, (1 << (n_bits - 1)) // 64
    # Words around the bits show what is written outside.
    seen, again = np.zeros((2, words + 200), dtype=np.uint64)
    suspects = np.zeros(n_suspects, dtype=np.uint64)
    middle, least = slice(100, 100 + words), slice(100, 100 + few)
    down = np.uint64(64 - n_bits), np.uint64(65 - n_bits)
    count = find_suspects(keys, *down, seen[middle], again[least], suspects)
    places = [int(key) >> (64 - n_bits) for key in keys]
    taken = [place for k, place in enumerate(places) if place in places[:k]]
    twice = {place >> 1 for place in taken}
    expected = [key for key in keys.tolist() if key >> (65 - n_bits) in twice]
    assert keys.tolist()[7] in expected
    assert count == min(len(expected), n_suspects)
    assert suspects[:count].tolist() == expected[:count]
    for found, size, ones in ((seen, words, places), (again, few, sorted(twice))):
        bits = np.zeros(64 * size, dtype=bool)
        bits[ones] = True
        own = np.unpackbits(found[100 : 100 + size].astype("<u8").view(np.uint8), bitorder="little")
        np.testing.assert_array_equal(own.astype(bool), bits)
        assert not found[:100].any()
        assert not found[100 + size :].any()
