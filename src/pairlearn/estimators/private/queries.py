# SPDX-License-Identifier: BSD-3-Clause
"""Evaluation, selection and ratings, as entries for audits (`privacy.audit.entry`)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import fields, replace
from itertools import permutations
from typing import Any

import numpy as np
from sklearn.base import clone

from pairlearn.estimators.private.ratings import PrivateRatings
from pairlearn.privacy.accounting.certificate import Certificate
from pairlearn.privacy.audit.entry import Entry, fitted_facts, plain
from pairlearn.privacy.audit.neighbours import PublicNeighbours, Table, neighbouring_tables
from pairlearn.privacy.audit.tape import replayed
from pairlearn.privacy.evaluation import private_roc_auc
from pairlearn.privacy.selection import select_privately
from pairlearn.typing import Vector


class EvaluationEntry(Entry):
    """`private_roc_auc` or `private_roc_curve`, of scores between -1 and 1."""

    def __init__(
        self, function: Any = private_roc_auc, *, n: int = 64, epsilon: float = 1.0,
        delta: float = 1e-3, persons: bool = False, **options: Any,
    ) -> None:  # fmt: skip
        self.function, self.n, self.epsilon, self.delta = function, n, epsilon, delta
        self.persons, self.options = persons, options
        self.name = function.__name__ + (" with groups" if persons else "")

    def pairs(self) -> Sequence[PublicNeighbours]:
        """Return neighbouring tables of one score for each row."""
        return neighbouring_tables((-1.0, 1.0), n=self.n, persons=self.persons)

    def run(self, table: Table) -> Any:
        """Evaluate."""
        groups = {"groups": table.groups} if self.persons else {}
        scores = [row[0] for row in table.X]
        return self.function(
            table.y, scores, epsilon=self.epsilon, delta=self.delta, **groups, **self.options
        )

    def public(self, result: Any) -> dict[str, Any]:
        """Return all fields."""
        return {one.name: plain(getattr(result, one.name)) for one in fields(result)}

    def numbers(self, result: Any) -> Vector:
        """Return the fields that are numbers."""
        values = [getattr(result, one.name) for one in fields(result)]
        return np.concatenate(
            [np.ravel(value) for value in values if isinstance(value, (float, np.ndarray))]
        )

    def certificate(self, result: Any) -> Certificate | None:
        """Return the certificate."""
        certificate: Certificate = result.certificate
        return certificate


class SelectionEntry(Entry):
    """`select_privately` among three models, whose law is known exactly."""

    n_models = 3

    def __init__(self, *, n: int = 64, epsilon: float = 1.0, persons: bool = False) -> None:
        self.n, self.epsilon, self.delta, self.persons = n, epsilon, 0.0, persons
        self.name = "select_privately" + (" with groups" if persons else "")

    def pairs(self) -> Sequence[PublicNeighbours]:
        """Return neighbouring tables of three scores for each row."""
        still, signs = np.zeros((self.n, self.n_models)), -np.ones(self.n)
        pairs = []
        for place in (0, self.n // 2, self.n - 1):
            X, other, y = still.copy(), still.copy(), signs.copy()
            # One example decides: it ranks the first model best, or the second.
            X[place], other[place], y[place] = (1.0, -1.0, 0.0), (-1.0, 1.0, 0.0), 1.0
            name = f"the best model changes, row {place + 1}"
            groups = None
            if self.persons:
                # The one who decides has several rows.
                times = np.where(np.arange(self.n) == place, 8, 1)
                X, other, y = (np.repeat(one, times, axis=0) for one in (X, other, y))
                groups = [f"person {k}" for k in np.repeat(np.arange(self.n), times)]
            pairs.append(PublicNeighbours(name, Table(X, y, groups), Table(other, y, groups)))
        usual = neighbouring_tables(
            (-1.0, 1.0), n=self.n, n_features=self.n_models, labels=(-1, 1), persons=self.persons
        )
        # The secret order is that of the models, not of the rows.
        return [*pairs, *(replace(pair, rows=None) for pair in usual)]

    def run(self, table: Table) -> Any:
        """Choose."""
        groups = {"groups": table.groups} if self.persons else {}
        return select_privately(table.X, table.y, epsilon=self.epsilon, **groups)

    def numbers(self, result: Any) -> Vector:
        """Return the choice."""
        return np.array([float(result)])

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
#: Votes of a judge that count, in the audit, in all and on one pair.
_MOST, _ON_A_PAIR = 3, 2

Vote = tuple[Any, Any, Any]


class RatingsEntry(Entry):
    """`fit` of `PrivateRatings`, on votes or on judges with all their votes."""

    def __init__(
        self, *, n: int = 64, epsilon: float = 1.0, delta: float = 1e-3, persons: bool = False,
        neighbours: str = "replace",
    ) -> None:  # fmt: skip
        self.n, self.epsilon, self.delta, self.persons = n, epsilon, delta, persons
        self.removes = neighbours == "add_remove"
        self.name = "PrivateRatings" + (" with groups" if persons else "")
        limits: dict[str, Any] = {}
        if persons:
            limits = {"votes_per_judge": _MOST, "votes_per_pair": _ON_A_PAIR}
        self.model = PrivateRatings(
            epsilon, delta, players=_PLAYERS, neighbours=neighbours,
            n_examples=n + 1 if self.removes else None, **limits,
        )  # fmt: skip

    def pairs(self) -> Sequence[PublicNeighbours]:
        """Return votes of which one, or those of one judge, are replaced, or removed."""
        rng = np.random.default_rng(0)
        k = len(_PLAYERS)
        chosen = [rng.choice(k, 2, replace=False).tolist() for _ in range(self.n)]
        mixed = [(_PLAYERS[i], _PLAYERS[j], ("a", "tie", "b")[int(rng.integers(3))])
                 for i, j in chosen]  # fmt: skip
        alike = [("ann", "bob", "tie")] * self.n
        make = self._judged if self.persons else self._voted
        changes = _judges() if self.persons else _votes()
        if self.removes:
            found = [(name, votes) for name, *both in changes for votes in both]
            changes = [(f"{name}, {len(votes)} removed", votes, []) for name, votes in found]
        return [
            make(f"{name}{among}", others, mine, theirs, (0, self.n // 2, self.n - 1)[turn % 3])
            for turn, (name, mine, theirs) in enumerate(changes)
            for among, others in (("", alike), (" among random votes", mixed))
        ]

    def _voted(
        self, name: str, others: list[Vote], mine: list[Vote], theirs: list[Vote], place: int
    ) -> PublicNeighbours:
        first, second = (
            _table([*others[:place], *one, *others[place + 1 :]]) for one in (mine, theirs)
        )
        return PublicNeighbours(name, first, second)

    def _judged(
        self, name: str, others: list[Vote], mine: list[Vote], theirs: list[Vote], place: int
    ) -> PublicNeighbours:
        # Every other judge has two votes; those of the changed one stand in the midst of them. Some
        # votes are of nobody.
        groups = [f"judge {k // 2}" if k % 7 else None for k in range(len(others))]

        def table(votes: list[Vote]) -> Table:
            rows = [*others[:place], *votes, *others[place:]]
            judges = [*groups[:place], *["changed"] * len(votes), *groups[place:]]
            return _table(rows, judges)

        return PublicNeighbours(name, table(mine), table(theirs))

    def run(self, table: Table) -> Any:
        """Rate the players."""
        a, b = [pair[0] for pair in table.X], [pair[1] for pair in table.X]
        groups = {"groups": table.groups} if self.persons else {}
        return clone(self.model).fit(a, b, table.y, **groups)

    def public(self, result: Any) -> dict[str, Any]:
        """Return attributes, the model file and the intervals."""
        return {**fitted_facts(result), "intervals": repr(result.intervals())}

    def numbers(self, result: Any) -> Vector:
        """Return the scores and the released counts."""
        counts = result.counts_
        return np.concatenate([result.scores_, counts.leads, [counts.ties], counts.meetings])

    def certificate(self, result: Any) -> Certificate | None:
        """Return the certificate."""
        certificate: Certificate = result.certificate_
        return certificate

    def problems(self, result: Any) -> list[str]:
        """Return a wrong unit or relation."""
        unit, relation = result.certificate_.unit, result.certificate_.neighbours
        right = (unit == "person") == self.persons and (relation == "add_remove") == self.removes
        return [] if right else [f"the certificate is about {unit}s ({relation})"]


def _table(rows: list[Vote], groups: Any = None) -> Table:
    return Table([row[:2] for row in rows], [row[2] for row in rows], groups)


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
