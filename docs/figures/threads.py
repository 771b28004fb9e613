# SPDX-License-Identifier: BSD-3-Clause
"""A drawing: chunks that are taught by two threads, and the model that each prediction sees."""

import matplotlib.pyplot as plt

chunks = [(0.0, 1.6, 2, "chunk 1"), (1.6, 3.4, 1, "chunk 2"), (3.4, 4.9, 2, "chunk 3")]
predictions = [0.4, 1.0, 1.9, 2.7, 3.2, 3.9, 4.5, 5.3]
figure, ax = plt.subplots(figsize=(7.2, 2.3))
for begin, end, line, name in chunks:
    ax.barh(line, end - begin, left=begin, height=0.5, color="C0", alpha=0.6)
    ax.text((begin + end) / 2, line, name, ha="center", va="center", fontsize=9)
    ax.axvline(end, color="0.5", linestyle=":")
ax.barh(1, 0.9, left=0.7, height=0.5, color="none", edgecolor="0.5", linestyle="--")
ax.text(1.15, 1, "waits", ha="center", va="center", fontsize=9, color="0.3")
for moment in predictions:
    seen = sum(end <= moment for _, end, _, _ in chunks)
    ax.plot(moment, 0, "o", color="C1")
    ax.text(moment, -0.45, f"model {seen}", ha="center", va="center", fontsize=8)
ax.set(yticks=[0, 1, 2], yticklabels=["predictions", "teacher B", "teacher A"], xticks=[])
ax.set(xlabel="time", ylim=(-0.8, 2.5), xlim=(-0.1, 5.8))
ax.grid(visible=False)
