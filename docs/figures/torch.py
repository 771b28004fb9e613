# SPDX-License-Identifier: BSD-3-Clause
"""Who meets whom in a batch, for the two pairings of a loss."""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import ListedColormap

rng = np.random.default_rng(3)
n = 10
y = rng.random(n) < 0.5
opposite = y[:, None] != y[None, :]
panels = {
    '"previous"': np.eye(n, k=-1, dtype=bool) & opposite,
    '"batch"': np.tri(n, k=-1, dtype=bool) & opposite,
}
figure, axes = plt.subplots(1, 2, figsize=(5.5, 2.6), sharey=True)
for ax, (name, pairs) in zip(axes, panels.items(), strict=True):
    ax.imshow(pairs, cmap=ListedColormap(["0.95", "C0"]), vmin=0, vmax=1)
    ax.set(title=f"pairing={name}", xlabel="batch", xticks=[])
    ax.set_yticks(range(n), ["+" if positive else "-" for positive in y])
axes[0].set_ylabel("batch")
