# SPDX-License-Identifier: BSD-3-Clause
"""``pairlearn evaluate``: how good a model is on labelled data, with intervals."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pairlearn.cli.private.options import PrivateOptions, private_options, refuse_beside_private
from pairlearn.cli.shared.files import OutputPath, read_argument
from pairlearn.cli.shared.output import emit, json_option, safe_lines, tell, typed_beside
from pairlearn.cli.shared.reading import (
    Reading,
    data_argument,
    odd_lines,
    reading_options,
)
from pairlearn.cli.shared.scoring import (
    Scored,
    has_codes,
    kind_of,
    load_for_scoring,
    measure,
    names_compared,
    open_for_model,
    positive_code,
    probabilities_of,
    score_chunks,
)
from pairlearn.progress import Progress
from pairlearn.typing import Mask, Places, Vector

if TYPE_CHECKING:
    from pairlearn.experiments.report.class_evaluation import ClassEvidence
    from pairlearn.experiments.report.page import Page
    from pairlearn.models.provenance import TrainingData

#: False-positive rates at which the table shows thresholds.
_RATES = (0.01, 0.05, 0.1, 0.2, 0.5)
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
@click.option("--plot", metavar="FOLDER", type=OutputPath(folder=True),
              help="Write roc.png and scores.png into this folder.")  # fmt: skip
@click.option("--report", type=OutputPath(folder=True), metavar="FOLDER",
              help="Compute all measures; write a page with curves and CSV files.")  # fmt: skip
@click.option("--costs", type=click.FloatRange(0, min_open=True), nargs=2, metavar="FP FN",
              help="What a false positive and a false negative cost, for --report.")  # fmt: skip
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
        from pairlearn.cli.private.evaluation import evaluate_privately

        refuse_beside_private("model", "data", "confidence", "as_json")
        values, text = evaluate_privately(
            options.model, options.data, options.confidence, options.privacy
        )
        emit(values, text, as_json=options.as_json)
        return
    if options.costs is not None and options.report is None:
        raise click.UsageError("--costs are for --report FOLDER; name a folder for the page.")
    model = load_for_scoring(options.model)
    reader = open_for_model(model, options.data, options.reading, labelled=True)
    if kind_of(model).name != "auc":
        values, text = _measure(options, model, reader)
    elif len(getattr(model, "classes_", ())) > 2:
        values, text = _many_classes(options, model, reader)
    else:
        values, text = _two_classes(options, model, reader)
    emit(values, text, as_json=options.as_json)
    if not options.as_json:
        tell(
            *([_TRAINING_DATA] if values.get("training_data") else []),
            *([reader.refusals] if reader.refusals.count else []), *odd_lines(reader),
        )  # fmt: skip


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
        from pairlearn.experiments.report.evaluation import Evidence, evaluation_page, measures_of

        costs = options.costs or (1.0, 1.0)
        evidence = Evidence(labels, scores, probabilities, costs, options.confidence)
        measures = measures_of(evidence)
        facts = {"positive class": values["positive_class"]}
        _write_page(
            options, values,
            lambda title, about: evaluation_page(
                evidence, measures, title=title, facts=about | facts,
                thresholds=values["thresholds"],
            ),
        )  # fmt: skip
        values["measures"] = [measured.plain() for measured in measures]
    return values, _text(values)


def _collected(
    options: Options, model: Any, reader: Any, known: TrainingData
) -> tuple[Vector, Mask, Vector | None]:
    """Return scores, whether rows are positive, and, for a report, probabilities."""
    import numpy as np

    positive = positive_code(model, reader)
    probable = options.report is not None and hasattr(model, "predict_proba")
    parts = [
        (
            chunk.scores,
            chunk.y == positive,
            probabilities_of(model, chunk)[:, 1] if probable else chunk.scores[:0],
        )
        for chunk in _scored(model, reader, known)
    ]
    scores, labels, probabilities = (np.concatenate(column) for column in zip(*parts, strict=True))
    if labels.all() or not labels.any():
        raise ValueError(
            f"{options.data[0]} has examples of one class only; an AUC needs both (check --label "
            "and --classes)."
        )
    return scores, labels, probabilities if probable else None


def _many_classes(options: Options, model: Any, reader: Any) -> tuple[dict[str, Any], str]:
    """Return how well more than two classes are told apart; draw it if asked to."""
    from pairlearn.experiments.report.class_evaluation import class_measures, class_page, classwise
    from pairlearn.models.provenance import TrainingData

    if options.plot is not None:
        raise click.UsageError("--plot is for two classes; --report draws more of them.")
    if options.costs is not None:
        raise click.UsageError(
            f"--costs are for two classes; {options.model} has {len(model.classes_)}."
        )
    known = TrainingData.of_model(model)
    evidence = _gathered(model, reader, _scored(model, reader, known), options.confidence)
    if len(set(evidence.codes.tolist())) < 2:
        raise ValueError("the data have examples of one class only; an AUC needs two (check "
                         "--label).")  # fmt: skip
    rows, measures, classes = len(evidence.codes), class_measures(evidence), classwise(evidence)
    values = {
        "model": options.model, "rows": rows, "refused": reader.refusals.count,
        **_class_values(evidence, measures, classes),
        "training_data": known.is_this(evidence.codes.astype("int64")),
    }  # fmt: skip
    if options.report is not None:
        _write_page(
            options, values,
            lambda title, facts: class_page(evidence, measures, classes, title=title, facts=facts),
        )  # fmt: skip
    return values, _class_text(values)


def _measure(options: Options, model: Any, reader: Any) -> tuple[dict[str, Any], str]:
    """Return the measures of a problem other than AUC."""
    import numpy as np

    from pairlearn.models.provenance import TrainingData

    for option in ("--plot", "--report", "--confidence"):
        if option in typed_beside():
            raise click.UsageError(
                f"{option} is for AUC of two classes; {options.model} is a {type(model).__name__}."
            )
    known = TrainingData.of_model(model)
    chunks = [replace(chunk, X=None) for chunk in _scored(model, reader, known)]
    rows = sum(len(chunk.scores) for chunk in chunks)
    found = measure(model, chunks)
    values = {"model": options.model, "rows": rows, "refused": reader.refusals.count, **found}
    labels = [np.asarray(chunk.y, dtype=np.float64) for chunk in chunks]
    values["training_data"] = known.is_this(np.concatenate(labels))
    lines = [f"{name.replace('_', ' ')} {value:.6g}" for name, value in found.items()]
    return values, "\n".join([*lines, f"{rows} rows"])


def _scored(model: Any, reader: Any, known: TrainingData) -> Iterator[Scored]:
    """Yield the labelled chunks with their scores."""
    rows = 0
    with Progress(label="scoring") as bar:
        for scored in score_chunks(model, reader):
            if scored.y is None:
                raise ValueError("the label is needed; name its column with --label.")
            known.note(scored.X)
            yield scored
            rows += len(scored.scores)
            bar.update(rows)


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
    return safe_lines(lines)


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
    from pairlearn.atomic import atomic_open

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
            figure.savefig(out, format="png", dpi=120, metadata={"Software": "pairlearn"})
        written.append(str(path))
    return written


# ------------------------------------------------------------------------ more than two classes


def _gathered(
    model: Any, reader: Any, chunks: Iterable[Scored], confidence: float
) -> ClassEvidence:
    """Return the labels and probabilities of all labelled chunks of a reader."""
    import numpy as np

    from pairlearn.experiments.report.class_evaluation import ClassEvidence

    codes, probabilities, pairs = [], [], []
    for chunk in chunks:
        assert chunk.y is not None
        codes.append(_codes(model, reader, chunk.y))
        probabilities.append(probabilities_of(model, chunk))
        if hasattr(model, "pair_scores"):
            with names_compared():
                pairs.append(model.pair_scores(chunk.X))
    return ClassEvidence(
        tuple(model.classes_.tolist()),
        np.concatenate(codes),
        np.concatenate(probabilities),
        np.concatenate(pairs) if pairs else None,
        confidence,
    )


def _codes(model: Any, reader: Any, y: Vector) -> Places:
    """Return the numbers of the classes that a reader delivers."""
    import numpy as np

    if has_codes(reader):
        return y.astype(np.intp)
    code = {label: k for k, label in enumerate(model.classes_.tolist())}
    try:
        return np.array([code[label] for label in y.tolist()], dtype=np.intp)
    except KeyError as error:
        raise ValueError(
            f"the label {error.args[0]!r} is none of the classes {model.classes_.tolist()} of the "
            "model."
        ) from None


def _class_values(evidence: ClassEvidence, measures: Any, classes: Any) -> dict[str, Any]:
    """Return the measures, each class against the others, and the confusions, as plain values."""
    by_name = {one.name: one for one in measures}
    found = by_name["Hand and Till's M"]
    pairs = by_name.get("Hand and Till's M, scores of the pairs")
    own = {} if pairs is None else {"hand_till_pairs": pairs.value,
                                    "hand_till_pairs_low": pairs.low,
                                    "hand_till_pairs_high": pairs.high}  # fmt: skip
    return {
        **own,
        "hand_till": found.value,
        "hand_till_low": found.low,
        "hand_till_high": found.high,
        "accuracy": by_name["accuracy"].value,
        "log_loss": by_name["log loss"].value,
        "confidence": evidence.confidence,
        "measures": [one.plain() for one in measures],
        "classes": [
            {
                "class": one.label,
                "examples": one.n_examples,
                "recall": one.recall if one.n_examples else None,
                "precision": one.precision,
                "auc": None if one.auc is None else one.auc.value,
                "low": None if one.auc is None else one.auc.low,
                "high": None if one.auc is None else one.auc.high,
                "calibration_error": one.calibration_error,
            }
            for one in classes
        ],
        "confusion": evidence.confusion.tolist(),
    }


def _class_text(values: dict[str, Any]) -> str:
    """Return the values as text."""
    level = 100 * values["confidence"]
    lines = [f"{'measure':<40} {'value':>8}  {level:g} % interval"]
    lines += [
        f"{one['name']:<40} {one['value']:>8.4f}  [{one['low']:.4f}, {one['high']:.4f}]"
        for one in values["measures"]
    ]
    names = [str(one["class"]) for one in values["classes"]]
    width = max(len("class"), *map(len, names))
    lines.append(f"{'class':<{width}} {'examples':>8} {'recall':>8} {'precision':>9} {'AUC':>8}")
    for name, one in zip(names, values["classes"], strict=True):
        shown = ["-" if one[k] is None else f"{one[k]:.4f}" for k in ("recall", "precision", "auc")]
        lines.append(
            f"{name:<{width}} {one['examples']:>8} {shown[0]:>8} {shown[1]:>9} {shown[2]:>8}"
        )
    size = max(len(str(n)) for row in values["confusion"] for n in row)
    lines.append("confusions: a row for each class, a column for what it is taken for")
    for name, row in zip(names, values["confusion"], strict=True):
        lines.append(f"{name:<{width}} {' '.join(f'{n:>{size}}' for n in row)}")
    lines.append(f"{values['rows']} rows")
    if "page" in values:
        lines.append(f"page: {values['page']}")
    return safe_lines(lines)
