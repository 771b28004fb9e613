# SPDX-License-Identifier: BSD-3-Clause
"""The estimators that a model file may hold, and the rules for their arrays.

An estimator registers itself by name when its module is imported. The library's own estimators are
listed here with their modules, which are imported when needed. A file can only name an entry of
these tables: it never decides what is imported or called.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from numpy.typing import NDArray

from pairlearn.models.record import ModelFileError, ModelRecord


@dataclass(frozen=True)
class ArraySpec:
    """Type and shape of one array.

    Parameters
    ----------
    shape : tuple of int or str
        Sides; equal names must have equal lengths. The name ``"n_features"`` must also match the
        feature names, ``"n_classes"`` the classes.
    dtypes : tuple of str
        Allowed types.
    required : bool
        Whether the array is required.
    low, high : float
        The smallest and the largest allowed value.
    order : {"any", "rising", "strictly rising"}
        The order of the values of a vector.
    """

    shape: tuple[int | str, ...]
    dtypes: tuple[str, ...] = ("float64",)
    required: bool = True
    low: float = -math.inf
    high: float = math.inf
    order: Literal["any", "rising", "strictly rising"] = "any"

    def check_values(self, name: str, array: NDArray[Any]) -> None:
        """Refuse values that no fit gives."""
        if array.size and not (array.min() >= self.low and array.max() <= self.high):
            odd = array.min() if array.min() < self.low else array.max()
            raise ModelFileError(
                f"array {name!r} holds {odd:g}, it must lie between {self.low:g} and {self.high:g}."
            )
        if self.order != "any":
            strictly = self.order == "strictly rising"
            bad = array[1:] <= array[:-1] if strictly else array[1:] < array[:-1]
            if bad.any():
                raise ModelFileError(f"array {name!r} must be {self.order}.")


@dataclass(frozen=True)
class ModelSpec:
    """The required content of a record of one estimator.

    Parameters
    ----------
    name : str
        The estimator's name in the file.
    arrays : mapping of str to ArraySpec
        Its arrays; others are refused.
    build : callable
        Makes the fitted estimator from a checked record.
    parameters : tuple of str
        Names of allowed parameters; others are refused.
    """

    name: str
    arrays: Mapping[str, ArraySpec]
    build: Callable[[ModelRecord], Any]
    parameters: tuple[str, ...] = field(default=())


_SPECS: dict[str, ModelSpec] = {}

#: The modules of the library's own estimators.
_HOMES = {
    "AUCClassifier": "pairlearn.estimators.auc.classifier",
    "AUCStack": "pairlearn.estimators.stack.classifier",
    "EmbeddingLearner": "pairlearn.torch.embedder",
    "EntropyRegressor": "pairlearn.estimators.entropy",
    "MetricLearner": "pairlearn.estimators.metric.learner",
    "MulticlassAUCClassifier": "pairlearn.estimators.classes.multiclass",
    "MultilabelAUCClassifier": "pairlearn.estimators.multilabel",
    "NeuralAUCClassifier": "pairlearn.torch.classifier",
    "OrdinalAUCClassifier": "pairlearn.estimators.classes.ordinal",
    "PairwiseRanker": "pairlearn.estimators.ranking.ranker",
    "PairwiseRatings": "pairlearn.estimators.ratings.ratings",
    "PrivateAUCClassifier": "pairlearn.estimators.private.auc",
    "PrivateAUCContinual": "pairlearn.estimators.private.continual",
    "PrivateEntropyRegressor": "pairlearn.estimators.private.entropy",
    "PrivateMetricLearner": "pairlearn.estimators.private.metric",
    "PrivateNeuralAUCClassifier": "pairlearn.torch.private",
    "PrivateRatings": "pairlearn.estimators.private.ratings",
    "SurvivalRanker": "pairlearn.estimators.survival.ranker",
}


def register_model(spec: ModelSpec) -> ModelSpec:
    """Register an estimator; its name must be new.

    Examples
    --------
    >>> spec = ModelSpec("Example", {"coef": ArraySpec(("n_features",))}, build=lambda r: r)
    >>> _ = register_model(spec)
    >>> "Example" in registered()
    True
    >>> _ = _SPECS.pop("Example")
    """
    if _SPECS.get(spec.name, spec) != spec:
        raise ModelFileError(f"an estimator named {spec.name!r} is already registered.")
    _SPECS[spec.name] = spec
    return spec


def registered() -> tuple[str, ...]:
    """Return the names of the registered estimators."""
    return tuple(sorted(_SPECS))


def spec_of(name: str) -> ModelSpec:
    """Return the entry of an estimator; import its module if it is one of the library's own."""
    if name not in _SPECS and name in _HOMES:
        importlib.import_module(_HOMES[name])
    if name not in _SPECS:
        known = ", ".join(sorted({*_SPECS, *_HOMES}))
        raise ModelFileError(
            f"it holds a model of {name[:60]!r}, unknown to this version (known: {known}); "
            "upgrade pairlearn, or import the module that defines it first."
        )
    return _SPECS[name]


def check_record(record: ModelRecord, *, allow_unregistered: bool = False) -> None:
    """Check a record against the entry of its estimator."""
    if allow_unregistered and record.estimator not in _SPECS:
        return
    spec = spec_of(record.estimator)
    odd = sorted(set(record.parameters) - set(spec.parameters))
    if odd:
        raise ModelFileError(f"{spec.name} has no parameter {odd[0][:60]!r}.")
    for name in record.arrays:
        if name not in spec.arrays:
            raise ModelFileError(f"{spec.name} has no array {name!r}.")
    sides: dict[str, int] = {}
    if record.feature_names is not None:
        sides["n_features"] = len(record.feature_names)
    if record.classes is not None:
        sides["n_classes"] = len(record.classes)
    for name, rule in spec.arrays.items():
        array = record.arrays.get(name)
        if array is None:
            if rule.required:
                raise ModelFileError(f"array {name!r} of {spec.name} is missing.")
            continue
        if array.dtype.name not in rule.dtypes:
            raise ModelFileError(
                f"array {name!r} is {array.dtype.name}, {spec.name} needs "
                f"{' or '.join(rule.dtypes)}."
            )
        good = len(array.shape) == len(rule.shape)
        for side, wanted in zip(array.shape, rule.shape, strict=False):
            good = good and side == (
                sides.setdefault(wanted, side) if isinstance(wanted, str) else wanted
            )
        if not good:
            raise ModelFileError(
                f"array {name!r} has shape {array.shape}, {spec.name} needs "
                f"({', '.join(map(str, rule.shape))}) with {sides}."
            )
        rule.check_values(name, array)
    if sides.get("n_features") == 0:
        raise ModelFileError(f"a {spec.name} without features cannot be used.")
