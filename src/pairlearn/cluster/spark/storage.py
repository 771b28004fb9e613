# SPDX-License-Identifier: BSD-3-Clause
"""Estimators and models in a folder of any file system that Spark writes to.

``metadata`` is that of ``pyspark.ml``, one line of JSON. ``model`` is a Parquet file of one cell,
the bytes of a model file of this library: no pickle, no code, and checked when it is loaded. A
parameter that is an object is stored as in a model file (`models.parts`): by the name of its class
and its fields.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from pyspark.ml.util import (
    DefaultParamsReader,
    DefaultParamsWriter,
    MLReadable,
    MLReader,
    MLWritable,
    MLWriter,
)

from pairlearn.models import ModelFileError
from pairlearn.models.file import dump_model, parse_model
from pairlearn.models.parts import decode, encode
from pairlearn.models.record import build_model

#: Saved folders name classes by their door, so that a class may move to another file.
_DOOR = "pairlearn.cluster"


class _Writer(MLWriter):  # type: ignore[misc]
    """Writes parameters, and the model if there is one."""

    def __init__(self, instance: Any) -> None:
        super().__init__()
        self._instance = instance

    def saveImpl(self, path: str) -> None:  # noqa: N802
        """Write the folder."""
        instance, spark = self._instance, self.sparkSession
        name = f"{_DOOR}.{type(instance).__name__}"
        told = {"class": name, **instance._metadata()}
        DefaultParamsWriter.saveMetadata(instance, path, spark, told, instance._stored_params())
        if instance._fitted is not None:
            data = bytearray(dump_model(instance._fitted.to_record()))
            cell = spark.createDataFrame([(data,)], "model binary").coalesce(1)
            cell.write.parquet(f"{path}/model")


class _Reader(MLReader):  # type: ignore[misc]
    """Reads what `_Writer` wrote."""

    def __init__(self, kind: Any) -> None:
        super().__init__()
        self._kind = kind

    def load(self, path: str) -> Any:
        """Return the estimator or the model."""
        spark = self.sparkSession
        metadata = DefaultParamsReader.loadMetadata(path, spark)
        name = f"{_DOOR}.{self._kind.__name__}"
        if metadata["class"] != name:
            raise ModelFileError(f"{path} holds a {metadata['class'][:80]!r}, not a {name!r}.")
        fitted = None
        if self._kind._holds:
            data = bytes(spark.read.parquet(f"{path}/model").first()["model"])
            record = parse_model(data)
            if record.estimator != self._kind._holds:
                raise ModelFileError(
                    f"{path} holds a model of {record.estimator[:60]!r}, not of "
                    f"{self._kind._holds!r}."
                )
            fitted = build_model(record)
        instance = self._kind._restored(fitted, metadata)
        instance._resetUid(metadata["uid"])
        instance._restore_params(metadata["paramMap"])
        return instance


class Stored(MLWritable, MLReadable):  # type: ignore[misc]
    """A mixin of estimators and models that can be saved and loaded."""

    #: The class of the fitted model to store; empty for an estimator.
    _holds = ""
    #: The fitted model, None for an estimator.
    _fitted: Any = None

    def _metadata(self) -> dict[str, Any]:
        """Return further facts for the metadata, plain values."""
        return {}

    @classmethod
    def _restored(cls, fitted: Any, metadata: Mapping[str, Any]) -> Self:
        """Return an object without its parameters, from its model and its metadata."""
        return cls()

    def _stored_params(self: Any) -> dict[str, Any]:
        """Return the parameters that were set, as plain values."""
        own = [param for param in self.params if self.isSet(param)]
        return {param.name: self._plain(param.name, self.getOrDefault(param)) for param in own}

    def _restore_params(self: Any, stored: Mapping[str, Any]) -> None:
        """Set the parameters that `_stored_params` returned."""
        for name, value in stored.items():
            self.set(self.getParam(name), self._value(name, value))

    def _plain(self, name: str, value: Any) -> Any:
        """Return the value of a parameter as plain values."""
        return encode(value, name)

    def _value(self, name: str, plain: Any) -> Any:
        """Return the value that `_plain` told."""
        return decode(plain, name)

    def write(self) -> Any:
        """Return a writer: ``.overwrite().save(path)``."""
        return _Writer(self)

    def save(self, path: str) -> None:
        """Write a folder."""
        self.write().save(path)

    @classmethod
    def read(cls) -> Any:
        """Return a reader: ``.load(path)``."""
        return _Reader(cls)

    @classmethod
    def load(cls, path: str) -> Self:
        """Return what was saved in a folder. Nothing in it is executed."""
        found: Self = cls.read().load(path)
        return found
