# SPDX-License-Identifier: BSD-3-Clause
"""Queries with levels of their own: a regression on the grades follows the levels."""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import Ridge

from pairlearn import PairwiseRanker, pair_accuracy

rng = np.random.default_rng(0)
qid = np.repeat(np.arange(300), 12)
level = rng.normal(size=300)[qid]
X = np.column_stack([rng.normal(size=3600) + 2.0 * level, rng.normal(size=3600)])
grade = np.digitize(X @ [1.0, 0.5] + 0.5 * rng.normal(size=3600) - 4.0 * level, [-1.0, 1.0])
train, test = qid < 200, qid >= 200
ranker = PairwiseRanker(random_state=0).fit(X[train], grade[train], qid=qid[train])
rows = Ridge().fit(X[train], grade[train])

figure, (left, right) = plt.subplots(1, 2, figsize=(8.4, 3.1), width_ratios=(1.5, 1))
for query in range(5):
    mine = qid == query
    order = np.argsort(X[mine, 0])
    left.plot(X[mine, 0][order], grade[mine][order] + 0.04 * query, "o-", markersize=4, alpha=0.8)
left.set(xlabel="first feature", ylabel="grade", yticks=[0, 1, 2], title="five queries")
names = ["regression\non grades", "PairwiseRanker"]
found = [
    pair_accuracy(grade[test], rows.predict(X[test]), qid=qid[test]),
    pair_accuracy(grade[test], ranker.predict(X[test]), qid=qid[test]),
]
right.bar(names, found, color=["0.6", "C0"], width=0.6)
right.axhline(0.5, color="0.4", linestyle="--")
right.set(ylabel="pairs of a query in order", ylim=(0, 1))
