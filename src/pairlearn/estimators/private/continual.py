# SPDX-License-Identifier: BSD-3-Clause
"""A private linear classifier of a stream, released once or many times for one budget."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from pairlearn.estimators.private.auc import PrivateAUCClassifier
from pairlearn.estimators.shared.examples import check_columns
from pairlearn.estimators.shared.storage import register_storable
from pairlearn.features import Identity
from pairlearn.models.record import ModelFileError, ModelRecord
from pairlearn.privacy.accounting.certificate import cautions_about
from pairlearn.privacy.accounting.ledger import PrivacyLedger
from pairlearn.privacy.mechanisms.base import PublicSetting, certify
from pairlearn.privacy.mechanisms.tree import SumTree, TreeStatistics
from pairlearn.privacy.noise import NoiseSource
from pairlearn.privacy.persons import FirstRows
from pairlearn.privacy.records import read_table
from pairlearn.privacy.release import paid_noise
from pairlearn.typing import Mask, Vector
from pairlearn.validation import check_count


class PrivateAUCContinual(PrivateAUCClassifier):
    r"""A private classifier of all examples so far, released up to `n_releases` times.

    `partial_fit` takes the next examples. `release` publishes a model of all examples since the
    beginning. The guarantee covers all models together: it uses sums in a binary tree
    (`privacy.mechanisms.tree`), and each example is in floor(log2(n_releases)) + 1 of them. The
    times of the releases and the numbers of examples between them are public. For a table that is
    there as a whole, `PrivateAUCClassifier` is better.

    Between releases it holds sums without noise, which are as secret as the data, so it cannot be
    pickled or copied, nor go on in a forked process: each copy would release the same examples
    anew. `save` writes the last released model and nothing else. Public arguments must not change
    between the start and the end of a stream.

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
    random_state : int, optional
        Makes the noise reproducible, hence the model not private.
    ledger : PrivacyLedger, optional
        A budget shared with other releases; the first release enters the cost of all of them.
    rows_per_person : int, optional
        Public: how many rows of a person count. `partial_fit` then needs `groups`, the person of
        each row. The first rows of each person count, and later ones are left out, as are rows
        without an id; how many is not shown. The noise grows by this factor, and the guarantee
        protects a person with all rows who is replaced, at the same places of the stream, by
        another (lemma 20). The stream remembers the ids of its persons.

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

    _released_by = TreeStatistics.name
    #: The tree of the stream; None if no stream runs. This and what follows is secret.
    _state: SumTree | None = None
    _process: int | None = None
    #: The public facts at the start of the stream, which set its noise.
    _frozen: Mapping[str, str] = {}
    _persons: FirstRows | None = None
    #: One source for all nodes, so that a seed does not give two nodes the same noise.
    _noise: NoiseSource | None = None
    _paid_by: PrivacyLedger | None = None
    _width = 0

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
            random_state=random_state,
            ledger=ledger,
        )
        self.n_releases, self.rows_per_person = n_releases, rows_per_person

    def fit(self, X: ArrayLike, y: ArrayLike, groups: Any = None) -> Self:
        """Start a new stream, learn from one table as `partial_fit` does, and release once."""
        self._forget()
        return self.partial_fit(X, y, groups).release()

    def partial_fit(self, X: ArrayLike, y: ArrayLike, groups: Any = None) -> Self:
        """Learn from the next examples of the stream, without publishing anything.

        Parameters
        ----------
        X, y : array-like
            Examples and labels, as for `PrivateAUCClassifier.fit`.
        groups : array-like of shape (n,), optional
            The person of each row, with `rows_per_person`.

        Returns
        -------
        PrivateAUCContinual
            The estimator itself.
        """
        rows = self._table(X)
        y = self._signs(y, len(rows))
        check_columns(self, X, reset=self._state is None)
        counting = self._counting(groups, len(rows))
        setting = self._begun(rows.shape[1])
        assert self._state is not None
        if counting is None:
            self._tree().learn(self._state, setting.to_standard(rows), y, setting=setting)
            return self
        mask, counts = counting
        self._tree().check_room(self._state, int(mask.sum()), setting)
        # Before rows are learned: an interrupted chunk that comes again counts less, not more.
        assert self._persons is not None
        self._persons.remember(counts)
        self._tree().learn(self._state, setting.to_standard(rows[mask]), y[mask], setting=setting)
        return self

    def _counting(self, groups: Any, n_rows: int) -> tuple[Mask, dict[Any, int]] | None:
        """Return which rows count, and what to remember of the persons of the stream."""
        if self.rows_per_person is None:
            if groups is not None:
                raise ValueError(
                    "groups, the person of each row, needs rows_per_person: the public number of "
                    "rows of each person that count, the first ones; give both, or neither."
                )
            return None
        most = check_count("rows_per_person", self.rows_per_person)
        if groups is None:
            raise ValueError(
                f"rows_per_person={most} needs groups, the person of each row; give both, or "
                "neither."
            )
        # Before the stream begins, `rows_per_person` may still change, after a call that failed.
        if self._state is None or self._persons is None:
            self._persons = FirstRows(most)
        return self._persons.taken(groups, n_rows)

    def release(self) -> Self:
        """Publish a model of all examples since the beginning; return the estimator itself."""
        if self._state is None:
            raise ValueError("there is nothing to release; call partial_fit first.")
        setting, tree = self._begun(self._width), self._tree()
        k, n = self.rows_per_person or 1, setting.n_examples
        unit = "example" if self.rows_per_person is None else "person"
        cautions = cautions_about(setting.delta, n, seeded=self.random_state is not None)
        tree.check_releases(self._state)
        if self._noise is None:
            # A first release that was interrupted after the payment is not paid for again.
            self._noise = paid_noise(
                self.ledger, f"{self.n_releases} releases of {tree.name}, n <= {n}",
                seed=self.random_state, cautions=cautions, mu=k * setting.mu,
                neighbours=setting.neighbours, unit=unit,
            )  # fmt: skip
            self._paid_by = self.ledger
        elif self.ledger not in (None, self._paid_by):
            raise ValueError(
                "the first release paid for all of them, and this ledger did not record it: give "
                "the ledger before the first release, or set ledger=None."
            )
        fit = tree.release(self._state, setting=setting, noise=self._noise)
        listed = tuple(replace(one, sensitivity=k * one.sensitivity) for one in fit.releases)
        features = Identity.of(setting.n_features)
        certificate = certify(
            replace(fit, releases=listed), tree.name, setting=setting, noise=self._noise,
            public=self._public_labels() | self._facts_of_stream(n), warnings=cautions, unit=unit,
            rows_per_person=self.rows_per_person,
        )  # fmt: skip
        fitted = {
            "certificate_": certificate,
            "bounds_": np.stack([setting.lower, setting.upper]),
            "features_": features,
            "n_features_in_": setting.n_features,
        }
        names = getattr(self, "feature_names_in_", None)
        self._publish(names, **self._linear(fit, setting, fitted), **fitted)
        return self

    def _facts_of_stream(self, n: int) -> dict[str, str]:
        facts = {
            "number of examples": f"at most {n}, given by the caller",
            "releases": f"up to {self.n_releases}; their times, and how many examples came "
            "between them",
        }
        if self.rows_per_person is not None:
            facts["rows of a person"] = (
                f"the first {self.rows_per_person} count, later ones are left out"
            )
        return facts

    def _tree(self) -> TreeStatistics:
        return TreeStatistics(n_releases=self.n_releases)

    def _table(self, X: Any) -> Vector:
        if self._state is None:
            return super()._table(X)
        return read_table(X, n_features=self._width, known_from="the stream began with {}")

    def _setting(self, n: int, d: int) -> PublicSetting:
        if self._search() is not None:
            raise ValueError(
                "a stream sees each example once, so it cannot search for bounds first; give "
                "public bounds, or use PrivateAUCClassifier."
            )
        setting = super()._setting(n, d)
        if self.rows_per_person is None:
            return setting
        # A person is as many changes of one row as rows of a person count.
        return replace(
            setting, budget=setting.mu / check_count("rows_per_person", self.rows_per_person)
        )

    def _begun(self, d: int) -> PublicSetting:
        """Return the public setting of the stream; start the stream if there is none."""
        if self._state is not None and self._process != os.getpid():
            raise RuntimeError(
                "this stream was begun in another process, of which this one is a fork; two "
                "copies of it would release the same examples twice for one budget. Learn and "
                "release it where it began, or begin a new stream here."
            )
        setting = self._setting(check_count("n_examples", self.n_examples), d)  # type: ignore[arg-type]
        tree = self._tree()
        tree.check(setting)
        facts = {
            name: repr(getattr(self, name))
            for name in ("n_examples", "epsilon", "delta", "bounds", "levels", "labels",
                         "public_centre", "n_releases", "rows_per_person")
        }  # fmt: skip
        if self._state is None:
            self._state, self._frozen, self._width = tree.begin(setting), facts, d
            self._process = os.getpid()
        changed = [name for name, value in facts.items() if value != self._frozen[name]]
        if changed:
            raise ValueError(
                f"{', '.join(changed)} changed after the stream had begun, but its noise depends "
                f"on the first values. Set them back, or begin a new {type(self).__name__}."
            )
        return setting

    def _forget(self) -> None:
        """End the stream and forget the releases."""
        for name in [name for name in vars(self) if name.endswith("_") or name in _OF_STREAM]:
            delattr(self, name)

    def to_record(self, provenance: Mapping[str, Any] | None = None) -> ModelRecord:
        """Return the last released model as `Storable.to_record` does."""
        if not hasattr(self, "coef_"):
            raise ModelFileError("nothing has been released yet; call release() first.")
        return super().to_record(provenance)

    def _provenance(self, given: dict[str, Any]) -> dict[str, Any]:
        # The actual number of rows is not public, only the largest one.
        found = super()._provenance(given)
        for name in ("rows_seen", "persons_at_most", "persons_seen"):
            found.pop(name, None)
        return {"rows_at_most": self.certificate_.n_examples} | found

    def __getstate__(self) -> dict[str, Any]:
        if self._state is not None:
            raise TypeError(
                "this estimator holds sums without noise and cannot be pickled or copied; "
                "save(path) writes the last released model."
            )
        state: dict[str, Any] = super().__getstate__()
        return state


#: What a stream holds beside the fitted attributes.
_OF_STREAM = ("_state", "_process", "_frozen", "_persons", "_noise", "_paid_by", "_width")

register_storable(PrivateAUCContinual)
