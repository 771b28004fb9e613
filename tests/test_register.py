# SPDX-License-Identifier: BSD-3-Clause
"""Registers: names of parts, clashes, and a class that is defined again."""

import json
from dataclasses import dataclass

import pytest
from sklearn.base import clone

from pairlearn import Hinge
from pairlearn.losses import LOSSES
from pairlearn.models import ModelFileError, register_part
from pairlearn.models.parts import _import_rooms as import_rooms
from pairlearn.models.parts import decode, encode
from pairlearn.register import REGISTERS


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


def _parts():
    import_rooms()
    for register in REGISTERS.values():
        made = {name: register[name] for name in register}
        for name, make in made.items():
            yield pytest.param(make, id=f"{register.kind} {name}")


@pytest.mark.parametrize("make", list(_parts()))
def test_every_named_part_goes_through_the_model_file_and_a_clone(make):
    part = make()
    found = decode(json.loads(json.dumps(encode(part, "part"))), "part")
    assert found == part
    assert type(found) is type(part)
    copied = clone(part, safe=False)
    assert copied == part
    assert type(part)(**part.get_params(deep=False)) == part
