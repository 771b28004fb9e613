# SPDX-License-Identifier: BSD-3-Clause
"""Data sets by name: found or downloaded, and verified.

`load("german")` looks in the folder named by the environment variable ``PAIRLEARN_DATA``, then in
the cache, and only then on the LIBSVM site. `breast_cancer`, `digits` and `digits_8` ship with
scikit-learn and need neither. `sources` is the list of sets,
`files` finds, fetches and reads them, `splits` deals and scales them for comparisons.
"""

from __future__ import annotations

from pairlearn.data.dataset import Dataset, find, load, to_signs
from pairlearn.data.files import read_libsvm
from pairlearn.data.sources import (
    PAPER_SETS,
    DataCorruptError,
    DataError,
    DataUnavailableError,
    Source,
    lookup,
    names,
)

__all__ = [
    "PAPER_SETS", "DataCorruptError", "DataError", "DataUnavailableError", "Dataset", "Source",
    "find", "load", "lookup", "names", "read_libsvm", "to_signs",
]  # fmt: skip
