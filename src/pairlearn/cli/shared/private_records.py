# SPDX-License-Identifier: BSD-3-Clause
"""Private rows of a CSV file, and the public facts about them.

A TOML file lists the public facts before the data are read::

    label = "churned"
    labels = ["no", "yes"]          # the negative and the positive one
    user = "customer"               # optional: whose row it is; the promise is then about users
    private_bounds = true           # optional: bounds are found, with a fifth of the budget, inside
                                    # those given, which may then be far too wide

    [features]
    age = [18, 100]                 # bounds
    children = { bounds = [0, 4], levels = 5 }

Each line of the data is one row, and is read by itself: a quotation mark that does not close, a
missing or a further field, or a text in the place of a number concern that row only.
"""

from __future__ import annotations

import csv
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pairlearn.cli.shared.config import read_toml

_KEYS = ("label", "labels", "user", "delimiter", "private_bounds", "features")


@dataclass(frozen=True)
class PublicFacts:
    """The public facts about a file: its columns, their bounds, and the two labels.

    `levels` is 0 for a continuous feature and k for a code of k levels. `user` is the column that
    says whose row it is. `labels` are the negative and the positive one.
    """

    features: tuple[str, ...]
    lower: tuple[float, ...]
    upper: tuple[float, ...]
    levels: tuple[int, ...]
    label: str
    labels: tuple[Any, Any]
    user: str | None = None
    delimiter: str = ","
    private_bounds: bool = False


@dataclass(frozen=True)
class Rows:
    """Rows as texts: features, labels, and users if there are any."""

    X: list[Any]
    y: list[Any]
    users: list[Any] | None


def read_facts(path: str) -> PublicFacts:
    """Return the public facts in a file of TOML; see the module."""
    plain = read_toml(path)
    unknown = sorted(set(plain) - set(_KEYS))
    if unknown:
        raise ValueError(f"{path} says {unknown[0][:60]!r}; it may say {', '.join(_KEYS)}.")
    features = plain.get("features")
    labels = plain.get("labels", [0, 1])
    if not isinstance(features, dict) or not features or not isinstance(plain.get("label"), str):
        raise ValueError(
            f"{path} must name the column of the label and the bounds of each feature: "
            'label = "y", and below [features] lines like age = [18, 100].'
        )
    if not isinstance(labels, list) or len(labels) != 2:
        raise ValueError(f"{path}: labels must be [negative, positive], got {labels!r}.")
    private_bounds = plain.get("private_bounds", False)
    if not isinstance(private_bounds, bool):
        raise ValueError(f"{path}: private_bounds must be true or false, got {private_bounds!r}.")
    bounds, levels = [], []
    for name, given in features.items():
        pair = given.get("bounds") if isinstance(given, dict) else given
        level = given.get("levels", 0) if isinstance(given, dict) else 0
        if (
            not isinstance(pair, list)
            or len(pair) != 2
            or not all(isinstance(end, (int, float)) and not isinstance(end, bool) for end in pair)
            or not isinstance(level, int)
        ):
            raise ValueError(
                f"{path}: the feature {name!r} needs public bounds, as in {name} = [0, 1] or "
                f"{name} = {{ bounds = [0, 1], levels = 2 }}, got {given!r}."
            )
        bounds.append((float(pair[0]), float(pair[1])))
        levels.append(level)
    lower, upper = zip(*bounds, strict=True)
    return PublicFacts(
        tuple(features), lower, upper, tuple(levels), plain["label"], tuple(labels),
        plain.get("user"), plain.get("delimiter", ","), private_bounds,
    )  # fmt: skip


def read_rows(path: str, facts: PublicFacts) -> Rows:
    """Return the rows of a CSV file whose first line names its columns."""
    lines = Path(path).read_text(encoding="utf-8-sig", errors="replace").split("\n")
    lines = [line.removesuffix("\r") for line in lines]
    if lines and not lines[-1]:
        lines.pop()
    names = _fields(lines[0], facts.delimiter) if lines else []
    wanted = [*facts.features, facts.label, *([facts.user] if facts.user else [])]
    counts = Counter(names)
    missing = [name for name in wanted if counts[name] != 1]
    if missing:
        raise ValueError(
            f"the first line of {path} must name the column {missing[0]!r} once; it names "
            f"{', '.join(names)[:200]}."
        )
    place_of = {name: k for k, name in enumerate(names)}
    places = [place_of[name] for name in wanted]
    cells = []
    for line in lines[1:]:
        fields = _fields(line, facts.delimiter)
        cells.append([fields[k] if k < len(fields) else None for k in places])
    d = len(facts.features)
    return Rows(
        [row[:d] for row in cells],
        [row[d] for row in cells],
        [row[d + 1] for row in cells] if facts.user else None,
    )


def _fields(line: str, delimiter: str) -> list[str]:
    """Split one line into fields. A line is always one row, even if quotes are unbalanced."""
    try:
        return next(csv.reader([line], delimiter=delimiter), [])
    except csv.Error:
        return line.split(delimiter)
