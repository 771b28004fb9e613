# SPDX-License-Identifier: BSD-3-Clause
"""Read files, fit an encoder and, if they fit in memory, return features and labels.

The kinds of columns come from a sample spread over the rows (for a stream, from its first rows).
Labels, levels and medians come from all rows in memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairlearn.streams.readers.base import ReadError, Refusal, Refusals, listed
from pairlearn.tables.columns import choose_columns
from pairlearn.tables.encoding import TableEncoding
from pairlearn.tables.kinds import Decision
from pairlearn.tables.labels import LabelRule
from pairlearn.tables.reader import OddFields, usable_rows
from pairlearn.tables.rows import no_column, open_table, refuse_repeated
from pairlearn.tables.series import gaps, known_texts, texts_of
from pairlearn.tables.text import Block
from pairlearn.tables.values import file_style
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
    """

    decisions: tuple[Decision, ...]
    encoder: TableEncoding
    absent: dict[str, float]
    notes: tuple[str, ...]
    delimiter: str


@dataclass(frozen=True, eq=False)
class FittedTable:
    """A table in memory: its plan, features and labels."""

    plan: Plan
    X: Any
    y: Vector
    qid: NDArray[np.int64] | None
    refusals: Refusals
    odd: OddFields


class _Files:
    """The rows of several files, with the names and layout of the first."""

    def __init__(self, sources: Sequence[Any], options: TableOptions) -> None:
        self._sources, self._options = sources, options
        self.first = self._open(sources[0])
        self.names: tuple[str, ...] = self.first.names
        self.name: str = self.first.name
        self.is_query = options.format == "duckdb"
        #: Columns that the first file has not, and a file that has them.
        self.more: dict[str, str] = {}

    def _open(self, source: Any) -> Any:
        options = self._options
        return open_table(
            source, options.format, header=options.header, delimiter=options.delimiter,
            leave_out=options.exclude,
        )  # fmt: skip

    def blocks(self) -> Iterator[Block]:
        """Yield all rows; every file must have the columns of the first."""
        for index, source in enumerate(self._sources):
            table = self._open(source) if index else self.first
            left_out = {*self.names, *self._options.exclude}
            self.more.update((name, table.name) for name in table.names if name not in left_out)
            present = set(table.names)
            if odd := [name for name in self.names if name not in present]:
                raise ReadError(
                    f"{table.name} has no column {listed(odd)}, which the first file has; read "
                    "files of one shape together."
                )
            yield from table.blocks()


def _column(name: str, names: Sequence[str], source: str, what: str, header: bool) -> str:
    """Return the name of a column; without a header it may be given by its number."""
    if name in names:
        return name
    if not header and name.lstrip("-").isdigit() and -len(names) <= int(name) < len(names):
        return names[int(name)]
    raise no_column(name, names, source, what)


def _sample(blocks: Sequence[Block]) -> tuple[Any, int]:
    """Return evenly spaced rows as a frame, and how many rows there are for each of them."""
    import polars

    step = max(1, -(-sum(map(len, blocks)) // SAMPLE))
    parts, begin = [], 0
    for block in blocks:
        parts.append(block.frame.gather_every(step, -begin % step))
        begin += len(block)
    names = blocks[0].frame.columns
    return polars.concat([part.select(names) for part in parts], how="vertical_relaxed"), step


def _checked(
    names: Sequence[str], files: _Files, options: TableOptions
) -> tuple[str, str | None, TableOptions]:
    """Return the label, the query column, and options with names in the place of numbers."""
    label = _column(options.label, names, files.name, "label", options.header)
    qid = None
    if options.qid is not None:
        qid = _column(options.qid, names, files.name, "query", options.header)
    refuse_repeated(files.first, [label, qid or ""])
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
    files = _Files(sources, options)
    label, qid, options = _checked(files.names, files, options)
    taken: list[Block] = []
    found: Counter[str] = Counter()
    refusals, whole = Refusals(), True
    for block in files.blocks():
        refusals = _refused(refusals, block.source, block.refused, options)
        if sum(map(len, taken)) < SAMPLE:
            taken.append(block)
        # a file may be sorted by its label: read on until both classes have appeared
        found.update(_labels(block, label))
        if sum(map(len, taken)) >= SAMPLE and (len(found) > 1 or options.classes):
            whole = False
            break
    if not sum(map(len, taken)):
        raise _nothing(files, refusals)
    return _plan(files, taken, found, label, qid, options, whole=whole, is_stream=True)


def _labels(block: Block, label: str) -> Counter[str]:
    """Return how often each label occurs."""
    texts = known_texts(block.frame[label]).drop_nulls()
    counts = dict(texts.value_counts().iter_rows())
    return Counter({text: counts[text] for text in texts.unique(maintain_order=True).to_list()})


def _refused(
    refusals: Refusals, source: str, refused: Sequence[tuple[int, str]], options: TableOptions
) -> Refusals:
    for line, reason in refused:
        refusals = refusals.add(Refusal(source, line, reason), strict=options.strict)
    return refusals


def _nothing(files: _Files, refusals: Refusals) -> ReadError:
    if refusals.count:
        return ReadError(f"{files.name} has no usable row: {refusals}")
    if files.is_query:
        return ReadError(f"{files.name} gives no row; check its WHERE.")
    return ReadError(f"{files.name} has a header and no rows; check that it was written fully.")


def _plan(
    files: _Files,
    blocks: Sequence[Block],
    labels: Mapping[str, int],
    label: str,
    qid: str | None,
    options: TableOptions,
    *,
    whole: bool = True,
    is_stream: bool = False,
) -> Plan:
    """Return the label rule, the kinds of columns, the encoder and notes on the file.

    For a stream the encoder is fitted to the blocks, which are the first rows.
    """
    frame, step = _sample(blocks)
    sample = {name: texts_of(frame[name]).fill_null("").to_list() for name in files.names}
    commas = file_style(sample.values(), files.first.delimiter)
    if options.problem == "classes":
        rule = LabelRule.of_two(label, labels, options.classes, source=files.name, whole=whole)
    elif options.problem == "numbers":
        rule = LabelRule.of_numbers(label, sample[label], commas, files.name)
    else:
        rule = LabelRule.of_groups(label, labels, files.name)
    used = _used(files.names, label, qid, options)
    given = {**options.kinds, **dict.fromkeys((*options.levels, *options.widths), "category")}
    decisions, found = choose_columns(
        {name: texts for name, texts in sample.items() if name not in (label, qid)}, set(used),
        commas=commas, given=given, declared=files.first.declared, step=step,
        missing=options.missing, levels=options.levels, widths=options.widths,
    )  # fmt: skip
    columns = [found[name] for name in used if name in found]
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
    ids = [decision.name for decision in decisions if decision.kind == "id"]
    encoder = TableEncoding(columns, label=rule, qid=qid, dtype=options.dtype, ids=ids)
    if is_stream:
        encoder.fit([encoder.read(block.frame)[0] for block in blocks])
    known = {column.name: column for column in columns if column.kind == "number"}
    absent = {}
    for name in (decision.name for decision in decisions):
        if name in known:
            none = np.isnan(known[name].read(frame[name])[0])
        else:
            none = gaps(frame[name]) if name in sample else np.zeros(1)
        absent[name] = float(none.mean())
    notes = list(files.first.notes)
    if commas == "european" and any(d.form == "european" for d in decisions):
        notes.append("numbers have decimal commas")
    if files.first.delimiter != "," and options.delimiter is None and options.format == "csv":
        notes.append(f"fields are separated by {files.first.delimiter!r}")
    if files.more:
        # The last file that has such a column is named.
        *_, example = files.more.values()
        names = listed(list(files.more))
        notes.append(f"{names} left out: {example} has what the first file has not")
    return Plan(tuple(decisions), encoder, absent, tuple(notes), files.first.delimiter)


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
    files = _Files(sources, options)
    label, qid, options = _checked(files.names, files, options)
    blocks = list(files.blocks())
    if not sum(map(len, blocks)):
        refusals = Refusals()
        for block in blocks:
            refusals = _refused(refusals, block.source, block.refused, options)
        raise _nothing(files, refusals)
    labels: Counter[str] = Counter()
    for block in blocks:
        labels.update(_labels(block, label))
    plan = _plan(files, blocks, labels, label, qid, options)
    encoder, odd, refusals = plan.encoder, OddFields(), Refusals()
    parts: list[list[Any]] = []
    ys: list[Any] = []
    queries: list[Any] = []
    while blocks:
        block = blocks.pop(0)  # frees its texts
        found = usable_rows(encoder, block, odd, strict=options.strict)
        refusals = _refused(refusals, block.source, found.refused, options)
        if len(found.y):
            parts.append(found.part)
            ys.append(found.y)
            queries.append(found.qid)
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
