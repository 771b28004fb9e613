# SPDX-License-Identifier: BSD-3-Clause
"""``pairlearn evaluate``: how good a model is on labelled data, with intervals."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pairlearn.atomic import atomic_open
from pairlearn.cli.output import emit, json_option, typed_beside
from pairlearn.cli.shared.paths import FilePath, force_option, read_argument
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
    from pairlearn.experiments.report.page import Page
    from pairlearn.models.provenance import TrainingData

#: False-positive rates at which the table shows thresholds.
_RATES = (0.01, 0.05, 0.1, 0.2, 0.5)
#: The pictures of --plot.
_PICTURES = ("roc", "scores")
_TRAINING_DATA = (
    "the model was trained on these very examples, so it will do worse on new ones; go by what "
    "train prints of held-out rows, or evaluate on other data."
)


@dataclass(frozen=True)
class Options:
    """What the command line says."""

    model: str
    data: tuple[str, ...]
    reading: Reading
    privacy: PrivateOptions
    confidence: float
    plot: str | None
    report: str | None
    costs: tuple[float, float] | None
    as_json: bool


@click.command("evaluate")
@read_argument("model")
@data_argument
@click.option("--confidence", type=click.FloatRange(0, 1, min_open=True, max_open=True),
              default=0.95, show_default=True, help="Level of the interval.")  # fmt: skip
@click.option("--plot", metavar="FOLDER",
              type=FilePath("write", "picture", inside=[f"{name}.png" for name in _PICTURES]),
              help="Write roc.png and scores.png into this folder.")  # fmt: skip
@click.option("--report", type=FilePath("write", "page", folder=True), metavar="FOLDER",
              help="Compute all measures; write a page with curves and CSV files.")  # fmt: skip
@click.option("--costs", type=click.FloatRange(0, min_open=True), nargs=2, metavar="FP FN",
              help="What a false positive and a false negative cost, for --report.")  # fmt: skip
@force_option
@private_options(needs_bounds=False)
@reading_options
@json_option
def command(**given: Any) -> None:
    r"""Evaluate a model on labelled data that it was not trained on.

    Prints the AUC with its confidence interval, and a table of decisions: recall, precision
    and accuracy at the model's own threshold and at some false-positive rates. --report adds
    partial AUC, average precision, the top of the list, costs and calibration, each with its
    interval, and draws curves with bands into one self-contained page.

    A ranking gets pair accuracy and NDCG, a regression the errors and their entropy, a metric the
    AUC of distances: how often two examples of one label are nearer than two of different labels.
    More than two classes get Hand and Till's M, accuracy and log loss, each class against the
    others and the confusions; --report draws the ROC curve of each class and the calibration.

    \b
    Examples:
      pairlearn evaluate model.safetensors test.csv
      pairlearn evaluate model.safetensors test.csv --plot figures --json
      pairlearn evaluate model.safetensors test.csv --report pages --costs 1 20
      pairlearn evaluate model.safetensors test.csv --private --epsilon 1 --delta 1e-6
    """
    options = Options(**given)
    if options.privacy.private:
        from pairlearn.cli.evaluation.private_evaluation import evaluate_privately

        refuse_beside_private("model", "data", "confidence", "as_json")
        result = evaluate_privately(
            options.model, options.data, options.confidence, options.privacy
        )
        emit(*result, as_json=options.as_json)
        return
    from pairlearn.cli.light_imports import import_scikit_learn
    from pairlearn.cli.shared.scoring import open_for
    from pairlearn.models import load_model

    if options.costs is not None and options.report is None:
        raise click.UsageError("--costs are for --report FOLDER; name a folder for the page.")
    import_scikit_learn()
    fitted = load_model(options.model)
    reader = open_for(fitted, options.data, options.reading, labelled=True)
    if kind_of(fitted).name != "auc":
        values, text = _measure(options, fitted, reader)
    elif len(getattr(fitted, "classes_", ())) > 2:
        values, text = _many_classes(options, fitted, reader)
    else:
        values, text = _two_classes(options, fitted, reader)
    emit(values, text, as_json=options.as_json)
    _say_notes(reader, values, options.as_json)


def _two_classes(options: Options, model: Any, reader: Any) -> tuple[dict[str, Any], str]:
    """Return the AUC, its interval and what decisions do, as values and as text."""
    import numpy as np

    from pairlearn.metrics.delong import roc_auc_interval
    from pairlearn.models.provenance import TrainingData

    known = TrainingData.of_model(model)
    scores, labels, probabilities = _collected(options, model, reader, known)
    interval = roc_auc_interval(labels, scores, confidence=options.confidence)
    error = interval.standard_error
    values: dict[str, Any] = {
        "model": options.model,
        "rows": len(scores),
        "positive": int(labels.sum()),
        "positive_class": str(model.classes_[1]),
        "refused": reader.refusals.count,
        "auc": interval.auc,
        "low": interval.low,
        "high": interval.high,
        "confidence": options.confidence,
        "standard_error": None if math.isnan(error) else error,
        "training_data": known.is_this(np.where(labels, 1, -1).astype(np.int8)),
        "thresholds": _table(scores, labels),
    }
    if options.plot is not None:
        values["plots"] = _plot(Path(options.plot), scores, labels, values)
    if options.report is not None:
        from pairlearn.experiments.report.evaluation import Evidence

        costs = options.costs or (1.0, 1.0)
        evidence = Evidence(labels, scores, probabilities, costs, options.confidence)
        _report(options, evidence, values)
    return values, _text(values)


def _collected(
    options: Options, model: Any, reader: Any, known: TrainingData
) -> tuple[Vector, Mask, Vector | None]:
    """Return scores, whether rows are positive, and, for a report, probabilities."""
    import numpy as np

    from pairlearn.cli.shared.scoring import probabilities_of
    from pairlearn.streams.readers.base import ReadError

    positive = _positive_code(model, reader)
    probable = options.report is not None and hasattr(model, "predict_proba")
    parts = [
        (
            chunk.scores,
            chunk.y == positive,
            probabilities_of(model, chunk)[:, 1] if probable else chunk.scores[:0],
        )
        for chunk in _scored(model, options.data, reader, known)
    ]
    scores, labels, probabilities = (np.concatenate(column) for column in zip(*parts, strict=True))
    if labels.all() or not labels.any():
        raise ReadError(
            f"{options.data[0]} has examples of one class only; an AUC needs both (check --label "
            "and --classes)."
        )
    return scores, labels, probabilities if probable else None


def _say_notes(reader: Any, values: Mapping[str, Any], as_json: bool) -> None:
    from pairlearn.cli.shared.scoring import odd_lines

    if not as_json:
        if values.get("training_data"):
            click.echo(f"pairlearn: {_TRAINING_DATA}", err=True)
        refused = [str(reader.refusals)] if reader.refusals.count else []
        for line in [*refused, *odd_lines(reader)]:
            click.echo(f"pairlearn: {line}", err=True)


def _many_classes(options: Options, model: Any, reader: Any) -> tuple[dict[str, Any], str]:
    """Return how well more than two classes are told apart; draw it if asked to."""
    from pairlearn.cli.evaluation.class_evaluation import class_text, class_values, gather, page_of
    from pairlearn.models.provenance import TrainingData

    if options.plot is not None:
        raise click.UsageError("--plot is for two classes; --report draws more of them.")
    if options.costs is not None:
        raise click.UsageError(
            f"--costs are for two classes; {options.model} has {len(model.classes_)}."
        )
    known = TrainingData.of_model(model)
    scored = _scored(model, options.data, reader, known)
    evidence = gather(model, reader, scored, options.confidence)
    rows, refused = len(evidence.codes), reader.refusals.count
    same = known.is_this(evidence.codes.astype("int64"))
    values = {"model": options.model, "rows": rows, "refused": refused, **class_values(evidence)}
    values["training_data"] = same
    if options.report is not None:
        _write_page(options, values, lambda *about: page_of(evidence, *about))
    return values, class_text(values, rows)


def _measure(options: Options, model: Any, reader: Any) -> tuple[dict[str, Any], str]:
    """Return the measures of a problem other than AUC."""
    import numpy as np

    from pairlearn.cli.shared.measures import measure
    from pairlearn.models.provenance import TrainingData

    for option in ("--plot", "--report", "--confidence"):
        if option in typed_beside():
            raise click.UsageError(
                f"{option} is for AUC of two classes; {options.model} is a {type(model).__name__}."
            )
    known = TrainingData.of_model(model)
    chunks = [replace(chunk, X=None) for chunk in _scored(model, options.data, reader, known)]
    rows = sum(len(chunk.scores) for chunk in chunks)
    found = measure(model, chunks)
    values = {"model": options.model, "rows": rows, "refused": reader.refusals.count, **found}
    labels = [np.asarray(chunk.y, dtype=np.float64) for chunk in chunks]
    values["training_data"] = known.is_this(np.concatenate(labels))
    lines = [f"{name.replace('_', ' ')} {value:.6g}" for name, value in found.items()]
    return values, "\n".join([*lines, f"{rows} rows"])


def _scored(
    model: Any, data: tuple[str, ...], reader: Any, known: TrainingData
) -> Iterator[Scored]:
    """Yield the labelled chunks with their scores."""
    from pairlearn.cli.shared.scoring import score_chunks
    from pairlearn.streams.readers.base import ReadError

    rows = 0
    with Progress(size_of(data), label="scoring") as bar:
        for scored in score_chunks(model, reader):
            if scored.y is None:
                raise ReadError("the label is needed; name its column with --label.")
            known.note(scored.X)
            yield scored
            rows += len(scored.scores)
            bar.update(rows, done=scored.done)


def _positive_code(model: Any, reader: Any) -> float:
    """Return the label that the reader delivers for the positive class."""
    encoder = getattr(reader, "encoder", None)
    if encoder is not None and (encoder.label is None or encoder.label.kind != "numbers"):
        return 1.0
    layout = getattr(reader, "layout", None)
    if layout is not None and layout.schema.text_labels:
        return 1.0
    return float(model.classes_[1])


def _table(scores: Vector, labels: Mask) -> list[dict[str, float | str | None]]:
    """Return recall, precision and accuracy of some thresholds, relative to the model's own."""
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
    """Return the result of an evaluation as lines for a person."""
    level = 100 * values["confidence"]
    lines = [
        f"AUC {values['auc']:.4f}, {level:g} % interval [{values['low']:.4f}, "
        f"{values['high']:.4f}]",
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


def _report(options: Options, evidence: Evidence, values: dict[str, Any]) -> None:
    """Add the measures and the path of the page to the values."""
    from pairlearn.experiments.report.evaluation import evaluation_page, measures_of

    measures = measures_of(evidence)

    def page(title: str, facts: dict[str, str]) -> Page:
        facts["positive class"] = values["positive_class"]
        rows = values["thresholds"]
        return evaluation_page(evidence, measures, title=title, facts=facts, thresholds=rows)

    _write_page(options, values, page)
    values["measures"] = [one.plain() for one in measures]


def _write_page(
    options: Options, values: dict[str, Any], make: Callable[[str, dict[str, str]], Page]
) -> None:
    """Write the page that `make` returns for a title and facts; add its path to the values."""
    from pairlearn.experiments.report.page import write_page

    _need_matplotlib()
    facts = {"model": options.model, "data": ", ".join(options.data), "rows": str(values["rows"]),
             "refused rows": str(values["refused"]),
             **({"note": _TRAINING_DATA} if values["training_data"] else {})}  # fmt: skip
    title = f"{Path(options.model).name} on {Path(options.data[0]).name}"
    values["page"] = str(write_page(make(title, facts), Path(str(options.report))))


def _need_matplotlib() -> None:
    from importlib.util import find_spec

    if find_spec("matplotlib") is None:
        raise click.UsageError("plots need matplotlib; install pairlearn[plot].")


def _plot(folder: Path, scores: Vector, labels: Mask, values: dict[str, Any]) -> list[str]:
    """Draw the curves into a folder; return the names of the files."""
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
    for name in _PICTURES:
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
            figure.savefig(out, format="png", dpi=120, metadata={"Software": "pairlearn"})
        written.append(str(path))
    return written
