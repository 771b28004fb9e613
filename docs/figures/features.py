# SPDX-License-Identifier: BSD-3-Clause
"""A ring: what the score is with a plane, with additive curves and with Fourier features."""

import matplotlib.pyplot as plt
import numpy as np

from pairlearn import AUCClassifier

rng = np.random.default_rng(0)
X = rng.normal(size=(1500, 2))
y = (X**2).sum(axis=1) + 0.3 * rng.normal(size=1500) > 1.4
axis = np.linspace(-3, 3, 60)
grid = np.column_stack([part.ravel() for part in np.meshgrid(axis, axis)])

figure, axes = plt.subplots(1, 3, figsize=(8.4, 3.0), sharey=True)
for ax, features in zip(axes, ("linear", "hats", "fourier"), strict=True):
    model = AUCClassifier(features=features, random_state=0).fit(X[:1000], y[:1000])
    score = model.decision_function(grid).reshape(60, 60)
    ax.contourf(axis, axis, score, 12, cmap="RdBu_r", alpha=0.7)
    for label, colour in ((False, "C0"), (True, "C3")):
        ax.scatter(*X[1000:][y[1000:] == label].T, s=4, color=colour)
    auc = model.score(X[1000:], y[1000:])
    ax.set(title=f'features="{features}"\nAUC {auc:.2f}', xticks=[], yticks=[], xlim=(-3, 3))
    ax.set_ylim(-3, 3)
