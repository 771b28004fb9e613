# SPDX-License-Identifier: BSD-3-Clause
"""Private rows of a CSV file, and the public facts about them.

A TOML file lists the public facts before the data are read::

    label = "churned"
    labels = ["no", "yes"]          # the negative and the positive one; or, for a regression,
                                    # target_bounds = [0, 100], the bounds of the label
    person = "customer"             # optional: whose row it is; the promise is then about persons.
                                    # ["site", "patient"] if it takes several columns to tell
    private_bounds = true           # optional: bounds are found, with a fifth of the budget, inside
                                    # those given, which may then be far too wide
    line_ends_in_fields = true      # optional: a field in quotes may hold line ends

    [features]
    age = [18, 100]                 # bounds
    children = { bounds = [0, 4], levels = 5 }

A line is one row, and is read by itself: whatever quotes it holds, the rows of other lines stay as
they are. With ``line_ends_in_fields`` a record may have several lines: a quote opens a field at its
start only, and the lines after it belong to the record only if the quote closes before a delimiter
or a line end, and the record then has as many fields as the first line of the file. That is for
files of a CSV writer; in others two fields with stray quotes can look like the two ends of one, and
swallow the rows of others between them.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pairlearn.cli.shared.settings import read_toml

_KEYS = (
    "label", "labels", "target_bounds", "person", "delimiter", "private_bounds",
    "line_ends_in_fields", "features",
)  # fmt: skip
#: A field may be as long as it likes: a shorter one would be cut in two rows.
csv.field_size_limit(2**31 - 1)
#: Names that a message lists.
_SHOWN = 10


@dataclass(frozen=True)
class PublicFacts:
    """The public facts about a file: its columns, their bounds, and the two labels.

    `levels` is 0 for a continuous feature and k for a code of k levels. `person` are the columns
    that say whose row it is. `labels` are the negative and the positive one, if the file says them;
    `target_bounds` are those of the target of a regression.
    """

    features: tuple[str, ...]
    lower: tuple[float, ...]
    upper: tuple[float, ...]
    levels: tuple[int, ...]
    label: str
    labels: tuple[Any, Any] | None = None
    person: tuple[str, ...] = ()
    delimiter: str = ","
    private_bounds: bool = False
    line_ends_in_fields: bool = False
    target_bounds: tuple[float, float] | None = None

    @property
    def rows(self) -> str:
        """What a certificate says about rows."""
        return f"one for each {'record' if self.line_ends_in_fields else 'line'} of a CSV file"


@dataclass(frozen=True)
class Rows:
    """Rows as texts: features, labels, and persons if there are any."""

    X: list[Any]
    y: list[Any]
    persons: list[Any] | None


def read_facts(path: str, *, of_model: bool = False) -> PublicFacts:
    """Return the public facts in a file of TOML; see the module.

    A model that is evaluated has its own features, so with `of_model` the file need not have any.
    """
    plain = read_toml(path)

    def check(holds: bool, rule: str) -> None:
        if not holds:
            raise ValueError(f"{path}: {rule}")

    unknown = sorted(set(plain) - set(_KEYS))
    check(not unknown, f"{''.join(unknown[:1])[:60]!r} is unknown; it may say {', '.join(_KEYS)}.")
    label, features = plain.get("label"), plain.get("features", {})
    check(
        isinstance(label, str) and isinstance(features, dict) and bool(features or of_model),
        'it must name the column of the label and the bounds of each feature: label = "y", and '
        "below [features] lines like age = [18, 100].",
    )
    labels, target = plain.get("labels"), plain.get("target_bounds")
    check(labels is None or (isinstance(labels, list) and len(labels) == 2),
          f"labels must be [negative, positive], got {labels!r}.")  # fmt: skip
    check(target is None or not (labels or of_model),
          "target_bounds are for the training of a regression; here there are two labels, so leave "
          "them out.")  # fmt: skip
    check(target is None or _is_pair(target),
          f"target_bounds must be two numbers, as in target_bounds = [0, 100], got {target!r}."
          )  # fmt: skip
    for name in ("private_bounds", "line_ends_in_fields"):
        check(isinstance(plain.get(name, False), bool), f"{name} must be true or false.")
    delimiter = plain.get("delimiter", ",")
    check(isinstance(delimiter, str) and len(delimiter) == 1 and delimiter not in '"\r\n',
          f"delimiter must be one character, no quote and no line end, got {delimiter!r}."
          )  # fmt: skip
    bounds, levels = [], []
    for name, entry in features.items():
        about = entry if isinstance(entry, dict) else {"bounds": entry}
        pair, level = about.get("bounds"), about.get("levels", 0)
        check(
            _is_pair(pair) and isinstance(level, int) and set(about) <= {"bounds", "levels"},
            f"the feature {name!r} needs public bounds, as in {name} = [0, 1] or "
            f"{name} = {{ bounds = [0, 1], levels = 2 }}, got {entry!r}.",
        )
        assert pair is not None
        bounds.append((float(pair[0]), float(pair[1])))
        levels.append(level)
    person = plain.get("person", [])
    persons = [person] if isinstance(person, str) else person
    check(
        isinstance(persons, list) and all(isinstance(name, str) for name in persons)
        and len(set(persons)) == len(persons) and bool(persons or "person" not in plain),
        'person must be a column or a list of different ones, as in person = "customer" or '
        f'person = ["site", "patient"], got {person!r}.',
    )  # fmt: skip
    for what, columns in (("a feature", features), ("the person", persons)):
        check(label not in columns, f"the column {label!r} is the label and {what}; leave it out "
                                    "there.")  # fmt: skip
    lower, upper = zip(*bounds, strict=True) if bounds else ((), ())
    return PublicFacts(
        tuple(features), lower, upper, tuple(levels), str(label),
        None if labels is None else (labels[0], labels[1]), tuple(persons), delimiter,
        plain.get("private_bounds", False), plain.get("line_ends_in_fields", False),
        None if target is None else (float(target[0]), float(target[1])),
    )  # fmt: skip


def _is_pair(values: Any) -> bool:
    """Return whether this is a list of two numbers."""
    return (
        isinstance(values, list)
        and len(values) == 2
        and all(isinstance(end, (int, float)) and not isinstance(end, bool) for end in values)
    )


def read_names(path: str, delimiter: str = ",") -> list[str]:
    """Return the names of the columns, which the first line of a CSV file holds."""
    with Path(path).open("rb") as file:
        line = file.readline().removeprefix(b"\xef\xbb\xbf").removesuffix(b"\n")
    return _record([line.decode("utf-8", "replace")], 0, delimiter)[0]


def read_rows(path: str, facts: PublicFacts) -> Rows:
    """Return the rows of a CSV file whose first line names its columns."""
    lines = Path(path).read_bytes().removeprefix(b"\xef\xbb\xbf").split(b"\n")
    if not lines[-1]:
        lines.pop()
    # Line by line: no byte of one record can swallow the line end of another.
    texts = [line.decode("utf-8", "replace") for line in lines]
    names = _record(texts, 0, facts.delimiter)[0] if texts else []
    wanted = [*facts.features, facts.label, *facts.person]
    counts = Counter(names)
    if any(counts[name] != 1 for name in wanted):
        # The line itself must not show: without names it is a record.
        shown = ", ".join(map(repr, wanted[:_SHOWN])) + (", ..." if len(wanted) > _SHOWN else "")
        raise ValueError(
            f"the first line of {path} does not name each of the columns {shown} exactly once; "
            f"write the names of all columns there, with {facts.delimiter!r} between them."
        )
    place_of = {name: k for k, name in enumerate(names)}
    places = [place_of[name] for name in wanted]
    width = len(names) if facts.line_ends_in_fields else None
    cells = [
        [fields[k] if k < len(fields) else None for k in places]
        for fields in _records(texts[1:], facts.delimiter, width)
    ]
    d = len(facts.features)
    return Rows(
        [row[:d] for row in cells],
        [row[d] for row in cells],
        [_person(row[d + 1 :]) for row in cells] if facts.person else None,
    )


def _person(cells: list[str | None]) -> Any:
    """Return the id of a person; an empty field says as much as a missing one."""
    known = tuple(cell or None for cell in cells)
    return known[0] if len(known) == 1 else known


def _records(lines: list[str], delimiter: str, width: int | None) -> Iterator[list[str]]:
    """Yield the fields of each record; with a `width`, a field in quotes may hold line ends."""
    k = 0
    while k < len(lines):
        fields, n_lines = _record(lines, k, delimiter, width)
        yield fields
        k += n_lines


def _record(
    lines: list[str], k: int, delimiter: str, width: int | None = None
) -> tuple[list[str], int]:
    """Return the fields of the record that begins with line k, and how many lines it has.

    A line is split at each delimiter if its quotes do not match.
    """
    if '"' in lines[k]:
        ahead = range(k, k + 1 if width is None else len(lines))
        reader = csv.reader((lines[j] + "\n" for j in ahead), delimiter=delimiter, strict=True)
        with suppress(csv.Error):
            fields = next(reader)
            if reader.line_num == 1 or len(fields) == width:
                return fields, reader.line_num
    return lines[k].removesuffix("\r").split(delimiter), 1
