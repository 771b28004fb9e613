# SPDX-License-Identifier: BSD-3-Clause
"""The features that scikit-learn has noted of a first chunk, for the state of a running stream."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from pairlearn.validation import check_count

__all__ = ["see_features", "seen_features"]


def seen_features(model: Any) -> dict[str, Any]:
    """Return number and names of the features of an estimator as plain values."""
    names = getattr(model, "feature_names_in_", None)
    return {
        "n_features": model.n_features_in_,
        "feature_names": None if names is None else names.tolist(),
    }


def see_features(model: Any, state: Mapping[str, Any]) -> None:
    """Note the features that `seen_features` returned."""
    model.n_features_in_ = check_count("n_features", state["n_features"])
    names = state["feature_names"]
    if names is not None:
        if (
            not isinstance(names, list)
            or len(names) != model.n_features_in_
            or not all(isinstance(name, str) for name in names)
        ):
            raise ValueError(
                f"the saved feature names are not one text for each of {model.n_features_in_} "
                "features."
            )
        model.feature_names_in_ = np.array(names, dtype=object)
