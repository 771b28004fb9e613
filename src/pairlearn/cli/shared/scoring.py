# SPDX-License-Identifier: BSD-3-Clause
"""Scores of new data by a model, for predict and evaluate."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import click

from pairlearn.cli.shared.problem_kinds import kind_of
from pairlearn.cli.shared.reading import Reading, format_of, open_data, schema_from_plain, schema_of
from pairlearn.typing import Vector

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from pairlearn.streams.readers.base import Reader


_NO_COLUMNS = "the model was not trained on a table of named columns; leave the option out."


@dataclass(frozen=True)
class Scored:
    """The scores of a chunk."""

    lines: NDArray[np.int64]
    #: A number for each row, or a row of them (the image under a metric).
    scores: Vector
    y: Vector | None
    qid: NDArray[np.int64] | None
    X: Any
    #: Bytes or rows read so far.
    done: int
    #: The texts of columns that are carried along.
    carried: Mapping[str, Sequence[str]] = field(default_factory=dict)


def open_for(
    model: Any,
    data: Sequence[str],
    reading: Reading,
    *,
    labelled: bool,
    keep: Sequence[str] | None = (),
    impute: bool = False,
) -> Reader:
    """Return a reader that delivers the model's features, and labels if they are asked for.

    `keep` names columns to carry along; None means the ids that training left out. With `impute`
    columns that the data lack count as missing.
    """
    from pairlearn.cli.shared.table_files import encoder_of, open_encoded
    from pairlearn.streams.readers.base import ReadError
    from pairlearn.streams.readers.schema import Schema

    if hasattr(model, "players_"):
        raise ReadError(
            "the model holds ratings of players, which have no score for a row of data; "
            "`pairlearn rate` prints them, and load_model(path).predict_proba(a, b) predicts votes."
        )
    # many labels have a row of classes each, and some estimators other methods
    has_rows = getattr(getattr(model, "classes_", None), "ndim", 1) > 1
    if not hasattr(model, kind_of(model).scorer) or has_rows:
        raise ReadError(
            f"the model is a {type(model).__name__}, which the program does not score; in Python "
            "load_model(path) does."
        )
    encoder = encoder_of(model)
    if encoder is not None:
        return open_encoded(encoder, data, reading, labelled=labelled, keep=keep, impute=impute)
    if keep:
        raise click.UsageError(f"--keep {','.join(keep)}: {_NO_COLUMNS}")
    if impute:
        raise click.UsageError(f"--missing impute: {_NO_COLUMNS}")
    stored = getattr(model, "provenance_", {}).get("schema")
    base = Schema() if stored is None else schema_from_plain(stored, labelled=labelled)
    schema = schema_of(reading, base)
    if labelled and schema.label is None and format_of(data, reading) != "svmlight":
        raise ReadError("the model does not say which column is the label; pass --label.")
    known = getattr(model, "classes_", None)
    if stored is None and schema.classes is None and schema.label is not None:
        texts = [] if known is None else known.tolist()
        if texts and all(isinstance(one, str) for one in texts):
            schema = replace(schema, classes=tuple(texts))
    width = int(model.n_features_in_)
    reader = open_data(data, schema, reading, n_features=width)
    if reader.n_features != width:
        raise ReadError(
            f"{data[0]} gives {reader.n_features} features and the model has {width}; "
            "pass --set reading.features=A,B (and --label, if there is one) as in training."
        )
    names = getattr(model, "feature_names_in_", None)
    if names is not None and reader.feature_names is not None:
        for mine, theirs in zip(names.tolist(), reader.feature_names, strict=True):
            if mine != theirs:
                raise ReadError(
                    f"{data[0]} has the feature {theirs!r} where the model has {mine!r}; "
                    "pass --set reading.features=A,B in the order of training."
                )
    return reader


@contextlib.contextmanager
def names_compared() -> Iterator[None]:
    """Silence the warning about missing names: the columns were compared before."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X does not have valid feature names")
        yield


def score_chunks(model: Any, reader: Reader) -> Iterator[Scored]:
    """Yield the scores, predictions or images of each chunk, by the problem of the model."""
    score = getattr(model, kind_of(model).scorer)
    for chunk in reader:
        with names_compared():
            scores = score(chunk.X)
        yield Scored(
            chunk.lines, scores, chunk.y, chunk.qid, chunk.X, reader.bytes_read,
            getattr(chunk, "carried", {}),
        )  # fmt: skip


def probabilities_of(model: Any, scored: Scored) -> Any:
    """Return the probabilities of the classes for the rows of a chunk."""
    with names_compared():
        return model.predict_proba(scored.X)


def odd_lines(reader: Reader) -> list[str]:
    """Return sentences about the columns and fields of a table that were taken as missing."""
    from pairlearn.streams.readers.schema import listed

    lacking = getattr(reader, "lacking", {})
    lines = [
        f"{source} has no column {listed(names)}: taken as missing"
        for source, names in lacking.items()
    ]
    lines += getattr(reader, "strange", ())
    odd = getattr(reader, "odd", None)
    # a column that is lacking is told once, not row by row
    return lines if odd is None else [*lines, *odd.lines()]
