# SPDX-License-Identifier: BSD-3-Clause
"""Scores of pairs of examples: linear, or a Mahalanobis distance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairlearn.register import Part, Register
from pairlearn.typing import Vector
from pairlearn.validation import check_count

__all__ = ["SCORES", "LinearScore", "MahalanobisScore", "Score"]

PARAMETERIZATIONS = ("full", "diagonal", "low_rank")


@dataclass(frozen=True)
class LinearScore(Part):
    """Difference of linear predictions, s = <w, x - x'>.

    Examples
    --------
    >>> LinearScore().pair_norm_bound(1.5)
    3.0
    """

    def pair_norm_bound(self, norm_bound: float) -> float:
        """Return the largest norm of the score's gradient, ||x - x'|| <= 2 B for ||x|| <= B."""
        return 2.0 * norm_bound

    def n_parameters(self, n_features: int) -> int:
        """Return the length of w."""
        return n_features

    def in_units(self, w: NDArray[Any], unit: Vector) -> NDArray[Any]:
        """Multiply w in place to match features divided by `unit`; return it."""
        w *= unit
        return w

    def of_pairs(self, w: Vector, left: Any, right: Any) -> Vector:
        """Return the scores of pairs of rows (objects with a method ``scores``)."""
        return np.asarray(left.scores(w) - right.scores(w))


@dataclass(frozen=True)
class MahalanobisScore(Part):
    """Squared Mahalanobis distance, h = (x - x')' W (x - x') with W positive semi-definite.

    Parameters
    ----------
    parameterization : {"full", "diagonal", "low_rank"}, default="full"
        The content of w: W itself, row by row; the diagonal of a diagonal W; or, row by row, a
        factor L of shape (d, rank) with W = L L' (not convex in L, but cheap).
    rank : int, optional
        The number of columns of L, for "low_rank".

    Examples
    --------
    >>> import numpy as np
    >>> score = MahalanobisScore("low_rank", rank=1)
    >>> score.matrix(np.array([1.0, 2.0]), 2)
    array([[1., 2.],
           [2., 4.]])
    """

    parameterization: str = "full"
    rank: int | None = None

    def __post_init__(self) -> None:
        if self.parameterization not in PARAMETERIZATIONS:
            raise ValueError(
                f"parameterization must be one of {PARAMETERIZATIONS}, "
                f"got {self.parameterization!r}."
            )
        if self.parameterization == "low_rank":
            if self.rank is None:
                raise ValueError('parameterization="low_rank" needs the rank of W.')
            check_count("rank", self.rank)
        elif self.rank is not None:
            raise ValueError(
                f'rank={self.rank!r} needs parameterization="low_rank", '
                f"got {self.parameterization!r}."
            )

    def pair_norm_bound(self, norm_bound: float) -> float:
        """Return the largest norm of the gradient (x - x')(x - x')' in W, 4 B^2 for ||x|| <= B."""
        if self.parameterization == "low_rank":
            raise ValueError(
                "The score is quadratic in the factor L, so its gradient has no bound that holds "
                'for all L; use parameterization="full" for statements about constants.'
            )
        return 4.0 * norm_bound**2

    def n_parameters(self, n_features: int) -> int:
        """Return the length of w."""
        if self.parameterization == "diagonal":
            return n_features
        if self.rank is None:
            return n_features * n_features
        if self.rank > n_features:
            raise ValueError(
                f"rank must be at most the number of features, {n_features}, got {self.rank}."
            )
        return n_features * self.rank

    def matrix(self, w: Vector, n_features: int) -> Vector:
        """Return W as a (d, d) array."""
        if self.parameterization == "diagonal":
            return np.diag(w)
        if self.rank is None:
            return np.asarray(w.reshape(n_features, n_features))
        factor = w.reshape(n_features, self.rank)
        return np.asarray(factor @ factor.T)

    def in_units(self, w: NDArray[Any], unit: Vector) -> NDArray[Any]:
        """Multiply w in place to match features divided by `unit`; return it."""
        matrix = w.reshape(len(unit), -1)
        matrix *= (unit * unit if self.parameterization == "diagonal" else unit)[:, np.newaxis]
        if self.parameterization == "full":
            matrix *= unit
        return w

    def of_pairs(self, w: Vector, left: Any, right: Any) -> Vector:
        """Return the squared distances of pairs of dense rows (objects with an array ``X``)."""
        v = np.asarray(left.X - right.X, dtype=np.float64)
        if self.parameterization == "diagonal":
            return np.asarray((v * v) @ w)
        if self.rank is None:
            return np.asarray(np.einsum("nd,nd->n", v @ w.reshape(v.shape[1], -1), v))
        return np.asarray(((v @ w.reshape(v.shape[1], self.rank)) ** 2).sum(axis=1))


Score = LinearScore | MahalanobisScore

SCORES: Register[Score] = Register("score", Score)
for _one in (LinearScore, MahalanobisScore):
    SCORES.add()(_one)
