# SPDX-License-Identifier: BSD-3-Clause
"""Save and load models safely: a model file holds arrays and a description, no code."""

from __future__ import annotations

from pairlearn.lazy import door

__getattr__, __dir__, __all__ = door(
    __name__,
    {
        "file": "FORMAT_VERSION load_model read_model write_model",
        "parts": "register_part",
        "provenance": "data_fingerprint",
        "record": "ArraySpec ModelFileError ModelRecord",
    },
)
