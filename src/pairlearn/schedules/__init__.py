# SPDX-License-Identifier: BSD-3-Clause
"""Schedules of step sizes."""

from pairlearn.schedules.check import check_schedule
from pairlearn.schedules.shapes import Constant, InverseSqrt, InverseTime, Schedule, StronglyConvex

__all__ = ["Constant", "InverseSqrt", "InverseTime", "Schedule", "StronglyConvex", "check_schedule"]
