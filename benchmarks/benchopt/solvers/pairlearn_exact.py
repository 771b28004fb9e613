# SPDX-License-Identifier: BSD-3-Clause
"""The exact solver: Newton's method or L-BFGS on sorted scores, O(n log n) an evaluation."""

from benchopt import BaseSolver
from pairlearn.solvers import ExactSolver


class Solver(BaseSolver):
    """pairlearn's `Exact`."""

    name = "pairlearn-exact"
    sampling_strategy = "tolerance"

    def set_objective(self, X, y, ridge):
        """Take the problem."""
        self.X, self.y, self.ridge = X, y, ridge

    def run(self, tolerance):
        """Solve to a tolerance; compilation stays outside the clock, see warm_up."""
        solver = ExactSolver("squared_hinge", ridge=self.ridge, tolerance=max(tolerance, 1e-15))
        self.coef = solver.solve(self.X, self.y).w

    def warm_up(self):
        """Compile."""
        self.run(1.0)

    def get_result(self):
        """Return the coefficients."""
        return {"coef": self.coef}
