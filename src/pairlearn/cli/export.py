# SPDX-License-Identifier: BSD-3-Clause
"""``pairlearn export``: a model as plain JSON or as ONNX."""

from __future__ import annotations

from typing import Any

import click

from pairlearn.cli.shared.paths import FilePath, force_option, read_argument
from pairlearn.cli.shared.problem_kinds import kind_of


@click.command("export")
@read_argument("model")
@click.option("--to", "kind", type=click.Choice(["json", "onnx"]), required=True,
              help="json: plain coefficients; onnx: a graph for onnxruntime.")  # fmt: skip
@click.option("-o", "--output", type=FilePath("write", "exported", instead=True), metavar="FILE",
              help="Where to write; JSON goes to standard output by default.")  # fmt: skip
@force_option
def command(model: str, kind: str, output: str | None) -> None:
    r"""Export a model for programs that do not use this library.

    The ONNX graph takes X (double, rows by features) and gives score (positive where the model
    says positive), label, and probability where the model has a sigmoid; for a ranking score, for
    a regression prediction, for a metric z, the image of each row. Mapped features (hats, Fourier)
    are part of the graph; in JSON they stand under "features" with all their numbers.

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
    return [str(j) for j in range(model.n_features_in_)] if names is None else names.tolist()


def _sigmoid(model: Any) -> tuple[float, float] | None:
    calibrator = getattr(model, "_calibrator", None)
    if calibrator is None or not hasattr(calibrator, "slope"):
        return None
    return float(calibrator.slope), float(calibrator.intercept)


def as_json(model: Any) -> dict[str, Any]:
    """Return a model as plain values.

    Of a classifier the score of x is intercept + sum of coefficient times value, and the label is
    the second class where it is positive. The probability is
    1 / (1 + exp(-(slope (score - intercept) + offset))).
    Of a ranking or a regression the result is the same sum. A metric maps x to components x.
    With a feature map, "features" describes it, and coefficients and components are lists about
    mapped rows. Of more than two classes "pairs" has such a score, without intercept, and the
    probability of the second class of each pair; Wu, Lin and Weng's second method couples them to
    those of the classes, which are raised to "power" and divided by their sum.
    """
    if kind_of(model).name != "auc":
        return _plain_json(model)
    if not hasattr(model, "intercept_"):
        return _pairs_json(model)
    found: dict[str, Any] = {
        "estimator": type(model).__name__,
        "classes": model.classes_.tolist(),
        "intercept": float(model.intercept_[0]),
        **_coefficients(model, model.coef_[0]),
    }
    sigmoid = _sigmoid(model)
    if sigmoid is not None:
        found["probability"] = {"slope": sigmoid[0], "offset": sigmoid[1]}
    if hasattr(model, "certificate_"):
        lower, upper = model.bounds_
        found["bounds"] = {"lower": lower.tolist(), "upper": upper.tolist()}
        found["certificate"] = model.certificate_.to_dict()
    return found


def _map_of(model: Any) -> Any:
    """Return the feature map of a model; None if the score is linear in the features."""
    from pairlearn.features import Identity

    features = getattr(model, "features_", None)
    return None if features is None or isinstance(features, Identity) else features


def _coefficients(model: Any, coef: Any) -> dict[str, Any]:
    from pairlearn.models.maps import plain_map

    features = _map_of(model)
    if features is None:
        return {"coefficients": dict(zip(_names(model), coef.tolist(), strict=True))}
    return {"inputs": _names(model), "features": plain_map(features), "coefficients": coef.tolist()}


def _plain_json(model: Any) -> dict[str, Any]:
    from pairlearn.models.maps import plain_map

    found: dict[str, Any] = {"estimator": type(model).__name__}
    features = _map_of(model)
    if hasattr(model, "components_"):
        components = {"components": model.components_.tolist()}
        if features is None:
            return {**found, "features": _names(model), **components}
        return {**found, "inputs": _names(model), "features": plain_map(features), **components}
    intercept = float(getattr(model, "intercept_", 0.0))
    return {**found, "intercept": intercept, **_coefficients(model, model.coef_)}


def _pairs_json(model: Any) -> dict[str, Any]:
    """Return the scores of all pairs of classes."""
    from itertools import combinations

    pairs = _pairs_of(model, "JSON")
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


def _pairs_of(model: Any, form: str) -> Any:
    """Return the scores of the pairs of a model of many classes."""
    name = type(model).__name__
    pairs = model if name == "MulticlassAUCClassifier" else getattr(model, "pairs_", None)
    if pairs is None:
        raise click.UsageError(f"{name} is not exported to {form}; load its file with pairlearn.")
    return pairs


class _Graph:
    """An ONNX graph in double precision with one input, X; feature maps add their nodes to it."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.outputs: list[Any] = []

    def constant(self, value: Any) -> str:
        """Add an array and return its name."""
        from onnx import numpy_helper

        name = f"constant_{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(value, name))
        return name

    def node(self, operator: str, inputs: list[str], result: str = "", **attributes: Any) -> str:
        """Add an operator and return the name of its result."""
        from onnx import helper

        name = result or f"node_{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, inputs, [name], **attributes))
        return name

    def output(self, name: str, kind: str = "DOUBLE", shape: tuple[Any, ...] = ("n",)) -> None:
        """Make a result an output of the graph."""
        from onnx import TensorProto, helper

        made = helper.make_tensor_value_info(name, getattr(TensorProto, kind), shape)
        self.outputs.append(made)

    def mapped(self, model: Any, rows: str) -> str:
        """Add the feature map of a model; return the name of the mapped rows."""
        features = _map_of(model)
        try:
            return rows if features is None else str(features.onnx(self, rows))
        except ValueError as error:
            raise click.UsageError(str(error)) from None

    def to_bytes(self, width: int) -> bytes:
        """Return the checked graph for rows of a given width."""
        import onnx
        from onnx import TensorProto, helper

        rows = helper.make_tensor_value_info("X", TensorProto.DOUBLE, ["n", width])
        graph = helper.make_graph(self.nodes, "pairlearn", [rows], self.outputs, self.constants)
        made = helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", 17)], producer_name="pairlearn"
        )
        made.ir_version = 8
        onnx.checker.check_model(made)
        data: bytes = made.SerializeToString()
        return data


def as_onnx(model: Any) -> bytes:
    """Return a model as an ONNX graph in double precision."""
    from importlib.util import find_spec

    if find_spec("onnx") is None:
        raise click.UsageError("ONNX needs the package onnx; install pairlearn[onnx].")
    if not hasattr(model, "n_features_in_"):
        raise click.UsageError(
            f"{type(model).__name__} is not exported to ONNX; load its file with pairlearn."
        )
    graph = _Graph()
    if kind_of(model).name != "auc":
        _add_product(graph, model)
    elif hasattr(model, "intercept_"):
        _add_classifier(graph, model)
    else:
        raise click.UsageError(
            f"{type(model).__name__} is not exported to ONNX, which has no operator that couples "
            "pairs of classes; pass --to json."
        )
    return graph.to_bytes(int(model.n_features_in_))


def _add_classifier(graph: _Graph, model: Any) -> None:
    """Add score, label and, if the model has a sigmoid, probability."""
    import numpy as np

    rows = "X"
    if hasattr(model, "certificate_"):
        # A private model clips to its public bounds; a missing value becomes their middle.
        lower, upper = model.bounds_
        middle = graph.constant(0.5 * lower + 0.5 * upper)
        filled = graph.node("Where", [graph.node("IsNaN", ["X"]), middle, "X"])
        raised = graph.node("Max", [filled, graph.constant(lower)])
        rows = graph.node("Min", [raised, graph.constant(upper)])
    rows = graph.mapped(model, rows)
    product = graph.node("MatMul", [rows, graph.constant(model.coef_[0].reshape(-1, 1))])
    plain = graph.node("Squeeze", [product, graph.constant(np.array([1], dtype=np.int64))])
    intercept = graph.constant(np.array(model.intercept_[0]))
    graph.output(graph.node("Add", [plain, intercept], "score"))
    chosen = graph.node("Greater", ["score", graph.constant(np.array(0.0))])
    kind, dtype = {"U": ("STRING", object), "O": ("STRING", object), "f": ("DOUBLE", float)}.get(
        model.classes_.dtype.kind, ("INT64", np.int64)
    )
    classes = [str(c) if kind == "STRING" else c for c in model.classes_]
    negative, positive = (graph.constant(np.array(c, dtype=dtype)) for c in classes)
    graph.output(graph.node("Where", [chosen, positive, negative], "label"), kind)
    sigmoid = _sigmoid(model)
    if sigmoid is not None:
        slope, offset = (graph.constant(np.array(number)) for number in sigmoid)
        odds = graph.node("Add", [graph.node("Mul", [plain, slope]), offset])
        graph.output(graph.node("Sigmoid", [odds], "probability"))


def _add_product(graph: _Graph, model: Any) -> None:
    """Add one product: rows times coefficients plus intercept, or rows times a matrix."""
    import numpy as np

    name = kind_of(model).result
    rows = graph.mapped(model, "X")
    if hasattr(model, "components_"):
        matrix = graph.constant(np.ascontiguousarray(model.components_.T))
        graph.output(graph.node("MatMul", [rows, matrix], name),
                     shape=("n", len(model.components_)))  # fmt: skip
        return
    product = graph.node("MatMul", [rows, graph.constant(model.coef_)])
    intercept = graph.constant(np.array(float(getattr(model, "intercept_", 0.0))))
    graph.output(graph.node("Add", [product, intercept], name))
