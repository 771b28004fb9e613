# SPDX-License-Identifier: BSD-3-Clause
"""``pairlearn rate``: ratings of players, with intervals, from a file of votes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from pairlearn.cli.evaluation.private_rating import judge_options, rate_privately
from pairlearn.cli.evaluation.rating_results import (
    rating_facts,
    rating_text,
    rating_values,
    usual_columns,
    write_rating_page,
)
from pairlearn.cli.output import emit, json_option
from pairlearn.cli.shared.names import Named
from pairlearn.cli.shared.paths import FilePath, force_option
from pairlearn.cli.shared.reading import Reading, data_argument, format_of, size_of, sources_of
from pairlearn.cli.training.private_training import PrivateOptions, private_options
from pairlearn.progress import Progress
from pairlearn.register import nearest

if TYPE_CHECKING:
    from pairlearn.estimators import Votes
    from pairlearn.streams.readers.base import Refusals
    from pairlearn.tables.rows import Block


@dataclass(frozen=True)
class Columns:
    """Names of the columns of votes; without `outcome` the first two are winner and loser."""

    first: str
    second: str
    outcome: str | None
    judge: str | None
    weight: str | None

    def used(self) -> dict[str, str]:
        """Return the columns that must be there, by the option that names them."""
        names = ("--a", "--b") if self.outcome is not None else ("--winner", "--loser")
        found = {names[0]: self.first, names[1]: self.second, "--outcome": self.outcome,
                 "--by": self.judge, "--weight": self.weight}  # fmt: skip
        return {option: name for option, name in found.items() if name is not None}


@click.command("rate")
@data_argument
@click.option("--winner", metavar="COLUMN", help="Column of the winner; `winner` by default.")
@click.option("--loser", metavar="COLUMN", help="Column of the loser; `loser` by default.")
@click.option("--a", "first", metavar="COLUMN", help="Column of the player named first.")
@click.option("--b", "second", metavar="COLUMN", help="Column of the player named second.")
@click.option("--outcome", metavar="COLUMN",
              help="Column that says who won: 1, a, win or true for the first, 0, b, loss or false "
                   "for the second, 0.5, tie or draw.")  # fmt: skip
@click.option("--by", "judge", metavar="COLUMN",
              help="Column of the judge or user; intervals then allow for dependent "
                   "votes.")  # fmt: skip
@click.option("--weight", metavar="COLUMN",
              help="Column with the number of votes of a row.")  # fmt: skip
@click.option("--ties", type=click.Choice(["davidson", "half"]), default="davidson",
              show_default=True, help="davidson: ties have a parameter of their own; half: a tie "
                                      "is half a win of each.")  # fmt: skip
@click.option("--home", is_flag=True, help="Allow for an advantage of the player named first.")
@click.option("--prior", type=click.FloatRange(0.0), default=0.5, show_default=True,
              help="Votes between equals that hold each score at the mean.")  # fmt: skip
@click.option("--half-life", type=click.FloatRange(0.0, min_open=True), metavar="N",
              help="After N later votes a vote counts half.")  # fmt: skip
@click.option("--confidence", type=click.FloatRange(0.0, 1.0, min_open=True, max_open=True),
              default=0.95, show_default=True, help="Level of the intervals.")  # fmt: skip
@click.option("-o", "--output", type=FilePath("write", "model"), metavar="FILE",
              help="Write the model here.")  # fmt: skip
@click.option("--report", type=FilePath("write", "page", folder=True), metavar="FOLDER",
              help="Write a page with pictures, the table and CSV files.")  # fmt: skip
@force_option
@private_options(needs_bounds=False, takes_bounds=False)
@judge_options
@click.option("--format", "form", type=Named("streams.FORMATS"),
              help="Format of the data. By default the file tells.")  # fmt: skip
@json_option
def command(
    data: tuple[str, ...],
    winner: str | None,
    loser: str | None,
    first: str | None,
    second: str | None,
    outcome: str | None,
    judge: str | None,
    weight: str | None,
    form: str | None,
    output: str | None,
    report: str | None,
    confidence: float,
    as_json: bool,
    privacy: PrivateOptions,
    limits: dict[str, Any],
    **model: Any,
) -> None:
    r"""Rate players by votes between two of them.

    DATA are tables (CSV, Parquet, Arrow) with a row for each vote. The score of a player is that
    of the model of Bradley and Terry; the mean score is 0. An interval holds for one player by
    itself. The ranks hold for all players at once: at the given confidence no player is better than
    the first number or worse than the second.

    \b
    Examples:
      pairlearn rate votes.csv
      pairlearn rate battles.csv --a model_a --b model_b --outcome winner --by user
      pairlearn rate games.csv --a white --b black --outcome result --home -o chess.safetensors
      pairlearn rate votes.csv --report page
      pairlearn rate votes.csv --private --epsilon 1 --delta 1e-6 --players players.txt
    """
    from pairlearn.cli.light_imports import import_scikit_learn

    given = _given(winner, loser, first, second, outcome)
    if privacy.private:
        shown: dict[str, Any] = {
            "confidence": confidence,
            "as_json": as_json,
            "report": report,
            "output": output,
        }
        rate_privately(data, given, judge, privacy, limits, model, **shown)
        return
    if model["home"] and given is not None and len(given) == 2:
        raise click.UsageError("--home needs --a, --b and --outcome: it is about who stands first.")
    kind = format_of(data, Reading(format=form))
    import_scikit_learn()
    from pairlearn.estimators import PairwiseRatings

    with Progress(size_of(data), label="counting", quiet=as_json) as bar:
        votes, refusals = _counted(data, kind, given, (judge, weight), model["half_life"], bar)
    if refusals.count:
        click.echo(f"pairlearn: {refusals}", err=True)
    rated = PairwiseRatings(**model).fit(votes)
    judges = None if votes.groups is None else len(votes.groups)
    values = rating_values(rated, votes.of_players(), confidence)
    values |= {"votes": votes.n_votes, "judges": judges}
    if report is not None:
        counted = rating_facts(data, values) | {"refused rows": str(refusals.count)}
        values["page"] = write_rating_page(report, rated, values, counted)
    if output is not None:
        rated.save(output)
    emit(values, rating_text(values), as_json=as_json)
    if output is not None:
        click.echo(f"pairlearn: model: {output}", err=True)


def _given(
    winner: str | None, loser: str | None, first: str | None, second: str | None,
    outcome: str | None,
) -> tuple[str, ...] | None:  # fmt: skip
    """Return the columns that options name: two, three, or None for the usual ones."""
    pair = {"--winner": winner, "--loser": loser}
    triple = {"--a": first, "--b": second, "--outcome": outcome}
    for mine, others in ((pair, triple), (triple, pair)):
        named = [option for option, name in mine.items() if name is not None]
        if named and any(name is not None for name in others.values()):
            raise click.UsageError("give --winner and --loser, or --a, --b and --outcome.")
        if named and len(named) < len(mine):
            lacking = next(option for option, name in mine.items() if name is None)
            raise click.UsageError(f"{named[0]} needs {lacking} too; {' and '.join(mine)} say "
                                   "together who won.")  # fmt: skip
        if named:
            return tuple(name for name in mine.values() if name is not None)
    return None


def _counted(
    data: Sequence[str],
    kind: str,
    given: tuple[str, ...] | None,
    beside: tuple[str | None, str | None],
    half_life: float | None,
    bar: Progress,
) -> tuple[Votes, Refusals]:
    """Return the counts of all files, in one pass."""
    from pairlearn.streams.readers.base import ReadError, Refusal, Refusals
    from pairlearn.tables import open_table

    refusals = Refusals()
    parts: list[Votes] = []
    rows = done = 0

    def refuse(source: str, line: int, reason: str) -> None:
        nonlocal refusals
        refusals = refusals.add(Refusal(source, line, reason))

    for source in sources_of(data, kind):
        table = open_table(source, kind)
        columns = _columns(given, beside, table.names, str(source))
        for block in table.blocks(refuse):
            found = _block_votes(block, columns, half_life, refuse)
            rows += len(block)
            bar.update(rows, done=done + block.offset)
            if found is None:
                continue
            parts.append(found)
            # Neighbours of like size are joined, so that each count is added a few times only.
            while len(parts) > 1 and parts[-2].n_votes <= parts[-1].n_votes:
                parts[-2:] = [parts[-2].merge(parts[-1])]
        done += size_of([str(source)]) or 0
    if not parts:
        told = f" ({refusals})" if refusals.count else ""
        raise ReadError(f"{data[0]} holds no vote that can be used{told}; check the file.")
    while len(parts) > 1:
        parts[-2:] = [parts[-2].merge(parts[-1])]
    return parts[0], refusals


def _columns(
    given: tuple[str, ...] | None,
    beside: tuple[str | None, str | None],
    names: Sequence[str],
    source: str,
) -> Columns:
    """Return the columns of a file, once all are there."""
    from pairlearn.streams.readers.base import ReadError

    if given is None:
        given = usual_columns(names)
    if given is None:
        raise ReadError(
            f"{source} has neither the columns winner and loser nor a, b and outcome; name "
            f"others with --winner and --loser, or with --a, --b and --outcome. Its columns: "
            f"{', '.join(names[:20])}."
        )
    columns = Columns(given[0], given[1], given[2] if len(given) > 2 else None, *beside)
    for option, name in columns.used().items():
        if name not in names:
            raise ReadError(f"{option}: {source} has no column {name!r}{nearest(name, names)}")
    return columns


def _block_votes(
    block: Block, columns: Columns, half_life: float | None, refuse: Any
) -> Votes | None:
    """Return the counts of some rows; None if no row can be used."""
    import numpy as np

    from pairlearn.estimators import Votes

    kept = np.array(list(_usable(block, columns, refuse)), dtype=np.int64)
    if not len(kept):
        return None
    rows = block.take(kept) if len(kept) < len(block) else block
    names = [[name.strip() for name in rows.columns[one]]
             for one in (columns.first, columns.second)]  # fmt: skip
    extra: dict[str, Any] = {}
    if columns.weight is not None:
        extra["sample_weight"] = [_number(text) for text in rows.columns[columns.weight]]
    if columns.judge is not None:
        extra["groups"] = [judge.strip() for judge in rows.columns[columns.judge]]
    if columns.outcome is not None:
        extra["outcome"] = list(rows.columns[columns.outcome])
    return Votes.count(*names, **extra, half_life=half_life)


def _usable(block: Block, columns: Columns, refuse: Any) -> Iterator[int]:
    """Yield the rows that are votes; refuse those without names, stop at an unknown outcome."""
    from pairlearn.estimators.ratings.votes import OUTCOMES, word_places
    from pairlearn.streams.readers.base import ReadError

    first, second = block.columns[columns.first], block.columns[columns.second]
    judges = None if columns.judge is None else block.columns[columns.judge]
    weights = None if columns.weight is None else block.columns[columns.weight]
    words = None if columns.outcome is None else block.columns[columns.outcome]
    places = [0] * len(block) if words is None else word_places(words)
    for row, place in enumerate(places):
        line, a, b = int(block.lines[row]), first[row].strip(), second[row].strip()
        if not a or not b:
            refuse(block.source, line, "a player has no name")
        elif a == b:
            refuse(block.source, line, f"{a!r} stands on both sides")
        elif judges is not None and not judges[row].strip():
            refuse(block.source, line, "the judge has no name")
        elif weights is not None and not _number(weights[row]) >= 0.0:
            refuse(block.source, line, f"the weight {weights[row]!r} is no number of at least 0")
        elif words is not None and not words[row].strip():
            refuse(block.source, line, "it has no outcome")
        elif place < 0:
            assert words is not None
            raise ReadError(
                f"{block.source}:{line}: the outcome {words[row]!r} is unknown; write {OUTCOMES}."
            )
        else:
            yield row


def _number(text: str) -> float:
    """Return a finite number, NaN for what is none."""
    from pairlearn.privacy.cells import number_of

    found = number_of(text)
    return found if abs(found) < float("inf") else float("nan")
