# SPDX-License-Identifier: BSD-3-Clause
"""Ratings of private votes, as an entry for audits (`privacy.audit.entry`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import clone

from pairlearn.estimators.private.ratings import PrivateRatings
from pairlearn.privacy.accounting.certificate import Certificate
from pairlearn.privacy.audit.entry import Entry, fitted_facts
from pairlearn.privacy.audit.neighbours import PublicNeighbours, Table
from pairlearn.typing import Vector

_PLAYERS = ("ann", "bob", "cid", "dan")
#: Votes of a judge that count, in the audit: one against each other player.
_MOST = 3

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
        most = _MOST if persons else None
        self.model = PrivateRatings(
            epsilon, delta, players=_PLAYERS, votes_per_judge=most, neighbours=neighbours,
            n_examples=n + 1 if self.removes else None,
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
        # Every other judge has two votes; those of the changed one stand in the midst of them.
        groups = [f"judge {k // 2}" for k in range(len(others))]

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


def _table(rows: list[Vote], groups: list[str] | None = None) -> Table:
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
        ("a judge of wins becomes one of ties", star, ties),
        ("one vote becomes many on one pair", star[:1], [("bob", "ann", "a")] * 12),
        ("many votes on one pair are turned", star[:1] * 12, fall[:1] * 12),
        ("many votes become one", [vote for vote in star for _ in range(8)], fall[:1]),
        ("a judge turns all of many votes", star * 8, fall * 8),
        ("all votes of a judge become unknown", star, [("eve", "ann", "a")] * 5),
    ]
