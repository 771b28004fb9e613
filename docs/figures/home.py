# SPDX-License-Identifier: BSD-3-Clause
"""One pass, class moments kept: the AUC on the way, and the scores at the end."""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_classification

from pairlearn import AUCClassifier, roc_auc

X, y = make_classification(24_000, 20, weights=[0.95], class_sep=0.7, flip_y=0.01, random_state=1)
X, y, X_test, y_test = X[:16_000], y[:16_000], X[16_000:], y[16_000:]
ends = np.unique(np.geomspace(64, 16_000, 40).astype(int))
auc, model = [], AUCClassifier(random_state=0)
for begin, end in zip([0, *ends], ends, strict=False):
    model.partial_fit(X[begin:end], y[begin:end], classes=[0, 1])
    auc.append(roc_auc(y_test, model.decision_function(X_test)))
whole = AUCClassifier(random_state=0).fit(X, y).score(X_test, y_test)

figure, (left, right) = plt.subplots(1, 2, figsize=(8.4, 3.1))
left.axhline(whole, color="0.5", linestyle="--", label="fit on all 16,000 at once")
left.plot(ends, auc, color="C0", label="stream, in one pass")
left.set(xscale="log", xlabel="examples seen, once", ylabel="AUC on other examples")
left.legend(loc="lower right")
scores = model.decision_function(X_test)
bins = np.linspace(*np.quantile(scores, [0.001, 0.999]), 50)
for label, name in ((0, "95 of 100"), (1, "5 of 100: the rare ones")):
    right.hist(scores[y_test == label], bins, density=True, alpha=0.6, label=name)
right.locator_params(axis="x", nbins=6)
right.margins(y=0.35)
right.set(xlabel="score", yticks=[])
right.legend()
