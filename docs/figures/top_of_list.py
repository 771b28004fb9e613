# SPDX-License-Identifier: BSD-3-Clause
"""The left end of the ROC curve, for the whole area and for its first part."""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import roc_curve

from pairlearn import AUCClassifier, PartialArea, PartialAUC


def draw(rng, n):
    """Return rows; one feature is good on the whole, another one at the top of the list."""
    y = rng.random(n) < 0.15
    X = rng.normal(size=(n, 2))
    X[y, 0] += 1.2
    X[y & (rng.random(n) < 0.35), 1] += 4.0
    return X, y


rng = np.random.default_rng(0)
(X, y), (X_test, y_test) = draw(rng, 2000), draw(rng, 8000)
figure, ax = plt.subplots(figsize=(5.2, 3.2))
for name, objective in (("auc", "auc"), ("partial_auc", PartialArea(0.05))):
    model = AUCClassifier(objective, random_state=0).fit(X, y)
    scores = model.decision_function(X_test)
    rates = roc_curve(y_test, scores)
    partial = PartialAUC(max_fpr=0.05).interval(y_test, scores).value
    ax.plot(rates[0], rates[1], label=f'"{name}": partial AUC {partial:.3f}')
ax.axvspan(0, 0.05, color="0.9", zorder=0)
ax.set(xlim=(0, 0.25), xlabel="false positive rate", ylabel="true positive rate")
ax.legend(loc="lower right", title="objective")
