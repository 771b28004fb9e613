# SPDX-License-Identifier: BSD-3-Clause
"""A private linear classifier of a stream that is released again and again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pairlearn.estimators.private_auc import PrivateAUCClassifier
from pairlearn.estimators.private_mixin import check_unchanged, public_facts
from pairlearn.estimators.storage import register_storable
from pairlearn.models.record import ModelFileError, ModelRecord
from pairlearn.privacy.accounting.ledger import PrivacyLedger
from pairlearn.privacy.mechanisms.base import PublicSetting
from pairlearn.privacy.mechanisms.tree import SumTree, TreeStatistics
from pairlearn.privacy.noise import NoiseSource
from pairlearn.privacy.public_maps import map_publicly
from pairlearn.solvers.turns import one_at_a_time
from pairlearn.validation import check_count

__all__ = ["PrivateAUCContinual"]


class PrivateAUCContinual(PrivateAUCClassifier):
    r"""A private classifier of all examples so far, as often as one likes, for one price.

    `partial_fit` takes examples as they come, `release` publishes a model of everything since the
    beginning, up to `n_releases` times. The promise is about all of these models together: sums in
    a binary tree (`privacy.mechanisms.tree`), of which an example has a part in
    floor(log2(n_releases)) + 1. When releases are made, and how many examples came between them, is
    public.

    One release of `PrivateAUCStream` or `PrivateAUCClassifier` is better than one of these; many of
    them, each with its own price, are worse from some ten on. Between releases the estimator holds
    sums without noise, which are as secret as the data: it is not pickled or copied. `save` writes
    the last released model and nothing else.

    Parameters
    ----------
    n_examples : int
        Public: the largest number of examples that may come in all.
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
        A typical value of each feature known without the data; worth more here than elsewhere,
        since no release is spent on finding one.
    secure : bool, default=True
        Discrete noise; see `PrivateAUCClassifier`.
    random_state : int, optional
        Makes the noise reproducible, hence the model not private.
    ledger : PrivacyLedger, optional
        A budget shared with other releases; the first release enters the price of all of them.

    Attributes
    ----------
    coef_, intercept_, log_odds_, classes_, bounds_, certificate_, n_features_in_
        As for `PrivateAUCClassifier`, of the last release.

    Examples
    --------
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

    _state: SumTree | None = None
    _frozen: dict[str, Any] | None = None
    _is_stream = True

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

    def fit(self, X: ArrayLike, y: ArrayLike, groups: None = None) -> PrivateAUCContinual:
        """Forget what came before, learn from one table and release once.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Examples; NaN and values outside the bounds are allowed.
        y : array-like of shape (n,)
            Labels; whatever is not the positive label counts as negative.
        groups : None
            Refused: this protects single examples.

        Returns
        -------
        PrivateAUCContinual
            The released model, which goes on with `partial_fit`.
        """
        if groups is not None:
            raise ValueError(
                "a stream protects single examples and takes no groups; use PrivateAUCClassifier."
            )
        self._state = self._frozen = None
        for name in [name for name in vars(self) if name.endswith("_")]:
            delattr(self, name)
        return self.partial_fit(X, y).release()

    @one_at_a_time
    def partial_fit(self, X: ArrayLike, y: ArrayLike) -> PrivateAUCContinual:
        """Learn from the next examples of the stream; the published model stays as it is.

        Parameters
        ----------
        X : array-like of shape (m, d)
            Examples; NaN and values outside the bounds are allowed.
        y : array-like of shape (m,)
            Labels; whatever is not the positive label counts as negative.

        Returns
        -------
        PrivateAUCContinual
            The estimator.
        """
        rows = self._table(X)
        y = self._signs(y, len(rows))
        state, setting = self._begun(rows.shape[1])
        self._tree().learn(state, setting.to_standard(rows), y, setting=setting)
        return self

    @one_at_a_time
    def release(self) -> PrivateAUCContinual:
        """Publish a model of all examples since the beginning.

        Returns
        -------
        PrivateAUCContinual
            The estimator, with new coefficients.
        """
        if self._state is None:
            raise ValueError("there is nothing to release; call partial_fit first.")
        state, setting = self._begun(self._width)
        mechanism = self._tree()
        noise = self._noise
        cautions = self._cautions(setting)
        if self.ledger is not None and not state.n_released:
            self.ledger.spend(
                f"{mechanism.n_releases} releases of {mechanism.name}, n <= {setting.n_examples}",
                **mechanism.cost(setting),
                neighbours=setting.neighbours,
            )
        fit = mechanism.release(state, setting=setting, noise=noise)
        self._warn(cautions)
        self.bounds_ = np.stack([setting.lower, setting.upper])
        self.features_ = map_publicly("linear", setting)
        self._publish(fit, mechanism, setting, noise, cautions)
        return self

    def to_record(self, provenance: Mapping[str, Any] | None = None) -> ModelRecord:
        """Return the last released model as `Storable.to_record` does."""
        if not hasattr(self, "coef_"):
            raise ModelFileError("nothing has been released yet; call release() first.")
        return super().to_record(provenance)

    def _stored_mechanism(self) -> Any:
        if self.certificate_.mechanism != TreeStatistics.name:
            raise ModelFileError(
                f"this model is released by {TreeStatistics.name!r}, its certificate names "
                f"{self.certificate_.mechanism[:60]!r}."
            )
        return "statistics"

    def _rows_known(self) -> dict[str, Any]:
        return {"rows_at_most": self.certificate_.n_examples}

    def __getstate__(self) -> dict[str, Any]:
        if self._state is not None:
            raise TypeError(
                "this estimator holds sums without noise and is not pickled or copied; save(path) "
                "writes the last released model."
            )
        state: dict[str, Any] = super().__getstate__()
        return state

    def _tree(self) -> TreeStatistics:
        return TreeStatistics(n_releases=self.n_releases)

    def _begun(self, d: int) -> tuple[SumTree, PublicSetting]:
        """Return the running state, a new one before the first example, and what is public."""
        n = check_count("n_examples", self.n_examples)  # type: ignore[arg-type]
        setting = self._setting(n, d)
        mechanism = self._tree()
        mechanism.check(setting, NoiseSource(secure=self.secure))
        public = public_facts(self, setting, repr(mechanism))
        if self._state is None:
            self._state, self._frozen, self._width = mechanism.begin(setting), public, d
            # One source for all nodes: a seed must not give two of them the same noise.
            self._noise = NoiseSource.made_from(self.random_state, secure=self.secure)
        assert self._frozen is not None
        if self._width != d:
            raise ValueError(f"X has {d} features, but the stream began with {self._width}.")
        check_unchanged(self._frozen, public, type(self).__name__)
        return self._state, setting

    def _further_facts(self, setting: PublicSetting) -> dict[str, str]:
        return {
            "number of examples": f"at most {setting.n_examples}, given by the caller",
            "releases": f"up to {self.n_releases}; their times, and how many examples came "
            "between them",
        }


register_storable(PrivateAUCContinual)
