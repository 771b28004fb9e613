# SPDX-License-Identifier: BSD-3-Clause
"""Figures by matplotlib, as addresses that hold an SVG drawing.

Each series has a colour and a marker, so that colour is never the only cue. The same numbers give
the same drawing: no dates, no random identifiers.
"""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pairlearn.experiments.comparison.statistics import Interval
from pairlearn.typing import Vector

#: Inches; narrow, so that text stays legible on a phone.
_WIDTH = 5.4
_COLOURS = (
    "#2f81c7", "#d9652b", "#2b9a66", "#a965c9", "#b8860b", "#c2477f", "#5b8a8f", "#8c6d4f",
)  # fmt: skip
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "h")
_DASHES: dict[str, Any] = {"color": "0.4", "linewidth": 1, "linestyle": (0, (4, 3))}


class Curve(NamedTuple):
    """The points of a curve, and its limits if it has any."""

    x: Any
    y: Any
    low: Any = None
    high: Any = None


#: Curves by (panel, series).
Curves = Mapping[tuple[str, str], Curve]


def _style(index: int) -> dict[str, str]:
    return {"color": _COLOURS[index % len(_COLOURS)], "marker": _MARKERS[index % len(_MARKERS)]}


def new_figure(
    width: float, height: float, *, n_rows: int = 1, n_columns: int = 1
) -> tuple[Any, list[Any]]:
    """Return a figure and its axes, row by row."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    axes = list(figure.subplots(n_rows, n_columns, squeeze=False).flat)
    for ax in axes:
        ax.spines[["top", "right"]].set_visible(False)
    return figure, axes


def drawn(figure: Any) -> str:
    """Return a figure as an address that holds the drawing."""
    import matplotlib

    out = io.BytesIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "pairlearn"}):
        figure.savefig(out, format="svg", metadata={"Date": None})
    return "data:image/svg+xml;base64," + base64.b64encode(out.getvalue()).decode()


def intervals_figure(
    intervals: Mapping[tuple[str, str], Interval],
    *,
    methods: Sequence[str],
    what: str,
    zero: bool = False,
) -> str:
    """Draw means of `what` with their intervals in rows, one for each data set and method.

    `methods` are all methods, so that each has the same colour and marker in every figure. With
    `zero`, a line marks zero.
    """
    figure, (ax,) = new_figure(_WIDTH, 0.7 + 0.27 * max(len(intervals), 2))
    for row, ((_, method), interval) in enumerate(intervals.items()):
        style = _style(methods.index(method))
        if not math.isnan(interval.low):
            ax.plot([interval.low, interval.high], [row, row], color=style["color"], linewidth=2)
        ax.plot([interval.mean], [row], linestyle="none", markersize=7, **style)
    if zero:
        ax.axvline(0.0, **_DASHES)
    several = len({data for data, _ in intervals}) > 1
    names = [f"{data}  {method}" if several else method for data, method in intervals]
    ax.set_yticks(range(len(intervals)), names)
    ax.set_ylim(len(intervals) - 0.5, -0.5)
    ax.set_xlabel(f"{what} (mean, 95 % interval)")
    # more labels of four digits and a sign would overlap
    ax.locator_params(axis="x", nbins=6)
    return drawn(figure)


def curves_figure(
    curves: Curves, *, xlabel: str, ylabel: str, series: Sequence[str] = (), log_y: bool = False
) -> str:
    """Draw one curve for each series in one panel for each data set, as the paper's figures do.

    The first axis is logarithmic. `series` are all series, so that each has the same colour and
    marker in every figure; those of `curves` by default.
    """
    series = series or list(dict.fromkeys(label for _, label in curves))
    titles = list(dict.fromkeys(panel for panel, _ in curves))
    columns = min(2, len(titles))
    n_rows = math.ceil(len(titles) / columns)
    # Long names do not fit side by side.
    abreast = min(4 if max(map(len, series)) < 16 else 2, len(series))
    height = 2.3 * n_rows + 0.3 * math.ceil(len(series) / abreast)
    figure, axes = new_figure(_WIDTH, height, n_rows=n_rows, n_columns=columns)
    figure.get_layout_engine().set(w_pad=0.08, h_pad=0.08)
    handles: dict[str, Any] = {}
    for index, ax in enumerate(axes):
        if index >= len(titles):
            ax.set_visible(False)
            continue
        for (panel, label), curve in curves.items():
            if panel == titles[index]:
                style = _style(series.index(label))
                (handles[label],) = ax.plot(curve.x, curve.y, markersize=6, linewidth=1.5, **style)
        ax.set_title(titles[index], fontsize=10)
        ax.set_xlabel(xlabel)
        if index % columns == 0:
            ax.set_ylabel(ylabel)
        if log_y:
            ax.set_yscale("log")
        ax.set_xscale("log")
    figure.legend(
        list(handles.values()), list(handles), loc="outside lower center", ncols=abreast,
        frameon=False, fontsize=9,
    )  # fmt: skip
    return drawn(figure)


def limits_figure(
    curve: Curve, *, xlabel: str, ylabel: str, diagonal: bool = False, points: bool = False
) -> str:
    """Draw one curve between its limits on the unit square; bars for the limits of `points`."""
    figure, (ax,) = new_figure(_WIDTH, 3.9)
    x, y, low, high = curve
    if diagonal:
        ax.plot([0, 1], [0, 1], **_DASHES)
    if points:
        # Limits may lie within rounding of the point.
        bars = (y - low).clip(0), (high - y).clip(0)
        ax.errorbar(x, y, yerr=bars, linewidth=1.2, markersize=5, **_style(0))
    else:
        ax.fill_between(x, low, high, color=_COLOURS[0], alpha=0.18, linewidth=0)
        ax.plot(x, y, color=_COLOURS[0], linewidth=1.6)
    ax.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), xlabel=xlabel, ylabel=ylabel)
    return drawn(figure)


def histogram_figure(
    edges: Vector, shares: Sequence[Vector], labels: Sequence[str], *, xlabel: str
) -> str:
    """Draw the share of each class in each bin, as outlines with a shade."""
    figure, (ax,) = new_figure(_WIDTH, 3.2)
    for index, (label, heights) in enumerate(zip(labels, shares, strict=True)):
        colour, line = _COLOURS[1 - index], "-" if index else (0, (5, 2))
        ax.stairs(heights, edges, fill=True, color=colour, alpha=0.2)
        ax.stairs(heights, edges, color=colour, linewidth=1.5, linestyle=line, label=label)
    if edges[0] < 0.0 < edges[-1]:
        ax.axvline(0.0, **_DASHES)
    ax.set(xlabel=xlabel, ylabel="share of the class")
    ax.legend(frameon=False, fontsize=9)
    return drawn(figure)
