# SPDX-License-Identifier: BSD-3-Clause
"""Progressive (test-then-train) AUC over the last examples, in constant memory."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pairlearn.metrics.auc import auc_of
from pairlearn.metrics.metric import Metric
from pairlearn.typing import Mask, Vector
from pairlearn.validation import check_count, check_scored


class ProgressiveAUC:
    r"""The AUC of the last `window` examples, by their scores before they were learned.

    Each example is first scored and then learned, so the value needs no held-out data. With P
    positive and N negative examples in the window,

    .. math:: \frac{1}{PN} \sum_{i: y_i = 1} \sum_{j: y_j = 0}
              \left(1[s_i > s_j] + \tfrac12\, 1[s_i = s_j]\right),

    found by sorting the window when it is asked for. Memory is proportional to `window`.

    Parameters
    ----------
    window : int, default 10000
        Number of examples in the window.

    Examples
    --------
    >>> auc = ProgressiveAUC(window=4)
    >>> auc.update([0.1, 0.9, 0.4, 0.4], [0, 1, 1, 0])
    >>> auc.value
    0.875
    """

    def __init__(self, window: int = 10_000) -> None:
        self.window = check_count("window", window)
        self.n_seen = 0
        self._scores = np.zeros(self.window)
        self._positive = np.zeros(self.window, dtype=np.bool_)
        self._value: float | None = None

    def update(self, scores: ArrayLike, is_positive: ArrayLike) -> None:
        """Add examples with their scores from before they were learned, in that order."""
        new, positive = check_scored(scores, is_positive)
        self.n_seen += len(new)
        new, positive = new[-self.window :], positive[-self.window :]
        places = np.arange(self.n_seen - len(new), self.n_seen) % self.window
        self._scores[places], self._positive[places] = new, positive.astype(np.bool_)
        if len(new):
            self._value = None

    @property
    def n_positive(self) -> int:
        """Number of positive examples in the window."""
        return int(np.count_nonzero(self.scores()[1]))

    @property
    def n_negative(self) -> int:
        """Number of negative examples in the window."""
        return min(self.n_seen, self.window) - self.n_positive

    @property
    def value(self) -> float | None:
        """The AUC of the window; None if a class is absent."""
        if self._value is None:
            scores, positive = self.scores()
            if positive.any() and not positive.all():
                self._value = auc_of(positive, scores)
        return self._value

    def measure(self, metric: Metric) -> float | None:
        """Return another metric of the window, computed by sorting it.

        Parameters
        ----------
        metric : Metric
            Of two classes, such as ``PartialAUC(max_fpr=0.05)`` or ``AveragePrecision()``.

        Returns
        -------
        float or None
            Its value; None if a class is absent.

        Examples
        --------
        >>> from pairlearn import AveragePrecision
        >>> auc = ProgressiveAUC(window=4)
        >>> auc.update([0.1, 0.9, 0.4, 0.5], [0, 1, 1, 0])
        >>> round(auc.measure(AveragePrecision()), 4)
        0.8333
        """
        scores, positive = self.scores()
        if positive.all() or not positive.any():
            return None
        return metric(positive, scores)

    def scores(self) -> tuple[Vector, Mask]:
        """Return the scores of the window, oldest first, and a mask of the positive examples."""
        oldest = max(self.n_seen - self.window, 0)
        places = np.arange(oldest, self.n_seen) % self.window
        return self._scores[places], self._positive[places]

    def state(self) -> dict[str, Any]:
        """Return the window as arrays and numbers, for a checkpoint."""
        scores, positive = self.scores()
        return {
            "window": self.window, "n_seen": self.n_seen, "scores": scores, "is_positive": positive
        }  # fmt: skip

    def restore(self, state: dict[str, Any]) -> None:
        """Go back to a window saved by `state`, of the same size."""
        if state["window"] != self.window:
            raise ValueError(
                f"the saved window has {state['window']} examples, this one {self.window}; start "
                f"this one with window={state['window']}."
            )
        self.n_seen = int(state["n_seen"]) - len(state["scores"])
        self.update(state["scores"], state["is_positive"])
