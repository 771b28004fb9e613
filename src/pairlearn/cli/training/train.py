# SPDX-License-Identifier: BSD-3-Clause
"""``pairlearn train``: a file of any size to a model."""

from __future__ import annotations

import contextlib
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pairlearn.cli.output import emit, json_option
from pairlearn.cli.shared.config import config_option
from pairlearn.cli.shared.names import Named
from pairlearn.cli.shared.problem_kinds import PROBLEMS
from pairlearn.cli.shared.reading import (
    Reading,
    column_options,
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
from pairlearn.cli.shared.scoring import odd_lines
from pairlearn.cli.shared.table_files import (
    TABLES,
    decided_lines,
    decided_values,
    sources_of,
    table_options,
    text_size,
)
from pairlearn.cli.stopping import Stopping
from pairlearn.cli.training.cluster_training import refuse_beside_dask, train_on_cluster
from pairlearn.cli.training.private_training import (
    PrivateOptions,
    private_options,
    refuse_beside_private,
    train_privately,
)
from pairlearn.progress import Progress, format_count

if TYPE_CHECKING:
    from pairlearn.models import ModelRecord
    from pairlearn.streams.readers.base import Reader
    from pairlearn.streams.readers.schema import Schema
    from pairlearn.tables.fitting import FittedTable, Plan

__all__ = ["command"]

#: Bytes of text up to which data are read into memory, and from which the compiled reader is worth
#: the time that it takes to load.
_IN_MEMORY, _COMPILED = 500e6, 8e6
#: Options that only a stream has, with their defaults.
_STREAM_ONLY: dict[str, Any] = {
    "window": 10_000, "forget": None, "checkpoint": None, "every": 250_000, "fresh": False,
    "shuffle-buffer": "auto",
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class _Data:
    """What is trained on: a table in memory, or a reader; and what is known of its columns."""

    reader: Reader | None = None
    table: FittedTable | None = None
    plan: Plan | None = None
    schema: Schema | None = None
    problem: str = "auc"

    @property
    def classes(self) -> tuple[Any, ...]:
        """The classes as the model names them; none for other problems."""
        if self.schema is not None:
            return tuple(self.schema.classes or ())
        assert self.plan is not None
        label = self.plan.encoder.label
        return label.values if label is not None and label.kind in self._coded else ()

    @property
    def _coded(self) -> tuple[str, ...]:
        """Kinds of labels whose codes the model learns, to be named at the end."""
        return ("classes", "groups") if self.problem == "classes" else ("classes",)

    @property
    def codes(self) -> tuple[float, ...] | None:
        """What the reader delivers for the classes."""
        if self.schema is not None and not self.schema.text_labels:
            return self.schema.classes  # type: ignore[return-value]
        return (0.0, 1.0) if self.classes else None


@click.command("train")
@data_argument
@click.option("-o", "--output", type=click.Path(dir_okay=False),
              help="Model file to write; by default NAME.safetensors in this folder.")  # fmt: skip
@click.option("--problem", type=click.Choice(list(PROBLEMS)), default="auc", show_default=True,
              help="auc: order two classes; classes: tell any number apart; ranking: order grades, "
                   "within queries; entropy: robust regression; metric: distances by "
                   "label.")  # fmt: skip
@click.option("--loss", type=Named("losses.LOSSES", "losses.WINDOWS", "losses.METRIC_LOSSES",
                                   also=["auto"]),
              help="Pair loss; by default auto (auc, classes), gaussian (entropy) or hinge. "
                   "Those that suit a problem are listed if one does not.")  # fmt: skip
@click.option("--step-size", default="auto", show_default=True, metavar="NUMBER|auto",
              help="Scale of the steps.")  # fmt: skip
@click.option("--radius", default="auto", show_default=True, metavar="NUMBER|auto",
              help="Radius of the ball the coefficients live in.")  # fmt: skip
@click.option("--feature-map", type=Named("features.MAPS", also=["auto"]),
              default="linear", show_default=True,
              help="hats: a curve of each feature; fourier: curves of all together; auto: the "
                   "simplest that is as good, by held-out AUC.")  # fmt: skip
@click.option("--fit", "how", type=click.Choice(["auto", "stream", "offline"]), default="auto",
              show_default=True,
              help="offline: in memory; stream: example after example, of any number; auto: "
                   "in memory up to 500 MB of text.")  # fmt: skip
@click.option("--passes", type=click.IntRange(1), metavar="N",
              help="Passes over the data (stream: 1; offline: chosen).")  # fmt: skip
@click.option("--shuffle-buffer", default="auto", show_default=True, metavar="ROWS|auto",
              help="Shuffle so many rows at a time; 0: the order of the file, which auto keeps "
                   "for standard input and with --forget.")  # fmt: skip
@click.option("--seed", type=int, default=0, show_default=True, help="Source of randomness.")
@click.option("--window", type=click.IntRange(2), default=10_000, show_default=True,
              help="Examples that the running AUC of a stream looks back on.")  # fmt: skip
@click.option("--forget", metavar="N|drop",
              help="Start the average anew every N examples, or when the AUC drops.")  # fmt: skip
@click.option("--checkpoint", type=click.Path(dir_okay=False), metavar="FILE",
              help="Where to keep the state on the way; by default beside the model.")  # fmt: skip
@click.option("--every", type=click.IntRange(1), default=250_000, show_default=True,
              metavar="ROWS", help="Rows between two checkpoints.")  # fmt: skip
@click.option("--fresh", is_flag=True, help="Do not go on from a checkpoint.")
@click.option("--dry-run", is_flag=True, help="Show what the columns are taken for, and stop.")
@click.option("--dask", metavar="local|ADDRESS",
              help="Train on a Dask cluster, on Parquet files of numbers that its workers can "
                   "read.")  # fmt: skip
@private_options(bounds=True)
@config_option
@column_options
@reading_options
@json_option
def command(
    data: tuple[str, ...],
    reading: Reading,
    privacy: PrivateOptions,
    output: str | None,
    problem: str,
    loss: str | None,
    step_size: str,
    radius: str,
    feature_map: str,
    how: str,
    passes: int | None,
    shuffle_buffer: str,
    seed: int,
    window: int,
    forget: str | None,
    checkpoint: str | None,
    every: int,
    fresh: bool,
    dry_run: bool,
    dask: str | None,
    as_json: bool,
) -> None:
    r"""Train a model on files of any size.

    Of a table (CSV, Parquet, Arrow) the program finds out what each column is: a number, a
    category, yes or no, a date, a text, an id or a constant; it fills gaps, prints what it has
    decided, and stores that in the model, so that predict and evaluate do the same. Data that fit
    in memory are fitted there, and the AUC on held-out rows is printed; larger ones are read in
    chunks as a stream. A stream that is interrupted, even by kill -9, goes on from its checkpoint
    when the same command is given again, and ends with the same model, bit for bit.

    \b
    Examples:
      pairlearn train customers.csv --label churned
      pairlearn train customers.csv --label churned --feature-map auto
      pairlearn train customers.csv --label churned --dry-run --exclude notes --categorical zip
      pairlearn train clicks.csv.gz --label target --fit stream -o model.safetensors
      pairlearn train a.svm b.svm --loss logistic --passes 3 -o model.safetensors
      pairlearn train iris.csv --label species --problem classes
      pairlearn train letor.svm --problem ranking -o ranker.safetensors
      pairlearn train prices.csv --problem entropy --label price
      pairlearn train 'folder/*.parquet' --label clicked --dask local
      pairlearn train patients.csv --private --epsilon 1 --delta 1e-6 --bounds bounds.toml
    """
    if privacy.private:
        refuse_beside_private("data", "output", "as_json", "feature_map")
        emit(*train_privately(data, output, privacy, feature_map), as_json=as_json)
        return
    if dask is not None:
        refuse_beside_dask(problem)
        PROBLEMS[problem].check(loss)
        # Of a pattern the folder has the name.
        named = data if Path(data[0]).exists() else (f"{Path(data[0]).resolve().parent.name}.x",)
        where = _output_of(output, named)
        emit(*train_on_cluster(data, where, dask, reading, loss, seed), as_json=as_json)
        return
    sizes = number_or_auto("--step-size", step_size), number_or_auto("--radius", radius)
    kind = PROBLEMS[problem].check(loss)
    stream_only = {"window": window, "forget": _forget(forget), "checkpoint": checkpoint,
                   "every": every, "fresh": fresh,
                   "shuffle-buffer": shuffle_buffer}  # fmt: skip
    form = format_of(data, reading)
    how = _how(how, data, form, {k: v for k, v in stream_only.items() if v != _STREAM_ONLY[k]})
    kind.check_features(feature_map, is_stream=how == "stream")
    if problem == "classes" and how == "stream":
        raise click.UsageError(
            "--problem classes is fitted in memory; pass --fit offline, without options of a "
            "stream."
        )
    if dry_run:
        _show_plan(data, reading, problem, form, as_json)
        return
    output = _output_of(output, data)
    begin = time.perf_counter()
    found = _opened(data, reading, problem, form, how)
    path = _checkpoint_of(output, checkpoint, data) if how == "stream" else None
    if found.plan is not None and not as_json:
        rows = None if found.table is None else len(found.table.y)
        click.echo("\n".join([*decided_lines(found.plan, rows), ""]))
    model = kind.make(loss, *sizes, seed, feature_map)
    from pairlearn.models import write_model

    # From the end of the data on a signal waits: the model is written, the checkpoint removed.
    with Stopping() as stop, _held(path):
        if how == "offline":
            try:
                with stop.opened():
                    record, facts = _offline(model, found, passes, seed)
            except KeyboardInterrupt:
                click.echo("pairlearn: interrupted; nothing was written", err=True)
                raise click.exceptions.Exit(stop.status) from None
        else:
            assert found.reader is not None
            keeps = "-" in data or forget is not None
            reader = _shuffled(found.reader, shuffle_buffer, seed, keeps=keeps)
            record, facts = _train_online(
                model, found, reader, passes, window=window, forget=stream_only["forget"],
                every=every, fresh=fresh, path=path, total=size_of(data), stop=stop,
            )  # fmt: skip
        seconds = time.perf_counter() - begin
        write_model(output, _finished(record, found))
        if path is not None:
            _forget_checkpoint(path)
    refusals, odd = _refused(found)
    n_features = int(model.n_features_in_)
    values: dict[str, Any] = {
        "model": output,
        "problem": problem,
        "fit": how,
        "rows": facts["rows"],
        "refused": refusals.count,
        "first_refused": [str(refusal) for refusal in refusals.first],
        "n_features": n_features,
        "classes": list(found.classes),
        "auc": None,
        "auc_of": None,
        "seconds": round(seconds, 3),
        **{name: value for name, value in facts.items() if name != "lines"},
        "columns": None if found.plan is None else decided_values(found.plan),
        "taken_as_missing": odd,
    }
    last = f"{output}: {format_count(facts['rows'])} rows, {n_features} features"
    if facts.get("auc_of") == "progressive":
        last += f", progressive AUC {facts['auc']:.4f}"
    emit(values, "\n".join([*facts.get("lines", ()), last]), as_json=as_json)
    if not as_json:
        for message in [*([str(refusals)] if refusals.count else []), *odd]:
            click.echo(f"pairlearn: {message}", err=True)


def _how(how: str, data: tuple[str, ...], form: str, given: dict[str, Any]) -> str:
    """Return whether the data are fitted in memory or as a stream."""
    option = f"--{next(iter(given))}" if given else ""
    if how == "offline" and given:
        raise click.UsageError(f"{option} is for a stream; leave it out, or pass --fit stream.")
    if how != "auto":
        return how
    if given or (form not in TABLES and "-" in data):
        return "stream"
    size = text_size(sources_of(data, form))
    if size <= _IN_MEMORY or "-" in data:
        return "offline"
    click.echo(f"pairlearn: {data[0]} is large; it is learned as a stream (--fit offline fits it "
               "in memory)", err=True)  # fmt: skip
    return "stream"


def _output_of(output: str | None, data: tuple[str, ...]) -> str:
    """Return where the model goes: by default into this folder, under the name of the data."""
    if output is not None:
        folder = Path(output).resolve().parent
        if not folder.is_dir():
            raise click.UsageError(f"the folder {folder} does not exist; make it first.")
        return output
    if data[0] == "-":
        raise click.UsageError("standard input has no name; name the model with -o.")
    path = Path(data[0])
    stem = path.name
    while Path(stem).suffix in (".gz", ".xz", ".bz2", ".zst"):
        stem = Path(stem).stem
    output = f"{Path(stem).stem or stem}.safetensors"
    if Path(output).exists():
        from pairlearn.models import ModelFileError, read_model

        try:
            read_model(output, allow_unregistered=True)
        except ModelFileError:
            raise click.UsageError(
                f"{output} exists and is no model; name the model with -o."
            ) from None
    return output


def _show_plan(
    data: tuple[str, ...], reading: Reading, problem: str, form: str, as_json: bool
) -> None:
    """Print what the columns are taken for."""
    from pairlearn.tables.fitting import plan_table

    if form not in TABLES:
        raise click.UsageError(f"--dry-run shows the columns of a table, and {form} has none.")
    plan = plan_table(sources_of(data, form), table_options(data, reading, problem))
    emit({"columns": decided_values(plan)}, "\n".join(decided_lines(plan, None)), as_json=as_json)


def _opened(data: tuple[str, ...], reading: Reading, problem: str, form: str, how: str) -> _Data:
    """Return the data: a table in memory, or a reader."""
    if form not in TABLES or (how == "stream" and "-" in data):
        return _Data(**_with_schema(data, reading, problem, form), problem=problem)
    from pairlearn.tables.fitting import load_table, plan_table
    from pairlearn.tables.reader import TableReader

    options = table_options(data, reading, problem)
    sources = sources_of(data, form)
    if how == "offline" and ("-" in data or text_size(sources) <= _COMPILED):
        table = load_table(sources, options)
        return _Data(table=table, plan=table.plan, problem=problem)
    plan = plan_table(sources, options)
    # the compiled readers take the first line for different names, and queries for numbers
    schema = None
    if plan.numeric_queries and plan.plain_header:
        schema = plan.encoder.as_schema(classes=True)
    if schema is not None:
        reading = replace(reading, delimiter=plan.delimiter if form == "csv" else None)
        reader = open_data(data, schema, reading)
        return _Data(reader=reader, plan=plan, schema=schema, problem=problem)
    if how == "offline":
        table = load_table(sources, options)
        return _Data(table=table, plan=table.plan, problem=problem)
    reader = TableReader(
        sources, plan.encoder, format=form, labelled=True, header=reading.header,
        delimiter=plan.delimiter, strict=reading.strict,
    )  # fmt: skip
    return _Data(reader=reader, plan=plan, problem=problem)


def _with_schema(
    data: tuple[str, ...], reading: Reading, problem: str, form: str
) -> dict[str, Any]:
    """Return a reader of data without named columns, or of a pipe, and its schema."""
    for option in ("exclude", "numeric", "date", "text"):
        if getattr(reading, option):
            raise click.UsageError(f"--{option} is for tables in files; leave it out here.")
    schema = schema_of(reading)
    if problem != "auc":
        schema = _of_numbers(problem, schema, form)
    elif schema.classes is None:
        classes = find_classes(data, schema, reading)
        schema = replace(schema, classes=classes, label=_label(schema))
    return {"reader": open_data(data, schema, reading), "schema": schema}


def _refused(found: _Data) -> tuple[Any, list[str]]:
    """Return the rows that were refused, and sentences about fields that were taken as missing."""
    if found.table is not None:
        return found.table.refusals, found.table.odd.lines()
    assert found.reader is not None
    return found.reader.refusals, odd_lines(found.reader)


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


def _shuffled(reader: Reader, rows: str, seed: int, *, keeps: bool) -> Reader:
    """Return the reader with its rows in a random order within blocks, if that is asked for."""
    from pairlearn.streams.readers.shuffled import ShuffledReader

    if rows != "auto" and (not rows.isdigit() or rows == "1"):
        raise click.BadParameter(
            f'--shuffle-buffer must be a number of rows, 0 or "auto", got {rows!r}.'
        )
    if rows == "0" or (rows == "auto" and keeps):
        return reader
    size: int | str = rows if rows == "auto" else int(rows)
    return ShuffledReader(reader, buffer_rows=size, seed=abs(seed))


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
    found: _Data,
    reader: Reader,
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
    from pairlearn.streams.checkpoint import CheckpointWarning
    from pairlearn.streams.online import OnlineLearner

    learner = OnlineLearner(model, classes=found.codes, window=window, forget=forget)
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
    facts: dict[str, Any] = {"rows": learner.n_seen}
    if learner.auc is not None:
        facts |= {"auc": learner.auc, "auc_of": "progressive"}
    return model.to_record(learner.provenance()), facts


def _show(message: Any, *_: Any, **__: Any) -> None:
    click.echo(f"pairlearn: warning: {message}", err=True)


def _drawer(bar: Progress, total: int | None) -> Callable[[Any, Any], None]:
    def draw(learner: Any, chunk: Any) -> None:
        auc = learner.auc
        done = chunk.position.offset if total is not None else None
        bar.update(learner.n_seen, done=done, note="" if auc is None else f"AUC {auc:.4f}")

    return draw


def _offline(
    model: Any, found: _Data, passes: int | None, seed: int
) -> tuple[ModelRecord, dict[str, Any]]:
    from pairlearn.cli.training.fitted import facts_of_fit

    X, y, qid, n_refused = _in_memory(found)
    if passes is not None:
        solver = "sgd" if model.solver == "auto" else model.solver
        model.set_params(solver=solver, solver__n_passes=passes)
    with warnings.catch_warnings():
        warnings.showwarning = _show
        warnings.simplefilter("always")
        model.fit(X, y, **({} if qid is None else {"qid": qid}))
    encoder = None if found.plan is None or found.schema is not None else found.plan.encoder
    names = encoder.feature_names if encoder else getattr(found.reader, "feature_names", None)
    facts = facts_of_fit(model, X, y, names=names, encoder=encoder, seed=seed, qid=qid)
    return model.to_record({"rows_refused": n_refused}), facts


def _in_memory(found: _Data) -> tuple[Any, Any, Any, int]:
    """Return examples, labels, queries and the number of rows that were refused."""
    import numpy as np

    if found.table is not None:
        table = found.table
        return table.X, table.y, table.qid, table.refusals.count
    from scipy import sparse

    assert found.reader is not None
    chunks = list(found.reader)
    X: Any = [chunk.X for chunk in chunks]
    X = sparse.vstack(X, format="csr") if sparse.issparse(X[0]) else np.concatenate(X)
    y = np.concatenate([chunk.y for chunk in chunks if chunk.y is not None])
    queries = [chunk.qid for chunk in chunks if chunk.qid is not None]
    qid = np.concatenate(queries) if queries else None
    return X, y, qid, found.reader.refusals.count


def _finished(record: ModelRecord, found: _Data) -> ModelRecord:
    """Add what is known of the columns: names of features and classes, and how to read again."""
    import numpy as np

    if found.schema is None:
        assert found.plan is not None
        known: dict[str, Any] = {"table": found.plan.encoder.state()}
        names: Any = found.plan.encoder.feature_names
    else:
        assert found.reader is not None
        layout = getattr(found.reader, "layout", None)
        columns = None
        if layout is not None:
            used = {*layout.numbers, *layout.categories}
            order = sorted(used, key=layout.first.__getitem__)
            columns = [layout.names[j] for j in order]
        known = {"schema": schema_to_plain(found.schema, columns)}
        names = found.reader.feature_names
    record = replace(record, feature_names=names, provenance={**record.provenance, **known})
    # Numbers as labels of many classes are as the fit found them.
    labels = found.classes or (record.classes if found.problem == "classes" else None)
    if not labels:
        return record
    classes = np.array(labels)
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
