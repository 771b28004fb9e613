# SPDX-License-Identifier: BSD-3-Clause
"""Where the parameter may live: the set W and the projection onto it.

To write your own, derive from `CoordinatewiseDomain` and decorate one function::

    class Clipped(CoordinatewiseDomain):
        @scalar
        def proximal(value, step_size, first, second):
            return min(max(value, -1.0), 1.0)
"""

from __future__ import annotations

from pairlearn.domains.coordinatewise import Box, CoordinatewiseDomain, ElasticNet, NonNegative
from pairlearn.domains.sets import Ball, PsdBall, PsdCone, PsdSet, WholeSpace, ball_or_whole
from pairlearn.register import Register

__all__ = [
    "DOMAINS",
    "Ball",
    "Box",
    "CoordinatewiseDomain",
    "Domain",
    "ElasticNet",
    "NonNegative",
    "PsdBall",
    "PsdCone",
    "PsdSet",
    "WholeSpace",
    "ball_or_whole",
]

Domain = WholeSpace | Ball | PsdCone | PsdBall | CoordinatewiseDomain

DOMAINS: Register[Domain] = Register("domain", Domain)
for _one in (WholeSpace, Ball, PsdCone, PsdBall, Box, NonNegative, ElasticNet):
    DOMAINS.add()(_one)
