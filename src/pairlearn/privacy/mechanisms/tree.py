# SPDX-License-Identifier: BSD-3-Clause
"""Release a stream up to T times for one budget: noisy sums in a binary tree.

The statistics of `sufficient_statistics` are sums over records about a public centre. The releases,
at most T, cut the stream into intervals. Interval t is leaf t of a binary tree whose nodes hold the
sums of the leaves below them. Each node gets noise once, when its last leaf is complete. The sum up
to release t is the sum of the nodes for the ones in the binary digits of t, at most
K = floor(log2 T) + 1 nodes (Dwork, Naor, Pitassi and Rothblum, 2010; Chan, Shi and Song, 2011).

A replaced record is in one node of each of K levels. So the certificate lists each level as one
release. Lemma 16 in ``docs/privacy/lemmas.md`` proves the guarantee.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pairlearn.privacy.accounting.certificate import Release
from pairlearn.privacy.mechanisms.base import Mechanism, PrivateFit, PublicSetting
from pairlearn.privacy.mechanisms.centred import first_radius, solve_moments
from pairlearn.privacy.mechanisms.sufficient_statistics import (
    Grid,
    Moments,
    Weights,
    n_statistics,
    summed_on_grid,
)
from pairlearn.privacy.noise import NoiseSource
from pairlearn.typing import Vector
from pairlearn.validation import check_count, check_positive


@dataclass
class SumTree:
    """The state of a growing tree, in steps of the grid.

    `leaf` sums the statistics since the last release. `nodes` cover all earlier intervals: the
    level of each, its secret sum, and the noisy sum that was released.
    """

    leaf: NDArray[np.int64]
    nodes: list[tuple[int, NDArray[np.int64], Vector]] = field(default_factory=list)
    n_seen: int = 0
    n_released: int = 0


@dataclass(frozen=True)
class TreeStatistics(Mechanism):
    """Sufficient statistics about the public centre, released up to `n_releases` times.

    Parameters
    ----------
    n_releases : int, default=32
        The largest number of releases.
    mean_weight : float, default=0.6
        Weight b of the mean of the features; their product with the label has weight 1.

    Examples
    --------
    >>> TreeStatistics(n_releases=12).n_levels
    4
    """

    n_releases: int = 32
    mean_weight: float = 0.6

    name = "tree_statistics"
    relations = ("replace",)
    missing_relation = (
        "The number of records between two releases is public here, and adding or removing a "
        "record would change it."
    )

    def __post_init__(self) -> None:
        check_count("n_releases", self.n_releases)
        check_positive("mean_weight", self.mean_weight)

    @property
    def n_levels(self) -> int:
        """The number K of nodes that contain a record."""
        return self.n_releases.bit_length()

    @property
    def weights(self) -> Weights:
        """The weights of the statistics."""
        return Weights.free(self.mean_weight)

    def grid(self, setting: PublicSetting) -> Grid:
        """Return the grid and the noise of a node."""
        mu = setting.mu * (1.0 - 1e-12) / math.sqrt(self.n_levels)
        return Grid.fitting(self.weights, setting.n_features, mu=mu, neighbours=setting.neighbours)

    def begin(self, setting: PublicSetting) -> SumTree:
        """Return the state before the first record."""
        return SumTree(np.zeros(n_statistics(setting.n_features, self.weights), dtype=np.int64))

    def learn(self, state: SumTree, Z: Vector, signs: Vector, *, setting: PublicSetting) -> None:
        """Add records, in standard coordinates, to the current interval; changes `state`."""
        self.check_room(state, len(Z), setting)
        V = (Z - setting.standard_centre) / first_radius(setting)
        state.leaf += summed_on_grid(V, signs, weights=self.weights, step=self.grid(setting).step)
        state.n_seen += len(Z)

    def check_room(self, state: SumTree, n_rows: int, setting: PublicSetting) -> None:
        """Refuse more rows than the guarantee covers."""
        if state.n_seen + n_rows > setting.n_examples:
            raise ValueError(
                f"there are more rows than the public number {setting.n_examples} that the "
                "guarantee covers; none of the new rows was used. Begin again with a larger number."
            )

    def check_releases(self, state: SumTree) -> None:
        """Refuse more releases than the budget is for."""
        if state.n_released >= self.n_releases:
            raise ValueError(
                f"all n_releases={self.n_releases} releases of the budget have been made; begin "
                "again with a larger n_releases and a new budget."
            )

    def release(self, state: SumTree, *, setting: PublicSetting, noise: NoiseSource) -> PrivateFit:
        """Release a model of all records so far; `state` begins a new interval."""
        self.check_releases(state)
        grid = self.grid(setting)
        # The node of this interval and of the completed ones that it makes a larger one with.
        level, total, nodes = 0, state.leaf, state.nodes
        while nodes and nodes[-1][0] == level:
            level, total, nodes = level + 1, total + nodes[-1][1], nodes[:-1]
        noisy = grid.protected(total, noise)
        # After the noise and in one step: an interrupted release has changed all or nothing.
        vars(state).update(
            nodes=[*nodes, (level, total, noisy)], leaf=np.zeros_like(total),
            n_released=state.n_released + 1,
        )  # fmt: skip
        n, releases = max(1, state.n_seen), self.listed(setting)
        moments = Moments.from_sums(
            np.sum([released for *_, released in state.nodes], axis=0), n, weights=self.weights,
            centre=setting.standard_centre, radius=first_radius(setting),
            deviation=grid.scale * math.sqrt(len(state.nodes)) / n, release=releases[0],
        )  # fmt: skip
        direction, threshold, log_odds = solve_moments([moments], setting, n)
        return PrivateFit(direction, tuple(releases), threshold, log_odds)

    def listed(self, setting: PublicSetting) -> list[Release]:
        """Return the certificate's releases, past and future: one for each level of the tree."""
        grid, size = self.grid(setting), n_statistics(setting.n_features, self.weights)
        name = "sums over intervals, level {} of {} of a tree"
        return [
            Release(name.format(level + 1, self.n_levels), size * (self.n_releases >> level),
                    grid.sensitivity, grid.scale)
            for level in range(self.n_levels)
        ]  # fmt: skip

    def fit(
        self, Z: Vector, signs: Vector, *, setting: PublicSetting, noise: NoiseSource
    ) -> PrivateFit:
        """Learn from one table and release once; see `Mechanism.fit`."""
        self.check(setting)
        state = self.begin(setting)
        self.learn(state, Z, signs, setting=setting)
        return self.release(state, setting=setting, noise=noise)
