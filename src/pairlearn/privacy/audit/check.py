# SPDX-License-Identifier: BSD-3-Clause
"""Check a mechanism on adversarial neighbours before you trust it with data."""

from __future__ import annotations

import contextlib
import math
from dataclasses import dataclass, replace
from typing import NoReturn

import numpy as np

from pairlearn.privacy.accounting.certificate import Certificate
from pairlearn.privacy.audit.replay import Neighbours, made_in_pieces, worst_case_neighbours
from pairlearn.privacy.audit.tape import Tape, TapeEndedError, recorded, replayed
from pairlearn.privacy.mechanisms.base import Mechanism, PrivateFit, PublicSetting, certify
from pairlearn.privacy.noise import NoiseSource
from pairlearn.validation import check_count

#: Relative tolerance for rounding in a distance.
_ROUNDING = 1e-9


@dataclass(frozen=True)
class MechanismCheck:
    """The report of `check_mechanism` on a mechanism that passed."""

    #: Number of pairs of neighbouring data sets.
    n_pairs: int
    #: The neighbouring relations checked.
    relations: tuple[str, ...]
    #: The largest number of releases in a run.
    n_releases: int
    #: The largest distance between neighbours, as a share of the stated sensitivity. A small share
    #: means that the bound is loose or that these neighbours are not the worst.
    largest_share: float


def check_mechanism(
    mechanism: Mechanism, *, setting: PublicSetting | None = None, n_random: int = 12, seed: int = 0
) -> MechanismCheck:
    """Check a private learner on neighbouring data sets.

    For each of its relations the mechanism runs on the worst neighbours that the bounds allow, on
    one class, on constant columns and on random examples. One example is replaced, reflected,
    relabelled or left out. The check requires that

    - each run completes, and the same seed gives the same result;
    - the fit lists every release, with the noise that was used;
    - with the outputs replayed on the neighbour, the result stays the same, each protected value
      stays within its stated sensitivity, and all of them together stay within mu;
    - the certificate states the full guarantee.

    If the mechanism offers discrete noise, some runs use it. All checks are exact, without
    statistics: they surely find every error that these neighbours expose. Like an audit, they
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
    MechanismCheck
        The report.

    Raises
    ------
    ValueError
        If the mechanism fails; the message names the release and the neighbours.

    Examples
    --------
    >>> from pairlearn.privacy import check_mechanism
    >>> from pairlearn.privacy import OutputPerturbation
    >>> report = check_mechanism(OutputPerturbation())
    >>> report.relations, report.n_releases, report.largest_share < 1
    (('replace', 'add_remove'), 1, True)
    """
    if not isinstance(mechanism, Mechanism):
        raise TypeError(
            f"check_mechanism needs a Mechanism (an instance, not a class), got {mechanism!r}."
        )
    check_count("n_random", n_random, minimum=0)
    if setting is None:
        setting = PublicSetting.make(
            16, lower=[-1.0, -1.0], upper=[1.0, 1.0], epsilon=1.0, delta=1e-3
        )
    n_pairs, n_releases, largest = 0, 0, 0.0
    for relation in mechanism.relations:
        public = replace(setting, neighbours=relation)
        for k, (where, pair) in enumerate(_neighbours(public, n_random, seed)):
            secure = mechanism.offers_secure and k % 4 == 3
            where = f"{relation} neighbours, {where}"
            shares = _Run(mechanism, public, pair, where, secure, [seed, k]).check()
            n_pairs, n_releases = n_pairs + 1, max(n_releases, len(shares))
            largest = max([largest, *shares])
    return MechanismCheck(n_pairs, tuple(mechanism.relations), n_releases, largest)


def _neighbours(setting: PublicSetting, n_random: int, seed: int) -> list[tuple[str, Neighbours]]:
    """Return pairs of neighbouring data sets, each with a description."""
    n, d = setting.n_examples, setting.n_features
    low, high = setting.to_standard(np.stack([setting.lower, setting.upper]))
    middle = 0.5 * (low + high)
    pairs = [
        ("one example in the opposite corner", worst_case_neighbours(setting)),
        ("one label turned", worst_case_neighbours(setting, label_is_worst=True)),
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
        place, removed = int(rng.integers(n)), None
        if setting.neighbours == "add_remove":
            other, other_signs = np.delete(Z, place, axis=0), np.delete(signs, place)
            removed = place
        else:
            other, other_signs = Z.copy(), signs.copy()
            other[place] = 2.0 * middle - Z[place] if k % 2 else rng.uniform(low, high)
            other_signs[place] *= (-1.0) ** (k // 2)
        pairs.append((f"{where}, number {k}", Neighbours(Z, signs, other, other_signs, removed)))
    return pairs


@dataclass(frozen=True)
class _Run:
    """One run of a mechanism on a pair of data sets."""

    mechanism: Mechanism
    setting: PublicSetting
    pair: Neighbours
    where: str
    secure: bool
    seed: list[int]

    def check(self) -> list[float]:
        """Return the distance of each release as a share of its sensitivity."""
        fit, record = self._record()
        self._check_fit(fit, record)
        self._check_promise(fit)
        again, _ = self._record()
        if not _same(fit, again):
            self._fail("gives another result with the same seed", "take all randomness from noise")
        other, coins = fit, [c for *_, c in record.coins]
        with (
            replayed(record.outputs, record.draws, rows=self.pair.moved, coins=coins) as replay,
            contextlib.suppress(TapeEndedError),  # It asked for more values than were recorded.
        ):
            other = self.mechanism.fit(
                self.pair.other, self.pair.other_signs, setting=self.setting, noise=self._noise()
            )
        if [v.shape for v in replay.values] != [v.shape for v in record.values]:
            self._fail(
                f"releases {len(replay.values)} values on a neighbour instead of "
                f"{len(record.values)}, or values of other lengths",
                "let their number and lengths depend on the setting only",
            )
        if not _same(fit, other):
            self._fail(
                "leaks data past the noise: with the same noisy values its result differs on a "
                "neighbour",
                "compute everything from the results of noise.protect and the setting",
            )
        return self._check_distances(fit, record, replay)

    def _noise(self) -> NoiseSource:
        return NoiseSource(secure=self.secure, seed=self.seed)

    def _record(self) -> tuple[PrivateFit, Tape]:
        noise = self._noise()
        self.mechanism.check(self.setting, noise)
        Z, signs = self.pair.Z.copy(), self.pair.signs.copy()
        with recorded() as record:
            fit = self.mechanism.fit(Z, signs, setting=self.setting, noise=noise)
        if not (np.array_equal(Z, self.pair.Z) and np.array_equal(signs, self.pair.signs)):
            self._fail("changes the examples it is given", "work on a copy")
        return fit, record

    def _check_fit(self, fit: PrivateFit, record: Tape) -> None:
        """Raise unless a fit keeps the promises of its mechanism."""
        d = self.setting.n_features
        size = d * d if self.mechanism.learns == "metric" else d
        if np.shape(fit.direction) != (size,) or not np.isfinite(fit.direction).all():
            self._fail(f"gives the direction {fit.direction!r}", f"release {size} finite numbers")
        if fit.threshold is not None and not math.isfinite(fit.threshold):
            self._fail(f"gives the threshold {fit.threshold!r}", "release a finite one")
        if fit.secure != self.secure:
            self._fail(f"says secure={fit.secure}", "pass secure=noise.secure to PrivateFit")
        stated = [release.dimension for release in fit.releases]
        used = [value.size for value in record.values]
        pieces = made_in_pieces(fit.releases, used)
        if pieces is None:
            self._fail(
                f"lists releases of {stated} numbers, but asked for noise on {used}",
                "add one Release for each call of noise.protect, or one for calls that follow "
                "each other",
            )
        each = [one for one, piece in zip(fit.releases, pieces, strict=True) for _ in piece]
        for release, scale in zip(each, record.scales, strict=True):
            if not (release.sensitivity >= 0.0 and 0.0 < release.noise_scale < math.inf):
                self._fail(f"lists {release}", "state a sensitivity and a positive noise scale")
            # Discrete noise is in units of a grid that the release does not state.
            if not self.secure and not math.isclose(scale, release.noise_scale, rel_tol=_ROUNDING):
                self._fail(
                    f"states noise of {release.noise_scale:g} for {release.name!r} but uses "
                    f"{scale:g}",
                    "state the noise that it uses",
                )

    def _check_promise(self, fit: PrivateFit) -> None:
        """Check the claimed mu, the cost and the certificate against the setting."""
        setting, cost = self.setting, self.mechanism.cost(self.setting)
        if set(cost) not in ({"mu"}, {"epsilon", "delta"}):
            self._fail(f"costs {cost}", 'let cost return {"mu": ...}, or epsilon and delta')
        if fit.mu is not None:
            # Releases on disjoint examples may each use all of mu, but not more.
            largest = max((release.mu for release in fit.releases), default=0.0)
            slack = 1.0 + _ROUNDING
            if not largest <= fit.mu * slack or not fit.mu <= setting.mu * slack:
                self._fail(
                    f"claims mu = {fit.mu:g}, with releases of up to {largest:g} and the budget "
                    f"{setting.mu:g}",
                    "calibrate the noise to setting.mu and compose all releases",
                )
            if not fit.mu <= cost.get("mu", math.inf) * slack:
                self._fail(f"costs {cost}, less than mu = {fit.mu:g}", "let cost return all of it")
        certificate = certify(fit, self.mechanism.name, setting=setting, noise=self._noise())
        promise = (certificate.epsilon, certificate.delta, certificate.neighbours)
        if (
            promise != (setting.epsilon, setting.delta, setting.neighbours)
            or not certificate.mechanism
            or not certificate.accounting
            or not all(release.name for release in certificate.releases)
            or Certificate.from_dict(certificate.to_dict()) != certificate
        ):
            self._fail(
                f"has the certificate {certificate.to_dict()}",
                "give the mechanism, its accounting and each release a name",
            )

    def _check_distances(self, fit: PrivateFit, record: Tape, replay: Tape) -> list[float]:
        """Return the distance of each release as a share of its sensitivity; raise above 1."""
        shares, total = [], 0.0
        apart = [
            float(np.linalg.norm(mine - theirs)) / scale
            for mine, theirs, scale in zip(record.values, replay.values, record.scales, strict=True)
        ]
        pieces = made_in_pieces(fit.releases, [value.size for value in record.values])
        assert pieces is not None
        for release, piece in zip(fit.releases, pieces, strict=True):
            distance = math.hypot(*(apart[k] for k in piece))
            if not distance <= release.mu * (1.0 + _ROUNDING):
                self._fail(
                    f"states the sensitivity {release.sensitivity:g} for {release.name!r}, but two "
                    f"neighbours are {distance * release.noise_scale:g} apart",
                    "clip the contribution of one example, or state a larger sensitivity",
                )
            shares.append(float(distance / release.mu) if release.mu else 0.0)
            total = math.hypot(total, distance)
        if fit.mu is not None and not total <= fit.mu * (1.0 + _ROUNDING):
            self._fail(
                f"claims mu = {fit.mu:g}, but its releases together are {total:g} apart",
                "compose them: mu is the root of the sum of their squares",
            )
        return shares

    def _fail(self, slip: str, cure: str) -> NoReturn:
        name = self.mechanism.name
        raise ValueError(f"The mechanism {name!r} {slip} ({self.where}); {cure}.")


def _same(fit: PrivateFit, other: PrivateFit) -> bool:
    return (
        np.array_equal(fit.direction, other.direction)
        and (fit.threshold, fit.log_odds) == (other.threshold, other.log_odds)
        and fit.releases == other.releases
        and (fit.mu, fit.secure) == (other.mu, other.secure)
        and repr(dict(fit.details)) == repr(dict(other.details))
    )
