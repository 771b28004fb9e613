# SPDX-License-Identifier: BSD-3-Clause
"""Any f(w; z, z') with PyTorch: networks, contrastive pairs, a function of one's own.

The extra ``torch``: nothing else in the library imports it. Losses are modules on the scores, or
the embeddings, of a batch, with the paper's pairing as a choice; estimators train small networks
on tables.
"""

from __future__ import annotations

import importlib
from typing import Any

try:
    import torch as _torch  # noqa: F401
except ImportError:
    raise ImportError(
        'pairlearn.torch needs PyTorch, which is not installed: pip install "pairlearn[torch]"'
    ) from None

_HOME = {
    "auc": ("AUCLoss", "PartialAUCLoss"),
    "classifier": ("NeuralAUCClassifier",),
    "embedder": ("EmbeddingLearner",),
    "embeddings": ("ContrastiveLoss", "DistanceLoss"),
    "entropy": ("ErrorEntropyLoss",),
    "memory": ("EmbeddingMemory", "ScoreMemory"),
    "objective": ("ObjectiveSolution", "ObjectiveStream", "PairwiseObjective"),
    "pairwise": ("PairwiseLoss",),
    "ranker": ("NeuralRanker",),
    "ranking": ("RankingLoss",),
    "sampler": ("BalancedSampler",),
}
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names}

__all__ = sorted(_MODULE_OF)


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
