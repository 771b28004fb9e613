# SPDX-License-Identifier: BSD-3-Clause
"""Trees of scikit-learn as plain arrays, for the model file, and their scores.

A file must not hold code, so a fitted forest or fitted boosted trees are stored as the arrays of
their nodes. A kernel of ours scores them as scikit-learn does: to 1e-12, with missing values and
categories.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import (
    ExtraTreesClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)

from pairlearn.models.parts import decode, encode
from pairlearn.models.record import (
    ArraySpec,
    ModelFileError,
    ModelRecord,
    ModelSpec,
    reason,
    register_model,
)
from pairlearn.typing import Vector

#: What is stored, by the name in the file.
TREES: dict[str, Any] = {
    one.__name__: one
    for one in (HistGradientBoostingClassifier, RandomForestClassifier, ExtraTreesClassifier)
}
_LARGEST = float(np.finfo(np.float64).max)
#: The codes of a categorical feature in scikit-learn are smaller than this.
_CODES = 256


_INDEX = ("int64",)
#: The nodes of all trees, one tree after the other; see `pairlearn.kernels.trees`. `categories` are
#: the known values of categorical features, of feature `encoded[k]` from `category_ends[k - 1]` to
#: `category_ends[k]`. Their positions are the codes.
_NODES: dict[str, ArraySpec] = {
    "begins": ArraySpec(("n_trees",), _INDEX, low=0, order="strictly rising"),
    "feature": ArraySpec(("n_nodes",), _INDEX, low=0),
    "threshold": ArraySpec(("n_nodes",)),
    "left": ArraySpec(("n_nodes",), _INDEX, low=-1),
    "right": ArraySpec(("n_nodes",), _INDEX, low=-1),
    "value": ArraySpec(("n_nodes",)),
    "gap_left": ArraySpec(("n_nodes",), ("uint8",), high=1),
    "bits": ArraySpec(("n_nodes",), _INDEX, low=-1),
    "sets": ArraySpec(("n_sets", 8), _INDEX, low=0, high=2**32 - 1),
    "encoded": ArraySpec(("n_encoded",), _INDEX, low=0, order="strictly rising"),
    "categories": ArraySpec(("n_categories",)),
    "category_ends": ArraySpec(("n_encoded",), _INDEX, low=0, order="rising"),
}
_NUMBERS: dict[str, ArraySpec] = {
    "n_features": ArraySpec((), _INDEX, low=1),
    "start": ArraySpec(()),
    "share": ArraySpec((), low=0.0, high=1.0),
}


@dataclass(frozen=True, eq=False)
class TreeScores:
    """A fitted tree ensemble as arrays: its score is start + share times the sum over trees.

    `kind` is the class of scikit-learn that was fitted, with parameters `settings`; `takes_gaps`
    says whether missing values may come.
    """

    kind: str
    settings: Mapping[str, Any]
    nodes: Mapping[str, NDArray[Any]]
    n_features_in_: int
    start: float
    share: float
    takes_gaps: bool

    @property
    def is_forest(self) -> bool:
        """Whether the trees compare in single precision, as forests of scikit-learn do."""
        return bool(self.kind != HistGradientBoostingClassifier.__name__)

    def unfitted(self) -> Any:
        """Return scikit-learn's estimator with the same parameters, not fitted."""
        try:
            return TREES[self.kind](**self.settings)
        except TypeError as error:
            raise ModelFileError(f"its {self.kind} cannot be restored: {reason(error)}") from None

    def decision_function(self, X: NDArray[Any]) -> Vector:
        """Return the scores: log odds of boosted trees, probabilities of a forest."""
        from pairlearn.kernels.trees import add_trees

        X = np.asarray(X)
        if self.is_forest:
            with np.errstate(over="ignore"):
                X = X.astype(np.float32, copy=False)  # as scikit-learn's trees do
            if np.isinf(X).any():
                raise ValueError(
                    "X holds a value too large for float32, in which forests compare; give the "
                    "features in other units."
                )
        X = self._coded(np.array(X, dtype=np.float64, order="C"))
        total = np.full(len(X), self.start)
        n = self.nodes
        add_trees(
            X, n["begins"], n["feature"], n["threshold"], n["left"], n["right"], n["value"],
            n["gap_left"], n["bits"], n["sets"], total,
        )  # fmt: skip
        return total * self.share

    def _coded(self, X: Vector) -> Vector:
        """Put codes in place of categories; a value that training did not see is missing."""
        begin = 0
        for k, end in zip(self.nodes["encoded"], self.nodes["category_ends"], strict=True):
            known = self.nodes["categories"][begin:end]
            begin = int(end)
            place = np.minimum(np.searchsorted(known, X[:, k]), max(len(known) - 1, 0))
            found = known[place] == X[:, k] if len(known) else np.zeros(len(X), dtype=bool)
            X[:, k] = np.where(found, place.astype(np.float64), np.nan)
        return X

    def to_record(self, provenance: Mapping[str, Any]) -> ModelRecord:
        """Return the plain values that a file holds."""
        numbers = {"n_features": self.n_features_in_, "start": self.start, "share": self.share}
        arrays = {**self.nodes, **{name: np.array(value) for name, value in numbers.items()}}
        settings = {name: encode(value, name) for name, value in self.settings.items()}
        parameters = {"kind": self.kind, "settings": settings, "takes_gaps": self.takes_gaps}
        return ModelRecord("TreeScores", arrays, parameters=parameters, provenance=provenance)

    @classmethod
    def from_record(cls, record: ModelRecord) -> TreeScores:
        """Return the ensemble in a record; refuse nodes that a kernel could not follow."""
        nodes = {name: record.arrays[name].copy() for name in _NODES}
        width, start, share = (record.arrays[name].item() for name in _NUMBERS)
        _check(nodes, width)
        kind, settings = record.parameters.get("kind"), record.parameters.get("settings")
        gaps = record.parameters.get("takes_gaps")
        if kind not in TREES or not isinstance(settings, Mapping) or not isinstance(gaps, bool):
            raise ModelFileError(f"its trees are of an unknown kind, {str(kind)[:60]!r}.")
        decoded = {name: decode(value, name) for name, value in settings.items()}
        return cls(kind, decoded, nodes, width, start, share, gaps)


def _check(nodes: Mapping[str, NDArray[Any]], width: int) -> None:
    """Refuse nodes with which a walk would leave its tree, the row or the sets of codes."""
    begins, left, feature, bits = (nodes[name] for name in ("begins", "left", "feature", "bits"))
    n, encoded, codes = len(feature), nodes["encoded"], np.append(0, nodes["category_ends"])
    good = n > 0 and len(begins) > 0 and begins[0] == 0 and begins[-1] < n
    if good:
        ends = np.append(begins[1:], n)
        own = np.repeat(ends, ends - begins)
        place, splits = np.arange(n), left >= 0
        children = (left, nodes["right"])
        good = (
            all(((child > place) & (child < own))[splits].all() for child in children)
            and feature.max() < width
            and bits.max() < len(nodes["sets"])
            # A set of codes is asked only about a feature that holds codes.
            and np.isin(feature[bits >= 0], encoded).all()
            and codes[-1] == len(nodes["categories"])
            and (np.diff(codes) <= _CODES).all()
            and (encoded < width).all()
        )
    if not good:
        raise ModelFileError("the nodes of its trees do not fit together; save the model again.")


def tree_scores(model: Any, takes_gaps: bool) -> TreeScores | None:
    """Return a fitted ensemble of scikit-learn as arrays; None if it is of another kind."""
    if isinstance(model, TreeScores):
        return model
    # A class derived from these may score in another way.
    if type(model) not in TREES.values():
        return None
    try:
        nodes, start, share = _nodes_of(model)
    except (AttributeError, KeyError, ValueError) as error:
        raise ModelFileError(
            f"this version of scikit-learn keeps the trees of {type(model).__name__} in another "
            f"form ({reason(error)}); use pickle, or a version that pairlearn is tested with."
        ) from None
    settings = model.get_params(deep=False)
    kind = type(model).__name__
    return TreeScores(kind, settings, nodes, model.n_features_in_, start, share, takes_gaps)


def _nodes_of(model: Any) -> tuple[dict[str, NDArray[Any]], float, float]:
    """Return the nodes of a fitted ensemble, the score before them and the factor of their sum."""
    if type(model) is HistGradientBoostingClassifier:
        columns = [_of_boosting(one) for (one,) in model._predictors]
        start = float(model._baseline_prediction.ravel()[0])
        return _joined(columns, *_categories(model)), start, 1.0
    columns = [_of_forest(tree.tree_) for tree in model.estimators_]
    return _joined(columns, None, []), 0.0, 1.0 / len(columns)


def _of_forest(tree: Any) -> dict[str, NDArray[Any]]:
    state = tree.__getstate__()["nodes"]
    leaf = state["left_child"] < 0
    return {
        "feature": np.where(leaf, 0, state["feature"]),
        "threshold": _finite(np.where(leaf, 0.0, state["threshold"])),
        "left": np.where(leaf, -1, state["left_child"]),
        "right": np.where(leaf, -1, state["right_child"]),
        "value": np.where(leaf, tree.value[:, 0, 1], 0.0),
        "gap_left": state["missing_go_to_left"] * ~leaf,
        "bits": np.full(len(leaf), -1),
        "sets": np.empty((0, 8)),
    }


def _of_boosting(tree: Any) -> dict[str, NDArray[Any]]:
    nodes, leaf = tree.nodes, tree.nodes["is_leaf"] != 0
    of_codes = (nodes["is_categorical"] != 0) & ~leaf
    return {
        "feature": np.where(leaf, 0, nodes["feature_idx"]),
        "threshold": _finite(np.where(leaf | of_codes, 0.0, nodes["num_threshold"])),
        "left": np.where(leaf, -1, nodes["left"].astype(np.int64)),
        "right": np.where(leaf, -1, nodes["right"].astype(np.int64)),
        "value": np.where(leaf, nodes["value"], 0.0),
        "gap_left": nodes["missing_go_to_left"] * ~leaf,
        "bits": np.where(of_codes, nodes["bitset_idx"].astype(np.int64), -1),
        "sets": tree.raw_left_cat_bitsets.reshape(-1, 8),
    }


def _finite(threshold: Vector) -> Vector:
    """Return thresholds that a file can hold: an infinite one parts gaps from all numbers."""
    return np.clip(threshold, -_LARGEST, _LARGEST)


def _categories(model: Any) -> tuple[NDArray[np.int64] | None, list[tuple[int, Vector]]]:
    """Return the order of the columns inside boosted trees, and the categories by feature."""
    if model._preprocessor is None:
        return None, []
    mask = np.asarray(model.is_categorical_)
    order = np.concatenate([np.flatnonzero(mask), np.flatnonzero(~mask)])
    known = model._preprocessor.named_transformers_["encoder"].categories_
    values = [np.asarray(one, dtype=np.float64) for one in known]
    values = [one[~np.isnan(one)] for one in values]
    return order, list(zip(np.flatnonzero(mask).tolist(), values, strict=True))


def _joined(
    columns: list[dict[str, NDArray[Any]]],
    order: NDArray[np.int64] | None,
    encoders: list[tuple[int, Vector]],
) -> dict[str, NDArray[Any]]:
    """Put the trees one after the other."""
    sizes = [len(one["left"]) for one in columns]
    begins = np.cumsum([0, *sizes])[:-1]
    first_set = np.cumsum([0, *(len(one["sets"]) for one in columns)])[:-1]
    for begin, ahead, one in zip(begins, first_set, columns, strict=True):
        for name, shift in (("left", begin), ("right", begin), ("bits", ahead)):
            one[name] = np.where(one[name] >= 0, one[name] + shift, -1)
        if order is not None:
            one["feature"] = order[one["feature"]]
    types = {"threshold": np.float64, "value": np.float64, "gap_left": np.uint8}
    joined = {
        name: np.concatenate([one[name] for one in columns]).astype(types.get(name, np.int64))
        for name in columns[0]
    }
    values = [known for _, known in encoders]
    joined |= {
        "begins": begins.astype(np.int64),
        "encoded": np.array([feature for feature, _ in encoders], dtype=np.int64),
        "categories": np.concatenate(values) if values else np.empty(0),
        "category_ends": np.cumsum([len(known) for known in values]).astype(np.int64),
    }
    return joined


_PARAMETERS = ("kind", "settings", "takes_gaps")
register_model("TreeScores", ModelSpec(_NODES | _NUMBERS, _PARAMETERS, TreeScores.from_record))
