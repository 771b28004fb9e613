# SPDX-License-Identifier: BSD-3-Clause
"""The base class of column encoders, which turn one column of texts into features.

Each kind of column has an encoder: `read` turns fields into compact values, `fit` learns medians
and levels from them, `write` writes the features. A fitted encoder is stored and never changes.
An encoder never looks at labels.

A missing number or date becomes the median, a missing yes/no the share of yes, a missing category
a feature of its own. If values are often missing, an indicator feature marks them. Rare and unseen
levels share the feature ``NAME=(other)``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pairlearn.restored import restored_number
from pairlearn.typing import Mask

#: An indicator marks missing values if they are at least this share of the rows, ...
_INDICATOR_SHARE = 0.01
#: ... and at least this number of rows; fewer cannot be learned from.
_INDICATOR_ROWS = 5

ABSENT = "(missing)"

#: Called with the index and the reason for each unreadable field, which counts as missing.
Odd = Callable[[int, str], None]
#: Called with rows, the index of the feature within the column, and values.
Put = Callable[[NDArray[np.int64], int, Any], None]


class ColumnEncoder(ABC):
    """Encode one column. `missing` is "auto", "indicator", "refuse" or a number to fill in."""

    kind: ClassVar[str]
    #: Whether the last feature is an indicator of missing values.
    indicator = False

    def __init__(self, name: str, missing: str | float = "auto") -> None:
        self.name = name
        self.missing = missing

    @abstractmethod
    def read(self, fields: Sequence[str], odd: Odd) -> Any:
        """Return compact values of the fields."""

    @abstractmethod
    def fit(self, parts: Sequence[Any]) -> None:
        """Learn from the compact values of all rows, given in parts."""

    @abstractmethod
    def absent(self, values: Any) -> Mask:
        """Return a mask of the missing values."""

    @property
    @abstractmethod
    def feature_names(self) -> tuple[str, ...]:
        """The names of the features."""

    @abstractmethod
    def write(self, values: Any, put: Put) -> None:
        """Pass the nonzero features of the values to `put`."""

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """Return the fitted values as plain data."""

    @abstractmethod
    def restore(self, state: Mapping[str, Any]) -> None:
        """Check and load the output of `state`."""

    def narrow(self) -> None:  # noqa: B027 (most have nothing to leave out)
        """Drop the features that `fit` found useless; valid only if it saw all rows."""

    def stranger(self, values: Any) -> str:
        """Return the first value if training has seen none of them; empty if it knows one."""
        return ""

    @property
    def is_sparse(self) -> bool:
        """Whether the column has many features, most of them zero."""
        return False

    @property
    def describe(self) -> str:
        """How the column is encoded, for a person; empty if that is obvious."""
        return ""

    @property
    def describe_gaps(self) -> str:
        """How missing values are encoded."""
        if self.missing == "refuse":
            return "rows with gaps are refused"
        return "gaps: own feature" if self.indicator else ""

    def _decide_indicator(self, absent: int, n: int) -> None:
        is_often = absent >= max(_INDICATOR_ROWS, _INDICATOR_SHARE * n)
        wanted = self.missing == "indicator" or (self.missing == "auto" and is_often)
        self.indicator = bool(absent) and wanted

    def _put_indicator(self, absent: Mask, put: Put) -> None:
        if self.indicator:
            rows = np.flatnonzero(absent)
            put(rows, len(self.feature_names) - 1, 1.0)


def saved_flag(state: Mapping[str, Any], name: str) -> bool:
    """Return a saved true or false."""
    value = state.get(name)
    if not isinstance(value, bool):
        raise ValueError(f"the saved {name} must be true or false, got {value!r:.60}.")
    return value


def saved_number(state: Mapping[str, Any], name: str) -> float:
    """Return a saved finite number."""
    return restored_number(state, name, low=-1e300, high=1e300)


def saved_choice(state: Mapping[str, Any], name: str, allowed: Sequence[str]) -> str:
    """Return a saved value that must be one of `allowed`."""
    value = state.get(name)
    if value not in allowed:
        raise ValueError(
            f"the saved {name} must be one of {', '.join(allowed)}, got {value!r:.60}."
        )
    return str(value)
