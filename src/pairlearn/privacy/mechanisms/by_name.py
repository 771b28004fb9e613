# SPDX-License-Identifier: BSD-3-Clause
"""The mechanisms by name, for estimators and the program."""

from __future__ import annotations

from pairlearn.privacy.mechanisms.all_pairs import AllPairsGradient
from pairlearn.privacy.mechanisms.base import Mechanism
from pairlearn.privacy.mechanisms.centred import CentredStatistics
from pairlearn.privacy.mechanisms.noisy_sgd import NoisySGD
from pairlearn.register import Register

#: Learners of a linear score; a metric and a regression have `NoisySGD` alone.
MECHANISMS: Register[Mechanism] = Register("mechanism", Mechanism, learns="score")

for _one in (CentredStatistics, AllPairsGradient, NoisySGD):
    MECHANISMS.add(_one.name)(_one)


def get_mechanism(mechanism: str | Mechanism) -> Mechanism:
    """Return a mechanism of a linear score given by name, or the mechanism itself.

    Examples
    --------
    >>> get_mechanism("statistics").name
    'statistics'
    """
    found = MECHANISMS.make(mechanism)
    if isinstance(found, NoisySGD) and found.kind != "margin":
        raise ValueError(
            f"{found!r} learns a metric or a regression; a mechanism that learns a score is needed."
        )
    return found
