# SPDX-License-Identifier: BSD-3-Clause
"""Run a mechanism on two neighbouring data sets with the same noise and the same draws.

The audit and the tests use these tools: worst-case neighbours, and how far apart what a mechanism
protects is on the two data sets.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pairlearn.privacy.accounting.certificate import Release
from pairlearn.privacy.audit.tape import recorded, replayed
from pairlearn.privacy.mechanisms.base import Mechanism, PublicSetting
from pairlearn.privacy.noise import NoiseSource
from pairlearn.typing import Vector


@dataclass(frozen=True)
class Neighbours:
    """Two neighbouring data sets in standard coordinates."""

    Z: Vector
    signs: Vector
    other: Vector
    other_signs: Vector
    #: The row that the second data set lacks, if it lacks one.
    removed: int | None = None

    @property
    def moved(self) -> NDArray[np.int64] | None:
        """The new index of each row; None if all rows keep theirs."""
        return None if self.removed is None else moved_rows(len(self.Z), self.removed)


def moved_rows(n: int, place: int) -> NDArray[np.int64]:
    """Return the new index of each of n rows where one is removed: it goes last, where none is.

    >>> moved_rows(4, 1).tolist()
    [0, 3, 1, 2]
    """
    return np.concatenate([np.arange(place), [n - 1], np.arange(place, n - 1)])


def worst_case_neighbours(setting: PublicSetting, *, label_is_worst: bool = False) -> Neighbours:
    """Return neighbours that are as far apart as the public bounds allow.

    All examples are negative and in the middle of the bounds, except for a positive one in a
    corner. Replacement moves it to the opposite corner: every pair with it is active and reverses.
    For "add_remove" the second data set lacks it.

    With `label_is_worst`, replacement changes its label instead: a metric does not tell opposite
    corners apart, but a changed label turns each of its pairs from far to near.
    """
    n = setting.n_examples
    Z = np.zeros((n, setting.n_features))
    signs = -np.ones(n)
    # Not the first row: in a single pass the first row is in one pair only.
    place = min(1, n - 1)
    Z[place] = setting.to_standard(setting.upper[None, :])[0]
    signs[place] = 1.0
    if setting.neighbours == "add_remove":
        return Neighbours(Z, signs, np.delete(Z, place, axis=0), np.delete(signs, place), place)
    other, other_signs = Z.copy(), signs.copy()
    if label_is_worst:
        other_signs[place] = -1.0
    else:
        other[place] = setting.to_standard(setting.lower[None, :])[0]
    return Neighbours(Z, signs, other, other_signs)


def made_in_pieces(releases: Sequence[Release], sizes: Sequence[int]) -> list[list[int]] | None:
    """Return the noisy vectors that each listed release is made of; None if they do not add up.

    A release may be made in pieces that follow each other: then its dimension is that of all of
    them, and its sensitivity bounds the distance of all of them together.

    >>> both = [Release("a", 4, 1.0, 1.0), Release("b", 3, 1.0, 1.0)]
    >>> made_in_pieces(both, [2, 2, 3]), made_in_pieces(both, [2, 3, 2])
    ([[0, 1], [2]], None)
    """
    found, place = [], 0
    for release in releases:
        first, filled = place, 0
        while filled < release.dimension and place < len(sizes):
            filled += sizes[place]
            place += 1
        if filled != release.dimension:
            return None
        found.append(list(range(first, place)))
    return found if place == len(sizes) else None


def release_distances(
    mechanism: Mechanism, neighbours: Neighbours, *, setting: PublicSetting, noise: NoiseSource
) -> list[tuple[float, float]]:
    """Return the distance between neighbours and its claimed bound, for each release of one run.

    Both are in units of the noise: distance / scale, and sensitivity / scale from the fit's
    releases. The distance must never exceed the bound.
    """
    with recorded() as record:
        fit = mechanism.fit(neighbours.Z, neighbours.signs, setting=setting, noise=noise)
    with replayed(record.outputs, record.draws, rows=neighbours.moved) as replay:
        mechanism.fit(neighbours.other, neighbours.other_signs, setting=setting, noise=noise)
    apart = [
        float(np.linalg.norm(mine - theirs)) / scale
        for mine, theirs, scale in zip(record.values, replay.values, record.scales, strict=True)
    ]
    pieces = made_in_pieces(fit.releases, [value.size for value in record.values])
    if pieces is None:
        raise ValueError("the fit does not list the releases that it made.")
    return [
        (math.hypot(*(apart[k] for k in piece)), release.mu)
        for piece, release in zip(pieces, fit.releases, strict=True)
    ]
