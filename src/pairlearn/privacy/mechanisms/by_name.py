# SPDX-License-Identifier: BSD-3-Clause
"""The mechanisms by name, for estimators and the program."""

from __future__ import annotations

from pairlearn.privacy.mechanisms.base import Mechanism
from pairlearn.privacy.mechanisms.centred import CentredStatistics
from pairlearn.privacy.mechanisms.gradient import (
    AllPairsGradient,
    LocalizedGradient,
    OutputPerturbation,
)
from pairlearn.privacy.mechanisms.localized_hinge import LocalizedHinge
from pairlearn.privacy.mechanisms.localized_sgd import LocalizedPairSGD
from pairlearn.privacy.mechanisms.metric_gradient import MetricGradient
from pairlearn.privacy.mechanisms.single_pass import SinglePass

__all__ = ["MECHANISMS", "METRIC_MECHANISMS", "get_mechanism"]

#: Learners of a linear score.
MECHANISMS: dict[str, type[Mechanism]] = {
    "statistics": CentredStatistics,
    "all_pairs": AllPairsGradient,
    "single_pass": SinglePass,
    "output_perturbation": OutputPerturbation,
    "localized_gradient": LocalizedGradient,
    "localized_sgd": LocalizedPairSGD,
    "localized_nonsmooth": LocalizedHinge,
}

#: Learners of a metric.
METRIC_MECHANISMS: dict[str, type[Mechanism]] = {"metric_gradient": MetricGradient}


def get_mechanism(mechanism: str | Mechanism, *, learns: str | None = "score") -> Mechanism:
    """Return a mechanism given by name, or the mechanism itself.

    Parameters
    ----------
    mechanism : str or Mechanism
        A key of `MECHANISMS` or `METRIC_MECHANISMS`, or an instance.
    learns : {"score", "metric", None}, default="score"
        What it must learn; None for either.

    Examples
    --------
    >>> get_mechanism("statistics").name
    'statistics'
    >>> get_mechanism("metric_gradient", learns=None).learns
    'metric'
    """
    tables = {"score": MECHANISMS, "metric": METRIC_MECHANISMS}
    known = MECHANISMS | METRIC_MECHANISMS if learns is None else tables[learns]
    if isinstance(mechanism, Mechanism):
        if learns not in (None, mechanism.learns):
            raise ValueError(
                f"{mechanism.name} learns a {mechanism.learns}; a mechanism that learns a "
                f"{learns} is needed."
            )
        return mechanism
    if isinstance(mechanism, str) and mechanism in known:
        return known[mechanism]()
    names = ", ".join(repr(name) for name in known)
    raise ValueError(f"mechanism must be one of {names} or a Mechanism, got {mechanism!r}.")
