# SPDX-License-Identifier: BSD-3-Clause
"""scikit-learn's logistic regression: pointwise, so it minimises another risk."""

from sklearn.linear_model import LogisticRegression

from benchopt import BaseSolver


class Solver(BaseSolver):
    """Logistic regression with its usual penalty."""

    name = "logistic"
    sampling_strategy = "tolerance"
    parameters = {"C": [1.0]}

    def set_objective(self, X, y, ridge):
        """Take the problem."""
        self.X, self.y = X, y

    def run(self, tolerance):
        """Solve to a tolerance."""
        model = LogisticRegression(C=self.C, tol=max(tolerance, 1e-12), max_iter=1000)
        self.coef = model.fit(self.X, self.y).coef_[0]

    def get_result(self):
        """Return the coefficients."""
        return {"coef": self.coef}
