# SPDX-License-Identifier: BSD-3-Clause
"""A private linear classifier of a stream, released many times for one budget."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numpy.typing import ArrayLike

from pairlearn.estimators.private.running import PrivateRunning
from pairlearn.estimators.shared.storage import register_storable
from pairlearn.models.record import ModelFileError, ModelRecord
from pairlearn.privacy.accounting.ledger import PrivacyLedger
from pairlearn.privacy.mechanisms.base import PrivateFit, PublicSetting
from pairlearn.privacy.mechanisms.tree import SumTree, TreeStatistics
from pairlearn.privacy.noise import NoiseSource


class PrivateAUCContinual(PrivateRunning):
    r"""A private classifier of all examples so far, released many times for one budget.

    `partial_fit` takes the next examples. `release` publishes a model of all examples since the
    beginning, up to `n_releases` times. The guarantee covers all of these models together: it uses
    sums in a binary tree (`privacy.mechanisms.tree`), and each example is in
    floor(log2(n_releases)) + 1 of them. The times of the releases and the numbers of examples
    between them are public.

    For one release, `PrivateAUCStream` and `PrivateAUCClassifier` are better. For more than about
    ten releases from one budget, this estimator is. Between releases it holds sums without noise,
    which are as secret as the data, so it cannot be pickled or copied. `save` writes the last
    released model and nothing else.

    Parameters
    ----------
    n_examples : int
        Public: the largest total number of examples.
    n_releases : int
        Public: the largest number of releases.
    epsilon : float, default=1.0
        The privacy parameter of all releases together.
    delta : float, optional
        The failure probability; the smaller of 1/(10 n) and n^(-3/2) by default.
    bounds : tuple (lower, upper)
        Public bounds of the features. Required.
    levels : array-like of int, optional
        0 for a continuous feature, k for a code of k equally spaced levels.
    labels : tuple (negative, positive), default=(0, 1)
        The two labels, public.
    public_centre : array-like, optional
        A typical value of each feature known without the data. It helps more here than elsewhere,
        since no release is spent on finding it.
    secure : bool, default=True
        Discrete noise; see `PrivateAUCClassifier`.
    random_state : int, optional
        Makes the noise reproducible, hence the model not private.
    ledger : PrivacyLedger, optional
        A budget shared with other releases; the first release enters the cost of all of them.

    Attributes
    ----------
    coef_, intercept_, log_odds_, classes_, bounds_, certificate_, n_features_in_
        As for `PrivateAUCClassifier`, of the last release.

    Examples
    --------
    >>> import numpy as np
    >>> from pairlearn import PrivateAUCContinual
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 2, 4000)
    >>> X = np.clip(rng.normal(size=(4000, 3)) + 2 * y[:, None], -4, 6)
    >>> model = PrivateAUCContinual(4000, 12, bounds=(-4, 6))
    >>> for start in range(0, 4000, 1000):
    ...     model = model.partial_fit(X[start : start + 1000], y[start : start + 1000]).release()
    >>> float((model.predict(X) == y).mean()) > 0.85
    True
    >>> len(model.certificate_.releases)
    4
    """

    _why_no_copy = (
        "this estimator holds sums without noise and cannot be pickled or copied; save(path) "
        "writes the last released model."
    )

    def __init__(
        self,
        n_examples: int,
        n_releases: int,
        epsilon: float = 1.0,
        delta: float | None = None,
        *,
        bounds: tuple[ArrayLike, ArrayLike] | None = None,
        levels: ArrayLike | None = None,
        labels: tuple[Any, Any] = (0, 1),
        public_centre: ArrayLike | None = None,
        secure: bool = True,
        random_state: Any = None,
        ledger: PrivacyLedger | None = None,
    ) -> None:
        super().__init__(
            epsilon,
            delta,
            bounds=bounds,
            levels=levels,
            labels=labels,
            n_examples=n_examples,
            public_centre=public_centre,
            secure=secure,
            random_state=random_state,
            ledger=ledger,
        )
        self.n_releases = n_releases

    def to_record(self, provenance: Mapping[str, Any] | None = None) -> ModelRecord:
        """Return the last released model as `Storable.to_record` does."""
        if not hasattr(self, "coef_"):
            raise ModelFileError("nothing has been released yet; call release() first.")
        return super().to_record(provenance)

    def _learner(self) -> TreeStatistics:
        return TreeStatistics(n_releases=self.n_releases)

    def _begin(self, state: SumTree, public: dict[str, Any], d: int) -> None:
        # One source for all nodes, so that a seed does not give two nodes the same noise.
        self._noise = NoiseSource.made_from(self.random_state, secure=self.secure)
        super()._begin(state, public, d)

    def _source(self) -> NoiseSource:
        return self._noise

    def _entry(self, setting: PublicSetting) -> str | None:
        if self._state.n_released:
            return None
        return f"{self.n_releases} releases of {TreeStatistics.name}, n <= {setting.n_examples}"

    def _released(self, setting: PublicSetting, noise: NoiseSource) -> PrivateFit:
        return self._learner().release(self._state, setting=setting, noise=noise)

    def _further_facts(self, setting: PublicSetting) -> dict[str, str]:
        return super()._further_facts(setting) | {
            "releases": f"up to {self.n_releases}; their times, and how many examples came "
            "between them"
        }


register_storable(PrivateAUCContinual)
