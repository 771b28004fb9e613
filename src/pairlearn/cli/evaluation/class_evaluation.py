# SPDX-License-Identifier: BSD-3-Clause
"""What ``pairlearn evaluate`` prints and draws for more than two classes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from pairlearn.cli.shared.scoring import names_compared, probabilities_of
from pairlearn.typing import Places, Vector

if TYPE_CHECKING:
    from pairlearn.cli.shared.scoring import Scored
    from pairlearn.experiments.report.class_evaluation import ClassEvidence
    from pairlearn.experiments.report.page import Page


def gather(model: Any, reader: Any, chunks: Iterable[Scored], confidence: float) -> ClassEvidence:
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

    from pairlearn.streams.readers.base import ReadError

    encoder = getattr(reader, "encoder", None)
    layout = getattr(reader, "layout", None)
    label = None if encoder is None else encoder.label
    if (label is not None and label.kind != "numbers") or (
        layout is not None and layout.schema.text_labels
    ):
        return y.astype(np.intp)
    code = {label: k for k, label in enumerate(model.classes_.tolist())}
    try:
        return np.array([code[label] for label in y.tolist()], dtype=np.intp)
    except KeyError as error:
        raise ReadError(
            f"the label {error.args[0]!r} is none of the classes {model.classes_.tolist()} of the "
            "model."
        ) from None


def class_values(evidence: ClassEvidence) -> dict[str, Any]:
    """Return the measures, each class against the others, and the confusions, as plain values."""
    from pairlearn.experiments.report.class_evaluation import class_measures, classwise
    from pairlearn.streams.readers.base import ReadError

    if len(set(evidence.codes.tolist())) < 2:
        raise ReadError("the data have examples of one class only; an AUC needs two (check "
                        "--label).")  # fmt: skip
    measures = class_measures(evidence)
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
            for one in classwise(evidence)
        ],
        "confusion": evidence.confusion.tolist(),
    }


def class_text(values: dict[str, Any], rows: int) -> str:
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
    lines.append(f"{rows} rows")
    if "page" in values:
        lines.append(f"page: {values['page']}")
    return "\n".join(lines)


def page_of(evidence: ClassEvidence, title: str, facts: dict[str, str]) -> Page:
    """Return the page with all measures and curves."""
    from pairlearn.experiments.report.class_evaluation import class_measures, class_page, classwise

    measures, classes = class_measures(evidence), classwise(evidence)
    return class_page(evidence, measures, classes, title=title, facts=facts)
