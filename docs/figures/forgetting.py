# SPDX-License-Identifier: BSD-3-Clause
"""An outlier that is learned and taken back: by floats, and by whole numbers on a grid."""

import matplotlib.pyplot as plt
import numpy as np

from pairlearn.solvers import ClassMoments, Extents, Grid

rng = np.random.default_rng(0)
X = rng.normal(size=(2000, 3))
y = np.where(X[:, 0] + rng.normal(size=2000) > 0, 1.0, -1.0)
positive = X[y > 0]
grid = Grid.of(Extents.of(X))
never = ClassMoments(3, grid).add(X, y)
sizes = 10.0 ** np.arange(0, 31, 2)
floats, exact = [], []
for size in sizes:
    row = np.full((1, 3), size)
    # Sums of products as floats, to which the row is added and from which it is subtracted.
    products = (positive.T @ positive + row.T @ row) - row.T @ row
    floats.append(np.abs(products - positive.T @ positive).max() / len(positive))
    rest = ClassMoments(3, grid).add(X, y).add(row, [1.0]).without(row, [1.0])
    exact.append(np.abs(rest.scatters - never.scatters).max() / len(positive))
figure, ax = plt.subplots(figsize=(6.4, 3.1))
ax.plot(sizes, floats, "o-", label="floats")
ax.plot(sizes, exact, "s-", label="whole numbers on a grid")
ax.set(
    xscale="log", xlabel="size of the row that came and went", xticks=10.0 ** np.arange(0, 31, 5)
)
ax.set_yscale("symlog", linthresh=1e-16)
ax.set_yticks([0, *10.0 ** np.arange(-16, 1, 4)])
ax.set_ylim(-5e-17, 30)
ax.set_ylabel("error of what is left")
ax.legend()
