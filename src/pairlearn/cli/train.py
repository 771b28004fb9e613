# SPDX-License-Identifier: BSD-3-Clause
"""``pairlearn train``: read the table, choose the kind of model, fit, save, report."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pairlearn.cli.private.options import PrivateOptions, private_options
from pairlearn.cli.running import show_warning, stop
from pairlearn.cli.shared.files import OutputPath, check_output
from pairlearn.cli.shared.output import emit, json_option, safe_lines, tell
from pairlearn.cli.shared.reading import (
    TABLES,
    Reading,
    TrainingRows,
    data_argument,
    format_of,
    open_training_rows,
    sources_of,
    table_options,
    text_size,
    training_options,
)
from pairlearn.cli.shared.scoring import OWNED, PROBLEMS
from pairlearn.cli.shared.settings import (
    Named,
    Settings,
    build,
    config_option,
    naming,
    register_at,
    set_parts,
)
from pairlearn.progress import Progress, format_count

if TYPE_CHECKING:
    from pairlearn.cli.train_stream import StreamSettings
    from pairlearn.models import ModelRecord

#: Data of at most this many bytes of text are read into memory.
_IN_MEMORY = 500e6
#: Problems whose estimators learn no stream.
_NO_STREAM = ("classes", "entropy", "metric")
#: The values of ``--model``, and what it sets where the estimator has feature maps.
_MODELS = ("auto", "linear", "curves", "trees", "stack")
_FEATURES = {"linear": "linear", "curves": "hats"}
#: Settings that all kinds have; others are of one kind.
_OF_ALL = ("decision", "class_weight", "n_jobs")
#: Parameters of stacks that are not settings.
_STACK_OWNED = {**OWNED, "members": "use --model trees or --model stack; others in Python."}


@click.command("train")
@data_argument
@click.option("-o", "--output", type=OutputPath(),
              help="Model file to write; by default NAME.safetensors in this folder.")  # fmt: skip
@click.option("--problem", type=click.Choice(list(PROBLEMS)), default="auc", show_default=True,
              help="auc: order two classes; classes: tell any number apart; ranking: order grades, "
                   "within queries; entropy: robust regression; metric: distances by "
                   "label.")  # fmt: skip
@click.option("--model", type=click.Choice(_MODELS), default="auto", show_default=True,
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
@private_options(needs_bounds=True)
@config_option
@training_options
@json_option
def command(
    data: tuple[str, ...], reading: Reading, settings: Settings, privacy: PrivateOptions,
    output: str | None, problem: str, model: str, loss: str | None, objective: str | None,
    feature_map: str | None, decision: str | None, how: str, seed: int, dry_run: bool,
    as_json: bool,
) -> None:  # fmt: skip
    r"""Train a model on files of any size.

    The program finds out what each column of a table (CSV, Parquet, Arrow) is: a number, a
    category, yes or no, a date, a text, an id or a constant. It fills gaps, prints what it has
    decided, and stores that in the model, so that predict and evaluate do the same. Data that fit
    in memory are fitted there, and the AUC on held-out rows is printed. Four kinds of models are
    compared, and the simplest that is as good is kept (--model names one). Larger data are read in
    chunks as a stream, by a linear model. A stream that is interrupted, even by kill -9, goes on
    from its checkpoint when the same command is given again.

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
      pairlearn train patients.csv --private --epsilon 1 --delta 1e-6 --bounds bounds.toml
    """
    parts = Settings(settings.without("stream"))
    loss_parameter = _loss_parameter(problem, loss)
    for path, value, typed in (
        (loss_parameter, loss, f"--loss {loss}"),
        ("objective", objective, f"--objective {objective}"),
        ("features", feature_map, f"--feature-map {feature_map}"),
        ("features", _FEATURES.get(model), f"--model {model}"),
        ("decision", decision, f"--decision {decision}"),
    ):
        parts.add(path, value, typed)
    of_stream = settings.under("stream")
    if privacy.private:
        from pairlearn.cli.private.commands import train_privately

        for setting in of_stream.values():
            raise setting.refuse("--private does not learn a stream; leave it out.")
        kind, why = _or_linear(model, "--private trains no trees")
        values, text = train_privately(data, output, privacy, reading, parts)
        values |= {"model_kind": kind, "model_reason": why or None}
        emit(values, "\n".join([*_kind_lines(kind, why), text]), as_json=as_json)
        return
    form = format_of(data, reading)
    how = _how(data, reading, problem, of_stream, how, form)
    stream = _stream_settings(of_stream) if how == "stream" else None
    _check(problem, reading, parts, stream)
    kind, why = _planned_kind(model, problem, parts, how)
    estimator = _estimator(kind, problem, parts, seed)
    if dry_run:
        _show_plan(data, reading, problem, form, as_json)
        return
    output = output or _output_of(data)
    stored = {"set": plain} if (plain := _lasting(settings)) else {}
    with stop.held(), naming(parts):
        _train(
            estimator, (kind, why), data, reading, problem, form, stream, output, stored, seed,
            as_json,
        )  # fmt: skip


def _train(
    estimator: Any, kind: tuple[str, str], data: tuple[str, ...], reading: Reading, problem: str,
    form: str, stream: StreamSettings | None, output: str, stored: dict[str, Any], seed: int,
    as_json: bool,
) -> None:  # fmt: skip
    """Read, fit, write, tell. A signal after the end of the data waits until the model is there."""
    from pairlearn.cli.fit_report import decided_lines, decided_values
    from pairlearn.models import write_model

    begin = time.perf_counter()
    with stop.open():
        rows = open_training_rows(data, reading, problem, form, is_stream=stream is not None)
    if rows.plan is not None and not as_json:
        n_rows = None if rows.table is None else len(rows.table.y)
        click.echo(safe_lines([*decided_lines(rows.plan, n_rows), ""]))
    if stream is None:
        record, facts, lines = _fit(estimator, kind, rows, seed)
    else:
        from pairlearn.cli.train_stream import checkpoint_of, remove_checkpoint, train_stream

        checkpoint = checkpoint_of(stream, output, data)
        shuffles = "-" not in data
        record, facts = train_stream(
            estimator, rows, stream, seed=seed, shuffles=shuffles, path=checkpoint
        )
        lines = _kind_lines(*kind)
        facts |= {"model_kind": kind[0], "model_reason": kind[1] or None}
        facts["n_features"] = int(estimator.n_features_in_)
    write_model(output, _with_columns(record, rows, {**stored, "model": _about(facts)}))
    if stream is not None:
        remove_checkpoint(checkpoint)
    refusals, odd = rows.refused()
    values = {
        "model": output, "problem": problem, "fit": "offline" if stream is None else "stream",
        "rows": facts["rows"], "refused": refusals.count,
        "first_refused": [str(refusal) for refusal in refusals.first],
        "classes": list(rows.classes), "auc": None, "auc_of": None,
        "seconds": round(time.perf_counter() - begin, 3), **facts,
        "columns": decided_values(rows.plan) if as_json and rows.plan is not None else None,
        "taken_as_missing": odd,
    }  # fmt: skip
    d = facts["n_features"]
    last = f"{output}: {format_count(facts['rows'])} rows, {d} feature{'s' * (d != 1)}"
    if facts.get("auc_of") == "progressive":
        last += f", progressive AUC {facts['auc']:.4f}"
    emit(values, safe_lines([*lines, last]), as_json=as_json)
    if not as_json:
        tell(*([str(refusals)] if refusals.count else []), *odd)


def _fit(
    model: Any, kind: tuple[str, str], rows: TrainingRows, seed: int
) -> tuple[ModelRecord, dict[str, Any], list[str]]:
    """Fit in memory; return the model's record, facts about it, and lines that tell them."""
    from pairlearn.cli.fit_report import facts_of_fit, spans_of

    try:
        with stop.open(), warnings.catch_warnings():
            X, y, qid = rows.examples()
            n_refused = rows.refused()[0].count
            warnings.showwarning = show_warning
            warnings.simplefilter("always")
            # The solver keeps the model so far; the program does not.
            warnings.filterwarnings("ignore", "Interrupted after")
            name, why = _suited(kind, X, y)
            about: dict[str, Any] = {"model_kind": name, "model_reason": why or None}
            lines = _kind_lines(name, why)
            if name == "auto":
                model, about, lines = _chosen(model, X, y, seed)
            elif name not in _FEATURES:
                n_members = 1 if isinstance(model.members, list) else 3
                # A forest has held-out scores without further trainings.
                with _told(n_members + model.n_folds * min(n_members, 2), "training") as told:
                    model.fit_told(X, y, told=told)
            else:
                model.fit(X, y, **({} if qid is None else {"qid": qid}))
            stop.check()
            spans = spans_of(X.shape[1], rows.feature_names, rows.encoder)
            facts, found = facts_of_fit(model, X, y, qid, seed, spans)
            stop.check()
            record = model.to_record({"rows_refused": n_refused, **_origin(model, X, y)})
    except KeyboardInterrupt:
        tell("interrupted; nothing was written")
        raise click.exceptions.Exit(stop.status) from None
    facts = {"rows": len(y), **facts, "n_features": int(model.n_features_in_), **about}
    return record, facts, [*lines, *found]


# --------------------------------------------------------------------------------- kinds of models


def _planned_kind(model: str, problem: str, parts: Settings, how: str) -> tuple[str, str]:
    """Return the kind to train and why; "auto" is chosen on the data."""
    if problem != "auc":
        return _or_linear(model, f"trees and stacks are for --problem auc, not {problem}")
    if how != "offline":
        return _or_linear(model, "trees and stacks are trained in memory, with --fit offline")
    for root in parts.without(*_OF_ALL).roots() if model == "auto" else ():
        typed = next(iter(parts.under(root).values())).typed
        if root == "features":
            return "linear", f"in the features of {typed}"
        return "linear", f"{typed} is a setting of this kind alone"
    return model, ""


def _or_linear(model: str, reason: str) -> tuple[str, str]:
    """Return linear in place of "auto", for a reason; refuse other kinds that were asked for."""
    if model == "auto":
        return "linear", reason
    if model in _FEATURES:
        return model, ""
    raise click.UsageError(f"--model {model}: {reason}; leave it out, or pass --model linear.")


def _suited(kind: tuple[str, str], X: Any, y: Any) -> tuple[str, str]:
    """Return the kind, or linear in place of "auto" if the examples allow nothing else."""
    if kind[0] in _FEATURES:
        return kind
    from pairlearn.estimators.stack.choice import why_linear

    reason = why_linear(X, y)
    # Few rows are no reason to refuse what was asked for: the estimator says what it needs.
    alone = reason and (kind[0] == "auto" or hasattr(X, "nnz"))
    return _or_linear(kind[0], reason) if alone else kind


def _estimator(kind: str, problem: str, parts: Settings, seed: int) -> Any:
    from pairlearn.cli.light_imports import import_scikit_learn

    import_scikit_learn()
    from pairlearn.estimators.shared.decisions import as_rule

    if kind in ("auto", *_FEATURES):
        model = PROBLEMS[problem].make(parts, seed)
    else:
        from pairlearn.estimators.stack.choice import make_model

        model = set_parts(make_model(kind, seed), parts, _STACK_OWNED)
    if "decision" in parts:
        try:
            as_rule(model.decision)
        except (TypeError, ValueError) as error:
            raise parts["decision"].refuse(error) from None
    return model


def _chosen(model: Any, X: Any, y: Any, seed: int) -> tuple[Any, dict[str, Any], list[str]]:
    """Return the model that "auto" takes, fitted, and the evidence as facts and as lines.

    `model` is linear and has the settings of the user, all of which other kinds have too.
    """
    from pairlearn.estimators.stack.choice import N_TRAININGS, choose_model

    settings = {name: model.get_params(deep=False)[name] for name in _OF_ALL}
    with _told(N_TRAININGS + 1, "choosing a model") as told:
        choice, fitted = choose_model(X, y, seed=seed, settings=settings, told=told)
    some = "" if choice.n_rows == len(y) else f", judged on {format_count(choice.n_rows)} rows"
    about = {"model_kind": choice.kind, "model_reason": f"held-out AUC: {choice.line}",
             "model_auc": choice.aucs}  # fmt: skip
    return fitted, about, [f"model: held-out AUC {choice.line} (the simplest within a standard "
                           f"error of the best{some})"]  # fmt: skip


@contextmanager
def _told(total: int, label: str) -> Iterator[Callable[[str], None]]:
    """Yield what draws a bar when a training ends, and ends the block after a signal."""
    n_done = 0
    with Progress(total, label=label, unit="trainings") as bar:

        def told(name: str) -> None:
            nonlocal n_done
            stop.check()  # a solver keeps its model so far when a signal comes
            n_done += 1
            bar.update(min(n_done, total), note=name)

        yield told


def _kind_lines(kind: str, why: str) -> list[str]:
    return [f"model: {kind} ({why})"] if why else []


def _about(facts: dict[str, Any]) -> dict[str, Any]:
    """Return what the model file holds for people: its kind and why, how good, what matters."""
    about: dict[str, Any] = {"kind": facts["model_kind"]}
    if facts.get("model_auc"):
        about["held_out_auc"] = facts["model_auc"]
    if "auc" in facts:
        about["auc"] = {name: facts[name] for name in ("auc", "low", "high") if name in facts}
        about["auc_of"] = facts["auc_of"]
    if facts.get("importance"):
        about["importance"] = {one["column"]: one["share"] for one in facts["importance"]}
    return about


# ------------------------------------------------------------------------------------- the options


def _loss_parameter(problem: str, loss: str | None) -> str:
    kind = PROBLEMS[problem]
    if loss is not None and loss not in kind.losses:
        raise click.BadParameter(
            f"--loss {loss} is not for --problem {kind.name}; take one of {', '.join(kind.losses)}."
        )
    return kind.loss_parameter


def _stream_settings(own: Settings) -> StreamSettings:
    from pairlearn.cli.train_stream import StreamSettings

    if "" in own:
        names = ", ".join(StreamSettings.__dataclass_fields__)
        raise own[""].refuse(f"stream itself has no value; it has the settings {names}.")
    settings: StreamSettings = build("stream", StreamSettings(), own)
    return settings


def _lasting(settings: Settings) -> dict[str, str]:
    from pairlearn.cli.train_stream import StreamSettings

    practical = [f"stream.{name}" for name in StreamSettings.practical]
    return {path: text for path, text in settings.plain().items() if path not in practical}


def _check(problem: str, reading: Reading, parts: Settings, stream: StreamSettings | None) -> None:
    features = parts["features"].text if "features" in parts else "linear"
    if features == "auto" and problem != "auc":
        raise click.BadParameter(
            f"--feature-map auto is not for --problem {problem}; take one of "
            f"{', '.join(register_at('features.MAPS'))}."
        )
    if stream is not None:
        if problem in _NO_STREAM:
            raise click.UsageError(
                f"--problem {problem} is fitted in memory; pass --fit offline, without settings of "
                "a stream."
            )
        if features != "linear" and problem != "auc":
            raise click.BadParameter(
                f"--feature-map {features} of a stream is for --problem auc; pass --fit offline."
            )
        if reading.query is not None and stream.n_passes > 1:
            raise click.UsageError(
                "--query is asked once, since its rows may be others the next time; leave "
                "stream.n_passes out, or store the result in a Parquet file."
            )
    for path, setting in parts.items():
        if stream is not None and path.rpartition(".")[2] == "n_passes":
            raise setting.refuse("a stream has stream.n_passes; use --set stream.n_passes.")
        if path == "class_weight" and isinstance(setting.value, dict):
            raise setting.refuse(
                'the program takes "balanced" or null; weights of named classes are for Python, '
                "AUCClassifier(class_weight={...})."
            )


def _how(
    data: tuple[str, ...], reading: Reading, problem: str, of_stream: Settings, how: str, form: str
) -> str:
    """Return "offline" for data to be fitted in memory, else "stream"."""
    settings = list(of_stream.values())
    if how == "offline" and settings:
        raise settings[0].refuse("this is for a stream; leave it out, or pass --fit stream.")
    if how != "auto":
        return how
    if settings or (form not in TABLES and "-" in data):
        return "stream"
    is_small = "-" in data or text_size(sources_of(data, form, reading.query)) <= _IN_MEMORY
    if is_small or problem in _NO_STREAM:
        return "offline"
    tell(f"{data[0]} is large; it is learned as a stream (--fit offline fits it in memory)")
    return "stream"


def _output_of(data: tuple[str, ...]) -> str:
    if data[0] == "-":
        raise click.UsageError("standard input has no name; name the model with -o.")
    stem = Path(data[0]).name
    while Path(stem).suffix in (".gz", ".xz", ".bz2", ".zst"):
        stem = Path(stem).stem
    output = f"{Path(stem).stem or stem}.safetensors"
    check_output(output, "-o")
    return output


def _show_plan(
    data: tuple[str, ...], reading: Reading, problem: str, form: str, as_json: bool
) -> None:
    from pairlearn.cli.fit_report import decided_lines, decided_values
    from pairlearn.tables.fitting import plan_table

    if form not in TABLES:
        raise click.UsageError(f"--dry-run shows the columns of a table, and {form} has none.")
    sources = sources_of(data, form, reading.query)
    plan = plan_table(sources, table_options(data, reading, problem))
    emit({"columns": decided_values(plan)}, safe_lines(decided_lines(plan, None)), as_json=as_json)


# ----------------------------------------------------------------------------------- the model file


def _origin(model: Any, X: Any, y: Any) -> dict[str, Any]:
    """Return what `evaluate` knows the examples again by, of an estimator that keeps none of it."""
    import numpy as np

    from pairlearn.models import data_fingerprint

    if hasattr(model, "data_fingerprint_"):
        return {}
    fingerprint = data_fingerprint(X, np.asarray(y, dtype=np.float64))
    return {"rows_seen": len(y), "data_fingerprint": fingerprint}


def _with_columns(record: ModelRecord, rows: TrainingRows, facts: dict[str, Any]) -> ModelRecord:
    """Return the record with facts, names of features and classes, and how to read such data."""
    import numpy as np

    changed: dict[str, Any] = {
        "feature_names": rows.feature_names,
        "provenance": {**record.provenance, **rows.columns(), **facts},
    }
    # The fit itself finds numbers that are labels of many classes.
    labels = rows.classes or (record.classes if rows.problem == "classes" else None)
    if labels:
        classes = np.array(labels)
        if classes.dtype.kind == "f" and (classes == np.rint(classes)).all():
            classes = classes.astype(np.int64)
        changed["classes"] = classes.tolist()
        changed["parameters"] = {**record.parameters, "classes_dtype": classes.dtype.str}
    return replace(record, **changed)
