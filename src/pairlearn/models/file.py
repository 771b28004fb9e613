# SPDX-License-Identifier: BSD-3-Clause
"""Read and write model files: safetensors with one JSON description, fully checked.

Layout, version 1: eight bytes with the length of the header, the header (JSON: name, type,
shape and place of each array, and ``__metadata__`` with the description as a JSON text), the
arrays without gaps, nothing more. Any reader of safetensors can open it. Nothing in the file is
executed, and no name in it is imported.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

import numpy as np
from numpy.typing import NDArray

import pairlearn
from pairlearn.atomic import atomic_write, cure_of
from pairlearn.models.record import ModelFileError, ModelRecord, check_plain
from pairlearn.models.registry import check_record, spec_of

FORMAT_VERSION = 1
#: Bytes of a header at most; a larger one is refused before it is parsed.
MAX_HEADER_BYTES = 1 << 26
MAX_FILE_BYTES = 1 << 34
#: Bytes read at most from a pipe or a device, which may have no end.
MAX_PIPE_BYTES = 1 << 28
METADATA_KEY = "pairlearn"

_TYPES = {"F64": "<f8", "F32": "<f4", "I64": "<i8", "I32": "<i4", "U8": "|u1", "BOOL": "|b1"}
_CODES = {kind: code for code, kind in _TYPES.items()}
_FIELDS = ("format_version", "library_version", "estimator", "parameters", "classes",
           "feature_names", "provenance", "certificate", "sha256")  # fmt: skip


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _digest(description: dict[str, Any], tensors: dict[str, Any], data: bytes | memoryview) -> str:
    """Return SHA-256 of everything but the digest: description, table of arrays, arrays."""
    state = hashlib.sha256()
    content = {k: v for k, v in description.items() if k != "sha256"}
    for part in (_json([content, tensors]).encode("utf-8"), data):
        state.update(len(part).to_bytes(8, "little"))
        state.update(part)
    return state.hexdigest()


def dump_model(record: ModelRecord) -> bytes:
    """Return a record as the bytes of a model file."""
    tensors: dict[str, Any] = {}
    parts: list[bytes] = []
    place = 0
    # wide types come first, so each array starts at a multiple of its item size
    names = sorted(record.arrays, key=lambda n: (-record.arrays[n].itemsize, n))
    for name in names:
        array = record.arrays[name]
        data = array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()
        code = _CODES[array.dtype.newbyteorder("<").str]
        if name == "__metadata__":
            raise ModelFileError("an array cannot be named '__metadata__'; choose another name.")
        tensors[name] = {
            "dtype": code,
            "shape": list(array.shape),
            "data_offsets": [place, place + len(data)],
        }
        parts.append(data)
        place += len(data)
    body = b"".join(parts)
    description: dict[str, Any] = {
        "format_version": FORMAT_VERSION,
        "library_version": record.library_version or pairlearn.__version__,
        "estimator": record.estimator,
        "parameters": record.parameters,
        "classes": None if record.classes is None else list(record.classes),
        "feature_names": None if record.feature_names is None else list(record.feature_names),
        "provenance": record.provenance,
        "certificate": record.certificate,
    }
    description["sha256"] = _digest(description, tensors, body)
    header = _json({"__metadata__": {METADATA_KEY: _json(description)}, **tensors}).encode("utf-8")
    header += b" " * (-len(header) % 8)
    if len(header) > MAX_HEADER_BYTES:
        raise ModelFileError(
            f"the description takes {len(header)} bytes, more than {MAX_HEADER_BYTES}; "
            "leave out the feature names."
        )
    return len(header).to_bytes(8, "little") + header + body


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
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = folder + "/m.safetensors"
    ...     write_model(path, ModelRecord("Example", {"coef": np.array([1.0, -2.0])}))
    ...     read_model(path, allow_unregistered=True).arrays["coef"]
    array([ 1., -2.])
    """
    path = Path(path)
    try:
        with open(path, "rb") as file:
            data = _read(file)
    except FileNotFoundError:
        raise ModelFileError(f"{path} does not exist; check the path.") from None
    except IsADirectoryError:
        raise ModelFileError(f"{path} is a directory; name the model file.") from None
    except OSError as error:
        raise ModelFileError(
            f"{path} cannot be read: {error.strerror or error}; {cure_of(error)}."
        ) from None
    except ModelFileError as error:
        raise ModelFileError(f"{path}: {error}") from None
    try:
        return parse_model(data, allow_unregistered=allow_unregistered)
    except ModelFileError as error:
        raise ModelFileError(f"{path}: {error}") from None


def _read(file: BinaryIO) -> bytes:
    """Return the bytes of a file that may be a model, a pipe or an endless device."""
    status = os.fstat(file.fileno())
    if status.st_size > MAX_FILE_BYTES:
        raise ModelFileError(f"it has {status.st_size} bytes, too many for a model file.")
    beginning = file.read(8)
    _header_length(beginning)
    if stat.S_ISREG(status.st_mode):
        return beginning + file.read()
    rest = file.read(MAX_PIPE_BYTES)
    if len(rest) == MAX_PIPE_BYTES:
        raise ModelFileError(
            f"it is not a file and does not end within {MAX_PIPE_BYTES} bytes; copy the model to "
            "a file first."
        )
    return beginning + rest


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
        return spec_of(record.estimator).build(record)
    except ModelFileError as error:
        raise ModelFileError(f"{path}: {error}") from None


def parse_model(data: bytes, *, allow_unregistered: bool = False) -> ModelRecord:
    """Check the bytes of a model file and return its record."""
    length = _header_length(data)
    if 8 + length > len(data):
        raise ModelFileError("it ends inside the header; it was cut short, write it again.")
    header = _load(data[8 : 8 + length], "the header")
    metadata = header.pop("__metadata__", None)
    if not isinstance(metadata, dict) or not isinstance(metadata.get(METADATA_KEY), str):
        raise ModelFileError("it is not a pairlearn model (no description in its header).")
    if set(metadata) != {METADATA_KEY}:
        raise ModelFileError("its header has entries beside the description; write it again.")
    description = _load(metadata[METADATA_KEY].encode("utf-8", "replace"), "the description")
    _check_version(description)
    if set(description) != set(_FIELDS):
        odd = sorted(name[:60] for name in set(description) ^ set(_FIELDS))
        raise ModelFileError(f"its description has wrong entries ({', '.join(odd[:8])[:200]}).")
    body = memoryview(data)[8 + length :]
    # check the digest before looking at the content: only a program's output passes
    _check_digest(description, header, body)
    check_plain(header, "the header")
    # the record checks the rest of the description
    arrays = _arrays(header, body)
    del description["format_version"], description["sha256"]
    record = ModelRecord(arrays=arrays, **description)
    check_record(record, allow_unregistered=allow_unregistered)
    return record


def _header_length(data: bytes) -> int:
    if len(data) < 8:
        raise ModelFileError(f"it has {len(data)} bytes and is not a model file.")
    length = int.from_bytes(data[:8], "little")
    if not 2 <= length <= MAX_HEADER_BYTES:
        raise ModelFileError(
            "it is not a model file, or it is damaged at its beginning "
            "(commands take the model first, then the data)."
        )
    return length


def _check_digest(description: dict[str, Any], tensors: dict[str, Any], body: memoryview) -> None:
    try:
        digest = _digest(description, tensors, body)
    except (ValueError, RecursionError):  # infinite numbers and texts that UTF-8 cannot hold
        digest = ""
    if description["sha256"] != digest:
        raise ModelFileError("its checksum is wrong: it is damaged or was edited, write it again.")


def _check_version(description: dict[str, Any]) -> None:
    version = description.get("format_version")
    if type(version) is not int or version < 1:
        raise ModelFileError("it names no format version; it is damaged or not a model file.")
    if version > FORMAT_VERSION:
        made_by = description.get("library_version")
        made_by = f" by pairlearn {made_by[:40]!r}" if isinstance(made_by, str) else ""
        raise ModelFileError(
            f"it has format version {version}{made_by}, this library reads up to "
            f"{FORMAT_VERSION}; upgrade pairlearn."
        )


def _load(text: bytes, what: str) -> dict[str, Any]:
    """Return a JSON object without repeated entries; its content is not yet checked."""

    def refuse(token: str) -> NoReturn:
        raise ModelFileError(f"{what} contains {token}.")

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        result = dict(pairs)
        if len(result) != len(pairs):
            raise ModelFileError(f"{what} has an entry twice.")
        return result

    try:
        value = json.loads(text.decode("utf-8"), object_pairs_hook=unique, parse_constant=refuse)
    except ModelFileError:
        raise
    except (ValueError, RecursionError):  # not JSON, not UTF-8, a number of too many digits
        raise ModelFileError(f"{what} is not JSON; it is damaged or not a model file.") from None
    if not isinstance(value, dict):
        raise ModelFileError(f"{what} is not a JSON object; it is not a model file.")
    return value


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value <= MAX_FILE_BYTES


def _arrays(header: dict[str, Any], body: memoryview) -> dict[str, NDArray[Any]]:
    """Return the arrays; together they must fill the body without gap or overlap."""
    arrays: dict[str, NDArray[Any]] = {}
    spans: list[tuple[int, int]] = []
    for name, entry in header.items():
        shown = repr(name[:60])
        if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
            raise ModelFileError(f"array {shown} is not described by type, shape and place.")
        kind, shape, place = entry["dtype"], entry["shape"], entry["data_offsets"]
        if not isinstance(kind, str) or kind not in _TYPES:
            raise ModelFileError(f"array {shown} has a type that models do not use.")
        if not isinstance(shape, list) or len(shape) > 8 or not all(map(_is_count, shape)):
            raise ModelFileError(f"array {shown} has a wrong shape.")
        if not isinstance(place, list) or len(place) != 2 or not all(map(_is_count, place)):
            raise ModelFileError(f"array {shown} has a wrong place.")
        begin, stop = place
        dtype = np.dtype(_TYPES[kind])
        count = 1
        for side in shape:
            count *= side
        if stop - begin != count * dtype.itemsize or stop > len(body):
            raise ModelFileError(f"array {shown} does not fit its place; the file is damaged.")
        if kind == "BOOL" and (np.frombuffer(body[begin:stop], np.uint8) > 1).any():
            raise ModelFileError(f"array {shown} holds bytes that are neither true nor false.")
        try:
            arrays[name] = np.frombuffer(body[begin:stop], dtype=dtype).reshape(shape)
        except ValueError:
            raise ModelFileError(f"array {shown} has a wrong shape.") from None
        spans.append((begin, stop))
    end = 0
    for begin, stop in sorted(spans):
        if begin != end:
            raise ModelFileError("its arrays overlap or leave a gap; the file is damaged.")
        end = stop
    if end != len(body):
        raise ModelFileError(f"{len(body) - end} bytes follow the last array; write it again.")
    return arrays
