# SPDX-License-Identifier: BSD-3-Clause
"""Restore a fitted map from its state, which may come from a file and names known maps only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pairlearn.features.base import MAPS, FeatureMap, of_known


def restored_map(state: Mapping[str, Any], *, known: Sequence[type[FeatureMap]] = ()) -> FeatureMap:
    """Return the fitted map of a saved `state()`.

    It maps bit for bit as the saved one did. `known` adds maps to those in `MAPS`.
    """
    return of_known(state, (*known, *MAPS.types.values()))
