# SPDX-License-Identifier: BSD-3-Clause
"""Check a mechanism of your own on adversarial neighbours, by the same noise played to both."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from pairlearn.privacy.audit.exact import made_in_pieces
from pairlearn.privacy.audit.neighbours import PublicNeighbours, Table, public_neighbours
from pairlearn.privacy.audit.tape import recorded, replayed
from pairlearn.privacy.mechanisms.base import Mechanism, PublicSetting
from pairlearn.privacy.noise import NoiseSource
from pairlearn.privacy.records import read_table

#: Relative tolerance for rounding in a distance.
_ROUNDING = 1e-9


def standard_neighbours(setting: PublicSetting) -> list[PublicNeighbours]:
    """Return neighbouring tables in standard coordinates, with labels as signs.

    The first two are as far apart as the bounds allow: an example in a corner moves to the opposite
    one, or turns its label, or goes, while all others are negative and in the middle.
    """

    def standard(table: Table) -> Table:
        rows = setting.to_standard(read_table(table.X, n_features=setting.n_features))
        return Table(rows, np.where([label == 1.0 for label in table.y], 1.0, -1.0))

    return [
        replace(pair, first=standard(pair.first), second=standard(pair.second))
        for pair in public_neighbours(
            setting.lower, setting.upper, (-1.0, 1.0), n=setting.n_examples,
            neighbours=setting.neighbours,
        )
    ]  # fmt: skip


def release_distances(
    mechanism: Any, pair: PublicNeighbours, *, setting: PublicSetting, noise: NoiseSource
) -> list[tuple[float, float]]:
    """Return the distance between neighbours and its claimed bound, for each release of one run.

    Both are in units of the noise: distance / scale, and sensitivity / scale from the fit's
    releases. The distance must never exceed the bound. A `ValueError` says that the fit does not
    list what it releases, or that its result on the neighbour differs beyond the noise.
    """
    with recorded() as tape:
        fit = mechanism.fit(pair.first.X, pair.first.y, setting=setting, noise=noise)
    coins = [answer for *_, answer in tape.coins]
    with replayed(tape.outputs, tape.draws, rows=pair.moved, coins=coins) as replay:
        other = mechanism.fit(pair.second.X, pair.second.y, setting=setting, noise=noise)
    pieces = made_in_pieces(fit.releases, [value.size for value in tape.values])
    if pieces is None:
        raise ValueError(
            f"{mechanism.name} does not list the releases that it makes: add one Release for each "
            "call of release_vector, or one for calls that follow each other."
        )
    facts = [(one.threshold, one.log_odds, one.releases) for one in (fit, other)]
    if facts[0] != facts[1] or not np.array_equal(fit.direction, other.direction):
        raise ValueError(
            f"{mechanism.name} leaks data past the noise: with the same noisy values its result "
            "differs on a neighbour; compute everything from releases and the setting."
        )
    apart = tape.distances(replay)
    return [
        (math.hypot(*(apart[k] for k in piece)), release.mu)
        for piece, release in zip(pieces, fit.releases, strict=True)
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
        The largest distance between neighbours, as a share of the stated sensitivity.

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
        for pair in standard_neighbours(public):
            found = release_distances(mechanism, pair, setting=public, noise=NoiseSource())
            total = math.hypot(*(bound for _, bound in found))
            if not total <= public.mu * (1.0 + _ROUNDING):
                raise ValueError(
                    f"{mechanism.name} spends mu = {total:g}, over the budget {public.mu:g}; "
                    "calibrate the noise to setting.mu and compose all releases."
                )
            for number, (distance, bound) in enumerate(found, start=1):
                largest = max(largest, float(distance / bound))
                if not distance <= bound * (1.0 + _ROUNDING):
                    raise ValueError(
                        f"release {number} of {mechanism.name} is {distance / bound:.4g} times its "
                        f"sensitivity apart on {relation} neighbours ({pair.name}); clip the "
                        "contribution of one example, or state a larger sensitivity."
                    )
    return largest
