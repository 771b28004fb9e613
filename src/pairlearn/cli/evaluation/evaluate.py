# SPDX-License-Identifier: BSD-3-Clause
"""``pairlearn evaluate``: how good a model is on labelled data, and how sure that is."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pairlearn.atomic import atomic_open
from pairlearn.cli.output import emit, json_option
from pairlearn.cli.shared.problem_kinds import kind_of
from pairlearn.cli.shared.reading import Reading, data_argument, reading_options, size_of
from pairlearn.cli.training.private_training import (
    PrivateOptions,
    private_options,
    refuse_beside_private,
)
from pairlearn.progress import Progress
from pairlearn.typing import Mask, Vector

if TYPE_CHECKING:
    from pairlearn.cli.shared.scoring import Scored
    from pairlearn.experiments.report.evaluation import Evidence
    from pairlearn.models.provenance import TrainingData

__all__ = ["command"]

#: False-positive rates at which the table shows thresholds.
_RATES = (0.01, 0.05, 0.1, 0.2, 0.5)
_TRAINING_DATA = (
    "the model was trained on these very examples, so that new ones will not be ranked as well; "
    "go by the held-out AUC that train prints, or keep a file apart."
)


@click.command("evaluate")
@click.argument("model", type=click.Path())
@data_argument
@click.option("--confidence", type=click.FloatRange(0, 1, min_open=True, max_open=True),
              default=0.95, show_default=True, help="Level of the interval.")  # fmt: skip
@click.option("--plot", type=click.Path(file_okay=False), metavar="FOLDER",
              help="Write roc.png and scores.png into this folder.")  # fmt: skip
@click.option("--report", type=click.Path(file_okay=False), metavar="FOLDER",
              help="Measure all that suits; write a page with curves and CSV files.")  # fmt: skip
@click.option("--costs", type=click.FloatRange(0, min_open=True), nargs=2, metavar="FP FN",
              help="What a false positive and a false negative cost, for --report.")  # fmt: skip
@private_options(bounds=False)
@reading_options
@json_option
def command(
    model: str,
    data: tuple[str, ...],
    reading: Reading,
    privacy: PrivateOptions,
    confidence: float,
    plot: str | None,
    report: str | None,
    costs: tuple[float, float] | None,
    as_json: bool,
) -> None:
    r"""Evaluate a model on labelled data that it was not trained on.

    Prints the AUC with DeLong's confidence interval and, for the model's own threshold and for
    some false-positive rates, what a decision at that threshold would do. For a ranking it prints
    pair accuracy and NDCG, for a regression the errors and their entropy, for a metric the AUC of
    distances: how often two examples of one label are nearer than two of different labels. With
    --report it prints partial AUC, average precision, the top of the list, costs and calibration
    as well, each with its interval, and draws curves with bands into one self-contained page.
    For more than two classes it prints Hand and Till's M, accuracy and log loss, each class against
    the others and the confusions, and draws with --report the ROC curve of each class and the
    calibration.

    \b
    Examples:
      pairlearn evaluate model.safetensors test.csv
      pairlearn evaluate model.safetensors test.csv --plot figures --json
      pairlearn evaluate model.safetensors test.csv --report pages --costs 1 20
      pairlearn evaluate model.safetensors test.csv --private --epsilon 1 --delta 1e-6
    """
    if privacy.private:
        from pairlearn.cli.evaluation.private_evaluation import evaluate_privately

        refuse_beside_private("model", "data", "confidence", "as_json")
        emit(*evaluate_privately(model, data, confidence, privacy), as_json=as_json)
        return
    import numpy as np

    from pairlearn.cli.light_imports import import_scikit_learn
    from pairlearn.cli.shared.scoring import open_for, probabilities_of
    from pairlearn.metrics import roc_auc_interval
    from pairlearn.models import load_model
    from pairlearn.models.provenance import TrainingData
    from pairlearn.streams.readers.base import ReadError

    if costs is not None and report is None:
        raise click.UsageError("--costs are for --report FOLDER; name a folder for the page.")
    import_scikit_learn()
    fitted = load_model(model)
    reader = open_for(fitted, data, reading, labelled=True)
    known = TrainingData.of_model(fitted)
    if kind_of(fitted).name == "auc" and len(getattr(fitted, "classes_", ())) > 2:
        if plot is not None:
            raise click.UsageError("--plot is for two classes; --report draws more of them.")
        if costs is not None:
            raise click.UsageError(
                f"--costs are for two classes; {model} has {len(fitted.classes_)}."
            )
        _classes(model, fitted, data, reader, known, report, confidence, as_json)
        return
    if kind_of(fitted).name != "auc":
        wanted = {"--plot": plot, "--report": report}
        _measure(model, fitted, data, reader, wanted, as_json)
        return
    positive = _positive_code(fitted, reader)
    probable = report is not None and hasattr(fitted, "predict_proba")
    parts = [
        (
            chunk.scores,
            chunk.y == positive,
            probabilities_of(fitted, chunk)[:, 1] if probable else chunk.scores[:0],
        )
        for chunk in _scored(fitted, data, reader, known)
    ]
    scores, labels, probabilities = (np.concatenate(column) for column in zip(*parts, strict=True))
    if labels.all() or not labels.any():
        raise ReadError(
            f"{data[0]} has examples of one class only; an AUC needs both (check --label and "
            "--classes)."
        )
    interval = roc_auc_interval(labels, scores, confidence=confidence)
    table = _table(scores, labels)
    error = interval.standard_error
    values: dict[str, Any] = {
        "model": model,
        "rows": len(scores),
        "positive": int(labels.sum()),
        "positive_class": str(fitted.classes_[1]),
        "refused": reader.refusals.count,
        "auc": interval.auc,
        "low": interval.low,
        "high": interval.high,
        "confidence": confidence,
        "standard_error": None if math.isnan(error) else error,
        "training_data": known.is_this(np.where(labels, 1, -1).astype(np.int8)),
        "thresholds": table,
    }
    if plot is not None:
        values["plots"] = _plot(Path(plot), scores, labels, values)
    if report is not None:
        from pairlearn.experiments.report.evaluation import Evidence

        evidence = Evidence(
            labels, scores, probabilities if probable else None, costs or (1.0, 1.0), confidence
        )
        _report(Path(report), evidence, values, data)
    emit(values, _text(values), as_json=as_json)
    _say_notes(reader, values, as_json)


def _say_notes(reader: Any, values: Mapping[str, Any], as_json: bool) -> None:
    from pairlearn.cli.shared.scoring import odd_lines

    if not as_json:
        if values.get("training_data"):
            click.echo(f"pairlearn: {_TRAINING_DATA}", err=True)
        refused = [str(reader.refusals)] if reader.refusals.count else []
        for line in [*refused, *odd_lines(reader)]:
            click.echo(f"pairlearn: {line}", err=True)


def _classes(
    path: str,
    model: Any,
    data: tuple[str, ...],
    reader: Any,
    known: TrainingData,
    report: str | None,
    confidence: float,
    as_json: bool,
) -> None:
    """Print, and draw if asked to, how well more than two classes are told apart."""
    from pairlearn.cli.evaluation.class_evaluation import (
        class_text,
        class_values,
        gather,
        write_class_page,
    )

    evidence = gather(model, reader, _scored(model, data, reader, known), confidence)
    rows, refused = len(evidence.codes), reader.refusals.count
    same = known.is_this(evidence.codes.astype("int64"))
    values = {"model": path, "rows": rows, "refused": refused, **class_values(evidence)}
    values["training_data"] = same
    if report is not None:
        _need_matplotlib()
        values["page"] = write_class_page(
            report, evidence, model=path, data=data, refused=refused,
            note=_TRAINING_DATA if same else "",
        )  # fmt: skip
    emit(values, class_text(values, rows), as_json=as_json)
    _say_notes(reader, values, as_json)


def _measure(
    path: str,
    model: Any,
    data: tuple[str, ...],
    reader: Any,
    wanted: dict[str, str | None],
    as_json: bool,
) -> None:
    """Print the measures of a problem other than AUC."""
    from pairlearn.cli.shared.measures import measure

    for option, folder in wanted.items():
        if folder is not None:
            raise click.UsageError(
                f"{option} is for AUC of two classes; {path} is a {type(model).__name__}."
            )
    chunks = [replace(chunk, X=None) for chunk in _scored(model, data, reader)]
    rows = sum(len(chunk.scores) for chunk in chunks)
    found = measure(model, chunks)
    values = {"model": path, "rows": rows, "refused": reader.refusals.count, **found}
    lines = [f"{name.replace('_', ' ')} {value:.6g}" for name, value in found.items()]
    emit(values, "\n".join([*lines, f"{rows} rows"]), as_json=as_json)
    _say_notes(reader, values, as_json)


def _scored(
    model: Any, data: tuple[str, ...], reader: Any, known: TrainingData | None = None
) -> Iterator[Scored]:
    """Yield the labelled chunks with their scores."""
    from pairlearn.cli.shared.scoring import score_chunks
    from pairlearn.streams.readers.base import ReadError

    rows = 0
    with Progress(size_of(data), label="scoring") as bar:
        for scored in score_chunks(model, reader):
            if scored.y is None:
                raise ReadError("the label is needed; name its column with --label.")
            if known is not None:
                known.note(scored.X)
            yield scored
            rows += len(scored.scores)
            bar.update(rows, done=scored.done)


def _positive_code(model: Any, reader: Any) -> float:
    """Return what the reader delivers for the positive class."""
    encoder = getattr(reader, "encoder", None)
    if encoder is not None and (encoder.label is None or encoder.label.kind != "numbers"):
        return 1.0
    layout = getattr(reader, "layout", None)
    if layout is not None and layout.schema.text_labels:
        return 1.0
    return float(model.classes_[1])


def _table(scores: Vector, labels: Mask) -> list[dict[str, float | str | None]]:
    """Return what decisions at some thresholds do; scores are relative to the model's own."""
    import numpy as np

    negative = np.sort(scores[~labels])[::-1]
    wanted = [("model", 0.0)]
    for rate in _RATES:
        place = int(rate * len(negative))
        if place < len(negative):
            wanted.append((f"fpr {rate:g}", float(negative[place])))
    n_positive = int(labels.sum())
    rows: list[dict[str, float | str | None]] = []
    for name, threshold in wanted:
        chosen = scores > threshold
        hits, alarms = int((chosen & labels).sum()), int((chosen & ~labels).sum())
        n_chosen = hits + alarms
        rows.append(
            {
                "at": name,
                "threshold": threshold,
                "recall": hits / n_positive,
                "false_positive_rate": alarms / len(negative),
                "precision": hits / n_chosen if n_chosen else None,
                "accuracy": (hits + len(negative) - alarms) / len(scores),
            }
        )
    return rows


def _text(values: dict[str, Any]) -> str:
    level = 100 * values["confidence"]
    lines = [
        f"AUC {values['auc']:.4f}, {level:g} % interval [{values['low']:.4f}, "
        f"{values['high']:.4f}] (DeLong)",
        f"{values['rows']} rows, {values['positive']} positive ({values['positive_class']})",
        f"{'at':<10} {'threshold':>12} {'recall':>8} {'fpr':>8} {'precision':>10} {'accuracy':>9}",
    ]
    for row in values["thresholds"]:
        precision = "-" if row["precision"] is None else f"{row['precision']:.4f}"
        lines.append(
            f"{row['at']:<10} {row['threshold']:>12.6g} {row['recall']:>8.4f} "
            f"{row['false_positive_rate']:>8.4f} {precision:>10} {row['accuracy']:>9.4f}"
        )
    if "measures" in values:
        lines.append(f"{'measure':<40} {'value':>8} {'low':>8} {'high':>8}")
        lines += [
            f"{one['name']:<40} {one['value']:>8.4f} {one['low']:>8.4f} {one['high']:>8.4f}"
            for one in values["measures"]
        ]
    lines += [f"plot: {path}" for path in values.get("plots", ())]
    if "page" in values:
        lines.append(f"page: {values['page']}")
    return "\n".join(lines)


def _report(
    folder: Path, evidence: Evidence, values: dict[str, Any], data: tuple[str, ...]
) -> None:
    """Add the measures and the path of the page to the values."""
    from pairlearn.experiments.report.evaluation import evaluation_page, measures_of
    from pairlearn.experiments.report.page import write_page

    _need_matplotlib()
    measures = measures_of(evidence)
    facts = {"model": values["model"], "data": ", ".join(data), "rows": str(values["rows"]),
             "positive class": values["positive_class"],
             "refused rows": str(values["refused"]),
             **({"note": _TRAINING_DATA} if values["training_data"] else {})}  # fmt: skip
    page = evaluation_page(
        evidence,
        measures,
        title=f"{Path(values['model']).name} on {Path(data[0]).name}",
        facts=facts,
        thresholds=values["thresholds"],
    )
    values["measures"] = [one.plain() for one in measures]
    values["page"] = str(write_page(page, folder))


def _need_matplotlib() -> None:
    from importlib.util import find_spec

    if find_spec("matplotlib") is None:
        raise click.UsageError("plots need matplotlib; install pairlearn[plot].")


def _plot(folder: Path, scores: Vector, labels: Mask, values: dict[str, Any]) -> list[str]:
    import numpy as np

    _need_matplotlib()
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    folder.mkdir(parents=True, exist_ok=True)
    order = np.argsort(-scores, kind="stable")
    last = np.append(np.diff(scores[order]) != 0, True)
    hits = np.concatenate([[0], np.cumsum(labels[order])[last]]) / labels.sum()
    alarms = np.concatenate([[0], np.cumsum(~labels[order])[last]]) / (~labels).sum()
    written = []
    for name in ("roc", "scores"):
        figure = Figure(figsize=(5, 4.5), layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.subplots()
        if name == "roc":
            axes.plot(alarms, hits, drawstyle="default", color="tab:blue")
            axes.plot([0, 1], [0, 1], color="0.7", linewidth=1)
            axes.set(xlabel="false-positive rate", ylabel="recall", aspect="equal",
                     title=f"AUC {values['auc']:.4f} "
                           f"[{values['low']:.4f}, {values['high']:.4f}]")  # fmt: skip
        else:
            bins = np.histogram_bin_edges(scores, bins=50).tolist()
            for label, colour in ((False, "tab:orange"), (True, "tab:blue")):
                axes.hist(scores[labels == label], bins=bins, density=True, alpha=0.6,
                          color=colour, label="positive" if label else "negative")  # fmt: skip
            axes.axvline(0.0, color="0.3", linewidth=1)
            axes.set(xlabel="score, 0 is the model's threshold", ylabel="density")
            axes.legend()
        path = folder / f"{name}.png"
        with atomic_open(path) as out:
            figure.savefig(out, format="png", dpi=120)
        written.append(str(path))
    return written
