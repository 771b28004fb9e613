# SPDX-License-Identifier: BSD-3-Clause
"""Registers: names of parts, clashes, and a class that is defined again."""

from dataclasses import dataclass

import pytest

from pairlearn import Hinge
from pairlearn.losses import LOSSES
from pairlearn.models import ModelFileError, register_part


def test_a_class_that_is_defined_again_replaces_itself():
    made = []
    try:
        for _ in range(2):  # a cell of a notebook, run twice

            @dataclass(frozen=True)
            class Mine(Hinge):
                pass

            register_part(Mine, "mine")
            made.append(Mine)
        assert type(LOSSES.make("mine")) is made[1]
        assert LOSSES.types["Mine"] is made[1]
    finally:
        LOSSES.discard(made[-1])
    assert "mine" not in LOSSES


def test_another_class_of_a_known_name_is_refused():
    other = dataclass(frozen=True)(type("Hinge", (Hinge,), {}))
    with pytest.raises(ModelFileError, match="'Hinge' is already known; rename yours"):
        register_part(other)
