# SPDX-License-Identifier: BSD-3-Clause
"""The base class of feature maps, and helpers for blocks of rows.

A map treats each row by itself. Rows are mapped in tiles of fixed size, so that rounding does not
depend on how rows are cut into blocks.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from pairlearn.register import Part, Register
from pairlearn.restored import restored_array, restored_count
from pairlearn.validation import check_generator, check_weights, real_array

Block = NDArray[Any]

#: Number of rows that a map sees at once. The last tile is filled up: matrix products then always
#: have the same shape, and so the same rounding, for any number of rows.
TILE = 64
_FLOATS = (np.dtype(np.float32), np.dtype(np.float64))


@dataclass(frozen=True)
class Bounds:
    """Bounds that hold for all mapped rows, whatever the examples.

    Parameters
    ----------
    lower, upper : float
        Every number of a mapped row lies between them.
    norm : float
        The largest Euclidean norm of a mapped row.
    """

    lower: float = -np.inf
    upper: float = np.inf
    norm: float = np.inf

    @property
    def is_finite(self) -> bool:
        """Whether the norm is bounded."""
        return bool(np.isfinite(self.norm))


@dataclass(frozen=True)
class FeatureMap(Part):
    """Base class of feature maps.

    A map is fitted once (some need no fit) and then never changes: `fit` returns a fitted copy.
    `transform` maps each row by itself, regardless of the other rows and of the block size.

    Notes
    -----
    A subclass is a frozen dataclass that defines `mapped`, which maps a dense block to the same
    number of rows. To learn from data, define `learn`, which returns arrays by name; they are then
    in `learned`. Define `bounds` if they are known. `check_features` checks a map.

    Examples
    --------
    >>> @dataclass(frozen=True)
    ... class Squares(FeatureMap):
    ...     def mapped(self, X):
    ...         return np.hstack([X, X * X])
    >>> Squares().fit(np.ones((5, 2))).transform(np.array([[1.0, 3.0]]))
    array([[1., 3., 1., 9.]])
    """

    #: Whether a closed form suits the map better than descent: many features, each says little.
    closed_form: ClassVar[bool] = False
    #: Whether the map asks for signs of coefficients, which only some solvers can keep.
    constrained: ClassVar[bool] = False
    #: Whether `fit` takes weights of examples, see `learn_weighted`.
    takes_weights: ClassVar[bool] = False

    # --------------------------------------------------------------- what a subclass defines

    def learn(self, X: Any, rng: np.random.Generator) -> Mapping[str, Block]:
        """Return the arrays, by name, that become `learned`; none by default."""
        return {}

    def learn_weighted(
        self, X: Any, weight: Block, rng: np.random.Generator
    ) -> Mapping[str, Block]:
        """Return what `learn` returns of examples that occur as often as they weigh.

        A map that defines it sets `takes_weights`.

        Parameters
        ----------
        X : ndarray or sparse matrix of shape (n, d)
            Examples.
        weight : ndarray of shape (n,)
            How often each occurs: positive, and the smallest is 1.
        rng : numpy.random.Generator
            Source of randomness.

        Returns
        -------
        mapping of str to ndarray
            The arrays of the map.
        """
        raise ValueError(
            f"{type(self).__name__} learns from all examples alike; leave out sample_weight."
        )

    def mapped(self, X: Block) -> Block:
        """Return the mapped rows of a dense block in float64."""
        raise NotImplementedError(f"{type(self).__name__} must define mapped(X).")

    def bounds(self) -> Bounds:
        """Return the range and the norm of mapped rows; infinite unless a map overrides it."""
        return Bounds()

    def sized(self, n_examples: int, n_features: int, n_rarer: int) -> FeatureMap:
        """Return the map for data of this size, with `n_rarer` examples in the rarer class."""
        return self

    # ------------------------------------------------------------------------------ fitting

    def fit(self, X: Any, *, rng: Any = None, sample_weight: Any = None) -> Self:
        """Return the map fitted to examples.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, d)
            Examples, finite.
        rng : int or numpy.random.Generator, optional
            Source of randomness.
        sample_weight : array-like of shape (n,), optional
            How often each example counts, in any unit, for a map that `takes_weights`; an example
            of weight zero is as good as absent.

        Returns
        -------
        FeatureMap
            A fitted copy.
        """
        X, draws = as_block(X), check_generator(rng)
        if min(X.shape) < 1:
            raise ValueError(
                f"A feature map needs an example and a feature to be fitted, got shape {X.shape}."
            )
        if sample_weight is None:
            found = self.learn(X, draws)
        else:
            X, weight = _weighing(X, sample_weight)
            found = self.learn_weighted(X, weight, draws)
        learned = {name: np.array(value, order="C") for name, value in found.items()}
        return self._fitted(learned, int(X.shape[1]), X[:1])

    def _fitted(self, learned: dict[str, Block], n_inputs: int, example: Any) -> Self:
        for value in learned.values():
            value.flags.writeable = False
        found = copy.copy(self)
        vars(found).update(learned=learned, n_inputs=n_inputs)
        vars(found)["n_outputs"] = found._width(example)
        return found

    def _width(self, example: Any) -> int:
        """Return the number of features of a mapped row; `example` is a block of one row."""
        return int(np.asarray(self.mapped(dense(example, np.dtype(np.float64)))).shape[1])

    #: The arrays that `learn` returned.
    learned: ClassVar[Mapping[str, Block]] = {}
    #: Number of features of a row before and after the map; 0 before `fit`.
    n_inputs: ClassVar[int] = 0
    n_outputs: ClassVar[int] = 0

    @property
    def is_fitted(self) -> bool:
        """Whether `fit` returned this map."""
        return self.n_inputs > 0

    # ------------------------------------------------------------------------------ mapping

    def transform(self, X: Any, *, dtype: Any = None) -> Block:
        """Return mapped rows.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, d)
            Examples, finite. Sparse rows become dense a few at a time, if at all.
        dtype : dtype, optional
            float32 or float64; the type of `X` by default.

        Returns
        -------
        ndarray of shape (n, n_outputs)
            Mapped rows, C-contiguous.
        """
        X = self._checked(X)
        kind = np.dtype(X.dtype if dtype is None else dtype)
        if kind not in _FLOATS:
            raise ValueError(f"dtype must be float32 or float64, got {kind}.")
        return self._filled(X, np.empty((X.shape[0], self.n_outputs), dtype=kind))

    def _checked(self, X: Any) -> Any:
        """Return rows as a block that `fill` takes."""
        self.check_fitted()
        X = as_block(X)
        if X.shape[1] != self.n_inputs:
            raise ValueError(
                f"X has {X.shape[1]} features, {type(self).__name__} was fitted to {self.n_inputs}."
            )
        return X

    def _filled(self, X: Any, out: Block) -> Block:
        if len(out):
            self.fill(X, out)
        return out

    def fill(self, X: Any, out: Block) -> None:
        """Write mapped rows of a dense or CSR block into `out`, a few rows at a time."""
        for rows, tile in tiles(X, np.dtype(np.float64)):
            found = np.asarray(self.mapped(tile))
            if found.shape != (len(tile), self.n_outputs):
                raise ValueError(
                    f"{type(self).__name__}.mapped made {found.shape} of {tile.shape}; it must "
                    f"return {len(tile)} rows of {self.n_outputs} features."
                )
            out[rows] = found[: rows.stop - rows.start]

    def check_fitted(self) -> None:
        """Raise if the map is not fitted."""
        if not self.is_fitted:
            raise ValueError(f"{self!r} is not fitted; call fit(X) and use its result.")

    # -------------------------------------------------------------------------------- state

    def state(self) -> dict[str, Any]:
        """Return the fitted map as plain values and arrays."""
        self.check_fitted()
        return {
            "map": type(self).__name__,
            "fields": {f.name: getattr(self, f.name) for f in fields(self)},
            "n_inputs": self.n_inputs,
            "learned": dict(self.learned),
        }

    @classmethod
    def from_state(
        cls, state: Mapping[str, Any], *, known: Sequence[type[FeatureMap]] = ()
    ) -> Self:
        """Return the map of a saved `state`, which may name your own maps in `known`."""
        if state.get("map") != cls.__name__:
            raise ValueError(f"the saved map is {state.get('map')!r:.60}, not {cls.__name__}.")
        n_inputs = restored_count(state, "n_inputs", minimum=1, maximum=2**31)
        saved, values = state.get("learned"), state.get("fields")
        if not isinstance(saved, Mapping) or not isinstance(values, Mapping):
            raise ValueError(f"the saved {cls.__name__} has no fields or no arrays.")
        learned = {}
        for name in saved:
            found = saved[name]
            shape = (None,) * getattr(found, "ndim", 1)
            learned[str(name)] = restored_array(
                saved, name, shape, ("float64", "float32", "int64")
            ).copy()
        made = cls(**dict(values))
        made.check_learned(learned, n_inputs)
        return made._fitted(learned, n_inputs, np.zeros((1, n_inputs)))

    def check_learned(self, learned: Mapping[str, Block], n_inputs: int) -> None:
        """Raise if `learn` cannot have returned these arrays, which come from a file.

        A map whose arrays reach compiled code must check their shapes and indices here.

        Parameters
        ----------
        learned : mapping of str to ndarray
            The arrays.
        n_inputs : int
            Number of features of a row before the map.
        """

    # -------------------------------------------------------------------------------- graph

    def onnx(self, graph: Any, rows: str) -> str:
        """Add the map to a graph of operators; return the name of the mapped rows.

        Parameters
        ----------
        graph : object
            An object with ``constant(array)`` and ``node(operator, inputs, **attributes)``, which
            return names.
        rows : str
            The name of the double matrix of examples.

        Returns
        -------
        str
            The name of the mapped rows.
        """
        raise ValueError(
            f"{type(self).__name__} has no form in ONNX; define onnx(graph, rows), or export the "
            "model as JSON."
        )


def map_into(out: Block, features: FeatureMap, X: Any) -> Block:
    """Return mapped rows in memory that is there: the first rows of `out`."""
    X = features._checked(X)
    return features._filled(X, out[: X.shape[0]])


MAPS: Register[FeatureMap] = Register("features", FeatureMap)


def as_block(X: Any) -> Any:
    """Return X as a C-contiguous array or a CSR matrix of float32 or float64, two-dimensional.

    A missing value is refused: ramps would take it for the largest number.
    """
    if hasattr(X, "tocsr"):
        matrix = X.tocsr()
        block = matrix if matrix.dtype in _FLOATS else matrix.astype(np.float64)
        values = block.data
    else:
        array = real_array("X", X)
        if array.ndim != 2:
            raise ValueError(f"X must have two dimensions (examples, features), got {array.ndim}.")
        kind = array.dtype if array.dtype in _FLOATS else np.float64
        block = values = np.ascontiguousarray(array, dtype=kind)
    # A finite sum proves that all are finite, in one pass and without a mask.
    with np.errstate(over="ignore", invalid="ignore"):
        total = values.sum()
    if not np.isfinite(total) and not np.isfinite(values).all():
        raise ValueError("X contains NaN or infinity; remove these rows, or fill the gaps.")
    return block


def _weighing(X: Any, sample_weight: Any) -> tuple[Any, Block]:
    """Return the rows that weigh something, and their weights divided by the smallest."""
    weight = check_weights(sample_weight, X.shape[0], name="sample_weight")
    kept = np.flatnonzero(weight)
    if not len(kept):
        raise ValueError(
            "sample_weight is zero for all examples; give some of them a positive weight."
        )
    with np.errstate(over="ignore"):
        shares = weight[kept] / weight[kept].min()
    # Beyond this, sums would lose the smallest.
    return X[kept], np.minimum(shares, 1e12)


def dense(X: Any, dtype: np.dtype[Any]) -> Block:
    """Return a block as a dense array of the given type."""
    if hasattr(X, "toarray"):
        X = X.toarray()
    return np.ascontiguousarray(X, dtype=dtype)


def tiles(X: Any, dtype: np.dtype[Any]) -> Iterator[tuple[slice, Block]]:
    """Yield dense tiles of `TILE` rows; the last one is padded with its last row."""
    n = X.shape[0]
    for start in range(0, n, TILE):
        rows = slice(start, min(start + TILE, n))
        tile = dense(X[rows], dtype)
        if len(tile) < TILE:
            tile = np.concatenate([tile, np.repeat(tile[-1:], TILE - len(tile), axis=0)])
        yield rows, tile


def blocks_of(n: int, size: int) -> Iterator[slice]:
    """Yield the slices that cut n rows into blocks."""
    for start in range(0, n, size):
        yield slice(start, min(start + size, n))


def of_known(state: Mapping[str, Any], known: Sequence[type[FeatureMap]]) -> FeatureMap:
    """Return the fitted map of a state; its type must be one of the known types."""
    name = state.get("map") if isinstance(state, Mapping) else None
    for one in known:
        if one.__name__ == name:
            return one.from_state(state, known=known)
    raise ValueError(
        f"the saved map is {str(name)[:60]!r}, which is not known here; make your class known with "
        "pairlearn.models.register_part."
    )


@dataclass(frozen=True)
class Identity(FeatureMap):
    """The map that changes nothing: a linear score.

    Examples
    --------
    >>> Identity().fit([[1.0, 2.0]]).transform([[3.0, 4.0]])
    array([[3., 4.]])
    >>> Identity.of(2).n_outputs
    2
    """

    @classmethod
    def of(cls, n_features: int) -> Self:
        """Return the map of rows of this many features, without examples."""
        return cls()._fitted({}, n_features, None)

    def _width(self, example: Any) -> int:
        return self.n_inputs

    def mapped(self, X: Block) -> Block:
        """Return the rows."""
        return X

    def fill(self, X: Any, out: Block) -> None:
        """Copy the rows."""
        out[...] = dense(X, np.dtype(X.dtype))

    def onnx(self, graph: Any, rows: str) -> str:
        """Return the rows."""
        return rows
