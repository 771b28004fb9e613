# SPDX-License-Identifier: BSD-3-Clause
"""How a learner of named examples learns by class moments, with columns that may be added.

A new name was 0 in all examples before it, so its moments until then are known: they are 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from pairlearn.features import Identity
from pairlearn.losses import PairLoss
from pairlearn.solvers.closed_form.past import half_lives_for
from pairlearn.solvers.closed_form.stream import MomentStream
from pairlearn.solvers.rows import CsrRows, Rows
from pairlearn.typing import Vector


class NamedMoments:
    """The class moments of rows that may become wider.

    `memory` is the half-life, None for the one that recent examples speak for. `free` is as in the
    stream of moments.
    """

    def __init__(self, loss: PairLoss, *, memory: float | None, scaled: bool, free: bool) -> None:
        self.loss, self._memory, self._scaled, self._free = loss, memory, scaled, free
        self._blocks = self._made(1)

    def _made(self, width: int) -> MomentStream:
        return MomentStream(
            Identity.of(width),
            half_lives_for(width, self._memory),
            ridge=None,
            margin=self.loss.parameter,
            scaled=self._scaled,
            free=self._free,
        )

    @property
    def half_life(self) -> float:
        """The half-life that is chosen now."""
        return self._blocks.half_life

    @property
    def n_steps(self) -> int:
        """The number of examples learned."""
        return self._blocks.n

    n_gradients = n_steps

    def until_next(self, n_taken: int) -> int:
        """Return the examples until coefficients are found anew."""
        return self._blocks.until_refresh

    def lately(self) -> tuple[Vector, float] | None:
        """Return the coefficients that were found last, and the score between the classes."""
        return self._blocks.lately()

    def now(self) -> tuple[Vector, float] | None:
        """Return the coefficients of all rows so far, and the score between the classes."""
        found = self._blocks.model()
        return None if found is None else (found[0].coef, found[0].middle)

    def learn(self, rows: Rows, y: Vector) -> tuple[int, str]:
        """Learn rows; none of them is refused."""
        X = rows.matrix.toarray() if isinstance(rows, CsrRows) else rows.X
        self._blocks.learn(X, y, np.ones(len(y)))
        return 0, ""

    def widen(self, width: int) -> None:
        """Make room for new features."""
        if width > self._blocks.features.n_outputs:
            self._blocks.widen(Identity.of(width), half_lives_for(width, self._memory))

    def to_go_on_from(self) -> tuple[Vector, Vector, float, int] | None:
        """Return coefficients, a point between the classes, spread and number of examples.

        None before both classes were seen.
        """
        found = self._blocks.model()
        if found is None:
            return None
        moments = self._blocks.whole()
        share = moments.counts / moments.counts.sum()
        variances = sum(
            part * np.trace(scatter) / count
            for part, scatter, count in zip(share, moments.scatters, moments.counts, strict=True)
        )
        gap = moments.means[0] - moments.means[1]
        spread = 2.0 * float(variances + share[0] * share[1] * (gap @ gap))
        return found[0].coef, moments.means.mean(axis=0), spread, self._blocks.n

    def state(self) -> dict[str, Any]:
        """Return everything that the next batch depends on."""
        return {"blocks": self._blocks.state()}

    def restore(self, state: Mapping[str, Any], width: int) -> None:
        """Go back to a state."""
        self._blocks = self._made(width)
        self._blocks.restore(state["blocks"])
