# SPDX-License-Identifier: BSD-3-Clause
"""Data sets by name: found or downloaded, verified, split and scaled.

`load("german")` looks in the folder named by the environment variable ``PAIRLEARN_DATA``, then in
the cache, and only then on the LIBSVM site. `breast_cancer`, `digits` and `digits_8` ship with
scikit-learn and need neither.
"""

from __future__ import annotations

from pairlearn.data.dataset import Dataset, find, load
from pairlearn.data.errors import DataCorruptError, DataError, DataUnavailableError
from pairlearn.data.labels import FirstHalf, OneAgainstRest, PositiveLabel, to_signs
from pairlearn.data.libsvm import read_libsvm
from pairlearn.data.preparation import SCALINGS, MinMaxScaling, prepare
from pairlearn.data.sources import PAPER_SETS, Source, lookup, names
from pairlearn.data.splits import Split, folds, random_split, repeated_folds

__all__ = [
    "PAPER_SETS",
    "SCALINGS",
    "DataCorruptError",
    "DataError",
    "DataUnavailableError",
    "Dataset",
    "FirstHalf",
    "MinMaxScaling",
    "OneAgainstRest",
    "PositiveLabel",
    "Source",
    "Split",
    "find",
    "folds",
    "load",
    "lookup",
    "names",
    "prepare",
    "random_split",
    "read_libsvm",
    "repeated_folds",
    "to_signs",
]
