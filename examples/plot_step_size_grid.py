# SPDX-License-Identifier: BSD-3-Clause
"""
A grid of step sizes in one sweep
=================================

How good a model of stochastic gradient descent is depends on the step size and on the radius of
the ball that the coefficients live in. `Sweep` trains a whole grid of models on one sample path:
the pairs are drawn and read once, and every model sees the same ones. ``step_size="auto"`` in the
estimators does this for you; here we look at the whole picture.
"""

# %%
# The data: one example in ten is positive, the features have different scales, and the signal is
# in the small ones.
import time

import matplotlib.pyplot as plt
import numpy as np

from pairlearn import Constant, Hinge, LinearScore, PairwiseSGD, Problem, Sweep, roc_auc

rng = np.random.default_rng(0)
n, d = 4000, 20
y = np.where(rng.random(n) < 0.1, 1.0, -1.0)
scales = np.geomspace(0.1, 3.0, d)
signal = np.linspace(0.5, 0.0, d)
X = scales * (rng.normal(size=(n, d)) + signal * y[:, np.newaxis])
train, held_out = slice(0, 2000), slice(2000, None)

# %%
# One sweep over 9 step sizes and 5 radii, beside the 45 runs that it replaces.
step_sizes = np.geomspace(1e-4, 1e1, 9)
radii = np.array([0.1, 0.3, 1.0, 3.0, 10.0])
grid = [(step_size, radius) for radius in radii for step_size in step_sizes]
problem = Problem(LinearScore(), Hinge())
sweep = Sweep(tuple(step_size for step_size, _ in grid), tuple(radius for _, radius in grid))
sweep.solve(problem, X[train], y[train], n_steps=10, rng=0)  # compiles
begin = time.perf_counter()
solution = sweep.solve(problem, X[train], y[train], n_steps=40_000, rng=0)
together = time.perf_counter() - begin
begin = time.perf_counter()
for step_size, _ in grid:
    PairwiseSGD(schedule=Constant(step_size)).solve(
        problem, X[train], y[train], n_steps=40_000, rng=0
    )
print(f"sweep {together:.3f} s, separate runs {time.perf_counter() - begin:.3f} s")

auc = np.array([roc_auc(y[held_out], X[held_out] @ w) for w in solution.averages])
auc = auc.reshape(len(radii), len(step_sizes))

# %%
# Steps that are too small have not arrived after 40,000 of them, large ones are too noisy, and a
# small ball keeps the coefficients of the small features from growing.
figure, ax = plt.subplots(figsize=(7, 4.2), layout="constrained")
for radius, row in zip(radii, auc, strict=True):
    ax.semilogx(step_sizes, row, marker="o", label=f"radius {radius:g}")
ax.set(xlabel="step size", ylabel="AUC on held-out examples")
ax.legend()
best = np.unravel_index(np.argmax(auc), auc.shape)
print(
    f"best: step size {step_sizes[best[1]]:.3g}, radius {radii[best[0]]:g}, AUC {auc[best]:.4f}; "
    f"worst of the grid {auc.min():.4f}"
)
plt.show()
