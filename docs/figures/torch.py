# SPDX-License-Identifier: BSD-3-Clause
"""Who meets whom in a batch, for the three pairings of a loss."""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import ListedColormap

rng = np.random.default_rng(3)
n, remembered = 10, 6
y = rng.random(n) < 0.5
old = np.arange(remembered) % 2 == 0
opposite = y[:, None] != y[None, :]
earlier = np.tri(n, k=-1, dtype=bool)
with_old = y[:, None] != old[None, :]
consecutive = np.eye(n, k=-1, dtype=bool) & opposite
panels = {
    '"previous"': np.hstack([np.zeros_like(with_old), consecutive]),
    '"batch"': np.hstack([np.zeros_like(with_old), earlier & opposite]),
    '"memory"': np.hstack([2 * with_old, earlier & opposite]),
}
figure, axes = plt.subplots(1, 3, figsize=(9.0, 2.6), sharey=True)
colours = ListedColormap(["0.95", "C0", "C1"])
for ax, (name, pairs) in zip(axes, panels.items(), strict=True):
    ax.imshow(pairs, cmap=colours, vmin=0, vmax=2)
    ax.axvline(remembered - 0.5, color="0.4", linewidth=1.0)
    ax.set(title=f"pairing={name}", xlabel="remembered | batch", xticks=[])
    ax.set_yticks(range(n), ["+" if positive else "-" for positive in y])
axes[0].set_ylabel("batch")
