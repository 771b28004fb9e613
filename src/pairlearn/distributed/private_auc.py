# SPDX-License-Identifier: BSD-3-Clause
r"""Private AUC maximisation from passes over partitioned examples: a few sums and their noise.

*trust="aggregator"*: whoever runs the passes sees the sums of partitions and adds noise once. For a
given seed the model is the same as that of all examples in one memory.

*trust="none"*: every partition adds its noise before anything leaves it. An example lies in one
partition. It changes the answer of this partition by at most the sensitivity, and no other answer.
So the same noise in each of the P answers makes the same promise (parallel composition), also
towards whoever runs the passes. The sum has sqrt(P) times the noise.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairlearn.distributed.passes import Pass, Passes
from pairlearn.distributed.statistics.private_sums import (
    BinSums,
    PartitionNoise,
    PrivateSums,
    ProtectedSums,
    TableForm,
)
from pairlearn.estimators.private.auc import PrivateAUCClassifier
from pairlearn.estimators.shared.features_seen import see_columns
from pairlearn.privacy.accounting.certificate import Release
from pairlearn.privacy.mechanisms.base import PublicSetting
from pairlearn.privacy.mechanisms.sufficient_statistics import Grid, Moments, Weights
from pairlearn.privacy.narrowing import Bins, NoisyCounts
from pairlearn.privacy.noise import NoiseSource
from pairlearn.typing import Vector

_TRUST = ("aggregator", "none")


def train_private_auc(
    run: Pass,
    estimator: PrivateAUCClassifier,
    *,
    trust: str = "aggregator",
    key_file: str | os.PathLike[str] | None = None,
    feature_names: Sequence[str] | None = None,
    progress: Callable[[int, str], None] | None = None,
) -> PrivateAUCClassifier:
    """Fit a `PrivateAUCClassifier` by passes over partitioned examples.

    Parameters
    ----------
    run : callable
        Takes a `Statistic`, returns the merged state of all partitions; see `train_auc`.
    estimator : PrivateAUCClassifier
        Epsilon, bounds, labels and all other public settings. It becomes the fitted model. The
        mechanism must be "statistics", the bounds public and the noise secure.
    trust : {"aggregator", "none"}, default="aggregator"
        Who may see sums without noise: the one who runs the passes (and the machines between), or
        nobody. With "none" each partition adds its own noise: the same promise, and sqrt(P) times
        the noise for P partitions.
    key_file : path-like, optional
        With trust="none" the name of a file of at least 32 secret random bytes, which workers read
        and nobody else does: the noise of a partition is a function of it, so that a task that is
        run again says the same.
    feature_names : list of str, optional
        Names of the columns, which are public; predictions compare them.
    progress : callable, optional
        Called before each pass with its number and its purpose.

    Returns
    -------
    PrivateAUCClassifier
        The model, fitted. Its certificate says who was trusted.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 2, 3000)
    >>> X = np.clip(rng.normal(size=(3000, 3)) + 2 * y[:, None], -4, 6)
    >>> def run(statistic):
    ...     parts = [statistic.of_part(k).partial_state(X[k::3], y[k::3]) for k in range(3)]
    ...     return statistic.merge_all(parts)
    >>> model = train_private_auc(run, PrivateAUCClassifier(1.0, bounds=(-4, 6)))
    >>> float((model.predict(X) == y).mean()) > 0.85
    True
    >>> model.certificate_.public["trust"]
    'the aggregator: it saw sums over partitions (3) and added the noise once'
    """
    if trust not in _TRUST:
        raise ValueError(f"trust must be one of {', '.join(map(repr, _TRUST))}, got {trust!r}.")
    if type(estimator) is not PrivateAUCClassifier:
        found = type(estimator).__name__
        raise TypeError(f"estimator must be a PrivateAUCClassifier, got {found}.")
    if not estimator.secure:
        raise ValueError(
            "over partitions the noise is secure (whole numbers add up in any order); leave "
            "secure=True."
        )
    central = trust == "aggregator"
    if central and key_file is not None:
        raise ValueError(
            'key_file is for trust="none"; with trust="aggregator" the noise is drawn once.'
        )
    own = None if central else _own_noise(estimator.random_state, key_file)
    noise = NoiseSource.made_from(estimator.random_state) if central else _DrawnElsewhere(estimator)
    passes = Passes(run, progress)
    # The number of rows is public where an example is replaced, and else none of theirs.
    counted = central or estimator.neighbours == "replace"
    n_rows, n_features = passes(TableForm(counted), "form of the table")
    releases = _Releases(passes, estimator.labels, noise, own)
    estimator.fit_by_releases(
        releases.about,
        releases.count,
        n_rows=n_rows,
        n_features=n_features,
        noise=noise,
        facts=releases.facts,
    )
    see_columns(estimator, feature_names)
    return estimator


class _Releases:
    """Moments about one centre after the other, each from one pass."""

    def __init__(
        self,
        passes: Passes,
        labels: tuple[Any, Any],
        noise: NoiseSource,
        own: PartitionNoise | None,
    ) -> None:
        self._passes, self._labels, self._noise, self._own = passes, labels, noise, own
        #: Who was trusted, for the certificate; known after the first release.
        self.facts: dict[str, str] = {}

    def about(self, setting: PublicSetting) -> Callable[..., Moments]:
        """Return the releases in a public setting."""
        self._setting = setting
        return self.release

    def release(
        self, *, centre: Vector, radius: float, weights: Weights, mu: float, name: str
    ) -> Moments:
        """Release moments of all examples; see `release_moments`."""
        setting = self._setting
        grid = Grid.fitting(weights, setting.n_features, mu=mu, neighbours=setting.neighbours)
        scale = round(grid.scale / grid.step)
        asked = PrivateSums(
            setting,
            self._labels,
            centre=centre,
            radius=radius,
            weights=weights,
            step=grid.step,
            scale=scale,
            noise=self._own,
        )
        total, n_draws = self._answer(asked, name)
        return Moments.from_sums(
            np.asarray(total * grid.step, np.float64),
            setting.n_examples,
            weights=weights,
            centre=centre,
            radius=radius,
            deviation=grid.scale * math.sqrt(n_draws) / setting.n_examples,
            release=Release(name, len(total), grid.sensitivity, grid.scale),
        )

    def count(self, bins: Bins, *, neighbours: str, mu: float, name: str) -> NoisyCounts:
        """Release counts of all examples; see `privacy.narrowing.narrowed`."""
        grid = bins.grid(neighbours, mu=mu)
        asked = BinSums(bins, neighbours, steps=grid.steps, scale=grid.scale, noise=self._own)
        total, n_draws = self._answer(asked, name)
        release = grid.release(name, len(total))
        deviation = release.noise_scale * math.sqrt(n_draws)
        return NoisyCounts(total / grid.steps, deviation, release)

    def _answer(self, asked: ProtectedSums, name: str) -> tuple[NDArray[np.int64], int]:
        """Return noisy sums over all partitions, and how many times noise was added."""
        found = self._passes(asked, name)
        if self._own is None:
            self.facts["trust"] = (
                f"the aggregator: it saw sums over partitions ({found.n_parts}) and added the "
                "noise once"
            )
            return self._noise.protect_integers(found.total, asked.scale), 1
        self.facts["trust"] = (
            f"nobody: each of the partitions ({found.n_parts}) added its own noise, the same "
            "for a task that is repeated"
        )
        return found.total, found.n_parts


class _DrawnElsewhere(NoiseSource):
    """Describes in a certificate the noise that partitions add; it draws none itself."""

    def __init__(self, model: PrivateAUCClassifier) -> None:
        super().__init__(seed=model.random_state)

    @property
    def description(self) -> str:
        """What a certificate says about the generator."""
        if not self.private:
            return super().description
        return (
            "each partition: HMAC-SHA-256 and SHAKE-256 with a secret key of the workers, exact "
            "discrete Gaussian on an integer grid"
        )

    def protect_integers(self, values: NDArray[np.int64], scale: int) -> NDArray[np.int64]:
        """Refuse: the partitions have added the noise."""
        raise AssertionError("partitions add the noise")


def _own_noise(seed: Any, key_file: str | os.PathLike[str] | None) -> PartitionNoise:
    if seed is None:
        return PartitionNoise(key_file)
    if key_file is not None:
        raise ValueError(
            "random_state makes the noise reproducible for simulations, key_file makes it secret; "
            "leave out one of them."
        )
    if not isinstance(seed, (int, np.integer)):
        raise TypeError(
            f'with trust="none" random_state must be a whole number, got {type(seed).__name__}.'
        )
    return PartitionNoise(key=hashlib.sha256(str(int(seed)).encode()).digest())
