# SPDX-License-Identifier: BSD-3-Clause
"""``pairlearn export``: a model as plain JSON or as ONNX."""

from __future__ import annotations

from typing import Any

import click

from pairlearn.cli.shared.files import OutputPath, read_argument
from pairlearn.cli.shared.onnx_models import as_onnx, map_of, pairs_of, sigmoid_of
from pairlearn.cli.shared.scoring import kind_of


@click.command("export")
@read_argument("model")
@click.option("--to", "kind", type=click.Choice(["json", "onnx"]), required=True,
              help="json: plain coefficients; onnx: a graph for onnxruntime.")  # fmt: skip
@click.option("-o", "--output", type=OutputPath(), metavar="FILE",
              help="Where to write; JSON goes to standard output by default.")  # fmt: skip
def command(model: str, kind: str, output: str | None) -> None:
    r"""Export a model for programs that do not use this library.

    The ONNX graph takes X (double, rows by features) and gives score (positive where the model
    says positive), label, and probability where the model has a sigmoid; for a ranking score, for
    a regression prediction, for a metric z, the image of each row. Mapped features (hats, Fourier)
    are part of the graph; in JSON they stand under "features" with all their numbers. In JSON a
    private model has "bounds", to which values are clipped first. Trees and stacks have an ONNX
    graph, in which missing values are NaN, and no JSON.

    \b
    Examples:
      pairlearn export model.safetensors --to json
      pairlearn export model.safetensors --to onnx -o model.onnx
    """
    import json

    from pairlearn.atomic import atomic_write
    from pairlearn.models import load_model

    fitted = load_model(model)
    if kind == "json":
        text = json.dumps(as_json(fitted), ensure_ascii=False, allow_nan=False, indent=2)
        if output is None:
            click.echo(text)
        else:
            atomic_write(output, (text + "\n").encode())
        return
    if output is None:
        raise click.UsageError("an ONNX file is not text; name it with -o FILE.")
    atomic_write(output, as_onnx(fitted))


def _names(model: Any) -> list[str]:
    names = getattr(model, "feature_names_in_", None)
    return list(map(str, range(model.n_features_in_)) if names is None else names)


def as_json(model: Any) -> dict[str, Any]:
    """Return a model as plain values.

    Of a classifier the score of x is intercept + sum of coefficient times value, and the label is
    the second class where it is positive. The probability is
    1 / (1 + exp(-(slope (score - intercept) + offset))).
    Of a ranking or a regression the result is the same sum. A metric maps x to components x.
    With a feature map, "features" describes it, and coefficients and components are lists about
    mapped rows. Of more than two classes "pairs" has such a score, without intercept, and the
    probability of the second class of each pair; Wu, Lin and Weng's second method couples them to
    those of the classes, which are raised to "power" and divided by their sum. Of a private model
    x is clipped to "bounds" first, and a missing value is their middle.
    """
    if kind_of(model).name != "auc":
        return _plain_json(model)
    if hasattr(model, "members_"):
        raise click.UsageError(
            "the model is of trees or a stack, which are not exported to JSON; pass --to onnx."
        )
    if not hasattr(model, "intercept_"):
        return _pairs_json(model)
    found: dict[str, Any] = {
        "estimator": type(model).__name__,
        "classes": model.classes_.tolist(),
        "intercept": float(model.intercept_[0]),
        **_coefficients(model, model.coef_[0]),
    }
    sigmoid = sigmoid_of(model)
    if sigmoid is not None:
        found["probability"] = {"slope": sigmoid[0], "offset": sigmoid[1]}
    return {**found, **_private(model)}


def _private(model: Any) -> dict[str, Any]:
    """Return the bounds to which a private model clips, and its certificate."""
    if not hasattr(model, "certificate_"):
        return {}
    lower, upper = model.bounds_
    bounds = {"lower": lower.tolist(), "upper": upper.tolist()}
    return {"bounds": bounds, "certificate": model.certificate_.to_dict()}


def _coefficients(model: Any, coef: Any) -> dict[str, Any]:
    from pairlearn.models.parts import plain_map

    features = map_of(model)
    if features is None:
        return {"coefficients": dict(zip(_names(model), coef.tolist(), strict=True))}
    return {"inputs": _names(model), "features": plain_map(features), "coefficients": coef.tolist()}


def _plain_json(model: Any) -> dict[str, Any]:
    from pairlearn.models.parts import plain_map

    found: dict[str, Any] = {"estimator": type(model).__name__}
    features = map_of(model)
    if hasattr(model, "components_"):
        components = {"components": model.components_.tolist()}
        if features is None:
            return {**found, "features": _names(model), **components, **_private(model)}
        return {**found, "inputs": _names(model), "features": plain_map(features), **components}
    intercept = float(getattr(model, "intercept_", 0.0))
    coefficients = _coefficients(model, model.coef_)
    return {**found, "intercept": intercept, **coefficients, **_private(model)}


def _pairs_json(model: Any) -> dict[str, Any]:
    from itertools import combinations

    pairs = pairs_of(model, "JSON")
    scores = []
    classes = combinations(model.classes_.tolist(), 2)
    for pair, coef, (slope, offset) in zip(
        classes, pairs.coef_, pairs.sigmoids_.tolist(), strict=True
    ):
        own = _coefficients(model, coef)["coefficients"]
        chance = {"slope": slope, "offset": offset}
        scores.append({"classes": list(pair), "coefficients": own, "probability": chance})
    known = {k: v for k, v in _coefficients(model, pairs.coef_[0]).items() if k != "coefficients"}
    return {
        "estimator": type(model).__name__,
        "classes": model.classes_.tolist(),
        **known,
        "pairs": scores,
        "power": float(pairs.power_),
    }
