# SPDX-License-Identifier: BSD-3-Clause
"""Draw ratings with their intervals, and who won against whom."""

from __future__ import annotations

from typing import Any

import numpy as np

from pairlearn.estimators.ratings.answers import RatedVotes
from pairlearn.estimators.ratings.ratings import PairwiseRatings
from pairlearn.validation import check_count


def plot_ratings(
    model: RatedVotes, *, confidence: float = 0.95, top: int | None = None, ax: Any = None
) -> Any:
    """Draw the score of each player with its interval, the best player on top.

    Parameters
    ----------
    model : PairwiseRatings or PrivateRatings
        A fitted model.
    confidence : float, default=0.95
        The level of each interval by itself.
    top : int, optional
        How many players to draw, the best ones; all by default.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    matplotlib Axes
        The axes.

    Examples
    --------
    >>> from pairlearn import PairwiseRatings
    >>> from pairlearn.estimators import plot_ratings
    >>> model = PairwiseRatings().fit(["ann", "ann", "bob"], ["bob", "cid", "cid"])
    >>> [text.get_text() for text in plot_ratings(model).get_yticklabels()]
    ['ann', 'bob', 'cid']
    """
    found = dict(list(model.intervals(confidence).items())[: _number(top)])
    ax = _axes(ax, (6.0, 1.0 + 0.25 * len(found)))
    values = np.array([[one.value, one.low, one.high] for one in found.values()])
    places = np.arange(len(found))
    ax.axvline(0.0, color="0.8", linewidth=0.8, zorder=0)
    ax.hlines(places, values[:, 1], values[:, 2], color="C0", linewidth=1.5)
    ax.plot(values[:, 0], places, "o", color="C0", markersize=4)
    ax.set_yticks(places, [str(player) for player in found])
    ax.set(xlabel=f"score, with its {100 * confidence:g} % interval", ylim=(len(found) - 0.5, -0.5))
    return ax


def plot_win_rates(model: PairwiseRatings, *, top: int | None = None, ax: Any = None) -> Any:
    """Draw the share of votes that each player won against each other one.

    Parameters
    ----------
    model : PairwiseRatings
        A fitted model.
    top : int, optional
        How many players to draw, the best ones; all by default.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    matplotlib Axes
        The axes: a row for each player, the best on top; white where two never met.

    Examples
    --------
    >>> from pairlearn import PairwiseRatings
    >>> from pairlearn.estimators import plot_win_rates
    >>> model = PairwiseRatings().fit(["ann", "ann", "bob"], ["bob", "cid", "cid"])
    >>> plot_win_rates(model).images[0].get_array().shape
    (3, 3)
    """
    rates = model.win_rates()
    order = np.argsort(-model.scores_, kind="stable")[: _number(top)]
    names = [str(player) for player in model.players_[order].tolist()]
    side = 2.0 + 0.25 * len(names)
    ax = _axes(ax, (side + 1.0, side))
    shown = np.ma.masked_invalid(rates[np.ix_(order, order)])
    image = ax.imshow(shown, vmin=0.0, vmax=1.0, cmap="RdBu")
    ax.set_xticks(range(len(names)), names, rotation=90)
    ax.set_yticks(range(len(names)), names)
    ax.set(xlabel="against", ylabel="player")
    ax.figure.colorbar(image, ax=ax, label="share of votes won")
    return ax


def _number(top: int | None) -> int | None:
    return None if top is None else check_count("top", top)


def _axes(ax: Any, size: tuple[float, float]) -> Any:
    """Return the axes, those of a new figure by default."""
    if ax is not None:
        return ax
    from matplotlib.figure import Figure

    return Figure(figsize=size, layout="constrained").subplots()
