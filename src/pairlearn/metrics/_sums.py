# SPDX-License-Identifier: BSD-3-Clause
"""The sums of losses by their scalar functions; new code asks `PairLoss.sums`."""

from __future__ import annotations

from pairlearn.losses import Exponential, SmoothedHinge, SquaredHinge, sums

__all__ = ["SUMS"]

SUMS = {
    (SquaredHinge.value, SquaredHinge.derivative): sums.squared_hinge,
    (SmoothedHinge.value, SmoothedHinge.derivative): sums.smoothed_hinge,
    (Exponential.value, Exponential.derivative): sums.exponential,
}
