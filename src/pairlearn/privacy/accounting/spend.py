# SPDX-License-Identifier: BSD-3-Clause
"""The budget of a privacy ledger, and one entry of it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from pairlearn.privacy.accounting.certificate import NEIGHBOURS, UNITS
from pairlearn.validation import check_count, check_fraction, check_positive


def check_relation(neighbours: str) -> str:
    """Return the name of a neighbouring relation; raise if it is unknown."""
    if neighbours not in NEIGHBOURS:
        names = ", ".join(repr(name) for name in NEIGHBOURS)
        raise ValueError(f"neighbours must be one of {names}, got {neighbours!r}.")
    return neighbours


def check_unit(unit: str) -> str:
    """Return the name of a protected unit; raise if it is unknown."""
    if unit not in UNITS:
        names = " or ".join(repr(name) for name in UNITS)
        raise ValueError(f"unit must be {names}, got {unit!r}.")
    return unit


@dataclass(frozen=True)
class Budget:
    """The budget of a ledger, what it protects, and the data it covers.

    Parameters
    ----------
    epsilon, delta : float
        The budget.
    neighbours : {"replace", "add_remove"}, default="replace"
        The neighbouring relation.
    unit : {"example", "person"}, default="example"
        What is replaced, added or removed: one example, or one person with all examples.
    rows_per_person : int, optional
        Public: the largest number of examples of one person.
    data : str, default=""
        A description of the data, in the user's words.

    Examples
    --------
    >>> Budget(1, 1e-6).epsilon
    1.0
    >>> print(Budget(1, 1e-6, unit="person").protects())
    one person with all examples replaced by another with as many
    """

    epsilon: float
    delta: float
    neighbours: str = "replace"
    unit: str = "example"
    rows_per_person: int | None = None
    data: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", check_positive("epsilon", self.epsilon))
        object.__setattr__(self, "delta", check_fraction("delta", self.delta))
        check_relation(self.neighbours)
        check_unit(self.unit)
        if self.rows_per_person is not None:
            if self.unit != "person":
                raise ValueError(
                    f"rows_per_person={self.rows_per_person!r} belongs to a ledger of persons; add "
                    'unit="person", or leave it out.'
                )
            most = check_count("rows_per_person", self.rows_per_person)
            object.__setattr__(self, "rows_per_person", most)
        object.__setattr__(self, "data", str(self.data))

    def protects(self) -> str:
        """Return the change that the budget protects against, in words."""
        if self.unit == "example":
            what = "one example"
            other = " by another"
        else:
            most = "" if self.rows_per_person is None else f" (at most {self.rows_per_person})"
            what = f"one person with all examples{most}"
            other = " by another with as many"
        return (
            f"{what} replaced{other}"
            if self.neighbours == "replace"
            else (f"{what} added or removed")
        )

    def written(self, **changes: object) -> str:
        """Return the Python call that makes a ledger like this one, with some arguments changed."""
        plain = replace(self, **changes)  # type: ignore[arg-type]
        told = [f"epsilon={plain.epsilon!r}", f"delta={plain.delta!r}"]
        if plain.neighbours != "replace":
            told.append(f'neighbours="{plain.neighbours}"')
        if plain.unit != "example":
            told.append(f'unit="{plain.unit}"')
        if plain.rows_per_person is not None:
            told.append(f"rows_per_person={plain.rows_per_person}")
        return f"PrivacyLedger({', '.join(told)})"


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
    unit : {"example", "person"}, default="example"
        What these numbers protect: one example, or one person with all examples.
    time : str, default=""
        Time of entry, in a ledger file.

    Examples
    --------
    >>> Spend("fit", 0.3, neighbours="add_remove").under(Budget(1, 1e-6)).mu
    0.6
    >>> Spend("fit", 0.1).under(Budget(1, 1e-6, unit="person", rows_per_person=4)).mu
    0.4
    """

    purpose: str
    mu: float = 0.0
    epsilon: float = 0.0
    delta: float = 0.0
    neighbours: str = "replace"
    unit: str = "example"
    time: str = ""

    def __post_init__(self) -> None:
        check_relation(self.neighbours)
        check_unit(self.unit)
        values = (self.mu, self.epsilon, self.delta)
        if not all(math.isfinite(value) and value >= 0 for value in values) or (
            self.mu == 0 and self.epsilon == 0
        ):
            raise ValueError(
                f"a spend needs a finite mu > 0 or epsilon > 0, got mu={self.mu!r}, "
                f"epsilon={self.epsilon!r}, delta={self.delta!r}."
            )

    def steps(self, budget: Budget) -> int:
        """Return how many changes of this entry's kind make up one change of the budget's kind.

        Lemmas 14 and 18 in ``docs/privacy/lemmas.md`` prove the numbers; a `ValueError` says why
        there is none.
        """
        count = 1
        if budget.neighbours == "replace" and self.neighbours == "add_remove":
            count = 2
        elif budget.neighbours == "add_remove" and self.neighbours == "replace":
            raise ValueError(
                f"{self.purpose!r} is private with respect to replacement, which says nothing "
                f"about adding or removing; use {budget.written(neighbours='replace')}, or "
                'neighbours="add_remove" in the fit.'
            )
        if self.unit == budget.unit:
            return count
        if self.unit == "example":
            if budget.rows_per_person is None:
                raise ValueError(
                    f"{self.purpose!r} protects one example, but the ledger counts persons, who "
                    "may have any number of them; say whose row each is (groups=...), or, if "
                    "nobody has more than 10 rows, say so in a new ledger: "
                    f"{budget.written(rows_per_person=10)}."
                )
            return count * budget.rows_per_person
        if self.neighbours == "replace":
            # With a row, a person may come or go, and the number of persons is public here.
            raise ValueError(
                f"{self.purpose!r} protects one person with all examples, but the ledger counts "
                "examples, and a replaced example can change how many persons there are; use a "
                f"ledger of persons: {budget.written(unit='person')}."
            )
        return 2 * count

    def under(self, budget: Budget) -> Spend:
        """Return the entry with its cost for the change that a budget protects against.

        A change in k steps multiplies mu by k and makes (epsilon, delta) to
        (k epsilon, delta (e^(k epsilon) - 1)/(e^epsilon - 1)) (lemma 18).
        """
        k = self.steps(budget)
        if k == 1:
            return replace(self, neighbours=budget.neighbours, unit=budget.unit)
        delta = 0.0
        if self.delta:
            # Where the powers would overflow, delta is 1, which promises nothing.
            growth = (
                k
                if self.epsilon == 0
                else math.expm1(min(k * self.epsilon, 700.0))
                / (math.expm1(min(self.epsilon, 700.0)))
            )
            delta = 1.0 if k * self.epsilon > 700 else min(1.0, growth * self.delta)
        return Spend(
            self.purpose, k * self.mu, k * self.epsilon, delta, budget.neighbours, budget.unit,
            self.time,
        )  # fmt: skip
