# SPDX-License-Identifier: BSD-3-Clause
r"""Private AUC maximisation from passes over partitioned examples: five sums and their noise.

*trust="aggregator"*: whoever runs the passes sees the sums of partitions and adds noise once. For a
given seed the model is the same as that of all examples in one memory.

*trust="none"*: every partition adds its noise before anything leaves it. If an example makes a
difference in one partition only, it changes this answer by at most the sensitivity, and no other
answer. So the same noise in each of the P answers makes the same promise (parallel composition),
also towards whoever runs the passes. The sum has sqrt(P) times the noise. An example that makes a
difference in k partitions needs about sqrt(k) times the noise in each, and one that moves others
across all borders sqrt(P + 3) times. Lemma 17 in ``docs/privacy/lemmas.md`` proves it.
"""

from __future__ import annotations

import hashlib
import math
import os
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairlearn.distributed.passes import Pass, Passes
from pairlearn.distributed.statistics.private_sums import (
    BinSums,
    FormOfParts,
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
from pairlearn.validation import check_count, check_flag

_TRUST = ("aggregator", "none")
_UNITS = ("example", "person")
#: Bytes that tell a fit from all others.
_NONCE_SIZE = 16


def train_private_auc(
    run: Pass,
    estimator: PrivateAUCClassifier,
    *,
    trust: str = "aggregator",
    key_file: str | os.PathLike[str] | None = None,
    reach: int | str | None = None,
    unit: str = "example",
    feature_names: Sequence[str] | None = None,
    progress: Callable[[int, str], None] | None = None,
) -> PrivateAUCClassifier:
    """Fit a `PrivateAUCClassifier` by passes over partitioned examples.

    Parameters
    ----------
    run : callable
        Takes a `Statistic`, returns the merged state of all partitions; see `train_auc`. With
        trust="none" or persons, each partition answers once in a pass, under a number of its own
        that stays the same in all passes: ``statistic.of_part(k).partial_state(X, y)``.
    estimator : PrivateAUCClassifier
        Epsilon, bounds, labels and all other public settings. It becomes the fitted model. The
        mechanism must be "statistics", the bounds public and the noise secure.
    trust : {"aggregator", "none"}, default="aggregator"
        Who may see sums without noise (and ids of persons): the one who runs the passes (and the
        machines between), or nobody. With "none" each partition adds its own noise: the same
        promise, and sqrt(P) times the noise for P partitions.
    key_file : path-like, optional
        With trust="none" the name of a file of at least 32 secret random bytes, which workers read
        and nobody else does: the noise of a partition is a function of it, so that a task that is
        run again says the same. Each fit draws a public number of its own beside it, so one key
        serves many fits.
    reach : int or "all"
        Required with trust="none", and for persons: in how many partitions one example (one person,
        with unit="person") can make a difference, by your word. 1 if its partition depends on no
        other, and whoever takes its place is in the same: a file for each holder of data, or rows
        with a fixed place. 2 if an example may be replaced by one of another partition. k if a
        person has rows in at most k partitions, and whoever may take his or her place in at most k,
        the same or others. Each partition has sqrt(k) times the noise, with persons who are
        replaced about a sixth more. "all" if rows are sorted or counted and then cut, so that one
        example moves others: at most one over each border. Each partition then has sqrt(P + 3)
        times the noise.
        From 2 on the numbers of rows of partitions are secret, so the estimator needs `n_examples`.
        Text files that are cut into blocks of bytes fit no value: one long record moves all later
        ones. Read one file as one partition.
    unit : {"example", "person"}, default="example"
        What is protected: one example, or a person with all examples. For persons,
        ``partial_state(X, y, groups=...)`` gets the person of each row. A person counts as the
        mean of his or her rows. With trust="aggregator" those are the rows of the first partition
        that has any, so put all rows of a person into one. `reach=1` is asked for, your word that
        the partition of a row depends on no other person. Where a table is cut by its number of
        rows it does: one person with more rows moves those of others over each border, and the
        promise does not hold. With trust="none" a person counts in each partition, and `reach` says
        in how many that can be.
    feature_names : list of str, optional
        Names of the columns, which are public; predictions compare them.
    progress : callable, optional
        Called before each pass with its number and its purpose.

    Returns
    -------
    PrivateAUCClassifier
        The model, fitted. Its certificate says who was trusted, and what was said of partitions.

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
    for name, given, known in (("trust", trust, _TRUST), ("unit", unit, _UNITS)):
        if given not in known:
            raise ValueError(f"{name} must be one of {', '.join(map(repr, known))}, got {given!r}.")
    if type(estimator) is not PrivateAUCClassifier:
        found = type(estimator).__name__
        raise TypeError(f"estimator must be a PrivateAUCClassifier, got {found}.")
    if not check_flag("secure", estimator.secure):
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
    within = _Reach.checked(reach, central, unit, estimator)
    noise = NoiseSource.made_from(estimator.random_state) if central else _DrawnElsewhere(estimator)
    passes = Passes(run, progress)
    # The number of rows is public where an example is replaced in its place, and else nobody's
    # but the aggregator's.
    counted = central or (estimator.neighbours == "replace" and within.partitions == 1)
    asked = TableForm(
        counted,
        n_features=estimator.public_width(),
        unit=unit,
        compared=central and unit == "person",
        numbered=not central,
    )
    form = passes(asked, "form of the table")
    releases = _Releases(passes, estimator.labels, noise, own, form, within, unit)
    estimator.fit_by_releases(
        releases.about,
        releases.count,
        n_rows=form.n_units if counted else (estimator.n_examples or 0),
        n_features=form.n_features,
        noise=noise,
        facts=releases.facts,
        persons=unit == "person",
    )
    see_columns(estimator, feature_names)
    return estimator


@dataclass(frozen=True)
class _Reach:
    """In how many partitions one unit can make a difference; None if it moves others in all."""

    partitions: int | None
    unit: str

    @classmethod
    def checked(
        cls, given: int | str | None, central: bool, unit: str, estimator: PrivateAUCClassifier
    ) -> _Reach:
        """Return the reach that was given; refuse what does not fit the other arguments."""
        if central and unit == "person":
            if given != 1 or isinstance(given, bool):
                raise ValueError(
                    "persons over partitions need reach=1, your word that the partition of a row "
                    "depends on no other person (a file for each holder, or rows dealt by the id "
                    "of the person). A table cut by its number of rows breaks it: one person with "
                    f"more rows moves those of others. Deal rows by person first; got {given!r}."
                )
            return cls(1, unit)
        if central:
            if given is not None:
                raise ValueError(
                    'reach is for trust="none"; with trust="aggregator" the noise is added to the '
                    f"sum over all partitions, wherever examples lie; got {given!r}."
                )
            return cls(1, unit)
        if given is None:
            raise ValueError(
                f'trust="none" needs reach, the number of partitions in which one {unit} can make '
                "a difference: reach=1 if its partition depends on no other (a file for each "
                'holder, rows with a fixed place), reach="all" if rows are sorted or counted and '
                "then cut, so that one moves others. Text files cut into blocks of bytes fit "
                "neither: read one file as one partition."
            )
        if isinstance(given, str) and given != "all":
            raise ValueError(f'reach must be a whole number of at least 1 or "all", got {given!r}.')
        found = cls(None if isinstance(given, str) else check_count("reach", given), unit)
        if found.partitions != 1 and estimator.n_examples is None:
            raise ValueError(
                f"with reach={given!r} the numbers of {unit}s in partitions are secret, so they "
                f"are not counted; give the estimator n_examples, the public number of all {unit}s."
            )
        return found

    def factor(self, neighbours: str, n_parts: int, sensitivity: Callable[[str], float]) -> float:
        """Return the sensitivity of all answers over that of one partition, by lemma 17."""
        if n_parts == 1 or self.partitions == 1:
            return 1.0
        if self.partitions is None:
            return math.sqrt(n_parts + 3)
        k: float = self.partitions
        if neighbours == "replace" and self.unit == "person":
            # Whoever takes the place may be in k other partitions: k lose one, and k gain one.
            one = sensitivity(self.relation(neighbours, n_parts, sensitivity))
            k *= max(1.0, 2.0 * (sensitivity("add_remove") / one) ** 2)
        return math.sqrt(min(k, n_parts))

    def relation(self, neighbours: str, n_parts: int, sensitivity: Callable[[str], float]) -> str:
        """Return the relation of one partition: it may lose one, gain one, or both."""
        alone = n_parts == 1 or self.partitions == 1
        if alone or (self.partitions is not None and neighbours == "add_remove"):
            return neighbours
        return max(("replace", "add_remove"), key=sensitivity)

    @property
    def fact(self) -> str:
        """What a certificate says."""
        if self.partitions is None:
            return (
                f"by the caller's word, one {self.unit} more, less or else makes each partition "
                f"lose at most one {self.unit} and gain at most one, and one of them twice as "
                "many; their number is public"
            )
        other = ""
        if self.partitions == 1:
            other = ", and so does whoever takes the place, in the same"
        elif self.unit == "person":
            other = ", and whoever takes the place in at most as many"
        return (
            f"by the caller's word, one {self.unit} makes a difference in at most "
            f"{self.partitions} of them{other}; their number is public"
        )


class _Releases:
    """Moments about one centre after the other, each from one pass."""

    def __init__(
        self,
        passes: Passes,
        labels: tuple[Any, Any],
        noise: NoiseSource,
        own: PartitionNoise | None,
        form: FormOfParts,
        reach: _Reach,
        unit: str,
    ) -> None:
        self._passes, self._labels, self._noise, self._own = passes, labels, noise, own
        self._form, self._reach, self._unit = form, reach, unit
        n = form.n_parts
        #: Who was trusted, for the certificate.
        self.facts: dict[str, str] = {}
        if own is None:
            self.facts["trust"] = (
                f"the aggregator: it saw sums over partitions ({n}) and added the noise once"
            )
            if unit == "person":
                self.facts["trust"] += "; it also saw the ids of persons"
                self.facts["rows of a person"] = (
                    "their mean counts; of a person with rows in several partitions, those in the "
                    "first one. By the caller's word, all rows of a person are in one partition, "
                    "or the partition of a row depends on no other person"
                )
        else:
            self.facts["trust"] = (
                f"nobody: each of the partitions ({n}) added its own noise, the same for a task "
                "that is repeated"
            )
            self.facts["partitions"] = reach.fact
            self.facts["fit"] = f"{own.nonce.hex()}, a number that no other fit has"

    def about(self, setting: PublicSetting) -> Callable[..., Moments]:
        """Return the releases in a public setting."""
        self._setting = setting
        return self.release

    def release(
        self, *, centre: Vector, radius: float, weights: Weights, mu: float, name: str
    ) -> Moments:
        """Release moments of all examples; see `release_moments`."""
        setting, n_parts = self._setting, self._form.n_parts
        share = self._reach.factor(setting.neighbours, n_parts, weights.sensitivity)
        relation = self._reach.relation(setting.neighbours, n_parts, weights.sensitivity)
        grid = Grid.fitting(weights, setting.n_features, mu=mu / share, neighbours=relation)
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
            unit=self._unit,
            away=self._form.away,
        )
        total, n_draws = self._answer(asked, name)
        return Moments.from_sums(
            np.asarray(total * grid.step, np.float64),
            setting.n_examples,
            weights=weights,
            centre=centre,
            radius=radius,
            deviation=grid.scale * math.sqrt(n_draws) / setting.n_examples,
            release=Release(name, len(total), share * grid.sensitivity, grid.scale),
        )

    def count(self, bins: Bins, *, neighbours: str, mu: float, name: str) -> NoisyCounts:
        """Release counts of all examples; see `privacy.narrowing.narrowed`."""
        n_parts = self._form.n_parts
        share = self._reach.factor(neighbours, n_parts, bins.sensitivity)
        relation = self._reach.relation(neighbours, n_parts, bins.sensitivity)
        grid = bins.grid(relation, mu=mu / share)
        asked = BinSums(
            bins,
            relation,
            n_features=self._form.n_features,
            steps=grid.steps,
            scale=grid.scale,
            noise=self._own,
            unit=self._unit,
            away=self._form.away,
        )
        total, n_draws = self._answer(asked, name)
        release = Release(name, len(total), share * grid.sensitivity, grid.scale / grid.steps)
        deviation = release.noise_scale * math.sqrt(n_draws)
        return NoisyCounts(total / grid.steps, deviation, release)

    def _answer(self, asked: ProtectedSums, name: str) -> tuple[NDArray[np.int64], int]:
        """Return noisy sums over all partitions, and how many times noise was added."""
        found = self._passes(asked, name)
        if found.n_parts != self._form.n_parts and asked.numbered:
            raise ValueError(
                f"{self._form.n_parts} partitions answered in the first pass and {found.n_parts} "
                "in another; run all passes over the same partitions."
            )
        if self._own is not None:
            return found.total, found.n_parts
        return self._noise.protect_integers(found.total, asked.scale), 1


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
        return PartitionNoise(key_file, nonce=secrets.token_bytes(_NONCE_SIZE))
    if key_file is not None:
        raise ValueError(
            "random_state makes the noise reproducible for simulations, key_file makes it secret; "
            "leave out one of them."
        )
    if not isinstance(seed, (int, np.integer)):
        raise TypeError(
            f'with trust="none" random_state must be a whole number, got {type(seed).__name__}.'
        )
    # A simulation repeats its noise, so its number depends on the seed alone.
    secret = hashlib.sha256(str(int(seed)).encode()).digest()
    return PartitionNoise(key=secret, nonce=hashlib.sha256(secret).digest()[:_NONCE_SIZE])
