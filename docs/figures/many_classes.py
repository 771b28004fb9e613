# SPDX-License-Identifier: BSD-3-Clause
"""The AUC of each pair of digits."""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from pairlearn import AUCClassifier, roc_auc

X, y = load_digits(return_X_y=True)
X, X_test, y, y_test = train_test_split(X, y, test_size=0.6, stratify=y, random_state=0)
model = AUCClassifier(random_state=0).fit(X, y)
scores = model.pair_scores(X_test)
found = np.full((10, 10), np.nan)
pairs = [(a, b) for a in range(10) for b in range(a + 1, 10)]
for column, (a, b) in enumerate(pairs):
    of_both = np.isin(y_test, (a, b))
    auc = roc_auc(y_test[of_both] == b, scores[of_both, column])
    found[b, a] = max(auc, 1.0 - auc)
figure, ax = plt.subplots(figsize=(4.6, 3.4))
image = ax.imshow(found, cmap="viridis", vmin=np.nanmin(found), vmax=1.0)
ax.set(xticks=range(9), yticks=range(1, 10), xlabel="digit", ylabel="against digit")
ax.grid(visible=False)
figure.colorbar(image, label="AUC on test digits")
