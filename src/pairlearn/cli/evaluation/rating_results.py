# SPDX-License-Identifier: BSD-3-Clause
"""The results of ``pairlearn rate`` as values, as a table and as a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pairlearn.typing import Vector

if TYPE_CHECKING:
    from pairlearn.estimators.ratings.answers import RatedVotes

#: The columns that a file may have if no option names others.
_USUAL = (("winner", "loser"), ("a", "b", "outcome"))


def usual_columns(names: Sequence[str]) -> tuple[str, ...] | None:
    """Return the usual columns of votes that a file has; None if it has none of them."""
    return next((usual for usual in _USUAL if set(usual) <= set(names)), None)


def rating_values(model: RatedVotes, votes: Vector, confidence: float) -> dict[str, Any]:
    """Return players and effects as plain values; `votes` are those on each player."""
    ranks = model.rank_intervals(confidence)
    on = dict(zip(model.players_.tolist(), votes.tolist(), strict=True))
    players = [
        {"player": name, "score": one.value, "low": one.low, "high": one.high,
         "standard_error": one.standard_error, "rank": [*ranks[name]], "votes": on[name]}
        for name, one in model.intervals(confidence).items()
    ]  # fmt: skip
    effects = {
        name: {"value": one.value, "low": one.low, "high": one.high}
        for name, one in model.effects(confidence).items()
    }
    return {"confidence": confidence, "players": players, "effects": effects}


def rating_text(values: Mapping[str, Any]) -> str:
    """Return the result as a table."""
    from pairlearn.experiments.plain_text import text_table

    level = f"{100 * values['confidence']:g} %"
    body = [
        (
            str(place),
            str(one["player"]),
            f"{one['score']:+.3f}",
            f"[{one['low']:+.3f}, {one['high']:+.3f}]",
            "-".join(map(str, dict.fromkeys(one["rank"]))),
            f"{one['votes']:.10g}",
        )
        for place, one in enumerate(values["players"], start=1)
    ]
    lines = [text_table(("", "player", "score", level, "ranks", "votes"), body), ""]
    for name, one in values["effects"].items():
        said = {"home": "advantage of the first", "tie": "ties (Davidson's parameter)"}[name]
        lines.append(f"{said}: {one['value']:.3f} [{one['low']:.3f}, {one['high']:.3f}]")
    lines.append(f"{number_of_votes(values)} on {len(body)} players")
    if "page" in values:
        lines.append(f"page: {values['page']}")
    return "\n".join(lines)


def number_of_votes(values: Mapping[str, Any]) -> str:
    """Return the numbers of votes and judges in words; one that is secret is left out."""
    votes = None if values["votes"] is None else f"{values['votes']} votes"
    judges = None if values["judges"] is None else f"{values['judges']} judges"
    return " by ".join(part for part in (votes, judges) if part is not None)


def rating_facts(data: Sequence[str], values: Mapping[str, Any]) -> dict[str, str]:
    """Return the facts that a page lists."""
    return {"data": ", ".join(data), "votes": number_of_votes(values)}


def ready_for_page(folder: str) -> None:
    """Make the folder of a page; refuse it if no page can be made there."""
    from importlib.util import find_spec

    from pairlearn.atomic import try_to_write

    if find_spec("matplotlib") is None:
        raise click.UsageError("plots need matplotlib; install pairlearn[plot].")
    Path(folder).mkdir(parents=True, exist_ok=True)
    try_to_write(Path(folder, "index.html"))


def write_rating_page(
    folder: str, model: RatedVotes, values: Mapping[str, Any], facts: Mapping[str, str]
) -> str:
    """Write the page of ratings into a folder; return its path."""
    ready_for_page(folder)
    from pairlearn.experiments.report.page import write_page
    from pairlearn.experiments.report.ratings import ratings_page

    page = ratings_page(model, values, title=f"Ratings of {facts['data']}", facts=facts)
    return str(write_page(page, Path(folder)))
