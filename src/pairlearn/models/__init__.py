# SPDX-License-Identifier: BSD-3-Clause
"""Save and load models safely: a model file holds arrays and a description, no code."""

from pairlearn.models.file import FORMAT_VERSION, load_model, read_model, write_model
from pairlearn.models.parts import register_part
from pairlearn.models.provenance import data_fingerprint
from pairlearn.models.record import ModelFileError, ModelRecord
from pairlearn.models.registry import ArraySpec, ModelSpec, register_model, registered, spec_of

__all__ = [
    "FORMAT_VERSION",
    "ArraySpec",
    "ModelFileError",
    "ModelRecord",
    "ModelSpec",
    "data_fingerprint",
    "load_model",
    "read_model",
    "register_model",
    "register_part",
    "registered",
    "spec_of",
    "write_model",
]
