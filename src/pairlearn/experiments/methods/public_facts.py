# SPDX-License-Identifier: BSD-3-Clause
"""Public bounds and kinds of features of the paper's two small data sets.

They come from the documentation of the data, not from the data: private learners know no more.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PublicFacts:
    """Bounds of the features; levels are 0 for continuous, k for a code of k levels."""

    lower: tuple[float, ...]
    upper: tuple[float, ...]
    levels: tuple[int, ...]


_GERMAN_LOWER = (1, 0, 0, 0, 1, 1, 1, 1, 1, 18, 1, 1, 1, 1, 1) + (0,) * 9
_GERMAN_UPPER = (4, 72, 4, 200, 5, 5, 4, 4, 4, 80, 3, 4, 2, 2, 2) + (1,) * 9

#: By the names of `pairlearn.data.load`.
PUBLIC_FACTS = {
    "diabetes": PublicFacts(
        (0, 0, 0, 0, 0, 0, 0, 20), (20, 200, 140, 100, 900, 70, 2.5, 90), (0,) * 8
    ),
    "german": PublicFacts(
        _GERMAN_LOWER,
        _GERMAN_UPPER,
        tuple(
            # Duration, credit amount and age are continuous.
            0 if j in (1, 3, 9) else high - low + 1
            for j, (low, high) in enumerate(zip(_GERMAN_LOWER, _GERMAN_UPPER, strict=True))
        ),
    ),
}
