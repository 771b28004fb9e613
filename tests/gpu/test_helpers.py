# SPDX-License-Identifier: BSD-3-Clause
"""Examples of the inner functions of this room."""

import re

import pytest

from pairlearn.gpu.device import check_device
from pairlearn.gpu.pairs import tile_for


def test_check_device():
    with pytest.raises(
        ValueError, match=re.escape("device must be one of cpu, cuda, auto, got 'tpu'.")
    ):
        check_device("tpu")


def test_tile_for():
    assert repr(tile_for(22)) == "Tile(models=4, warps=1)"
    assert repr(tile_for(780)) == "Tile(models=2, warps=2)"
