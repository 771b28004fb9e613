# SPDX-License-Identifier: BSD-3-Clause
"""Problems whose population risk and minimiser are known exactly.

The examples have finitely many values, so the risk is a finite sum and needs no estimate.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

from pairlearn.domains import Ball
from pairlearn.losses import Hinge, PairLoss, Square
from pairlearn.problem import Constants, Problem
from pairlearn.scores import LinearScore
from pairlearn.theory.glossary import documented
from pairlearn.typing import Places, Vector
from pairlearn.validation import check_count, check_fraction, check_positive


@dataclass(frozen=True, eq=False)
class FiniteProblem:
    """A pairwise problem on finitely many values of an example, with a known minimiser.

    Parameters
    ----------
    loss : PairLoss
        The pair loss; pairs of equal labels cost nothing.
    points : ndarray of shape (m, d)
        The values of x.
    labels : ndarray of shape (m,)
        The label of each, -1 or 1.
    probabilities : ndarray of shape (m,)
        The probability of each.
    domain : Ball
        The set that contains w.
    minimizer : ndarray of shape (d,)
        A minimiser of the population risk over the domain.

    Examples
    --------
    >>> problem = square_problem(n_features=2)
    >>> bool(problem.population_risk(problem.minimizer) < problem.population_risk(np.zeros(2)))
    True
    """

    loss: PairLoss
    points: Vector
    labels: Vector
    probabilities: Vector
    domain: Ball
    minimizer: Vector

    @property
    def n_features(self) -> int:
        """The number of features."""
        return int(self.points.shape[1])

    @functools.cached_property
    def constants(self) -> Constants:
        """G, L and sup f over the domain, for the largest norm of an example."""
        norm = float(np.linalg.norm(self.points, axis=1).max())
        problem = Problem(LinearScore(), self.loss)
        return problem.constants(norm_bound=norm, radius=self.domain.radius)

    @functools.cached_property
    def _ordered(self) -> tuple[Places, Places, Vector]:
        """Return the pairs (a, b) of values that cost something, and x_a - x_b."""
        first, second = np.nonzero(self.labels[:, None] != self.labels[None, :])
        if self.loss.one_sided:
            kept = self.labels[first] > self.labels[second]
            first, second = first[kept], second[kept]
        return first, second, self.points[first] - self.points[second]

    def draw(self, n: int, rng: np.random.Generator) -> Places:
        """Return n independent examples, as positions in `points`."""
        return rng.choice(len(self.points), size=check_count("n", n), p=self.probabilities)

    def examples(self, sample: Places) -> tuple[Vector, Vector]:
        """Return X and y of a sample."""
        return self.points[sample], self.labels[sample]

    def _risk(self, w: Vector, weights: Vector) -> float:
        first, second, differences = self._ordered
        labels = self.labels[first], self.labels[second]
        return float(weights @ self.loss.value.many(differences @ w, *labels, self.loss.parameter))

    def _gradient(self, w: Vector, weights: Vector) -> Vector:
        first, second, differences = self._ordered
        labels = self.labels[first], self.labels[second]
        slopes = self.loss.derivative.many(differences @ w, *labels, self.loss.parameter)
        return np.asarray((weights * slopes) @ differences)

    def _population_weights(self) -> Vector:
        first, second, _ = self._ordered
        return np.asarray(self.probabilities[first] * self.probabilities[second])

    def _empirical_weights(self, sample: Places) -> Vector:
        first, second, _ = self._ordered
        counts = np.bincount(sample, minlength=len(self.points)).astype(np.float64)
        return np.asarray(counts[first] * counts[second] / (len(sample) * (len(sample) - 1.0)))

    def population_risk(self, w: Vector) -> float:
        """Return F(w), exactly."""
        return self._risk(w, self._population_weights())

    def excess_risk(self, w: Vector) -> float:
        """Return F(w) - F(w*), exactly."""
        return self.population_risk(w) - self.population_risk(self.minimizer)

    def empirical_risk(self, w: Vector, sample: Places) -> float:
        """Return F_S(w): the mean over the ordered pairs of different examples."""
        return self._risk(w, self._empirical_weights(sample))

    def empirical_gradient(self, w: Vector, sample: Places) -> Vector:
        """Return the gradient of F_S at w."""
        return self._gradient(w, self._empirical_weights(sample))

    def population_gradient(self, w: Vector) -> Vector:
        """Return the gradient of F at w."""
        return self._gradient(w, self._population_weights())


@documented
def square_problem(
    n_features: int = 3, *, shift: float = 0.5, spread: float = 1.0, radius: float = 1.0
) -> FiniteProblem:
    r"""Return a problem with the square loss whose minimiser has a closed form.

    Examples of label y are y m + s e with m = (shift, 0, ..., 0), s = spread and e uniform on the
    2 d signed unit vectors. Then F(w) = [(1 - 2 <w, m>)^2 + 2 s^2 \|w\|^2/d]/2
    and w* = m d / (s^2 + 2 d \|m\|^2).

    Parameters
    ----------
    n_features : int, default=3
        Number of features, d.
    shift : float, default=0.5
        Half the distance between the class means.
    spread : float, default=1.0
        Distance of an example from its class mean.
    radius : float, default=1.0
        Radius of the ball that contains w; it must contain the minimiser.

    Returns
    -------
    FiniteProblem
        The problem.

    Examples
    --------
    >>> square_problem(n_features=2).minimizer
    array([0.5, 0. ])
    """
    check_count("n_features", n_features)
    check_positive("shift", shift)
    check_positive("spread", spread)
    units = spread * np.vstack([np.eye(n_features), -np.eye(n_features)])
    mean = np.zeros(n_features)
    mean[0] = shift
    minimizer = mean * n_features / (spread**2 + 2.0 * n_features * shift**2)
    if float(np.linalg.norm(minimizer)) > radius:
        raise ValueError(f"radius must be at least {np.linalg.norm(minimizer):g}, got {radius!r}.")
    return FiniteProblem(
        loss=Square(),
        points=np.vstack([units + mean, units - mean]),
        labels=np.repeat([1.0, -1.0], 2 * n_features),
        probabilities=np.full(4 * n_features, 1.0 / (4 * n_features)),
        domain=Ball(radius),
        minimizer=minimizer,
    )


@documented
def hinge_problem(
    n_features: int = 1,
    *,
    flip: float = 0.25,
    nuisance: float = 0.5,
    radius: float = 1.0,
    loss: PairLoss | None = None,
) -> FiniteProblem:
    r"""Return a problem with the hinge loss and a known minimiser: two points and noisy labels.

    The first feature is 1 or -1 with equal probability, and the label is its sign, flipped with
    probability q. One of the 2 (d - 1) signed multiples of the other unit vectors is added, chosen
    uniformly. For d = 1, F(w) = [(1-q)^2 (1-2w)_+ + 2q(1-q) + q^2 (1+2w)_+]/2 for \|w\| <= 1, and
    w* = 1/2 for q < 1/2. For d > 1 the minimiser is a multiple of the first unit vector, since F
    is convex and does not change when another coordinate changes its sign. Along that vector the
    pairs see the first feature only, so the minimiser is again 1/2.

    Parameters
    ----------
    n_features : int, default=1
        Number of features, d.
    flip : float, default=0.25
        The probability q of a wrong label, below 1/2.
    nuisance : float, default=0.5
        Size of the other features.
    radius : float, default=1.0
        Radius of the ball that contains w; it must contain the minimiser, 1/2.
    loss : PairLoss, optional
        Another loss on the same examples. A bounded search along the first coordinate then finds
        the minimiser, to within 1e-10.

    Returns
    -------
    FiniteProblem
        The problem.

    Examples
    --------
    >>> hinge_problem().minimizer
    array([0.5])
    """
    check_count("n_features", n_features)
    q = check_fraction("flip", flip)
    if q >= 0.5:
        raise ValueError(f"flip must be below 1/2, got {flip!r}.")
    if radius < 0.5:
        raise ValueError(f"radius must be at least 1/2, got {radius!r}.")
    if n_features == 1:
        others = np.zeros((1, 1))
    else:
        units = check_positive("nuisance", nuisance) * np.eye(n_features)[1:]
        others = np.vstack([units, -units])
    points, labels, probabilities = [], [], []
    for sign in (1.0, -1.0):
        for label, chance in ((sign, 1.0 - q), (-sign, q)):
            for other in others:
                point = other.copy()
                point[0] = sign
                points.append(point)
                labels.append(label)
                probabilities.append(0.5 * chance / len(others))
    minimizer = np.zeros(n_features)
    minimizer[0] = 0.5
    problem = FiniteProblem(
        loss=Hinge() if loss is None else loss,
        points=np.asarray(points),
        labels=np.asarray(labels),
        probabilities=np.asarray(probabilities),
        domain=Ball(radius),
        minimizer=minimizer,
    )
    if loss is not None:
        minimizer[0] = _search(problem)
    return problem


def _search(problem: FiniteProblem) -> float:
    """Return the first coordinate of the minimiser, by a bounded search over the ball."""
    from scipy.optimize import minimize_scalar

    if not problem.loss.convex:
        raise ValueError(f"the search for a minimiser needs a convex loss, got {problem.loss!r}.")

    def risk(first: float) -> float:
        w = np.zeros(problem.n_features)
        w[0] = first
        return problem.population_risk(w)

    radius = problem.domain.radius
    found = minimize_scalar(
        risk, bounds=(-radius, radius), method="bounded", options={"xatol": 1e-10}
    )
    candidates = [float(found.x), radius, -radius]
    return min(candidates, key=risk)
