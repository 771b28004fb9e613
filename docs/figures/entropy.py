# SPDX-License-Identifier: BSD-3-Clause
"""Errors with two modes: least squares goes between them."""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LinearRegression

from pairlearn import EntropyRegressor

rng = np.random.default_rng(0)
x = rng.uniform(-2, 2, 500)
second = rng.random(500) < 0.4
y = x + np.where(second, 3.0 + 1.2 * x, 0.0) + 0.25 * rng.normal(size=500)
X = x[:, np.newaxis]
figure, ax = plt.subplots(figsize=(5.6, 3.3))
ax.scatter(x, y, s=6, color="0.6")
line = np.array([[-2.0], [2.0]])
ax.plot(line, LinearRegression().fit(X, y).predict(line), color="C1", label="least squares")
model = EntropyRegressor(random_state=0, intercept="mode").fit(X, y)
ax.plot(line, model.predict(line), color="C0", label="minimum error entropy")
ax.set(xlabel="x", ylabel="y")
ax.legend()
