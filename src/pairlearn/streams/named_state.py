# SPDX-License-Identifier: BSD-3-Clause
"""Check the saved state of a `NamedLearner` before allocating anything of its size."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from pairlearn.restored import check_sane, restored_array, restored_count, restored_number
from pairlearn.streams.examples import LARGEST
from pairlearn.typing import Vector
from pairlearn.validation import check_positive

__all__ = ["check_size", "check_state"]


def check_state(state: Mapping[str, Any], *, most_waiting: int) -> None:
    """Refuse a state that no `NamedLearner` can have; its queue holds at most `most_waiting`."""
    index, waiting, labels = state["index"], state["waiting"], state["labels"]
    if not isinstance(index, list) or len(set(index)) != len(index):
        raise ValueError("the saved names are not a list of different ones.")
    if not (isinstance(waiting, list) and isinstance(labels, list)):
        raise ValueError("the saved examples that wait are not lists.")
    if len(waiting) != len(labels) or not all(isinstance(x, Mapping) for x in waiting):
        raise ValueError(
            f"{len(labels)} saved labels and {len(waiting)} saved examples do not belong together."
        )
    if not all(label in (1.0, -1.0) for label in labels):
        raise ValueError("the saved labels are not 1 and -1.")
    restored_count(state, "room", minimum=-(2**62), maximum=most_waiting)
    capacity = restored_count(state, "capacity", minimum=max(1, len(index)))
    coef, origin = (restored_array(state, name, (capacity,)) for name in ("coef", "origin"))
    check_size(coef)
    with np.errstate(over="ignore", invalid="ignore"):
        check_sane("score of the origin", coef @ origin)
    if restored_count(state, "by_name") > len(index):
        raise ValueError(f"the saved coefficients name more than {len(index)} features.")
    moments = restored_array(state, "moments", (2, 3))
    if (moments[:, [0, 2]] < 0.0).any():
        raise ValueError("the saved moments have negative numbers or squares of scores.")
    n_taken = restored_count(state, "n_taken")
    restored_count(state, "n_refused", maximum=n_taken)
    scale = restored_number(state, "scale", low=0.0, high=np.finfo(np.float64).max)
    if state["stream"] is not None:
        check_positive("the saved scale", scale)
        # these are in units of the scales, at most twice the largest value: in the user's units a
        # constant column shows nothing
        w = restored_array(state["stream"]["descent"], "w", (capacity,))
        check_size(w, 2.0 * LARGEST**2)


def check_size(saved: Vector, largest: float = LARGEST) -> None:
    """Refuse saved coefficients beyond the limit of learning."""
    if np.abs(saved).max() > largest:
        raise ValueError(f"a saved coefficient is beyond {largest:g}.")
