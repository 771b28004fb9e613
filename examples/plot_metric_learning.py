# SPDX-License-Identifier: BSD-3-Clause
"""
Metric learning, before and after
=================================

Nearest neighbours need a distance, and the Euclidean one counts every feature, also those that
say nothing. `MetricLearner` learns a Mahalanobis distance in which examples of one class are near
and those of different classes far.
"""

# %%
# Wine data from scikit-learn: three classes, 13 measurements. We add 40 columns of noise, so that
# the Euclidean distance is misled.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_wine
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler

from pairlearn import MetricLearner

rng = np.random.default_rng(0)
X, y = load_wine(return_X_y=True)
X = np.hstack([X, rng.normal(size=(len(X), 40))])
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.5, stratify=y, random_state=0)
scaler = StandardScaler().fit(X_train)
X_train, X_test = scaler.transform(X_train), scaler.transform(X_test)

# %%
# ``transform`` maps to a space in which the Euclidean distance is the learned one.
learner = MetricLearner(random_state=0).fit(X_train, y_train)
spaces = {
    "before: Euclidean distance": (X_train, X_test),
    "after: learned distance": (learner.transform(X_train), learner.transform(X_test)),
}

# %%
# The pictures show the two directions of largest spread of the training examples in each space,
# and the accuracy of three nearest neighbours on the test examples.
figure, axes = plt.subplots(1, 2, figsize=(9, 4.2), layout="constrained")
for ax, (name, (train, test)) in zip(axes, spaces.items(), strict=True):
    accuracy = KNeighborsClassifier(3).fit(train, y_train).score(test, y_test)
    print(f"{name:28s} accuracy of 3 neighbours {accuracy:.3f}")
    centre = train.mean(axis=0)
    directions = np.linalg.svd(train - centre, full_matrices=False)[2][:2]
    flat = (test - centre) @ directions.T
    for label in np.unique(y_test):
        ax.scatter(*flat[y_test == label].T, s=14, label=f"class {label}")
    ax.set(title=f"{name}\n3 neighbours: {accuracy:.0%} correct", xticks=[], yticks=[])
axes[0].legend()
plt.show()

# %%
# The learned metric gives little weight to the noise: the share of the trace of W that falls on
# the real features.
W = learner.get_mahalanobis_matrix()
print(f"share of the 13 real features in the trace: {np.trace(W[:13, :13]) / np.trace(W):.0%}")
