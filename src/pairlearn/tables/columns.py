# SPDX-License-Identifier: BSD-3-Clause
"""Make the encoder of a column from a decision or from a model file."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from pairlearn.tables.column import ColumnEncoder
from pairlearn.tables.kinds import Decision
from pairlearn.tables.number_columns import DateColumn, NumberColumn, YesNoColumn
from pairlearn.tables.word_columns import CategoryColumn, HashedColumn, TextColumn

_COLUMNS: dict[str, type[ColumnEncoder]] = {
    column.kind: column
    for column in (NumberColumn, YesNoColumn, DateColumn, CategoryColumn, HashedColumn, TextColumn)
}


def make_column(
    decision: Decision,
    *,
    missing: str | float = "auto",
    levels: Sequence[str] | None = None,
    width: int | None = None,
) -> ColumnEncoder:
    """Return the encoder for a column that gives features."""
    name = decision.name
    if width is not None:
        return HashedColumn(name, missing, width)
    if decision.kind == "category":
        return CategoryColumn(name, missing, levels)
    if decision.kind == "number":
        return NumberColumn(name, missing, decision.form, decision.unit, decision.nothing)
    if decision.kind == "date":
        return DateColumn(name, missing, decision.form)
    return _COLUMNS[decision.kind](name, missing)


def restored_column(entry: Any) -> ColumnEncoder:
    """Check a saved column and return its encoder."""
    if not isinstance(entry, Mapping) or not isinstance(entry.get("name"), str):
        raise ValueError("a saved column has no name.")
    kind, missing = entry.get("kind"), entry.get("missing")
    if kind not in _COLUMNS:
        raise ValueError(f"the saved column {entry['name'][:60]!r} is of an unknown kind.")
    if isinstance(missing, int) and not isinstance(missing, bool):
        missing = float(missing)
    if missing not in ("auto", "indicator", "refuse") and not (
        isinstance(missing, float) and math.isfinite(missing)
    ):
        raise ValueError(f"the saved column {entry['name'][:60]!r} has a wrong rule for gaps.")
    column = _COLUMNS[kind](entry["name"], missing)
    column.restore(entry)
    return column
