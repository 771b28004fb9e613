# SPDX-License-Identifier: BSD-3-Clause
"""Run a mechanism on two neighbouring data sets with the same noise and the same draws.

The audit and the tests use these tools: worst-case neighbours, a noise source that records a run,
and one that replays it on the other data set.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

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
        return Neighbours(Z, signs, np.delete(Z, place, axis=0), np.delete(signs, place))
    other, other_signs = Z.copy(), signs.copy()
    if label_is_worst:
        other_signs[place] = -1.0
    else:
        other[place] = setting.to_standard(setting.lower[None, :])[0]
    return Neighbours(Z, signs, other, other_signs)


class RecordingSource(NoiseSource):
    """A noise source that records the values it protects and its outputs."""

    def __init__(self, inner: NoiseSource) -> None:
        self.secure = inner.secure
        self.private = False
        self.values: list[Vector] = []
        self.outputs: list[Vector] = []
        self.scales: list[float] = []
        self.draws: list[NDArray[np.int64]] = []
        self._inner = inner

    def protect(self, values: Vector, scale: float) -> Vector:
        """Record values, scale and output of the inner source."""
        output = self._inner.protect(values, scale)
        self._note(values, output, scale)
        return output

    def protect_integers(self, values: NDArray[np.int64], scale: int) -> NDArray[np.int64]:
        """Record values, scale and output of the inner source."""
        output = self._inner.protect_integers(values, scale)
        self._note(values.astype(np.float64), output.astype(np.float64), float(scale))
        return output

    def draw_indices(self, n: int, size: int) -> NDArray[np.int64]:
        """Record the indices of the inner source."""
        self.draws.append(self._inner.draw_indices(n, size))
        return self.draws[-1]

    def permutation(self, n: int) -> NDArray[np.int64]:
        """Record the order of the inner source."""
        self.draws.append(self._inner.permutation(n))
        return self.draws[-1]

    def _note(self, values: Vector, output: Vector, scale: float) -> None:
        self.values.append(np.array(values, dtype=np.float64))
        self.outputs.append(np.array(output, dtype=np.float64))
        self.scales.append(scale)


class ReplayingSource(NoiseSource):
    """A noise source that returns the outputs of an earlier run.

    `rows` gives the new index of each row of the earlier run, if the two data sets are in different
    orders. A secret order is then replayed for the same examples. It is as likely as the recorded
    one, so this couples the two laws fairly.
    """

    def __init__(self, record: RecordingSource, rows: NDArray[np.int64] | None = None) -> None:
        self.secure = record.secure
        self.private = False
        self.values: list[Vector] = []
        self._outputs = iter(record.outputs)
        self._draws = iter(record.draws)
        self._rows = rows

    def protect(self, values: Vector, scale: float) -> Vector:
        """Record the values and return the earlier output."""
        self.values.append(np.array(values, dtype=np.float64))
        return next(self._outputs)

    def protect_integers(self, values: NDArray[np.int64], scale: int) -> NDArray[np.int64]:
        """Record the values and return the earlier output."""
        self.values.append(values.astype(np.float64))
        return next(self._outputs).astype(np.int64)

    def draw_indices(self, n: int, size: int) -> NDArray[np.int64]:
        """Return the earlier indices."""
        return next(self._draws)

    def permutation(self, n: int) -> NDArray[np.int64]:
        """Return the earlier order, of the same examples."""
        order = next(self._draws)
        return order if self._rows is None else self._rows[order]


def release_distances(
    mechanism: Mechanism, neighbours: Neighbours, *, setting: PublicSetting, noise: NoiseSource
) -> list[tuple[float, float]]:
    """Return the distance between neighbours and its claimed bound, for each release of one run.

    Both are in units of the noise: distance / scale, and sensitivity / scale from the fit's
    releases. The distance must never exceed the bound.
    """
    record = RecordingSource(noise)
    fit = mechanism.fit(neighbours.Z, neighbours.signs, setting=setting, noise=record)
    replay = ReplayingSource(record)
    mechanism.fit(neighbours.other, neighbours.other_signs, setting=setting, noise=replay)
    return [
        (float(np.linalg.norm(mine - theirs)) / scale, release.mu)
        for mine, theirs, scale, release in zip(
            record.values, replay.values, record.scales, fit.releases, strict=True
        )
    ]
