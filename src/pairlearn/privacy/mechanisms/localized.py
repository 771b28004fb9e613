# SPDX-License-Identifier: BSD-3-Clause
"""The base class of localized mechanisms: stages that see disjoint blocks of rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pairlearn.privacy.mechanisms.base import Mechanism
from pairlearn.privacy.noise import NoiseSource
from pairlearn.typing import Vector


class LocalizedMechanism(Mechanism):
    """A mechanism of stages on disjoint blocks of rows: each may spend the whole budget.

    Rows are dealt to the stages in a secret order that does not depend on the data, so the result
    depends on the set of examples and not on their order (lemma 7).
    """

    composes = False
    relations = ("replace",)
    missing_relation = (
        "Stages are blocks of rows: adding or removing one shifts the rows of every stage."
    )

    @staticmethod
    def blocks(
        Z: Vector, signs: Vector, sizes: Iterable[int], noise: NoiseSource
    ) -> Iterator[tuple[Vector, Vector]]:
        """Yield the rows and signs of each stage, from all rows in a secret order."""
        order = noise.permutation(len(Z))
        start = 0
        for size in sizes:
            part = order[start : start + size]
            start += size
            yield Z[part], signs[part]
