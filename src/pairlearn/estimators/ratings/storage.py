# SPDX-License-Identifier: BSD-3-Clause
"""Counts of votes in the model file: what is stored, and what is checked when it comes back."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pairlearn.estimators.ratings.likelihood import Likelihood
from pairlearn.estimators.ratings.votes import Votes
from pairlearn.estimators.shared.storage import Storable
from pairlearn.models.parts import decode
from pairlearn.models.record import ModelRecord
from pairlearn.models.registry import ArraySpec
from pairlearn.restored import check_sane, restored_count, restored_number
from pairlearn.typing import Vector

_LABELS = "_vote_labels"


class StoredVotes(Storable):
    """Ratings whose file holds the counts and the parameters."""

    _arrays: ClassVar[Mapping[str, ArraySpec]] = {
        "parameters": ArraySpec(("n_parameters",)),
        "first": ArraySpec(("n_cells",), ("int64",), low=0),
        "second": ArraySpec(("n_cells",), ("int64",), low=0),
        "counts": ArraySpec(("n_cells", 3), low=0.0),
        "squares": ArraySpec(("n_cells", 3), required=False, low=0.0),
        "group": ArraySpec(("n_cells",), ("int64",), required=False, low=0),
        "covariates": ArraySpec(("n_cells", "n_covariates"), required=False),
    }
    _facts: ClassVar[Mapping[str, type]] = {_LABELS: dict}

    votes_: Votes
    _found: tuple[Likelihood, Vector]

    @property
    def _vote_labels(self) -> dict[str, Any]:
        """What the file says about the counts beside arrays."""
        votes = self.votes_
        return {
            "players": votes.players.tolist(),
            "groups": None if votes.groups is None else votes.groups.tolist(),
            "n_votes": votes.n_votes,
            "ordered": votes.ordered,
            **({} if votes.total is None else {"total": votes.total}),
        }

    @_vote_labels.setter
    def _vote_labels(self, value: dict[str, Any]) -> None:
        """Do nothing: `_unpack` has made the counts of it."""

    def _pack(self) -> dict[str, NDArray[Any]]:
        names = ("first", "second", "counts", "squares", "group", "covariates")
        found = {name: getattr(self.votes_, name) for name in names}
        packed = {name: value for name, value in found.items() if value is not None}
        return {"parameters": self._found[1], **packed}

    def _unpack(self, record: ModelRecord) -> None:
        given = self.get_params()  # type: ignore[attr-defined]
        labels = decode(record.parameters["fitted"][_LABELS], "labels")
        votes = _restored(record.arrays, labels, given["half_life"])
        likelihood = Likelihood.of(votes, ties=given["ties"], home=bool(given["home"]),
                                   prior=float(given["prior"]))  # fmt: skip
        theta = record.arrays["parameters"].copy()
        if theta.shape != likelihood.ridge.shape:
            raise ValueError(f"{len(theta)} parameters do not fit {len(votes.players)} players")
        check_sane("parameters", theta)
        self.votes_ = votes
        self._publish(likelihood, theta)

    @abstractmethod
    def _publish(self, likelihood: Likelihood, theta: Vector) -> None:
        """Set the fitted attributes."""


def described(record: ModelRecord) -> dict[str, Any]:
    """Return what a file of ratings, public or private, says about players, best first.

    `players` are pairs of name and score. `votes` and `judges` are their numbers, None where the
    file does not say them.
    """
    given = record.parameters
    private = "players" in given
    facts = {} if private else decode(given["fitted"][_LABELS], "labels")
    names = _names(given["players"] if private else facts["players"], "players")
    scores = record.arrays["parameters"][: len(names)]
    if len(scores) < len(names):
        raise ValueError(f"{len(scores)} parameters do not fit {len(names)} players")
    groups = facts.get("groups")
    order = np.argsort(-scores, kind="stable").tolist()
    listed = names.tolist()
    return {
        "players": [(listed[k], float(scores[k])) for k in order],
        "votes": None if private else restored_count(facts, "n_votes"),
        "judges": None if groups is None else len(_names(groups, "groups")),
    }


def _restored(
    arrays: Mapping[str, NDArray[Any]], labels: Mapping[str, Any], half_life: float | None
) -> Votes:
    """Return counts from a file that anybody may have written."""
    players = _names(labels["players"], "players")
    groups = None if labels["groups"] is None else _names(labels["groups"], "groups")
    group, squares = arrays.get("group"), arrays.get("squares")
    first, second, counts = (arrays[name] for name in ("first", "second", "counts"))
    if (group is None) != (groups is None) or (squares is None) != (half_life is None):
        raise ValueError("groups or squares do not fit the other entries")
    if len(players) < 2 or not len(first) or max(first.max(), second.max()) >= len(players):
        raise ValueError("a vote names a player that is not there")
    if (first == second).any() or not counts.any(axis=1).all():
        raise ValueError("a cell has no votes, or one player only")
    if group is not None and groups is not None and group.max() >= len(groups):
        raise ValueError("a vote names a group that is not there")
    if not isinstance(labels["ordered"], bool):
        raise ValueError("ordered is neither true nor false")
    check_sane("counts", counts)
    check_sane("covariates", arrays.get("covariates", np.zeros(1)))
    # Files of earlier versions do not say it: a row made others older by one vote.
    total = restored_number(labels, "total", low=0.0) if "total" in labels else None
    return Votes(players, first, second, counts, restored_count(labels, "n_votes"),
                 labels["ordered"], group, groups, arrays.get("covariates"), squares,
                 half_life, total)  # fmt: skip


def _names(values: Any, what: str) -> NDArray[Any]:
    """Return names that are all texts or all whole numbers, and rise."""
    kinds = set(map(type, values)) if isinstance(values, list) else set()
    if kinds not in ({str}, {int}):
        raise ValueError(f"the {what} must be texts or whole numbers")
    if any(low >= high for low, high in pairwise(values)):
        raise ValueError(f"the {what} are not in order")
    return np.array(values, dtype=np.str_ if kinds == {str} else np.int64)
