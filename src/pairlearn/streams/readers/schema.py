# SPDX-License-Identifier: BSD-3-Clause
"""Choose the columns of a source: what is a number, a category, the label, the query.

A `Schema` holds the user's choices; a `Layout` is the schema applied to the columns of one source.
`pairlearn.streams.readers.encode` turns columns into features by it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

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
        self._repeated = {name for name, count in Counter(names).items() if count > 1}
        self.label = None if schema.label is None else self._find(schema.label, "label")
        self.qid = None if schema.qid is None else self._find(schema.qid, "qid")
        if self.label is not None and self.label == self.qid:
            raise ReadError(f"label and qid name the same column, {short_name(names[self.label])}.")
        taken = {self.label, self.qid}
        if schema.features is None:
            chosen = [j for j in range(len(names)) if j not in taken]
            self._refuse_repeated(names[j] for j in chosen)
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
        used = (*self.numbers, *self.categories, self.label, self.qid)
        #: The columns that are read.
        self.used = tuple(sorted(j for j in used if j is not None))
        self._choose_missing(chosen)
        self._place_features(chosen)

    def _find(self, name: str | int, role: str) -> int:
        if isinstance(name, str):
            if name in self._places:
                self._refuse_repeated([name])
                return self._places[name]
        elif isinstance(name, int) and -len(self.names) <= name < len(self.names):
            return name % len(self.names)
        raise ReadError(
            f"{self.source} has no {role} column {name!r}; its columns: {listed(self.names)}."
        )

    def _refuse_repeated(self, names: Iterable[str]) -> None:
        if repeated := sorted(self._repeated.intersection(names)):
            raise ReadError(
                f"{self.source} has more than one column named {listed(repeated)}; rename the "
                "columns."
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
        # a hashed column is mostly zeros
        self.sparse = any(isinstance(self.levels[j], int) for j in self.categories)
