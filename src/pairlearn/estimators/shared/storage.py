# SPDX-License-Identifier: BSD-3-Clause
"""What estimators with parts share: nested parameters, `save` and `load`.

An estimator becomes storable with a few lines::

    class MyEstimator(Storable, BaseEstimator):
        _arrays = {"coef": ArraySpec(("n_features",)), "step_size": ArraySpec(())}

    register_storable(MyEstimator)

which stores the fitted attributes ``coef_`` and ``step_size_`` (numbers are arrays without
sides), the constructor's parameters, classes and feature names. Override `_pack` and `_unpack` for
attributes of other kinds.
"""

from __future__ import annotations

import dataclasses
import inspect
import os
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from pairlearn.features import FeatureMap, Identity
from pairlearn.models.parts import decode, encode, pack_map, unpack_map
from pairlearn.models.record import (
    ArraySpec,
    ModelFileError,
    ModelRecord,
    ModelSpec,
    check_record,
    reason,
    register_model,
)
from pairlearn.register import REGISTERS, Part, nearest
from pairlearn.restored import restored_labels

#: Entries of the parameters in a file: the type of the labels, which JSON does not keep, ...
_CLASS_TYPE = "classes_dtype"
#: ... the description of a feature map, whose numbers are in the array "features", ...
_MAP = "features_map"
#: ... and in it, whether the parameter `features` is this map, fitted; ...
_GIVEN = "given"
#: ... fitted attributes that are not arrays.
_FACTS = "fitted"
#: Arrays with a number for each feature, or for each mapped one.
_COEFFICIENTS = ("coef", "pair_coef", "components")
#: What other libraries call a parameter of ours.
_FOREIGN = {
    "C": "ridge",
    "alpha": "ridge",
    "reg_lambda": "ridge",
    "eta0": "step_size",
    "learning_rate": "step_size",
    "lr": "step_size",
    "stepsize": "step_size",
    "epochs": "n_passes",
    "max_iter": "n_passes",
    "kernel": "features",
    "seed": "random_state",
}


class Storable:
    """A mixin, before `BaseEstimator`: `save`, `load`, and parameters inside of parts.

    A nested name changes a copy of a part, never the part. It may stand for another part in an
    estimator of its own (`_named_parts`).

    Examples
    --------
    >>> from pairlearn import SGD, AUCClassifier, MetricLearner
    >>> AUCClassifier(solver=SGD()).set_params(solver__step_size=0.5).solver
    SGD(step_size=0.5)
    >>> AUCClassifier(solver="exact").set_params(solver__ridge=0.1).solver
    Exact(ridge=0.1)
    >>> MetricLearner(solver="sgd").set_params(solver__step_size=0.5).solver
    MetricSGD(step_size=0.5)
    """

    #: Fitted arrays by their name without the trailing underscore.
    _arrays: ClassVar[Mapping[str, ArraySpec]] = {}
    #: Fitted attributes that are stored as plain values: names, parts, records of a choice.
    _facts: ClassVar[Mapping[str, type]] = {}
    #: Parameters that are not stored: functions, open resources.
    _not_stored: ClassVar[tuple[str, ...]] = ()
    #: Whether X may be sparse.
    _takes_sparse: ClassVar[bool] = False
    #: The parts that names stand for in this estimator, where the register says something else.
    _named_parts: ClassVar[Mapping[str, Mapping[str, Callable[[], Part]]]] = {}

    def __new__(cls, *args: Any, **params: Any) -> Self:
        """Refuse a parameter that the constructor does not have, and name the cure."""
        known = inspect.signature(cls.__init__).parameters if params else {}
        unknown = [name for name in params if name not in known]
        if unknown and not any(p.kind is p.VAR_KEYWORD for p in known.values()):
            raise TypeError(_no_parameter(cls.__name__, unknown[0], list(known)[1:]))
        return super().__new__(cls)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.sparse = self._takes_sparse
        return tags

    def set_params(self, **params: Any) -> Self:
        """Set parameters; ``part__field=value`` sets a field of a part, which may be a name."""
        inner: dict[str, dict[str, Any]] = {}
        known = self.get_params(deep=False) | params  # type: ignore[attr-defined]
        for key in [*params]:
            name, _, rest = key.partition("__")
            if rest and isinstance(known.get(name), (Part, str)):
                inner.setdefault(name, {})[rest] = params.pop(key)
        super().set_params(**params)  # type: ignore[misc]
        for name, values in inner.items():
            part = getattr(self, name)
            if isinstance(part, str):
                makers: dict[str, Any] = {**REGISTERS[name]} if name in REGISTERS else {}
                makers |= self._named_parts.get(name, {})
                if part not in makers:
                    raise ValueError(
                        f"{name}__{next(iter(values))} is about a field of {name}, but "
                        f"{name}={part!r} has no fields; pass an object as {name} first."
                    )
                part = makers[part]()
            setattr(self, name, part.with_params(**values))
        return self

    def save(
        self, path: str | os.PathLike[str], *, provenance: Mapping[str, Any] | None = None
    ) -> None:
        """Write the fitted model to a file, by custom ``*.safetensors``, in one atomic step.

        `provenance` adds facts about the origin of the model, plain values.
        """
        from pairlearn.models.file import write_model

        write_model(path, self.to_record(provenance))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Return the fitted model in a file written by `save`.

        It predicts what the saved one predicted, bit for bit; a stack that holds a forest, up to
        rounding. Nothing in the file is executed.
        """
        from pairlearn.models.file import read_model

        record = read_model(path, allow_unregistered=True)
        if record.estimator != cls.__name__:
            raise ModelFileError(
                f"{path} holds a model of {record.estimator[:60]!r}, not of {cls.__name__!r}; "
                "pairlearn.models.load_model(path) loads either."
            )
        try:
            check_record(record)
            return cls.from_record(record)
        except ModelFileError as error:
            raise ModelFileError(f"{path}: {error}") from None

    def to_record(self, provenance: Mapping[str, Any] | None = None) -> ModelRecord:
        """Return the fitted model as the plain values that `save` writes."""
        check_is_fitted(self)
        parameters = {name: encode(v, name) for name, v in self._stored_parameters().items()}
        classes: Any = getattr(self, "classes_", None)
        if np.ndim(classes) == 2:  # Of many labels each has the classes 0 and 1.
            classes = None
        if classes is not None:
            parameters[_CLASS_TYPE] = classes.dtype.str if classes.dtype.kind != "O" else "object"
        if self._facts:
            parameters[_FACTS] = {
                name: encode(getattr(self, name, None), name) for name in self._facts
            }
        arrays = self._pack()
        features = self._stored_map()
        if features is not None:
            parameters[_MAP], arrays["features"] = pack_map(features)
            if features is getattr(self, "features", None):
                parameters[_MAP][_GIVEN] = True
        names = getattr(self, "feature_names_in_", None)
        certificate = getattr(self, "certificate_", None)
        return ModelRecord(
            type(self).__name__,
            arrays,
            parameters=parameters,
            classes=None if classes is None else classes.tolist(),
            feature_names=None if names is None else names.tolist(),
            provenance=self._provenance(dict(provenance or {})),
            certificate=None if certificate is None else certificate.to_dict(),
        )

    @classmethod
    def from_record(cls, record: ModelRecord) -> Self:
        """Return the fitted model of a record that has passed the checks of `read_model`."""
        parameters: dict[str, Any] = dict(record.parameters)
        kind, facts = parameters.pop(_CLASS_TYPE, "object"), parameters.pop(_FACTS, {})
        described, names = parameters.pop(_MAP, None), record.feature_names
        try:
            given = {name: decode(value, name) for name, value in parameters.items()}
            features = None
            if described is not None:
                features = unpack_map(described, record.arrays["features"])
                if described.get(_GIVEN) is True:
                    given["features"] = features
            model: Any = cls(**given)
            if record.classes is not None:
                model.classes_ = _classes(record.classes, kind)
            model._unpack(record)
            for name, value in facts.items():
                fact = decode(value, name)
                if fact is not None and not isinstance(fact, cls._facts[name]):
                    raise ValueError(f"{name} is a {type(fact).__name__}")
                setattr(model, name, fact)
            widths = {
                name: int(record.arrays[name].shape[rule.shape.index("n_features")])
                for name, rule in cls._arrays.items()
                if "n_features" in rule.shape and name in record.arrays
            }
            n_inputs = n_outputs = next(iter(widths.values()), 0)
            if features is not None:
                n_inputs, n_outputs = features.n_inputs, features.n_outputs
                model._restore_map(features)
            for name, width in widths.items():
                wanted = n_outputs if name in _COEFFICIENTS else n_inputs
                if width != wanted:
                    raise ModelFileError(f"array {name!r} has {width} features, not {wanted}.")
            if n_inputs:
                model.n_features_in_ = n_inputs
            if names is not None:
                if len(names) != model.n_features_in_:
                    raise ModelFileError(
                        f"it has {len(names)} feature names for {model.n_features_in_} features."
                    )
                model.feature_names_in_ = np.array(names, dtype=object)
        except ModelFileError:
            raise
        except (TypeError, KeyError, AttributeError, ValueError, OverflowError) as error:
            raise ModelFileError(f"it is no complete {cls.__name__}: {reason(error)}.") from None
        model.provenance_ = dict(record.provenance)
        return model  # type: ignore[no-any-return]

    def _stored_parameters(self) -> dict[str, Any]:
        """Return the parameters that the file holds."""
        given = self.get_params(deep=False)  # type: ignore[attr-defined]
        return {name: value for name, value in given.items() if name not in self._not_stored}

    def _pack(self) -> dict[str, NDArray[Any]]:
        """Return the fitted arrays; what is None or not there is left out.

        So is a number that may be absent and is not finite, since a file holds finite ones only.
        """
        arrays: dict[str, NDArray[Any]] = {}
        for name, rule in self._arrays.items():
            value = getattr(self, f"{name}_", None)
            if value is not None and (rule.required or np.isfinite(value).all()):
                array = np.asarray(value)
                known = array.dtype.name in rule.dtypes
                arrays[name] = array if known else array.astype(rule.dtypes[0])
        return arrays

    def _unpack(self, record: ModelRecord) -> None:
        """Set the fitted attributes from arrays; what is not there becomes None."""
        for name in self._arrays:
            array = record.arrays.get(name)
            value: Any = None
            if array is not None:
                value = array.copy() if array.ndim else array.item()
            setattr(self, f"{name}_", value)

    def _stored_map(self) -> FeatureMap | None:
        """Return the fitted map if there is one that changes anything."""
        features: FeatureMap | None = getattr(self, "features_", None)
        return None if isinstance(features, Identity) else features

    def _restore_map(self, features: FeatureMap) -> None:
        """Take over a fitted map."""
        raise ModelFileError(f"{type(self).__name__} takes no feature map.")

    def _provenance(self, given: dict[str, Any]) -> dict[str, Any]:
        """Return the known origin of the model, updated by the given facts."""
        known: dict[str, Any] = dict(getattr(self, "provenance_", {}))
        for name in ("n_examples_", "data_fingerprint_"):
            value = getattr(self, name, None)
            if value is not None:
                known["rows_seen" if name == "n_examples_" else "data_fingerprint"] = value
        return known | given


def _classes(known: tuple[Any, ...], kind: Any) -> NDArray[Any]:
    try:
        classes = restored_labels(list(known), kind)
    except ValueError as error:
        raise ModelFileError(f"its classes cannot be restored: {reason(error)}") from None
    if classes.tolist() != list(known):
        raise ModelFileError(f"its classes do not fit the type {str(kind)[:40]!r}.")
    return classes


def register_storable(estimator: type[Storable]) -> None:
    """Let files that name an estimator be loaded."""
    names = estimator._get_param_names()  # type: ignore[attr-defined]
    arrays = dict(estimator._arrays)
    entries = [name for name in names if name not in estimator._not_stored]
    if "features" in names:
        entries.append(_MAP)
        for name in set(_COEFFICIENTS) & set(arrays):
            rule = arrays[name]
            sides = tuple("n_mapped" if side == "n_features" else side for side in rule.shape)
            arrays[name] = dataclasses.replace(rule, shape=sides)
        arrays["features"] = ArraySpec(("n_values",), required=False)
    parameters = (*entries, _CLASS_TYPE, _FACTS)
    register_model(estimator.__name__, ModelSpec(arrays, parameters, estimator.from_record))


def _no_parameter(owner: str, name: str, known: list[str]) -> str:
    """Return the message for a parameter that an estimator does not have."""
    said = f"{owner} has no parameter {name!r}"
    meant = _FOREIGN.get(name, name)
    if meant in known:
        return f"{said}; here it is called {meant!r}."
    for kind in known:
        for part in REGISTERS.get(kind, {}).values():
            if dataclasses.is_dataclass(part) and meant in part.__dataclass_fields__:
                example = f"{kind}={part.__name__}({meant}=...)"
                return f"{said}; it is a setting of a {kind}, as in {example}."
    return said + nearest(name, known)
