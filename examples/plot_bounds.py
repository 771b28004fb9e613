# SPDX-License-Identifier: BSD-3-Clause
"""
Bounds against measurement
==========================

The theory of the paper bounds how far two models are apart whose data sets differ in one example
(stability), and how far the risk of a model is above the best possible (excess risk). On problems
with finitely many values of an example everything can be computed exactly, so bound and
measurement can be drawn in one picture.
"""

# %%
# Stability: two data sets of 200 examples differ in one, and both are learned along the same
# random indices. Grey lines are single runs. The bound of the path holds in every run, the others
# hold for the mean.
import matplotlib.pyplot as plt

from pairlearn import Logistic
from pairlearn.theory import (
    hinge_problem,
    measure_excess,
    measure_stability,
    plot_excess,
    plot_stability,
)

stability = measure_stability(
    hinge_problem(2, loss=Logistic()), 200, n_steps=2000, step_size=0.05, rng=0
)
figure, ax = plt.subplots(figsize=(7, 4.6), layout="constrained")
plot_stability(stability, ax=ax)
ratio = stability.expected[-1] / stability.mean[-1]
print(f"after {stability.steps[-1]} steps the corrected bound is {ratio:.0f} times the mean")
plt.show()

# %%
# The measured distance stops growing: on this problem old differences are forgotten, because the
# risk is curved along the path. A bound for all convex losses cannot know that.
#
# Excess risk: one pass over n examples with the step size that the bound recommends.
excess = measure_excess(hinge_problem(2, loss=Logistic()), [50, 100, 200, 400, 800, 1600], rng=0)
figure, ax = plt.subplots(figsize=(7, 4.6), layout="constrained")
plot_excess(excess, ax=ax)
for n, mean, bound in zip(excess.sizes, excess.mean, excess.bounds, strict=True):
    print(f"n {n:<5d} measured {mean:.4f}, bound {bound:.4f}")
plt.show()

# %%
# Both fall roughly as one over the root of n; the bound is for the worst problem with the same
# constants, and this one is kinder.
