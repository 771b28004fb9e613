# SPDX-License-Identifier: BSD-3-Clause
"""The mechanisms by name."""

from __future__ import annotations

from pairlearn.privacy.centred import CentredStatistics
from pairlearn.privacy.gradient import (
    AllPairsGradient,
    LocalizedGradient,
    OutputPerturbation,
)
from pairlearn.privacy.localized_hinge import LocalizedHinge
from pairlearn.privacy.localized_sgd import LocalizedPairSGD
from pairlearn.privacy.mechanism import Mechanism
from pairlearn.privacy.single_pass import SinglePass

__all__ = ["MECHANISMS", "get_mechanism"]

MECHANISMS: dict[str, type[Mechanism]] = {
    "statistics": CentredStatistics,
    "all_pairs": AllPairsGradient,
    "single_pass": SinglePass,
    "output_perturbation": OutputPerturbation,
    "localized_gradient": LocalizedGradient,
    "localized_sgd": LocalizedPairSGD,
    "localized_nonsmooth": LocalizedHinge,
}


def get_mechanism(mechanism: str | Mechanism) -> Mechanism:
    """Return a mechanism given by name, or the mechanism itself.

    Parameters
    ----------
    mechanism : str or Mechanism
        A key of `MECHANISMS`, or an instance.

    Returns
    -------
    Mechanism
        The mechanism.

    Examples
    --------
    >>> get_mechanism("statistics").name
    'statistics'
    """
    if isinstance(mechanism, Mechanism):
        return mechanism
    if isinstance(mechanism, str) and mechanism in MECHANISMS:
        return MECHANISMS[mechanism]()
    names = ", ".join(repr(name) for name in MECHANISMS)
    raise ValueError(f"mechanism must be one of {names} or a Mechanism, got {mechanism!r}.")
