# SPDX-License-Identifier: BSD-3-Clause
"""Figures as SVG text in the colour of the page around them.

Axes and text are drawn in one marker colour, which becomes ``currentColor``. Each series has a
colour that is legible on light and dark paper, and a marker, so that colour is never the only cue.
The same numbers give the same text: no dates, no random identifiers.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from pairlearn.experiments.comparison.curves import Band
from pairlearn.experiments.comparison.statistics import Interval
from pairlearn.typing import Vector

_INK = "#010203"
#: Inches; narrow, so that text stays legible on a phone.
_WIDTH = 5.4
_COLOURS = (
    "#2f81c7", "#d9652b", "#2b9a66", "#a965c9", "#b8860b", "#c2477f", "#5b8a8f", "#8c6d4f",
)  # fmt: skip
#: Points (x, y) by (panel, series).
Curves = Mapping[tuple[str, str], Sequence[tuple[float, float]]]
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "h")


def _style(index: int) -> dict[str, str]:
    return {"color": _COLOURS[index % len(_COLOURS)], "marker": _MARKERS[index % len(_MARKERS)]}


def new_figure(
    width: float, height: float, *, n_rows: int = 1, n_columns: int = 1
) -> tuple[Any, list[Any]]:
    """Return a figure and its axes, row by row, in the colour of the page."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    figure.patch.set_alpha(0.0)
    axes = list(figure.subplots(n_rows, n_columns, squeeze=False).flat)
    for ax in axes:
        in_ink(ax)
    return figure, axes


def in_ink(ax: Any) -> None:
    """Give axes the colour of the page."""
    ax.patch.set_alpha(0.0)
    ax.tick_params(which="both", colors=_INK)
    for side, spine in ax.spines.items():
        spine.set_color(_INK)
        spine.set_visible(side in ("left", "bottom"))
    for label in (ax.xaxis.label, ax.yaxis.label, ax.title):
        label.set_color(_INK)


def svg_text(figure: Any, *, name: str) -> str:
    """Return a figure of `new_figure` as an ``<svg>`` element for a page.

    `name` prefixes every identifier, so that several figures can share a page.
    """
    import matplotlib

    out = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": name}):
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    text = out.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r'\bid="([^"]+)"', rf'id="{name}-\1"', text)
    text = re.sub(r"url\(#([^)]+)\)", rf"url(#{name}-\1)", text)
    text = re.sub(r'xlink:href="#([^"]+)"', rf'href="#{name}-\1"', text)
    # The page sets the size; the view box keeps the proportions.
    text = re.sub(r'(<svg [^>]*?) width="[^"]*"', r"\1", text, count=1)
    text = re.sub(r'(<svg [^>]*?) height="[^"]*"', r"\1", text, count=1)
    text = re.sub(r"font: ([\d.]+)px [^;\"]*", r"font: \1px system-ui, sans-serif", text)
    return text.replace(_INK, "currentColor")


def intervals_figure(
    intervals: Mapping[tuple[str, str], Interval],
    *,
    methods: Sequence[str],
    name: str,
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
        ax.axvline(0.0, color=_INK, linewidth=1, linestyle=(0, (4, 3)))
    several = len({data for data, _ in intervals}) > 1
    names = [f"{data}  {method}" if several else method for data, method in intervals]
    ax.set_yticks(range(len(intervals)), names)
    ax.set_ylim(len(intervals) - 0.5, -0.5)
    ax.set_xlabel(f"{what} (mean, 95 % interval)")
    # more labels of four digits and a sign would overlap
    ax.locator_params(axis="x", nbins=6)
    return svg_text(figure, name=name)


def time_figure(curves: Curves, *, series: Sequence[str], name: str) -> str:
    """Draw test AUC against training CPU seconds (log axis), one panel for each data set."""
    x, y = "training CPU seconds (log)", "test AUC"
    return curves_figure(curves, series=series, name=name, xlabel=x, ylabel=y)


def curves_figure(
    curves: Curves,
    *,
    xlabel: str,
    ylabel: str,
    name: str,
    series: Sequence[str] = (),
    log_x: bool = True,
    log_y: bool = False,
) -> str:
    """Draw one curve for each series in one panel for each data set, as the paper's figures do.

    `series` are all series, so that each has the same colour and marker in every figure; those of
    `curves` by default.
    """
    series = series or list(dict.fromkeys(label for _, label in curves))
    # Long names do not fit side by side.
    abreast = 4 if max(map(len, series)) < 16 else 2
    figure, panels = _panels(
        [panel for panel, _ in curves], xlabel, ylabel, each=2.3, more=len(series) / abreast
    )
    figure.get_layout_engine().set(w_pad=0.08, h_pad=0.08)
    handles: dict[str, Any] = {}
    for title, ax in panels.items():
        for (panel, label), points in curves.items():
            if panel == title:
                (handles[label],) = ax.plot(
                    *zip(*points, strict=True), markersize=6, linewidth=1.5,
                    **_style(series.index(label)),
                )  # fmt: skip
        if log_y:
            ax.set_yscale("log")
        if log_x:
            _log_axis(ax)
    _legend(figure, handles, 4 if max(map(len, handles)) < 16 else 2)
    return svg_text(figure, name=name)


def _panels(
    titles: Sequence[str], xlabel: str, ylabel: str, *, each: float, more: float
) -> tuple[Any, dict[str, Any]]:
    """Return a figure and its panels by title, in two columns.

    A row of panels is `each` inches high, and a legend has `more` lines.
    """
    titles = list(dict.fromkeys(titles))
    columns = min(2, len(titles))
    n_rows = math.ceil(len(titles) / columns)
    height = each * n_rows + 0.3 * math.ceil(more)
    figure, axes = new_figure(_WIDTH, height, n_rows=n_rows, n_columns=columns)
    for ax in axes[len(titles) :]:
        ax.set_visible(False)
    for index, (title, ax) in enumerate(zip(titles, axes, strict=False)):
        ax.set_title(title, fontsize=10)
        ax.set_xlabel(xlabel)
        if index % columns == 0:
            ax.set_ylabel(ylabel)
    return figure, dict(zip(titles, axes, strict=False))


def _legend(figure: Any, handles: Mapping[str, Any], abreast: int) -> None:
    legend = figure.legend(
        list(handles.values()), list(handles), loc="outside lower center",
        ncols=min(abreast, len(handles)), frameon=False, fontsize=9,
    )  # fmt: skip
    for text in legend.get_texts():
        text.set_color(_INK)


def bands_figure(
    bands: Sequence[Band],
    *,
    series: Sequence[str],
    name: str,
    xlabel: str,
    ylabel: str,
    diagonal: bool,
    points: bool = False,
) -> str:
    """Draw curves with bands of one standard deviation, one panel for each data set.

    With `points`, the points of a curve are marked, and bars replace its bands.
    """
    titles = [band.dataset for band in bands]
    figure, panels = _panels(
        titles, xlabel, ylabel, each=2.6 if len(set(titles)) > 1 else 3.6,
        more=len({band.method for band in bands}) / 3,
    )  # fmt: skip
    handles: dict[str, Any] = {}
    for ax in panels.values():
        if diagonal:
            ax.plot([0, 1], [0, 1], color=_INK, linewidth=1, linestyle=(0, (4, 3)))
        ax.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
    for band in bands:
        ax, style = panels[band.dataset], _style(series.index(band.method))
        if points:
            handles[band.method] = ax.errorbar(
                band.x, band.mean, yerr=band.sd, linewidth=1.2, markersize=4, capsize=0, **style
            )
            continue
        low, high = band.mean - band.sd, band.mean + band.sd
        ax.fill_between(band.x, low.clip(0, 1), high.clip(0, 1), color=style["color"],
                        alpha=0.18, linewidth=0)  # fmt: skip
        (handles[band.method],) = ax.plot(
            band.x, band.mean, linewidth=1.6, markevery=10, markersize=5, **style
        )
    _legend(figure, handles, 3)
    return svg_text(figure, name=name)


def limits_figure(
    x: Vector,
    y: Vector,
    low: Vector,
    high: Vector,
    *,
    name: str,
    xlabel: str,
    ylabel: str,
    diagonal: bool = False,
    points: bool = False,
) -> str:
    """Draw one curve between its limits on the unit square; bars for the limits of `points`."""
    figure, (ax,) = new_figure(_WIDTH, 3.9)
    if diagonal:
        ax.plot([0, 1], [0, 1], color=_INK, linewidth=1, linestyle=(0, (4, 3)))
    if points:
        ax.errorbar(x, y, yerr=(y - low, high - y), linewidth=1.2, markersize=5, **_style(0))
    else:
        ax.fill_between(x, low, high, color=_COLOURS[0], alpha=0.18, linewidth=0)
        ax.plot(x, y, color=_COLOURS[0], linewidth=1.6)
    ax.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), xlabel=xlabel, ylabel=ylabel)
    return svg_text(figure, name=name)


def histogram_figure(
    edges: Vector, shares: Sequence[Vector], labels: Sequence[str], *, name: str, xlabel: str
) -> str:
    """Draw the share of each class in each bin, as outlines with a shade."""
    figure, (ax,) = new_figure(_WIDTH, 3.2)
    for index, (label, heights) in enumerate(zip(labels, shares, strict=True)):
        colour, line = _COLOURS[1 - index], "-" if index else (0, (5, 2))
        ax.stairs(heights, edges, fill=True, color=colour, alpha=0.2)
        ax.stairs(heights, edges, color=colour, linewidth=1.5, linestyle=line, label=label)
    if edges[0] < 0.0 < edges[-1]:
        ax.axvline(0.0, color=_INK, linewidth=1)
    ax.set(xlabel=xlabel, ylabel="share of the class")
    for text in ax.legend(frameon=False, fontsize=9).get_texts():
        text.set_color(_INK)
    return svg_text(figure, name=name)


def _log_axis(ax: Any) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    ax.set_xscale("log")
    low, high = ax.get_xlim()
    span = high / low
    # On a short axis, powers of ten alone would give one label or none.
    subs = (1.0, 2.0, 5.0) if span < 15 else (1.0, 3.0) if span < 300 else (1.0,)
    ax.xaxis.set_major_locator(LogLocator(subs=subs, numticks=6))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    ax.xaxis.set_minor_formatter(NullFormatter())
