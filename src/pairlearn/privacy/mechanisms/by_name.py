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
from pairlearn.privacy.mechanisms.noisy_entropy import NoisyEntropySGD
from pairlearn.privacy.mechanisms.noisy_sgd import NoisyMetricSGD, NoisySGD
from pairlearn.privacy.mechanisms.single_pass import SinglePass
from pairlearn.register import Register

#: Learners of a linear score.
MECHANISMS: Register[Mechanism] = Register("mechanism", Mechanism, learns="score")
#: Learners of a metric.
METRIC_MECHANISMS: Register[Mechanism] = Register("metric mechanism", Mechanism, learns="metric")
#: Learners of a regression.
REGRESSION_MECHANISMS: Register[Mechanism] = Register(
    "regression mechanism", Mechanism, learns="regression"
)

for _one in (
    CentredStatistics, AllPairsGradient, SinglePass, OutputPerturbation, LocalizedGradient,
    LocalizedPairSGD, LocalizedHinge, NoisySGD,
):  # fmt: skip
    MECHANISMS.add(_one.name)(_one)
METRIC_MECHANISMS.add(MetricGradient.name)(MetricGradient)
METRIC_MECHANISMS.add(NoisyMetricSGD.name)(NoisyMetricSGD)
REGRESSION_MECHANISMS.add(NoisyEntropySGD.name)(NoisyEntropySGD)
#: The registers by what their mechanisms learn.
_BY_TASK = {
    "score": MECHANISMS, "metric": METRIC_MECHANISMS, "regression": REGRESSION_MECHANISMS,
}  # fmt: skip


def get_mechanism(mechanism: str | Mechanism, *, learns: str | None = "score") -> Mechanism:
    """Return a mechanism given by name, or the mechanism itself.

    Parameters
    ----------
    mechanism : str or Mechanism
        A key of `MECHANISMS`, `METRIC_MECHANISMS` or `REGRESSION_MECHANISMS`, or an instance.
    learns : {"score", "metric", "regression", None}, default="score"
        What it must learn; None for any of them.

    Examples
    --------
    >>> get_mechanism("statistics").name
    'statistics'
    >>> get_mechanism("metric_gradient", learns=None).learns
    'metric'
    """
    if learns is None and isinstance(mechanism, str):
        learns = next((task for task, one in _BY_TASK.items() if mechanism in one), "score")
    found = _BY_TASK[learns or "score"].make(mechanism)
    if learns not in (None, found.learns):
        raise ValueError(
            f"{found.name} learns a {found.learns}; a mechanism that learns a {learns} is needed."
        )
    return found
