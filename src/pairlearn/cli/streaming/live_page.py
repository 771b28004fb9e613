# SPDX-License-Identifier: BSD-3-Clause
"""The page of a running stream, as text: one file, drawn without a library, nothing fetched.

The frame of the page, its style and its script stand in live_page.html.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from itertools import pairwise
from string import Template
from typing import TYPE_CHECKING

from pairlearn.typing import Mask, Vector

if TYPE_CHECKING:
    from pairlearn.metrics import AUCInterval
    from pairlearn.streams.drift import Alarm

#: Sides and margins of a drawing, in its own units; narrow, so that it is legible on a phone.
_WIDTH, _HEIGHT = 420.0, 210.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 48.0, 12.0, 12.0, 34.0
_N_BINS = 30
#: At most this many alarms are listed, the latest first.
_LISTED = 20


@dataclass(frozen=True)
class Moment:
    """A stream at one time: examples and lines so far, seconds, AUC, and half-life."""

    n_labelled: int
    n_lines: int
    seconds: float
    auc: float | None
    half_life: float = math.inf


def page_text(
    now: Moment,
    moments: Sequence[Moment],
    *,
    rate: float,
    interval: AUCInterval | None,
    measures: Mapping[str, float | None],
    scores: Vector,
    positive: Mask,
    window: int,
    alarms: Sequence[Alarm],
    ended: bool,
) -> str:
    """Return the page as HTML.

    `now` is the present, `moments` the past, `rate` the lines in a second of late. `interval`,
    `measures` (by name), `scores` and `positive` describe the last `window` labelled examples;
    `interval` and measures are None where a class is absent. The oldest alarm is the first.
    """
    state = "ended" if ended else "running"
    known = "-" if interval is None else f"{interval.auc:.4f}"
    between = "" if interval is None else f"95 %: {interval.low:.4f} to {interval.high:.4f}"
    remembers = "everything", ""
    if now.half_life < math.inf:
        remembers = f"{now.half_life:,.0f}", "examples until one counts half"
    facts = [
        (f"AUC of the last {min(window, now.n_labelled):,}", known, between),
        *((name, "-" if v is None else f"{v:.4f}", "") for name, v in measures.items()),
        ("labelled examples", f"{now.n_labelled:,}", f"{now.n_lines:,} lines"),
        ("lines in a second", f"{rate:,.0f}", f"{now.seconds:,.0f} s since the start"),
        ("memory", *remembers),
        ("alarms", str(len(alarms)), ""),
    ]
    cards = "".join(
        f"<div><dt>{name}</dt><dd{' class=alert' if name == 'alarms' and alarms else ''}>{value}"
        + (f"<small>{more}</small>" if more else "")
        + "</dd></div>"
        for name, value, more in facts
    )
    charts = [
        ("Progressive AUC", _auc_chart(moments, alarms)),
        ("Scores in the window", _score_chart(scores, positive)),
        ("Throughput", _rate_chart(moments)),
        ("Alarms", _alarm_table(alarms)),
    ]
    sections = "".join(f"<section><h2>{title}</h2>{body}</section>" for title, body in charts)
    said = "The stream has ended." if ended else "Running; this page renews itself."
    return _frame().substitute(state=state, said=said, cards=cards, sections=sections)


@cache
def _frame() -> Template:
    """Return the frame of the page; its file is read once, since handles may be short later."""
    page = resources.files("pairlearn.cli.streaming").joinpath("live_page.html").read_text("utf-8")
    return Template(page)


@dataclass(frozen=True)
class _Axes:
    """Maps numbers to positions in a drawing."""

    x_low: float
    x_high: float
    y_low: float
    y_high: float

    def x(self, value: float) -> float:
        return _LEFT + _share(value, self.x_low, self.x_high) * (_WIDTH - _LEFT - _RIGHT)

    def y(self, value: float) -> float:
        height = _HEIGHT - _TOP - _BOTTOM
        return _HEIGHT - _BOTTOM - _share(value, self.y_low, self.y_high) * height

    def frame(self, label: str) -> str:
        """Return grid lines with their numbers, and the label below."""
        parts = []
        for value in _ticks(self.y_low, self.y_high):
            y = self.y(value)
            parts.append(
                f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" '
                f'y2="{y:.1f}"/><text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">'
                f"{_short(value)}</text>"
            )
        for value in _ticks(self.x_low, self.x_high):
            parts.append(
                f'<text x="{self.x(value):.1f}" y="{_HEIGHT - _BOTTOM + 14}" '
                f'text-anchor="middle">{_short(value)}</text>'
            )
        parts.append(
            f'<text x="{(_LEFT + _WIDTH - _RIGHT) / 2}" y="{_HEIGHT - 4}" '
            f'text-anchor="middle">{label}</text>'
        )
        return "".join(parts)

    def path(self, points: Sequence[tuple[float, float]]) -> str:
        places = " L".join(f"{self.x(x):.1f},{self.y(y):.1f}" for x, y in points)
        return f"M{places}"

    def curve(self, points: Sequence[tuple[float, float]]) -> str:
        """Return a curve with a dot at its end, so that a single point is seen too."""
        x, y = points[-1]
        return (
            f'<path class="curve one" d="{self.path(points)}"/>'
            f'<circle class="dot" cx="{self.x(x):.1f}" cy="{self.y(y):.1f}" r="3"/>'
        )


def _share(value: float, low: float, high: float) -> float:
    """Return where `value` lies from `low` (0) to `high` (1); one half if these are the same.

    Halves are compared, since the difference of two large numbers may be infinite.
    """
    span = high / 2.0 - low / 2.0
    return min(1.0, max(0.0, (value / 2.0 - low / 2.0) / span)) if span > 0.0 else 0.5


def _drawing(alt: str, body: str) -> str:
    return f'<svg viewBox="0 0 {_WIDTH:g} {_HEIGHT:g}" role="img" aria-label="{alt}">{body}</svg>'


def _auc_chart(moments: Sequence[Moment], alarms: Sequence[Alarm]) -> str:
    """Return the chart of the progressive AUC, with alarms, as SVG."""
    points = [
        (float(m.n_labelled), m.auc) for m in moments if m.auc is not None and 0.0 <= m.auc <= 1.0
    ]
    if not points:
        return "<p>No examples of both classes yet.</p>"
    lowest = min(value for _, value in points)
    # Guessing gives one half; the line is drawn if the curve comes near it.
    low = 0.5 if lowest >= 0.5 else math.floor(10.0 * lowest) / 10.0
    axes = _Axes(0.0, max(*(x for x, _ in points), 1.0), low, 1.0)
    marks = "".join(
        f'<line class="alarm" x1="{axes.x(a.n_seen):.1f}" x2="{axes.x(a.n_seen):.1f}" '
        f'y1="{_TOP}" y2="{_HEIGHT - _BOTTOM}"/>'
        for a in alarms
        if a.n_seen <= axes.x_high
    )
    alt = f"Progressive AUC, now {points[-1][1]:.4f}; {len(alarms)} alarms."
    return _drawing(alt, axes.frame("labelled examples") + marks + axes.curve(points))


def _score_chart(scores: Vector, positive: Mask) -> str:
    """Return the chart of recent scores of both classes as SVG."""
    import numpy as np

    known = np.isfinite(scores)
    if not known.any():
        return "<p>No labelled examples yet.</p>"
    low, high = float(scores[known].min()), float(scores[known].max())
    if low == high:
        low, high = low - 0.5, high + 0.5
    found = []
    for label in (False, True):
        members = scores[known & (positive == label)].tolist()
        bins = [min(int(_N_BINS * _share(s, low, high)), _N_BINS - 1) for s in members]
        found.append(np.bincount(bins, minlength=_N_BINS) / max(len(bins), 1))
    top = float(max(h.max() for h in found))
    axes, stair = _Axes(low, high, 0.0, top), _Axes(0.0, float(_N_BINS), 0.0, top)
    parts = [axes.frame("score")]
    for heights, name in zip(found, ("two", "one"), strict=True):
        stairs = [(0.0, 0.0)]
        for k, height in enumerate(heights.tolist()):
            stairs += [(float(k), height), (k + 1.0, height)]
        stairs.append((float(_N_BINS), 0.0))
        dash = " two-dash" if name == "two" else ""
        parts.append(
            f'<path class="shade-{name}" d="{stair.path(stairs)}"/>'
            f'<path class="curve {name}{dash}" d="{stair.path(stairs)}"/>'
        )
    for row, (name, title) in enumerate((("two", "negative"), ("one", "positive"))):
        y = _TOP + 8.0 + 16.0 * row
        dash = " two-dash" if name == "two" else ""
        parts.append(
            f'<line class="curve {name}{dash}" x1="{_WIDTH - 92}" x2="{_WIDTH - 72}" y1="{y}" '
            f'y2="{y}"/><text x="{_WIDTH - 66}" y="{y + 4}">{title}</text>'
        )
    n_positive = int(positive.sum())
    alt = f"Scores of {n_positive} positive and {len(scores) - n_positive} negative examples."
    return _drawing(alt, "".join(parts))


def _rate_chart(moments: Sequence[Moment]) -> str:
    """Return the chart of the lines in a second, between each moment and the next, as SVG."""
    points = []
    for before, after in pairwise(moments):
        seconds = after.seconds - before.seconds
        rate = (after.n_lines - before.n_lines) / seconds if seconds > 0.0 else math.inf
        if math.isfinite(rate) and math.isfinite(after.seconds):
            points.append((after.seconds, rate))
    if not points:
        return "<p>Nothing measured yet.</p>"
    x_high, y_high = (max(*(p[k] for p in points), 1.0) for k in (0, 1))
    axes = _Axes(0.0, x_high, 0.0, y_high)
    alt = f"Lines in a second, now {points[-1][1]:.0f}."
    return _drawing(alt, axes.frame("seconds (lines in a second above)") + axes.curve(points))


def _alarm_table(alarms: Sequence[Alarm]) -> str:
    if not alarms:
        return "<p>None.</p>"
    rows = "".join(
        f"<tr><td>{a.n_seen:,}</td><td>{a.since:,}</td><td>{a.before:.3f}</td>"
        f"<td>{a.after:.3f}</td></tr>"
        for a in list(alarms)[: -_LISTED - 1 : -1]
    )
    heads = "".join(
        f'<th scope="col">{head}</th>' for head in ("at example", "since", "AUC before", "after")
    )
    return (
        f'<div class="frame"><table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>'
        "</div>"
    )


def _ticks(low: float, high: float) -> list[float]:
    """Return three to six round numbers from `low` to `high`, or these two at the ends of floats.

    >>> _ticks(0.0, 1.0)
    [0.0, 0.25, 0.5, 0.75, 1.0]
    >>> _ticks(-1e308, 1e308)
    [-1e+308, 1e+308]
    """
    span = high - low
    if not span > 0.0:
        return [low]
    if not 1e-300 < span < 1e300:
        return [low, high]
    unit = 10.0 ** math.floor(math.log10(span))
    step = next(s * unit for s in (0.25, 0.5, 1.0, 2.5, 5.0, 10.0) if span / (s * unit) <= 5.0)
    first = math.ceil(low / step - 1e-9)
    return [k * step for k in range(first, math.floor(high / step + 1e-9) + 1)]


def _short(value: float) -> str:
    """Return a short form of a number.

    >>> _short(250000.0), _short(0.25), _short(1500000.0)
    ('250k', '0.25', '1.5M')
    """
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:g}{letter}"
    return f"{value:.3g}"
