# SPDX-License-Identifier: BSD-3-Clause
"""Examples of the inner functions of this room."""

import re

import pytest

pytest.importorskip("triton")

from pairlearn.gpu.device import check_device
from pairlearn.gpu.pairs import tile_for
from pairlearn.losses import Exponential
from pairlearn.solvers.descent.sweep_gpu import check_built_in, portions_of


def test_check_device():
    with pytest.raises(
        ValueError, match=re.escape("device must be one of cpu, cuda, auto, got 'tpu'.")
    ):
        check_device("tpu")


def test_tile_for():
    assert repr(tile_for(22)) == "Tile(models=8, warps=1)"
    assert repr(tile_for(780)) == "Tile(models=4, warps=2)"


def test_check_built_in():
    with pytest.raises(
        ValueError, match=r"Exponential\(one_sided=False\) is not built into the device's kernel,.*"
    ):
        check_built_in(Exponential())


def test_portions_of():
    assert (portions_of(70_000), portions_of(100, (30,))) == ([32768, 32768, 4464], [30, 70])
