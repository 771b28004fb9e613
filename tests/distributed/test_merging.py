# SPDX-License-Identifier: BSD-3-Clause
"""The tree of merges: neighbours first, the same for engines that merge eight at a time."""

import numpy as np
import pytest

from pairlearn.distributed import Statistic


class Told(Statistic):
    """The order of merges, as brackets."""

    def partial_state(self, X, y=None, sample_weight=None):
        return {"told": str(X)}

    def combine(self, a, b):
        return {"told": f"({a['told']} {b['told']})"}

    def finish(self, state):
        return state.get("told", "")


def in_pairs(statistic, level):
    """Merge neighbours level by level."""
    while len(level) > 1:
        paired = [statistic.merge(*level[k : k + 2]) for k in range(0, len(level) - 1, 2)]
        level = paired + level[2 * len(paired) :]
    return level[0] if level else {}


@pytest.mark.parametrize("n", [0, 1, 2, 3, 7, 8, 11, 50])
@pytest.mark.parametrize("fan_in", [2, 8])
def test_groups_of_eight_make_the_tree_of_all(n, fan_in):
    told = Told()
    states = level = [told.partial_state(k) for k in range(n)]
    while len(level) > 1:
        level = [told.merge_all(level[k : k + fan_in]) for k in range(0, len(level), fan_in)]
    whole = told.finish(told.merge_all(iter(states)))
    assert whole == told.finish(level[0] if level else {})
    assert whole == told.finish(in_pairs(told, states))


@pytest.mark.parametrize("size", [1, 2, 4, 8])
@pytest.mark.parametrize("n_parts", [1, 5, 17, 40])
@pytest.mark.parametrize("short", [0, 1 << 14])
def test_any_number_of_partitions_a_task_makes_the_tree_of_all(n_parts, size, short, monkeypatch):
    da = pytest.importorskip("dask.array", reason="needs the extra dask")
    from pairlearn.distributed import DaskEngine
    from pairlearn.distributed.dask import passes
    from pairlearn.distributed.dask.parts import parts_of

    monkeypatch.setattr(passes, "_SHORT", short)
    monkeypatch.setattr(DaskEngine, "_batch", lambda self, parts: size)
    X = np.arange(n_parts, dtype=float)[:, None]
    parts, told = parts_of(da.from_array(X, chunks=(1, 1))), Told()
    expected = told.merge_all([told.partial_state(row[None]) for row in X])
    assert DaskEngine().run(parts, told) == expected
