# SPDX-License-Identifier: BSD-3-Clause
"""Old places of names: `shared.evidence`, `shared.examples` and `auc.step_choice` hold them."""

from pairlearn.estimators.auc.step_choice import (
    advice_for,
    choose,
    opposite_scale,
    relative_radii,
    relative_steps,
)
from pairlearn.estimators.shared.evidence import Choice, Tried
from pairlearn.estimators.shared.examples import find_classes

__all__ = [
    "Choice",
    "Tried",
    "advice_for",
    "choose",
    "find_classes",
    "opposite_scale",
    "relative_radii",
    "relative_steps",
]
