# SPDX-License-Identifier: BSD-3-Clause
"""What an audit attacks, and the exact check: run on one table, play the noise on its neighbour.

With the same noisy values everything public must be the same to the last bit, since a private
function may know the data through noisy values only. Protected values must stay within the stated
sensitivity, and the certificate must list all releases and add up. This needs no statistics: it
surely finds every violation that the tables expose.
"""

from __future__ import annotations

import json
import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields, is_dataclass
from types import CellType, FunctionType, MappingProxyType
from typing import Any

import numpy as np

from pairlearn.privacy.accounting.certificate import Certificate, Release, accounting_problems
from pairlearn.privacy.accounting.gaussian import mu_of
from pairlearn.privacy.audit.neighbours import PublicNeighbours, Table
from pairlearn.privacy.audit.tape import Tape, TapeEndedError, recorded, replayed
from pairlearn.privacy.release import GRID_STEPS
from pairlearn.typing import Vector

#: Relative tolerance for rounding in a distance.
_ROUNDING = 1e-9
#: Methods whose answers to new examples are public.
_ANSWERS = ("decision_function", "predict_proba", "predict", "transform")


class Entry(ABC):
    """A private function under audit: how it is called, and what it makes public.

    A subclass calls the function in `run` exactly as a user does, without any source of noise: the
    audit listens to the noise (`privacy.audit.tape`). The claim is `epsilon` and `delta`.

    Examples
    --------
    >>> from pairlearn.privacy import NoiseSource, audit_entry, neighbouring_tables
    >>> class Mean(Entry):
    ...     name, epsilon, delta = "a sum without noise", 1.0, 1e-3
    ...     def pairs(self):
    ...         return neighbouring_tables((-1.0, 1.0), n=8)
    ...     def run(self, table):
    ...         return np.nansum(np.clip(table.X, -1, 1))
    >>> audit_entry(Mean(), n_runs=8).passed
    False
    """

    name: str
    epsilon: float
    delta: float
    #: What a certificate must be about.
    unit: str = "example"
    neighbours: str = "replace"
    #: New examples, whose scores are public.
    probes: Any = None
    #: The share of the runs that a slow function gets; the audit states what these can find.
    share_of_runs: float = 1.0
    #: Whether noisy numbers decide how many further ones are released (lemma 21).
    adaptive: bool = False

    @abstractmethod
    def pairs(self) -> Sequence[PublicNeighbours]:
        """Return neighbouring tables."""

    @abstractmethod
    def run(self, table: Table) -> Any:
        """Call the function on a table, as a user does, and return its result."""

    def public(self, result: Any) -> dict[str, Any]:
        """Return everything public about a result, as plain values to compare."""
        if hasattr(result, "to_record"):  # all attributes, the model file and answers to `probes`
            answers = _answers(result, self.probes)
            return fitted_facts(result) | {name: plain(value) for name, value in answers.items()}
        return {name: plain(value) for name, value in _parts(result)}

    def numbers(self, result: Any) -> Vector:
        """Return the public numbers of a result, for attacks by statistics."""
        found = [*_parts(result), *_answers(result, self.probes).items()]
        arrays = (np.ravel(v) for _, v in found if isinstance(v, (float, np.ndarray)))
        return np.concatenate([array for array in arrays if array.dtype.kind == "f"])

    def certificate(self, result: Any) -> Certificate | None:
        """Return the certificate of a result; None if the function gives none."""
        found: Certificate | None = getattr(result, "certificate_", None)
        return getattr(result, "certificate", None) if found is None else found

    def listed(self, result: Any) -> Sequence[Release] | None:
        """Return the certified release of each noisy vector in order; None if nothing is listed."""
        certificate = self.certificate(result)
        return None if certificate is None else certificate.releases

    def problems(self, result: Any) -> list[str]:
        """Return conditions of the proof that this result breaks; usually there are none."""
        found = self.certificate(result)
        if found is None or (found.unit, found.neighbours) == (self.unit, self.neighbours):
            return []
        return [f"the certificate is about {found.unit}s ({found.neighbours})"]

    def law(self, table: Table) -> Vector | None:
        """Return the exact probabilities of the outcomes 0, 1, ..., if they are known."""
        return None


def _parts(result: Any) -> Iterable[tuple[str, Any]]:
    """Return the public parts of a result by name: fitted attributes, fields, or the result."""
    if is_dataclass(result):
        return [(one.name, getattr(result, one.name)) for one in fields(result)]
    known = sorted(vars(result).items()) if hasattr(result, "__dict__") else []
    return [(k, v) for k, v in known if k.endswith("_")] or [("numbers", np.asarray(result, float))]


def _answers(model: Any, probes: Any) -> dict[str, Any]:
    """Return the answers of an estimator to new examples."""
    if probes is None:
        return {}
    return {
        name: np.asarray(getattr(model, name)(probes)) for name in _ANSWERS if hasattr(model, name)
    }


def plain(value: Any, inside: tuple[int, ...] = ()) -> Any:
    """Return a value in a form that can be compared with ==, to the last bit.

    `inside` are the identities of the objects that hold it.

    >>> plain({"centre": [np.array([65], dtype="u1")]})
    [("'centre'", [('|u1', (1,), b'A')])]
    """
    if isinstance(value, (type(None), int, float, complex, str, bytes, np.generic)):
        return repr(value)
    if isinstance(value, type):
        return value.__qualname__
    if hasattr(value, "detach") and hasattr(value, "cpu"):
        value = value.detach().cpu().numpy()  # a tensor, whose pickle is never the same twice
    kind = type(value)
    if kind is np.ndarray and value.dtype.kind != "O":
        return value.dtype.str, value.shape, value.tobytes()
    if kind is memoryview:
        return bytes(value)
    if id(value) in inside:  # it holds itself
        return "..."
    inside = (*inside, id(value))
    if kind in (dict, MappingProxyType):
        return [(repr(key), plain(entry, inside)) for key, entry in value.items()]
    if kind in (list, tuple, np.ndarray):
        return [plain(entry, inside) for entry in value]
    if kind in (set, frozenset):
        return sorted(map(repr, value))
    if kind is FunctionType:
        cells = [cell.cell_contents for cell in value.__closure__ or () if cell != CellType()]
        held = [value.__defaults__, value.__kwdefaults__, vars(value), cells]
        return value.__qualname__, plain(held, inside)
    # What a pickle would hold: the text of an object may leave out digits and rows.
    try:
        made = value.__reduce_ex__(4)
    except Exception:  # such as a lock, or what refuses in its own words
        return kind.__qualname__
    if isinstance(made, str):  # the name of what is found by it
        return made
    # Behind class and state come the entries of a list and of a dictionary.
    return plain([*made[1:3], *(list(part) for part in made[3:5] if part is not None)], inside)


def fitted_facts(model: Any) -> dict[str, Any]:
    """Return all that a fitted estimator holds but its parameters, and its model file."""
    try:
        held = model.__getstate__()
    except TypeError:  # An unfinished stream refuses to be copied, since it holds secrets.
        held = {name: value for name, value in vars(model).items() if name[0] != "_"}
    given = model.get_params(deep=False)
    seen = {name: plain(value) for name, value in held.items() if name not in given}
    record = model.to_record()
    seen["model file"] = (
        {name: array.tobytes() for name, array in record.arrays.items()},
        json.dumps([record.parameters, record.provenance, record.certificate], sort_keys=True),
    )
    return seen


@dataclass(frozen=True)
class ExactCheck:
    """The result of the exact check: findings, the pair with the largest distance, the claim."""

    findings: list[str]
    n_pairs: int
    worst: PublicNeighbours
    share: float
    mu: float | None


def check_entry(entry: Entry) -> ExactCheck:
    """Record runs and replay them on neighbouring tables; see the module."""
    pairs = entry.pairs()
    findings: list[str] = []
    worst, share, mu = pairs[0], -1.0, None
    for pair in pairs:
        try:
            found, distance, mu = _check(entry, pair)
        except TapeEndedError:
            found, distance = ["more, or other numbers, are released on the neighbour"], 0.0
        except Exception as error:  # An error that depends on the data is a release.
            found, distance = [f"the data cause a {type(error).__name__}"], 0.0
        findings.extend(f"{pair.name}: {finding}." for finding in found)
        if distance > share:
            worst, share = pair, distance
    return ExactCheck(findings, len(pairs), worst, share, mu)


def _check(entry: Entry, pair: PublicNeighbours) -> tuple[list[str], float, float | None]:
    """Return the findings, the distance as a share of the claim, and the claimed mu."""
    # All of a run is seen before the next one begins: an object may be fitted again.
    tape, mine, certificate, listed, found = _run(entry, pair.first, recorded())
    coins = [answer for *_, answer in tape.coins]
    again = replayed(tape.outputs, tape.draws, rows=pair.moved, coins=coins)
    other, theirs, *_ = _run(entry, pair.second, again)
    differ = [name for name in {**mine, **theirs} if mine.get(name) != theirs.get(name)]
    if differ:
        found.append(f"with the same noisy values {', '.join(differ)} differ on the neighbour")
    law, other_law = entry.law(pair.first), entry.law(pair.second)
    if law is not None and other_law is not None:
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = float(np.nanmax(np.abs(np.log(law) - np.log(other_law))))
        if not ratio <= entry.epsilon * (1.0 + _ROUNDING):
            found.append(f"an outcome is exp({ratio:.4g}) times as likely on the neighbour")
        return found, ratio / entry.epsilon, None
    if certificate is not None:
        found += [problem.rstrip(".") for problem in accounting_problems(certificate)]
        if (certificate.epsilon, certificate.delta) != (entry.epsilon, entry.delta):
            found.append(
                f"({certificate.epsilon:g}, {certificate.delta:g}) is certified, but "
                f"({entry.epsilon:g}, {entry.delta:g}) was asked for"
            )
    if not same_noise(tape, other):
        found.append("other numbers, or other noise, are released on the neighbour")
        return found, 0.0, None
    if listed is not None:
        found += released_problems(tape, other, listed)
    total, allowed = math.hypot(0.0, *tape.distances(other)), mu_of(entry.epsilon, entry.delta)
    if not total <= allowed * (1.0 + _ROUNDING):
        found.append(f"all releases together are {total / allowed:.4g} times the budget away")
    return found, total / allowed, None if certificate is None else certificate.mu


def _run(entry: Entry, table: Table, noise: AbstractContextManager[Tape]) -> tuple[Any, ...]:
    """Run; return the tape, what is public, the certificate, its releases and its problems."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with noise as tape:
            result = entry.run(table)
        public = {**entry.public(result), "warnings": [str(one.message) for one in caught]}
    certificate, listed = entry.certificate(result), entry.listed(result)
    return tape, public, certificate, listed, entry.problems(result)


def same_noise(tape: Tape, other: Tape) -> bool:
    """Return whether as many numbers were released in both runs, with the same noise."""
    sizes = [[value.size for value in one.values] for one in (tape, other)]
    return sizes[0] == sizes[1] and tape.scales == other.scales


def made_in_pieces(releases: Sequence[Release], sizes: Sequence[int]) -> list[list[int]] | None:
    """Return the noisy vectors that each listed release is made of; None if they do not add up.

    A release may be made in pieces that follow each other: then its dimension is that of all of
    them, and its sensitivity bounds the distance of all of them together.

    >>> both = [Release("a", 4, 1.0, 1.0), Release("b", 3, 1.0, 1.0)]
    >>> made_in_pieces(both, [2, 2, 3]), made_in_pieces(both, [2, 3, 2])
    ([[0, 1], [2]], None)
    """
    found, place = [], 0
    for release in releases:
        first, filled = place, 0
        while filled < release.dimension and place < len(sizes):
            filled += sizes[place]
            place += 1
        if filled != release.dimension:
            return None
        found.append(list(range(first, place)))
    return found if place == len(sizes) else None


def released_problems(tape: Tape, other: Tape, listed: Sequence[Release]) -> list[str]:
    """Return how the releases of two runs break what is listed about them."""
    pieces = made_in_pieces(listed, [value.size for value in tape.values])
    if pieces is None:
        stated = [release.dimension for release in listed]
        return [f"releases of {stated} numbers are listed, but others were made"]
    distances, found = tape.distances(other), []
    for release, piece in zip(listed, pieces, strict=True):
        # The scale in units of the data is not known here, but the grid is never coarser.
        if any(
            tape.scales[k] < GRID_STEPS or (tape.values[k] != np.rint(tape.values[k])).any()
            for k in piece
        ):
            found.append(f"{release.name} has discrete noise that is too small or off the grid")
        distance = math.hypot(*(distances[k] for k in piece))
        if not distance <= release.mu * (1.0 + _ROUNDING):
            found.append(
                f"{release.name} is {distance / release.mu:.4g} times its sensitivity away"
            )
    return found
