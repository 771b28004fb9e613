# SPDX-License-Identifier: BSD-3-Clause
"""
Ratings from votes
==================

People see the answers of two models and say which one is better. An Elo table turns such votes into
numbers, but the numbers depend on the order of the votes and do not say how sure they are. Here the
same votes give a score and a rank with an interval for each model, and again with privacy for the
people who voted.
"""

# %%
# Simulated votes on twelve models: the true scores are known, and some models are asked about more
# often than others.
import matplotlib.pyplot as plt
import numpy as np

from pairlearn import PairwiseRatings, PrivateRatings

rng = np.random.default_rng(0)
names = np.array([f"model {letter}" for letter in "ABCDEFGHIJKL"])
truth = np.linspace(1.0, -1.0, 12)
asked = rng.dirichlet(np.full(12, 2.0))
first, second = rng.choice(12, (2, 40_000), p=asked)
first, second = first[first != second], second[first != second]
won = rng.random(len(first)) < 1 / (1 + np.exp(truth[second] - truth[first]))
print(f"{len(first)} votes")

# %%
# An Elo table of the same votes, in the given order and in the opposite one.


def elo(order):
    """Return the ratings after all votes, as scores: 400 / log(10) of them is Elo's scale."""
    scores = np.zeros(12)
    for k in order:
        a, b = first[k], second[k]
        step = 0.1 * (won[k] - 1 / (1 + np.exp(scores[b] - scores[a])))
        scores[a] += step
        scores[b] -= step
    return scores


forward, backward = elo(range(len(first))), elo(range(len(first))[::-1])
print(f"the order alone moves an Elo rating by up to {np.abs(forward - backward).max():.2f}")

# %%
# The ratings of all votes at once, whatever their order. A rank interval holds for all models at
# once.
model = PairwiseRatings().fit(names[first], names[second], won)
for name, (best, worst) in list(model.rank_intervals().items())[:4]:
    print(f"{name}: rank {best} to {worst}, score {model.intervals()[name].value:+.2f}")

# %%
# With differential privacy for each vote, epsilon = 1. Intervals allow for the noise.
private = PrivateRatings(epsilon=1.0, delta=1e-6, players=names).fit(
    names[first], names[second], won
)
print(private.certificate_.statement().splitlines()[0])

# %%
figure, ax = plt.subplots(figsize=(6.4, 4.6), layout="constrained")
place = np.arange(12)
shown = (("votes", model, -0.2, "C0"), ("private votes", private, 0.2, "C1"))
for label, one, shift, colour in shown:
    found = [one.intervals()[str(name)] for name in names]
    ends = [(each.value - each.low, each.high - each.value) for each in found]
    ax.errorbar(
        [each.value for each in found], place + shift, xerr=np.array(ends).T, fmt="o",
        color=colour, markersize=4, label=label,
    )  # fmt: skip
ax.plot(forward, place, "x", color="0.5", label="Elo")
ax.plot(truth, place, "|", color="black", markersize=14, label="truth")
ax.set_yticks(place, names)
ax.invert_yaxis()
ax.set(xlabel="score, with its 95 % interval")
ax.legend()
plt.show()
