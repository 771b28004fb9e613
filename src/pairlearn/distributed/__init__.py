# SPDX-License-Identifier: BSD-3-Clause
"""Many machines: statistics that merge, and estimators that run on them.

Every statistic has three verbs: ``partial_state(X, y, sample_weight)`` of one chunk,
``merge(a, b)`` and ``finish(state)``. Any engine can run them; `train_auc` needs nothing else. The
Dask estimators need the extra ``dask``.
"""

from __future__ import annotations

from pairlearn.lazy import door

__getattr__, __dir__, __all__ = door(
    __name__,
    {
        "auc": "DistributedFit train_auc",
        "dask.auc": "DaskAUCClassifier",
        "dask.concordance": "dask_concordance",
        "dask.metric": "DaskMetricLearner",
        "dask.multiclass": "DaskMulticlassAUCClassifier",
        "dask.passes": "DaskEngine WorkersLostError",
        "dask.ranker": "DaskPairwiseRanker",
        "forgetting": "forget_auc",
        "metric": "metric_of train_metric",
        "multiclass": "OfClasses score_multiclass train_multiclass",
        "passes": "ByPasses ClassPasses OnePass QueryPasses",
        "ranking": "train_ranker",
        "statistics.base": "Scaled Statistic Together",
        "statistics.binned": "BinnedPairs BinnedScores ScoreBins SlopeSums",
        "statistics.concordance": "ConcordanceSketch MergedConcordance SurvivalScores",
        "statistics.histogram": "HistogramAUC ScoreHistogram score_edges score_range",
        "statistics.mapped": "Mapped MappedLabelMoments MomentsAlike",
        "statistics.moments": "ColumnExtents LabelMoments LabelledMoments PairScatters",
        "statistics.queries": "OfUsefulQueries QueryGradient QueryMoments QueryNDCG QueryPairs",
        "statistics.ranks": "binned_auc deal exact_auc quantile_splits range_state",
        "statistics.sample": "RowSample SampledRows",
        "statistics.scales": "FeatureScales MajorityCounts Scales",
    },
)
