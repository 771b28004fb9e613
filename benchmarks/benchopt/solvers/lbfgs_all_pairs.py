# SPDX-License-Identifier: BSD-3-Clause
"""SciPy's L-BFGS on all pairs, written out: what one would do without a library."""

import numpy as np
from scipy.optimize import minimize

from benchopt import BaseSolver

#: Pairs beyond which the matrix of margins would not fit.
MOST_PAIRS = 20_000_000


class Solver(BaseSolver):
    """One matrix of margins an evaluation: O(n+ n-)."""

    name = "lbfgs-all-pairs"
    sampling_strategy = "iteration"

    def skip(self, X, y, ridge):
        """Leave out data sets with too many pairs."""
        n_pairs = int((y > 0).sum()) * int((y < 0).sum())
        return n_pairs > MOST_PAIRS, f"{n_pairs:,} pairs are too many for a matrix"

    def set_objective(self, X, y, ridge):
        """Take the problem."""
        self.above, self.below, self.ridge = X[y > 0], X[y < 0], ridge

    def run(self, n_iter):
        """Take n_iter iterations."""
        start = np.zeros(self.above.shape[1])
        found = minimize(
            self._value, start, jac=True, method="L-BFGS-B", options={"maxiter": n_iter + 1}
        )
        self.coef = found.x

    def _value(self, w):
        slack = 1.0 - (self.above @ w)[:, None] + (self.below @ w)[None, :]
        np.maximum(slack, 0.0, out=slack)
        pull = -2.0 * slack / slack.size
        gradient = pull.sum(1) @ self.above - pull.sum(0) @ self.below
        value = (slack * slack).mean() + self.ridge * (w @ w)
        return value, gradient + 2.0 * self.ridge * w

    def get_result(self):
        """Return the coefficients."""
        return {"coef": self.coef}
