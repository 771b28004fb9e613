# SPDX-License-Identifier: BSD-3-Clause
"""A precision-recall curve with its band, and a calibration curve with its limits."""

import matplotlib.pyplot as plt
from sklearn.datasets import make_classification
from sklearn.model_selection import train_test_split

from pairlearn import AUCClassifier, calibration_curve
from pairlearn.metrics import precision_recall_band

X, y = make_classification(3000, weights=[0.85], class_sep=0.8, flip_y=0.05, random_state=1)
X, X_test, y, y_test = train_test_split(X, y, test_size=0.5, stratify=y, random_state=0)
model = AUCClassifier(random_state=0).fit(X, y)
band = precision_recall_band(
    y_test, model.decision_function(X_test), n_resamples=200, random_state=0
)
curve = calibration_curve(y_test, model.predict_proba(X_test)[:, 1])

figure, (left, right) = plt.subplots(1, 2, figsize=(8.4, 3.1))
left.fill_between(band.recall, band.low, band.high, alpha=0.25, label="95 % band")
left.plot(band.recall, band.precision)
left.set(xlabel="recall", ylabel="precision", ylim=(0, 1.02))
left.legend(loc="lower left")
right.plot([0, 1], [0, 1], color="0.6", linestyle="--")
right.vlines(curve.predicted, curve.low, curve.high, color="C0", alpha=0.5)
right.plot(curve.predicted, curve.observed, "o", markersize=4)
right.set(xlabel="mean predicted probability", ylabel="share of positives")
