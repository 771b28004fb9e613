# SPDX-License-Identifier: BSD-3-Clause
"""What the parameter means on a pair of examples."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["LinearScore"]


@dataclass(frozen=True)
class LinearScore:
    """Difference of linear predictions, s = <w, x - x'>.

    Examples
    --------
    >>> LinearScore().pair_norm_bound(1.5)
    3.0
    """

    def pair_norm_bound(self, norm_bound: float) -> float:
        """Return the largest norm of the score's gradient, ||x - x'|| <= 2 B for ||x|| <= B."""
        return 2.0 * norm_bound
