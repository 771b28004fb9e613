# SPDX-License-Identifier: BSD-3-Clause
"""The privacy ledger: a budget that several private fits share and cannot overspend.

A `Spend` is one entry, a `Budget` what all of them may cost together, a `PrivacyLedger` both, in
memory or in a file that processes share. The file holds one JSON object per line: first the budget
and an identity, then each spend with its time. Each line ends with a digest of itself and of all
lines before it, so a change by another program is noticed. A spend locks the file itself, reads it,
decides, appends a line and returns when the line is on disk; only then does a fit read the data, so
every release has its entry. A line that a killed process left unfinished paid for nothing, and the
next spend replaces it. A digest cannot show that whole last lines are missing: keep a copy.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import secrets
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, Self

from pairlearn.privacy.accounting.certificate import check_kind
from pairlearn.privacy.accounting.gaussian import compose, epsilon_of_mu, gaussian_delta, mu_of
from pairlearn.validation import check_count, check_fraction, check_positive

_FORMAT = "pairlearn privacy ledger 3"
#: Rounding in sums of prices, relative to the budget.
_ROUNDING = 1e-9
_SHARE = (
    "share a ledger through a file: "
    'PrivacyLedger.open("patients.ledger", epsilon=1.0, delta=1e-06).'
)


class BudgetExceededError(RuntimeError):
    """A spend was refused because the budget would be exceeded."""


class LedgerFileError(ValueError):
    """A file is not a ledger, or another program changed it."""


@dataclass(frozen=True)
class Budget:
    """The budget of a ledger, with what it protects and covers; see `PrivacyLedger`.

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
        check_kind(self.neighbours, self.unit)
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
        what, other = "one example", " by another"
        if self.unit == "person":
            most = "" if self.rows_per_person is None else f" (at most {self.rows_per_person})"
            what, other = f"one person with all examples{most}", f"{other} with as many"
        return f"{what} " + (
            f"replaced{other}" if self.neighbours == "replace" else "added or removed"
        )

    def written(self, **changes: Any) -> str:
        """Return the Python call that makes a ledger like this one, with some arguments changed."""
        told = [f"epsilon={self.epsilon!r}", f"delta={self.delta!r}"]
        for one in fields(self)[2:5]:
            value = changes.get(one.name, getattr(self, one.name))
            if value != one.default:
                told.append(f"{one.name}={json.dumps(value)}")
        return f"PrivacyLedger({', '.join(told)})"


@dataclass(frozen=True)
class Spend:
    """One entry of a ledger: a mu or an (epsilon, delta), and the change that it holds for.

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
        check_kind(self.neighbours, self.unit)
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
        (k epsilon, delta (1 + e^epsilon + ... + e^((k - 1) epsilon))) (lemma 18).
        """
        k, delta = self.steps(budget), 0.0
        if k * self.epsilon > 700.0:  # the powers overflow, and delta = 1 promises nothing
            delta = float(self.delta > 0.0)
        elif self.delta:
            powers = (math.exp(step * self.epsilon) for step in range(k))
            delta = min(1.0, self.delta * math.fsum(powers))
        return replace(
            self, mu=k * self.mu, epsilon=k * self.epsilon, delta=delta,
            neighbours=budget.neighbours, unit=budget.unit,
        )  # fmt: skip


class PrivacyLedger:
    """Total privacy loss of several releases from the same data.

    Gaussian releases compose exactly (squares of mu add up). Entries known only as
    (epsilon_i, delta_i) are added by basic composition: the total at `delta` is
    sum epsilon_i + epsilon(mu, delta - sum delta_i).

    The ledger knows what it protects, and so does each entry. An entry that protects against a
    smaller change is converted (lemma 18): an "add_remove" entry counts twice in a "replace"
    ledger, and an entry for examples k times in a ledger of persons with at most k rows each. An
    entry that says nothing about the ledger's change is refused, and the error names the cure.

    There is one budget, so there are no copies: `copy.deepcopy` and `sklearn.base.clone` return
    the same ledger. `PrivacyLedger.open` shares a ledger between processes through a file; one in
    memory cannot be pickled.

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
        self.budget = Budget(epsilon, delta, neighbours, unit, rows_per_person, data)
        self.path: Path | None = None
        self.identity = secrets.token_hex(16)
        self._in_memory: list[Spend] = []
        self._process, self._lock = os.getpid(), threading.Lock()
        #: The digests of a file as far as it was read.
        self._seen: list[str] = []

    @classmethod
    def open(cls, path: str | os.PathLike[str], **budget: Any) -> Self:
        """Open a ledger in a file that processes share, or create it.

        Parameters
        ----------
        path : path
            The file.
        **budget
            The parameters of the class. A new file needs `epsilon` and `delta`; for an existing
            file, every given one must agree with it.

        Returns
        -------
        PrivacyLedger
            The ledger; each spend is on disk before `spend` returns. Copies and pickles, in any
            process, are the same ledger: they hold the path.
        """
        place = Path(os.path.realpath(path))
        given = {name: value for name, value in budget.items() if value is not None}
        if not place.exists():
            if not {"epsilon", "delta"} <= given.keys():
                raise FileNotFoundError(
                    f"there is no ledger at {place}; to make one, give its budget: "
                    f"PrivacyLedger.open({str(path)!r}, epsilon=1.0, delta=1e-06)."
                )
            _create(place, Budget(**given))
        with place.open("rb") as file:
            header, _, digests = _parsed(file, place)
        known = {one.name: header[one.name] for one in fields(Budget)}
        for name, value in given.items():
            if known[name] != value:
                raise LedgerFileError(
                    f"the ledger at {place} has {name} = {known[name]!r}, not {value!r}; open it "
                    "without that argument, or use another file for another budget."
                )
        ledger = cls(**known)
        ledger.path, ledger.identity, ledger._seen = place, header["id"], digests
        return ledger

    @property
    def entries(self) -> tuple[Spend, ...]:
        """The spends so far."""
        if self.path is None:
            return tuple(self._in_memory)
        with _opened(self.path, "rb") as file:
            return tuple(self._read(file))

    @property
    def protects(self) -> str:
        """The change that the budget protects against, in words."""
        return self.budget.protects()

    @property
    def spent_epsilon(self) -> float:
        """The epsilon of all entries together, at the ledger's delta."""
        return self._total(self.entries)

    @property
    def remaining_mu(self) -> float:
        """The largest mu that one more spend may have, for what this ledger protects."""
        return self._remaining(self.entries)

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
        entry.steps(self.budget)
        if self.path is not None:
            with _opened(self.path, "r+b") as file:
                _lock(file)
                self._check(entry, self._read(file))
                self._seen.append(_append(file, {**asdict(entry), "time": _now()}))
            return
        if os.getpid() != self._process:
            raise RuntimeError(
                "this ledger lives in the memory of another process, which would not see a spend "
                f"from here; {_SHARE}"
            )
        with self._lock:
            self._check(entry, self._in_memory)
            self._in_memory.append(entry)

    def _check(self, entry: Spend, entries: Sequence[Spend]) -> None:
        total = self._total([*entries, entry])
        # mu_of and epsilon_of_mu err on the safe side by 1e-12 each.
        if not total <= self.budget.epsilon * (1 + _ROUNDING):
            # Rounded down, so that what is named fits.
            left = self._remaining(entries) / entry.steps(self.budget) * (1 - 1e-5)
            raise BudgetExceededError(
                f"{entry.purpose!r} would bring the total to epsilon = {total:.4g} at delta = "
                f"{self.budget.delta:g}, over the budget of epsilon = {self.budget.epsilon:g}; "
                f"spend at most mu = {left:.6g}, or ask for a larger budget."
            )

    def _sums(self, entries: Sequence[Spend]) -> tuple[float, float, float]:
        """Return the mu and the epsilon of all entries, and the delta that they leave."""
        here = [entry.under(self.budget) for entry in entries]
        left = self.budget.delta - sum(entry.delta for entry in here)
        if left >= -_ROUNDING * self.budget.delta:  # thrice 1e-5 is more than 3e-5 by rounding
            left = max(left, 0.0)
        mu = compose([0.0, *(entry.mu for entry in here)])
        return mu, float(sum(entry.epsilon for entry in here)), left

    def _total(self, entries: Sequence[Spend]) -> float:
        mu, epsilon, delta = self._sums(entries)
        if delta < 0 or (delta == 0 and gaussian_delta(mu, 0.0) > 0):
            return math.inf
        return epsilon if mu == 0 else epsilon + epsilon_of_mu(mu, delta)

    def _remaining(self, entries: Sequence[Spend]) -> float:
        used, spent, delta = self._sums(entries)
        if delta <= 0 or spent >= self.budget.epsilon:
            return 0.0
        return math.sqrt(max(0.0, mu_of(self.budget.epsilon - spent, delta) ** 2 - used**2))

    def _read(self, file: IO[bytes]) -> list[Spend]:
        """Return the entries of the file; refuse one that lacks what was read before."""
        assert self.path is not None
        header, entries, digests = _parsed(file, self.path)
        if header["id"] != self.identity or digests[: len(self._seen)] != self._seen:
            raise LedgerFileError(
                f"the ledger at {self.path} lacks entries that were read from it, or is another "
                "one: lines were removed, or it is an old copy; restore the newest copy."
            )
        self._seen = digests
        return entries

    def to_dict(self) -> dict[str, Any]:
        """Return a dictionary of plain values that JSON can hold."""
        return {**asdict(self.budget), "entries": [asdict(entry) for entry in self.entries]}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> PrivacyLedger:
        """Return a new ledger from the dictionary that `to_dict` made; refuse an overspent one."""
        ledger = PrivacyLedger(**{one.name: plain[one.name] for one in fields(Budget)})
        for entry in plain["entries"]:
            ledger.spend(**{name: value for name, value in entry.items() if name != "time"})
        return ledger

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: Any) -> Self:
        return self

    def __sklearn_clone__(self) -> Self:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        if self.path is None:
            raise TypeError(
                "a ledger in memory cannot be pickled: a copy elsewhere would spend the same "
                f"budget again; {_SHARE}"
            )
        return _reopened, (str(self.path), self.identity, self._seen)


def _reopened(path: str, identity: str, seen: list[str]) -> PrivacyLedger:
    """Unpickle: open the file again, which must hold what the pickling process has read."""
    ledger = PrivacyLedger.open(path)
    ledger.identity, ledger._seen = identity, seen
    _ = ledger.entries
    return ledger


def _create(path: Path, budget: Budget) -> None:
    if not path.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {path.parent} for the ledger; make it first.")
    with path.open("a+b") as file:
        _lock(file)
        file.seek(0)
        if not file.read(1):
            identity = secrets.token_hex(16)
            _append(file, {"format": _FORMAT, "id": identity, **asdict(budget), "time": _now()})


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


@contextlib.contextmanager
def _opened(path: Path, mode: str) -> Iterator[IO[bytes]]:
    try:
        file: IO[bytes] = path.open(mode)
    except FileNotFoundError as error:
        said = "the ledger is gone; restore it from a copy, or open it where it is now"
        raise FileNotFoundError(error.errno, said, str(path)) from None
    with file:
        yield file


def _lock(file: IO[bytes]) -> None:
    """Lock the file itself until it is closed; nobody can take the lock away."""
    try:
        import fcntl
    except ImportError:  # Windows
        import msvcrt

        file.seek(0)
        msvcrt.locking(file.fileno(), msvcrt.LK_LOCK, 1)  # type: ignore[attr-defined]
    else:
        fcntl.flock(file, fcntl.LOCK_EX)


def _append(file: IO[bytes], values: Mapping[str, Any]) -> str:
    """Write one line to disk behind the complete lines of a locked file; return its digest."""
    file.seek(0)
    before = file.read()
    before = before[: before.rfind(b"\n") + 1]
    line, digest = _line(values, hashlib.sha256(before))
    file.seek(len(before))
    file.truncate()
    file.write(line)
    file.flush()
    os.fsync(file.fileno())
    return digest


def _line(values: Mapping[str, Any], before: Any) -> tuple[bytes, str]:
    """Return a line with its digest, given the digest of the lines before it."""
    state = before.copy()
    state.update(json.dumps(values, allow_nan=False).encode())
    digest = state.hexdigest()
    return json.dumps({**values, "digest": digest}, allow_nan=False).encode() + b"\n", digest


def _parsed(file: IO[bytes], path: Path) -> tuple[dict[str, Any], list[Spend], list[str]]:
    """Return header, entries and digests of a file; raise if a digest does not match."""
    file.seek(0)
    lines = file.read().splitlines(keepends=True)
    if lines and not lines[-1].endswith(b"\n"):
        lines.pop()  # A killed process left it, before its spend was one.
    header: dict[str, Any] = {}
    entries, digests, before = [], [], hashlib.sha256()
    for number, line in enumerate(lines, start=1):
        try:
            plain = json.loads(line)
            digests.append(plain.pop("digest"))
            if line != _line(plain, before)[0]:
                raise ValueError("digest")
            if number > 1:
                entries.append(Spend(**plain))
            else:
                header = plain
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            if number == 1:
                break
            raise LedgerFileError(
                f"another program changed line {number} of the ledger {path}, or an earlier line; "
                "restore the file from a copy."
            ) from None
        before.update(line)
    if header.get("format") != _FORMAT:
        raise LedgerFileError(f"{path} is not a ledger of the format {_FORMAT!r}.")
    return header, entries, digests
