# SPDX-License-Identifier: BSD-3-Clause
"""The data that ``pairlearn train`` learns from: a table in memory, or a reader of rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from pairlearn.cli.shared.reading import (
    Reading,
    find_classes,
    open_data,
    schema_of,
    schema_to_plain,
    sources_of,
)
from pairlearn.cli.shared.scoring import odd_lines
from pairlearn.cli.shared.table_files import (
    TABLES,
    table_options,
    table_reader,
    text_size,
)

if TYPE_CHECKING:
    from pairlearn.models import ModelRecord
    from pairlearn.streams.readers.base import Reader
    from pairlearn.streams.readers.schema import Schema
    from pairlearn.tables.encoding import TableEncoding
    from pairlearn.tables.fitting import FittedTable, Plan

#: The compiled reader takes time to load; it pays from this many bytes of text.
_COMPILED = 8e6


@dataclass(frozen=True, eq=False)
class EncodedTable:
    """A table in memory, encoded by what its columns were taken for."""

    table: FittedTable
    problem: str

    @property
    def plan(self) -> Plan:
        """What the columns were taken for."""
        return self.table.plan

    @property
    def encoder(self) -> TableEncoding:
        """What turns columns into features."""
        return self.table.plan.encoder

    @property
    def feature_names(self) -> Any:
        """The names of the features."""
        return self.encoder.feature_names

    @property
    def classes(self) -> tuple[Any, ...]:
        """The classes as the model names them; none for other problems."""
        return _classes(self.encoder, self.problem)

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return len(self.table.y)

    def examples(self) -> tuple[Any, Any, Any]:
        """Return features, labels and queries."""
        return self.table.X, self.table.y, self.table.qid

    def columns(self) -> dict[str, Any]:
        """Return how to read such columns again, for the model file."""
        return {"table": self.encoder.state()}

    def refused(self) -> tuple[Any, list[str]]:
        """Return the refused rows, and sentences about fields that were taken as missing."""
        return self.table.refusals, self.table.odd.lines()


@dataclass(frozen=True, eq=False)
class Rows:
    """A reader of rows. A table has a plan of its columns; other data and pipes have a schema."""

    reader: Reader
    problem: str
    plan: Plan | None = None
    schema: Schema | None = None

    @property
    def encoder(self) -> TableEncoding | None:
        """What turns columns into features, if there is a plan."""
        return None if self.plan is None else self.plan.encoder

    @property
    def feature_names(self) -> Any:
        """The names of the features."""
        return self.reader.feature_names

    @property
    def classes(self) -> tuple[Any, ...]:
        """The classes as the model names them; none for other problems."""
        if self.encoder is not None:
            return _classes(self.encoder, self.problem)
        return tuple((self.schema and self.schema.classes) or ())

    @property
    def codes(self) -> tuple[float, ...] | None:
        """The labels that the reader delivers for the classes."""
        schema = getattr(self.reader, "schema", self.schema)
        if schema is not None and not schema.text_labels:
            return schema.classes  # type: ignore[return-value]
        return (0.0, 1.0) if self.classes else None

    @property
    def n_rows(self) -> None:
        """Unknown before the end."""
        return None

    def examples(self) -> tuple[Any, Any, Any]:
        """Read everything; return features, labels and queries."""
        import numpy as np
        from scipy import sparse

        chunks = list(self.reader)
        X: Any = [chunk.X for chunk in chunks]
        X = sparse.vstack(X, format="csr") if sparse.issparse(X[0]) else np.concatenate(X)
        y = np.concatenate([chunk.y for chunk in chunks if chunk.y is not None])
        queries = [chunk.qid for chunk in chunks if chunk.qid is not None]
        return X, y, np.concatenate(queries) if queries else None

    def columns(self) -> dict[str, Any]:
        """Return how to read such columns again, for the model file."""
        if self.encoder is not None:
            return {"table": self.encoder.state()}
        assert self.schema is not None
        layout = getattr(self.reader, "layout", None)
        columns = None if layout is None else [layout.names[j] for j in layout.first]
        return {"schema": schema_to_plain(self.schema, columns)}

    def refused(self) -> tuple[Any, list[str]]:
        """Return the refused rows, and sentences about fields that were taken as missing."""
        return self.reader.refusals, odd_lines(self.reader)


def _classes(encoder: TableEncoding, problem: str) -> tuple[Any, ...]:
    """Return the values of a label whose codes the model learns."""
    label = encoder.label
    coded = ("classes", "groups") if problem == "classes" else ("classes",)
    return label.values if label is not None and label.kind in coded else ()


def open_training_data(
    data: tuple[str, ...], reading: Reading, problem: str, form: str, how: str
) -> EncodedTable | Rows:
    """Return the data. A stream always has `Rows`; data to be fitted in memory have either."""
    if form not in TABLES or (how == "stream" and "-" in data):
        return _with_schema(data, reading, problem, form)
    from pairlearn.tables.fitting import load_table, plan_table

    options, sources = table_options(data, reading, problem), sources_of(data, form, reading.query)
    is_large = "-" not in data and text_size(sources) > _COMPILED
    plan = plan_table(sources, options) if how == "stream" or is_large else None
    schema = None if plan is None else plan.schema
    if plan is None or (how == "offline" and schema is None):
        table = load_table(sources, options)
        _check_dense(problem, table.plan.encoder)
        return EncodedTable(table, problem)
    # Several files of a table may have several delimiters.
    if schema is not None or len(data) == 1:
        reading = reading.with_delimiter(plan.delimiter, form)
    if schema is None:
        _check_dense(problem, plan.encoder)
        reader = table_reader(plan.encoder, data, form, reading, labelled=True)
        return Rows(reader, problem, plan)
    plan.encoder.compiled = True
    return Rows(open_data(data, schema, reading), problem, plan)


def _check_dense(problem: str, columns: Any) -> None:
    """Refuse sparse features for a metric, which has a number for each pair of them.

    `columns` are an encoder or a layout; None if the format of the data is sparse.
    """
    from pairlearn.tables.encoding import MOST_DENSE_FEATURES

    if problem != "metric" or not getattr(columns, "sparse", columns is None):
        return
    why = "--problem metric learns a number for each pair of features and takes dense ones; "
    if columns is None:
        raise click.UsageError(
            f"{why}rows of svmlight are sparse. Write them as CSV, Parquet or .npy, with a number "
            "for each feature."
        )
    raise click.UsageError(
        f"{why}these {columns.n_features} are sparse (over {MOST_DENSE_FEATURES}, or hashed, or of "
        "texts). Choose columns with --set reading.features=A,B, or leave some out with --exclude."
    )


def _with_schema(data: tuple[str, ...], reading: Reading, problem: str, form: str) -> Rows:
    """Return rows of data without named columns, or of a pipe."""
    schema = schema_of(reading)
    if problem != "auc":
        schema = _of_numbers(problem, schema, form)
    elif schema.classes is None:
        classes = find_classes(data, schema, reading)
        schema = replace(schema, classes=classes, label=_label(schema))
    if form == "svmlight":
        _check_dense(problem, None)
    reader = open_data(data, schema, reading)
    _check_dense(problem, getattr(reader, "layout", reader))
    return Rows(reader, problem, schema=schema)


def _label(schema: Schema) -> str | int:
    # An svmlight line starts with its label, which has no name.
    return "label" if schema.label is None else schema.label


def _of_numbers(problem: str, schema: Schema, form: str) -> Schema:
    """Return the schema for labels that are grades, targets or any number of classes."""
    if schema.classes is not None:
        raise click.UsageError(f"--classes is for --problem auc; labels of {problem} are numbers.")
    if schema.qid is not None and problem != "ranking":
        raise click.UsageError(f"--qid is for --problem ranking, not for {problem}.")
    if form == "svmlight":
        return replace(schema, label=_label(schema), qid="qid" if problem == "ranking" else None)
    if schema.label is None:
        raise click.UsageError("the label is needed; name its column with --label.")
    return schema


def with_columns(
    record: ModelRecord, data: EncodedTable | Rows, facts: Mapping[str, Any]
) -> ModelRecord:
    """Return the record with facts, names of features and classes, and how to read such data."""
    import numpy as np

    changed: dict[str, Any] = {
        "feature_names": data.feature_names,
        "provenance": {**record.provenance, **data.columns(), **facts},
    }
    # The fit itself finds numbers that are labels of many classes.
    labels = data.classes or (record.classes if data.problem == "classes" else None)
    if not labels:
        return replace(record, **changed)
    classes = np.array(labels)
    if classes.dtype.kind == "f" and (classes == np.rint(classes)).all():
        classes = classes.astype(np.int64)
    return replace(
        record,
        **changed,
        classes=classes.tolist(),
        parameters={**record.parameters, "classes_dtype": classes.dtype.str},
    )
