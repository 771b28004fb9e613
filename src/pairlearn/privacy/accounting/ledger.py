# SPDX-License-Identifier: BSD-3-Clause
"""The privacy ledger: a budget that several private fits share and cannot overspend."""

from __future__ import annotations

import contextlib
import os
import secrets
import threading
import weakref
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Self

from pairlearn.privacy.accounting.gaussian import compose, epsilon_of_mu, gaussian_delta, mu_of
from pairlearn.privacy.accounting.ledger_file import LedgerFile, Mark
from pairlearn.privacy.accounting.spend import Budget, Spend

_FORMAT = 3
#: Rounding in sums of prices, relative to the budget.
_ROUNDING = 1e-9

#: The ledgers of this process by identity; unpickling looks up the original here.
_living: weakref.WeakValueDictionary[str, PrivacyLedger] = weakref.WeakValueDictionary()


class BudgetExceededError(RuntimeError):
    """A spend was refused because the budget would be exceeded."""


class _Memory:
    """Entries in the memory of one process."""

    def __init__(self, entries: Sequence[Spend] = (), process: int | None = None) -> None:
        self._entries = list(entries)
        self._process = os.getpid() if process is None else process
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        if os.getpid() != self._process:
            raise RuntimeError(
                "this ledger lives in the memory of another process, which would not see a spend "
                "from here; share a ledger through a file: "
                'PrivacyLedger.open("patients.ledger", epsilon=1.0, delta=1e-06).'
            )
        with self._lock:
            yield

    def read(self) -> list[Spend]:
        return self._entries

    def enter(self, entry: Spend) -> None:
        self._entries.append(entry)


class PrivacyLedger:
    """Total privacy loss of several releases from the same data.

    Gaussian releases compose exactly (squares of mu add up). Entries known only as
    (epsilon_i, delta_i) are added by basic composition: the total at `delta` is
    sum epsilon_i + epsilon(mu, delta - sum delta_i).

    The ledger knows what it protects, and so does each entry. An entry that protects against a
    smaller change is converted (`Spend.under`, lemma 18). For instance, an "add_remove" entry
    counts twice in a "replace" ledger, and an entry for examples counts k times in a ledger of
    persons with at most k rows each. An entry that says nothing about the ledger's change is
    refused, and the error names the cure.

    There is one budget, so there are no copies: `copy.deepcopy`, `sklearn.base.clone` and a pickle
    loaded in the same process return the same ledger. In another process it refuses every spend.
    `PrivacyLedger.open` shares a ledger between processes through a file.

    Parameters
    ----------
    epsilon, delta : float
        The budget.
    neighbours : {"replace", "add_remove"}, default="replace"
        The neighbouring relation of the budget.
    unit : {"example", "person"}, default="example"
        What is protected: one example, or one person with all examples. Fits with `groups` protect
        persons, all others examples. With "replace", a ledger of persons is about a person who is
        replaced by another with as many examples; "add_remove" hides that number as well.
    rows_per_person : int, optional
        Public: no person has more examples than this, for unit="person". Without it, a ledger of
        persons refuses a fit without `groups`.
    data : str, default=""
        A description of the data, in your words; two data sets need two ledgers.

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
    >>> persons = PrivacyLedger(epsilon=1.0, delta=1e-5, unit="person")
    >>> persons.spend("fit of rows", mu=0.1)
    Traceback (most recent call last):
        ...
    ValueError: 'fit of rows' protects one example, but the ledger counts persons, ...
    """

    def __init__(
        self,
        *,
        epsilon: float,
        delta: float,
        neighbours: str = "replace",
        unit: str = "example",
        rows_per_person: int | None = None,
        data: str = "",
    ) -> None:
        self._keep(Budget(epsilon, delta, neighbours, unit, rows_per_person, data), _Memory())
        self._identity = secrets.token_hex(16)
        _living[self._identity] = self

    def _keep(self, budget: Budget, entries: _Memory | LedgerFile) -> None:
        self._budget, self._entries = budget, entries

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        neighbours: str | None = None,
        unit: str | None = None,
        rows_per_person: int | None = None,
        data: str | None = None,
        seal: str | os.PathLike[str] | None = None,
    ) -> Self:
        """Open a ledger in a file that processes share, or create it.

        A new file needs `epsilon` and `delta`. For an existing file, every given argument must
        agree with it.

        Parameters
        ----------
        path : path
            The file.
        epsilon, delta : float, optional
            The budget.
        neighbours : {"replace", "add_remove"}, optional
            The neighbouring relation of the budget; "replace" for a new file.
        unit : {"example", "person"}, optional
            What is protected; "example" for a new file.
        rows_per_person : int, optional
            The largest number of examples of one person, for unit="person".
        data : str, optional
            A description of the data, in your words.
        seal : path, optional
            A second small file, best on another disk or of another account, which holds the number
            of entries and the last digest. A ledger with fewer entries than its seal is refused.
            The ledger remembers the path, so it is needed for a new ledger and for a seal that was
            moved.

        Returns
        -------
        PrivacyLedger
            The ledger; each spend is on disk before `spend` returns. Copies and pickles, in any
            process, are the same ledger: they hold the path.
        """
        given = {
            "epsilon": epsilon,
            "delta": delta,
            "neighbours": neighbours,
            "unit": unit,
            "rows_per_person": rows_per_person,
            "data": data,
        }
        return cls._opened(LedgerFile.open(
            path, {k: v for k, v in given.items() if v is not None}, seal
        ))  # fmt: skip

    @classmethod
    def _opened(cls, file: LedgerFile) -> Self:
        ledger = cls.__new__(cls)
        ledger._keep(file.budget, file)
        return ledger

    @property
    def epsilon(self) -> float:
        """The epsilon of the budget."""
        return self._budget.epsilon

    @property
    def delta(self) -> float:
        """The delta of the budget."""
        return self._budget.delta

    @property
    def neighbours(self) -> str:
        """The neighbouring relation of the budget."""
        return self._budget.neighbours

    @property
    def unit(self) -> str:
        """What the budget protects: "example" or "person"."""
        return self._budget.unit

    @property
    def rows_per_person(self) -> int | None:
        """The largest number of examples of one person; None if nothing is known."""
        return self._budget.rows_per_person

    @property
    def protects(self) -> str:
        """The change that the budget protects against, in words."""
        return self._budget.protects()

    @property
    def identity(self) -> str:
        """A random name that tells this ledger from others with the same budget."""
        return self._entries.identity if isinstance(self._entries, LedgerFile) else self._identity

    @property
    def data(self) -> str:
        """The description of the data."""
        return self._budget.data

    @property
    def entries(self) -> tuple[Spend, ...]:
        """The spends so far."""
        return tuple(self._entries.read())

    @property
    def spent_epsilon(self) -> float:
        """The epsilon of all entries together, at the ledger's delta."""
        return self._total(self._entries.read())

    @property
    def remaining_mu(self) -> float:
        """The largest mu that one more spend may have, for what this ledger protects."""
        return self._remaining(self._entries.read())

    def _remaining(self, entries: Sequence[Spend]) -> float:
        here = [entry.under(self._budget) for entry in entries]
        delta = self._delta_left(here)
        epsilon = self.epsilon - sum(entry.epsilon for entry in here)
        if delta <= 0 or epsilon <= 0:
            return 0.0
        total = mu_of(epsilon, delta)
        used = compose([0.0, *(entry.mu for entry in here)])
        return float(max(0.0, total**2 - used**2) ** 0.5)

    def spend(
        self,
        purpose: str,
        *,
        mu: float = 0.0,
        epsilon: float = 0.0,
        delta: float = 0.0,
        neighbours: str = "replace",
        unit: str = "example",
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
        neighbours : {"replace", "add_remove"}, default="replace"
            The relation under which mu, or (epsilon, delta), holds.
        unit : {"example", "person"}, default="example"
            What mu, or (epsilon, delta), protects.
        """
        entry = Spend(str(purpose), float(mu), float(epsilon), float(delta), neighbours, unit)
        steps = entry.steps(self._budget)
        with self._entries.alone():
            entries = self._entries.read()
            total = self._total([*entries, entry])
            # mu_of and epsilon_of_mu err on the safe side by 1e-12 each.
            if not total <= self.epsilon * (1 + _ROUNDING):
                # Rounded down, so that what is named fits.
                left = self._remaining(entries) / steps * (1 - 1e-5)
                raise BudgetExceededError(
                    f"{purpose!r} would bring the total to epsilon = {total:.4g} at delta = "
                    f"{self.delta:g}, over the budget of epsilon = {self.epsilon:g}; spend at "
                    f"most mu = {left:.6g}, or ask for a larger budget."
                )
            self._entries.enter(entry)

    def _total(self, entries: Sequence[Spend]) -> float:
        here = [entry.under(self._budget) for entry in entries]
        mu = compose([0.0, *(entry.mu for entry in here)])
        epsilon = sum(entry.epsilon for entry in here)
        delta = self._delta_left(here)
        if delta < 0 or (delta == 0 and gaussian_delta(mu, 0.0) > 0):
            return float("inf")
        if mu == 0:
            return epsilon
        return epsilon + epsilon_of_mu(mu, delta)

    def _delta_left(self, here: Sequence[Spend]) -> float:
        """Return the delta that entries leave; below 0 if they exceed that of the budget."""
        left = self.delta - sum(entry.delta for entry in here)
        # Thrice 1e-5 is more than 3e-5 by rounding.
        return max(left, 0.0) if left >= -_ROUNDING * self.delta else left

    def to_dict(self) -> dict[str, Any]:
        """Return a dictionary of plain values that JSON can hold."""
        return {
            "format": _FORMAT,
            **asdict(self._budget),
            "entries": [asdict(entry) for entry in self._entries.read()],
        }

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> PrivacyLedger:
        """Return a new ledger from the dictionary that `to_dict` made; refuse an overspent one."""
        version = plain.get("format")
        if version != _FORMAT:
            raise ValueError(f"the ledger has format {version!r}; this version reads {_FORMAT}.")
        ledger = PrivacyLedger(
            epsilon=plain["epsilon"],
            delta=plain["delta"],
            neighbours=plain["neighbours"],
            unit=plain["unit"],
            rows_per_person=plain["rows_per_person"],
            data=plain["data"],
        )
        for entry in plain["entries"]:
            names = ("mu", "epsilon", "delta", "neighbours", "unit")
            ledger.spend(entry["purpose"], **{name: entry[name] for name in names})
        return ledger

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: Any) -> Self:
        return self

    def __sklearn_clone__(self) -> Self:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        if isinstance(self._entries, LedgerFile):
            file = self._entries
            return _reopened, (file.path, file.seal, file.mark)
        return _found_again, (self._identity, self.to_dict())


def _reopened(path: Path, seal: Path | None, seen: Mark) -> PrivacyLedger:
    """Unpickle: open the file again, which must hold what the pickling process has seen."""
    return PrivacyLedger._opened(LedgerFile.open(path, {}, seal, seen))


def _found_again(identity: str, plain: dict[str, Any]) -> PrivacyLedger:
    """Unpickle: return the original ledger of this process, or else a read-only copy."""
    found = _living.get(identity)
    if found is not None:
        return found
    ledger = PrivacyLedger.from_dict(plain)
    ledger._keep(ledger._budget, _Memory(ledger._entries.read(), process=-1))
    return ledger
