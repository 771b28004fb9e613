# SPDX-License-Identifier: BSD-3-Clause
"""The same two classes, the positives ever rarer; decoys spoil a fit by rows."""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegression

from pairlearn import AUCClassifier, roc_auc


def draw(rng, n, share):
    """Return rows; some ordinary ones lie far out in the direction of the positives."""
    y = rng.random(n) < share
    X = rng.normal(size=(n, 6))
    X[y, :2] += [1.5, 1.0]
    X[~y & (rng.random(n) < 0.04), 0] += 8.0
    return X, y


shares = [0.3, 0.1, 0.03, 0.01]
models = {
    "logistic regression": lambda: LogisticRegression(),
    "logistic, balanced": lambda: LogisticRegression(class_weight="balanced"),
    "AUCClassifier": lambda: AUCClassifier(random_state=0),
}
figure, ax = plt.subplots(figsize=(6.0, 3.2))
rng = np.random.default_rng(0)
data = [(draw(rng, 8000, share), draw(rng, 20_000, share)) for share in shares]
for name, make in models.items():
    auc = [roc_auc(y_t, make().fit(X, y).decision_function(X_t)) for (X, y), (X_t, y_t) in data]
    ax.plot(shares, auc, "o-", label=name)
ax.set(xscale="log", xlabel="share of positives", ylabel="test AUC")
ax.set_xticks(shares, [f"{share:.0%}" for share in shares])
ax.minorticks_off()
ax.invert_xaxis()
ax.legend()
