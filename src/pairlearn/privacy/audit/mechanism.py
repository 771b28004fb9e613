# SPDX-License-Identifier: BSD-3-Clause
"""Check a mechanism on adversarial neighbours, by the same noise played to both of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairlearn.privacy.accounting.certificate import Release
from pairlearn.privacy.audit.tape import recorded, replayed
from pairlearn.privacy.mechanisms.base import Mechanism, PrivateFit, PublicSetting
from pairlearn.privacy.noise import NoiseSource
from pairlearn.typing import Vector

#: Relative tolerance for rounding in a distance.
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Neighbours:
    """Two neighbouring data sets in standard coordinates; the second may lack a row."""

    Z: Vector
    signs: Vector
    other: Vector
    other_signs: Vector
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


def worst_case_neighbours(setting: PublicSetting, *, label: bool = False) -> Neighbours:
    """Return neighbours that are as far apart as the public bounds allow.

    All examples are negative and in the middle of the bounds, except for a positive one in a
    corner. Replacement moves it to the opposite corner, or with `label` turns its label. For
    "add_remove" the second data set lacks it.
    """
    n = setting.n_examples
    Z, signs = np.zeros((n, setting.n_features)), -np.ones(n)
    # Not the first row: in a single pass the first row is in one pair only.
    place = min(1, n - 1)
    Z[place], signs[place] = setting.to_standard(setting.upper[None, :])[0], 1.0
    if setting.neighbours == "add_remove":
        return Neighbours(Z, signs, np.delete(Z, place, axis=0), np.delete(signs, place), place)
    other, other_signs = Z.copy(), signs.copy()
    if label:
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
    mechanism: Any, neighbours: Neighbours, *, setting: PublicSetting, noise: NoiseSource
) -> list[tuple[float, float]]:
    """Return the distance between neighbours and its claimed bound, for each release of one run.

    Both are in units of the noise: distance / scale, and sensitivity / scale from the fit's
    releases. The distance must never exceed the bound. A `ValueError` says that the fit does not
    list what it releases, or that its result on the neighbour differs beyond the noise.
    """
    with recorded() as tape:
        fit = mechanism.fit(neighbours.Z, neighbours.signs, setting=setting, noise=noise)
    coins = [answer for *_, answer in tape.coins]
    with replayed(tape.outputs, tape.draws, rows=neighbours.moved, coins=coins) as replay:
        other = mechanism.fit(
            neighbours.other, neighbours.other_signs, setting=setting, noise=noise
        )
    pieces = made_in_pieces(fit.releases, [value.size for value in tape.values])
    if pieces is None:
        raise ValueError(
            f"{mechanism.name} does not list the releases that it makes: add one Release for each "
            "call of release_vector, or one for calls that follow each other."
        )
    if not _same(fit, other):
        raise ValueError(
            f"{mechanism.name} leaks data past the noise: with the same noisy values its result "
            "differs on a neighbour; compute everything from releases and the setting."
        )
    apart = tape.distances(replay)
    return [
        (math.hypot(*(apart[k] for k in piece)), release.mu)
        for piece, release in zip(pieces, fit.releases, strict=True)
    ]


def _same(fit: PrivateFit, other: PrivateFit) -> bool:
    return np.array_equal(fit.direction, other.direction) and (
        (fit.threshold, fit.log_odds, fit.releases)
        == (other.threshold, other.log_odds, other.releases)
    )


def check_mechanism(
    mechanism: Mechanism, *, setting: PublicSetting | None = None, n_random: int = 12, seed: int = 0
) -> float:
    """Check a private learner on neighbouring data sets, before you trust it with data.

    For each of its relations the mechanism runs on the worst neighbours that the bounds allow, on
    one class, on constant columns and on random examples; one example is replaced, relabelled or
    left out. The noisy values of the run are played back on the neighbour. The result must then be
    the same, each protected value within its stated sensitivity, and all of them within mu. All
    checks are exact: they surely find every error that these neighbours expose. Like an audit, they
    cannot prove a mechanism right.

    Parameters
    ----------
    mechanism : Mechanism
        The mechanism.
    setting : PublicSetting, optional
        The public facts; by default 16 examples of two features between -1 and 1, epsilon 1 and
        delta 0.001. Each relation of the mechanism replaces its relation in turn.
    n_random : int, default=12
        Random pairs of data sets to try for each relation.
    seed : int, default=0
        Seed of the data and of the noise.

    Returns
    -------
    float
        The largest distance between neighbours, as a share of the stated sensitivity.

    Raises
    ------
    ValueError
        If the mechanism fails; the message names the release and the neighbours.

    Examples
    --------
    >>> from pairlearn.privacy import AllPairsGradient, check_mechanism
    >>> check_mechanism(AllPairsGradient()) < 1
    True
    """
    if not isinstance(mechanism, Mechanism):
        raise TypeError(
            f"check_mechanism needs a Mechanism (an instance, not a class), got {mechanism!r}."
        )
    if setting is None:
        setting = PublicSetting.make(
            16, lower=[-1.0, -1.0], upper=[1.0, 1.0], epsilon=1.0, delta=1e-3
        )
    largest = 0.0
    for relation in mechanism.relations:
        public = replace(setting, neighbours=relation)
        mechanism.check(public)
        for k, (where, pair) in enumerate(_neighbours(public, n_random, seed)):
            noise = NoiseSource(seed=[seed, k])
            found = release_distances(mechanism, pair, setting=public, noise=noise)
            total = math.hypot(*(bound for _, bound in found))
            if not total <= public.mu * (1.0 + _ROUNDING):
                raise ValueError(
                    f"{mechanism.name} spends mu = {total:g}, over the budget {public.mu:g}; "
                    "calibrate the noise to setting.mu and compose all releases."
                )
            for number, (distance, bound) in enumerate(found, start=1):
                largest = max(largest, float(distance / bound))
                if not distance <= bound * (1.0 + _ROUNDING):
                    raise ValueError(
                        f"release {number} of {mechanism.name} is {distance / bound:.4g} times its "
                        f"sensitivity apart on {relation} neighbours ({where}); clip the "
                        "contribution of one example, or state a larger sensitivity."
                    )
    return largest


def _neighbours(setting: PublicSetting, n_random: int, seed: int) -> list[tuple[str, Neighbours]]:
    """Return pairs of neighbouring data sets, each with a description."""
    n, d = setting.n_examples, setting.n_features
    low, high = setting.to_standard(np.stack([setting.lower, setting.upper]))
    middle = 0.5 * (low + high)
    pairs = [
        ("one example in the opposite corner", worst_case_neighbours(setting)),
        ("one label turned", worst_case_neighbours(setting, label=True)),
    ]
    rng = np.random.default_rng(seed)
    for k in range(n_random + 2):
        Z, signs = rng.uniform(low, high, (n, d)), np.where(rng.random(n) < rng.random(), 1.0, -1.0)
        where = ("random examples", "examples in corners")[k % 2]
        if k % 2:
            Z = np.where(middle < Z, high, low)
        if k >= n_random:
            where = ("one class, constant columns", "one class in corners")[k - n_random]
            Z, signs = (0.0 * Z if k == n_random else Z), np.full(n, 1.0 if k % 2 else -1.0)
        place = int(rng.integers(n))
        if setting.neighbours == "add_remove":
            other, other_signs = np.delete(Z, place, axis=0), np.delete(signs, place)
            pairs.append((where, Neighbours(Z, signs, other, other_signs, place)))
            continue
        other, other_signs = Z.copy(), signs.copy()
        other[place] = 2.0 * middle - Z[place] if k % 2 else rng.uniform(low, high)
        other_signs[place] *= (-1.0) ** (k // 2)
        pairs.append((where, Neighbours(Z, signs, other, other_signs)))
    return pairs
