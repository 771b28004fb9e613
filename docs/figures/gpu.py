# SPDX-License-Identifier: BSD-3-Clause
"""The 49 models of one sample path, and of five: held-out AUC by step size and radius."""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer

from pairlearn import Hinge, LinearScore, Problem, roc_auc
from pairlearn.data import folds
from pairlearn.solvers import Sweep

X, labels = load_breast_cancer(return_X_y=True)
X = 2.0 * (X - X.min(axis=0)) / np.ptp(X, axis=0) - 1.0
y = np.where(labels == 1, 1.0, -1.0)
powers = 10.0 ** np.arange(-3, 4)
grid = [(step, radius) for step in powers for radius in powers]
auc = []
for fold, part in enumerate(folds(len(y), 5, y=y, rng=0)):
    n_steps = 10 * len(part.train)
    sweep = Sweep(tuple(step / n_steps**0.5 for step, _ in grid), tuple(r for _, r in grid))
    problem = Problem(LinearScore(), Hinge())
    found = sweep.solve(problem, X[part.train], y[part.train], n_steps=n_steps, rng=fold)
    auc.append([roc_auc(y[part.test], X[part.test] @ w) for w in found.averages])
figure, axes = plt.subplots(1, 2, figsize=(7.2, 3.2), sharey=True, layout="constrained")
for ax, values, title in zip(
    axes, (auc[0], np.mean(auc, axis=0)), ("one fold", "mean of five folds"), strict=True
):
    image = ax.imshow(np.reshape(values, (7, 7)), origin="lower", extent=(-3.5, 3.5, -3.5, 3.5))
    ax.set(title=title, xlabel="radius, power of ten")
    ax.grid(visible=False)
axes[0].set_ylabel("step size, power of ten")
figure.colorbar(image, ax=axes, label="held-out AUC")
