# SPDX-License-Identifier: BSD-3-Clause
"""Any f(w; z, z') with PyTorch: networks, contrastive pairs, a function of one's own.

The extra ``torch``: nothing else in the library imports it. Losses are modules on the scores, or
the embeddings, of a batch, with the paper's pairing as a choice; estimators train small networks
on tables.
"""

from __future__ import annotations

from pairlearn.lazy import door

try:
    import torch as _torch  # noqa: F401
except ImportError:
    raise ImportError(
        'pairlearn.torch needs PyTorch, which is not installed: pip install "pairlearn[torch]"'
    ) from None

__getattr__, __dir__, __all__ = door(
    __name__,
    {
        "auc": "AUCLoss PartialAUCLoss",
        "classifier": "NeuralAUCClassifier",
        "embedder": "EmbeddingLearner",
        "embeddings": "ContrastiveLoss DistanceLoss",
        "entropy": "ErrorEntropyLoss",
        "networks": "MLP",
        "objective": "ObjectiveSolution ObjectiveStream PairwiseObjective",
        "pairwise": "PairwiseLoss",
        "private": "NoisyNetworkSGD PrivateNeuralAUCClassifier",
        "ranking": "RankingLoss",
        "sampler": "BalancedSampler",
        "training": "Adam",
    },
)
