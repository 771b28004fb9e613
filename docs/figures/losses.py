# SPDX-License-Identifier: BSD-3-Clause
"""What a pair costs, by its margin."""

import matplotlib.pyplot as plt
import numpy as np

from pairlearn.losses import LOSSES

margin = np.linspace(-2, 3, 300)
figure, ax = plt.subplots(figsize=(6.0, 3.2))
for name in ("hinge", "squared_hinge", "smoothed_hinge", "logistic", "square", "exponential"):
    ax.plot(margin, LOSSES[name]().values(margin), label=name)
ax.step(margin, margin <= 0, color="0.4", linestyle="--", where="mid", label="wrong order")
ax.set(ylim=(0, 4), xlabel="margin m of a pair", ylabel="loss")
ax.legend(ncols=2)
