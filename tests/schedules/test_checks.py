# SPDX-License-Identifier: BSD-3-Clause
"""check_schedule: every schedule of the package passes, and slips are found."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from pairlearn import Constant, InverseSqrt, InverseTime
from pairlearn.schedules import Schedule, StronglyConvex
from pairlearn.testing import check_schedule


@pytest.mark.parametrize(
    "schedule",
    [Constant(0.1), InverseSqrt(3.0), InverseTime(1.0, offset=4.0), StronglyConvex.of(alpha=0.5)],
    ids=repr,
)
@pytest.mark.parametrize("n_steps", [1, 2, 50_000])
def test_schedules_of_the_package(schedule, n_steps):
    check_schedule(schedule, n_steps=n_steps)


def of(shape, **attributes):
    """Return a schedule with the given shape."""
    return dataclass(frozen=True)(type("Mine", (Schedule,), {"shape": shape, **attributes}))(1.0)


class Own:
    """Step sizes that do not come from a shape."""

    @dataclass(frozen=True)
    class Unscaled(Schedule):
        def step_sizes(self, first, count):
            return np.ones(count)

    @dataclass(frozen=True)
    class Short(Schedule):
        def step_sizes(self, first, count):
            return np.ones(count - 1)


@pytest.mark.parametrize(
    ("schedule", "message"),
    [
        (of(lambda _, t: 1.0 - t / 50.0), "steps by .*0.0.* at step 50; step sizes must be pos"),
        (of(lambda _, t: np.where(t == 7, np.nan, 1.0)), "nan.* at step 7"),
        (of(lambda _, t: 1.0 / (1.0 + t - t[0])), "depend on the steps alone"),
        (of(lambda _, t: 1.0 / t, is_constant=True), "is_constant, so all steps"),
        (of(lambda _, t: np.float32(1.0)), "one float64 number a step"),
        (Own.Unscaled(1.0), "must double each step; step 1 is 1.0 instead of 2.0"),
        (Own.Short(1.0), "shape .99,.; shape.steps. must return"),
    ],
)
def test_slips_are_found(schedule, message):
    with pytest.raises(ValueError, match=message):
        check_schedule(schedule, n_steps=100)


def test_state_between_calls_is_found():
    @dataclass(frozen=True)
    class Counting(Schedule):
        calls: ClassVar[list] = []

        def shape(self, steps):
            self.calls.append(0)
            return np.full_like(steps, float(len(self.calls)))

    with pytest.raises(ValueError, match="depend on the steps alone"):
        check_schedule(Counting(1.0))


def test_what_is_not_a_schedule():
    with pytest.raises(TypeError, match="an instance, not a class"):
        check_schedule(Constant)
