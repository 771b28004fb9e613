# SPDX-License-Identifier: BSD-3-Clause
"""Scores of both classes, and the ROC curve with its band."""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

from pairlearn import AUCClassifier, roc_auc_interval
from pairlearn.metrics import roc_band

X, y = load_breast_cancer(return_X_y=True)
X, X_test, y, y_test = train_test_split(X[:, :4], y, test_size=0.5, random_state=0)
scores = AUCClassifier(random_state=0).fit(X, y).decision_function(X_test)

figure, (left, right) = plt.subplots(1, 2, figsize=(8.4, 3.1))
bins = np.linspace(scores.min(), scores.max(), 30)
for label, name in ((0, "malignant"), (1, "benign")):
    left.hist(scores[y_test == label], bins, alpha=0.6, label=name)
left.axvline(0.0, color="0.4", linestyle="--", label="threshold")
left.set(xlabel="decision_function", ylabel="test examples")
left.legend()
band = roc_band(y_test, scores, n_resamples=200, random_state=0)
found = roc_auc_interval(y_test, scores)
right.fill_between(band.fpr, band.low, band.high, alpha=0.25, label="95 % band of the whole curve")
right.plot(band.fpr, band.tpr, label=f"AUC {found.auc:.3f} [{found.low:.3f}, {found.high:.3f}]")
right.set(xlabel="false positive rate", ylabel="true positive rate")
right.legend(loc="lower right")
