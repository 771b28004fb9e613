# SPDX-License-Identifier: BSD-3-Clause
"""The plain loops in C do what the limits are said to be made of."""

import numpy as np
import pytest
from benchmarks.report import Effort, UnavailableError
from benchmarks.roofline import HotPath, _row, plain


@pytest.fixture
def library():
    try:
        return plain()
    except UnavailableError as reason:
        pytest.skip(str(reason))


def test_copy_and_products(library):
    rng = np.random.default_rng(0)
    there, here = rng.normal(size=1001), np.zeros(1001)
    library.copy(here.ctypes.data, there.ctypes.data, 1001)
    assert np.array_equal(here, there)
    numbers = rng.normal(size=64)
    expected = numbers.copy()
    for _ in range(10):
        expected = expected * 0.999999 + 1e-6
    library.multiply(numbers.ctypes.data, 10)
    np.testing.assert_allclose(numbers, expected, rtol=1e-12)


def test_digits(library):
    values = [1.5, -2.25, 1000.0, 0.000001, -7.0]
    text = ",".join(f"{value:.6f}" for value in values).encode() + b"\n"
    assert library.read_digits(text, len(text)) == pytest.approx(sum(values), abs=1e-12)


def test_the_nearer_limit_is_taken(library):
    def row(n_bytes, n_operations):
        path = HotPath("p", lambda: sum(range(1000)), 1.0, n_bytes, n_operations, 8000)
        return _row(path, Effort(quick=True))

    assert "limit of bytes" in row(1e6, 1.0).name
    assert "limit of operations" in row(1.0, 1e6).name
