# SPDX-License-Identifier: BSD-3-Clause
"""Check a mechanism of your own on adversarial neighbours, by the same noise played to both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from pairlearn.privacy.accounting.certificate import Release
from pairlearn.privacy.audit.exact import Entry, check_entry, plain
from pairlearn.privacy.audit.neighbours import PublicNeighbours, Table, public_neighbours
from pairlearn.privacy.mechanisms.base import Mechanism, PublicSetting
from pairlearn.privacy.noise import NoiseSource
from pairlearn.privacy.records import read_table


class MechanismEntry(Entry):
    """`fit` of a mechanism, on rows in standard coordinates with labels as signs."""

    def __init__(self, mechanism: Mechanism, setting: PublicSetting) -> None:
        self.mechanism, self.setting, self.name = mechanism, setting, mechanism.name
        self.epsilon, self.delta, self.neighbours = (
            setting.epsilon,
            setting.delta,
            setting.neighbours,
        )

    def pairs(self) -> Sequence[PublicNeighbours]:
        """Return neighbours; the first two are as far apart as the bounds allow."""
        facts = self.setting
        found = public_neighbours(
            facts.lower, facts.upper, (-1.0, 1.0), n=facts.n_examples, neighbours=self.neighbours
        )
        return [
            replace(pair, first=self._standard(pair.first), second=self._standard(pair.second))
            for pair in found
        ]

    def _standard(self, table: Table) -> Table:
        rows = self.setting.to_standard(read_table(table.X, n_features=self.setting.n_features))
        return Table(rows, np.where([label == 1.0 for label in table.y], 1.0, -1.0))

    def run(self, table: Table) -> Any:
        """Fit."""
        return self.mechanism.fit(table.X, table.y, setting=self.setting, noise=NoiseSource())

    def public(self, result: Any) -> dict[str, Any]:
        """Return what is published of the fit."""
        names = ("direction", "threshold", "log_odds", "releases")
        return {name: plain(getattr(result, name)) for name in names}

    def listed(self, result: Any) -> Sequence[Release]:
        """Return the releases of the fit."""
        releases: Sequence[Release] = result.releases
        return releases

    def problems(self, result: Any) -> list[str]:
        """Return that the budget is overspent."""
        if result.mu <= self.setting.mu * (1.0 + 1e-9):
            return []
        return [
            f"mu = {result.mu:g} is spent, over the budget {self.setting.mu:g}; calibrate the "
            "noise to setting.mu and compose all releases"
        ]


def check_mechanism(mechanism: Mechanism, *, setting: PublicSetting | None = None) -> float:
    """Check a private learner on neighbouring data sets, before you trust it with data.

    For each of its relations the mechanism runs on the worst neighbours that the bounds allow, on
    one class, on constant columns and on random examples; one example is replaced, relabelled or
    left out. The noisy values of the run are played back on the neighbour. The result must then be
    the same, each protected value within its stated sensitivity, and all of them within mu. All
    checks are exact: they surely find every error that these neighbours expose. Like an audit, they
    cannot prove a mechanism right.

    Parameters
    ----------
    mechanism : Mechanism
        The mechanism.
    setting : PublicSetting, optional
        The public facts; by default 16 examples of two features between -1 and 1, epsilon 1 and
        delta 0.001. Each relation of the mechanism replaces its relation in turn.

    Returns
    -------
    float
        The largest distance between neighbours, as a share of what the budget allows.

    Raises
    ------
    ValueError
        If the mechanism fails; the message names the release and the neighbours.

    Examples
    --------
    >>> from pairlearn.privacy import AllPairsGradient, check_mechanism
    >>> check_mechanism(AllPairsGradient()) < 1
    True
    """
    if not isinstance(mechanism, Mechanism):
        raise TypeError(
            f"check_mechanism needs a Mechanism (an instance, not a class), got {mechanism!r}."
        )
    if setting is None:
        setting = PublicSetting.make(
            16, lower=[-1.0, -1.0], upper=[1.0, 1.0], epsilon=1.0, delta=1e-3
        )
    largest = 0.0
    for relation in mechanism.relations:
        public = replace(setting, neighbours=relation)
        mechanism.check(public)
        found = check_entry(MechanismEntry(mechanism, public))
        if found.findings:
            raise ValueError(
                f"{mechanism.name} fails on {relation} neighbours: {found.findings[0]} Compute "
                "everything from releases and the setting, list each call of release_vector, and "
                "clip what one example adds, or state a larger sensitivity."
            )
        largest = max(largest, found.share)
    return largest
