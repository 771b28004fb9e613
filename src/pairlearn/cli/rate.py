# SPDX-License-Identifier: BSD-3-Clause
"""``pairlearn rate``: scores of players from votes between two of them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pairlearn.atomic import try_to_write
from pairlearn.cli.private.options import PrivateOptions, private_options
from pairlearn.cli.shared.files import OutputPath, need_matplotlib, read_option
from pairlearn.cli.shared.output import emit, json_option, tell
from pairlearn.cli.shared.reading import Reading, data_argument, format_of, sources_of
from pairlearn.cli.shared.settings import Named
from pairlearn.progress import Progress
from pairlearn.typing import Vector

if TYPE_CHECKING:
    from pairlearn.estimators import Votes
    from pairlearn.estimators.ratings.answers import RatedVotes
    from pairlearn.streams.readers.base import Refusals
    from pairlearn.tables.text import Block

#: The columns that a file may have if no option names others.
_USUAL = (("winner", "loser"), ("a", "b", "outcome"))
#: A whole number as a column of numbers with a gap is written.
_WHOLE = re.compile(r"[+-]?\d+\.0+")


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
@click.option("-o", "--output", type=OutputPath(), metavar="FILE", help="Write the model here.")
@click.option("--report", type=OutputPath(folder=True), metavar="FOLDER",
              help="Write a page with pictures, the table and CSV files.")  # fmt: skip
@private_options(needs_bounds=False, takes_bounds=False)
@read_option("--players", help="With --private: a file with the name of a player in each line.")
@click.option("--votes-per-judge", type=click.IntRange(1), metavar="N",
              help="With --private and --by: the first N votes of a judge count.")  # fmt: skip
@click.option("--votes-per-pair", type=click.IntRange(1), metavar="N",
              help="With --private and --by: the first N of them on one pair; 1 by "
                   "default.")  # fmt: skip
@click.option("--format", "form", type=Named("streams.FORMATS"),
              help="Format of the data. By default the file tells.")  # fmt: skip
@json_option
def command(data: tuple[str, ...], privacy: PrivateOptions, as_json: bool, **given: Any) -> None:
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

    columns = _named_columns(given)
    output, report, confidence = given["output"], given["report"], given["confidence"]
    model = {name: given[name] for name in ("ties", "home", "prior", "half_life")}
    if report is not None:
        need_matplotlib()
        Path(report).mkdir(parents=True, exist_ok=True)
        try_to_write(Path(report, "index.html"))
    import_scikit_learn()
    if privacy.private:
        from pairlearn.cli.private.commands import rate_privately

        rated, votes, counts, notes = rate_privately(data, columns, privacy, given, usual_columns)
        facts = {"privacy": notes[0], "note": notes[1]}
    else:
        for name in ("players", "votes_per_judge", "votes_per_pair"):
            if given[name] is not None:
                raise click.UsageError(f"--{name.replace('_', '-')} belongs to --private.")
        if model["home"] and columns is not None and len(columns) == 2:
            raise click.UsageError("--home needs --a, --b and --outcome: it is about who is first.")
        from pairlearn.estimators import PairwiseRatings

        kind = format_of(data, Reading(format=given["form"]))
        beside = {"judge": given["judge"], "weight": given["weight"]}
        counted, refusals = _counted(data, kind, columns, beside, model["half_life"])
        if refusals.count:
            tell(refusals)
        rated = PairwiseRatings(**model).fit(counted)
        votes, notes = counted.of_players(), []
        judges = None if counted.groups is None else len(counted.groups)
        counts = {"votes": counted.n_votes, "judges": judges}
        facts = {"refused rows": str(refusals.count)}
    values = {**_rating_values(rated, votes, confidence), **counts}
    if output is not None:
        origin = {"program": "pairlearn rate --private"} if privacy.private else None
        rated.save(output, **({} if origin is None else {"provenance": origin}))
    if report is not None:
        from pairlearn.experiments.report.page import write_page
        from pairlearn.experiments.report.ratings import ratings_page

        shown = {"data": ", ".join(data), "votes": _number_of_votes(values), **facts}
        page = ratings_page(rated, values, title=f"Ratings of {shown['data']}", facts=shown)
        values["page"] = str(write_page(page, Path(report)))
    emit(values, "\n".join([_rating_text(values), *notes]), as_json=as_json)
    if output is not None:
        tell(f"model: {output}")


def _named_columns(given: Mapping[str, Any]) -> tuple[str, ...] | None:
    """Return the columns that options name: two, three, or None for the usual ones."""
    pair = {"--winner": given["winner"], "--loser": given["loser"]}
    triple = {"--a": given["first"], "--b": given["second"], "--outcome": given["outcome"]}
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


def usual_columns(names: Sequence[str]) -> tuple[str, ...] | None:
    """Return the usual columns of votes that a file has; None if it has none of them."""
    return next((usual for usual in _USUAL if set(usual) <= set(names)), None)


def _counted(
    data: Sequence[str], kind: str, columns: tuple[str, ...] | None, beside: dict[str, str | None],
    half_life: float | None,
) -> tuple[Votes, Refusals]:  # fmt: skip
    from pairlearn.estimators import Votes
    from pairlearn.streams.readers.base import Refusal, Refusals
    from pairlearn.tables import open_table

    refusals = Refusals()
    total: Votes | None = None
    n_rows = 0

    def refuse(source: str, line: int, reason: str) -> None:
        nonlocal refusals
        refusals = refusals.add(Refusal(source, line, reason))

    with Progress(label="counting") as bar:
        for source in sources_of(data, kind):
            table = open_table(source, kind)
            roles = _roles(columns, beside, table, str(source))
            for block in table.blocks():
                for line, reason in block.refused:
                    refuse(block.source, line, reason)
                n_rows += len(block)
                bar.update(n_rows)
                fields = _usable(block, roles, refuse)
                if fields["a"]:
                    votes = [fields.pop(side) for side in ("a", "b")]
                    part = Votes.count(*votes, **fields, half_life=half_life)
                    total = part if total is None else total.merge(part)
    if total is None:
        told = f" ({refusals})" if refusals.count else ""
        raise ValueError(f"{data[0]} holds no vote that can be used{told}; check the file.")
    return total, refusals


def _roles(
    columns: tuple[str, ...] | None, beside: dict[str, str | None], table: Any, source: str
) -> dict[str, str]:
    """Return the column of each role, once all are there, and each once."""
    from pairlearn.register import nearest
    from pairlearn.tables.rows import refuse_repeated

    columns = columns or usual_columns(table.names)
    if columns is None:
        raise ValueError(
            f"{source} has neither the columns winner and loser nor a, b and outcome; name the "
            f"columns with --winner and --loser, or with --a, --b and --outcome"
            f"{nearest('', table.names)}"
        )
    roles = dict(zip(("a", "b", "outcome"), columns, strict=False))
    roles |= {role: name for role, name in beside.items() if name is not None}
    for name in roles.values():
        if name not in table.names:
            raise ValueError(f"{source} has no column {name!r}{nearest(name, table.names)}")
    refuse_repeated(table, roles.values())
    if len(set(roles.values())) < len(roles):
        raise ValueError("one column cannot have two roles; name a column for each.")
    return roles


def _usable(block: Block, roles: Mapping[str, str], refuse: Any) -> dict[str, list[Any]]:
    """Return the fields of the rows that are votes; refuse those without names."""
    from pairlearn.estimators.ratings.votes import OUTCOMES, word_places

    fields = {role: block.texts(name) for role, name in roles.items()}
    places = word_places(fields["outcome"]) if "outcome" in fields else [0] * len(block)
    kept: dict[str, list[Any]] = {role: [] for role in ("a", "b", *_EXTRA.values())}
    names = {role: [player_name(text) for text in fields[role]] for role in ("a", "b")}
    judges = [player_name(text) for text in fields.get("judge", ())]
    for row, place in enumerate(places):
        line, a, b = int(block.lines[row]), names["a"][row], names["b"][row]
        weight = _number(fields["weight"][row]) if "weight" in fields else 1.0
        if not a or not b:
            refuse(block.source, line, "a player has no name")
        elif a == b:
            refuse(block.source, line, f"{a!r} stands on both sides")
        elif judges and not judges[row]:
            refuse(block.source, line, "the judge has no name")
        elif not weight >= 0.0:
            reason = f"the weight {fields['weight'][row]!r} is no number of at least 0"
            refuse(block.source, line, reason)
        elif "outcome" in fields and not fields["outcome"][row].strip():
            refuse(block.source, line, "it has no outcome")
        elif place < 0:
            word = fields["outcome"][row]
            raise ValueError(
                f"{block.source}:{line}: the outcome {word!r} is unknown; write {OUTCOMES}."
            )
        else:
            own = {"a": a, "b": b, "sample_weight": weight}
            own |= {"groups": judges[row]} if judges else {}
            own |= {"outcome": fields["outcome"][row]} if "outcome" in fields else {}
            for role, value in own.items():
                kept[role].append(value)
    used = {"a", "b", *(_EXTRA[role] for role in roles if role in _EXTRA)}
    return {role: values for role, values in kept.items() if role in used}


#: The arguments of `Votes.count` for the columns beside the players.
_EXTRA = {"outcome": "outcome", "judge": "groups", "weight": "sample_weight"}


def player_name(text: str) -> str:
    """Return the name in a field; none for a gap, and whole numbers without a point.

    >>> player_name(" 7.0 "), player_name("NaN"), player_name("GPT 4.0")
    ('7', '', 'GPT 4.0')
    """
    from pairlearn.tables.values import is_missing

    name = text.strip()
    if is_missing(name):
        return ""
    return name.partition(".")[0] if _WHOLE.fullmatch(name) else name


def _number(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        return float("nan")
    return number if abs(number) < float("inf") else float("nan")


# -------------------------------------------------------------------------------------- the result


def _rating_values(model: RatedVotes, votes: Vector, confidence: float) -> dict[str, Any]:
    ranks = model.rank_intervals(confidence)
    on = dict(zip(model.players_.tolist(), votes.tolist(), strict=True))
    players = [
        {"player": name, "score": score.value, "low": score.low, "high": score.high,
         "standard_error": score.standard_error, "rank": [*ranks[name]], "votes": on[name]}
        for name, score in model.intervals(confidence).items()
    ]  # fmt: skip
    effects = {
        name: {"value": effect.value, "low": effect.low, "high": effect.high}
        for name, effect in model.effects(confidence).items()
    }
    return {"confidence": confidence, "players": players, "effects": effects}


def _rating_text(values: Mapping[str, Any]) -> str:
    from pairlearn.cli.shared.output import safe
    from pairlearn.shown import text_table

    level = f"{100 * values['confidence']:g} %"
    body = [
        (str(place), safe(player["player"]), f"{player['score']:+.3f}",
         f"[{player['low']:+.3f}, {player['high']:+.3f}]",
         "-".join(map(str, dict.fromkeys(player["rank"]))), f"{player['votes']:.10g}")
        for place, player in enumerate(values["players"], start=1)
    ]  # fmt: skip
    lines = [text_table(("", "player", "score", level, "ranks", "votes"), body), ""]
    for name, effect in values["effects"].items():
        said = {"home": "advantage of the first", "tie": "ties (Davidson's parameter)"}[name]
        lines.append(f"{said}: {effect['value']:.3f} [{effect['low']:.3f}, {effect['high']:.3f}]")
    lines.append(f"{_number_of_votes(values)} on {len(body)} players")
    return "\n".join([*lines, *([f"page: {values['page']}"] if "page" in values else [])])


def _number_of_votes(values: Mapping[str, Any]) -> str:
    """Return the numbers of votes and judges in words; one that is secret is left out."""
    return " by ".join(f"{values[name]} {name}" for name in ("votes", "judges")
                       if values[name] is not None)  # fmt: skip
