# SPDX-License-Identifier: BSD-3-Clause
"""
What privacy costs, against the number of examples
==================================================

A private model pays with noise, and the more examples there are, the less it pays: the noise
stays the same while the signal grows. Here the test AUC of `PrivateAUCClassifier` is drawn
against the number of examples for three privacy levels, beside what the planner foresees without
data.
"""

# %%
# Gaussian classes with 10 features; the best linear score has an AUC of 0.8. Repeating a
# simulation with a fixed seed is what ``random_state`` is for. The certificate then says that the
# model is *not* private, and a warning says so too; we switch the warning off because these data
# are invented.
import warnings

import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import norm

from pairlearn import PrivacyWarning, PrivateAUCClassifier, roc_auc
from pairlearn.privacy import expected_auc

warnings.simplefilter("ignore", PrivacyWarning)

d, best = 10, 0.8
gap = np.sqrt(2) * norm.ppf(best) / np.sqrt(d)
rng = np.random.default_rng(0)


def draw(n):
    """Return n examples, half of them positive."""
    y = rng.integers(0, 2, n)
    return rng.normal(size=(n, d)) + gap * y[:, np.newaxis], y


X_test, y_test = draw(20_000)
sizes = [100, 300, 1000, 3000, 10_000]
epsilons = [0.2, 1.0, 5.0]

# %%
# Ten runs for each point.
found = {}
for epsilon in epsilons:
    for n in sizes:
        values = []
        for run in range(10):
            X, y = draw(n)
            model = PrivateAUCClassifier(epsilon, bounds=(-4.0, 5.0), random_state=run).fit(X, y)
            values.append(roc_auc(y_test, model.decision_function(X_test)))
        found[epsilon, n] = np.mean(values)
        print(
            f"epsilon {epsilon:<4g} n {n:<6d} AUC {found[epsilon, n]:.3f} (sd {np.std(values):.3f})"
        )

# %%
figure, ax = plt.subplots(figsize=(7, 4.2), layout="constrained")
for k, epsilon in enumerate(epsilons):
    ax.semilogx(sizes, [found[epsilon, n] for n in sizes], f"C{k}o-", label=f"epsilon {epsilon:g}")
    foreseen = [expected_auc(n, d, epsilon=epsilon, best_auc=best, positives=0.5) for n in sizes]
    ax.semilogx(sizes, foreseen, f"C{k}:", label=f"epsilon {epsilon:g}, foreseen")
ax.axhline(best, color="0.6", linestyle="--", label="best linear score")
ax.set(xlabel="examples", ylabel="test AUC, mean of 10 runs")
ax.legend(fontsize="small")
plt.show()
