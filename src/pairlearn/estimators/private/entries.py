# SPDX-License-Identifier: BSD-3-Clause
"""What users call of the private part of this library, each as an entry for audits.

A further one takes a few lines: its tables, and how it is called on one of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise, permutations
from types import SimpleNamespace
from typing import Any

import numpy as np
from sklearn.base import clone

from pairlearn.estimators.private.auc import PrivateAUCClassifier
from pairlearn.estimators.private.continual import PrivateAUCContinual
from pairlearn.estimators.private.entropy import PrivateEntropyRegressor
from pairlearn.estimators.private.metric import PrivateMetricLearner
from pairlearn.estimators.private.ratings import PrivateRatings
from pairlearn.privacy.accounting.certificate import Certificate, Release
from pairlearn.privacy.accounting.gaussian import mu_of
from pairlearn.privacy.audit.exact import Entry, plain
from pairlearn.privacy.audit.neighbours import (
    PublicNeighbours,
    Table,
    neighbouring_persons,
    neighbouring_tables,
    public_neighbours,
)
from pairlearn.privacy.audit.public import PublicAudit, audit_entry
from pairlearn.privacy.audit.tape import replayed
from pairlearn.privacy.bounds import PrivateBounds, enough_in_a_bin, fewest_examples, has_looks
from pairlearn.privacy.evaluation import private_roc_auc, private_roc_curve, select_privately
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
        self.n, self.persons, self.neighbours = n, persons, estimator.neighbours
        self.unit = "person" if persons else "example"
        self.width = estimator.public_width() or n_features
        self.name = name or f"{type(estimator).__name__}.fit"
        self._model, self._n_runs = self._fresh(), 0
        self.bounds = lower, upper = estimator.public_bounds(self.width)
        self.probes = np.linspace(lower, upper, 5)
        #: The public labels.
        self.labels = tuple(getattr(estimator, "labels", ()))

    def pairs(self) -> Sequence[PublicNeighbours]:
        """Return neighbouring tables within the public bounds."""
        return self._neighbours(self.labels)

    def _neighbours(self, labels: tuple[Any, ...]) -> Sequence[PublicNeighbours]:
        make = neighbouring_persons if self.persons else public_neighbours
        return make(*self.bounds, labels, n=self.n, neighbours=self.neighbours)

    def run(self, table: Table) -> Any:
        """Fit: the same object again, and every other time a new one."""
        self._n_runs += 1
        if self._n_runs % 2:
            self._model = self._fresh()
        return self._model.fit(table.X, table.y, **self._groups(table))

    def certificate(self, result: Any) -> Certificate | None:
        """Return the certificate; note whether later releases depend on noisy counts."""
        certificate = super().certificate(result)
        self.adaptive = self.adaptive or has_looks(certificate.releases)  # type: ignore[union-attr]
        return certificate

    def _fresh(self) -> Any:
        return clone(self.estimator).set_params(ledger=None)

    def _groups(self, table: Table) -> dict[str, Any]:
        return {"groups": table.groups} if self.persons else {}


class RegressionEntry(FitEntry):
    """`fit` of a private regression."""

    def __init__(self, estimator: PrivateEntropyRegressor, **options: Any) -> None:
        super().__init__(estimator, **options)
        # Targets at both ends of their range, and in its middle.
        low, high = self.estimator.target_bounds
        self.labels = (low, 0.5 * (low + high), high)

    def pairs(self) -> Sequence[PublicNeighbours]:
        """Return also tables whose errors are so near that a narrow window sees them all."""
        bottom, middle, top = self.labels
        near = 0.05 * (top - bottom)
        close = self._neighbours((middle - near, middle + near))
        named = (replace(pair, name=f"{pair.name}, close targets") for pair in close)
        return [*super().pairs(), *named]


class NarrowingEntry(FitEntry):
    """`fit` on persons within bounds that are narrowed, because most of them lie close together."""

    share_of_runs = 0.3

    def pairs(self) -> Sequence[PublicNeighbours]:
        """Return also tables where one person would decide on the bounds, if there were no noise.

        Some persons lie in the middle and the others in two corners. One bin holds just enough of
        them, or just not enough.
        """
        pairs, (lower, upper) = list(super().pairs()), self.bounds
        mu = mu_of(self.epsilon, self.delta)
        person = np.arange(self.n)
        y = [self.labels[k % 2] for k in person]
        groups = [f"person {k}" for k in person]
        fewest = fewest_examples(self.width, self.neighbours, mu=mu)
        enough = math.ceil(enough_in_a_bin(self.n, fewest))
        for m in range(enough - 2, min(enough + 3, self.n)):
            X = np.where(person[:, None] % 2 == 0, lower, upper)
            X[:m] = 0.5 * (lower + upper)
            second = Table(np.concatenate([lower[None, :], X[1:]]), y, groups)
            if self.neighbours == "add_remove":
                second = Table(X[1:], y[1:], groups[1:])
            name = f"a person leaves the middle, with {m} of {self.n} there"
            pairs.append(PublicNeighbours(name, Table(X, y, groups), second))
        return pairs

    def problems(self, result: Any) -> list[str]:
        """Return also that no look was taken, so that nothing was audited."""
        looked = has_looks(result.certificate_.releases)
        return super().problems(result) + ([] if looked else ["no counts in bins were released"])


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
        model = self._fresh()
        seen: dict[str, Any] = {}
        columns = (table.X, table.y, *self._groups(table).values())
        cuts = [len(table.X) * k // _PIECES for k in range(_PIECES + 1)]
        for number, (a, b) in enumerate(pairwise(cuts), start=1):
            model.partial_fit(*(one[a:b] for one in columns)).release()
            known = {name: value for name, value in vars(model).items() if name.endswith("_")}
            seen |= {f"{name} of release {number}": value for name, value in known.items()}
        return SimpleNamespace(model=model, seen=seen, certificate_=model.certificate_)

    def public(self, result: Any) -> dict[str, Any]:
        """Return the attributes after each release, and the last model."""
        seen = {name: plain(value) for name, value in result.seen.items()}
        return seen | super().public(result.model)

    def numbers(self, result: Any) -> Vector:
        """Return the numbers of all releases."""
        arrays = [value for value in result.seen.values() if isinstance(value, np.ndarray)]
        return np.concatenate([value.ravel() for value in arrays if value.dtype.kind == "f"])

    def listed(self, result: Any) -> Sequence[Release]:
        """Return the level of the tree that each noisy vector belongs to."""
        made = []
        for t in range(1, _PIECES + 1):
            level = (t & -t).bit_length() - 1
            one = result.certificate_.releases[level]
            n_nodes = self.estimator.n_releases >> level
            made.append(replace(one, dimension=one.dimension // n_nodes))
        return made


class EvaluationEntry(Entry):
    """`private_roc_auc` or `private_roc_curve`, of scores between -1 and 1."""

    def __init__(
        self, function: Any = private_roc_auc, *, n: int = 64, epsilon: float = 1.0,
        delta: float = 1e-3, persons: bool = False, **options: Any,
    ) -> None:  # fmt: skip
        self.function, self.n, self.epsilon, self.delta = function, n, epsilon, delta
        self.persons, self.options = persons, options
        self.unit = "person" if persons else "example"
        self.name = function.__name__ + (" with groups" if persons else "")

    def pairs(self) -> Sequence[PublicNeighbours]:
        """Return neighbouring tables of one score for each row."""
        return neighbouring_tables((-1.0, 1.0), n=self.n, persons=self.persons)

    def run(self, table: Table) -> Any:
        """Evaluate."""
        groups = {"groups": table.groups} if self.persons else {}
        scores, claim = [row[0] for row in table.X], {"epsilon": self.epsilon, "delta": self.delta}
        return self.function(table.y, scores, **claim, **groups, **self.options)


class SelectionEntry(Entry):
    """`select_privately` among three models, whose law is known exactly."""

    n_models = 3

    def __init__(self, *, n: int = 64, epsilon: float = 1.0, persons: bool = False) -> None:
        self.n, self.epsilon, self.delta, self.persons = n, epsilon, 0.0, persons
        self.name = "select_privately" + (" with groups" if persons else "")

    def pairs(self) -> Sequence[PublicNeighbours]:
        """Return neighbouring tables of three scores for each row."""
        pairs = []
        for place in (0, self.n // 2, self.n - 1):
            X, y = np.zeros((self.n, self.n_models)), -np.ones(self.n)
            # One example decides: it ranks the first model best, or the second.
            X[place], y[place] = (1.0, -1.0, 0.0), 1.0
            # A person who decides has several rows.
            times = np.where(np.arange(self.n) == place, 8 if self.persons else 1, 1)
            X, y = np.repeat(X, times, axis=0), np.repeat(y, times)
            groups = [f"person {k}" for k in np.repeat(np.arange(self.n), times)]
            name = f"the best model changes, row {place + 1}"
            tables = Table(X, y, groups), Table(X[:, [1, 0, 2]], y, groups)
            pairs.append(PublicNeighbours(name, *tables))
        usual = neighbouring_tables(
            (-1.0, 1.0), n=self.n, n_features=self.n_models, labels=(-1, 1), persons=self.persons
        )
        # The secret order is that of the models, not of the rows.
        return [*pairs, *(replace(pair, rows=None) for pair in usual)]

    def run(self, table: Table) -> Any:
        """Choose."""
        groups = {"groups": table.groups} if self.persons else {}
        return select_privately(table.X, table.y, epsilon=self.epsilon, **groups)

    def law(self, table: Table) -> Vector:
        """Return the probability of each choice, from the coins that were asked for.

        Let each model come first and show heads. It must be chosen, and its coin is then known.
        Permute and flip visits the models in a uniform order until the first heads.
        """
        heads = np.empty(self.n_models)
        for first in range(self.n_models):
            order = np.roll(np.arange(self.n_models), -first)
            with replayed(draws=[order], coins=[True]) as tape:
                chosen = self.run(table)
            if chosen != first or len(tape.coins) != 1:
                # The choice does not depend on chance.
                return np.where(np.arange(self.n_models) == chosen, 1.0, 0.0)
            numerator, denominator, _ = tape.coins[0]
            heads[first] = math.exp(-numerator / denominator)
        law = np.zeros(self.n_models)
        orders = list(permutations(range(self.n_models)))
        for visited in orders:
            reached = 1.0 / len(orders)
            for model in visited:
                law[model] += reached * heads[model]
                reached *= 1.0 - heads[model]
        return law


_PLAYERS = ("ann", "bob", "cid", "dan", "eli", "fay")
Vote = tuple[Any, Any, Any]


class RatingsEntry(Entry):
    """`fit` of `PrivateRatings`, on votes or on judges with all their votes."""

    def __init__(
        self, *, n: int = 64, epsilon: float = 1.0, delta: float = 1e-3, persons: bool = False,
        neighbours: str = "replace",
    ) -> None:  # fmt: skip
        self.n, self.epsilon, self.delta, self.persons = n, epsilon, delta, persons
        self.unit, self.neighbours = "person" if persons else "example", neighbours
        self.name = "PrivateRatings" + (" with groups" if persons else "")
        limits = {"votes_per_judge": 3, "votes_per_pair": 2} if persons else {}
        self.model = PrivateRatings(
            epsilon, delta, players=_PLAYERS, neighbours=neighbours,
            n_examples=n + 1 if neighbours == "add_remove" else None, **limits,  # type: ignore[arg-type]
        )  # fmt: skip

    def pairs(self) -> Sequence[PublicNeighbours]:
        """Return votes of which one, or those of one judge, are replaced, or removed."""
        rng = np.random.default_rng(0)
        chosen = [rng.choice(len(_PLAYERS), 2, replace=False).tolist() for _ in range(self.n)]
        mixed = [(_PLAYERS[i], _PLAYERS[j], ("a", "tie", "b")[int(rng.integers(3))])
                 for i, j in chosen]  # fmt: skip
        changes = _judges() if self.persons else _votes()
        if self.neighbours == "add_remove":
            changes = [(f"{name}, {len(votes)} removed", votes, [])
                       for name, *both in changes for votes in both]  # fmt: skip
        pairs = []
        for turn, (name, mine, theirs) in enumerate(changes):
            place = (0, self.n // 2, self.n - 1)[turn % 3]
            for among, others in (("", [("ann", "bob", "tie")] * self.n),
                                  (" among random votes", mixed)):  # fmt: skip
                first, second = (self._table(others, votes, place) for votes in (mine, theirs))
                pairs.append(PublicNeighbours(f"{name}{among}", first, second))
        return pairs

    def _table(self, others: Sequence[Vote], votes: list[Vote], place: int) -> Table:
        """Put votes at a place: in that of one vote, or of a judge in the midst of others."""
        behind = others[place:] if self.persons else others[place + 1 :]
        rows = [*others[:place], *votes, *behind]
        # Every other judge has two votes. Some votes are of nobody.
        judges: list[Any] = [f"judge {k // 2}" if k % 7 else None for k in range(len(others))]
        judges = [*judges[:place], *["changed"] * len(votes), *judges[place:]]
        return Table([row[:2] for row in rows], [row[2] for row in rows], judges)

    def run(self, table: Table) -> Any:
        """Rate the players."""
        a, b = ([pair[side] for pair in table.X] for side in (0, 1))
        groups = {"groups": table.groups} if self.persons else {}
        return clone(self.model).fit(a, b, table.y, **groups)

    def public(self, result: Any) -> dict[str, Any]:
        """Return attributes, the model file and the intervals."""
        return {**super().public(result), "intervals": repr(result.intervals())}

    def numbers(self, result: Any) -> Vector:
        """Return the scores and the released counts."""
        counts = result.counts_
        return np.concatenate([result.scores_, counts.leads, [counts.ties], counts.meetings])


def _votes() -> list[tuple[str, list[Vote], list[Vote]]]:
    """Return single votes and what replaces them."""
    win = ("ann", "bob", "a")
    others: dict[str, Vote] = {
        "a win turned": ("ann", "bob", "b"),
        "a win becomes a tie": ("ann", "bob", "tie"),
        "a win of others": ("cid", "dan", "a"),
        "a win over the winner": ("cid", "ann", "a"),
        "an unknown player": ("ann", "eve", "a"),
        "a player against itself": ("ann", "ann", "a"),
        "an unknown outcome": ("ann", "bob", "n/a"),
        "cells that are no names": (["ann"], None, {"a": 1}),
    }
    return [(name, [win], [other]) for name, other in others.items()]


def _judges() -> list[tuple[str, list[Vote], list[Vote]]]:
    """Return the votes of a judge and what replaces them."""
    star: list[Vote] = [("ann", other, "a") for other in _PLAYERS[1:]]
    fall: list[Vote] = [("ann", other, "b") for other in _PLAYERS[1:]]
    ties: list[Vote] = [(a, b, "tie") for a, b, _ in star]
    ring: list[Vote] = [("bob", "cid", "a"), ("bob", "dan", "a"), ("cid", "dan", "tie")]
    return [
        ("a judge turns all wins of one player", star, fall),
        ("a judge has other pairs", star, ring),
        ("a pair has two votes of a judge", [star[0], *star[:2]], ring[:1] + ring[:2]),
        ("a judge of wins becomes one of ties", star, ties),
        ("all votes on one pair are turned", [star[0]] * 2 + star[1:2], [fall[0]] * 2 + fall[1:2]),
        ("one vote becomes many on one pair", star[:1], [("bob", "ann", "a")] * 12),
        ("many votes on one pair are turned", star[:1] * 12, fall[:1] * 12),
        ("many votes become one", [vote for vote in star for _ in range(8)], fall[:1]),
        ("a judge turns all of many votes", star * 8, fall * 8),
        ("all votes of a judge become unknown", star, [("eve", "ann", "a")] * 5),
    ]


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
        "narrowing": NarrowingEntry(
            narrowing, n=many, n_features=n_features, persons=True, name="fit with narrowed bounds"
        ),
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
