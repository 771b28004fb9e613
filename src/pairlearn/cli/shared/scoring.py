# SPDX-License-Identifier: BSD-3-Clause
"""The problems that the program solves, the data of a model, its scores, and how good they are."""

from __future__ import annotations

import contextlib
import importlib
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import click

from pairlearn.cli.shared.reading import (
    TABLES,
    Reading,
    format_of,
    open_data,
    schema_of,
    spelled,
    table_reader,
)
from pairlearn.cli.shared.settings import Settings, register_at, set_parts
from pairlearn.typing import Vector

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from pairlearn.streams.readers.base import Reader
    from pairlearn.streams.readers.schema import Schema
    from pairlearn.tables.encoding import TableEncoding

#: Parameters of estimators that are not settings, and the reason or the option to use.
OWNED = {
    "random_state": "use --seed.",
    "callbacks": "functions can be given in Python only.",
    "warm_start": "each run of the program trains a new model.",
    "progress": "functions can be given in Python only.",
}


@dataclass(frozen=True)
class ProblemKind:
    """One kind of problem by its name on the command line.

    The losses are `special` and those in the register `known`; `loss_parameter` takes the loss.
    `scorer` is the method that gives a result for each row, and `result` the name of that result.
    """

    name: str
    estimator: str
    known: str
    scorer: str
    result: str
    special: tuple[str, ...] = ()
    loss_parameter: str = "loss"

    @property
    def losses(self) -> tuple[str, ...]:
        """The names of the losses that the estimator takes."""
        return (*self.special, *(register_at(self.known) if self.known else ()))

    def make(self, settings: Settings, seed: int | None) -> Any:
        """Return an estimator with these settings, not fitted."""
        from pairlearn.cli.light_imports import import_scikit_learn

        import_scikit_learn()
        door = importlib.import_module("pairlearn.estimators")
        model = getattr(door, self.estimator)(random_state=seed)
        registers = {self.loss_parameter: register_at(self.known)} if self.known else {}
        return set_parts(model, settings, OWNED, registers)


PROBLEMS = {
    kind.name: kind
    for kind in (
        ProblemKind("auc", "AUCClassifier", "losses.LOSSES", "decision_function", "score",
                    ("auto",)),
        ProblemKind("classes", "AUCClassifier", "", "decision_function", "score",
                    ("auto", "square", "squared_hinge")),
        ProblemKind("ranking", "PairwiseRanker", "losses.LOSSES", "predict", "score"),
        ProblemKind("entropy", "EntropyRegressor", "losses.WINDOWS", "predict", "prediction",
                    loss_parameter="window"),
        ProblemKind("metric", "MetricLearner", "losses.METRIC_LOSSES", "transform", "z"),
    )
}  # fmt: skip


def kind_of(model: Any) -> ProblemKind:
    """Return the problem that a fitted model solves; AUC for all classifiers."""
    # A private estimator solves the problem of the public one.
    name = type(model).__name__.removeprefix("Private")
    kind = next((kind for kind in PROBLEMS.values() if kind.estimator == name), PROBLEMS["auc"])
    if hasattr(model, "score_samples") and not hasattr(model, "decision_function"):
        return replace(kind, scorer="score_samples")  # three grades or more
    return kind


def load_for_scoring(path: str) -> Any:
    """Return a model from its file, if it has a score for a row of data."""
    from pairlearn.cli.light_imports import import_scikit_learn
    from pairlearn.models import load_model

    import_scikit_learn()
    model = load_model(path)
    if hasattr(model, "players_"):
        raise click.ClickException(
            "the model holds ratings of players, which have no score for a row of data; "
            "`pairlearn rate` prints them, and load_model(path).predict_proba(a, b) predicts votes."
        )
    # many labels have a row of classes each, and some estimators other methods
    has_rows = getattr(getattr(model, "classes_", None), "ndim", 1) > 1
    if not hasattr(model, kind_of(model).scorer) or has_rows:
        raise click.ClickException(
            f"the model is a {type(model).__name__}, which the program does not score; in Python "
            "load_model(path) does."
        )
    return model


# ------------------------------------------------------------------------------- data of a model


def open_for_model(
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
    encoder = encoder_of(model)
    if encoder is not None:
        _check_encoded(encoder, data, reading, labelled=labelled)
        form = format_of(data, reading)
        return table_reader(
            encoder, data, form, reading, labelled=labelled, carry=keep, impute=impute
        )
    if keep or impute:
        option = f"--keep {','.join(keep)}" if keep else "--missing impute"
        raise click.UsageError(
            f"{option}: the model was not trained on a table of named columns; leave the option "
            "out."
        )
    return _open_schema(model, data, reading, labelled=labelled)


def encoder_of(model: Any) -> TableEncoding | None:
    """Return the encoder that a model was trained through, or None."""
    from pairlearn.models import ModelFileError
    from pairlearn.models.record import reason
    from pairlearn.tables.encoding import TableEncoding

    state = getattr(model, "provenance_", {}).get("table")
    if state is None:
        return None
    try:
        encoder = TableEncoding.from_state(state)
    except ValueError as error:
        raise ModelFileError(
            f"the model says nothing usable about its columns: {reason(error)}"
        ) from None
    width = int(model.n_features_in_)
    if encoder.n_features != width:
        raise ModelFileError(
            f"the model has {width} features and its columns give {encoder.n_features}; train it "
            "again."
        )
    return encoder


def _check_encoded(
    encoder: TableEncoding, data: Sequence[str], reading: Reading, *, labelled: bool
) -> None:
    """Refuse options that the model has settled; another label than the model's is put into it."""
    form = format_of(data, reading)
    if form not in TABLES:
        raise click.UsageError(
            f"the model was trained on named columns, and {data[0]} is {form}, which has none."
        )
    for option in ("features", "numeric", "date", "text", "categorical", "missing", "classes",
                   "qid", "single"):  # fmt: skip
        if getattr(reading, option):
            raise click.UsageError(
                f"{spelled(option)} was settled when the model was trained, and is stored in it; "
                "leave it out, or train again."
            )
    if reading.label is not None and encoder.label is not None:
        if labelled:
            encoder.label = replace(encoder.label, column=reading.label)
        elif reading.label != encoder.label.column:
            raise click.UsageError(
                f"--label {reading.label}: no label is read here, and that of the model is "
                f"{encoder.label.column!r}; leave the option out."
            )


def _open_schema(model: Any, data: Sequence[str], reading: Reading, *, labelled: bool) -> Reader:
    from pairlearn.streams.readers.base import ReadError
    from pairlearn.streams.readers.schema import Schema

    stored = getattr(model, "provenance_", {}).get("schema")
    base = Schema() if stored is None else _schema_from_plain(stored, labelled=labelled)
    schema = schema_of(reading, base)
    if labelled and schema.label is None and format_of(data, reading) != "svmlight":
        raise ReadError("the model does not say which column is the label; pass --label.")
    classes = getattr(model, "classes_", None)
    if stored is None and schema.classes is None and schema.label is not None:
        texts = [] if classes is None else classes.tolist()
        if texts and all(isinstance(text, str) for text in texts):
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


def _schema_from_plain(plain: Mapping[str, Any], *, labelled: bool) -> Schema:
    from pairlearn.models.record import reason
    from pairlearn.streams.readers.base import ReadError
    from pairlearn.streams.readers.schema import Schema

    try:
        values = dict(plain)
        if not labelled:
            values |= {"label": None, "qid": None, "classes": None}
        for name in ("features", "classes"):
            if values.get(name) is not None:
                values[name] = tuple(values[name])
        return Schema(**values)
    except TypeError as error:
        raise ReadError(
            f"the model says nothing usable about its columns ({reason(error)})."
        ) from None


def positive_code(model: Any, reader: Any) -> float:
    """Return the label that the reader delivers for the positive class."""
    return 1.0 if has_codes(reader) else float(model.classes_[1])


def has_codes(reader: Any) -> bool:
    """Return whether a reader delivers numbers of classes, not the labels themselves."""
    encoder = getattr(reader, "encoder", None)
    if encoder is None:
        return False
    return encoder.label is None or encoder.label.kind != "numbers"


# -------------------------------------------------------------------------------------- the scores


@dataclass(frozen=True)
class Scored:
    """The scores of a chunk."""

    lines: NDArray[np.int64]
    #: A number for each row, or a row of them (the image under a metric).
    scores: Vector
    y: Vector | None
    qid: NDArray[np.int64] | None
    X: Any
    #: The number of the file among the data.
    file: int = 0
    #: The texts of columns that are carried along.
    carried: Mapping[str, Sequence[str]] = field(default_factory=dict)


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
            chunk.lines, scores, chunk.y, chunk.qid, chunk.X, chunk.position.file,
            getattr(chunk, "carried", {}),
        )  # fmt: skip


def probabilities_of(model: Any, scored: Scored) -> Any:
    """Return the probabilities of the classes for the rows of a chunk."""
    with names_compared():
        return model.predict_proba(scored.X)


def measure(model: Any, chunks: list[Scored]) -> dict[str, Any]:
    """Return the measures of a model's problem by name, from labelled chunks that it has scored."""
    import numpy as np

    results = np.concatenate([chunk.scores for chunk in chunks])
    y = np.concatenate([chunk.y for chunk in chunks if chunk.y is not None])
    kind = kind_of(model).name
    if kind == "entropy":
        return _errors(model, y - results)
    if kind == "metric":
        return _distances(results, y)
    from pairlearn.metrics.ranking import ndcg, pair_accuracy

    queries = [chunk.qid for chunk in chunks if chunk.qid is not None]
    qid = np.concatenate(queries) if queries else None
    values: dict[str, Any] = {"pair_accuracy": pair_accuracy(y, results, qid=qid)}
    if qid is not None and y.min() >= 0:
        name = "ndcg" if model.k is None else f"ndcg@{model.k}"
        values[name] = ndcg(y, results, qid=qid, k=model.k, gain=model.gain)
        values["queries"] = len(set(qid.tolist()))
    return values


def _errors(model: Any, errors: Vector) -> dict[str, Any]:
    import numpy as np

    from pairlearn.metrics.entropy import error_entropy

    values: dict[str, Any] = {
        "median_absolute_error": float(np.median(np.abs(errors))),
        "mean_absolute_error": float(np.abs(errors).mean()),
        "root_mean_squared_error": float(np.sqrt(np.mean(errors**2))),
    }
    # A private regression descends with several windows, and none is its own.
    bandwidth = getattr(model, "bandwidth_", np.inf)
    if np.isfinite(bandwidth):
        window = "epanechnikov" if model.window == "epanechnikov" else "gaussian"
        values["error_entropy"] = error_entropy(errors, bandwidth, window=window)
        values["bandwidth"] = bandwidth
    return values


def _distances(images: Vector, y: Vector) -> dict[str, Any]:
    """Return how often a pair of one label is nearer than a pair of two (each row is in two)."""
    import numpy as np

    from pairlearn.metrics.auc import roc_auc

    order = np.random.default_rng(0).permutation(len(y))
    other = np.roll(order, 1)
    similar = y[order] == y[other]
    if similar.all() or not similar.any():
        raise ValueError("the data have no pairs of both kinds, of one label and of two.")
    nearness = -((images[order] - images[other]) ** 2).sum(axis=1)
    return {"pair_auc": roc_auc(similar, nearness), "similar_pairs": int(similar.sum())}
