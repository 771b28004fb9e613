# SPDX-License-Identifier: BSD-3-Clause
"""One column of texts to features, by its kind: fitted once, stored, the same ever after.

Each kind of column has an encoder: `read` turns fields into compact values, `fit` learns medians
and levels from them, `write` puts features into their places. An encoder never looks at labels.

A missing number or date becomes the median, a missing yes or no its share, a missing category a
feature of its own; where values are missing often, an indicator says so too. Levels that are rare
or were never seen share the feature ``NAME=(other)``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pairlearn.restored import restored_number
from pairlearn.typing import Mask

__all__ = ["ABSENT", "ColumnEncoder", "Odd", "Put", "saved_choice", "saved_flag", "saved_number"]

#: Values are missing often from this share on, if so many are.
_OFTEN, _AT_LEAST = 0.01, 5

ABSENT = "(missing)"

#: Receives the place of a field that cannot be read and is taken as missing.
Odd = Callable[[int, str], None]
#: Receives rows, the feature among those of the column, and values.
Put = Callable[[NDArray[np.int64], int, Any], None]


def _is_often(absent: int, n: int) -> bool:
    return absent >= max(_AT_LEAST, _OFTEN * n)


class ColumnEncoder(ABC):
    """One column; `missing` is "auto", "indicator", "refuse" or the number that stands for none."""

    kind: ClassVar[str]
    #: Whether an indicator of missing values follows the other features.
    indicator = False

    def __init__(self, name: str, missing: str | float = "auto") -> None:
        self.name = name
        self.missing = missing

    @abstractmethod
    def read(self, fields: Sequence[str], odd: Odd) -> Any:
        """Return compact values of fields."""

    @abstractmethod
    def fit(self, parts: Sequence[Any]) -> None:
        """Learn from the values of all rows, in parts."""

    @abstractmethod
    def absent(self, values: Any) -> Mask:
        """Return which values are missing."""

    @property
    @abstractmethod
    def feature_names(self) -> tuple[str, ...]:
        """The names of the features."""

    @abstractmethod
    def write(self, values: Any, put: Put) -> None:
        """Hand over the features of values; what is not handed over is zero."""

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """Return what was learned, as plain values."""

    @abstractmethod
    def restore(self, state: Mapping[str, Any]) -> None:
        """Take in what `state` gave, after checking it."""

    def narrow(self) -> None:  # noqa: B027 (most have nothing to leave out)
        """Leave out features that `fit`, if it saw all rows, has found to be of no use."""

    @property
    def is_sparse(self) -> bool:
        """Whether most of many features are zero."""
        return False

    @property
    def describe(self) -> str:
        """What becomes of the column, for a person; empty where that is plain."""
        return ""

    @property
    def describe_gaps(self) -> str:
        """What becomes of missing values."""
        if self.missing == "refuse":
            return "rows with gaps are refused"
        return "gaps: own feature" if self.indicator else ""

    def _decide_indicator(self, absent: int, n: int) -> None:
        wanted = self.missing == "indicator"
        self.indicator = bool(absent) and (
            wanted or (self.missing == "auto" and _is_often(absent, n))
        )

    def _put_indicator(self, absent: Mask, put: Put) -> None:
        if self.indicator:
            rows = np.flatnonzero(absent)
            put(rows, len(self.feature_names) - 1, 1.0)


def saved_flag(state: Mapping[str, Any], name: str) -> bool:
    """Return what is saved under a name, if it is true or false."""
    value = state.get(name)
    if not isinstance(value, bool):
        raise ValueError(f"the saved {name} must be true or false, got {value!r:.60}.")
    return value


def saved_number(state: Mapping[str, Any], name: str) -> float:
    """Return the finite number that is saved under a name."""
    return restored_number(state, name, low=-1e300, high=1e300)


def saved_choice(state: Mapping[str, Any], name: str, allowed: Sequence[str]) -> str:
    """Return what is saved under a name, if it is one of those allowed."""
    value = state.get(name)
    if value not in allowed:
        raise ValueError(
            f"the saved {name} must be one of {', '.join(allowed)}, got {value!r:.60}."
        )
    return str(value)
