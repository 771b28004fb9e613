# SPDX-License-Identifier: BSD-3-Clause
"""The exact check: run on one table, and play the noise back on its neighbour.

With the same noisy values everything public must be the same to the last bit, since a private
function may know the data through noisy values only. Protected values must stay within the stated
sensitivity, and the certificate must list all releases and add up. This needs no statistics: it
surely finds every violation that the tables expose.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import numpy as np

from pairlearn.privacy.accounting.certificate import Certificate, Release, accounting_problems
from pairlearn.privacy.accounting.gaussian import mu_of
from pairlearn.privacy.audit.entry import Entry
from pairlearn.privacy.audit.mechanism import made_in_pieces
from pairlearn.privacy.audit.neighbours import PublicNeighbours, Table
from pairlearn.privacy.audit.tape import Tape, TapeEndedError, recorded, replayed
from pairlearn.privacy.release import GRID_STEPS

#: Relative tolerance for rounding in a distance.
_ROUNDING = 1e-9


@dataclass(frozen=True)
class ExactCheck:
    """The result of the exact check: findings, the pair with the largest distance, the claim."""

    findings: list[str]
    n_pairs: int
    worst: PublicNeighbours
    share: float
    mu: float | None


@dataclass(frozen=True)
class _Run:
    """One run, as seen before the next one begins: an object may be fitted again."""

    public: dict[str, Any]
    certificate: Certificate | None
    listed: Sequence[Release] | None
    problems: list[str]


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
    tape, mine = _run(entry, pair.first, recorded())
    coins = [answer for *_, answer in tape.coins]
    again = replayed(tape.outputs, tape.draws, rows=pair.moved, coins=coins)
    other, theirs = _run(entry, pair.second, again)
    found = _differences(mine.public, theirs.public)
    law, other_law = entry.law(pair.first), entry.law(pair.second)
    if law is not None and other_law is not None:
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = float(np.nanmax(np.abs(np.log(law) - np.log(other_law))))
        if not ratio <= entry.epsilon * (1.0 + _ROUNDING):
            found.append(f"an outcome is exp({ratio:.4g}) times as likely on the neighbour")
        return found, ratio / entry.epsilon, None
    certificate = mine.certificate
    if certificate is not None:
        found += [problem.rstrip(".") for problem in accounting_problems(certificate)]
        if (certificate.epsilon, certificate.delta) != (entry.epsilon, entry.delta):
            found.append(
                f"({certificate.epsilon:g}, {certificate.delta:g}) is certified, but "
                f"({entry.epsilon:g}, {entry.delta:g}) was asked for"
            )
    found += mine.problems
    shapes = [[value.size for value in one.values] for one in (tape, other)]
    if shapes[0] != shapes[1] or tape.scales != other.scales:
        found.append("other numbers, or other noise, are released on the neighbour")
        return found, 0.0, None
    distances = tape.distances(other)
    if mine.listed is not None:
        pieces = made_in_pieces(mine.listed, shapes[0])
        found += _unlisted(tape, mine.listed, pieces)
        if pieces is not None:
            together = [math.hypot(*(distances[k] for k in piece)) for piece in pieces]
            found += _too_far(together, mine.listed)
    total, allowed = math.hypot(0.0, *distances), mu_of(entry.epsilon, entry.delta)
    if not total <= allowed * (1.0 + _ROUNDING):
        found.append(f"all releases together are {total / allowed:.4g} times the budget away")
    return found, total / allowed, None if certificate is None else certificate.mu


def _run(entry: Entry, table: Table, noise: AbstractContextManager[Tape]) -> tuple[Tape, _Run]:
    """Run on a table; return the tape of the noise, and what the user sees."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with noise as tape:
            result = entry.run(table)
        public = {**entry.public(result), "warnings": [str(one.message) for one in caught]}
    seen = _Run(public, entry.certificate(result), entry.listed(result), entry.problems(result))
    return tape, seen


def _differences(mine: dict[str, Any], theirs: dict[str, Any]) -> list[str]:
    """Return what differs on the neighbour though the noisy values are the same."""
    differ = [name for name in {**mine, **theirs} if mine.get(name) != theirs.get(name)]
    if not differ:
        return []
    return [f"with the same noisy values {', '.join(differ)} differ on the neighbour"]


def _unlisted(tape: Tape, listed: Sequence[Release], pieces: list[list[int]] | None) -> list[str]:
    """Return how the noise that was asked for differs from what the certificate lists."""
    if pieces is None:
        stated = [release.dimension for release in listed]
        return [f"releases of {stated} numbers are listed, but others were made"]
    each = [release for release, piece in zip(listed, pieces, strict=True) for _ in piece]
    # The scale in units of the data is not known here, but the grid is never coarser.
    return [
        f"{release.name} has discrete noise that is too small or off the grid"
        for release, values, scale in zip(each, tape.values, tape.scales, strict=True)
        if not (scale >= GRID_STEPS and (values == np.rint(values)).all())
    ]


def _too_far(distances: list[float], listed: Sequence[Release]) -> list[str]:
    return [
        f"{release.name} is {distance / release.mu:.4g} times its sensitivity away"
        for distance, release in zip(distances, listed, strict=True)
        if not distance <= release.mu * (1.0 + _ROUNDING)
    ]
