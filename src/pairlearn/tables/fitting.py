# SPDX-License-Identifier: BSD-3-Clause
"""Read files, fit an encoder and, if they fit in memory, return features and labels.

The kinds of columns come from a sample spread over the rows (for a stream, from its first rows).
Labels, levels and medians come from all rows in memory.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairlearn.streams.readers.base import ReadError, Refusals
from pairlearn.streams.readers.encode import column_numbers
from pairlearn.streams.readers.schema import Schema, listed
from pairlearn.tables.column import ColumnEncoder
from pairlearn.tables.columns import make_column
from pairlearn.tables.encoding import TableEncoding
from pairlearn.tables.kinds import UNUSED, Decision, decide, surely_numbers
from pairlearn.tables.labels import LabelRule
from pairlearn.tables.number_columns import NumberColumn
from pairlearn.tables.reader import OddFields, Refuse, usable_rows
from pairlearn.tables.rows import Block, no_column, open_table, suit_together
from pairlearn.tables.values import file_style, is_missing, parse_numbers, plain_numbers
from pairlearn.typing import Vector

#: Rows in the sample that decides the kinds of columns.
SAMPLE = 10_000


@dataclass(frozen=True)
class TableOptions:
    """Options of the user for a table.

    Parameters
    ----------
    label : str
        A column by name, or by number where the file has no header.
    qid : str, optional
        The column of the query.
    problem : {"classes", "numbers", "groups"}
        The type of labels: two classes, numbers, or any number of classes.
    classes : (str, str), optional
        The negative and the positive class.
    features : sequence of str, optional
        The only columns to use, in this order.
    exclude : sequence of str
        Columns to leave out.
    kinds : mapping of str to str
        Kinds given by the user, by column.
    levels, widths : mapping
        Levels of categories and hash widths given by the user, by column.
    missing : "auto", "indicator", "refuse" or float
        How to treat missing values.
    dtype : {"float64", "float32"}
        The type of the features.
    format, header, delimiter
        How files are read.
    strict : bool
        Whether to stop at the first unusable row.
    """

    label: str
    qid: str | None = None
    problem: str = "classes"
    classes: tuple[str, str] | None = None
    features: tuple[str, ...] | None = None
    exclude: tuple[str, ...] = ()
    kinds: Mapping[str, str] = field(default_factory=dict)
    levels: Mapping[str, Sequence[str]] = field(default_factory=dict)
    widths: Mapping[str, int] = field(default_factory=dict)
    missing: str | float = "auto"
    dtype: str = "float64"
    format: str = "csv"
    header: bool = True
    delimiter: str | None = None
    strict: bool = False


@dataclass(frozen=True, eq=False)
class Plan:
    """The decisions about a table.

    Parameters
    ----------
    decisions : tuple of Decision
        One for each column, in the order of the file, without label and query.
    encoder : TableEncoding
        Fitted to the sampled rows.
    absent : dict of str to float
        The share of missing values of each column in the sample.
    notes : tuple of str
        Remarks for the user.
    delimiter : str
        The character between fields.
    schema : Schema or None
        The schema with which a compiled reader delivers the same rows, if there is one; None for a
        table in memory.
    """

    decisions: tuple[Decision, ...]
    encoder: TableEncoding
    absent: dict[str, float]
    notes: tuple[str, ...]
    delimiter: str
    schema: Schema | None


@dataclass(frozen=True, eq=False)
class FittedTable:
    """A table in memory: its plan, features and labels."""

    plan: Plan
    X: Any
    y: Vector
    qid: NDArray[np.int64] | None
    refusals: Refusals
    odd: OddFields


def _together(one: Refusals, other: Refusals, sources: Sequence[str]) -> Refusals:
    """Merge the refused rows of two rounds, in the order of the files."""
    first = sorted(
        (*one.first, *other.first),
        key=lambda refusal: (sources.index(refusal.source), refusal.line),
    )
    return Refusals(one.count + other.count, tuple(first[: Refusals.KEPT]))


class _Files:
    """The rows of several files, with the names and layout of the first."""

    def __init__(self, sources: Sequence[Any], options: TableOptions, refuse: Refuse) -> None:
        self._sources, self._options, self._refuse = sources, options, refuse
        self.first = self._open(sources[0])
        self.names: tuple[str, ...] = self.first.names
        self.name: str = self.first.name
        self.is_query = options.format == "duckdb"
        #: The names of the files that have been opened.
        self.opened = [self.name]
        #: Columns that the first file has not, and a file that has them.
        self.more: dict[str, str] = {}

    def _open(self, source: Any) -> Any:
        options = self._options
        return open_table(
            source, options.format, header=options.header, delimiter=options.delimiter,
            leave_out=options.exclude,
        )  # fmt: skip

    def tables(self) -> Iterator[Any]:
        """Yield the files, each opened when its turn comes."""
        yield self.first
        for table in map(self._open, self._sources[1:]):
            left_out = {*self.names, *self._options.exclude}
            self.more.update((name, table.name) for name in table.names if name not in left_out)
            yield table

    def blocks(self) -> Iterator[Block]:
        """Yield all rows; every file must have the columns of the first."""
        for index, table in enumerate(self.tables()):
            if index:
                self.opened.append(table.name)
            present = set(table.names)
            odd = [name for name in self.names if name not in present]
            if odd:
                raise ReadError(
                    f"{table.name} has no column {listed(odd)}, which the first file has; read "
                    "files of one shape together."
                )
            yield from table.blocks(self._refuse)


def _column(name: str, names: Sequence[str], source: str, what: str, header: bool) -> str:
    """Return the name of a column; without a header it may be given by its number."""
    if name in names:
        return name
    if not header and name.lstrip("-").isdigit() and -len(names) <= int(name) < len(names):
        return names[int(name)]
    raise no_column(name, names, source, what)


def _step(blocks: Sequence[Block]) -> int:
    """Return how many rows there are for each one of a sample."""
    return max(1, -(-sum(map(len, blocks)) // SAMPLE))


def _spread(blocks: Sequence[Block], names: Sequence[str]) -> Mapping[str, Sequence[str]]:
    """Return evenly spaced rows by column."""
    step = _step(blocks)
    if len(blocks) == step == 1:
        return {name: blocks[0].columns[name] for name in names}
    found: dict[str, list[str]] = {name: [] for name in names}
    begin = 0
    for block in blocks:
        first = -begin % step
        for name in names:
            found[name] += block.columns[name][first::step]
        begin += len(block)
    return found


def _checked(
    names: Sequence[str], files: _Files, options: TableOptions
) -> tuple[str, str | None, TableOptions]:
    """Return the label, the query column, and options with names in the place of numbers."""
    label = _column(options.label, names, files.name, "label", options.header)
    qid = None
    if options.qid is not None:
        qid = _column(options.qid, names, files.name, "query", options.header)
    for column in (label, qid):
        if column in files.first.repeated:
            raise ReadError(
                f"{files.name} has more than one column named {column!r}; rename all but the one "
                "to use."
            )
    if label == qid:
        raise ReadError(f"--label and --qid name the same column, {label!r}.")
    excluded = [
        given
        if given in files.first.left_out
        else _column(given, names, files.name, "excluded", options.header)
        for given in options.exclude
    ]
    if label in excluded:
        raise ReadError(f"--exclude {label}: it is the label; exclude other columns.")

    def feature(given: str) -> str:
        name = _column(given, names, files.name, "feature", options.header)
        if name in (label, qid):
            raise ReadError(f"{given!r} is the label or the query and cannot be a feature.")
        if name in excluded:
            raise ReadError(f"--exclude {name}: another option names the column; drop one of them.")
        return name

    return (
        label,
        qid,
        replace(
            options,
            features=None if options.features is None else tuple(map(feature, options.features)),
            kinds={feature(name): kind for name, kind in options.kinds.items()},
            levels={feature(name): levels for name, levels in options.levels.items()},
            widths={feature(name): width for name, width in options.widths.items()},
            exclude=tuple(excluded),
        ),
    )


def _used(names: Sequence[str], label: str, qid: str | None, options: TableOptions) -> list[str]:
    if options.features is not None:
        chosen = list(options.features)
        counts = Counter(chosen)
        twice = next((name for name in chosen if counts[name] > 1), None)
        if twice is not None:
            raise ReadError(f"reading.features names {twice!r} twice; name it once.")
    else:
        chosen = [name for name in names if name not in (label, qid)]
    excluded = set(options.exclude)
    return [name for name in chosen if name not in excluded]


def plan_table(sources: Sequence[Any], options: TableOptions) -> Plan:
    """Decide the kinds of columns from the first rows, for training on a stream.

    Parameters
    ----------
    sources : sequence of paths
        The files.
    options : TableOptions
        The options of the user.

    Returns
    -------
    Plan
        Its encoder is fitted to the first rows.
    """
    refuse = Refuse(options.strict)
    files = _Files(sources, options, refuse)
    label, qid, options = _checked(files.names, files, options)
    taken: list[Block] = []
    found: Counter[str] = Counter()
    whole = True
    for block in files.blocks():
        if sum(map(len, taken)) < SAMPLE:
            taken.append(block)
        # a file may be sorted by its label: read on until both classes have appeared
        found.update(text for text in block.columns[label] if not is_missing(text))
        if sum(map(len, taken)) >= SAMPLE and (len(found) > 1 or options.classes):
            whole = False
            break
    if not taken:
        raise _nothing(files, refuse.refusals)
    return _plan(
        files, taken, found, label, qid, options, _spread(taken, files.names), _step(taken), whole
    )


def _nothing(files: _Files, refusals: Refusals) -> ReadError:
    if refusals.count:
        return ReadError(f"{files.name} has no usable row: {refusals}")
    if files.is_query:
        return ReadError(f"{files.name} gives no row; check its WHERE.")
    return ReadError(f"{files.name} has a header and no rows; check that it was written fully.")


def _plan(
    files: _Files,
    blocks: Sequence[Block],
    labels: Iterable[str] | Mapping[str, int],
    label: str,
    qid: str | None,
    options: TableOptions,
    sample: Mapping[str, Sequence[str]],
    step: int,
    whole: bool = True,
) -> Plan:
    """Return the label rule, the kinds of columns, the fitted encoder and notes on the file."""
    commas = file_style(sample.values(), files.first.delimiter)
    if options.problem == "classes":
        rule = LabelRule.of_two(label, labels, options.classes, source=files.name, whole=whole)
    elif options.problem == "numbers":
        rule = LabelRule.of_numbers(label, sample[label], commas, files.name)
    else:
        rule = LabelRule.of_groups(label, labels, files.name)
    used = _used(files.names, label, qid, options)
    decisions: list[Decision] = []
    columns: list[ColumnEncoder] = []
    features = set(used)
    free = [name for name in used if name not in files.first.declared]
    plain = _plain(free, sample, commas, options)
    for name in [*used, *(n for n in files.names if n not in features and n not in (label, qid))]:
        if name not in features:
            decisions.append(Decision(name, "excluded", given=True))
            continue
        if name in plain:
            decisions.append(Decision(name, "number", "plain"))
            columns.append(NumberColumn(name, options.missing))
            continue
        decision = decide(
            name, sample[name], commas=commas, given=_given(name, options),
            declared=name in files.first.declared, step=step,
        )  # fmt: skip
        decisions.append(decision)
        if decision.kind not in UNUSED:
            columns.append(
                make_column(
                    decision, missing=options.missing, levels=options.levels.get(name),
                    width=options.widths.get(name),
                )
            )  # fmt: skip
    if not columns:
        kinds = ", ".join(f"{d.name}: {d.note or d.kind}" for d in decisions[:8])
        if not decisions:
            raise ReadError(
                f"{files.name} has no column beside the label, {label!r}; check the delimiter "
                "(--set reading.delimiter) and --label."
            )
        raise ReadError(
            f"{files.name} leaves no column for features ({kinds}); name one with "
            "--categorical, --set reading.numeric or --set reading.text."
        )
    if options.features is not None or len(decisions) > len(used):
        order = {name: k for k, name in enumerate(files.names)}
        decisions.sort(key=lambda decision: order.get(decision.name, len(order)))
    ids = [decision.name for decision in decisions if decision.kind == "id"]
    encoder = TableEncoding(columns, label=rule, qid=qid, dtype=options.dtype, ids=ids)
    if blocks:
        encoder.fit([encoder.read(block) for block in blocks])
    absent = {
        d.name: 0.0 if d.name in plain or d.name not in sample else _absent(d, sample[d.name])
        for d in decisions
    }
    notes = list(files.first.notes)
    if commas == "european" and any(d.form == "european" for d in decisions):
        notes.append("numbers have decimal commas")
    if files.first.delimiter != "," and options.delimiter is None and options.format == "csv":
        notes.append(f"fields are separated by {files.first.delimiter!r}")
    schema = encoder.as_schema() if blocks else None
    if schema is not None and not (
        suit_together(files.tables(), schema) and _read_alike(schema, rule, sample, plain)
    ):
        schema = None
    if files.more:
        # The last file that has such a column is named.
        *_, example = files.more.values()
        names = listed(list(files.more))
        notes.append(f"{names} left out: {example} has what the first file has not")
    return Plan(tuple(decisions), encoder, absent, tuple(notes), files.first.delimiter, schema)


def _read_alike(
    schema: Schema, rule: LabelRule, sample: Mapping[str, Sequence[str]], plain: Container[str]
) -> bool:
    """Whether a compiled reader takes each field of the sample that a table takes."""
    for name in map(str, schema.features or ()):
        texts = sample[name]
        # plain numbers need a look only for blanks and digits of other scripts
        if name in plain and "".join(texts).isascii():
            continue
        if not _all_read(texts, schema):
            return False
    labels = list(set(sample[rule.column]))
    wrong = rule.apply(labels)[1]
    taken = {text for k, text in enumerate(labels) if k not in wrong}
    if schema.text_labels:
        return taken <= set(schema.classes or ())
    return _all_read(taken, schema)


def _all_read(texts: Iterable[str], schema: Schema) -> bool:
    import polars

    wrong: dict[int, str] = {}
    column = polars.Series(list(set(texts)), dtype=polars.String)
    column_numbers(column, schema.missing_tokens, wrong, "")
    return not wrong


def _given(name: str, options: TableOptions) -> str | None:
    """Return the kind that the user gave a column, or None."""
    if name in options.levels or name in options.widths:
        return "category"
    return options.kinds.get(name)


def _plain(
    used: Sequence[str], sample: Mapping[str, Sequence[str]], commas: str, options: TableOptions
) -> set[str]:
    """Return the columns that surely hold plain numbers, all fields of them."""
    if commas != "english":
        return set()
    free = used
    if options.kinds or options.levels or options.widths:
        free = [name for name in used if _given(name, options) is None]
    sure = surely_numbers(free, [sample[name] for name in free])
    return set(itertools.compress(free, sure))


def _absent(decision: Decision, values: Sequence[str]) -> float:
    """Return the share of missing fields."""
    plain = plain_numbers(values) if decision.kind == "number" else None
    if plain is not None and (decision.form, decision.unit) == ("plain", ""):
        none = 0 if decision.nothing is None else plain.count(decision.nothing)
    elif decision.kind == "number":
        numbers, _ = parse_numbers(values, decision.form, decision.unit)
        none = int(np.count_nonzero(np.isnan(numbers)))
        if decision.nothing is not None:
            none += int(np.count_nonzero(numbers == decision.nothing))
    else:
        none = sum(map(is_missing, values))
    return none / max(len(values), 1)


def load_table(sources: Sequence[Any], options: TableOptions) -> FittedTable:
    """Read files into memory, decide the kinds of columns, and encode all rows.

    Parameters
    ----------
    sources : sequence of paths, or "-"
        The files.
    options : TableOptions
        The options of the user.

    Returns
    -------
    FittedTable
        Plan, features and labels.
    """
    read, refuse, odd = Refuse(options.strict), Refuse(options.strict), OddFields()
    files = _Files(sources, options, read)
    label, qid, options = _checked(files.names, files, options)
    blocks = list(files.blocks())
    if not blocks:
        raise _nothing(files, read.refusals)
    labels = itertools.chain.from_iterable(block.columns[label] for block in blocks)
    plan = _plan(
        files, [], labels, label, qid, options, _spread(blocks, files.names), _step(blocks)
    )
    encoder = plan.encoder
    parts: list[list[Any]] = []
    ys: list[Any] = []
    queries: list[Any] = []
    for index, block in enumerate(blocks):
        part, _, y, query = usable_rows(encoder, block, refuse, odd)
        if len(y):
            parts.append(part)
            ys.append(y)
            queries.append(query)
        blocks[index] = _EMPTY  # frees its texts
    refusals = _together(read.refusals, refuse.refusals, files.opened)
    if not parts:
        raise ReadError(f"{files.name} has no usable row: {refusals}")
    encoder.fit(parts, whole=True)
    if not encoder.n_features:
        texts = listed([column.name for column in encoder.columns])
        raise ReadError(
            f"{files.name} leaves no feature: no word of {texts} is frequent enough; name columns "
            "with --categorical or --set reading.numeric."
        )
    X: Any = [encoder.encode(part) for part in parts]
    if encoder.sparse:
        from scipy import sparse

        X = sparse.vstack(X, format="csr")
    else:
        X = np.concatenate(X)
    return FittedTable(
        plan, X, np.concatenate(ys), None if qid is None else np.concatenate(queries),
        refusals, odd,
    )  # fmt: skip


_EMPTY = Block("", {}, np.zeros(0, dtype=np.int64), 0, 0)
