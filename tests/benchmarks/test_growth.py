# SPDX-License-Identifier: BSD-3-Clause
"""Exponents of growth, from a clock of our own."""

from __future__ import annotations

import pytest
from benchmarks.report import Effort

from benchmarks import growth


@pytest.mark.parametrize(("power", "is_linear"), [(1, True), (2, False)])
def test_the_exponent_is_that_of_the_work(monkeypatch, power, is_linear):
    now = 0.0

    def make(size, folder):
        def work():
            nonlocal now
            now += 1e-3 * size**power

        return work

    monkeypatch.setattr(growth.time, "process_time", lambda: now)
    case = growth.Case("a reader", "columns", [10, 20, 40, 80], make)
    seconds, memory = growth.measured(case, Effort(quick=True))
    assert seconds.ratio == pytest.approx(power)
    assert seconds.ok == is_linear
    assert seconds.name == "a reader, columns: seconds"
    assert memory.ratio < 0.5


def test_a_cost_by_design_says_so_and_has_its_own_bar():
    by_design = [case for case in growth.CASES if case.power > 1]
    assert by_design
    assert all(case.design in case.title for case in by_design)
    assert all(not case.design for case in growth.CASES if case.power == 1)


def test_sizes_grow_by_one_factor():
    for case in growth.CASES:
        factors = {b / a for a, b in zip(case.sizes, case.sizes[1:], strict=False)}
        assert len(factors) == 1, case.title
