# SPDX-License-Identifier: BSD-3-Clause
"""Growth is found where it is planted, by a clock of our own; every shape is read or refused."""

from __future__ import annotations

import contextlib
from random import Random

import pytest

from fuzzing import growing


@pytest.mark.parametrize(("power", "is_found"), [(1, False), (1.2, False), (2, True)])
def test_a_quadratic_reader_is_found(monkeypatch, power, is_found):
    now = 0.0

    def read(size):
        nonlocal now
        now += (size / 1_000) ** power

    monkeypatch.setattr(growing.time, "process_time", lambda: now)
    if is_found:
        with pytest.raises(
            AssertionError, match=r"size 2000 takes 4\.000 s and 8000 takes 64\.000 s"
        ):
            growing.check_growth(read, 2_000)
    else:
        growing.check_growth(read, 2_000)


@pytest.mark.parametrize("shape", growing._SHAPES)
@pytest.mark.parametrize("size", [1, 3, 40])
def test_every_shape_is_read_or_refused(tmp_path, shape, size):
    target = growing.Growing()
    with contextlib.suppress(*target.expected):
        target.use(growing._Input(shape, size, is_large=False), tmp_path)


def test_some_inputs_are_large():
    target = growing.Growing()
    made = [target.make(Random(k)) for k in range(2_000)]
    assert 0 < sum(one.is_large for one in made) < 40
    assert {one.shape for one in made} == set(growing._SHAPES)
