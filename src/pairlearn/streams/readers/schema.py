# SPDX-License-Identifier: BSD-3-Clause
"""Choose the columns of a source, and encode categories and missing values as numbers.

A `Schema` holds the user's choices; a `Layout` is the schema applied to the columns of one source.
Readers fill three arrays (numbers, extra = label and query, category codes). The layout assembles
them into the feature matrix, so CSV, Parquet and iterators agree.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pairlearn.streams.readers.base import ReadError
from pairlearn.validation import check_count

Missing = str | float
MAX_LISTED = 12
#: Characters of a name in a message.
_LONGEST_NAME = 40

_MASK = (1 << 64) - 1


def bucket_of(value: str, width: int) -> int:
    """Return the hash bucket of a category: FNV-1a with MurmurHash3's finaliser, modulo width.

    The function never changes, because a model's coefficients depend on it.
    """
    h = 0xCBF29CE484222325
    for byte in value.encode("utf-8", "surrogateescape"):
        h = ((h ^ byte) * 0x100000001B3) & _MASK
    h = ((h ^ (h >> 33)) * 0xFF51AFD7ED558CCD) & _MASK
    h = ((h ^ (h >> 33)) * 0xC4CEB9FE1A85EC53) & _MASK
    return (h ^ (h >> 33)) % width


def shown_kind(kind: Any) -> str:
    r"""Return the type of a column for a message; control characters are escaped."""
    return ascii(str(kind))[1:-1][:60]


def short_name(name: str) -> str:
    """Return the name of a column in quotes, shortened: a file may have one of megabytes."""
    return repr(name if len(name) <= _LONGEST_NAME else name[: _LONGEST_NAME - 3] + "...")


def listed(names: Sequence[str]) -> str:
    """Return the first column names for a message, each shortened."""
    shown = ", ".join(map(short_name, names[:MAX_LISTED]))
    return shown + (f" and {len(names) - MAX_LISTED} more" if len(names) > MAX_LISTED else "")


@dataclass(frozen=True)
class Schema:
    """The columns to read, and how to encode them.

    Parameters
    ----------
    label : str, int or None
        Column of the label, by name or by position (negative counts from the end).
    qid : str, int or None
        Column of the query, for ranking: a whole number from 0, in a text without leading zeros.
    features : sequence of str or int, optional
        Columns to use, in this order; default: all others.
    categorical : mapping of column to int or sequence of str
        A number hashes the column into this number of buckets; a list gives its levels, one feature
        for each.
    missing : "refuse", "indicator", number, or mapping of column to one of these
        How to treat a missing value. "refuse" refuses the row. "indicator" writes 0 and sets a
        further feature ``name=missing`` to 1. A number replaces the value; a missing category then
        sets no feature.
    missing_tokens : sequence of str
        Texts besides the empty one that mean a missing number.
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
    >>> schema.layout(["age", "city", "colour", "target"], "people.csv").n_features
    67
    """

    label: str | int | None = None
    qid: str | int | None = None
    features: tuple[str | int, ...] | None = None
    categorical: Mapping[str | int, int | Sequence[str]] = field(default_factory=dict)
    missing: Missing | Mapping[str | int, Missing] = "refuse"
    missing_tokens: tuple[str, ...] = ("NA", "N/A", "nan", "null", "None", "?")
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
        for name in ("features", "missing_tokens", "classes"):
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

    def layout(self, names: Sequence[str], source: str) -> Layout:
        """Return the schema applied to a source with these columns."""
        return Layout(self, tuple(names), source)

    def key(self) -> str:
        """Return a text that is equal for equal schemas, for fingerprints."""
        return repr(
            (
                self.label,
                self.qid,
                self.features,
                sorted((str(k), v if isinstance(v, int) else tuple(v))
                       for k, v in self.categorical.items()),
                sorted((str(k), v) for k, v in self.missing.items())
                if isinstance(self.missing, Mapping) else self.missing,
                self.missing_tokens,
                self.unknown,
                self.classes,
                self.dtype,
            )
        )  # fmt: skip


class Layout:
    """A schema applied to named columns: the role of each column, and the features.

    `numbers`, `categories`, `label` and `qid` are positions in the source. `levels` holds the
    number of buckets or the levels of each categorical column (and of a text label).
    """

    def __init__(self, schema: Schema, names: tuple[str, ...], source: str) -> None:
        self.schema = schema
        self.names = names
        self.source = source
        self._places = {name: j for j, name in enumerate(names)}
        if len(self._places) != len(names):
            repeated = sorted(name for name, count in Counter(names).items() if count > 1)
            raise ReadError(
                f"{source} has more than one column named {listed(repeated)}; rename the columns."
            )
        self.label = None if schema.label is None else self._find(schema.label, "label")
        self.qid = None if schema.qid is None else self._find(schema.qid, "qid")
        if self.label is not None and self.label == self.qid:
            raise ReadError(f"label and qid name the same column, {short_name(names[self.label])}.")
        taken = {self.label, self.qid}
        if schema.features is None:
            chosen = [j for j in range(len(names)) if j not in taken]
        else:
            chosen = [self._find(name, "feature") for name in schema.features]
            for j, count in Counter(chosen).items():
                if j in taken or count > 1:
                    raise ReadError(f"column {short_name(names[j])} is used twice; list it once.")
        if not chosen:
            raise ReadError(f"{source} leaves no column for features; its columns: "
                            f"{listed(names)}.")  # fmt: skip
        self._choose_levels(chosen)
        self.numbers = tuple(j for j in chosen if j not in self.levels)
        self.categories = tuple(j for j in chosen if j in self.levels)
        if schema.text_labels and self.label is not None:
            self.levels[self.label] = tuple(str(c) for c in schema.classes or ())
        self._codes = {
            j: {level: code for code, level in enumerate(levels)}
            for j, levels in self.levels.items()
            if not isinstance(levels, int)
        }
        #: The index of a column among the numbers or among the categories.
        self.slots = {j: k for columns in (self.numbers, self.categories)
                      for k, j in enumerate(columns)}  # fmt: skip
        self._choose_missing(chosen)
        self._place_features(chosen)

    def _find(self, name: str | int, role: str) -> int:
        if isinstance(name, str):
            if name in self._places:
                return self._places[name]
        elif isinstance(name, int) and -len(self.names) <= name < len(self.names):
            return name % len(self.names)
        raise ReadError(
            f"{self.source} has no {role} column {name!r}; its columns: {listed(self.names)}."
        )

    def _choose_levels(self, chosen: list[int]) -> None:
        self.levels: dict[int, int | tuple[str, ...]] = {}
        features = set(chosen)
        for name, given in self.schema.categorical.items():
            j = self._find(name, "categorical")
            if j not in features:
                raise ReadError(f"categorical column {name!r} is not among the features.")
            if isinstance(given, (int, np.integer)):
                self.levels[j] = check_count(f"buckets of {name!r}", given, minimum=2)
                continue
            levels = (given,) if isinstance(given, str) else tuple(given)
            if not levels or len(set(levels)) != len(levels) or "" in levels:
                raise ReadError(f"levels of {name!r} must be different, non-empty texts.")
            self.levels[j] = tuple(str(level) for level in levels)

    def _choose_missing(self, chosen: list[int]) -> None:
        """Set the checked rule for missing values of each column."""
        given = self.schema.missing
        policies: dict[int, Missing] = dict.fromkeys(chosen, "refuse")
        if isinstance(given, Mapping):
            for name, policy in given.items():
                j = self._find(name, "missing")
                if j not in policies:
                    raise ReadError(f"missing names {name!r}, which is not among the features.")
                policies[j] = policy
        else:
            policies = dict.fromkeys(chosen, given)
        for policy in policies.values():
            number = isinstance(policy, (int, float)) and math.isfinite(policy)
            if policy not in ("refuse", "indicator") and not number:
                raise ReadError(
                    f"missing must be 'refuse', 'indicator' or a finite number, got {policy!r}."
                )
        self.missing = policies

    def _place_features(self, chosen: list[int]) -> None:
        """Set the names and places of all features."""
        names: list[str] = []
        self.first: dict[int, int] = {}
        self.indicator: dict[int, int] = {}
        for j in chosen:
            self.first[j] = len(names)
            levels = self.levels.get(j)
            if levels is None:
                names.append(self.names[j])
            elif isinstance(levels, int):
                names.extend(f"{self.names[j]}#{k}" for k in range(levels))
            else:
                names.extend(f"{self.names[j]}={level}" for level in levels)
            if self.missing[j] == "indicator":
                self.indicator[j] = len(names)
                names.append(f"{self.names[j]}=missing")
        self.feature_names = tuple(names)
        self.n_features = len(names)
        # with numbers only, the array that the parser fills is already the feature matrix
        self.plain = not self.categories and not self.indicator
        # a hashed column is mostly zeros
        self.sparse = any(isinstance(self.levels[j], int) for j in self.categories)

    def refused_missing(self, numbers: NDArray[Any], codes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return for each row the first column that refuses its missing value, or -1."""
        blame = np.full(len(numbers), -1, dtype=np.int64)
        absent = [(j, np.isnan(numbers[:, k])) for k, j in enumerate(self.numbers)]
        absent += [(j, codes[:, k] == -1) for k, j in enumerate(self.categories)]
        for j, rows in absent:
            if self.missing[j] == "refuse":
                blame[rows & (blame < 0)] = j
        return blame

    def fill_missing(self, numbers: NDArray[Any]) -> None:
        """Replace missing values by the number that the column's rule gives."""
        for k, j in enumerate(self.numbers):
            policy = self.missing[j]
            if not isinstance(policy, str):
                column = numbers[:, k]
                column[np.isnan(column)] = policy

    def assemble(self, numbers: NDArray[Any], codes: NDArray[np.int64]) -> Any:
        """Return the feature matrix; NaN and code -1 are missing, code -2 is unknown."""
        if self.plain:
            return numbers
        return self._sparse(numbers, codes) if self.sparse else self._dense(numbers, codes)

    def _dense(self, numbers: NDArray[Any], codes: NDArray[np.int64]) -> NDArray[Any]:
        X = np.zeros((len(numbers), self.n_features), dtype=self.schema.dtype)
        for k, j in enumerate(self.numbers):
            column = X[:, self.first[j]]
            column[:] = numbers[:, k]
            if j in self.indicator:
                absent = np.isnan(column)
                column[absent] = 0.0
                X[absent, self.indicator[j]] = 1.0
        for k, j in enumerate(self.categories):
            known = np.flatnonzero(codes[:, k] >= 0)
            X[known, self.first[j] + codes[known, k]] = 1.0
            if j in self.indicator:
                X[codes[:, k] == -1, self.indicator[j]] = 1.0
        return X

    def _sparse(self, numbers: NDArray[Any], codes: NDArray[np.int64]) -> Any:
        """Return the feature matrix as CSR."""
        from scipy.sparse import csr_matrix

        n = len(numbers)
        places: list[NDArray[np.int64]] = []
        entries: list[NDArray[Any]] = []
        for j in sorted(self.first, key=self.first.__getitem__):
            if j in self.levels:
                code = codes[:, self.slots[j]]
                absent = code == -1
                places.append(np.where(code >= 0, self.first[j] + code, -1))
                entries.append(np.ones(n))
            else:
                value = numbers[:, self.slots[j]]
                absent = np.isnan(value)
                places.append(np.where(absent | (value == 0.0), -1, self.first[j]))
                entries.append(value)
            if j in self.indicator:
                places.append(np.where(absent, self.indicator[j], -1))
                entries.append(np.ones(n))
        place = np.stack(places, axis=1)
        kept = place >= 0
        indptr = np.concatenate([[0], np.cumsum(kept.sum(axis=1))])
        data = np.stack(entries, axis=1)[kept].astype(self.schema.dtype)
        indices = place[kept].astype(np.int32)
        return csr_matrix((data, indices, indptr.astype(np.int32)), shape=(n, self.n_features))

    def code_of(self, j: int, value: str) -> int:
        """Return the code of a category in column j; -2 if it is not among the levels."""
        levels = self.levels[j]
        if isinstance(levels, int):
            return bucket_of(value, levels)
        return self._codes[j].get(value, -2)
