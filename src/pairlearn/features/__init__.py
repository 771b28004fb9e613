# SPDX-License-Identifier: BSD-3-Clause
"""Feature maps: the rows that the score sees, computed from the rows of the user.

To write your own, derive from `FeatureMap` and map a block of rows::

    @dataclass(frozen=True)
    class Squares(FeatureMap):
        def mapped(self, X):
            return np.hstack([X, X * X])
"""

from __future__ import annotations

from pairlearn.features.base import MAPS, Bounds, FeatureMap, Identity
from pairlearn.features.fourier import RandomFourier
from pairlearn.features.hats import Hats
from pairlearn.features.nystroem import Nystroem
from pairlearn.features.union import Union

__all__ = [
    "MAPS",
    "Bounds",
    "FeatureMap",
    "Hats",
    "Identity",
    "Nystroem",
    "RandomFourier",
    "Union",
]

MAPS.add("linear")(Identity)
MAPS.add("hats")(Hats)
MAPS.add("fourier")(RandomFourier)
MAPS.add()(Nystroem)
MAPS.add()(Union)
