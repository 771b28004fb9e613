# SPDX-License-Identifier: BSD-3-Clause
"""Models as ONNX graphs in double precision.

A linear score is a product. Trees are one operator `TreeEnsemble` of the domain ai.onnx.ml, whose
fifth version compares and adds in double precision.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import click

from pairlearn.cli.shared.scoring import kind_of

#: Versions of the operators, of those for trees, and of files that hold the latter.
_OPERATORS, _TREE_OPERATORS = 17, 5
_FILE, _FILE_WITH_TREES = 8, 10
#: A number of `nodes_modes`: the left child follows if the value is at most the threshold.
_AT_MOST = 0


def sigmoid_of(model: Any) -> tuple[float, float] | None:
    """Return slope and offset of the probabilities; None if they are no sigmoid."""
    calibrator = getattr(model, "_calibrator", None)
    if calibrator is None or not hasattr(calibrator, "slope"):
        return None
    return float(calibrator.slope), float(calibrator.intercept)


def pairs_of(model: Any, form: str) -> Any:
    """Return the scores of the pairs of a model of many classes."""
    name = type(model).__name__
    pairs = model if name == "MulticlassAUCClassifier" else getattr(model, "pairs_", None)
    if pairs is None:
        raise click.UsageError(f"{name} is not exported to {form}; load its file with pairlearn.")
    return pairs


def map_of(model: Any) -> Any:
    """Return the feature map of a model; None if the score is linear in the features."""
    from pairlearn.features import Identity

    features = getattr(model, "features_", None)
    return None if features is None or isinstance(features, Identity) else features


class _Graph:
    """An ONNX graph in double precision with one input, X; feature maps add their nodes to it."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.outputs: list[Any] = []
        self.has_trees = False

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
        features = map_of(model)
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
        versions = [helper.make_opsetid("", _OPERATORS)]
        if self.has_trees:
            versions.append(helper.make_opsetid("ai.onnx.ml", _TREE_OPERATORS))
        made = helper.make_model(graph, opset_imports=versions, producer_name="pairlearn")
        made.ir_version = _FILE_WITH_TREES if self.has_trees else _FILE
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
    elif hasattr(model, "members_"):
        _add_decisions(graph, model, _stack_score(graph, model))
    elif hasattr(model, "intercept_"):
        _add_decisions(graph, model, _linear_score(graph, model, "X"))
    else:
        name = type(pairs_of(model, "ONNX")).__name__
        raise click.UsageError(
            f"{name} is not exported to ONNX, which has no operator that couples pairs of classes; "
            "pass --to json."
        )
    return graph.to_bytes(int(model.n_features_in_))


def _linear_score(graph: _Graph, model: Any, given: str) -> str:
    import numpy as np

    rows = graph.mapped(model, _within_bounds(graph, model, given))
    product = graph.node("MatMul", [rows, graph.constant(model.coef_[0].reshape(-1, 1))])
    return graph.node("Squeeze", [product, graph.constant(np.array([1], dtype=np.int64))])


def _within_bounds(graph: _Graph, model: Any, given: str) -> str:
    """Add the clipping of a private model to its bounds; return the name of the rows.

    A missing value becomes the middle of the bounds. Rows of other models stay as they are.
    """
    if not hasattr(model, "certificate_"):
        return given
    lower, upper = model.bounds_
    middle = graph.constant(0.5 * lower + 0.5 * upper)
    filled = graph.node("Where", [graph.node("IsNaN", [given]), middle, given])
    raised = graph.node("Max", [filled, graph.constant(lower)])
    return graph.node("Min", [raised, graph.constant(upper)])


def _add_decisions(graph: _Graph, model: Any, plain: str) -> None:
    """Add score, label and, if the model has a sigmoid, probability of a plain score."""
    import numpy as np

    intercept = graph.constant(np.array(model.intercept_[0]))
    graph.output(graph.node("Add", [plain, intercept], "score"))
    if not hasattr(model, "predict"):  # a private stream has no threshold
        return
    chosen = graph.node("Greater", ["score", graph.constant(np.array(0.0))])
    # As Python's values: an array of objects may hold numbers.
    classes = model.classes_.tolist()
    kind, dtype = {"U": ("STRING", object), "f": ("DOUBLE", float)}.get(
        np.array(classes).dtype.kind, ("INT64", np.int64)
    )
    if kind == "INT64" and max(map(int, classes)) > np.iinfo(np.int64).max:
        raise click.UsageError(
            f"the label {max(map(int, classes))} is larger than whole numbers of ONNX labels "
            f"({np.iinfo(np.int64).max}); train on labels that are texts."
        )
    negative, positive = (graph.constant(np.array(c, dtype=dtype)) for c in classes)
    graph.output(graph.node("Where", [chosen, positive, negative], "label"), kind)
    sigmoid = sigmoid_of(model)
    if sigmoid is not None:
        slope, offset = (graph.constant(np.array(number)) for number in sigmoid)
        odds = graph.node("Add", [graph.node("Mul", [plain, slope]), offset])
        graph.output(graph.node("Sigmoid", [odds], "probability"))


def _stack_score(graph: _Graph, model: Any) -> str:
    """Add the weighted sum of the scores of a stack's members, in their units; return its name."""
    import numpy as np

    from pairlearn.estimators.stack.members import takes_gaps
    from pairlearn.estimators.stack.trees import TreeScores

    filled = _filled(graph, *model.filling)
    total = graph.constant(np.array(0.0))
    parts = zip(model.members_.items(), model.centres_, model.spreads_, strict=True)
    for (name, member), centre, spread in parts:
        weight = model.weights_[name]
        if weight == 0.0:
            continue
        rows = "X" if takes_gaps(member) else filled
        if isinstance(member, TreeScores):
            score = _tree_score(graph, member, name, rows)
        elif hasattr(member, "intercept_") and hasattr(member, "coef_"):
            intercept = graph.constant(np.array(member.intercept_[0]))
            score = graph.node("Add", [_linear_score(graph, member, rows), intercept])
        else:
            raise click.UsageError(
                f"member {name!r} of the stack is a {type(member).__name__}, which is not "
                "exported to ONNX; load its file with pairlearn."
            )
        away = graph.node("Sub", [score, graph.constant(np.array(float(centre)))])
        share = graph.constant(np.array(float(weight / spread)))
        total = graph.node("Add", [total, graph.node("Mul", [away, share])])
    return total


def _filled(graph: _Graph, medians: Any, flagged: Any) -> str:
    """Add rows without gaps, followed by indicators of the flagged features; return their name."""
    import numpy as np
    from onnx import TensorProto

    missing = graph.node("IsNaN", ["X"])
    filled = graph.node("Where", [missing, graph.constant(medians), "X"])
    if not len(flagged):
        return filled
    places = graph.constant(flagged.astype(np.int64))
    some = graph.node("Gather", [missing, places], axis=1)
    return graph.node("Concat", [filled, graph.node("Cast", [some], to=TensorProto.DOUBLE)], axis=1)


def _tree_score(graph: _Graph, trees: Any, name: str, rows: str) -> str:
    """Add start + share times the sum over trees; return its name.

    The operator has inner nodes and leaves apart. A tree of one leaf has one inner node, both of
    whose children are that leaf.
    """
    import numpy as np
    from onnx import TensorProto, numpy_helper

    nodes = SimpleNamespace(**trees.nodes)
    if len(nodes.encoded):
        raise click.UsageError(
            f"member {name!r} of the stack splits categories, which ONNX cannot follow where a "
            "category is new; load its file with pairlearn."
        )
    if trees.is_forest:
        # Forests compare in single precision.
        rows = graph.node("Cast", [rows], to=TensorProto.FLOAT)
        rows = graph.node("Cast", [rows], to=TensorProto.DOUBLE)
    leaf = nodes.left < 0
    inner = ~leaf
    inner[nodes.begins] = True  # the only node of a tree of one leaf too
    single = leaf & inner
    place = np.where(leaf, np.cumsum(leaf) - 1, np.cumsum(inner) - 1)
    own = np.arange(len(leaf))
    left, right = (np.where(single, own, child)[inner] for child in (nodes.left, nodes.right))

    def tensor(values: Any) -> Any:
        return numpy_helper.from_array(np.ascontiguousarray(values, dtype=np.float64))

    found = graph.node(
        "TreeEnsemble", [rows], domain="ai.onnx.ml", n_targets=1, aggregate_function=1,
        tree_roots=(np.cumsum(inner) - 1)[nodes.begins].tolist(),
        nodes_featureids=nodes.feature[inner].tolist(),
        nodes_splits=tensor(nodes.threshold[inner]),
        nodes_modes=numpy_helper.from_array(np.full(int(inner.sum()), _AT_MOST, dtype=np.uint8)),
        nodes_truenodeids=place[left].tolist(), nodes_trueleafs=leaf[left].astype(int).tolist(),
        nodes_falsenodeids=place[right].tolist(), nodes_falseleafs=leaf[right].astype(int).tolist(),
        nodes_missing_value_tracks_true=nodes.gap_left[inner].astype(int).tolist(),
        leaf_targetids=[0] * int(leaf.sum()), leaf_weights=tensor(nodes.value[leaf]),
    )  # fmt: skip
    graph.has_trees = True
    total = graph.node("Squeeze", [found, graph.constant(np.array([1], dtype=np.int64))])
    shared = graph.node("Add", [total, graph.constant(np.array(trees.start))])
    return graph.node("Mul", [shared, graph.constant(np.array(trees.share))])


def _add_product(graph: _Graph, model: Any) -> None:
    """Add one product: rows times coefficients plus intercept, or rows times a matrix."""
    import numpy as np

    name = kind_of(model).result
    rows = graph.mapped(model, _within_bounds(graph, model, "X"))
    if hasattr(model, "components_"):
        matrix = graph.constant(np.ascontiguousarray(model.components_.T))
        graph.output(graph.node("MatMul", [rows, matrix], name),
                     shape=("n", len(model.components_)))  # fmt: skip
        return
    product = graph.node("MatMul", [rows, graph.constant(model.coef_)])
    intercept = graph.constant(np.array(float(getattr(model, "intercept_", 0.0))))
    graph.output(graph.node("Add", [product, intercept], name))
