# SPDX-License-Identifier: BSD-3-Clause
"""
Ranking within queries
======================

Grades can only be compared within a query: some queries have many good answers, others few. A
regression on the grades must explain the difference between queries as well; a ranker looks at
pairs of one query and need not.
"""

# %%
# Invented queries of 20 documents. The grade is the quintile of a utility within the query, so
# that every query has documents of all grades; the features carry, besides, a level of the query.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import Ridge

from pairlearn import PairwiseRanker
from pairlearn.metrics import ndcg

rng = np.random.default_rng(0)
weights = np.array([1.0, -0.7, 0.4, 0.0, 0.0, 0.0])


def draw(n_queries, spread):
    """Return features, grades 0 to 4 and query numbers; `spread` is how much queries differ."""
    qid = np.repeat(np.arange(n_queries), 20)
    level = spread * rng.normal(size=(n_queries, 6))[qid]
    own = rng.normal(size=(len(qid), 6))
    utility = own @ weights + 0.5 * rng.normal(size=len(qid))
    place = np.argsort(np.argsort(utility.reshape(-1, 20), axis=1), axis=1)
    return own + level, (place // 4).ravel().astype(float), qid


# %%
# The more queries differ, the more a regression on the grades is disturbed.
spreads = [0.0, 0.5, 1.0, 2.0, 4.0]
found = {"ridge regression on the grades": [], "PairwiseRanker": []}
for spread in spreads:
    X, y, qid = draw(100, spread)
    X_test, y_test, qid_test = draw(200, spread)
    scores = {
        "ridge regression on the grades": Ridge().fit(X, y).predict(X_test),
        "PairwiseRanker": PairwiseRanker(random_state=0).fit(X, y, qid=qid).predict(X_test),
    }
    for name, score in scores.items():
        found[name].append(ndcg(y_test, score, qid=qid_test, k=10))
        print(f"spread {spread:<4g} {name:32s} NDCG of the first 10: {found[name][-1]:.3f}")

# %%
figure, ax = plt.subplots(figsize=(6.4, 4), layout="constrained")
for name, values in found.items():
    ax.plot(spreads, values, marker="o", label=name)
ax.set(xlabel="how much queries differ", ylabel="NDCG of the first 10 on new queries")
ax.legend()
plt.show()
