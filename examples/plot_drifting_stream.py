# SPDX-License-Identifier: BSD-3-Clause
"""
A stream that drifts
====================

In a stream what is learned may go out of date. The paper's online algorithm averages all
iterates, which is best when nothing changes; a constant step and the last iterate forget.
`ProgressiveAUC` shows the difference while the stream runs, without held-out data: each example
is scored before it is learned.
"""

# %%
# The direction that separates the classes turns by a right angle half way.
import matplotlib.pyplot as plt
import numpy as np

from pairlearn import SGD, AUCClassifier
from pairlearn.streams import ProgressiveAUC

rng = np.random.default_rng(0)
n, d, chunk = 40_000, 10, 200
before, after = np.eye(d)[0], np.eye(d)[1]


def next_chunk(first):
    """Return examples first, ..., first + chunk - 1 of the stream; one in five is positive."""
    y = (rng.random(chunk) < 0.2).astype(int)
    direction = before if first < n // 2 else after
    X = rng.normal(size=(chunk, d)) + 1.2 * np.where(y == 1, 1.0, -1.0)[:, np.newaxis] * direction
    return X, y


# %%
# Three learners on the same chunks.
learners = {
    "steps c/sqrt(t), average of all": AUCClassifier(solver=SGD(step_size=0.1)),
    "constant step, average of all": AUCClassifier(solver=SGD(step_size=0.02, schedule="constant")),
    "constant step, last iterate": AUCClassifier(
        solver=SGD(step_size=0.02, schedule="constant", averaging="last")
    ),
}
running = {name: ProgressiveAUC(window=2000) for name in learners}
curves = {name: [] for name in learners}
for first in range(0, n, chunk):
    X, y = next_chunk(first)
    for name, learner in learners.items():
        if first > 0:
            running[name].update(learner.decision_function(X), y)
            curves[name].append(running[name].value)
        learner.partial_fit(X, y, classes=[0, 1])

# %%
# Before the change the averages are a little better, after it they are slow to follow.
figure, ax = plt.subplots(figsize=(7, 4.2), layout="constrained")
seen = np.arange(chunk, n, chunk)
for name, curve in curves.items():
    ax.plot(seen, curve, label=name)
    print(f"{name:32s} before {curve[len(curve) // 2 - 2]:.3f}, at the end {curve[-1]:.3f}")
ax.axvline(n // 2, color="0.6", linestyle=":")
ax.set(
    xlabel="examples",
    ylabel="AUC of the last 2000, scored before learned",
    ylim=(0.4, 1.0),
)
ax.legend(loc="lower left")
plt.show()
