# SPDX-License-Identifier: BSD-3-Clause
"""Say which columns of a source to read, and how: the label, the query, categories, gaps."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from pairlearn.streams.readers.base import ReadError
from pairlearn.validation import check_count

Missing = str | float


@dataclass(frozen=True)
class Schema:
    """The columns to read, and how to encode them.

    Parameters
    ----------
    label : str, int or None
        Column of the label, by name or by position (negative counts from the end).
    qid : str, int or None
        Column of the query, for ranking.
    features : sequence of str or int, optional
        Columns to use, in this order; default: all others.
    categorical : mapping of column to int or sequence of str
        A number hashes the column into this number of buckets; a list gives its levels, one feature
        for each.
    missing : "refuse", "indicator", number, or mapping of column to one of these
        How to treat a missing value. "refuse" refuses the row. "indicator" writes 0 and sets a
        further feature ``name=(missing)`` to 1. A number replaces the value; a missing category
        then sets no feature.
    unknown : "refuse" or "ignore"
        How to treat a category that is not among the levels: refuse the row, or set none of the
        column's features.
    classes : sequence, optional
        The labels to expect. A row with any other label is refused. Texts become 0, 1, ...
        in this order; numbers stay as they are. Without `classes`, labels must be numbers.
    dtype : "float64" or "float32"
        Type of the features.

    Examples
    --------
    >>> schema = Schema(label="target", categorical={"city": 64, "colour": ["red", "blue"]})
    >>> schema.categorical["colour"]
    ['red', 'blue']
    """

    label: str | int | None = None
    qid: str | int | None = None
    features: tuple[str | int, ...] | None = None
    categorical: Mapping[str | int, int | Sequence[str]] = field(default_factory=dict)
    missing: Missing | Mapping[str | int, Missing] = "refuse"
    unknown: Literal["refuse", "ignore"] = "refuse"
    classes: tuple[str | float, ...] | None = None
    dtype: Literal["float64", "float32"] = "float64"

    def __post_init__(self) -> None:
        if self.dtype not in ("float64", "float32"):
            raise ReadError(f"dtype must be 'float64' or 'float32', got {self.dtype!r}.")
        if self.unknown not in ("refuse", "ignore"):
            raise ReadError(f"unknown must be 'refuse' or 'ignore', got {self.unknown!r}.")
        if not isinstance(self.categorical, Mapping):
            raise ReadError(
                "categorical must be a mapping, such as {'city': 64} for 64 hashed columns or "
                f"{{'colour': ['red', 'blue']}}, got {self.categorical!r:.60}."
            )
        rules = self.missing.values() if isinstance(self.missing, Mapping) else [self.missing]
        for rule in rules:
            number = isinstance(rule, (int, float)) and math.isfinite(rule)
            if rule not in ("refuse", "indicator") and not number:
                raise ReadError(
                    f"missing must be 'refuse', 'indicator' or a finite number, got {rule!r}."
                )
        for column, given in self.categorical.items():
            if isinstance(given, int):
                check_count(f"buckets of {column!r}", given, minimum=2)
            elif not given or len(set(given)) != len(given) or "" in given:
                raise ReadError(f"levels of {column!r} must be different, non-empty texts.")
        for name in ("features", "classes"):
            value = getattr(self, name)
            if isinstance(value, str):
                raise ReadError(f"{name} must be a list, got the text {value!r}.")
            if value is not None:
                object.__setattr__(self, name, tuple(value))
        if self.classes is not None:
            if len(set(self.classes)) != len(self.classes) or len(self.classes) < 2:
                raise ReadError(
                    f"classes must be two or more different labels, got {self.classes!r}."
                )
            if len({isinstance(c, str) for c in self.classes}) == 2:
                raise ReadError(f"classes must be all texts or all numbers, got {self.classes!r}.")
            if self.label is None:
                raise ReadError("classes are given without a label column; name it with label=.")

    @property
    def text_labels(self) -> bool:
        """Whether labels are texts, which `classes` turns into numbers."""
        return self.classes is not None and isinstance(self.classes[0], str)
