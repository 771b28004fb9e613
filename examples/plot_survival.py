# SPDX-License-Identifier: BSD-3-Clause
"""
Survival times as pairs
=======================

Of two patients the one whose event came first should have the higher risk, and that is a pair. The
time of a patient who left the study is censored: it can be compared with earlier events only. A
regression on the times must leave such patients out, or take the end of observation for the event.
"""

# %%
# Simulated patients: the risk depends on three of eight features, and patients leave the study
# earlier or later.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import Ridge

from pairlearn import ConcordanceIndex, SurvivalRanker

rng = np.random.default_rng(0)
weights = np.array([1.0, -0.6, 0.4, 0.0, 0.0, 0.0, 0.0, 0.0])


def draw(n, mean_stay):
    """Return features and (event, time); patients stay `mean_stay` on average."""
    X = rng.normal(size=(n, 8))
    died = rng.exponential(np.exp(-X @ weights))
    # Those with a high second feature leave earlier.
    left = rng.exponential(mean_stay * np.exp(-0.8 * X[:, 1]))
    return X, np.column_stack((died <= left, np.minimum(died, left)))


# %%
# The shorter patients stay, the fewer events are seen. The index of concordance is the share of
# comparable pairs in the right order, on new patients who are followed for long.
X_test, y_test = draw(4000, 20.0)
found = {"ridge regression on log times": [], "SurvivalRanker": []}
stays = [0.25, 0.5, 1.0, 2.0, 4.0]
for stay in stays:
    X, y = draw(600, stay)
    risks = {
        "ridge regression on log times": -Ridge().fit(X, np.log(y[:, 1])).predict(X_test),
        "SurvivalRanker": SurvivalRanker(random_state=0).fit(X, y).predict(X_test),
    }
    for name, risk in risks.items():
        one = ConcordanceIndex().interval(y_test, risk)
        found[name].append((one.value, one.low, one.high))
        print(f"{y[:, 0].mean():.0%} events, {name:30s} C = {one.value:.3f} "
              f"[{one.low:.3f}, {one.high:.3f}]")  # fmt: skip

# %%
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
for name, values in found.items():
    value, low, high = np.array(values).T
    left.errorbar(stays, value, yerr=(value - low, high - value), marker="o", label=name)
left.set(xscale="log", xlabel="mean stay of a patient", ylabel="concordance on new patients")
left.legend()

# %%
# A ranker's score gets a scale by a proportional hazard: chances of survival of four patients.
ranker = SurvivalRanker(random_state=0).fit(*draw(600, 2.0))
times = np.linspace(0.0, 2.0, 81)
order = np.argsort(ranker.predict(X_test))
for share in (0.05, 0.35, 0.65, 0.95):
    patient = order[int(share * len(order))]
    chance = ranker.predict_survival_function(X_test[[patient]], times=times)[0]
    right.step(times, chance, where="post", label=f"risk above {share:.0%} of patients")
right.set(xlabel="time", ylabel="chance of survival", ylim=(0, 1))
right.legend()
plt.show()
