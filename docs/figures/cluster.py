# SPDX-License-Identifier: BSD-3-Clause
"""Eight partitions that differ more and more: averaged models, and merged statistics."""

from functools import reduce

import matplotlib.pyplot as plt
import numpy as np

from pairlearn import roc_auc
from pairlearn.cluster import LabelMoments

rng = np.random.default_rng(0)
X = rng.normal(size=(8000, 5))
X[:, 1] += X[:, 0]
y = np.where(X @ [1.0, -1.0, 0.5, 0.0, 0.0] + rng.normal(size=8000) > 0.0, 1, -1)
train, test = slice(4000), slice(4000, None)
statistic = LabelMoments()
found = {"one model for each, averaged": [], "statistics merged": []}
shares = np.linspace(0.0, 1.0, 9)
for share in shares:
    # From a random order to one by label and, within, by a feature.
    key = share * (3.0 * y[train] + X[train, 0]) + (1.0 - share) * 5.0 * rng.normal(size=4000)
    parts = np.array_split(np.argsort(key), 8)
    states = [statistic.partial_state(X[rows], y[rows]) for rows in parts]
    mixed = [k for k, rows in enumerate(parts) if len(np.unique(y[rows])) == 2]
    models = [statistic.finish(states[k]).two_classes().solve(ridge=0.1) for k in mixed]
    merged = statistic.finish(reduce(statistic.merge, states)).two_classes().solve(ridge=0.1)
    for name, w in zip(found, (np.mean(models, axis=0), merged), strict=True):
        found[name].append(roc_auc(y[test], X[test] @ w))
figure, ax = plt.subplots(figsize=(6.0, 3.0))
for name, auc in found.items():
    ax.plot(shares, auc, "o-", markersize=4, label=name)
ax.set(xlabel="how much partitions are sorted", ylabel="test AUC")
ax.legend()
