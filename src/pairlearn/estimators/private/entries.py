# SPDX-License-Identifier: BSD-3-Clause
"""What users call of the private part of this library, each as an entry for audits.

`queries` has those of evaluation, selection and ratings. A further one takes about ten lines: how
it is called, and what it makes public.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from pairlearn.estimators.private.auc import PrivateAUCClassifier
from pairlearn.estimators.private.continual import PrivateAUCContinual
from pairlearn.estimators.private.entropy import PrivateEntropyRegressor
from pairlearn.estimators.private.metric import PrivateMetricLearner
from pairlearn.estimators.private.queries import EvaluationEntry, RatingsEntry, SelectionEntry
from pairlearn.privacy.accounting.certificate import Certificate, Release
from pairlearn.privacy.accounting.gaussian import mu_of
from pairlearn.privacy.audit.entry import Entry, fitted_facts, plain
from pairlearn.privacy.audit.neighbours import (
    PublicNeighbours,
    Table,
    neighbouring_persons,
    public_neighbours,
)
from pairlearn.privacy.audit.public import PublicAudit, audit_entry
from pairlearn.privacy.bounds import PrivateBounds, enough_in_a_bin, fewest_examples, has_looks
from pairlearn.privacy.evaluation import private_roc_curve
from pairlearn.typing import Vector

PrivateEstimator = PrivateAUCClassifier | PrivateMetricLearner | PrivateEntropyRegressor

#: Pieces of a stream; `places` puts changes at their boundaries.
_PIECES = 4


class FitEntry(Entry):
    """`fit` of a private estimator, on rows or on persons with all their rows."""

    def __init__(
        self, estimator: PrivateEstimator, *, n: int = 64, n_features: int = 4,
        persons: bool = False, name: str | None = None,
    ) -> None:  # fmt: skip
        if estimator.delta is None:
            raise ValueError("an audit needs one claim, got delta=None; give delta.")
        self.epsilon, self.delta = estimator.epsilon, estimator.delta
        if estimator.n_examples is None and estimator.neighbours == "add_remove":
            estimator = clone(estimator).set_params(n_examples=n)
        self.estimator: Any = estimator
        self.n, self.persons = n, persons
        self.width = estimator.public_width() or n_features
        self.name = name or f"{type(estimator).__name__}.fit"
        self._model = self._fresh()
        self._n_runs = 0
        lower, upper = estimator.public_bounds(self.width)
        # New examples: their scores are public.
        self._probes, self._few = np.linspace(lower, upper, 5), np.linspace(lower, upper, 3)

    def pairs(self) -> Sequence[PublicNeighbours]:
        """Return neighbouring tables within the public bounds."""
        return self._neighbours(self.labels())

    def _neighbours(self, labels: tuple[Any, ...]) -> Sequence[PublicNeighbours]:
        make = neighbouring_persons if self.persons else public_neighbours
        lower, upper = self.estimator.public_bounds(self.width)
        relation = self.estimator.neighbours
        return make(lower, upper, labels, n=self.n, neighbours=relation)

    def labels(self) -> tuple[Any, ...]:
        """Return the public labels."""
        return tuple(self.estimator.labels)

    def run(self, table: Table) -> Any:
        """Fit: the same object again, and every other time a new one."""
        self._n_runs += 1
        if self._n_runs % 2:
            self._model = self._fresh()
        return self._fitted(self._model, table)

    def public(self, result: Any) -> dict[str, Any]:
        """Return attributes, the model file and the answers to new examples."""
        return observed(result, self._probes)

    def numbers(self, result: Any) -> Vector:
        """Return the numbers among the attributes, and scores."""
        return public_numbers(result, self._few)

    def certificate(self, result: Any) -> Certificate | None:
        """Return the certificate; note whether later releases depend on noisy counts."""
        certificate: Certificate = result.certificate_
        self.adaptive = self.adaptive or has_looks(certificate.releases)
        return certificate

    def problems(self, result: Any) -> list[str]:
        """Return a wrong unit or relation."""
        certificate = result.certificate_
        wrong_unit = (certificate.unit == "example") == self.persons
        if wrong_unit or certificate.neighbours != self.estimator.neighbours:
            return [f"the certificate is about {certificate.unit}s ({certificate.neighbours})"]
        return []

    def _fresh(self) -> Any:
        model = clone(self.estimator)
        model.ledger = None
        return model

    def _fitted(self, model: Any, table: Table) -> Any:
        if self.persons:
            return model.fit(table.X, table.y, groups=table.groups)
        return model.fit(table.X, table.y)


class RegressionEntry(FitEntry):
    """`fit` of a private regression."""

    def labels(self) -> tuple[Any, ...]:
        """Return targets at both ends of their range, and in its middle."""
        low, high = self.estimator.target_bounds
        return (low, 0.5 * (low + high), high)

    def pairs(self) -> Sequence[PublicNeighbours]:
        """Return also tables whose errors are so near that a narrow window sees them all."""
        bottom, middle, top = self.labels()
        near = 0.05 * (top - bottom)
        close = self._neighbours((middle - near, middle + near))
        named = (replace(pair, name=f"{pair.name}, close targets") for pair in close)
        return [*super().pairs(), *named]


class NarrowingEntry(FitEntry):
    """`fit` on persons within bounds that are narrowed, because most of them lie close together."""

    share_of_runs = 0.3

    def __init__(self, estimator: PrivateAUCClassifier, **size: Any) -> None:
        super().__init__(estimator, persons=True, name="fit with narrowed bounds", **size)

    def pairs(self) -> Sequence[PublicNeighbours]:
        """Return also tables where one person would decide on the bounds, if there were no noise.

        Some persons lie in the middle and the others in two corners. One bin holds just enough of
        them, or just not enough.
        """
        pairs, estimator = list(super().pairs()), self.estimator
        lower, upper = estimator.public_bounds(self.width)
        fewest = fewest_examples(
            self.width, estimator.neighbours, mu=mu_of(self.epsilon, self.delta)
        )
        person = np.arange(self.n)
        y = [estimator.labels[k % 2] for k in person]
        groups = [f"person {k}" for k in person]
        enough = math.ceil(enough_in_a_bin(self.n, fewest))
        for m in range(enough - 2, min(enough + 3, self.n)):
            X = np.where(person[:, None] % 2 == 0, lower, upper)
            X[:m] = 0.5 * (lower + upper)
            second = Table(np.concatenate([lower[None, :], X[1:]]), y, groups)
            if estimator.neighbours == "add_remove":
                second = Table(X[1:], y[1:], groups[1:])
            name = f"a person leaves the middle, with {m} of {self.n} there"
            pairs.append(PublicNeighbours(name, Table(X, y, groups), second))
        return pairs

    def problems(self, result: Any) -> list[str]:
        """Return also that no look was taken, so that nothing was audited."""
        found = super().problems(result)
        if not has_looks(result.certificate_.releases):
            found.append("no counts in bins were released")
        return found


class ContinualEntry(FitEntry):
    """A stream that is released after each piece: all releases together."""

    def pairs(self) -> Sequence[PublicNeighbours]:
        """Return tables that differ in place: the time of an example, and whose it is, is public.

        So each interval keeps its number of rows.
        """
        pairs = [pair for pair in super().pairs() if pair.rows is None]
        return [pair for pair in pairs if pair.first.groups == pair.second.groups]

    def run(self, table: Table) -> Any:
        """Return what each release made public, and the model after the last."""
        model, seen = self._fresh(), []
        for piece in _pieces(table):
            model.partial_fit(*piece).release()
            seen.append({name: value for name, value in vars(model).items() if name.endswith("_")})
        return seen, model

    def public(self, result: Any) -> dict[str, Any]:
        """Return the attributes after each release, and the last model."""
        seen, model = result
        each = {
            f"{name} of release {k + 1}": plain(value)
            for k, one in enumerate(seen)
            for name, value in one.items()
        }
        return each | observed(model, self._probes)

    def numbers(self, result: Any) -> Vector:
        """Return the numbers of all releases."""
        return np.concatenate([_float_attributes(one) for one in result[0]])

    def certificate(self, result: Any) -> Certificate | None:
        """Return the certificate, which is about all releases."""
        return super().certificate(result[1])

    def listed(self, result: Any) -> Sequence[Release]:
        """Return the level of the tree that each noisy vector belongs to."""
        levels = self.certificate(result).releases  # type: ignore[union-attr]
        n_releases = self.estimator.n_releases
        made = []
        for t in range(1, len(result[0]) + 1):
            level = (t & -t).bit_length() - 1
            listed = levels[level]
            made.append(replace(listed, dimension=listed.dimension // (n_releases >> level)))
        return made

    def problems(self, result: Any) -> list[str]:
        """See `FitEntry.problems`."""
        return super().problems(result[1])


def _pieces(table: Table) -> list[tuple[Any, ...]]:
    cuts = [len(table.X) * k // _PIECES for k in range(_PIECES + 1)]
    columns = (table.X, table.y) if table.groups is None else (table.X, table.y, table.groups)
    return [tuple(one[a:b] for one in columns) for a, b in pairwise(cuts)]


def entry_of(estimator: PrivateEstimator, **options: Any) -> FitEntry:
    """Return the entry for an estimator: streams are learned in pieces."""
    if isinstance(estimator, PrivateAUCContinual):
        return ContinualEntry(estimator, **options)
    if isinstance(estimator, PrivateEntropyRegressor):
        return RegressionEntry(estimator, **options)
    return FitEntry(estimator, **options)


def audit_estimator(
    estimator: PrivateEstimator, *, n: int = 64, n_features: int = 4, n_runs: int = 2_000,
    confidence: float = 0.99, persons: bool = False,
) -> PublicAudit:  # fmt: skip
    """Audit a private estimator by attacks on its public output.

    Parameters
    ----------
    estimator : PrivateAUCClassifier, PrivateAUCContinual, PrivateMetricLearner or another one
        The estimator with its public arguments; `delta` must be given. A continual one is attacked
        by all its releases together.
    n : int, default=64
        Number of examples of the tables, or of persons.
    n_features : int, default=4
        Number of features, if `bounds` do not determine it.
    n_runs : int, default=2000
        Fits on each of two tables.
    confidence : float, default=0.99
        A sound estimator passes with this probability or more.
    persons : bool, default=False
        Whether `fit` gets `groups`, and tables differ in one person with all rows.

    Returns
    -------
    PublicAudit
        The result.

    Examples
    --------
    >>> from pairlearn import PrivateAUCClassifier
    >>> model = PrivateAUCClassifier(epsilon=1.0, delta=1e-3, bounds=(-1.0, 1.0))
    >>> audit_estimator(model, n=16, n_features=1, n_runs=8).passed
    True
    """
    entry = entry_of(estimator, n=n, n_features=n_features, persons=persons)
    return audit_entry(entry, n_runs=n_runs, confidence=confidence)


def audit_entries(
    *, n: int = 32, n_features: int = 2, epsilon: float = 1.0, delta: float = 1e-3,
    neighbours: str = "replace",
) -> dict[str, Entry]:  # fmt: skip
    """Return what a user of this library calls on private data, for `audit_entry`.

    The program has an entry of its own; ``pairlearn privacy audit --what`` names all of them.

    Parameters
    ----------
    n : int, default=32
        Number of examples, or of persons; "narrowing" has as many as it needs.
    n_features : int, default=2
        Number of features.
    epsilon, delta : float
        The claim.
    neighbours : {"replace", "add_remove"}, default="replace"
        The neighbouring relation. What is proved for "replace" only is left out for the other.

    Returns
    -------
    dict
        The entries by name.

    Examples
    --------
    >>> list(audit_entries(neighbours="add_remove"))
    ['fit', 'groups', 'bounds', 'narrowing', 'metric', 'metric-groups', 'entropy', ...]
    """
    claim: dict[str, Any] = {"epsilon": epsilon, "delta": delta}
    common: dict[str, Any] = {**claim, "neighbours": neighbours, "bounds": (-1.0, 1.0)}
    size: dict[str, Any] = {"n": n, "n_features": n_features}
    classifier = PrivateAUCClassifier(**common, n_examples=n)
    searching = PrivateAUCClassifier(**{**common, "bounds": PrivateBounds(-1, 1)}, n_examples=n)
    # Bounds are narrowed only where there are examples enough.
    many = max(n, math.ceil(fewest_examples(n_features, neighbours, mu=mu_of(epsilon, delta))))
    narrowing = PrivateAUCClassifier(**common, n_examples=many)
    metric = PrivateMetricLearner(**common, n_examples=n)
    regression = PrivateEntropyRegressor(**common, target_bounds=(-2.0, 2.0), n_examples=n)
    entries: dict[str, Entry] = {
        "fit": FitEntry(classifier, **size),
        "groups": FitEntry(classifier, **size, persons=True, name="fit with groups"),
        "bounds": FitEntry(searching, **size, persons=True, name="fit with PrivateBounds"),
        "narrowing": NarrowingEntry(narrowing, n=many, n_features=n_features),
        "metric": FitEntry(metric, **size),
        "metric-groups": FitEntry(metric, **size, persons=True, name="metric with groups"),
        "entropy": RegressionEntry(regression, **size),
        "entropy-groups": RegressionEntry(
            regression, **size, persons=True, name="regression with groups"
        ),
    }
    if neighbours == "replace":
        del common["neighbours"]
        cuts = np.linspace(-0.5, 0.5, 3)
        # Room for all rows, also for those that do not count.
        stream = PrivateAUCContinual(4 * n + 12, 6, **common, rows_per_person=2)
        entries |= {
            "continual": ContinualEntry(PrivateAUCContinual(n, 6, **common), **size),
            "continual-groups": ContinualEntry(
                stream, **size, persons=True, name="PrivateAUCContinual with rows_per_person"
            ),
            "evaluation": EvaluationEntry(n=n, **claim),
            "curve": EvaluationEntry(private_roc_curve, n=n, **claim, thresholds=cuts),
            "selection": SelectionEntry(n=n, epsilon=epsilon),
            "evaluation-groups": EvaluationEntry(n=n, **claim, persons=True),
            "curve-groups": EvaluationEntry(
                private_roc_curve, n=n, **claim, thresholds=cuts, persons=True
            ),
            "selection-groups": SelectionEntry(n=n, epsilon=epsilon, persons=True),
        }
    votes: dict[str, Any] = {"n": n, **claim, "neighbours": neighbours}
    return entries | {
        "ratings": RatingsEntry(**votes),
        "ratings-groups": RatingsEntry(**votes, persons=True),
    }


def observed(model: Any, probes: Vector) -> dict[str, Any]:
    """Return everything public about a fitted estimator, as plain values to compare."""
    seen = fitted_facts(model)
    for name in ("decision_function", "predict_proba", "predict", "transform"):
        numbers = _answer(model, name, probes)
        if numbers is not None:
            seen[name] = numbers.tolist()
    return seen


def _answer(model: Any, name: str, probes: Vector) -> NDArray[Any] | None:
    """Return the result of a method on new examples; None if there is no such method."""
    method = getattr(model, name, None)
    return None if method is None else np.asarray(method(probes))


def public_numbers(model: Any, probes: Vector) -> Vector:
    """Return the public numbers of a fitted estimator that an attack uses."""
    parts = [_float_attributes(vars(model))]
    for name in ("decision_function", "predict_proba", "transform"):
        numbers = _answer(model, name, probes)
        if numbers is not None:
            parts.append(np.ravel(numbers))
    if isinstance(model, PrivateEntropyRegressor):
        parts.append(model.predict(probes))
    return np.concatenate(parts)


def _float_attributes(attributes: dict[str, Any]) -> Vector:
    arrays = [
        np.ravel(value)
        for name, value in sorted(attributes.items())
        if name.endswith("_") and isinstance(value, np.ndarray) and value.dtype.kind == "f"
    ]
    return np.concatenate(arrays)
