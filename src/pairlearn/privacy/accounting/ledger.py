# SPDX-License-Identifier: BSD-3-Clause
"""A budget that several private fits share, and that refuses to be overspent."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from pairlearn.privacy.accounting.gaussian import compose, epsilon_of_mu, gaussian_delta, mu_of
from pairlearn.validation import check_fraction, check_positive

__all__ = ["BudgetExceededError", "PrivacyLedger", "Spend"]

_FORMAT = 1


class BudgetExceededError(RuntimeError):
    """A spend was refused because the budget would be exceeded."""


@dataclass(frozen=True)
class Spend:
    """One entry of a ledger.

    Parameters
    ----------
    purpose : str
        What the budget was used for.
    mu : float
        Gaussian-DP parameter, or 0 for an entry known only as (epsilon, delta).
    epsilon, delta : float
        The (epsilon, delta) of an entry without mu; (0, 0) otherwise.

    Examples
    --------
    >>> Spend("fit", 0.3)
    Spend(purpose='fit', mu=0.3, epsilon=0.0, delta=0.0)
    """

    purpose: str
    mu: float = 0.0
    epsilon: float = 0.0
    delta: float = 0.0


class PrivacyLedger:
    """Total privacy loss of several releases from the same data.

    Gaussian releases compose exactly (squares of mu add up). Entries known only as
    (epsilon_i, delta_i) are added by basic composition: the total at `delta` is
    sum epsilon_i + epsilon(mu, delta - sum delta_i).

    Parameters
    ----------
    epsilon, delta : float
        The budget.

    Examples
    --------
    >>> ledger = PrivacyLedger(epsilon=1.0, delta=1e-5)
    >>> ledger.spend("first fit", mu=0.2)
    >>> round(ledger.spent_epsilon, 3), round(ledger.remaining_mu, 3)
    (0.726, 0.178)
    >>> ledger.spend("second fit", mu=0.2)
    Traceback (most recent call last):
        ...
    pairlearn...BudgetExceededError: 'second fit' would bring the total to ...
    """

    def __init__(self, *, epsilon: float, delta: float) -> None:
        self.epsilon = check_positive("epsilon", epsilon)
        self.delta = check_fraction("delta", delta)
        self._entries: list[Spend] = []
        self._lock = threading.Lock()

    @property
    def entries(self) -> tuple[Spend, ...]:
        """The spends so far."""
        return tuple(self._entries)

    @property
    def spent_epsilon(self) -> float:
        """The epsilon of everything so far, at the ledger's delta."""
        return self._total(self._entries)

    @property
    def remaining_mu(self) -> float:
        """The largest Gaussian-DP parameter that may still be spent in one go."""
        delta = self.delta - sum(entry.delta for entry in self._entries)
        epsilon = self.epsilon - sum(entry.epsilon for entry in self._entries)
        if delta <= 0 or epsilon <= 0:
            return 0.0
        total = mu_of(epsilon, delta)
        used = compose([0.0, *(entry.mu for entry in self._entries)])
        return float(max(0.0, total**2 - used**2) ** 0.5)

    def spend(
        self, purpose: str, *, mu: float = 0.0, epsilon: float = 0.0, delta: float = 0.0
    ) -> None:
        """Enter a spend *before* the release, or raise `BudgetExceededError`.

        Parameters
        ----------
        purpose : str
            What the budget is used for.
        mu : float, optional
            Gaussian-DP parameter of the release.
        epsilon, delta : float, optional
            The (epsilon, delta) of a release that has no mu.
        """
        if min(mu, epsilon, delta) < 0 or (mu == 0 and epsilon == 0):
            raise ValueError(
                f"a spend needs mu > 0 or epsilon > 0, got mu={mu!r}, epsilon={epsilon!r}, "
                f"delta={delta!r}."
            )
        entry = Spend(str(purpose), float(mu), float(epsilon), float(delta))
        with self._lock:
            total = self._total([*self._entries, entry])
            # mu_of and epsilon_of_mu err to the safe side by 1e-12 each.
            if total > self.epsilon * (1 + 1e-9):
                raise BudgetExceededError(
                    f"{purpose!r} would bring the total to epsilon = {total:.4g} at delta = "
                    f"{self.delta:g}, over the budget of epsilon = {self.epsilon:g}; spend at "
                    f"most mu = {self.remaining_mu:.3g}, or ask for a larger budget."
                )
            self._entries.append(entry)

    def _total(self, entries: list[Spend]) -> float:
        mu = compose([0.0, *(entry.mu for entry in entries)])
        epsilon = sum(entry.epsilon for entry in entries)
        delta = self.delta - sum(entry.delta for entry in entries)
        if delta < 0 or (delta == 0 and gaussian_delta(mu, 0.0) > 0):
            return float("inf")
        if mu == 0:
            return epsilon
        return epsilon + epsilon_of_mu(mu, delta)

    def to_dict(self) -> dict[str, Any]:
        """Return a dictionary of plain values that JSON can hold."""
        return {
            "format": _FORMAT,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "entries": [asdict(entry) for entry in self._entries],
        }

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> PrivacyLedger:
        """Return the ledger that `to_dict` described; an overspent one is refused."""
        if plain.get("format") != _FORMAT:
            raise ValueError(
                f"the ledger has format {plain.get('format')!r}; this version reads {_FORMAT}."
            )
        ledger = cls(epsilon=plain["epsilon"], delta=plain["delta"])
        for entry in plain["entries"]:
            ledger.spend(
                entry["purpose"], mu=entry["mu"], epsilon=entry["epsilon"], delta=entry["delta"]
            )
        return ledger

    def __getstate__(self) -> dict[str, Any]:
        return self.to_dict()

    def __setstate__(self, state: dict[str, Any]) -> None:
        restored = type(self).from_dict(state)
        self.__dict__.update(restored.__dict__)
