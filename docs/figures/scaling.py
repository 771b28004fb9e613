# SPDX-License-Identifier: BSD-3-Clause
"""One feature in other units: who notices."""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegression, SGDClassifier

from pairlearn import AUCClassifier

rng = np.random.default_rng(0)
X = rng.normal(size=(3000, 4))
y = X @ [1.0, 1.0, 0.5, 0.0] + rng.normal(size=3000) > 1.0
units = np.geomspace(1e-4, 1e4, 9)
models = {
    "AUCClassifier": AUCClassifier(random_state=0),
    "LogisticRegression": LogisticRegression(),
    "SGDClassifier": SGDClassifier(loss="log_loss", random_state=0, max_iter=20, tol=None),
}
figure, ax = plt.subplots(figsize=(6.0, 3.1))
for name, model in models.items():
    auc = []
    for unit in units:
        scaled = X * [unit, 1.0, 1.0, 1.0]
        scores = model.fit(scaled[:1500], y[:1500]).decision_function(scaled[1500:])
        positive, negative = scores[y[1500:]], scores[~y[1500:]]
        auc.append((positive[:, np.newaxis] > negative).mean())
    ax.plot(units, auc, "o-", markersize=4, label=name)
ax.set(xscale="log", xlabel="unit of the first feature", ylabel="test AUC")
ax.legend(loc="lower center")
