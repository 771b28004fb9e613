# SPDX-License-Identifier: BSD-3-Clause
r"""Nystroem features: the Gaussian kernel, projected on landmarks.

With landmarks c_1, ..., c_m among the examples and K their kernel matrix, z(x) = K^(-1/2) k(x),
k(x)_j = k(x, c_j), has <z(x), z(x')> = k(x)' K^(-1) k(x'): the kernel projected on the landmarks.
On the diagonal it is at most k(x, x) = 1 (Williams, Seeger, NeurIPS 2000).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pairlearn.features.base import Bounds, FeatureMap, dense
from pairlearn.features.columns import sample_of, spreads_of
from pairlearn.features.fourier import LIMIT, median_gamma
from pairlearn.restored import check_sane
from pairlearn.typing import Vector
from pairlearn.validation import check_count, check_positive

#: Eigenvalues of the landmarks' kernel matrix below this share of the largest are dropped.
_SMALLEST = 1e-10
#: Number of k-means steps.
_STEPS = 10


@dataclass(frozen=True)
class Nystroem(FeatureMap):
    """The Gaussian kernel, projected on landmarks.

    Parameters
    ----------
    n_features : int, default=512
        Number of landmarks, at most the number of examples.
    gamma : float or "auto", default="auto"
        The gamma of the kernel exp(-gamma ||x - x'||^2) of standardised features. "auto" is one
        over the median squared distance of two examples.
    landmarks : {"means", "examples"}, default="means"
        Whether the landmarks are cluster means or random examples.

    Notes
    -----
    Features are standardised and clipped as in `RandomFourier`.

    References
    ----------
    Williams, Seeger. Using the Nystroem method to speed up kernel machines. NeurIPS 2000.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(50, 2))
    >>> Z = Nystroem(50, gamma=0.5, landmarks="examples").fit(X, rng=0).transform(X)
    >>> bool(abs(Z @ Z.T - 1).max() < 1), bool(abs((Z**2).sum(axis=1) - 1).max() < 1e-6)
    (True, True)
    """

    n_features: int = 512
    gamma: float | str = "auto"
    landmarks: str = "means"

    closed_form: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_count("n_features", self.n_features)
        if self.gamma != "auto":
            check_positive("gamma", self.gamma)  # type: ignore[arg-type]
        if self.landmarks not in ("means", "examples"):
            raise ValueError(f'landmarks must be "means" or "examples", got {self.landmarks!r}.')

    def learn(self, X: Any, rng: np.random.Generator) -> dict[str, NDArray[Any]]:
        """Return scales, landmarks and the inverse root of their kernel matrix."""
        sample = sample_of(X, rng)
        centre, factor = spreads_of(sample)
        gamma = self.gamma
        if gamma == "auto":
            gamma = median_gamma(sample, centre, factor, rng)
        n = sample.shape[0]
        count = min(self.n_features, n)
        own = sample[rng.choice(n, count, replace=False)]
        points = _standard(dense(own, np.dtype(np.float64)), centre, factor)
        if self.landmarks == "means" and count < n:
            points = _means(sample, points, centre, factor)
        found = {
            "centre": centre, "factor": factor, "points": points, "gamma": np.array([float(gamma)])
        }  # fmt: skip
        values, vectors = np.linalg.eigh(_kernel(points, points, float(gamma)))
        kept = values > _SMALLEST * values[-1]
        found["root"] = vectors[:, kept] / np.sqrt(values[kept])
        return found

    def check_learned(self, learned: Mapping[str, NDArray[Any]], n_inputs: int) -> None:
        """Raise unless landmarks and scales fit together."""
        names = {"centre", "factor", "points", "gamma", "root"}
        if set(learned) != names or any(learned[k].dtype != np.float64 for k in names):
            raise ValueError(f"a saved Nystroem holds {sorted(names)} in float64.")
        points, root = learned["points"], learned["root"]
        if (
            learned["centre"].shape != (n_inputs,)
            or learned["factor"].shape != (n_inputs,)
            or learned["gamma"].shape != (1,)
            or points.ndim != 2
            or points.shape[1] != n_inputs
            or root.ndim != 2
            or len(root) != len(points)
        ):
            raise ValueError(f"the saved arrays are no Nystroem of {n_inputs} features.")
        # Standardised examples are clipped there, and so are their means.
        if (np.abs(points) > LIMIT).any():
            raise ValueError(f"a saved landmark is beyond {LIMIT:g}.")
        check_sane("root of the kernel matrix", root)

    def _width(self, example: Any) -> int:
        return int(self.learned["root"].shape[1])

    def mapped(self, X: NDArray[Any]) -> NDArray[Any]:
        """Return the mapped rows."""
        own = self.learned
        rows = _standard(X, own["centre"], own["factor"])
        return np.asarray(_kernel(rows, own["points"], float(own["gamma"][0])) @ own["root"])

    def bounds(self) -> Bounds:
        """Return the norm 1, an upper bound for any projection of the kernel."""
        return Bounds(-1.0, 1.0, 1.0)

    def onnx(self, graph: Any, rows: str) -> str:
        """Add standardisation, squared distances, their exponential and a product."""
        own = self.learned
        above = graph.node("Sub", [rows, graph.constant(own["centre"])])
        scaled = graph.node("Mul", [above, graph.constant(own["factor"])])
        raised = graph.node("Max", [scaled, graph.constant(np.array(-LIMIT))])
        inputs = graph.node("Min", [raised, graph.constant(np.array(LIMIT))])
        square = graph.node("Mul", [inputs, inputs])
        norms = graph.node(
            "ReduceSum", [square, graph.constant(np.array([1], dtype=np.int64))], keepdims=1
        )
        product = graph.node("MatMul", [inputs, graph.constant(-2.0 * own["points"].T)])
        total = graph.node("Add", [product, norms])
        sizes = (own["points"] ** 2).sum(axis=1)
        distances = graph.node("Add", [total, graph.constant(sizes)])
        positive = graph.node("Max", [distances, graph.constant(np.array(0.0))])
        scale = graph.constant(np.array(-float(own["gamma"][0])))
        kernel = graph.node("Exp", [graph.node("Mul", [positive, scale])])
        result: str = graph.node("MatMul", [kernel, graph.constant(own["root"])])
        return result


def _standard(X: NDArray[Any], centre: Vector, factor: Vector) -> Vector:
    # Values that overflow are clipped as well.
    with np.errstate(over="ignore"):
        return np.clip((X - centre) * factor, -LIMIT, LIMIT)


def _kernel(A: Vector, B: Vector, gamma: float) -> Vector:
    squares = (A**2).sum(axis=1)[:, None] + (B**2).sum(axis=1)[None] - 2.0 * (A @ B.T)
    return np.asarray(np.exp(-gamma * np.maximum(squares, 0.0)))


def _means(sample: Any, points: Vector, centre: Vector, factor: Vector) -> Vector:
    """Return the points after ten steps of k-means on the sample."""
    n, kind = min(sample.shape[0], 20 * len(points)), np.dtype(np.float64)
    for _ in range(_STEPS):
        sums, counts = np.zeros_like(points), np.zeros(len(points))
        sizes = (points**2).sum(axis=1)
        for start in range(0, n, 1024):
            rows = _standard(dense(sample[start : min(start + 1024, n)], kind), centre, factor)
            nearest = (sizes - 2.0 * (rows @ points.T)).argmin(axis=1)
            np.add.at(sums, nearest, rows)
            counts += np.bincount(nearest, minlength=len(points))
        has = counts > 0
        points = np.where(has[:, None], sums / np.maximum(counts, 1.0)[:, None], points)
    return points
