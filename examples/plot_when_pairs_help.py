# SPDX-License-Identifier: BSD-3-Clause
"""
When pairs help, and when not
=============================

Three invented data sets with rare positives, and four ways to order them by a linear score:
logistic regression, plain and with balanced class weights, `AUCClassifier`, and, where rows come
in groups, `PairwiseRanker`. In the first nothing is gained by pairs, in the second something that
class weights give too, in the third a lot.
"""

# %%
# **Payments.** The truth is a logistic model: nobody can do better than logistic regression.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from pairlearn import AUCClassifier, PairwiseRanker, compare_auc, pair_accuracy, roc_auc_interval

rng = np.random.default_rng(0)


def payments(n):
    """Return rows whose log-odds are linear; about 5 % are positive."""
    X = rng.normal(size=(n, 8))
    odds = X @ np.linspace(1.0, 0.0, 8) - 3.5
    return X, rng.random(n) < 1.0 / (1.0 + np.exp(-odds))


# %%
# **Decoys.** One ordinary payment in twenty-five is far out in the direction of the frauds.
def decoys(n):
    """Return rows for which no linear score is right; 3 % are positive."""
    y = rng.random(n) < 0.03
    X = rng.normal(size=(n, 6))
    X[y, :2] += [1.5, 1.0]
    X[~y & (rng.random(n) < 0.04), 0] += 8.0
    return X, y


models = {
    "logistic": LogisticRegression(max_iter=1000),
    "balanced": LogisticRegression(max_iter=1000, class_weight="balanced"),
    "AUCClassifier": AUCClassifier(random_state=0),
}
found = {}
for name, draw in (("payments", payments), ("decoys", decoys)):
    (X, y), (X_test, y_test) = draw(8000), draw(30_000)
    scores = {
        key: make_pipeline(StandardScaler(), model).fit(X, y).decision_function(X_test)
        for key, model in models.items()
    }
    intervals = {key: roc_auc_interval(y_test, score) for key, score in scores.items()}
    found[name] = {key: (i.auc, i.low, i.high) for key, i in intervals.items()}
    for other in ("logistic", "balanced"):
        paired = compare_auc(y_test, scores["AUCClassifier"], scores[other])
        print(
            f"{name}: AUCClassifier less {other} {paired.difference:+.4f} "
            f"[{paired.low:+.4f}, {paired.high:+.4f}]"
        )

# %%
# **Branches.** Payments come from 200 branches, and are looked at branch by branch. Where amounts
# are large, frauds are rare; within a branch the larger payments are suspicious. What counts is the
# order *within* a branch: the share of pairs of one branch that are in order.
n, branch = 12_000, np.repeat(np.arange(200), 60)
level = rng.normal(size=200)[branch]
X = rng.normal(size=(n, 4))
X[:, 0] += 2.0 * level
odds = 1.2 * (X[:, 0] - 2.0 * level) + 0.5 * X[:, 1] - 1.5 * level - 2.5
y = (rng.random(n) < 1.0 / (1.0 + np.exp(-odds))).astype(int)
train, test = branch < 100, branch >= 100
found["branches"] = {}
for name, model in models.items():
    scores = model.fit(X[train], y[train]).decision_function(X[test])
    found["branches"][name] = (pair_accuracy(y[test], scores, qid=branch[test]),) * 3
ranker = PairwiseRanker(random_state=0).fit(X[train], y[train], qid=branch[train])
accuracy = pair_accuracy(y[test], ranker.predict(X[test]), qid=branch[test])
found["branches"]["PairwiseRanker"] = (accuracy,) * 3
for name, (value, *_) in found["branches"].items():
    print(f"branches: {name:15s} {value:.3f} of the pairs of a branch in order")

# %%
# In the first picture intervals overlap and the paired differences above are ten-thousandths: on
# data like these use what you have. In the second plain logistic regression gives its slope to the
# decoys; a loss of pairs does not, and balanced weights do even better. In the third every method
# that looks at rows follows the levels of the branches and is no better than a coin, while pairs
# within branches never see them. That is when pairs are needed: when the question is about pairs.
figure, axes = plt.subplots(1, 3, figsize=(9.6, 3.2), layout="constrained")
for ax, (name, values) in zip(axes, found.items(), strict=True):
    for place, (key, (value, low, high)) in enumerate(values.items()):
        colour = "0.55" if key in ("logistic", "balanced") else "C0"
        ax.plot([low, high], [place, place], color=colour, linewidth=2)
        ax.plot(value, place, "o", color=colour)
    ax.set(title=name, yticks=range(len(values)), yticklabels=list(values), ylim=(-0.6, 3.6))
    ax.set_xlabel("pairs of a branch in order" if name == "branches" else "test AUC")
    ax.invert_yaxis()
axes[2].axvline(0.5, color="0.4", linestyle="--")
plt.show()
