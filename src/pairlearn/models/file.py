# SPDX-License-Identifier: BSD-3-Clause
"""Read and write model files: safetensors with one JSON description, fully checked.

The package safetensors writes the arrays and checks their places before it allocates; the entry
"pairlearn" of its metadata is the description. Nothing in the file is executed, and no name in it
is imported.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

import pairlearn
from pairlearn.atomic import atomic_write, cure_of
from pairlearn.models.record import ModelFileError, ModelRecord, build_model, check_record

FORMAT_VERSION = 2
#: Bytes of a header at most; a larger one is refused before it is parsed.
_MAX_HEADER = 1 << 26
_KEY = "pairlearn"
_FIELDS = ("estimator", "parameters", "classes", "feature_names", "provenance", "certificate",
           "library_version")  # fmt: skip


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _digest(description: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> str:
    """Return SHA-256 of the description without its digest, and of all arrays."""
    table = [(name, array.dtype.name, array.shape) for name, array in sorted(arrays.items())]
    content = {name: value for name, value in description.items() if name != "sha256"}
    state = hashlib.sha256(_json([content, table]).encode("utf-8"))
    for name, _, _ in table:
        state.update(
            arrays[name].astype(arrays[name].dtype.newbyteorder("<"), copy=False).tobytes()
        )
    return state.hexdigest()


def dump_model(record: ModelRecord) -> bytes:
    """Return a record as the bytes of a model file."""
    from safetensors.numpy import save

    if "__metadata__" in record.arrays:
        raise ModelFileError("an array cannot be named '__metadata__'; choose another name.")
    description = {name: getattr(record, name) for name in _FIELDS}
    description["library_version"] = record.library_version or pairlearn.__version__
    description["format_version"] = FORMAT_VERSION
    description["sha256"] = _digest(description, record.arrays)
    data: bytes = save(dict(record.arrays), metadata={_KEY: _json(description)})
    if int.from_bytes(data[:8], "little") > _MAX_HEADER:
        raise ModelFileError(
            f"the description takes more than {_MAX_HEADER} bytes; leave out the feature names."
        )
    return data


def parse_model(data: bytes, *, allow_unregistered: bool = False) -> ModelRecord:
    """Check the bytes of a model file and return its record."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    length = int.from_bytes(data[:8], "little")
    if len(data) < 8 or not 2 <= length <= _MAX_HEADER:
        raise ModelFileError(
            "it is not a model file, or it is damaged at its beginning "
            "(commands take the model first, then the data)."
        )
    try:
        arrays: dict[str, NDArray[Any]] = load(data)
        description = json.loads(json.loads(data[8 : 8 + length])["__metadata__"][_KEY])
        wanted, version = description["sha256"], description["format_version"]
        made_by = str(description["library_version"])[:40]
    # Also from arrays of types or shapes that NumPy lacks, and numbers of too many digits.
    except (SafetensorError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        raise ModelFileError(
            "it is no model of pairlearn, or it is cut short or damaged; write it again."
        ) from None
    if type(version) is not int or version < 1:
        raise ModelFileError("it names no format version; it is damaged or not a model file.")
    if version != FORMAT_VERSION:
        cure = "upgrade pairlearn" if version > FORMAT_VERSION else "save the model again"
        raise ModelFileError(
            f"it has format version {version} by pairlearn {made_by!r}, this library reads "
            f"{FORMAT_VERSION}; {cure}."
        )
    try:
        digest = _digest(description, arrays)
    except (ValueError, RecursionError):  # infinite numbers and texts that UTF-8 cannot hold
        digest = ""
    if wanted != digest:
        raise ModelFileError("its checksum is wrong: it is damaged or was edited, write it again.")
    del description["sha256"], description["format_version"]
    if set(description) != set(_FIELDS):
        odd = sorted(name[:60] for name in set(description) ^ set(_FIELDS))
        raise ModelFileError(f"its description has wrong entries ({', '.join(odd[:8])[:200]}).")
    record = ModelRecord(arrays=arrays, **description)
    check_record(record, allow_unregistered=allow_unregistered)
    return record


def write_model(path: str | os.PathLike[str], record: ModelRecord) -> None:
    """Write a model file in one atomic step; on failure the old file stays intact.

    Parameters
    ----------
    path : path
        The file; usually it ends in ``.safetensors``.
    record : ModelRecord
        The model.

    Raises
    ------
    ModelFileError
        If the record cannot be stored, or the file cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> record = ModelRecord("ExampleClassifier", {"coef": np.array([1.0, -2.0])})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_model(folder + "/m.safetensors", record)
    ...     read_model(folder + "/m.safetensors", allow_unregistered=True).estimator
    'ExampleClassifier'
    """
    check_record(record, allow_unregistered=True)
    data = dump_model(record)
    try:
        atomic_write(path, data)
    except OSError as error:
        raise ModelFileError(
            f"{path} cannot be written: {error.strerror or error}; {cure_of(error)} (an older "
            "file there is unchanged)."
        ) from None


def read_model(path: str | os.PathLike[str], *, allow_unregistered: bool = False) -> ModelRecord:
    """Read a model file, check all of it, and return its record.

    Parameters
    ----------
    path : path
        A file written by `write_model`.
    allow_unregistered : bool, default False
        Accept an estimator that is not registered, for example to inspect a file.

    Returns
    -------
    ModelRecord
        The model.

    Raises
    ------
    ModelFileError
        If the file cannot be read or is invalid.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = folder + "/m.safetensors"
    ...     write_model(path, ModelRecord("Example", {"coef": np.array([1.0, -2.0])}))
    ...     read_model(path, allow_unregistered=True).arrays["coef"]
    array([ 1., -2.])
    """
    path = Path(path)
    if path.exists() and not path.is_file():
        kind = "a directory" if path.is_dir() else "not a file"
        raise ModelFileError(f"{path} is {kind}; name the model file.")
    try:
        return parse_model(path.read_bytes(), allow_unregistered=allow_unregistered)
    except FileNotFoundError:
        raise ModelFileError(f"{path} does not exist; check the path.") from None
    except OSError as error:
        raise ModelFileError(
            f"{path} cannot be read: {error.strerror or error}; {cure_of(error)}."
        ) from None
    except ModelFileError as error:
        raise ModelFileError(f"{path}: {error}") from None


def load_model(path: str | os.PathLike[str]) -> Any:
    """Return the fitted estimator in a model file, of any type.

    Parameters
    ----------
    path : path
        A file written by the `save` of an estimator.

    Returns
    -------
    estimator
        The model, an instance of a registered estimator.
    """
    record = read_model(path)
    try:
        return build_model(record)
    except ModelFileError as error:
        raise ModelFileError(f"{path}: {error}") from None
