# SPDX-License-Identifier: BSD-3-Clause
"""
Error entropy under bimodal noise
=================================

A meter sometimes reports twice: two readings in five are too high, and by more the larger the
first feature is. Least squares goes through the middle of the two clouds, where nothing is, with
a wrong slope; Huber's loss helps little, because there are too many wrong readings. Minimum error
entropy asks for errors that are close to each other and follows the larger cloud.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import HuberRegressor, LinearRegression

from pairlearn import EntropyRegressor

rng = np.random.default_rng(0)
n = 1000
X = rng.uniform(-2.0, 2.0, size=(n, 2))
true = np.array([1.0, -0.5])
doubled = rng.random(n) < 0.4
noise = 0.3 * rng.normal(size=n) + doubled * (5.0 + 1.5 * X[:, 0])
y = X @ true + noise

# %%
# The intercept of the entropy regressor is the mode of the errors: we want the larger cloud.
models = {
    "least squares": LinearRegression(),
    "Huber": HuberRegressor(max_iter=1000),
    "error entropy": EntropyRegressor(intercept="mode", random_state=0),
}
for name, model in models.items():
    model.fit(X, y)
    error = np.linalg.norm(model.coef_ - true)
    print(
        f"{name:14s} coefficients {np.round(model.coef_, 2)}, distance from the truth {error:.3f}"
    )

# %%
# Left: the data along the first feature and the fitted lines. Right: the errors. Those of the
# entropy regressor have a sharp peak; least squares has smeared both clouds.
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
left.scatter(X[:, 0], y - X[:, 1] * true[1], s=4, color="0.7")
line = np.array([-2.0, 2.0])
for name, model in models.items():
    left.plot(line, line * model.coef_[0] + model.intercept_, label=name)
    errors = y - model.predict(X)
    right.hist(errors, bins=np.linspace(-6, 10, 81), histtype="step", label=name)
left.set(xlabel="first feature", ylabel="target, without the second feature")
right.set(xlabel="error", ylabel="examples")
left.legend()
right.legend()
plt.show()
