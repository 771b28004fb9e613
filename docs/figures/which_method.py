# SPDX-License-Identifier: BSD-3-Clause
"""The first table of the page as a picture: differences from logistic regression."""

import re
from pathlib import Path

import matplotlib.pyplot as plt

# The documentation runs this text in its folder, the tests run the file.
here = Path(globals().get("__file__", Path.cwd() / "which_method.py")).parent
text = (here.parent / "guide" / "which-method.md").read_text(encoding="utf-8")
row = r"^\| (\S+) \| (\S+) \| [\d.]+ \| [\d.]+ \| (\S+) \[(\S+), (\S+)\]"
found = re.findall(row, text.split("## Stochastic or exact")[0], flags=re.MULTILINE)
sets = list(dict.fromkeys(entry[0] for entry in found))
figure, axes = plt.subplots(1, len(sets), figsize=(8.4, 2.4), sharey=True)
for ax, name in zip(axes, sets, strict=True):
    mine = [entry for entry in found if entry[0] == name][::-1]
    for place, (_, _, *numbers) in enumerate(mine):
        value, low, high = map(float, numbers)
        ax.plot([low, high], [place, place], color="C0", alpha=0.5)
        ax.plot(value, place, "o", color="C0")
    ax.axvline(0.0, color="0.4", linestyle="--")
    ax.set(title=name, yticks=range(len(mine)), yticklabels=[entry[1] for entry in mine])
    ax.tick_params(axis="x", labelsize=7)
figure.supxlabel("AUC less that of logistic regression", fontsize=9)
