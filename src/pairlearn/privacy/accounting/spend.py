# SPDX-License-Identifier: BSD-3-Clause
"""The budget of a privacy ledger, and one entry of it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from pairlearn.privacy.accounting.certificate import NEIGHBOURS
from pairlearn.validation import check_fraction, check_positive


def check_relation(neighbours: str) -> str:
    """Return the name of a neighbouring relation; raise if it is unknown."""
    if neighbours not in NEIGHBOURS:
        names = ", ".join(repr(name) for name in NEIGHBOURS)
        raise ValueError(f"neighbours must be one of {names}, got {neighbours!r}.")
    return neighbours


@dataclass(frozen=True)
class Spend:
    """One entry of a ledger.

    Parameters
    ----------
    purpose : str
        What the spend paid for.
    mu : float
        Gaussian-DP parameter, or 0 for an entry known only as (epsilon, delta).
    epsilon, delta : float
        The (epsilon, delta) of an entry without mu; (0, 0) otherwise.
    neighbours : str, default="replace"
        The neighbouring relation under which these numbers hold.
    time : str, default=""
        Time of entry, in a ledger file.

    Examples
    --------
    >>> Spend("fit", 0.3, neighbours="add_remove").under("replace").mu
    0.6
    """

    purpose: str
    mu: float = 0.0
    epsilon: float = 0.0
    delta: float = 0.0
    neighbours: str = "replace"
    time: str = ""

    def __post_init__(self) -> None:
        check_relation(self.neighbours)
        values = (self.mu, self.epsilon, self.delta)
        if not all(math.isfinite(value) and value >= 0 for value in values) or (
            self.mu == 0 and self.epsilon == 0
        ):
            raise ValueError(
                f"a spend needs a finite mu > 0 or epsilon > 0, got mu={self.mu!r}, "
                f"epsilon={self.epsilon!r}, delta={self.delta!r}."
            )

    def under(self, neighbours: str) -> Spend:
        """Return the entry with its cost under another relation.

        Replacing an example is removing one and adding another, so mu doubles and (epsilon, delta)
        becomes (2 epsilon, (1 + e^epsilon) delta) (lemma 14).
        """
        if neighbours == self.neighbours:
            return self
        if neighbours == "add_remove":
            raise ValueError(
                f"{self.purpose!r} is private with respect to replacement, which says nothing "
                'about adding or removing an example; use PrivacyLedger(neighbours="replace"), or '
                'neighbours="add_remove" in the fit.'
            )
        return Spend(
            self.purpose,
            2.0 * self.mu,
            2.0 * self.epsilon,
            (1.0 + math.exp(min(self.epsilon, 700.0))) * self.delta,
            neighbours,
            self.time,
        )


@dataclass(frozen=True)
class Budget:
    """The budget of a ledger, and the data it covers.

    Parameters
    ----------
    epsilon, delta : float
        The budget.
    neighbours : {"replace", "add_remove"}, default="replace"
        The neighbouring relation.
    data : str, default=""
        A description of the data, in the user's words.

    Examples
    --------
    >>> Budget(1, 1e-6).epsilon
    1.0
    """

    epsilon: float
    delta: float
    neighbours: str = "replace"
    data: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", check_positive("epsilon", self.epsilon))
        object.__setattr__(self, "delta", check_fraction("delta", self.delta))
        check_relation(self.neighbours)
        object.__setattr__(self, "data", str(self.data))
