# SPDX-License-Identifier: BSD-3-Clause
"""Two features tell three classes apart, eight louder ones say nothing."""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.neighbors import KNeighborsClassifier

from pairlearn import MetricLearner

rng = np.random.default_rng(0)
y = rng.integers(0, 3, 600)
signal = np.array([[0.0, 0.0], [2.0, 0.0], [1.0, 1.7]])[y] + 0.35 * rng.normal(size=(600, 2))
X = np.column_stack([signal, 3.0 * rng.normal(size=(600, 8))])
learner = MetricLearner(random_state=0).fit(X[:300], y[:300])
figure, axes = plt.subplots(1, 2, figsize=(8.4, 3.1))
for ax, name, images in ((axes[0], "Euclidean", X), (axes[1], "learned", learner.transform(X))):
    near = KNeighborsClassifier(3).fit(images[:300], y[:300]).score(images[300:], y[300:])
    centre = images[:300].mean(axis=0)
    directions = np.linalg.svd(images[:300] - centre, full_matrices=False)[2][:2]
    flat = (images[300:] - centre) @ directions.T
    for label in range(3):
        ax.scatter(*flat[y[300:] == label].T, s=9)
    ax.set(title=f"{name} distance: 3 neighbours {near:.0%} right", xticks=[], yticks=[])
