# SPDX-License-Identifier: BSD-3-Clause
"""The base class of methods in a comparison: something that tunes itself and fits.

A method sees training examples only. `tune` chooses parameters, and `fit` learns with them. Both
get their own random numbers, so a result does not depend on how many numbers tuning used.
"""

from __future__ import annotations

import importlib
import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from pairlearn.data.splits import folds
from pairlearn.metrics.auc import roc_auc
from pairlearn.typing import Vector
from pairlearn.validation import DivergenceError

Params = dict[str, Any]


def powers(first: int, last: int) -> tuple[float, ...]:
    """Return the powers of ten from 10^first to 10^last, as in the paper's grids."""
    return tuple(10.0**k for k in range(first, last + 1))


def combinations(grid: Mapping[str, Sequence[Any]]) -> list[Params]:
    """Return every combination of the values of a grid; the first key varies slowest."""
    return [dict(zip(grid, one, strict=True)) for one in itertools.product(*grid.values())]


@dataclass(frozen=True, eq=False)
class Waypoint:
    """An intermediate model and its cost so far."""

    model: Any
    cpu_seconds: float
    n_gradients: int


@dataclass(frozen=True, eq=False)
class Fitted:
    """The result of `Method.fit`: a model and the counts that only the method knows.

    Parameters
    ----------
    model : object
        Has `decision_function`, or else `predict_proba`.
    n_gradients : int, optional
        Number of pair gradients that were computed; None if the notion does not apply.
    state_bytes : int, optional
        Bytes that the algorithm keeps while it learns: parameters, averages, buffers.
    waypoints : tuple of Waypoint
        Earlier models, for curves of AUC against time.
    """

    model: Any
    n_gradients: int | None = None
    state_bytes: int | None = None
    waypoints: tuple[Waypoint, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Method:
    """Base class of everything that can join a comparison.

    Parameters
    ----------
    name : str
        The name in tables.

    Notes
    -----
    A subclass is a frozen dataclass whose fields are its settings. They become part, as JSON, of
    the key of a stored result. It must be picklable.
    """

    name: str

    @property
    def tuned_once(self) -> bool:
        """Whether parameters are chosen once per data set instead of on every split."""
        return False

    @property
    def max_tuning_examples(self) -> int | None:
        """The limit on examples for tuning; None for all."""
        return None

    def settings(self) -> dict[str, Any]:
        """Return the settings that identify the method, as JSON values."""
        return {
            "class": type(self).__qualname__,
            **asdict(self),
            "tuned_once": self.tuned_once,
            "max_tuning_examples": self.max_tuning_examples,
        }

    def warm_up(self, d: int) -> None:
        """Do what must not be timed, such as compiling.

        It is called in each process before the first cell of data with `d` features, since the
        kernels depend on that number.
        """

    def tune(self, X: Any, y: Vector, rng: np.random.Generator) -> Params:
        """Return the parameters to fit with; by default there are none."""
        return {}

    def fit(self, X: Any, y: Vector, params: Mapping[str, Any], rng: np.random.Generator) -> Fitted:
        """Return a fitted model."""
        raise TypeError(f"{type(self).__name__} must define fit(X, y, params, rng).")


def auc_of(model: Any, X: Any, y: Vector) -> float:
    """Return the AUC of a model on examples."""
    if len(np.unique(y)) != 2:
        raise ValueError(f"AUC needs both classes, but all {len(y)} examples have one; use more.")
    if hasattr(model, "decision_function"):
        scores = model.decision_function(X)
    elif hasattr(model, "predict_proba"):
        scores = model.predict_proba(X)[:, 1]
    else:
        raise TypeError(
            f"{type(model).__name__} has neither decision_function nor predict_proba, so it "
            "cannot rank; choose another estimator."
        )
    return roc_auc(y, np.asarray(scores, dtype=np.float64).ravel())


def cross_validate(
    method: Method,
    candidates: Sequence[Mapping[str, Any]],
    X: Any,
    y: Vector,
    rng: np.random.Generator,
    *,
    n_folds: int = 5,
) -> Params:
    """Return the candidate with the highest mean AUC over stratified folds; ties go to the first.

    A single candidate is returned without fitting. All candidates see the same folds and the same
    random numbers.
    """
    if len(candidates) == 1:
        return dict(candidates[0])
    parts = folds(len(y), n_folds, y=y, rng=rng)
    seeds = rng.integers(2**63, size=n_folds)
    means = []
    for params in candidates:
        values = []
        for part, seed in zip(parts, seeds, strict=True):
            generator = np.random.default_rng(seed)
            try:
                fitted = method.fit(X[part.train], y[part.train], params, generator)
            except DivergenceError:
                # A candidate that diverges has no ranking.
                values.append(0.0)
            else:
                values.append(auc_of(fitted.model, X[part.test], y[part.test]))
        means.append(float(np.mean(values)))
    return dict(candidates[int(np.argmax(means))])


@dataclass(frozen=True, kw_only=True)
class EstimatorMethod(Method):
    """Any scikit-learn estimator by its import path, tuned by 5-fold cross-validation.

    Parameters
    ----------
    name : str
        The name in tables.
    path : str
        Such as ``"sklearn.linear_model.LogisticRegression"``.
    grid : mapping
        Lists of values; every combination is a candidate.
    fixed : mapping
        Constructor arguments that are not tuned.

    Examples
    --------
    >>> ridge = EstimatorMethod(
    ...     name="ridge", path="sklearn.linear_model.RidgeClassifier", grid={"alpha": [0.1, 1.0]}
    ... )
    >>> X = np.random.default_rng(0).normal(size=(60, 2))
    >>> y = np.where(X[:, 0] + 0.1 * X[:, 1] > 0, 1.0, -1.0)
    >>> sorted(ridge.tune(X, y, np.random.default_rng(0)))
    ['alpha']
    """

    path: str
    grid: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    fixed: Mapping[str, Any] = field(default_factory=dict)

    def candidates(self) -> list[Params]:
        """Return every combination of the grid; the first key varies slowest."""
        return combinations(self.grid)

    def estimator(self) -> type[Any]:
        """Return the class at the import path."""
        module_name, _, class_name = self.path.rpartition(".")
        try:
            return getattr(importlib.import_module(module_name), class_name)  # type: ignore[no-any-return]
        except (ImportError, AttributeError, ValueError) as error:
            raise ValueError(
                f"cannot import {self.path!r} ({error}); give a path such as "
                "sklearn.linear_model.LogisticRegression."
            ) from error

    def tune(self, X: Any, y: Vector, rng: np.random.Generator) -> Params:
        """Return the best candidate by 5-fold cross-validation."""
        return cross_validate(self, self.candidates(), X, y, rng)

    def fit(self, X: Any, y: Vector, params: Mapping[str, Any], rng: np.random.Generator) -> Fitted:
        """Return the fitted estimator; `random_state` is drawn if it has one."""
        estimator = self.estimator()(**self.fixed, **params)
        takes = estimator.get_params() if hasattr(estimator, "get_params") else {}
        if takes.get("random_state", 0) is None:
            estimator.set_params(random_state=int(rng.integers(2**31 - 1)))
        return Fitted(model=estimator.fit(X, y))


def parse_estimator(text: str) -> EstimatorMethod:
    """Return the method that a text such as ``path.to.Class {"C": [1, 10]}`` describes.

    The text is an optional ``name=``, the import path, and an optional JSON object. Lists are tuned
    over; single values are fixed.

    >>> method = parse_estimator('knn=sklearn.neighbors.KNeighborsClassifier {"n_neighbors": [5]}')
    >>> method.name, method.candidates()
    ('knn', [{'n_neighbors': 5}])
    """
    head, _, tail = text.strip().partition(" ")
    name, equals, path = head.rpartition("=")
    try:
        given = json.loads(tail) if tail.strip() else {}
    except json.JSONDecodeError as error:
        raise ValueError(
            f"the grid {tail.strip()!r} is not JSON ({error}); write it as "
            """'path.to.Class {"C": [0.1, 1, 10]}'."""
        ) from error
    if not isinstance(given, dict):
        raise ValueError(f"the grid must be a JSON object, got {tail.strip()!r}.")
    method = EstimatorMethod(
        name=name if equals else path.rpartition(".")[2],
        path=path,
        grid={key: value for key, value in given.items() if isinstance(value, list)},
        fixed={key: value for key, value in given.items() if not isinstance(value, list)},
    )
    if any(not values for values in method.grid.values()):
        raise ValueError(f"a list of the grid is empty in {text!r}; give at least one value.")
    method.estimator()
    return method
