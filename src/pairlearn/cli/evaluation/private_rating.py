# SPDX-License-Identifier: BSD-3-Clause
"""``pairlearn rate --private``: ratings of public players from private votes, with noise.

Each row is read by itself. A row that is no vote between public players is left out, and no message
says that there was one.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import click

from pairlearn.cli.evaluation.rating_results import (
    rating_facts,
    rating_text,
    rating_values,
    ready_for_page,
    usual_columns,
    write_rating_page,
)
from pairlearn.cli.output import emit, typed_beside, with_options
from pairlearn.cli.shared.paths import FilePath, announce
from pairlearn.cli.training.private_training import PrivateOptions, write_certificate

F = TypeVar("F", bound=Callable[..., Any])

_LIMITS = ("players", "votes_per_judge", "votes_per_pair")
#: What a private rating understands beside the options of every private command.
_KNOWN = (
    "data", "winner", "loser", "first", "second", "outcome", "judge", "ties", "prior", "confidence",
    "output", "report", "force", "as_json",
)  # fmt: skip


def judge_options(function: F) -> F:
    """Add the public facts about votes; the command receives them as `limits`."""

    @functools.wraps(function)
    def command(*arguments: Any, **given: Any) -> Any:
        limits = {name: given.pop(name) for name in _LIMITS}
        typed = [name for name, value in limits.items() if value is not None]
        if typed and not given["privacy"].private:
            raise click.UsageError(f"--{typed[0].replace('_', '-')} belongs to --private.")
        return function(*arguments, limits=limits, **given)

    return with_options(  # type: ignore[return-value]
        command,
        click.option("--players", type=FilePath("read"), metavar="FILE",
                     help="With --private: a file with the name of a player in each line."),
        click.option("--votes-per-judge", type=click.IntRange(1), metavar="N",
                     help="With --private and --by: the first N votes of a judge count."),
        click.option("--votes-per-pair", type=click.IntRange(1), metavar="N",
                     help="With --private and --by: the first N of them on one pair; 1 by "
                          "default."),
    )  # fmt: skip


def rate_privately(
    data: tuple[str, ...],
    given: tuple[str, ...] | None,
    judge: str | None,
    privacy: PrivateOptions,
    limits: dict[str, Any],
    model: dict[str, Any],
    *,
    confidence: float,
    as_json: bool,
    report: str | None,
    output: str | None,
) -> None:
    """Rate, print the table, and write the certificate, the model and the page."""
    from pairlearn.atomic import try_to_write
    from pairlearn.cli.light_imports import import_scikit_learn
    from pairlearn.privacy.accounting.ledger import BudgetExceededError

    for option in typed_beside(*_KNOWN, *_LIMITS, *PrivateOptions.__dataclass_fields__):
        raise click.UsageError(f"{option} cannot be used with --private; leave it out.")
    if len(data) != 1 or data[0] == "-":
        raise click.UsageError("--private reads one CSV file.")
    if limits["players"] is None:
        raise click.UsageError(
            "--private needs --players: who the players are is public, and cannot be read from "
            "private votes."
        )
    if judge is not None and limits["votes_per_judge"] is None:
        raise click.UsageError(
            "--by needs --votes-per-judge with --private: the noise grows with the votes of a "
            "judge that count."
        )
    if judge is None:
        for name in ("votes_per_judge", "votes_per_pair"):
            if limits[name] is not None:
                raise click.UsageError(
                    f"--{name.replace('_', '-')} needs --by, the judge's column."
                )
    beside = f"{output or Path(data[0]).stem}.certificate.json"
    announce("write", beside, "the certificate", kind="certificate")
    import_scikit_learn()
    from pairlearn.estimators import PrivateRatings
    from pairlearn.estimators.ratings.votes import outcome_names
    from pairlearn.privacy.records import read_numbers

    assert privacy.epsilon is not None
    columns, rows, facts = _read(data[0], given, judge)
    players, public = _players(limits["players"]), {"rows": facts.rows}
    named = outcome_names(players)
    if named and len(columns) == 3:
        # Cells of a file are texts, and a word may mean the first player or the player so called.
        columns[2] = read_numbers("outcome", columns[2])
        public["outcomes"] = f"1, 0.5 and 0 alone: a player is called {named[0]!r}"
        click.echo(
            f"pairlearn: the player {named[0]!r} has the name of an outcome, so that only 1, 0.5 "
            "and 0 count as outcomes; a vote with a word is left out.",
            err=True,
        )
    rated = PrivateRatings(
        privacy.epsilon, privacy.delta, players=players,
        votes_per_judge=limits["votes_per_judge"], votes_per_pair=limits["votes_per_pair"] or 1,
        ties=model["ties"], prior=model["prior"], ledger=privacy.open_ledger(),
    )  # fmt: skip
    # The budget is spent before anything is written.
    for written in (beside, *([] if output is None else [output])):
        try_to_write(written)
    if report is not None:
        ready_for_page(report)
    try:
        rated.fit(*columns, **({} if judge is None else {"groups": rows.persons}))
    except BudgetExceededError as error:
        raise click.ClickException(str(error)) from None
    certificate = rated.certificate_
    certificate = replace(certificate, public={**certificate.public, **public})
    rated.certificate_ = certificate
    values = rating_values(rated, rated.meetings().round(), confidence)
    number = certificate.n_examples
    values |= {"votes": number, "judges": None} if judge is None else {
        "votes": None, "judges": number
    }  # fmt: skip
    values["certificate"] = beside
    unit = "one judge with all votes" if judge is not None else "one vote"
    promise = (
        f"({certificate.epsilon:g}, {certificate.delta:g})-differentially private with respect to "
        f"{unit} replaced"
    )
    sure = "numbers of votes have noise; intervals allow for it, and take votes as independent"
    if output is not None:
        rated.save(output, provenance={"program": "pairlearn rate --private"})
    write_certificate(certificate, beside)
    if report is not None:
        shown = rating_facts(data, values) | {"privacy": promise, "note": sure}
        values["page"] = write_rating_page(report, rated, values, shown)
    text = f"{rating_text(values)}\n{promise}\n{sure}\ncertificate: {beside}"
    emit(values, text, as_json=as_json)
    if output is not None:
        click.echo(f"pairlearn: model: {output}", err=True)


def _read(path: str, given: tuple[str, ...] | None, judge: str | None) -> tuple[Any, Any, Any]:
    """Return the columns of the votes, the rows and what is public about them."""
    from pairlearn.cli.shared.private_records import PublicFacts, read_names, read_rows

    if given is None:
        given = usual_columns(read_names(path))
    if given is None:
        # The line itself must not show: without names it is a record.
        raise click.UsageError(
            f"the first line of {path} names neither winner and loser nor a, b and outcome; name "
            "the columns with --winner and --loser, or with --a, --b and --outcome."
        )
    *features, last = given
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
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice or len(names) < 2:
        said = f"names {twice[0]!r} twice" if twice else f"names {len(names)} player(s)"
        raise click.UsageError(
            f"--players: {path} {said}; write at least two different names, one in each line."
        )
    return names
