# SPDX-License-Identifier: BSD-3-Clause
"""``pairlearn rate --private``: ratings with a certificate.

Each row is read by itself. A row that is no vote between public players is left out, and no message
says that there was one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from pairlearn.cli.private.options import (
    PrivateOptions,
    check_private_data,
    refuse_beside_private,
    write_certificate,
)
from pairlearn.cli.private.records import PublicFacts, read_names, read_rows
from pairlearn.cli.shared.output import tell

#: What a private rating understands beside the options of every private command.
_KNOWN = (
    "data", "winner", "loser", "first", "second", "outcome", "judge", "ties", "prior", "confidence",
    "output", "report", "as_json", "players", "votes_per_judge", "votes_per_pair",
)  # fmt: skip


def rate_privately(
    data: tuple[str, ...], columns: tuple[str, ...] | None, privacy: PrivateOptions,
    given: Mapping[str, Any],
) -> tuple[Any, Any, dict[str, Any], list[str]]:  # fmt: skip
    """Return the ratings, votes on players, what is printed as values, and as lines."""
    from pairlearn.estimators import PrivateRatings
    from pairlearn.estimators.ratings.votes import outcome_names
    from pairlearn.privacy.accounting.ledger import BudgetExceededError
    from pairlearn.privacy.records import read_numbers

    refuse_beside_private(*_KNOWN)
    judge, output = given["judge"], given["output"]
    if given["players"] is None:
        raise click.UsageError(
            "--private needs --players: who the players are is public, and cannot be read from "
            "private votes."
        )
    if judge is not None and given["votes_per_judge"] is None:
        raise click.UsageError(
            "--by needs --votes-per-judge with --private: the noise grows with the votes of a "
            "judge that count."
        )
    for name in ("votes_per_judge", "votes_per_pair"):
        if judge is None and given[name] is not None:
            raise click.UsageError(f"--{name.replace('_', '-')} needs --by, the judge's column.")
    beside = f"{output or Path(data[0]).stem}.certificate.json"
    check_private_data(
        data, {"the certificate": beside} | ({} if output is None else {"-o": output})
    )
    fields, rows, facts = _read(data[0], columns, judge)
    players, public = _players(given["players"]), {"rows": facts.rows}
    named = outcome_names(players)
    if named and len(fields) == 3:
        # Cells of a file are texts, and a word may mean the first player or the player so called.
        fields[2] = read_numbers("outcome", fields[2])
        public["outcomes"] = f"1, 0.5 and 0 alone: a player is called {named[0]!r}"
        tell(
            f"the player {named[0]!r} has the name of an outcome, so that only 1, 0.5 and 0 count "
            "as outcomes; a vote with a word is left out."
        )
    rated = PrivateRatings(
        privacy.epsilon, privacy.delta, players=players,
        votes_per_judge=given["votes_per_judge"], votes_per_pair=given["votes_per_pair"] or 1,
        ties=given["ties"], prior=given["prior"], ledger=privacy.open_ledger(),
    )  # fmt: skip
    try:
        rated.fit(*fields, **({} if judge is None else {"groups": rows.persons}))
    except BudgetExceededError as error:
        raise click.ClickException(str(error)) from None
    certificate = rated.certificate_
    certificate = replace(certificate, public={**certificate.public, **public})
    rated.certificate_ = certificate
    write_certificate(certificate, beside)
    unit, other = ("votes", "judges") if judge is None else ("judges", "votes")
    counts = {unit: certificate.n_examples, other: None, "certificate": beside}
    unit = "one judge with all votes" if judge is not None else "one vote"
    promise = (
        f"({certificate.epsilon:g}, {certificate.delta:g})-differentially private with respect to "
        f"{unit} replaced"
    )
    sure = "numbers of votes have noise; intervals allow for it, and take votes as independent"
    return rated, rated.meetings().round(), counts, [promise, sure, f"certificate: {beside}"]


def _read(path: str, columns: tuple[str, ...] | None, judge: str | None) -> tuple[Any, Any, Any]:
    """Return the columns of the votes, the rows and what is public about them."""
    from pairlearn.cli.rate import usual_columns

    columns = columns or usual_columns(read_names(path))
    if columns is None:
        # The line itself must not show: without names it is a record.
        raise click.UsageError(
            f"the first line of {path} names neither winner and loser nor a, b and outcome; name "
            "the columns with --winner and --loser, or with --a, --b and --outcome."
        )
    *features, last = columns
    nothing = (0.0,) * len(features)
    persons = () if judge is None else (judge,)
    facts = PublicFacts(
        tuple(features), nothing, nothing, (0,) * len(features), last, person=persons
    )
    rows = read_rows(path, facts)
    sides = [[row[k] for row in rows.X] for k in range(len(features))]
    return [*sides, rows.y], rows, facts


def _players(path: str) -> list[str]:
    """Return the players in a file, one in each line; empty lines are left out."""
    text = Path(path).read_text("utf-8-sig")
    names = [line.strip() for line in text.splitlines() if line.strip()]
    if len(set(names)) < len(names) or len(names) < 2:
        raise click.UsageError(
            f"--players: {path} must hold at least two different names, one in each line."
        )
    return names
