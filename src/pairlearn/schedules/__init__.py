# SPDX-License-Identifier: BSD-3-Clause
"""Schedules of step sizes."""

from pairlearn.schedules.shapes import (
    SCHEDULES,
    Constant,
    InverseSqrt,
    InverseTime,
    Schedule,
    StronglyConvex,
)

__all__ = [
    "SCHEDULES",
    "Constant",
    "InverseSqrt",
    "InverseTime",
    "Schedule",
    "StronglyConvex",
]
