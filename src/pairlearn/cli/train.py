# SPDX-License-Identifier: BSD-3-Clause
"""``pairlearn train``: a file of any size to a model."""

from __future__ import annotations

import contextlib
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pairlearn.cli.output import emit, json_option
from pairlearn.cli.problem_kinds import PROBLEMS
from pairlearn.cli.reading import (
    Reading,
    data_argument,
    find_classes,
    format_of,
    number_or_auto,
    open_data,
    reading_options,
    schema_of,
    schema_to_plain,
    size_of,
)
from pairlearn.cli.stopping import Stopping
from pairlearn.progress import Progress, format_count

if TYPE_CHECKING:
    from pairlearn.models import ModelRecord
    from pairlearn.streams import Reader, Schema

__all__ = ["command"]

_LOSSES = tuple(dict.fromkeys(loss for kind in PROBLEMS.values() for loss in kind.losses))


@click.command("train")
@data_argument
@click.option("-o", "--output", required=True, type=click.Path(dir_okay=False),
              help="Model file to write, by custom NAME.safetensors.")  # fmt: skip
@click.option("--problem", type=click.Choice(list(PROBLEMS)), default="auc", show_default=True,
              help="auc: order two classes; ranking: order grades, within queries; entropy: "
                   "robust regression; metric: distances by label.")  # fmt: skip
@click.option("--loss", type=click.Choice(_LOSSES), metavar="NAME",
              help="Pair loss (auto; entropy: gaussian; else hinge), see above.")  # fmt: skip
@click.option("--step-size", default="auto", show_default=True, metavar="NUMBER|auto",
              help="Scale of the steps.")  # fmt: skip
@click.option("--radius", default="auto", show_default=True, metavar="NUMBER|auto",
              help="Radius of the ball the coefficients live in.")  # fmt: skip
@click.option("--fit", "how", type=click.Choice(["stream", "offline"]), default="stream",
              show_default=True,
              help="stream: example after example, of any number; offline: in memory.")  # fmt: skip
@click.option("--passes", type=click.IntRange(1), metavar="N",
              help="Passes over the data (stream: 1; offline: chosen).")  # fmt: skip
@click.option("--seed", type=int, default=0, show_default=True, help="Source of randomness.")
@click.option("--window", type=click.IntRange(2), default=10_000, show_default=True,
              help="Examples that the running AUC looks back on.")  # fmt: skip
@click.option("--forget", metavar="N|drop",
              help="Start the average anew every N examples, or when the AUC drops.")  # fmt: skip
@click.option("--checkpoint", type=click.Path(dir_okay=False), metavar="FILE",
              help="Where to keep the state on the way; by default beside the model.")  # fmt: skip
@click.option("--every", type=click.IntRange(1), default=250_000, show_default=True,
              metavar="ROWS", help="Rows between two checkpoints.")  # fmt: skip
@click.option("--fresh", is_flag=True, help="Do not go on from a checkpoint.")
@reading_options
@json_option
def command(
    data: tuple[str, ...],
    reading: Reading,
    output: str,
    problem: str,
    loss: str | None,
    step_size: str,
    radius: str,
    how: str,
    passes: int | None,
    seed: int,
    window: int,
    forget: str | None,
    checkpoint: str | None,
    every: int,
    fresh: bool,
    as_json: bool,
) -> None:
    r"""Train a model on files of any size.

    Files are read in chunks and need not fit into memory. A run that is interrupted, even by
    kill -9, goes on from its checkpoint when the same command is given again, and ends with the
    same model, bit for bit.

    \b
    Losses by problem:
      auc, ranking   hinge, squared_hinge, square, logistic, exponential, loglink, smoothed_hinge;
                     auc also auto: hinge, or squared_hinge where the exact solver is taken
      entropy        gaussian, epanechnikov
      metric         hinge, hinge_no_bias, logistic

    \b
    Examples:
      pairlearn train clicks.csv.gz --label target -o model.safetensors
      pairlearn train a.svm b.svm --loss logistic --passes 3 -o model.safetensors
      pairlearn train t.parquet --label y --categorical city:1024 --missing 0 -o m.safetensors
      pairlearn train small.csv --label y --classes no,yes --fit offline -o m.safetensors
      pairlearn train letor.svm --problem ranking -o ranker.safetensors
      pairlearn train prices.csv --problem entropy --label price -o m.safetensors
    """
    model = PROBLEMS[problem].make(
        loss, number_or_auto("--step-size", step_size), number_or_auto("--radius", radius), seed
    )
    folder = Path(output).resolve().parent
    if not folder.is_dir():
        raise click.UsageError(f"the folder {folder} does not exist; make it first.")
    schema = schema_of(reading)
    if problem != "auc":
        schema = _of_numbers(problem, schema, format_of(data, reading))
    elif schema.classes is None:
        classes = find_classes(data, schema, reading)
        schema = replace(schema, classes=classes, label=_label(schema))
    reader = open_data(data, schema, reading)
    begin = time.perf_counter()
    path = _checkpoint_of(output, checkpoint, data) if how == "stream" else None
    from pairlearn.models import write_model

    # From the end of the data on a signal waits: the model is written, the checkpoint removed.
    with Stopping() as stop, _held(path):
        if how == "offline":
            with stop.opened():
                record, facts = _offline(model, reader, passes)
        else:
            record, facts = _train_online(
                model, reader, schema, passes, window=window, forget=_forget(forget), every=every,
                fresh=fresh, path=path, total=size_of(data), stop=stop,
            )  # fmt: skip
        seconds = time.perf_counter() - begin
        write_model(output, _finished(record, reader, schema))
        if path is not None:
            _forget_checkpoint(path)
    refusals = reader.refusals
    values: dict[str, Any] = {
        "model": output,
        "problem": problem,
        "rows": facts["rows"],
        "refused": refusals.count,
        "first_refused": [str(refusal) for refusal in refusals.first],
        "n_features": reader.n_features,
        "classes": list(schema.classes or ()),
        "auc": facts["auc"],
        "auc_of": facts["auc_of"],
        "seconds": round(seconds, 3),
    }
    auc = "" if facts["auc"] is None else f", {facts['auc_of']} AUC {facts['auc']:.4f}"
    emit(values, f"{output}: {format_count(facts['rows'])} rows, {reader.n_features} features{auc}",
         as_json=as_json)  # fmt: skip
    if refusals.count and not as_json:
        click.echo(f"pairlearn: {refusals}", err=True)


def _label(schema: Schema) -> str | int:
    # svmlight lines start with their label, which has no name
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


def _forget(text: str | None) -> int | str | None:
    if text is None or text == "drop":
        return text
    if not text.isdigit():
        raise click.BadParameter(f'--forget must be a number of rows or "drop", got {text!r}.')
    return int(text)


def _checkpoint_of(output: str, checkpoint: str | None, data: tuple[str, ...]) -> str | None:
    """Return where the state is kept.

    Standard input cannot be read again, and beside a device or a pipe no file belongs: there is no
    checkpoint then, unless the user names a place.
    """
    from pairlearn.atomic import is_written_directly

    if checkpoint is None and ("-" in data or is_written_directly(Path(output))):
        return None
    return checkpoint or f"{output}.checkpoint"


def _held(path: str | None) -> contextlib.AbstractContextManager[None]:
    """Keep other processes from the checkpoint until it is removed."""
    if path is None:
        return contextlib.nullcontext()
    from pairlearn.streams.checkpoint import hold_checkpoint

    return hold_checkpoint(path)


def _train_online(
    model: Any,
    reader: Reader,
    schema: Schema,
    passes: int | None,
    *,
    window: int,
    forget: int | str | None,
    every: int,
    fresh: bool,
    path: str | None,
    total: int | None,
    stop: Stopping,
) -> tuple[ModelRecord, dict[str, Any]]:
    from pairlearn import OrderWarning
    from pairlearn.streams import CheckpointWarning, OnlineLearner

    codes = (0.0, 1.0) if schema.text_labels else schema.classes
    learner = OnlineLearner(model, classes=codes, window=window, forget=forget)
    if path is not None and not fresh and Path(path).exists():
        click.echo(f"pairlearn: going on from {path} (--fresh starts again)", err=True)
    n_passes = passes or 1
    total = total if n_passes == 1 else None
    try:
        with (
            stop.opened(),
            Progress(total, label="training") as bar,
            warnings.catch_warnings(),
        ):
            warnings.showwarning = _show
            for category in (CheckpointWarning, OrderWarning):
                warnings.simplefilter("always", category)
            learner.fit_stream(
                reader, checkpoint=path, every=every, n_passes=n_passes, resume=not fresh,
                progress=_drawer(bar, total) if bar.visible else None,
            )  # fmt: skip
    except KeyboardInterrupt:
        where = "" if path is None else f"; the same command goes on from {path}"
        click.echo(f"pairlearn: interrupted after {learner.n_seen} rows{where}", err=True)
        raise click.exceptions.Exit(stop.status) from None
    facts = {"rows": learner.n_seen, "auc": learner.auc, "auc_of": "progressive"}
    return model.to_record(learner.provenance()), facts


def _show(message: Any, *_: Any, **__: Any) -> None:
    click.echo(f"pairlearn: warning: {message}", err=True)


def _drawer(bar: Progress, total: int | None) -> Callable[[Any, Any], None]:
    def draw(learner: Any, chunk: Any) -> None:
        auc = learner.auc
        done = chunk.position.offset if total is not None else None
        bar.update(learner.n_seen, done=done, note="" if auc is None else f"AUC {auc:.4f}")

    return draw


def _offline(model: Any, reader: Reader, passes: int | None) -> tuple[ModelRecord, dict[str, Any]]:
    import numpy as np
    from scipy import sparse

    chunks = list(reader)
    X: Any = [chunk.X for chunk in chunks]
    X = sparse.vstack(X, format="csr") if sparse.issparse(X[0]) else np.concatenate(X)
    y = np.concatenate([chunk.y for chunk in chunks if chunk.y is not None])
    queries = [chunk.qid for chunk in chunks if chunk.qid is not None]
    if passes is not None:
        model.set_params(n_passes=passes)
    with warnings.catch_warnings():
        warnings.showwarning = _show
        warnings.simplefilter("always")
        model.fit(X, y, **({"qid": np.concatenate(queries)} if queries else {}))
    auc = getattr(model, "held_out_auc_", None)
    facts = {"rows": len(y), "auc": auc, "auc_of": "held-out"}
    return model.to_record({"rows_refused": reader.refusals.count}), facts


def _finished(record: ModelRecord, reader: Reader, schema: Schema) -> ModelRecord:
    """Add what the reader knows: names of features and of classes, and how to read again."""
    import numpy as np

    layout = getattr(reader, "layout", None)
    columns = None
    if layout is not None:
        used = {*layout.numbers, *layout.categories}
        order = sorted(used, key=layout.first.__getitem__)
        columns = [layout.names[j] for j in order]
    record = replace(
        record,
        feature_names=reader.feature_names,
        provenance={**record.provenance, "schema": schema_to_plain(schema, columns)},
    )
    if schema.classes is None:
        return record
    classes = np.array(schema.classes)
    if classes.dtype.kind == "f" and (classes == np.rint(classes)).all():
        classes = classes.astype(np.int64)
    return replace(
        record,
        classes=classes.tolist(),
        parameters={**record.parameters, "classes_dtype": classes.dtype.str},
    )


def _forget_checkpoint(path: str) -> None:
    from pairlearn.atomic import previous_of

    for name in (Path(path).resolve(), previous_of(path)):
        name.unlink(missing_ok=True)
