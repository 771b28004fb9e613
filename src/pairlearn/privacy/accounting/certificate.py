# SPDX-License-Identifier: BSD-3-Clause
"""The privacy certificate of a fit: its guarantee and the facts behind it, as text and as JSON.

`accounting_problems` does its sums again. A certificate cannot show that its sensitivities are
right: the lemmas prove them and the audit attacks them.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from numbers import Real
from typing import Any

import numpy as np

from pairlearn.privacy.accounting.gaussian import compose, epsilon_of_mu
from pairlearn.shown import Shown, Table, number

#: The neighbouring relations and the change that each protects against.
NEIGHBOURS = {
    "replace": "one example replaced by another (the number of examples is public)",
    "add_remove": "one example added or removed (the number n that scales the release is a "
    "public constant, not read from the data)",
}

#: What a guarantee protects: one example, or one person with all examples.
UNITS = ("example", "person")
_COMPOSITIONS = ("adaptive", "disjoint", "mixture")
_FORMAT = 3
#: Relative tolerance for rounding in sums.
_ROUNDING = 1e-9


class PrivacyWarning(UserWarning):
    """The privacy guarantee is weaker than a reader might think."""


def check_kind(neighbours: str, unit: str = "example") -> str:
    """Return the name of a neighbouring relation; raise if it or the unit is unknown."""
    for name, value, known in (("neighbours", neighbours, NEIGHBOURS), ("unit", unit, UNITS)):
        if value not in known:
            raise ValueError(f"{name} must be {' or '.join(map(repr, known))}, got {value!r}.")
    return neighbours


def cautions_about(delta: float, n: int, *, seeded: bool) -> tuple[str, ...]:
    """Return the warnings about a promise on n examples or persons, with noise of a seed or not."""
    found = []
    if seeded:
        found.append(
            "random_state makes the noise reproducible: what is released is not private. Leave it "
            "at None for private data."
        )
    if delta >= 1.0 / n:
        found.append(
            f"delta = {delta:g} is at least 1/n = {1.0 / n:g}, which would allow publishing one "
            "random record; use 1/(10 n) or less."
        )
    return tuple(found)


def digest_of(arrays: Mapping[str, Any]) -> str:
    """Return a digest of released numbers by name, to the last bit."""
    state = hashlib.sha256()
    for name, array in sorted(arrays.items()):
        values = np.ascontiguousarray(array)
        state.update(f"{name} {values.dtype.str} {values.shape} ".encode() + values.tobytes())
    return state.hexdigest()


@dataclass(frozen=True)
class Release:
    """One noisy quantity that left the data.

    Parameters
    ----------
    name : str
        Name of the quantity.
    dimension : int
        Number of coordinates.
    sensitivity : float
        Proved bound on the L2 distance between neighbouring data sets, rounding included.
    noise_scale : float
        Standard deviation of the Gaussian noise in each coordinate.

    Examples
    --------
    >>> Release("mean", 3, 0.5, 2.0).mu
    0.25
    """

    name: str
    dimension: int
    sensitivity: float
    noise_scale: float

    @property
    def mu(self) -> float:
        """The Gaussian-DP parameter of this release alone."""
        return self.sensitivity / self.noise_scale


@dataclass(frozen=True)
class Certificate(Shown):
    """The privacy guarantee of one fit and the facts behind it.

    Parameters
    ----------
    mechanism : str
        Name of the mechanism.
    neighbours : str
        The neighbouring relation, a key of `NEIGHBOURS`.
    epsilon, delta : float
        The differential-privacy guarantee.
    n_examples, n_features : int
        Public sizes.
    releases : tuple of Release
        Every noisy quantity computed from the data.
    generator : str
        Where the noise came from.
    private : bool
        False if the noise can be reproduced, for instance because a seed was given.
    mu : float or None
        Gaussian-DP parameter of all releases together; None if the accounting is not Gaussian and
        claims (epsilon, delta) only.
    public : mapping of str to str
        Facts taken as public knowledge.
    accounting : str
        The argument from noise to (epsilon, delta).
    warnings : tuple of str
        Warnings to the reader.
    composition : {"adaptive", "disjoint", "mixture"}, default="adaptive"
        How the releases add up. "adaptive": the squares of their mu add up. "disjoint": the largest
        mu counts, since each example takes part in one release. "mixture": an average over secret
        draws, without a mu.
    unit : {"example", "person"}, default="example"
        The protected unit: one example, or a person with all examples. `n_examples` then counts
        persons, unless `rows_per_person` is given.
    rows_per_person : int, optional
        How many examples of a person count, in a stream: the first ones. `n_examples` is then the
        largest number of examples.
    digest : str, default=""
        A digest of the numbers of the model that this certificate is about, if there is one.

    Examples
    --------
    >>> certificate = Certificate(
    ...     mechanism="example", neighbours="replace", epsilon=1.0, delta=1e-6, n_examples=100,
    ...     n_features=2, releases=(Release("mean", 2, 0.01, 0.05),), generator="test",
    ...     private=False, mu=0.2, public={}, accounting="Gaussian-DP")
    >>> Certificate.from_dict(certificate.to_dict()) == certificate
    True
    """

    mechanism: str
    neighbours: str
    epsilon: float
    delta: float
    n_examples: int
    n_features: int
    releases: tuple[Release, ...]
    generator: str
    private: bool
    mu: float | None
    public: Mapping[str, str]
    accounting: str
    warnings: tuple[str, ...] = field(default=())
    composition: str = "adaptive"
    unit: str = "example"
    rows_per_person: int | None = None
    digest: str = field(default="", compare=False)

    def epsilon_at(self, delta: float) -> float:
        """Return the epsilon that holds at another delta.

        Parameters
        ----------
        delta : float
            The failure probability.

        Returns
        -------
        float
            epsilon(delta). Without a mu, a delta of at least the certified one gives the certified
            epsilon, and a smaller delta gives infinity.
        """
        if self.mu is None:
            return self.epsilon if delta >= self.delta else float("inf")
        return epsilon_of_mu(self.mu, delta)

    def events(self) -> Any:
        """Return the releases as an event of the package dp-accounting, for another accountant.

        It is a composition of Gaussian events, each with noise in units of its sensitivity. For
        disjoint stages it holds the most expensive one only, since each example is in one stage.

        Returns
        -------
        dp_accounting.DpEvent
            The event; compose it with events of other releases under the same relation.
        """
        import dp_accounting

        if self.mu is None:
            raise ValueError(
                f"{self.mechanism} is an average over secret draws and claims (epsilon, delta) "
                "only; it is no event of another accountant."
            )
        mus = [release.mu for release in self.releases]
        if self.composition == "disjoint":
            mus = sorted(mus)[-1:]
        return dp_accounting.ComposedDpEvent(
            [dp_accounting.GaussianDpEvent(noise_multiplier=1.0 / mu) for mu in mus]
        )

    def shown_title(self) -> str:
        """Return the guarantee in words."""
        return self.statement()

    def shown_table(self) -> Table:
        """Return everything that was released."""
        rows = [
            [one.name, str(one.dimension), *map(number, (one.sensitivity, one.noise_scale, one.mu))]
            for one in self.releases
        ]
        return ("release", "numbers", "sensitivity", "noise", "mu"), rows

    def statement(self) -> str:
        """Return a few lines of text: the guarantee, the protected unit and the assumptions."""
        relation = NEIGHBOURS[self.neighbours]
        units = f"{self.n_examples} {self.unit}s"
        if self.unit == "person":
            relation = relation.replace("one example", "one person with all examples")
            relation = relation.replace("number of examples", "number of persons")
        if self.rows_per_person is not None:
            relation = (
                "one person with all examples replaced, in place, by another with as many (how "
                "many examples there are, and which of them are of one person, is public)"
            )
            units = (
                f"at most {self.n_examples} examples, of which the first {self.rows_per_person} of "
                "each person count"
            )
        claim = f"({self.epsilon:g}, {self.delta:g})-differentially private with respect to"
        lines = [
            f"This model is {claim} {relation}."
            if self.private
            else "NOT PRIVATE: the noise of this model can be reproduced. With secret noise it "
            f"would be {claim} {relation}.",
            f"Mechanism: {self.mechanism}; {units}, {self.n_features} features.",
        ]
        lines += [
            f"Released: {one.name}, {one.dimension} numbers, L2 sensitivity {one.sensitivity:.6g}, "
            f"Gaussian noise of standard deviation {one.noise_scale:.6g}."
            for one in self.releases
        ]
        lines.append(f"Accounting: {self.accounting}.")
        if self.mu is not None:
            lines.append(f"Gaussian-DP parameter: mu = {self.mu:.6g}.")
        lines.append(f"Noise: {self.generator}.")
        lines.extend(f"Public: {name}: {what}." for name, what in self.public.items())
        lines.append(
            "Not covered: running time and memory, scores published on private data, other "
            "releases from the same data (compose them in a ledger)."
        )
        lines.extend(f"Warning: {warning}" for warning in self.warnings)
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Return a dictionary of plain values that JSON can hold."""
        lists = {"releases": [asdict(one) for one in self.releases], "warnings": [*self.warnings]}
        return {**asdict(self), "public": dict(self.public), **lists, "format": _FORMAT}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Certificate:
        """Return the certificate from the dictionary that `to_dict` made."""
        values = dict(plain)
        version = values.pop("format", None)
        if version != _FORMAT:
            raise ValueError(
                f"the certificate has format {version!r}; this version reads format {_FORMAT}."
            )
        check_kind(values.get("neighbours", ""), values.setdefault("unit", "example"))
        if values.setdefault("composition", "adaptive") not in _COMPOSITIONS:
            raise ValueError(f"unknown composition {values['composition']!r}.")
        most = values.get("rows_per_person")
        replaced = (values["unit"], values["neighbours"]) == ("person", "replace")
        if not (most is None or (type(most) is int and most > 0 and replaced)):
            raise ValueError(
                "rows_per_person must be a whole number above 0, for persons who are replaced, got "
                f"{most!r}."
            )
        if type(values["private"]) is not bool:
            raise ValueError(f"private must be true or false, got {values['private']!r}.")
        values["releases"] = tuple(Release(**release) for release in values["releases"])
        for release in values["releases"]:
            moved, noise = release.sensitivity, release.noise_scale
            known = isinstance(moved, Real) and isinstance(noise, Real)
            if not (known and 0.0 <= moved < math.inf and 0.0 < noise < math.inf):
                raise ValueError(
                    "a release needs a finite sensitivity of at least 0 and a finite noise above "
                    f"0, got sensitivity={moved!r} and noise_scale={noise!r}."
                )
        values["warnings"] = tuple(values["warnings"])
        values["public"] = dict(values["public"])
        return cls(**values)


def accounting_problems(certificate: Certificate) -> list[str]:
    """Return the errors in the accounting of a certificate; an empty list if it adds up.

    Parameters
    ----------
    certificate : Certificate
        The certificate.

    Returns
    -------
    list of str
        A sentence for each problem.
    """
    found = []
    if not certificate.private:
        found.append("the noise can be reproduced, so nothing is private.")
    if not certificate.releases:
        return [*found, "it lists no release, so nothing is behind the numbers that it claims."]
    if certificate.mu is None:
        return [*found, "it states no mu, so its sums cannot be done again."]
    mus = [0.0, *(release.mu for release in certificate.releases)]
    total, together = compose(mus), "together"
    if certificate.composition == "disjoint":
        total, together = max(mus), "(the largest of disjoint stages)"
    if not total <= certificate.mu * (1 + _ROUNDING):
        found.append(
            f"the releases have mu = {total:.6g} {together}, but the certificate claims "
            f"{certificate.mu:.6g}."
        )
    epsilon = epsilon_of_mu(certificate.mu, certificate.delta)
    if not epsilon <= certificate.epsilon * (1 + 1e-6) + _ROUNDING:
        found.append(
            f"mu = {certificate.mu:.6g} means epsilon = {epsilon:.6g} at this delta, but the "
            f"certificate claims {certificate.epsilon:.6g}."
        )
    return found
