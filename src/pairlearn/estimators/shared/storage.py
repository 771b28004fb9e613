# SPDX-License-Identifier: BSD-3-Clause
"""What estimators with parts share: nested parameters, `save` and `load`.

An estimator becomes storable with a few lines::

    class MyEstimator(Storable, BaseEstimator):
        _arrays = {"coef": ArraySpec(("n_features",)), "step_size": ArraySpec(())}

    register_storable(MyEstimator)

which stores the fitted attributes ``coef_`` and ``step_size_`` (numbers are arrays without
sides), the constructor's parameters, classes and feature names. Override `_pack` and `_unpack` for
attributes of other kinds. Add the name of the module to the table in `models.registry`, so that a
file can be loaded before the module was imported.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from pairlearn.estimators.shared.composed import Composed
from pairlearn.features import FeatureMap, Identity
from pairlearn.models.maps import pack_map, unpack_map
from pairlearn.models.parts import decode, encode
from pairlearn.models.record import ModelFileError, ModelRecord, reason
from pairlearn.models.registry import ArraySpec, ModelSpec, check_record, register_model
from pairlearn.restored import restored_labels

#: The parameter with the type of the labels, which JSON does not keep.
_CLASS_TYPE = "classes_dtype"
#: The parameter with the description of a feature map; its numbers are in the array "features".
_MAP = "features_map"
#: The entry of its description that says that the parameter `features` is this map, fitted.
_GIVEN = "given"
#: The prefix of the names of coefficients that belong to mapped features.
_MAPPED = "mapped_"
#: The parameter with fitted attributes that are not arrays.
_FACTS = "fitted"
_COEFFICIENTS = ("coef", "pair_coef", "components")


class Storable(Composed):
    """Adds `save`, `load` and the conversion to and from a `ModelRecord` to an estimator."""

    #: Fitted arrays by their name without the trailing underscore.
    _arrays: ClassVar[Mapping[str, ArraySpec]] = {}
    #: Fitted attributes that are stored as plain values: names, parts, records of a choice.
    _facts: ClassVar[Mapping[str, type]] = {}
    #: Parameters that are not stored: functions, open resources.
    _not_stored: ClassVar[tuple[str, ...]] = ()
    #: Whether X may be sparse.
    _takes_sparse: ClassVar[bool] = False

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.sparse = self._takes_sparse
        return tags

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
            facts = {name: getattr(self, name, None) for name in self._facts}
            parameters[_FACTS] = {name: encode(value, name) for name, value in facts.items()}
        names = getattr(self, "feature_names_in_", None)
        arrays = self._pack()
        features = self._stored_map()
        if features is not None:
            parameters[_MAP], arrays["features"] = pack_map(features)
            if features is getattr(self, "features", None):
                parameters[_MAP][_GIVEN] = True
            for name in _COEFFICIENTS:
                if name in arrays:
                    arrays[_MAPPED + name] = arrays.pop(name)
        return ModelRecord(
            type(self).__name__,
            arrays,
            parameters=parameters,
            classes=None if classes is None else classes.tolist(),
            feature_names=None if names is None else names.tolist(),
            provenance=self._provenance(dict(provenance or {})),
            certificate=self._stored_certificate(),
        )

    @classmethod
    def from_record(cls, record: ModelRecord) -> Self:
        """Return the fitted model of a record that has passed the checks of `read_model`."""
        special = (_CLASS_TYPE, _MAP, _FACTS)
        given = {k: decode(v, k) for k, v in record.parameters.items() if k not in special}
        features, record = _with_map(record, cls)
        if features is not None and record.parameters[_MAP].get(_GIVEN) is True:
            given["features"] = features
        try:
            model = cls(**given)
            if record.classes is not None:
                model.classes_ = _classes(record)  # type: ignore[attr-defined]
            model._unpack(record)
            for name, value in dict(record.parameters.get(_FACTS, {})).items():
                fact = decode(value, name)
                if fact is not None and not isinstance(fact, cls._facts[name]):
                    raise ValueError(f"{name} is a {type(fact).__name__}")
                setattr(model, name, fact)
            for name in _COEFFICIENTS:
                if name in record.arrays:
                    width = int(record.arrays[name].shape[-1])
                    model.n_features_in_ = width  # type: ignore[attr-defined]
            if features is not None:
                model.n_features_in_ = features.n_inputs  # type: ignore[attr-defined]
                model._restore_map(features)
            if record.feature_names is not None:
                model.feature_names_in_ = np.array(  # type: ignore[attr-defined]
                    record.feature_names, dtype=object
                )
        except ModelFileError:
            raise
        except (TypeError, KeyError, AttributeError, ValueError, OverflowError) as error:
            raise ModelFileError(f"it is no complete {cls.__name__}: {reason(error)}.") from None
        model.provenance_ = dict(record.provenance)  # type: ignore[attr-defined]
        return model

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
            if value is None or (not rule.required and not np.isfinite(value).all()):
                continue
            arrays[name] = _as_allowed(value, rule)
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
        return None if features is None or isinstance(features, Identity) else features

    def _restore_map(self, features: FeatureMap) -> None:
        """Take over a fitted map."""
        raise ModelFileError(f"{type(self).__name__} takes no feature map.")

    def _provenance(self, given: dict[str, Any]) -> dict[str, Any]:
        """Return the known origin of the model, updated by the given facts."""
        known: dict[str, Any] = dict(getattr(self, "provenance_", {}))
        for name, attribute in (
            ("rows_seen", "n_examples_"),
            ("data_fingerprint", "data_fingerprint_"),
        ):
            value = getattr(self, attribute, None)
            if value is not None:
                known[name] = value
        return known | given

    def _stored_certificate(self) -> dict[str, Any] | None:
        certificate = getattr(self, "certificate_", None)
        return None if certificate is None else certificate.to_dict()


def _as_allowed(value: Any, rule: ArraySpec) -> NDArray[Any]:
    array = np.asarray(value)
    return array if array.dtype.name in rule.dtypes else array.astype(rule.dtypes[0])


def _classes(record: ModelRecord) -> NDArray[Any]:
    kind = record.parameters.get(_CLASS_TYPE, "object")
    known = list(record.classes or ())
    try:
        classes = restored_labels(known, kind)
    except ValueError as error:
        raise ModelFileError(f"its classes cannot be restored: {reason(error)}") from None
    if classes.tolist() != known:
        raise ModelFileError(f"its classes do not fit the type {str(kind)[:40]!r}.")
    return classes


def _with_map(
    record: ModelRecord, estimator: type[Storable]
) -> tuple[FeatureMap | None, ModelRecord]:
    """Return the map of a record, and the record with coefficients under their usual name."""
    arrays, features = dict(record.arrays), None
    if _MAP in record.parameters:
        if "features" not in arrays:
            raise ModelFileError("it describes a feature map without its numbers.")
        features = unpack_map(record.parameters[_MAP], arrays.pop("features"))
        names = record.feature_names
        if names is not None and len(names) != features.n_inputs:
            raise ModelFileError(
                f"it has {len(names)} feature names, its map takes {features.n_inputs} features."
            )
        for name in _COEFFICIENTS:
            if _MAPPED + name in arrays:
                arrays[name] = arrays.pop(_MAPPED + name)
                if arrays[name].shape[-1] != features.n_outputs:
                    raise ModelFileError(
                        f"its map has {features.n_outputs} features, array {name!r} "
                        f"{arrays[name].shape[-1]}."
                    )
    for name in _COEFFICIENTS:
        if name in estimator._arrays and estimator._arrays[name].required and name not in arrays:
            raise ModelFileError(f"array {name!r} of {estimator.__name__} is missing.")
    return features, replace(record, arrays=arrays)


def _specification(estimator: type[Storable]) -> dict[str, ArraySpec]:
    """Return the arrays of an estimator, also as it has them with a feature map."""
    arrays = dict(estimator._arrays)
    for name in _COEFFICIENTS:
        if name in arrays:
            rule = arrays[name]
            sides = tuple("n_mapped" if side == "n_features" else side for side in rule.shape)
            arrays[name] = replace(rule, required=False)
            arrays[_MAPPED + name] = ArraySpec(sides, rule.dtypes, required=False)
    return {**arrays, "features": ArraySpec(("n_values",), required=False)}


def register_storable(estimator: type[Storable]) -> None:
    """Let files that name an estimator be loaded."""
    names = estimator._get_param_names()  # type: ignore[attr-defined]
    allowed = tuple(name for name in names if name not in estimator._not_stored)
    takes_maps = "features" in names
    register_model(
        ModelSpec(
            estimator.__name__,
            _specification(estimator) if takes_maps else estimator._arrays,
            build=estimator.from_record,
            parameters=(*allowed, _CLASS_TYPE, _FACTS, *((_MAP,) if takes_maps else ())),
        )
    )
