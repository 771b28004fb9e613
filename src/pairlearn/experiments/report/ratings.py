# SPDX-License-Identifier: BSD-3-Clause
"""The page of ratings: scores with intervals, who won against whom, and the table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from pairlearn.estimators import PairwiseRatings
from pairlearn.estimators.ratings.answers import RatedVotes, plot_ratings
from pairlearn.experiments.report.figures import in_ink, new_figure, svg_text
from pairlearn.experiments.report.page import Cell, Facts, Figure, Page, Part, Table, number

#: A picture shows at most this many players, the best ones.
_MOST_DRAWN = 40


def ratings_page(
    model: RatedVotes, values: Mapping[str, Any], *, title: str, facts: Mapping[str, str]
) -> Page:
    """Return the page of fitted ratings; `values` are those that ``pairlearn rate`` prints.

    A model of private votes has released no votes between two players, so its page has no matrix.
    """
    level = f"{100 * values['confidence']:g} %"
    best = values["players"][0]
    parts: list[Part] = [_forest(model, values, level)]
    if isinstance(model, PairwiseRatings):
        parts.append(_matrix(model))
    parts += [_table(values, level), *_effects(values, level)]
    return Page(
        title,
        f"Scores are those of the model of Bradley and Terry: with scores s and t, two players win "
        f"against each other in the ratio exp(s - t). The mean score is 0. An interval holds at "
        f"{level} for one player by itself, the ranks hold for all players at once.",
        [*parts, Facts("What was counted", tuple(facts.items()))],
        headline=f"{best['player']} has the highest score, {best['score']:+.3f} "
        f"[{best['low']:+.3f}, {best['high']:+.3f}], rank {_ranks(best['rank'])}",
    )


def _ranks(rank: list[int]) -> str:
    return " to ".join(map(str, dict.fromkeys(rank)))


def _drawn(n_players: int) -> str:
    return f"The best {_MOST_DRAWN} of {n_players} players." if n_players > _MOST_DRAWN else ""


def _forest(model: RatedVotes, values: Mapping[str, Any], level: str) -> Figure:
    n = min(len(values["players"]), _MOST_DRAWN)
    figure, (ax,) = new_figure(5.4, 0.9 + 0.24 * max(n, 2))
    plot_ratings(model, confidence=values["confidence"], top=_MOST_DRAWN, ax=ax)
    rows = [[one["player"], one["score"], one["low"], one["high"]] for one in values["players"]]
    return Figure(
        "Scores", svg_text(figure, name="scores"), "scores", ("player", "score", "low", "high"),
        rows, f"The score of each player with its {level} interval, the best on top.",
        note=_drawn(len(rows)),
    )  # fmt: skip


def _matrix(model: PairwiseRatings) -> Figure:
    order = np.argsort(-model.scores_, kind="stable")
    n = min(len(order), _MOST_DRAWN)
    side = 2.2 + 0.2 * n
    figure, (ax,) = new_figure(side + 0.8, side)
    names = [str(name) for name in model.players_[order].tolist()]
    shares = model.win_rates()[np.ix_(order, order)]
    drawn = np.ma.masked_invalid(shares[:n, :n])
    image = ax.imshow(drawn, vmin=0.0, vmax=1.0, cmap="RdBu")
    ax.set_xticks(range(n), names[:n], rotation=90)
    ax.set_yticks(range(n), names[:n])
    ax.set(xlabel="against", ylabel="player")
    in_ink(figure.colorbar(image, ax=ax, label="share of votes won").ax)
    rows = [
        [name, *("" if np.isnan(share) else float(share) for share in line)]
        for name, line in zip(names, shares, strict=True)
    ]
    note = "The share of votes that the row won against the column; a tie is half a win. "
    return Figure(
        "Who won against whom", svg_text(figure, name="win-rates"), "win-rates",
        ("player", *names), rows,
        "A matrix of the share of votes that each player won against each other one.",
        note=note + "Blank where two never met. " + _drawn(len(names)),
    )  # fmt: skip


def _table(values: Mapping[str, Any], level: str) -> Table:
    rows: list[list[str | Cell]] = [
        [str(one["player"]), number(one["score"], "+.3f", strong=True), number(one["low"], "+.3f"),
         number(one["high"], "+.3f"), number(one["rank"][0], "d"), number(one["rank"][1], "d"),
         number(one["votes"], ".10g")]
        for one in values["players"]
    ]  # fmt: skip
    return Table(
        "Players", ("player", "score", "low", "high", "best rank", "worst rank", "votes"), rows,
        "players", note=f"Low and high are the ends of the {level} interval of the score.",
    )  # fmt: skip


def _effects(values: Mapping[str, Any], level: str) -> list[Table]:
    said = {"home": "advantage of the player named first", "tie": "Davidson's parameter of ties"}
    rows: list[list[str | Cell]] = [
        [said.get(name, name), *(number(one[end], ".3f") for end in ("value", "low", "high"))]
        for name, one in values["effects"].items()
    ]
    if not rows:
        return []
    return [
        Table("Effects", ("effect", "value", "low", "high"), rows, "effects",
              note=f"Each with its {level} interval.")
    ]  # fmt: skip
