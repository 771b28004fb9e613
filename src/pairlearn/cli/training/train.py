# SPDX-License-Identifier: BSD-3-Clause
"""``pairlearn train``: a file of any size to a model."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pairlearn.atomic import is_written_directly
from pairlearn.cli.output import emit, json_option, show_warning
from pairlearn.cli.shared.config import config_option
from pairlearn.cli.shared.names import Named
from pairlearn.cli.shared.paths import BESIDE_CHECKPOINT, FilePath, announce, force_option
from pairlearn.cli.shared.problem_kinds import PROBLEMS
from pairlearn.cli.shared.reading import (
    Reading,
    data_argument,
    format_of,
    size_of,
    sources_of,
    training_options,
)
from pairlearn.cli.shared.settings import Settings, build, naming
from pairlearn.cli.shared.table_files import (
    TABLES,
    decided_lines,
    decided_values,
    table_options,
    text_size,
)
from pairlearn.cli.stopping import Stopping, held
from pairlearn.cli.training.cluster_training import refuse_beside_dask, train_on_cluster
from pairlearn.cli.training.model_kinds import (
    FEATURES,
    MODELS,
    ModelKind,
    chosen,
    fit_stack,
    make_stack,
    planned,
    stored,
    suited,
)
from pairlearn.cli.training.private_training import (
    PrivateOptions,
    private_options,
    refuse_beside_private,
    train_privately,
)
from pairlearn.cli.training.stream_training import (
    StreamSettings,
    checkpoint_of,
    remove_checkpoint,
    train_stream,
)
from pairlearn.cli.training.training_data import (
    EncodedTable,
    Rows,
    open_training_data,
    with_columns,
)
from pairlearn.progress import format_count

if TYPE_CHECKING:
    from pairlearn.models import ModelRecord

#: Data of at most this many bytes of text are read into memory.
_IN_MEMORY = 500e6


@dataclass(frozen=True)
class Options:
    """What the command line says."""

    data: tuple[str, ...]
    reading: Reading
    privacy: PrivateOptions
    settings: Settings
    output: str | None
    problem: str
    model: str
    loss: str | None
    objective: str | None
    feature_map: str | None
    decision: str | None
    how: str
    seed: int
    dry_run: bool
    dask: str | None
    as_json: bool

    def parts(self) -> Settings:
        """Return the settings of the estimator, those that have an option of their own too."""
        kind = PROBLEMS[self.problem].check(self.loss)
        found = Settings(self.settings.without("stream"))
        found.named(kind.loss_parameter, self.loss, f"--loss {self.loss}")
        found.named("objective", self.objective, f"--objective {self.objective}")
        found.named("features", self.feature_map, f"--feature-map {self.feature_map}")
        found.named("features", FEATURES.get(self.model), f"--model {self.model}")
        found.named("decision", self.decision, f"--decision {self.decision}")
        return found

    def stream(self) -> StreamSettings:
        """Return the settings of a stream."""
        own = self.settings.under("stream")
        if "" in own:
            names = ", ".join(StreamSettings.__dataclass_fields__)
            raise own[""].refuse(f"stream itself has no value; it has the settings {names}.")
        found: StreamSettings = build("stream", StreamSettings(), own)
        return found

    def recorded(self) -> dict[str, Any]:
        """Return the settings that the model file holds: those that the model depends on."""
        practical = [f"stream.{name}" for name in StreamSettings.practical]
        plain = {k: v for k, v in self.settings.plain().items() if k not in practical}
        return {"set": plain} if plain else {}


@click.command("train")
@data_argument
@click.option("-o", "--output", type=FilePath("write", "model"),
              help="Model file to write; by default NAME.safetensors in this folder.")  # fmt: skip
@force_option
@click.option("--problem", type=click.Choice(list(PROBLEMS)), default="auc", show_default=True,
              help="auc: order two classes; classes: tell any number apart; ranking: order grades, "
                   "within queries; entropy: robust regression; metric: distances by "
                   "label.")  # fmt: skip
@click.option("--model", type=click.Choice(MODELS), default="auto", show_default=True,
              help="Kind of model. linear; curves: one for each feature; trees: boosted; stack: "
                   "linear, boosted trees and a forest, weighed; auto: the simplest within a "
                   "standard error of the best, by held-out AUC.")  # fmt: skip
@click.option("--loss", type=Named("losses.LOSSES", "losses.WINDOWS", "losses.METRIC_LOSSES",
                                   also=["auto"]),
              help="Pair loss; by default auto (auc, classes), gaussian (entropy) or "
                   "hinge.")  # fmt: skip
@click.option("--objective", metavar="NAME",
              help="What to be good at: auc (the default), partial_auc, push, "
                   "average_precision.")  # fmt: skip
@click.option("--feature-map", type=Named("features.MAPS", also=["auto"]), hidden=True,
              help="The same as --set features=NAME: linear, hats, fourier, or auto.")  # fmt: skip
@click.option("--decision", metavar="NAME|NUMBER",
              help="Where to cut the scores: balanced_accuracy (the default), accuracy, f1, "
                   "probability, or a threshold.")  # fmt: skip
@click.option("--fit", "how", type=click.Choice(["auto", "stream", "offline"]), default="auto",
              show_default=True,
              help="offline: in memory; stream: in chunks, for data of any size; auto: in memory "
                   "up to 500 MB of text.")  # fmt: skip
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True,
              help="Source of randomness.")  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Show what the columns are taken for, and stop.")
@click.option("--dask", metavar="local|ADDRESS",
              help="Train on a Dask cluster, on Parquet files of numbers that its workers can "
                   "read.")  # fmt: skip
@private_options(needs_bounds=True)
@config_option
@training_options
@json_option
def command(**given: Any) -> None:
    r"""Train a model on files of any size.

    The program finds out what each column of a table (CSV, Parquet, Arrow) is: a number, a
    category, yes or no, a date, a text, an id or a constant. It fills gaps, prints what it has
    decided, and stores that in the model, so that predict and evaluate do the same. Data that fit
    in memory are fitted there, and the AUC on held-out rows is printed. Four kinds of models are
    compared, and the simplest that is as good is kept (--model names one). Larger data are read in
    chunks as a stream, by a linear model. A stream that is interrupted, even by kill -9, goes on
    from its checkpoint when the same command is given again, and ends with the same model, bit for
    bit.

    DATA may be a DuckDB database: --query "SELECT ..." then says which rows to take.

    --set changes a setting of a part. `solver=sgd` names a part, `solver.step_size=0.1` sets one of
    its fields. Parts are the parameters of the estimator in Python (objective, features, loss,
    solver, decision, ...), reading (how to read the data) and stream (how --fit stream goes through
    them). A wrong path is answered with the paths that there are.

    \b
    Examples:
      pairlearn train customers.csv --label churned
      pairlearn train customers.csv --label churned --model linear
      pairlearn train customers.csv --label churned --dry-run --exclude notes --categorical zip
      pairlearn train customers.csv --label churned --objective push --set objective.power=4
      pairlearn train clicks.csv.gz --label target --fit stream -o model.safetensors
      pairlearn train a.svm b.svm --loss logistic --set solver.n_passes=3 -o model.safetensors
      pairlearn train shop.duckdb --query "SELECT age, visits, bought FROM visitors" --label bought
      pairlearn train iris.csv --label species --problem classes
      pairlearn train letor.svm --problem ranking -o ranker.safetensors
      pairlearn train prices.csv --problem entropy --label price
      pairlearn train 'folder/*.parquet' --label clicked --dask local
      pairlearn train patients.csv --private --epsilon 1 --delta 1e-6 --bounds bounds.toml
    """
    options = Options(**given)
    for setting in options.settings.under("stream").values():
        if options.privacy.private or options.dask is not None:
            way = "--private" if options.privacy.private else "--dask"
            raise setting.refuse(f"{way} does not learn a stream; leave it out.")
    if options.privacy.private:
        refuse_beside_private("data", "output", "as_json", "model", "feature_map", "settings")
        kind = ModelKind(options.model).without("--private trains no trees")
        output = options.output or f"{Path(options.data[0]).stem}.safetensors"
        if is_written_directly(Path(output)):
            raise click.UsageError(
                f"-o {output} is no file, and the certificate of a private model lies beside it; "
                "name a file."
            )
        announce("write", output, "-o", kind="model")
        announce("write", f"{output}.certificate.json", "the certificate", kind="certificate")
        result = train_privately(
            options.data, output, options.privacy, options.reading, options.parts()
        )
        emit(*_with_kind(kind, *result), as_json=options.as_json)
    elif options.dask is not None:
        refuse_beside_dask(options.problem, options.reading)
        kind = ModelKind(options.model).without("--dask trains no trees")
        emit(*_with_kind(kind, *_on_cluster(options)), as_json=options.as_json)
    else:
        _train(options)


def _with_kind(kind: ModelKind, values: dict[str, Any], text: str) -> tuple[dict[str, Any], str]:
    """Return a result as values and as text, with the kind of the model."""
    return values | kind.facts(), "\n".join(filter(None, [kind.line, text]))


def _on_cluster(options: Options) -> tuple[dict[str, Any], str]:
    """Train on a cluster."""
    output = _output_of(options.output, _names_on_cluster(options.data))
    return train_on_cluster(
        options.data, output, str(options.dask), options.reading, options.parts(), options.seed,
        options.recorded(),
    )  # fmt: skip


def _names_on_cluster(data: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names of the data; a pattern of files has the name of its folder."""
    return data if Path(data[0]).exists() else (f"{Path(data[0]).resolve().parent.name}.x",)


def _train(options: Options) -> None:
    """Train on this machine: check, read, fit, write, tell."""
    parts, stream = options.parts(), options.stream()
    form = format_of(options.data, options.reading)
    how = _how(options, form)
    _check(options, parts, how)
    kind = planned(options.model, options.problem, parts, how=how)
    # A look needs no name for a model; one that is given is checked.
    nameless = options.dry_run and options.output is None
    output = "" if nameless else _output_of(options.output, options.data)
    begin = time.perf_counter()
    if kind.name in ("auto", *FEATURES):
        model = PROBLEMS[options.problem].make(parts, options.seed)
    else:
        model = make_stack(kind.name, parts, options.seed)
    if options.dry_run:
        _show_plan(options, form)
        return
    path = checkpoint_of(stream, output, options.data) if how == "stream" else None
    if path is not None:
        said = "the checkpoint" if stream.checkpoint is None else "--set stream.checkpoint"
        announce("keep", path, said, kind="checkpoint" * stream.fresh, beside=BESIDE_CHECKPOINT)
    found = open_training_data(options.data, options.reading, options.problem, form, how)
    if found.plan is not None and not options.as_json:
        click.echo("\n".join([*decided_lines(found.plan, found.n_rows), ""]))
    from pairlearn.models import write_model

    # A signal after the end of the data waits until the model is written and the checkpoint gone.
    with Stopping() as stop, held(path), naming(parts):
        if isinstance(found, Rows) and how == "stream":
            record, facts = train_stream(
                model, found, stream, seed=options.seed, keeps_order="-" in options.data,
                path=path, size=size_of(options.data), stop=stop,
            )  # fmt: skip
            facts |= {"n_features": int(model.n_features_in_), "model_line": kind.line}
            facts |= kind.facts()
        else:
            record, facts = _offline(model, kind, found, options.seed, stop)
        seconds = time.perf_counter() - begin
        record = with_columns(record, found, {**options.recorded(), "model": stored(facts)})
        write_model(output, record)
        remove_checkpoint(path)
    values = {"model": output, "problem": options.problem, "fit": how, "rows": facts["rows"]}
    _tell(values, facts, found, seconds, as_json=options.as_json)


def _check(options: Options, parts: Settings, how: str) -> None:
    """Refuse settings that the way of training cannot honour."""
    is_stream = how == "stream"
    if "features" in parts:
        PROBLEMS[options.problem].check_features(parts["features"].text, is_stream=is_stream)
    if options.problem == "classes" and is_stream:
        raise click.UsageError(
            "--problem classes is fitted in memory; pass --fit offline, without settings of a "
            "stream."
        )
    if options.reading.query is not None and is_stream and options.stream().n_passes > 1:
        raise click.UsageError(
            "--query is asked once, since its rows may be others the next time; leave "
            "stream.n_passes out, or store the result in a Parquet file."
        )
    for path, setting in parts.items():
        if is_stream and path.rpartition(".")[2] == "n_passes":
            raise setting.refuse("a stream has stream.n_passes; use --set stream.n_passes.")
        if path == "class_weight" and isinstance(setting.value, dict):
            raise setting.refuse(
                'the program takes "balanced" or null; weights of named classes are for Python, '
                "AUCClassifier(class_weight={...})."
            )


def _tell(
    values: dict[str, Any],
    facts: dict[str, Any],
    found: EncodedTable | Rows,
    seconds: float,
    *,
    as_json: bool,
) -> None:
    """Print the result, and on standard error what was refused."""
    refusals, odd = found.refused()
    values |= {
        "refused": refusals.count,
        "first_refused": [str(refusal) for refusal in refusals.first],
        "classes": list(found.classes),
        "auc": None,
        "auc_of": None,
        "seconds": round(seconds, 3),
        **{k: value for k, value in facts.items() if k not in ("lines", "model_line")},
        "columns": decided_values(found.plan) if as_json and found.plan is not None else None,
        "taken_as_missing": odd,
    }
    d = facts["n_features"]
    last = f"{values['model']}: {format_count(facts['rows'])} rows, {d} feature{'s' * (d != 1)}"
    if facts.get("auc_of") == "progressive":
        last += f", progressive AUC {facts['auc']:.4f}"
    lines = filter(None, [facts["model_line"], *facts.get("lines", ()), last])
    emit(values, "\n".join(lines), as_json=as_json)
    if not as_json:
        for message in [*([str(refusals)] if refusals.count else []), *odd]:
            click.echo(f"pairlearn: {message}", err=True)


def _how(options: Options, form: str) -> str:
    """Return "offline" for data to be fitted in memory, else "stream"."""
    data, given = options.data, list(options.settings.under("stream").values())
    if options.how == "offline" and given:
        raise given[0].refuse("this is for a stream; leave it out, or pass --fit stream.")
    if options.how != "auto":
        return options.how
    if given or (form not in TABLES and "-" in data):
        return "stream"
    size = text_size(sources_of(data, form, options.reading.query))
    if size <= _IN_MEMORY or "-" in data:
        return "offline"
    click.echo(f"pairlearn: {data[0]} is large; it is learned as a stream (--fit offline fits it "
               "in memory)", err=True)  # fmt: skip
    return "stream"


def _output_of(output: str | None, data: tuple[str, ...]) -> str:
    """Return the model file: by default in this folder, with the name of the data."""
    if output is not None:
        return output
    if data[0] == "-":
        raise click.UsageError("standard input has no name; name the model with -o.")
    path = Path(data[0])
    stem = path.name
    while Path(stem).suffix in (".gz", ".xz", ".bz2", ".zst"):
        stem = Path(stem).stem
    output = f"{Path(stem).stem or stem}.safetensors"
    announce("write", output, "-o", kind="model")
    return output


def _show_plan(options: Options, form: str) -> None:
    """Print what the columns are taken for."""
    from pairlearn.tables.fitting import plan_table

    if form not in TABLES:
        raise click.UsageError(f"--dry-run shows the columns of a table, and {form} has none.")
    how = table_options(options.data, options.reading, options.problem)
    plan = plan_table(sources_of(options.data, form, options.reading.query), how)
    if options.as_json:
        emit({"columns": decided_values(plan)}, "", as_json=True)
    else:
        click.echo("\n".join(decided_lines(plan, None)))


def _offline(
    model: Any, kind: ModelKind, found: EncodedTable | Rows, seed: int, stop: Stopping
) -> tuple[ModelRecord, dict[str, Any]]:
    """Fit in memory; return the model's record and the facts to print."""
    from pairlearn.cli.training.fitted import facts_of_fit

    try:
        with stop.opened():
            X, y, qid = found.examples()
            kind = suited(kind, X, y)
            about = kind.facts() | {"model_line": kind.line}
            n_refused = found.refused()[0].count
            with warnings.catch_warnings():
                warnings.showwarning = show_warning
                warnings.simplefilter("always")
                # The solver keeps the model so far; the program does not.
                warnings.filterwarnings("ignore", "Interrupted after")
                if kind.name == "auto":
                    model, about = chosen(model, X, y, seed, stop)
                elif kind.name not in FEATURES:
                    fit_stack(model, X, y, stop)
                else:
                    model.fit(X, y, **({} if qid is None else {"qid": qid}))
            if stop.received is not None:
                raise KeyboardInterrupt
            facts = facts_of_fit(model, X, y, names=found.feature_names, encoder=found.encoder,
                                 seed=seed, qid=qid)  # fmt: skip
            if stop.received is not None:
                raise KeyboardInterrupt
            facts |= {"n_features": int(model.n_features_in_), **about}
            known = {"rows_refused": n_refused, **_origin(model, X, y)}
            return model.to_record(known), facts
    except KeyboardInterrupt:
        click.echo("pairlearn: interrupted; nothing was written", err=True)
        raise click.exceptions.Exit(stop.status) from None


def _origin(model: Any, X: Any, y: Any) -> dict[str, Any]:
    """Return what `evaluate` knows the examples again by, of an estimator that keeps none of it."""
    import numpy as np

    from pairlearn.models import data_fingerprint

    if hasattr(model, "data_fingerprint_"):
        return {}
    fingerprint = data_fingerprint(X, np.asarray(y, dtype=np.float64))
    return {"rows_seen": len(y), "data_fingerprint": fingerprint}
