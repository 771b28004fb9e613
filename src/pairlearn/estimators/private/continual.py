# SPDX-License-Identifier: BSD-3-Clause
"""A private linear classifier of a stream, released many times for one budget."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from numpy.typing import ArrayLike

from pairlearn.estimators.private.running import PrivateRunning
from pairlearn.estimators.shared.storage import register_storable
from pairlearn.models.record import ModelFileError, ModelRecord
from pairlearn.privacy.accounting.ledger import PrivacyLedger
from pairlearn.privacy.mechanisms.base import PrivateFit, PublicSetting
from pairlearn.privacy.mechanisms.tree import SumTree, TreeStatistics
from pairlearn.privacy.noise import NoiseSource
from pairlearn.privacy.persons import FirstRows
from pairlearn.validation import check_count


class PrivateAUCContinual(PrivateRunning):
    r"""A private classifier of all examples so far, released many times for one budget.

    `partial_fit` takes the next examples. `release` publishes a model of all examples since the
    beginning, up to `n_releases` times. The guarantee covers all of these models together: it uses
    sums in a binary tree (`privacy.mechanisms.tree`), and each example is in
    floor(log2(n_releases)) + 1 of them. The times of the releases and the numbers of examples
    between them are public.

    For one release, `PrivateAUCStream` and `PrivateAUCClassifier` are better. For more than about
    ten releases from one budget, this estimator is. Between releases it holds sums without noise,
    which are as secret as the data, so it cannot be pickled or copied, nor go on in a forked
    process. `save` writes the last released model and nothing else.

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
    rows_per_person : int, optional
        Public: how many rows of a person count. `partial_fit` then needs `groups`, the person of
        each row. The first rows of each person count, and later ones are left out; how many is not
        shown. The noise grows by this factor, and the guarantee protects a person with all rows
        who is replaced, at the same places of the stream, by another (lemma 20). The stream
        remembers the ids of its persons.

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
        rows_per_person: int | None = None,
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
        self.n_releases, self.rows_per_person = n_releases, rows_per_person

    @property
    def _unit(self) -> str:  # type: ignore[override]
        return "example" if self.rows_per_person is None else "person"

    def _counted(self, groups: Any, n_rows: int) -> tuple[Any, Any]:
        if self.rows_per_person is None:
            if groups is not None:
                raise ValueError(
                    "groups, the person of each row, needs rows_per_person: the public number of "
                    "rows of each person that count, the first ones; give both, or neither."
                )
            return slice(None), None
        most = check_count("rows_per_person", self.rows_per_person)
        if groups is None:
            raise ValueError(
                f"rows_per_person={most} needs groups, the person of each row; give both, or "
                "neither."
            )
        # Before the stream begins, `rows_per_person` may still change, after a call that failed.
        if self._state is None or self._persons is None:
            self._persons = FirstRows(most)
        kept, later = self._persons.taken(groups, n_rows)
        return kept, later

    def _setting(self, n: int, d: int) -> PublicSetting:
        setting = super()._setting(n, d)
        if self.rows_per_person is None:
            return setting
        # A person is as many changes of one row as rows of a person count.
        most = check_count("rows_per_person", self.rows_per_person)
        return replace(setting, budget=setting.mu / most)

    def _cost(self, setting: PublicSetting) -> dict[str, float]:
        cost = super()._cost(setting)
        return {name: price * (self.rows_per_person or 1) for name, price in cost.items()}

    def _public(self, setting: PublicSetting) -> dict[str, Any]:
        return super()._public(setting) | {"rows_per_person": self.rows_per_person}

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
        # A first release that was interrupted after the payment is not paid for again.
        if self._state.n_released or self._paid_by is not None:
            return None
        return f"{self.n_releases} releases of {TreeStatistics.name}, n <= {setting.n_examples}"

    def _released(self, setting: PublicSetting, noise: NoiseSource) -> PrivateFit:
        fit = self._learner().release(self._state, setting=setting, noise=noise)
        if self.rows_per_person is None:
            return fit
        k = self.rows_per_person
        assert fit.mu is not None
        releases = tuple(replace(one, sensitivity=k * one.sensitivity) for one in fit.releases)
        return replace(fit, releases=releases, mu=k * fit.mu)

    def _publish(self, *parts: Any, **options: Any) -> None:
        super()._publish(*parts, **options)
        self.certificate_ = replace(
            self.certificate_, unit=self._unit, rows_per_person=self.rows_per_person
        )

    def _further_facts(self, setting: PublicSetting) -> dict[str, str]:
        facts = super()._further_facts(setting) | {
            "releases": f"up to {self.n_releases}; their times, and how many examples came "
            "between them"
        }
        if self.rows_per_person is None:
            return facts
        return facts | {
            "rows of a person": f"the first {self.rows_per_person} count, later ones are left out"
        }


register_storable(PrivateAUCContinual)
