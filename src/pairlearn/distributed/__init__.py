# SPDX-License-Identifier: BSD-3-Clause
"""Many machines: statistics that merge, and estimators that run on them.

Every statistic has three verbs: ``partial_state(X, y, sample_weight)`` of one chunk,
``merge(a, b)`` and ``finish(state)``. Any engine can run them; `train_auc` needs nothing else. The
Dask estimators need the extra ``dask``.
"""

from __future__ import annotations

import importlib
from typing import Any

_HOME = {
    "auc": ("DistributedFit", "train_auc"),
    "statistics.base": ("Scaled", "Statistic", "Together"),
    "statistics.binned": ("BinnedPairs", "BinnedScores", "ScoreBins", "SlopeSums"),
    "dask.auc": ("DaskAUCClassifier",),
    "dask.metric": ("DaskMetricLearner",),
    "dask.passes": ("DaskEngine", "WorkersLostError"),
    "dask.private": ("DaskPrivateAUCClassifier",),
    "dask.ranker": ("DaskPairwiseRanker",),
    "statistics.histogram": ("HistogramAUC", "ScoreHistogram", "score_edges", "score_range"),
    "statistics.mapped": ("Mapped", "MappedLabelMoments"),
    "metric": ("metric_of", "train_metric"),
    "statistics.moments": ("LabelMoments", "LabelledMoments", "PairScatters"),
    "private_auc": ("train_private_auc",),
    "statistics.private_sums": ("PartitionNoise", "PrivateSums", "SummedStatistics", "TableForm"),
    "statistics.queries": ("OfUsefulQueries", "QueryGradient", "QueryMoments", "QueryPairs"),
    "ranking": ("train_ranker",),
    "statistics.ranks": ("deal", "exact_auc", "quantile_splits", "range_state"),
    "statistics.sample": ("Fingerprints", "RowSample", "SampledRows"),
    "statistics.scales": ("FeatureScales", "MajorityCounts", "Scales"),
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
