# SPDX-License-Identifier: BSD-3-Clause
"""AUC of many models at once."""

from __future__ import annotations

from typing import Any

import torch

__all__ = ["auc_of_many"]


def auc_of_many(scores: Any, positive: Any) -> Any:
    """Return the AUC of each row of scores; 0 for a row that is not finite.

    Parameters
    ----------
    scores : tensor of shape (n_models, n)
        The scores of the same examples by each model.
    positive : tensor of bool, shape (n,)
        Which examples are positive; both classes must be present.

    Returns
    -------
    tensor of float64, shape (n_models,)
        The share of opposite pairs in the right order; a tie counts one half.

    Examples
    --------
    >>> scores = torch.tensor([[3.0, 1.0, 2.0, 1.0]])
    >>> auc_of_many(scores, torch.tensor([True, True, False, False]))
    tensor([0.6250], dtype=torch.float64)
    """
    n = len(positive)
    if int(positive.sum()) in (0, n):
        raise ValueError(f"AUC needs both classes, but all {n} examples have one; use more.")
    finite = torch.isfinite(scores).all(1)
    above = scores[:, positive].contiguous()
    below = torch.sort(scores[:, ~positive], dim=1).values
    smaller = torch.searchsorted(below, above).double()
    not_larger = torch.searchsorted(below, above, right=True).double()
    auc = 0.5 * (smaller + not_larger).mean(1) / below.shape[1]
    return torch.where(finite, auc, torch.zeros_like(auc))
