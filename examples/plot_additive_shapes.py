# SPDX-License-Identifier: BSD-3-Clause
"""
An additive model one can read
==============================

A linear score adds up multiples of features. With ``features="hats"`` it adds up curves: a
piecewise linear function of each feature. Nothing is hidden in it, so the curves can be drawn, one
prediction can be taken apart, and a curve can be told to rise.
"""

# %%
# Risk grows with the dose up to a point, is highest for the young and the old, and does not depend
# on the third feature.
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from pairlearn import AUCClassifier, Hats, plot_shapes

rng = np.random.default_rng(0)
n = 4000
X = pd.DataFrame(
    {
        "age": rng.uniform(20, 80, n),
        "dose": rng.exponential(2.0, n),
        "noise": rng.normal(size=n),
    }
)
risk = ((X["age"] - 50) / 15) ** 2 + 2.0 * np.minimum(X["dose"], 3.0) - 5.0
y = rng.random(n) < 1.0 / (1.0 + np.exp(-risk))

linear = AUCClassifier(random_state=0).fit(X[:2800], y[:2800])
curves = AUCClassifier(features="hats", random_state=0).fit(X[:2800], y[:2800])
for name, model in (("plane", linear), ("curves", curves)):
    print(f"{name}: test AUC {model.score(X[2800:], y[2800:]):.3f}")
figure = plt.figure(figsize=(9.0, 2.6), layout="constrained")
plot_shapes(curves, X[:2800], figure=figure)

# %%
# What one prediction is made of:
found = curves.explain(X.iloc[0])
print(dict(X.iloc[0].round(2)))
for name, added in found.contributions.items():
    print(f"{name:>6} {added:+.3f}")

# %%
# More of the dose never lowers the risk, says the doctor: a constraint on the curve, found exactly
# by class moments.
rising = AUCClassifier(features=Hats(monotone={"dose": 1}), random_state=0)
rising.fit(X[:2800], y[:2800])
print(f"rising in dose: test AUC {rising.score(X[2800:], y[2800:]):.3f}")
plot_shapes(rising, X[:2800], features=["dose", "age"])
