# SPDX-License-Identifier: BSD-3-Clause
"""The paths of the device are those of the CPU, index for index."""

import numpy as np
import pytest

pytest.importorskip("triton")

from benchmarks.table1_on_device.plans import Draw, draw_plans, portions_of

from pairlearn import FifoBuffer, PreviousExample, PreviousOpposite, RandomPair


@pytest.mark.parametrize("n", [2, 37, 60_000, 2**20 + 1, 2**32 - 1])
@pytest.mark.parametrize("pairing", [PreviousExample(), RandomPair(), PreviousOpposite()])
def test_plans_are_the_same(pairing, n):
    if n > 2**31 and not isinstance(pairing, PreviousExample):
        n = 2**20
    y = np.where(np.arange(min(n, 2**20 + 1)) % 3 == 0, 1.0, -1.0)
    if n > len(y) and isinstance(pairing, PreviousOpposite):
        n = len(y)
    portions = [1, 500, 20]
    # Beside paths of other lengths and numbers of examples.
    others = [Draw(5, [3], np.random.default_rng(k), np.ones(5)) for k in range(2)]
    draw = Draw(n, portions, np.random.default_rng(7), y)
    _, (left, right), _ = draw_plans(pairing, [others[0], draw, others[1]], "cpu")
    source = pairing.offline(n, np.random.default_rng(7), y)
    plans = [source.draw(count) for count in portions]
    assert np.array_equal(left.numpy(), np.concatenate([plan.left for plan in plans]))
    assert np.array_equal(right.numpy(), np.concatenate([plan.right for plan in plans]))
    assert left.min() >= 0
    assert max(left.max(), right.max()) < n


def test_generators_stand_where_they_would_on_the_cpu():
    one, other = np.random.default_rng(3), np.random.default_rng(3)
    draw_plans(PreviousExample(), [Draw(10, [5, 5], one, np.ones(10))], "cpu")
    source = PreviousExample().offline(10, other)
    source.draw(5), source.draw(5)
    assert one.integers(2**63) == other.integers(2**63)


def test_paths_are_the_same_in_groups(monkeypatch):
    def drawn():
        generators = [np.random.default_rng(k) for k in range(4)]
        draws = [Draw(10 + k, [4, 5], rng, np.ones(10)) for k, rng in enumerate(generators)]
        return [np.stack(plan) for plan in draw_plans(PreviousExample(), draws, "cpu")]

    together = drawn()
    monkeypatch.setattr("benchmarks.table1_on_device.paths._TOGETHER", 20)
    np.testing.assert_array_equal(drawn(), together)


def test_a_buffer_is_refused():
    with pytest.raises(ValueError, match="one pair at a step"):
        draw_plans(FifoBuffer(3), [Draw(10, [5], np.random.default_rng(0), np.ones(10))], "cpu")


def test_portions_are_those_of_the_solvers():
    assert portions_of(70_000) == [32768, 32768, 4464]
    assert portions_of(40_000, (16, 35_000, 40_000)) == [16, 32768, 2216, 5000]
