# SPDX-License-Identifier: BSD-3-Clause
"""A private linear classifier of a stream, released once or many times for one budget."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

from numpy.typing import ArrayLike

from pairlearn.estimators.private.auc import PrivateAUCClassifier
from pairlearn.estimators.shared.examples import check_columns
from pairlearn.estimators.shared.storage import register_storable
from pairlearn.features import Identity
from pairlearn.models.record import ModelFileError, ModelRecord
from pairlearn.privacy.accounting.ledger import PrivacyLedger
from pairlearn.privacy.mechanisms.base import PublicSetting
from pairlearn.privacy.mechanisms.tree import SumTree, TreeStatistics
from pairlearn.privacy.noise import NoiseSource
from pairlearn.privacy.persons import FirstRows
from pairlearn.privacy.records import read_table
from pairlearn.typing import Vector
from pairlearn.validation import check_count

#: The public facts that set the noise of a stream.
_FROZEN = (
    "n_examples", "epsilon", "delta", "bounds", "levels", "labels", "public_centre", "n_releases",
    "rows_per_person",
)  # fmt: skip


@dataclass
class _Stream:
    """A running stream, which is secret; `facts` are the public ones at its start."""

    tree: SumTree
    facts: Mapping[str, str]
    width: int
    process: int
    persons: FirstRows | None
    #: One source for all nodes, so that a seed does not give two nodes the same noise.
    noise: NoiseSource | None = None
    stated: Mapping[str, Any] | None = None
    paid_by: PrivacyLedger | None = None


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
    levels, labels : array-like of int, tuple (negative, positive)
        As for `PrivateAUCClassifier`.
    public_centre : array-like, optional
        A typical value of each feature known without the data. It helps more here than elsewhere,
        since no release is spent on finding it.
    random_state : int, optional
        As for `PrivateAUCClassifier`.
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
    _stream: _Stream | None = None

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
        for name in [name for name in vars(self) if name.endswith("_")]:
            delattr(self, name)
        self._stream = None
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
        y, persons, kept = self._signs(y, len(rows)), self._persons(groups), None
        if persons is not None:
            mask, kept = persons.taken(groups, len(rows))
            rows, y = rows[mask], y[mask]
        check_columns(self, X, reset=self._stream is None)
        setting, tree = self._setting_of_stream(rows.shape[1]), self._tree()
        if self._stream is None:
            facts = {name: repr(getattr(self, name)) for name in _FROZEN}
            self._stream = _Stream(tree.begin(setting), facts, rows.shape[1], os.getpid(), persons)
        tree.check_room(self._stream.tree, len(rows), setting)
        if persons is not None and kept is not None:
            # Before rows are learned: an interrupted chunk that comes again counts less, not more.
            persons.remember(kept)
        tree.learn(self._stream.tree, setting.to_standard(rows), y, setting=setting)
        return self

    def _persons(self, groups: Any) -> FirstRows | None:
        """Return the persons of the stream, of whom the first rows count; None without them."""
        most = self.rows_per_person
        if (most is None) != (groups is None):
            said = f"rows_per_person={most} needs groups, the person of each row"
            if most is None:
                said = (
                    "groups, the person of each row, needs rows_per_person: the public number of "
                    "rows of each person that count, the first ones"
                )
            raise ValueError(f"{said}; give both, or neither.")
        if self._stream is not None:
            return self._stream.persons
        return None if most is None else FirstRows(check_count("rows_per_person", most))

    def release(self) -> Self:
        """Publish a model of all examples since the beginning; return the estimator itself."""
        stream = self._stream
        if stream is None:
            raise ValueError("there is nothing to release; call partial_fit first.")
        setting, tree = self._setting_of_stream(stream.width), self._tree()
        k, n = self.rows_per_person or 1, setting.n_examples
        tree.check_releases(stream.tree)
        if stream.noise is None or stream.stated is None:
            # A first release that was interrupted after the payment is not paid for again.
            purpose = f"{self.n_releases} releases of {tree.name}, n <= {n}"
            unit = "example" if self.rows_per_person is None else "person"
            paid = self._pay(purpose, n, setting.delta, mu=k * setting.mu, unit=unit)
            (stream.noise, stream.stated), stream.paid_by = paid, self.ledger
        elif self.ledger not in (None, stream.paid_by):
            raise ValueError(
                "the first release paid for all of them, and this ledger did not record it: give "
                "the ledger before the first release, or set ledger=None."
            )
        fit = tree.release(stream.tree, setting=setting, noise=stream.noise)
        listed = tuple(replace(one, sensitivity=k * one.sensitivity) for one in fit.releases)
        facts = {
            "public": self._public_labels() | self._facts_of_stream(n),
            "rows_per_person": self.rows_per_person, **stream.stated,
        }  # fmt: skip
        fitted = self._fitted(
            replace(fit, releases=listed), tree.name, setting, Identity.of(setting.n_features),
            stream.noise, **facts,
        )  # fmt: skip
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
        if self._stream is None:
            return super()._table(X)
        width = self._stream.width
        return read_table(X, n_features=width, known_from="the stream began with {}")

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

    def _setting_of_stream(self, d: int) -> PublicSetting:
        """Return the public setting, which must be that of the running stream if there is one."""
        stream = self._stream
        if stream is not None and stream.process != os.getpid():
            raise RuntimeError(
                "this stream was begun in another process, of which this one is a fork; two "
                "copies of it would release the same examples twice for one budget. Learn and "
                "release it where it began, or begin a new stream here."
            )
        setting = self._setting(check_count("n_examples", self.n_examples), d)  # type: ignore[arg-type]
        self._tree().check(setting)
        known = {} if stream is None else stream.facts
        changed = [name for name, value in known.items() if repr(getattr(self, name)) != value]
        if changed:
            raise ValueError(
                f"{', '.join(changed)} changed after the stream had begun, but its noise depends "
                f"on the first values. Set them back, or begin a new {type(self).__name__}."
            )
        return setting

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
        if self._stream is not None:
            raise TypeError(
                "this estimator holds sums without noise and cannot be pickled or copied; "
                "save(path) writes the last released model."
            )
        state: dict[str, Any] = super().__getstate__()
        return state


register_storable(PrivateAUCContinual)
