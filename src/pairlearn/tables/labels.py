# SPDX-License-Identifier: BSD-3-Clause
"""Turn the labels of a table into two classes, numbers, or any number of classes.

Spaces around a class and upper or lower case do not matter: "Yes", "yes " and "YES" are one class.
If more than two spellings remain and all of them mean yes or no ("Y", "yes", "N", "no"), yes and no
are the classes. A third word such as "unknown" is not a class, and its rows are left out.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pairlearn.streams.readers.base import ReadError, bucket_of
from pairlearn.tables.series import read_each, read_numbers, text_of, texts_of
from pairlearn.tables.values import STYLES, cut, is_missing, parse_number, style_of, yes_or_no
from pairlearn.typing import Vector

if TYPE_CHECKING:
    from polars import Series

_KINDS = ("classes", "numbers", "groups")
#: The class among these is positive if the other class is not among them.
_POSITIVE = frozenset(
    ("yes", "y", "true", "t", "on", "1", "ja", "oui", "sí", "si", "sim", "positive", "pos", "good",
     "success", "won", "fraud", "spam", "churn", "churned", "default", "bad", "malignant", "sick",
     "ill", "fail", "failed", "failure")
)  # fmt: skip
#: Labels that are not a class if two others remain.
_UNKNOWN = frozenset(
    ("unknown", "unk", "not known", "n/k", "not available", "missing", "undetermined",
     "undefined", "unspecified", "not specified", "don't know", "pending", "unbekannt", "inconnu",
     "desconocido", "sconosciuto", "k.a.", "s/d")
)  # fmt: skip
_CODE = re.compile(r"-?0\d")
#: Digits of whole numbers that a float always tells apart.
_MOST_DIGITS = 15
#: Labels that a message shows.
_SHOWN = 6


def _fold(text: str) -> str:
    return text.strip().casefold()


def _number(text: str) -> float | None:
    """Return the number in a label; more digits than a float tells apart are a text."""
    whole = text.strip().removeprefix("-")
    return None if whole.isdecimal() and len(whole) > _MOST_DIGITS else parse_number(text)


def _are_numbers(texts: Iterable[str]) -> bool:
    """Whether all classes are numbers; digits after a zero are a code, as in 007."""
    return all(_number(text) is not None and not _CODE.match(text.strip()) for text in texts)


@dataclass(frozen=True)
class LabelRule:
    """The rule that turns label fields into numbers.

    Parameters
    ----------
    column : str
        The column.
    kind : {"classes", "numbers", "groups"}
        Two classes, which become 0 and 1; numbers (grades or targets); any classes, as 0, 1, ...
    values : tuple
        The classes as shown; of two, the positive one comes last. Of numbers, the labels that may
        occur; none if any may.
    codes : mapping of str to int
        The class of each case-folded spelling.
    style : str
        How numbers are written.
    note : str
        Remarks for the user.
    """

    column: str
    kind: str
    values: tuple[str | int | float, ...] = ()
    codes: Mapping[str, int] | None = None
    style: str = "plain"
    note: str = ""

    @classmethod
    def of_two(
        cls,
        column: str,
        texts: Iterable[str] | Mapping[str, int],
        given: Sequence[str] | None,
        *,
        source: str,
        whole: bool = True,
    ) -> LabelRule:
        """Return the rule for two classes, found in the labels or given as (negative, positive).

        `texts` are the labels of all rows, or how often each occurs. A class is shown by its most
        frequent spelling. With ``whole=False`` they are those of the first rows of more.

        >>> rule = LabelRule.of_two("churn", ["No", "yes", "Yes ", "no"], None, source="a.csv")
        >>> rule.values, rule.note
        (('No', 'Yes'), "'No', 'no' are one class; 'Yes', 'yes' are one class")
        """
        counts = _counted(texts)
        if given is not None:
            return cls._of_given(column, counts, given, source)
        groups: dict[str, list[str]] = {}
        for text in counts:
            number = _number(text)
            # 17 digits tell any two numbers apart
            key = _fold(text) if number is None else f"{number:.17g}"
            groups.setdefault(key, []).append(text)
        left_out: list[str] = []
        if len(groups) > 2:
            known = {key: texts for key, texts in groups.items() if key not in _UNKNOWN}
            known = (len(known) > 2 and _yes_and_no(known)) or known
            if len(known) == 2:
                left_out = [t for key in groups if key in _UNKNOWN for t in groups[key]]
                groups = known
        if len(groups) != 2:
            raise _not_two(column, counts, groups, source, whole)
        sizes = {key: sum(counts[t] for t in spellings) for key, spellings in groups.items()}
        negative, positive, why = _in_order(groups, sizes, whole)
        codes = {_fold(text): code for code, key in enumerate((negative, positive))
                 for text in groups[key]}  # fmt: skip
        shown = tuple(_shown(groups[key], counts) for key in (negative, positive))
        notes = [f"{_quoted(group)} are one class" for group in groups.values() if len(group) > 1]
        if left_out:
            are = "is" if len(left_out) == 1 else "are"
            notes.append(f"{_quoted(left_out)} {are} no class; such rows are left out")
        return cls(column, "classes", _as_numbers(shown), codes, note="; ".join([*notes, *why]))

    @classmethod
    def _of_given(
        cls, column: str, counts: Mapping[str, int], given: Sequence[str], source: str
    ) -> LabelRule:
        """Return the rule for given classes; refuse a class that no row has."""
        codes: dict[str, int] = {}
        for code, wanted in enumerate(given):
            number = _number(wanted)
            found = [text for text in counts
                     if _fold(text) == _fold(wanted)
                     or (number is not None and parse_number(text) == number)]  # fmt: skip
            if not found:
                raise ReadError(
                    f"{source}: no row of {column!r} is {cut(wanted)!r}; its labels are "
                    f"{_quoted(counts)}."
                )
            codes.update({_fold(text): code for text in found})
        return cls(column, "classes", _as_numbers(tuple(given)), codes)

    @classmethod
    def of_classes(cls, column: str, classes: Sequence[Any] | None) -> LabelRule:
        """Return the rule for labels that a user lists: texts become 0, 1, ..., numbers stay."""
        if classes is None or not isinstance(classes[0], str):
            return cls(column, "numbers", tuple(map(float, classes or ())))
        codes = {_fold(text): code for code, text in enumerate(classes)}
        if len(codes) < len(classes):
            raise ReadError(f"classes must differ in more than case and spaces, got {classes!r}.")
        kind = "classes" if len(classes) == 2 else "groups"
        return cls(column, kind, _as_numbers(classes), codes)

    @classmethod
    def of_numbers(cls, column: str, texts: Sequence[str], commas: str, source: str) -> LabelRule:
        """Return the rule for grades or targets."""
        present = [text.strip() for text in texts if not is_missing(text)]
        style, share = style_of(present, commas)
        if share < 0.5:
            wrong = next((t for t in present if parse_number(t, style) is None), "")
            raise ReadError(
                f"{source}: the label {column!r} must be numbers here, and {wrong!r} is not one; "
                "check --label and --problem."
            )
        return cls(column, "numbers", style=style)

    @classmethod
    def of_groups(
        cls, column: str, texts: Iterable[str] | Mapping[str, int], source: str
    ) -> LabelRule:
        """Return the rule for any number of classes; `texts` are as in `of_two`."""
        counts = _counted(texts)
        if len(counts) < 2:
            raise ReadError(f"{source}: the label {column!r} has {len(counts)} value; two or more "
                            "are needed, check --label.")  # fmt: skip
        if _are_numbers(counts):
            broken = next((t for t in counts if not (parse_number(t) or 0.0).is_integer()), None)
            if broken is not None:
                raise ReadError(
                    f"{source}: the label {column!r} holds fractions, as {cut(broken)!r}, which "
                    "are no classes; for a target of many values (regression) train with --problem "
                    "entropy; otherwise check --label."
                )
            return cls(column, "numbers")
        spellings: dict[str, list[str]] = {}
        for text in counts:
            spellings.setdefault(_fold(text), []).append(text)
        folded = sorted(spellings)
        shown = tuple(_shown(spellings[text], counts) for text in folded)
        return cls(column, "groups", shown, {text: k for k, text in enumerate(folded)})

    def apply(self, column: Series) -> tuple[Vector, dict[int, str]]:
        """Return the labels as numbers, and the reason for each row without a label.

        >>> import polars
        >>> rule = LabelRule("y", "classes", ("no", "yes"), {"no": 0, "yes": 1})
        >>> rule.apply(polars.Series(["Yes", "no", "perhaps"]))
        (array([ 1.,  0., nan]), {2: "label 'perhaps' is not among the classes"})
        """
        if self.codes is not None:
            y = read_each(column, self._value)[0]
        else:
            y = read_numbers(column, self.style)[0]
            if self.values:
                y[~np.isin(y, np.array(self.values, dtype=np.float64))] = np.nan
        return y, {k: self._reason(column[k]) for k in np.flatnonzero(np.isnan(y)).tolist()}

    def _value(self, text: str) -> float | None:
        assert self.codes is not None
        code = self.codes.get(_fold(text))
        if code is None and self.kind == "classes":
            number = _number(text)
            known = [] if number is None else [parse_number(str(value)) for value in self.values]
            code = known.index(number) if number in known else None
        return code

    def _reason(self, value: Any) -> str:
        text = "" if value is None or value != value else text_of(value).strip()
        if is_missing(text):
            return "the label is missing"
        if self.codes is not None or (self.values and parse_number(text) is not None):
            return f"label {text[:60]!r} is not among the classes"
        return f"label {text[:60]!r} is not a number"

    def state(self) -> dict[str, Any]:
        """Return the rule as plain values."""
        return {
            "column": self.column,
            "kind": self.kind,
            "values": list(self.values),
            "codes": None if self.codes is None else dict(self.codes),
            "style": self.style,
        }

    @classmethod
    def from_state(cls, state: Any) -> LabelRule:
        """Check the output of `state` and return its rule."""
        if not isinstance(state, Mapping) or not isinstance(state.get("column"), str):
            raise ValueError("the saved label names no column.")
        values: Any = state.get("values")
        codes = state.get("codes")
        plain = isinstance(values, list) and all(type(v) in (str, int, float) for v in values)
        if state.get("kind") not in _KINDS or state.get("style") not in STYLES or not plain:
            raise ValueError("the saved label has an unknown kind, or classes of a wrong type.")
        if (codes is None) != (state["kind"] == "numbers"):
            raise ValueError("the saved label has no codes of its classes.")
        if codes is not None:
            good = isinstance(codes, Mapping) and all(
                isinstance(text, str) and type(code) is int and 0 <= code < len(values)
                for text, code in codes.items()
            )
            if not good or (state["kind"] == "classes" and len(values) != 2):
                raise ValueError("the saved codes of classes do not fit the classes.")
            codes = dict(codes)
        return cls(state["column"], state["kind"], tuple(values), codes, state["style"])


def _counted(texts: Iterable[str] | Mapping[str, int]) -> Counter[str]:
    """Return how often each label occurs, without spaces around it; missing ones are left out."""
    found: Counter[str] = Counter()
    for text, count in Counter(texts).items():
        if not is_missing(text):
            found[text.strip()] += count
    return found


def _yes_and_no(groups: Mapping[str, list[str]]) -> dict[str, list[str]] | None:
    """Return the groups "no" and "yes" if all spellings mean yes or no (or 1 or 0), else None."""
    found: dict[str, list[str]] = {"no": [], "yes": []}
    for key, spellings in groups.items():
        said = {"1": True, "0": False}.get(key, yes_or_no(key))
        if said is None:
            return None
        found["yes" if said else "no"] += spellings
    return found if all(found.values()) else None


def _in_order(
    groups: Mapping[str, list[str]], sizes: Mapping[str, int], whole: bool
) -> tuple[str, str, list[str]]:
    """Return the negative class, the positive class, and the reason if it is not obvious."""
    first, second = sorted(groups)
    numbers = [parse_number(key) for key in (first, second)]
    if numbers[0] is not None and numbers[1] is not None:
        return (first, second, []) if numbers[0] <= numbers[1] else (second, first, [])
    known = [key in _POSITIVE for key in (first, second)]
    if known[0] != known[1]:
        return (second, first, []) if known[0] else (first, second, [])
    if sizes[first] == sizes[second]:
        return first, second, [f"{cut(second)!r} is taken as positive; --classes reverses it"]
    if sizes[first] < sizes[second]:
        first, second = second, first
    rarer = "the rarer one" if whole else "the rarer one of the first rows"
    return first, second, [f"{cut(second)!r}, {rarer}, is positive; --classes reverses it"]


def _quoted(texts: Iterable[str]) -> str:
    """Return the first labels, quoted for a message."""
    return ", ".join(repr(cut(text)) for text in sorted(texts)[:_SHOWN])


def _shown(spellings: Sequence[str], counts: Mapping[str, int]) -> str:
    return max(sorted(spellings), key=counts.__getitem__)


def _as_numbers(values: Sequence[str]) -> tuple[str | int | float, ...]:
    """Return the values as numbers if all are numbers."""
    if not _are_numbers(values):
        return tuple(values)
    return tuple(int(n) if n == int(n) else n for n in map(float, values))


def _not_two(
    column: str, counts: Mapping[str, int], groups: Mapping[str, Any], source: str, whole: bool
) -> ReadError:
    """Return the error for labels that are not two classes."""
    order = sorted(counts, key=lambda text: (-counts[text], text))
    # counts expose a label of a single row, such as a line of totals; a stream knows no such counts
    tell = whole and 2 < len(groups) <= _SHOWN and max(counts.values()) > 1
    shown = ", ".join(
        f"{cut(text)} ({counts[text]} row{'s' * (counts[text] > 1)})" if tell else cut(text)
        for text in order[:_SHOWN]
    ) + (", ..." if len(order) > _SHOWN else "")
    plural = "s" * (len(groups) != 1)
    start = f"{source}: {column!r} has the label{plural} {shown or '(none)'}, and two are needed"
    if len(groups) > 20 and all(parse_number(text) is not None for text in order[:100]):
        return ReadError(
            f"{start}; for a target of many values (regression) train with --problem entropy; "
            "otherwise check --label."
        )
    if len(groups) > 2:
        return ReadError(
            f"{start}; name two with --classes NEGATIVE,POSITIVE (rows of others are left out), "
            "train with --problem classes, or check --label."
        )
    return ReadError(f"{start}; check --label.")


#: Whole numbers of at most 18 digits; 1.0 is how a column with gaps was written.
_WHOLE = re.compile(r"(0|-?[1-9][0-9]{0,17})(?:\.0)?")


def query_numbers(column: Series) -> tuple[NDArray[np.int64], dict[int, str]]:
    """Return a number for each query: whole numbers as they are, other texts by their hash.

    A hash needs no table, so a stream and other files give the same numbers. 01 is another text
    than 1, so it is hashed.
    """
    import polars

    def number(text: str) -> int:
        found = _WHOLE.fullmatch(text)
        return int(found[1]) if found else bucket_of(text, 1 << 62)

    texts = texts_of(column).fill_null("").str.strip_chars()
    known = texts.unique().to_list()
    numbers = [number(text) for text in known]
    found = texts.replace_strict(known, numbers, return_dtype=polars.Int64).to_numpy()
    wrong = (texts == "").arg_true().to_list()
    return found, dict.fromkeys(wrong, "the query is missing")
