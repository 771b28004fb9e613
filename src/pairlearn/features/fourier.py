# SPDX-License-Identifier: BSD-3-Clause
r"""Random Fourier features: a kernel machine as a linear score.

With frequencies w_1, ..., w_h drawn from the spectrum of a shift-invariant kernel k,

    z(x) = h^(-1/2) (cos <w_1, x>, ..., cos <w_h, x>, sin <w_1, x>, ..., sin <w_h, x>)

has norm 1 and <z(x), z(x')> is the mean of cos <w_j, x - x'>, which estimates k(x - x') without
bias and with a standard deviation of at most (2 h)^(-1/2) (Rahimi, Recht, NeurIPS 2007). The
Gaussian kernel exp(-gamma ||x - x'||^2) has normal frequencies of variance 2 gamma.

The mixed map uses half of its frequencies for the Gaussian kernel of standardised features, and
half for sparse frequencies. A sparse frequency touches one to four features, after their own
distribution functions, at scales that differ by a factor of up to 16. The first half fits smooth
functions of all features, the second half fits steps and interactions of a few. Neither needs a
bandwidth search.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pairlearn.features.base import TILE, Bounds, FeatureMap, blocks_of, dense, tiles
from pairlearn.features.columns import columns_of, sample_of, spreads_of
from pairlearn.typing import Vector
from pairlearn.validation import check_count, check_positive

#: Standardised features are clipped here, so that future outliers are not farther away and phases
#: stay within the range of the kernel's argument reduction.
LIMIT = 100.0
#: Number of knots of a distribution function.
_KNOTS = 65
#: (u - 1/2) times this has variance 1 for a uniform u.
_WIDTH = 2.0 * np.sqrt(3.0)
#: Sparse frequencies touch at most this many features.
_MOST_TOUCHED = 4
#: Number of pairs of examples whose distances give the bandwidth.
_PAIRS = 2_000
#: Number of rows of a sparse block whose phases are in memory at once.
_ROWS = 1024

#: With fewer examples of the rarer class, a map by name has this many mapped features.
_RARE = 100
_RARE_OUTPUTS = 1024


@dataclass(frozen=True)
class RandomFourier(FeatureMap):
    """Sines and cosines of random projections.

    Parameters
    ----------
    n_features : int or "auto", default="auto"
        Number of mapped features, even. "auto" is 512 for fewer than 1,000 examples, 1,024 for
        fewer than 3,000, 2,048 up to 30,000, 1,536 up to 60,000, and 1,024 beyond, since a closed
        form costs the number of examples times the square of this number. An estimator fits the map
        to 20,000 of its examples at most.
    kind : {"mixed", "gaussian"}, default="mixed"
        "gaussian" approximates the kernel exp(-gamma ||x - x'||^2) of standardised features.
        "mixed" does so with half of the frequencies; the others touch one to four features each,
        after their distribution functions.
    gamma : float or "auto", default="auto"
        The gamma of the Gaussian kernel. "auto" is one over the median squared distance of two
        examples.

    Notes
    -----
    The map standardises features itself, so units do not matter, and clips them at 100 standard
    deviations. Rows are mapped in float32 or float64, as requested. Sparse rows are multiplied
    without a dense copy; the frequencies are a dense matrix of shape (d, `n_features` / 2).

    References
    ----------
    Rahimi, Recht. Random features for large-scale kernel machines. NeurIPS 2007.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> Z = RandomFourier(4096, "gaussian", gamma=0.5).fit(X, rng=0).transform(X)
    >>> Z.shape, bool(abs((Z[0] @ Z[0]) - 1) < 1e-12)
    ((200, 4096), True)
    """

    n_features: int | str = "auto"
    kind: str = "mixed"
    gamma: float | str = "auto"

    closed_form: ClassVar[bool] = True

    def sized(self, n_examples: int, n_features: int, n_rarer: int) -> FeatureMap:
        """Return a map of half the features where one class is rare."""
        rare = n_rarer < _RARE and n_examples >= 1000
        return RandomFourier(_RARE_OUTPUTS if rare else "auto")

    def __post_init__(self) -> None:
        if self.n_features != "auto":
            count = check_count("n_features", self.n_features, minimum=2)  # type: ignore[arg-type]
            if count % 2:
                raise ValueError(
                    f"n_features must be even (a sine and a cosine each), got {count}."
                )
        if self.kind not in ("mixed", "gaussian"):
            raise ValueError(f'kind must be "mixed" or "gaussian", got {self.kind!r}.')
        if self.gamma != "auto":
            check_positive("gamma", self.gamma)  # type: ignore[arg-type]

    # ------------------------------------------------------------------------------ fitting

    def learn(self, X: Any, rng: np.random.Generator) -> dict[str, NDArray[Any]]:
        """Return scales, knots of distribution functions, and frequencies."""
        n, d = X.shape
        count = _size_for(n) if self.n_features == "auto" else int(self.n_features)
        n_sparse = count // 4 if self.kind == "mixed" else 0
        n_dense = count // 2 - n_sparse
        sample = sample_of(X, rng)
        centre, factor = spreads_of(sample)
        gamma = (
            median_gamma(sample, centre, factor, rng) if self.gamma == "auto" else float(self.gamma)
        )
        found: dict[str, NDArray[Any]] = {
            "centre": centre,
            "factor": factor,
            "frequencies": rng.standard_normal((d, n_dense)) * np.sqrt(2.0 * float(gamma)),
        }
        if n_sparse:
            columns = columns_of(sample)
            knots = [column.knots(_KNOTS) for column in columns]
            ranks = [c.middle_ranks(own) for c, own in zip(columns, knots, strict=True)]
            starts = np.concatenate([[0], np.cumsum([len(own) for own in knots])])
            found["starts"] = starts.astype(np.int64)
            found["knots"] = np.concatenate(knots)
            found["values"] = (np.concatenate(ranks) - 0.5) * _WIDTH
            found["sparse_frequencies"] = _sparse_frequencies(d, n_sparse, rng)
        return found

    def check_learned(self, learned: Mapping[str, NDArray[Any]], n_inputs: int) -> None:
        """Raise unless scales, knots and frequencies fit together."""
        names = ["centre", "factor", "frequencies"]
        if self.kind == "mixed":
            names += ["starts", "knots", "values", "sparse_frequencies"]
        if set(learned) != set(names):
            raise ValueError(f"a saved RandomFourier holds {names}, got {sorted(learned)}.")
        d = n_inputs
        good = all(learned[name].dtype == np.float64 for name in names if name != "starts")
        good = good and learned["centre"].shape == learned["factor"].shape == (d,)
        good = good and learned["frequencies"].ndim == 2 and len(learned["frequencies"]) == d
        if good and self.kind == "mixed":
            starts, knots = learned["starts"], learned["knots"]
            good = (
                starts.shape == (d + 1,)
                and starts.dtype == np.int64
                and knots.ndim == 1
                and knots.shape == learned["values"].shape
                and starts[0] == 0
                and starts[-1] == len(knots)
                and bool((np.diff(starts) >= 1).all())
                and learned["sparse_frequencies"].ndim == 2
                and len(learned["sparse_frequencies"]) == d
            )
        if not good:
            raise ValueError(f"the saved arrays are no RandomFourier of {d} features.")

    def _width(self, example: Any) -> int:
        return 2 * sum(int(W.shape[1]) for W in self._tables())

    def _tables(self) -> list[Vector]:
        names = ("frequencies", "sparse_frequencies")
        return [self.learned[name] for name in names if name in self.learned]

    # ------------------------------------------------------------------------------ mapping

    def mapped(self, X: NDArray[Any]) -> NDArray[Any]:
        """Return the mapped rows."""
        out = np.empty((len(X), self.n_outputs))
        self.fill(X, out)
        return out

    def fill(self, X: Any, out: NDArray[Any]) -> None:
        """Write cosines and sines into `out`, first those of the dense frequencies."""
        kind = out.dtype
        tables = [np.ascontiguousarray(W, dtype=kind) for W in self._tables()]
        if hasattr(X, "tocsr"):
            self._fill_sparse(X, tables, out)
            return
        inputs = np.empty((TILE, self.n_inputs), dtype=kind)
        phases = [np.empty((TILE, W.shape[1]), dtype=kind) for W in tables]
        for rows, tile in tiles(X, X.dtype):
            start = 0
            for part, W in enumerate(tables):
                self._inputs(part, tile, inputs)
                np.matmul(inputs, W, out=phases[part])
                self._waves(phases[part], out[rows], start)
                start += 2 * W.shape[1]

    def _inputs(self, part: int, tile: NDArray[Any], out: NDArray[Any]) -> None:
        """Fill the factors of the frequencies of a part."""
        own = self.learned
        if part == 0:
            with np.errstate(over="ignore"):
                np.clip((tile - own["centre"]) * own["factor"], -LIMIT, LIMIT, out=out)
        else:
            for k in range(self.n_inputs):
                out[:, k] = self._rank(k, tile[:, k])

    def _rank(self, k: int, x: Vector) -> Vector:
        """Return the piecewise linear function of a feature, constant beyond its knots."""
        own, (start, end) = self.learned, self.learned["starts"][k : k + 2]
        return np.interp(x, own["knots"][start:end], own["values"][start:end])

    def _waves(self, phases: NDArray[Any], out: NDArray[Any], start: int) -> None:
        """Fill the columns from `start` on with the cosines and sines of the phases."""
        scale, h = out.dtype.type(np.sqrt(2.0 / self.n_outputs)), phases.shape[1]
        phases = phases[: len(out)]
        for wave, at in ((np.cos, start), (np.sin, start + h)):
            columns = out[:, at : at + h]
            wave(phases, out=columns)
            columns *= scale

    def _fill_sparse(self, X: Any, tables: list[Vector], out: NDArray[Any]) -> None:
        """Map sparse rows: the phases of a row of zeros, plus the changes by its stored numbers."""
        own, place = self.learned, 0
        for part, W in enumerate(self._tables()):
            at_zero = np.empty((1, self.n_inputs))
            self._inputs(part, np.zeros((1, self.n_inputs)), at_zero)
            offset = at_zero[0] @ W
            for rows in blocks_of(X.shape[0], _ROWS):
                block = X[rows].astype(np.float64)
                if part == 0:
                    value = np.clip(
                        (block.data - own["centre"][block.indices]) * own["factor"][block.indices],
                        -LIMIT,
                        LIMIT,
                    )
                    block.data = value - at_zero[0][block.indices]
                else:
                    change = np.empty(len(block.data))
                    for k in np.unique(block.indices):
                        stored = block.indices == k
                        change[stored] = self._rank(k, block.data[stored]) - at_zero[0, k]
                    block.data = change
                phases = np.asarray(block @ W) + offset
                self._waves(np.ascontiguousarray(phases, dtype=out.dtype), out[rows], place)
            place += 2 * W.shape[1]

    def bounds(self) -> Bounds:
        """Return the bounds of a scaled sine, and the norm 1."""
        self.check_fitted()
        size = float(np.sqrt(2.0 / self.n_outputs))
        return Bounds(-size, size, 1.0)

    def onnx(self, graph: Any, rows: str) -> str:
        """Add standardisation, distribution functions as sums of ramps, products and waves."""
        own, parts = self.learned, []
        above = graph.node("Sub", [rows, graph.constant(own["centre"])])
        scaled = graph.node("Mul", [above, graph.constant(own["factor"])])
        raised = graph.node("Max", [scaled, graph.constant(np.array(-LIMIT))])
        inputs = [graph.node("Min", [raised, graph.constant(np.array(LIMIT))])]
        if self.kind == "mixed":
            inputs.append(self._distribution_onnx(graph, rows))
        # A vector: runtimes fuse a product with one number, and keep that in single precision.
        scale = graph.constant(np.full(self.n_outputs, np.sqrt(2.0 / self.n_outputs)))
        for name, W in zip(inputs, self._tables(), strict=True):
            phases = graph.node("MatMul", [name, graph.constant(W)])
            # A cosine as a shifted sine: ONNX runtimes have cosines in single precision only.
            ahead = graph.node("Add", [phases, graph.constant(np.array(0.5 * np.pi))])
            parts += [graph.node("Sin", [ahead]), graph.node("Sin", [phases])]
        joined = graph.node("Concat", parts, axis=1)
        result: str = graph.node("Mul", [joined, scale])
        return result

    def _distribution_onnx(self, graph: Any, rows: str) -> str:
        """Add the distribution functions: a start plus jumps times ramps, in one product."""
        starts, knots, values = (self.learned[name] for name in ("starts", "knots", "values"))
        is_last = np.zeros(len(knots), dtype=bool)
        is_last[starts[1:] - 1] = True
        begins = np.flatnonzero(~is_last)
        owners = np.repeat(np.arange(self.n_inputs), np.diff(starts) - 1)
        gathered = graph.node("Gather", [rows, graph.constant(owners)], axis=1)
        above = graph.node("Sub", [gathered, graph.constant(knots[begins])])
        gaps = knots[begins + 1] - knots[begins]
        steep = graph.node("Div", [above, graph.constant(gaps)])
        raised = graph.node("Max", [steep, graph.constant(np.array(0.0))])
        ramps = graph.node("Min", [raised, graph.constant(np.array(1.0))])
        jumps = np.zeros((len(owners), self.n_inputs))
        jumps[np.arange(len(owners)), owners] = values[begins + 1] - values[begins]
        product = graph.node("MatMul", [ramps, graph.constant(jumps)])
        result: str = graph.node("Add", [product, graph.constant(values[starts[:-1]])])
        return result


def _size_for(n: int) -> int:
    if n > 60_000:
        return 1024
    if n > 30_000:
        return 1536
    return 512 if n < 1000 else 1024 if n < 3000 else 2048


def median_gamma(X: Any, centre: Vector, factor: Vector, rng: np.random.Generator) -> float:
    """Return one over the median squared distance of two standardised examples."""
    left, right = (rng.integers(X.shape[0], size=_PAIRS) for _ in range(2))
    apart = left != right
    squares = np.empty(int(apart.sum()))
    for rows in blocks_of(len(squares), 256):
        a, b = (dense(X[which[apart][rows]], np.dtype(np.float64)) for which in (left, right))
        gap = np.clip((a - centre) * factor, -LIMIT, LIMIT)
        gap -= np.clip((b - centre) * factor, -LIMIT, LIMIT)
        squares[rows] = (gap**2).sum(axis=1)
    median = float(np.median(squares)) if len(squares) else 0.0
    # If most pairs are equal, the median is zero and the mean replaces it.
    if not median > 0.0:
        median = float(squares.mean()) if squares.any() else 1.0
    return 1.0 / median


def _sparse_frequencies(d: int, count: int, rng: np.random.Generator) -> Vector:
    """Return frequencies that touch 1 to 4 features.

    The squared phase difference of two rows has the mean 2 c, c log-uniform from 1 to 16.
    """
    W = np.zeros((d, count))
    touched = np.minimum(rng.integers(1, _MOST_TOUCHED + 1, count), d)
    scales = np.exp(rng.uniform(0.0, np.log(16.0), count))
    for j in range(count):
        own = rng.choice(d, touched[j], replace=False)
        W[own, j] = rng.standard_normal(touched[j]) * np.sqrt(scales[j] / touched[j])
    return W
