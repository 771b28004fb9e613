# SPDX-License-Identifier: BSD-3-Clause
"""A stream whose law changes half-way, remembered alike and by the memory that it chooses."""

import matplotlib.pyplot as plt
import numpy as np

from pairlearn import AUCClassifier, Moments, OnlineLearner

rng = np.random.default_rng(0)
X = rng.normal(size=(24_000, 5))
direction = np.where(
    np.arange(24_000)[:, np.newaxis] < 12_000, [1.0, 1, 0, 0, 0], [-1.0, 0, 1, 0, 0]
)
y = ((X * direction).sum(axis=1) + rng.normal(size=24_000) > 0).astype(int)
figure, ax = plt.subplots(figsize=(6.4, 3.1))
for name, solver in (("all examples alike", Moments(memory=np.inf)), ("the default", "auto")):
    model = AUCClassifier(solver=solver, random_state=0)
    learner = OnlineLearner(model, classes=[0, 1], window=1500)
    seen, auc = [], []
    for begin in range(0, 24_000, 500):
        learner.learn_many(X[begin : begin + 500], y[begin : begin + 500])
        seen.append(begin + 500)
        auc.append(learner.auc)
    ax.plot(seen[2:], auc[2:], label=name)
ax.axvline(12_000, color="0.4", linestyle="--")
ax.set(xlabel="examples", ylabel="progressive AUC, last 1,500")
ax.legend(loc="lower left")
