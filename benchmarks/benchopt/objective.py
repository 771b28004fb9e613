# SPDX-License-Identifier: BSD-3-Clause
"""Minimise the squared hinge over all pairs of a positive and a negative, with a ridge.

    F(w) = mean over opposite pairs of max(0, 1 - <w, x - x'>)^2 + ridge ||w||^2

Methods that minimise something else are judged by the AUC on test examples, which is what F stands
for.
"""

from sklearn.metrics import roc_auc_score

from benchopt import BaseObjective
from pairlearn.metrics import pair_risk


class Objective(BaseObjective):
    """The pair risk on the training part, and the AUC on the test part."""

    name = "Linear AUC maximisation"
    min_benchopt_version = "1.6"
    requirements = ["pip::scikit-learn", "pip::pairlearn"]
    parameters = {"ridge": [1e-3]}

    def set_data(self, X, y, X_test, y_test):
        """Take a data set."""
        self.X, self.y, self.X_test, self.y_test = X, y, X_test, y_test
        # pair_risk is the mean over all ordered pairs; F has opposite ones only.
        n, n_positive = len(y), int((y > 0).sum())
        self.share = 2 * n_positive * (n - n_positive) / (n * (n - 1))

    def get_objective(self):
        """Return what a solver is told."""
        return {"X": self.X, "y": self.y, "ridge": self.ridge}

    def evaluate_result(self, coef):
        """Return the risk, and the share of test pairs in the wrong order."""
        risk = pair_risk("squared_hinge", self.X @ coef, self.y) / self.share
        wrong = 1.0 - roc_auc_score(self.y_test, self.X_test @ coef)
        return {"value": risk + self.ridge * float(coef @ coef), "wrong_test_pairs": wrong}

    def get_one_result(self):
        """Return a result for benchopt's own tests."""
        return {"coef": self.X[0] * 0.0}
