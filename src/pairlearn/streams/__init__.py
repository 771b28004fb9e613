# SPDX-License-Identifier: BSD-3-Clause
"""Learn from data that arrive in pieces: readers in chunks, checkpoints, running AUC, alarms.

Examples
--------
>>> from pairlearn.streams import IteratorReader
>>> for chunk in IteratorReader([([1.0, 2.0], 1), ([0.5, 0.0], -1)]):
...     print(chunk.X.shape, chunk.y)
(2, 2) [ 1. -1.]
"""

from __future__ import annotations

from pairlearn.lazy import door

__getattr__, __dir__, __all__ = door(
    __name__,
    {
        "checkpoint": "CheckpointError CheckpointWarning read_checkpoint",
        "drift": "Alarm DriftAlarm",
        "examples": "RefusedExampleWarning",
        "named": "NamedLearner",
        "online": "OnlineLearner",
        "progressive": "ProgressiveAUC",
        "readers.base": "Chunk Position ReadError Reader Refusal Refusals",
        "readers.iterator": "IteratorReader",
        "readers.npy": "NpyReader",
        "readers.open": "FORMATS add_format open_reader",
        "readers.query": "Queried",
        "readers.schema": "Schema",
        "readers.shuffled": "ShuffledReader",
        "readers.svmlight": "SvmlightReader",
        "river": "RiverAUCClassifier RiverFeatures",
    },
)
