# SPDX-License-Identifier: BSD-3-Clause
"""Data sets by name: found or downloaded, verified, split and scaled.

`load("german")` looks in the folder named by the environment variable ``PAIRLEARN_DATA``, then in
the cache, and only then on the LIBSVM site. `breast_cancer`, `digits` and `digits_8` ship with
scikit-learn and need neither. `sources` is the list of sets, `files` finds, fetches and reads them.
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
from pairlearn.data.splits import Split, folds, prepare, random_split, repeated_folds

__all__ = [
    "PAPER_SETS", "DataCorruptError", "DataError", "DataUnavailableError", "Dataset", "Source",
    "Split", "find", "folds", "load", "lookup", "names", "prepare", "random_split", "read_libsvm",
    "repeated_folds", "to_signs",
]  # fmt: skip
