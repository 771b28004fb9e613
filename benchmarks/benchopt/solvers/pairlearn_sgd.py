# SPDX-License-Identifier: BSD-3-Clause
"""The paper's algorithm: each example is paired with the previous one."""

from benchopt import BaseSolver
from pairlearn import InverseSqrt, LinearScore, PairwiseSGD, PreviousExample, Problem, SquaredHinge


class Solver(BaseSolver):
    """pairlearn's pairwise SGD with a step size of the order 1 / L."""

    name = "pairlearn-sgd"
    sampling_strategy = "iteration"
    parameters = {"step_size": [0.01, 0.1]}

    def set_objective(self, X, y, ridge):
        """Take the problem; the ridge is left out, the average stops early instead."""
        self.X, self.y = X, y

    def run(self, n_passes):
        """Go through the examples n_passes times."""
        problem = Problem(LinearScore(), SquaredHinge())
        solver = PairwiseSGD(PreviousExample(), InverseSqrt(self.step_size))
        self.coef = solver.solve(problem, self.X, self.y, n_passes=max(n_passes, 1), rng=0).w

    def warm_up(self):
        """Compile."""
        self.run(1)

    def get_result(self):
        """Return the coefficients."""
        return {"coef": self.coef}
