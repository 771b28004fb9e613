# SPDX-License-Identifier: BSD-3-Clause
"""Data that arrives in pieces: readers in chunks, exact positions, atomic files, running AUC.

Examples
--------
>>> from pairlearn.streams import IteratorReader
>>> for chunk in IteratorReader([([1.0, 2.0], 1), ([0.5, 0.0], -1)]):
...     print(chunk.X.shape, chunk.y)
(2, 2) [ 1. -1.]
"""

from pairlearn.streams.checkpoint import CheckpointError, CheckpointWarning
from pairlearn.streams.drift import Alarm, DriftAlarm
from pairlearn.streams.online import OnlineLearner
from pairlearn.streams.progressive import ProgressiveAUC
from pairlearn.streams.readers.arrow import ArrowReader
from pairlearn.streams.readers.base import Chunk, Position, Reader, ReadError, Refusal, Refusals
from pairlearn.streams.readers.csv import CsvReader
from pairlearn.streams.readers.iterator import IteratorReader
from pairlearn.streams.readers.npy import NpyReader
from pairlearn.streams.readers.open import FORMATS, add_format, open_reader
from pairlearn.streams.readers.schema import Schema
from pairlearn.streams.readers.shuffled import ShuffledReader
from pairlearn.streams.readers.svmlight import SvmlightReader

__all__ = [
    "FORMATS", "Alarm", "ArrowReader", "CheckpointError", "CheckpointWarning", "Chunk", "CsvReader",
    "DriftAlarm", "IteratorReader", "NpyReader", "OnlineLearner", "Position", "ProgressiveAUC",
    "ReadError", "Reader", "Refusal", "Refusals", "Schema", "ShuffledReader", "SvmlightReader",
    "add_format", "open_reader",
]  # fmt: skip
