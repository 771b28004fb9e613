# SPDX-License-Identifier: BSD-3-Clause
"""How a ridge is chosen: the held-out AUC of each candidate, and the one that wins."""

import matplotlib.pyplot as plt
from sklearn.datasets import load_breast_cancer

from pairlearn import AUCClassifier

X, y = load_breast_cancer(return_X_y=True)
choice = AUCClassifier(loss="squared_hinge", random_state=0).fit(X, y).choice_
ridges = [one.values["ridge"] for one in choice.tried]
figure, ax = plt.subplots(figsize=(6.0, 3.2))
ax.errorbar(
    ridges,
    [one.auc for one in choice.tried],
    [one.standard_error for one in choice.tried],
    fmt="o-",
    capsize=3,
    label="held-out AUC with its standard error",
)
ax.axvline(choice.ridge, color="C1", linestyle="--", label=f"chosen: ridge {choice.ridge:g}")
ax.set(xscale="log", xlabel="ridge", ylabel="AUC on held-out folds")
ax.invert_xaxis()
ax.legend()
