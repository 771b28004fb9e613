# SPDX-License-Identifier: BSD-3-Clause
"""The windows of an entropy regressor, one for each stage: which loss, and of which bandwidth."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pairlearn.estimators.entropy.start import pair_quartile
from pairlearn.losses import WINDOWS, PairLoss
from pairlearn.typing import Vector
from pairlearn.validation import check_positive

__all__ = ["Windows"]

#: Bandwidths of bandwidth="auto" in units of the final one, widest first.
_STAGES = (8.0, 4.0, 2.0, 1.0)


@dataclass(frozen=True)
class Windows:
    """`window` and `bandwidth` as `EntropyRegressor` has them, read and checked.

    >>> Windows("gaussian", [3.0, 1.0]).stages
    (3.0, 1.0)
    """

    window: str | PairLoss
    bandwidth: float | Sequence[float] | str | None

    @property
    def stages(self) -> tuple[float | None, ...]:
        """Bandwidths: numbers as they are, factors for "auto", None for a fixed window."""
        if self.bandwidth is None:
            return (None,)
        if isinstance(self.bandwidth, str):
            if self.bandwidth != "auto":
                raise ValueError(
                    'bandwidth must be a number, a decreasing sequence of numbers or "auto", '
                    f"got {self.bandwidth!r}."
                )
            return _STAGES
        values = np.atleast_1d(np.asarray(self.bandwidth, dtype=np.float64))
        if values.ndim != 1 or len(values) == 0:
            raise ValueError("bandwidth must hold at least one number.")
        for value in values:
            check_positive("bandwidth", float(value))
        if (np.diff(values) >= 0).any():
            raise ValueError(
                f"A schedule of bandwidths must decrease, got {values.tolist()}; start with the "
                "widest."
            )
        return tuple(values.tolist())

    def check(self) -> None:
        """Refuse what is no window, or no bandwidth of it."""
        if self.stages[0] is None:
            self._plain()
        else:
            self.of_bandwidth(1.0)

    def loss(self, stage: float | None, errors: Vector, rng: np.random.Generator) -> PairLoss:
        """Return the loss of a stage; with "auto" the bandwidth comes from the errors."""
        if stage is None:
            return self._plain()
        if isinstance(self.bandwidth, str):
            scale = pair_quartile(errors, rng)
            if scale == 0.0:
                # A quarter of the pairs agree exactly: the window need only see the others.
                spread = float(np.abs(errors - np.median(errors)).mean())
                scale = spread if spread > 0.0 else 1.0
            stage = stage * 1.06 * scale * len(errors) ** -0.2
        return self.of_bandwidth(stage)

    def of_bandwidth(self, bandwidth: float) -> PairLoss:
        """Return the loss of this bandwidth; NaN stands for a window without one."""
        loss = self._plain()
        if np.isnan(bandwidth):
            return loss
        if not any(field.name == "bandwidth" for field in dataclasses.fields(loss)):
            raise ValueError(
                f"{type(loss).__name__} has no field named bandwidth; set bandwidth=None."
            )
        return dataclasses.replace(loss, bandwidth=bandwidth)  # type: ignore[call-arg]

    def _plain(self) -> PairLoss:
        loss = WINDOWS.make(self.window)
        if loss.opposite_labels_only:
            raise ValueError(
                f"{type(loss).__name__} counts pairs of unequal labels by their order; a "
                "window is a PairLoss of (y - y_partner) - score with opposite_labels_only = False."
            )
        return loss
