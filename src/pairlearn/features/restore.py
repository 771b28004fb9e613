# SPDX-License-Identifier: BSD-3-Clause
"""Restore a fitted map from its state, which may come from a file and names known maps only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pairlearn.features.base import FeatureMap, of_known
from pairlearn.features.fourier import RandomFourier
from pairlearn.features.hats import Hats
from pairlearn.features.identity import Identity
from pairlearn.features.nystroem import Nystroem
from pairlearn.features.union import Union

__all__ = ["restored_map"]

_MAPS: tuple[type[FeatureMap], ...] = (Hats, Identity, Nystroem, RandomFourier, Union)


def restored_map(state: Mapping[str, Any], *, known: Sequence[type[FeatureMap]] = ()) -> FeatureMap:
    """Return the fitted map of a saved `state()`.

    Parameters
    ----------
    state : mapping
        The state.
    known : sequence of types, optional
        Your own maps that the state may name.

    Returns
    -------
    FeatureMap
        The map; it maps bit for bit as the saved one did.

    Examples
    --------
    >>> fitted = Hats(n_knots=2).fit([[0.0], [4.0]])
    >>> restored_map(fitted.state()).transform([[1.0]])
    array([[0.25]])
    """
    return of_known(state, (*_MAPS, *known))
