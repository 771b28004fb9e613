# SPDX-License-Identifier: BSD-3-Clause
"""The page of ratings: scores with intervals, who won against whom, and the table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from pairlearn.estimators import PairwiseRatings
from pairlearn.estimators.ratings.answers import RatedVotes, plot_ratings
from pairlearn.experiments.report.figures import drawn, new_figure
from pairlearn.experiments.report.page import Cell, Facts, Figure, Page, Part, Table

#: A picture shows at most this many players, the best ones.
_MOST_DRAWN = 40


def ratings_page(
    model: RatedVotes, values: Mapping[str, Any], *, title: str, facts: Mapping[str, str]
) -> Page:
    """Return the page of fitted ratings; `values` are those that ``pairlearn rate`` prints.

    A model of private votes has released no votes between two players, so its page has no matrix.
    """
    level = f"{100 * values['confidence']:g} %"
    players = values["players"]
    n = min(len(players), _MOST_DRAWN)
    limited = f"The best {n} of {len(players)} players." if n < len(players) else ""
    figure, (ax,) = new_figure(5.4, 0.9 + 0.24 * max(n, 2))
    plot_ratings(model, confidence=values["confidence"], top=_MOST_DRAWN, ax=ax)
    scores = [[one[name] for name in ("player", "score", "low", "high")] for one in players]
    parts: list[Part] = [
        Figure(
            "Scores", "scores", drawn(figure), (("player", "score", "low", "high"), scores),
            f"The score of each player with its {level} interval, the best on top.", limited,
        )
    ]  # fmt: skip
    if isinstance(model, PairwiseRatings):
        parts.append(_matrix(model, n, limited))
    parts.append(
        Table(
            "Players", "players",
            {"player": "", "score": "+.3f", "low": "+.3f", "high": "+.3f", "best rank": "d",
             "worst rank": "d", "votes": ".10g"},
            [[str(one["player"]), Cell(f"{one['score']:+.3f}", one["score"], strong=True),
              one["low"], one["high"], *one["rank"], one["votes"]] for one in players],
            f"Low and high are the ends of the {level} interval of the score.",
        )
    )  # fmt: skip
    said = {"home": "advantage of the player named first", "tie": "Davidson's parameter of ties"}
    effects = [
        [said.get(name, name), one["value"], one["low"], one["high"]]
        for name, one in values["effects"].items()
    ]
    if effects:
        columns = {"effect": "", "value": ".3f", "low": ".3f", "high": ".3f"}
        parts.append(
            Table("Effects", "effects", columns, effects, f"Each with its {level} interval.")
        )
    best = players[0]
    ranks = " to ".join(map(str, dict.fromkeys(best["rank"])))
    return Page(
        title,
        f"Scores are those of the model of Bradley and Terry: with scores s and t, two players win "
        f"against each other in the ratio exp(s - t). The mean score is 0. An interval holds at "
        f"{level} for one player by itself, the ranks hold for all players at once.",
        [*parts, Facts("What was counted", tuple(facts.items()))],
        headline=f"{best['player']} has the highest score, {best['score']:+.3f} "
        f"[{best['low']:+.3f}, {best['high']:+.3f}], rank {ranks}",
    )


def _matrix(model: PairwiseRatings, n: int, limited: str) -> Figure:
    order = np.argsort(-model.scores_, kind="stable")
    side = 2.2 + 0.2 * n
    figure, (ax,) = new_figure(side + 0.8, side)
    names = [str(name) for name in model.players_[order].tolist()]
    shares = model.win_rates()[np.ix_(order, order)]
    drawing = np.ma.masked_invalid(shares[:n, :n])
    image = ax.imshow(drawing, vmin=0.0, vmax=1.0, cmap="RdBu")
    ax.set_xticks(range(n), names[:n], rotation=90)
    ax.set_yticks(range(n), names[:n])
    ax.set(xlabel="against", ylabel="player")
    figure.colorbar(image, ax=ax, label="share of votes won")
    rows = [
        [name, *("" if np.isnan(share) else float(share) for share in line)]
        for name, line in zip(names, shares, strict=True)
    ]
    return Figure(
        "Who won against whom", "win-rates", drawn(figure), (("player", *names), rows),
        "A matrix of the share of votes that each player won against each other one.",
        "The share of votes that the row won against the column; a tie is half a win. Blank where "
        f"two never met. {limited}",
    )  # fmt: skip
