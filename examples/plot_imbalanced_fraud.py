# SPDX-License-Identifier: BSD-3-Clause
"""
Rare positives: fraud-like data
===============================

One transaction in two hundred is a fraud, and there are two kinds of fraud that look different
from each other. The question is how well a linear score puts the frauds first. We compare
logistic regression, plain and with balanced class weights, with direct maximisation of the AUC,
and ask whether the differences are real.
"""

# %%
# Invented transactions: amounts have a long tail, small test payments come in bursts (the first
# kind of fraud), large ones at night (the second). One in twenty ordinary customers also pays
# large amounts at night.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_curve
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from pairlearn import AUCClassifier, compare_auc, roc_auc_interval

rng = np.random.default_rng(0)


def customers(n, *, amount, night, burst, age):
    """Return n rows: log amount, night share, payments in the last hour, age of the account."""
    return np.column_stack(
        [
            rng.normal(amount, 1.0, n),
            rng.beta(1 + 6 * night, 7 - 6 * night, n),
            rng.poisson(burst, n),
            rng.exponential(age, n),
            rng.normal(size=(n, 4)),
        ]
    )


n = 60_000
groups = [
    (customers(int(0.945 * n), amount=3.0, night=0.2, burst=0.3, age=6.0), 0),
    (customers(int(0.05 * n), amount=5.5, night=0.8, burst=0.2, age=8.0), 0),
    (customers(int(0.003 * n), amount=1.5, night=0.4, burst=4.0, age=2.0), 1),
    (customers(int(0.002 * n), amount=5.0, night=0.7, burst=1.0, age=1.0), 1),
]
X = np.vstack([rows for rows, _ in groups])
y = np.concatenate([np.full(len(rows), label) for rows, label in groups])
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.5, stratify=y, random_state=0)
print(f"{y_train.sum()} frauds among {len(y_train)} training examples")

# %%
# Three linear models, each behind the same scaling.
models = {
    "logistic regression": LogisticRegression(max_iter=1000),
    "logistic regression, balanced": LogisticRegression(max_iter=1000, class_weight="balanced"),
    "AUCClassifier": AUCClassifier(random_state=0),
}
scores = {}
for name, model in models.items():
    fitted = make_pipeline(StandardScaler(), model).fit(X_train, y_train)
    scores[name] = fitted.decision_function(X_test)
    interval = roc_auc_interval(y_test, scores[name])
    print(f"{name:30s} AUC {interval.auc:.4f} [{interval.low:.4f}, {interval.high:.4f}]")

# %%
# DeLong's paired test says whether the differences are more than chance of the test set.
for name in list(models)[:2]:
    found = compare_auc(y_test, scores["AUCClassifier"], scores[name])
    print(
        f"AUCClassifier less {name}: {found.difference:+.4f} "
        f"[{found.low:+.4f}, {found.high:+.4f}], p = {found.p_value:.2g}"
    )

# %%
# They are not: both intervals hold zero. On data like these logistic regression is as good, with or
# without class weights. What the pairwise loss gives is the same quality without any question of
# class weights, from a stream with one example of memory, and with the theory of the other pages.
#
# The picture shows the left part of the ROC curves, where an investigator works.
figure, ax = plt.subplots(figsize=(6.4, 4.4), layout="constrained")
for name, score in scores.items():
    false_alarms, found_frauds, _ = roc_curve(y_test, score)
    ax.plot(100 * false_alarms, 100 * found_frauds, label=name)
ax.set(xlim=(0, 20), xlabel="false alarms, % of ordinary payments", ylabel="frauds found, %")
ax.legend(loc="lower right")
plt.show()
