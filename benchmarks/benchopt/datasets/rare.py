# SPDX-License-Identifier: BSD-3-Clause
"""Simulated examples, a few of them positive: most pairs of examples say nothing."""

import numpy as np

from benchopt import BaseDataset


class Dataset(BaseDataset):
    """Normal features; the score that decides is linear."""

    name = "rare"
    parameters = {"n": [20_000], "d": [20], "positives": [0.02], "seed": [0]}

    def get_data(self):
        """Return training and test part."""
        rng = np.random.default_rng(self.seed)
        X = rng.normal(size=(2 * self.n, self.d))
        score = X @ rng.normal(size=self.d) / np.sqrt(self.d) + rng.normal(size=2 * self.n)
        y = np.where(score > np.quantile(score, 1.0 - self.positives), 1.0, -1.0)
        n = self.n
        return {"X": X[:n], "y": y[:n], "X_test": X[n:], "y_test": y[n:]}
