# SPDX-License-Identifier: BSD-3-Clause
"""Which examples are paired: pairings, turned into index arrays before a kernel runs.

A pairing has two forms. Offline, `offline(n, rng, y=...)` returns a source that draws the next
steps from n stored examples (Algorithm 1 and its rivals). Online, `online(rng)` returns a source
that receives the labels of each chunk, and returns the pairs and the examples to remember
(Algorithm 2 and its rivals). A source may look at labels, never at the parameter.
"""

from pairlearn.pairings.buffers import AllPrevious, ClassReservoirs, FifoBuffer, ReservoirBuffer
from pairlearn.pairings.pairs import (
    FrozenExample,
    GivenPairs,
    ListedPairs,
    PreviousExample,
    PreviousOpposite,
    RandomEarlier,
    RandomPair,
)
from pairlearn.pairings.plans import (
    PAIRINGS,
    Arrival,
    OfflineSource,
    OnlineSource,
    Pairing,
    Plan,
    SlotPlan,
)
from pairlearn.pairings.queries import PreviousOfQuery

__all__ = [
    "PAIRINGS",
    "AllPrevious",
    "Arrival",
    "ClassReservoirs",
    "FifoBuffer",
    "FrozenExample",
    "GivenPairs",
    "ListedPairs",
    "OfflineSource",
    "OnlineSource",
    "Pairing",
    "Plan",
    "PreviousExample",
    "PreviousOfQuery",
    "PreviousOpposite",
    "RandomEarlier",
    "RandomPair",
    "ReservoirBuffer",
    "SlotPlan",
]
