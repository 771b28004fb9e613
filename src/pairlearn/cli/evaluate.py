# SPDX-License-Identifier: BSD-3-Clause
"""``pairlearn evaluate``: how good a model is on labelled data, with intervals."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pairlearn.cli.private.options import PrivateOptions, private_options, refuse_beside_private
from pairlearn.cli.shared.files import OutputPath, need_matplotlib, read_argument
from pairlearn.cli.shared.output import emit, json_option, safe_lines, tell, typed_beside
from pairlearn.cli.shared.reading import Reading, data_argument, odd_lines, reading_options
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
    from pairlearn.experiments.report.page import Page
    from pairlearn.models.provenance import TrainingData

#: False-positive rates at which the table shows thresholds.
_RATES = (0.01, 0.05, 0.1, 0.2, 0.5)
_TRAINING_DATA = (
    "the model was trained on these very examples, so it will do worse on new ones; go by what "
    "train prints of held-out rows, or evaluate on other data."
)
#: The values of an evaluation, and what makes its page, if it has one, for a title and facts.
Answer = tuple[dict[str, Any], Callable[..., "Page"] | None]


@click.command("evaluate")
@read_argument("model")
@data_argument
@click.option("--confidence", type=click.FloatRange(0, 1, min_open=True, max_open=True),
              default=0.95, show_default=True, help="Level of the interval.")  # fmt: skip
@click.option("--report", type=OutputPath(folder=True), metavar="FOLDER",
              help="Compute all measures; write a page with curves and CSV files.")  # fmt: skip
@click.option("--costs", type=click.FloatRange(0, min_open=True), nargs=2, metavar="FP FN",
              help="What a false positive and a false negative cost, for --report.")  # fmt: skip
@private_options(needs_bounds=False)
@reading_options
@json_option
def command(
    model: str, data: tuple[str, ...], reading: Reading, privacy: PrivateOptions,
    confidence: float, report: str | None, costs: tuple[float, float] | None, as_json: bool,
) -> None:  # fmt: skip
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
      pairlearn evaluate model.safetensors test.csv --report pages --costs 1 20
      pairlearn evaluate model.safetensors test.csv --private --epsilon 1 --delta 1e-6
    """
    if privacy.private:
        from pairlearn.cli.private.commands import evaluate_privately

        refuse_beside_private("model", "data", "confidence", "as_json")
        values, text = evaluate_privately(model, data, confidence, privacy)
        emit(values, text, as_json=as_json)
        return
    if costs is not None and report is None:
        raise click.UsageError("--costs are for --report FOLDER; name a folder for the page.")
    if report is not None:
        need_matplotlib()
    fitted = load_for_scoring(model)
    reader = open_for_model(fitted, data, reading, labelled=True)
    kind, many = kind_of(fitted).name, len(getattr(fitted, "classes_", ())) > 2
    for option in ("--report", "--confidence") if kind != "auc" else ():
        if option in typed_beside():
            raise click.UsageError(
                f"{option} is for AUC; {model} is a {type(fitted).__name__} for something else."
            )
    if many and costs is not None:
        raise click.UsageError(f"--costs are for two classes; {model} has {len(fitted.classes_)}.")
    if kind != "auc":
        values, page = _measure(fitted, reader)
    elif many:
        values, page = _many_classes(fitted, reader, confidence)
    else:
        drawn = report is not None
        values, page = _two_classes(fitted, reader, confidence, costs or (1.0, 1.0), drawn)
    values = {"model": model, "refused": reader.refusals.count, **values}
    if report is not None and page is not None:
        from pairlearn.experiments.report.page import write_page

        facts = {"model": model, "data": ", ".join(data), "rows": str(values["rows"]),
                 "refused rows": str(values["refused"]),
                 **({"note": _TRAINING_DATA} if values["training_data"] else {})}  # fmt: skip
        title = f"{Path(model).name} on {Path(data[0]).name}"
        values["page"] = str(write_page(page(title=title, facts=facts), Path(report)))
    emit(values, safe_lines(_lines(values)), as_json=as_json)
    if not as_json:
        tell(
            *([_TRAINING_DATA] if values["training_data"] else []),
            *([reader.refusals] if reader.refusals.count else []), *odd_lines(reader),
        )  # fmt: skip


def _scored(model: Any, reader: Any, known: TrainingData) -> Iterator[Scored]:
    rows = 0
    with Progress(label="scoring") as bar:
        for scored in score_chunks(model, reader):
            if scored.y is None:
                raise ValueError("the label is needed; name its column with --label.")
            known.note(scored.X)
            yield scored
            rows += len(scored.scores)
            bar.update(rows)


def _two_classes(
    model: Any, reader: Any, confidence: float, costs: tuple[float, float], drawn: bool
) -> Answer:
    """Return the AUC, its interval and what decisions do; all measures if they are `drawn`."""
    import numpy as np

    from pairlearn.metrics.delong import roc_auc_interval
    from pairlearn.models.provenance import TrainingData

    known = TrainingData.of_model(model)
    positive, probable = positive_code(model, reader), drawn and hasattr(model, "predict_proba")
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
            "the data have examples of one class only; an AUC needs both (check --label and "
            "--classes)."
        )
    interval = roc_auc_interval(labels, scores, confidence=confidence)
    error = interval.standard_error
    values: dict[str, Any] = {
        "rows": len(scores),
        "positive": int(labels.sum()),
        "positive_class": str(model.classes_[1]),
        "auc": interval.auc,
        "low": interval.low,
        "high": interval.high,
        "confidence": confidence,
        "standard_error": None if math.isnan(error) else error,
        "training_data": known.is_this(np.where(labels, 1, -1).astype(np.int8)),
        "thresholds": _thresholds(scores, labels),
    }

    if drawn:
        from pairlearn.experiments.report.evaluation import measures_of

        values["measures"] = measures_of(
            labels, scores, probabilities if probable else None, costs=costs, confidence=confidence
        )

    def page(*, title: str, facts: dict[str, str]) -> Page:
        from pairlearn.experiments.report.evaluation import evaluation_page

        facts = facts | {"positive class": values["positive_class"]}
        chances = probabilities if probable else None
        return evaluation_page(values, labels, scores, chances, title=title, facts=facts)

    return values, page


def _thresholds(scores: Vector, labels: Mask) -> list[dict[str, float | str | None]]:
    """Return recall, precision and accuracy of some thresholds, relative to the model's own."""
    import numpy as np

    negative = np.sort(scores[~labels])[::-1]
    wanted = [("model", 0.0)]
    for rate in _RATES:
        place = int(rate * len(negative))
        if place < len(negative):
            wanted.append((f"fpr {rate:g}", float(negative[place])))
    rows: list[dict[str, float | str | None]] = []
    for name, threshold in wanted:
        chosen = scores > threshold
        hits, alarms = int((chosen & labels).sum()), int((chosen & ~labels).sum())
        rows.append(
            {
                "at": name,
                "threshold": threshold,
                "recall": hits / int(labels.sum()),
                "false_positive_rate": alarms / len(negative),
                "precision": hits / (hits + alarms) if hits + alarms else None,
                "accuracy": (hits + len(negative) - alarms) / len(scores),
            }
        )
    return rows


def _many_classes(model: Any, reader: Any, confidence: float) -> Answer:
    import numpy as np

    from pairlearn.experiments.report.evaluation import class_page, class_values
    from pairlearn.models.provenance import TrainingData

    known = TrainingData.of_model(model)
    parts, pairs = [], []
    for chunk in _scored(model, reader, known):
        assert chunk.y is not None
        parts.append((_codes(model, reader, chunk.y), probabilities_of(model, chunk)))
        if hasattr(model, "pair_scores"):
            with names_compared():
                pairs.append(model.pair_scores(chunk.X))
    codes, probabilities = (np.concatenate(column) for column in zip(*parts, strict=True))
    if len(set(codes.tolist())) < 2:
        raise ValueError("the data have examples of one class only; an AUC needs two (check "
                         "--label).")  # fmt: skip
    of_pairs = np.concatenate(pairs) if pairs else None
    found = class_values(model.classes_.tolist(), codes, probabilities, of_pairs, confidence)
    by_name = {one["name"]: one for one in found["measures"]}
    short = {"hand_till": "Hand and Till's M",
             "hand_till_pairs": "Hand and Till's M, scores of the pairs"}  # fmt: skip
    values = {
        "rows": len(codes), "training_data": known.is_this(codes.astype("int64")),
        "accuracy": by_name["accuracy"]["value"], "log_loss": by_name["log loss"]["value"], **found,
    }  # fmt: skip
    for name, long in short.items():
        if long in by_name:
            one = by_name[long]
            values |= {name: one["value"], f"{name}_low": one["low"], f"{name}_high": one["high"]}

    def page(*, title: str, facts: dict[str, str]) -> Page:
        return class_page(values, codes, probabilities, title=title, facts=facts)

    return values, page


def _codes(model: Any, reader: Any, y: Vector) -> Places:
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


def _measure(model: Any, reader: Any) -> Answer:
    """Return the measures of a problem other than AUC, which has no page."""
    import numpy as np

    from pairlearn.models.provenance import TrainingData

    known = TrainingData.of_model(model)
    chunks = [replace(chunk, X=None) for chunk in _scored(model, reader, known)]
    labels = np.concatenate([np.asarray(chunk.y, dtype=np.float64) for chunk in chunks])
    values = {"rows": len(labels), **measure(model, chunks), "training_data": known.is_this(labels)}
    return values, None


# ------------------------------------------------------------------------------------ the lines


def _lines(values: dict[str, Any]) -> list[str]:
    page = [f"page: {values['page']}"] if "page" in values else []
    if "classes" in values:
        return [*_class_lines(values), *page]
    if "auc" not in values:
        apart = ("model", "refused", "rows", "training_data")
        measures = {name: value for name, value in values.items() if name not in apart}
        lines = [f"{name.replace('_', ' ')} {value:.6g}" for name, value in measures.items()]
        return [*lines, f"{values['rows']} rows"]
    lines = [
        f"AUC {values['auc']:.4f}, {100 * values['confidence']:g} % interval "
        f"[{values['low']:.4f}, {values['high']:.4f}]",
        f"{values['rows']} rows, {values['positive']} positive ({values['positive_class']})",
        f"{'at':<10} {'threshold':>12} {'recall':>8} {'fpr':>8} {'precision':>10} {'accuracy':>9}",
    ]
    for row in values["thresholds"]:
        precision = "-" if row["precision"] is None else f"{row['precision']:.4f}"
        lines.append(
            f"{row['at']:<10} {row['threshold']:>12.6g} {row['recall']:>8.4f} "
            f"{row['false_positive_rate']:>8.4f} {precision:>10} {row['accuracy']:>9.4f}"
        )
    return [*lines, *(_measure_lines(values) if "measures" in values else []), *page]


def _measure_lines(values: dict[str, Any]) -> list[str]:
    return [
        f"{'measure':<40} {'value':>8}  {100 * values['confidence']:g} % interval",
        *(
            f"{one['name']:<40} {one['value']:>8.4f}  [{one['low']:.4f}, {one['high']:.4f}]"
            for one in values["measures"]
        ),
    ]


def _class_lines(values: dict[str, Any]) -> list[str]:
    names = [str(one["class"]) for one in values["classes"]]
    width = max(len("class"), *map(len, names))
    head = f"{'class':<{width}} {'examples':>8} {'recall':>8} {'precision':>9} {'AUC':>8}"
    lines = [*_measure_lines(values), head]
    for name, one in zip(names, values["classes"], strict=True):
        shown = ["-" if one[k] is None else f"{one[k]:.4f}" for k in ("recall", "precision", "auc")]
        lines.append(
            f"{name:<{width}} {one['examples']:>8} {shown[0]:>8} {shown[1]:>9} {shown[2]:>8}"
        )
    size = max(len(str(n)) for row in values["confusion"] for n in row)
    lines.append("confusions: a row for each class, a column for what it is taken for")
    for name, row in zip(names, values["confusion"], strict=True):
        lines.append(f"{name:<{width}} {' '.join(f'{n:>{size}}' for n in row)}")
    return [*lines, f"{values['rows']} rows"]
