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
from pairlearn.privacy.mechanisms.noisy_sgd import NoisyMetricSGD, NoisySGD
from pairlearn.privacy.mechanisms.single_pass import SinglePass
from pairlearn.register import Register

#: Learners of a linear score.
MECHANISMS: Register[Mechanism] = Register("mechanism", Mechanism, learns="score")
#: Learners of a metric.
METRIC_MECHANISMS: Register[Mechanism] = Register("metric mechanism", Mechanism, learns="metric")

for _one in (
    CentredStatistics, AllPairsGradient, SinglePass, OutputPerturbation, LocalizedGradient,
    LocalizedPairSGD, LocalizedHinge, NoisySGD,
):  # fmt: skip
    MECHANISMS.add(_one.name)(_one)
METRIC_MECHANISMS.add(MetricGradient.name)(MetricGradient)
METRIC_MECHANISMS.add(NoisyMetricSGD.name)(NoisyMetricSGD)


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
    if learns is None and isinstance(mechanism, str):
        learns = "metric" if mechanism in METRIC_MECHANISMS else "score"
    register = METRIC_MECHANISMS if learns == "metric" else MECHANISMS
    found = register.make(mechanism)
    if learns not in (None, found.learns):
        raise ValueError(
            f"{found.name} learns a {found.learns}; a mechanism that learns a {learns} is needed."
        )
    return found
