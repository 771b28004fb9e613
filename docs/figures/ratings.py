# SPDX-License-Identifier: BSD-3-Clause
"""The scores of six teams with their intervals."""

import matplotlib.pyplot as plt
import numpy as np

from pairlearn import PairwiseRatings
from pairlearn.estimators import plot_ratings

teams = np.array(["Ajax", "Bremen", "Celtic", "Dynamo", "Everton", "Flora"])
wins = np.array(
    [[0, 5, 4, 6, 5, 7], [2, 0, 3, 5, 4, 6], [2, 3, 0, 4, 5, 5],
     [1, 2, 2, 0, 3, 4], [1, 2, 1, 3, 0, 4], [0, 1, 2, 2, 3, 0]]
)  # fmt: skip
a, b = np.triu_indices(6, 1)
games = np.concatenate([wins[a, b], (8 - wins - wins.T)[a, b], wins[b, a]])
model = PairwiseRatings().fit(
    teams[np.tile(a, 3)],
    teams[np.tile(b, 3)],
    np.repeat([1.0, 0.5, 0.0], len(a)),
    sample_weight=games,
)
figure, ax = plt.subplots(figsize=(5.0, 3.0), layout="constrained")
plot_ratings(model, ax=ax)
