# SPDX-License-Identifier: BSD-3-Clause
"""The base class of private classifiers of a stream: one secret running state."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from pairlearn.estimators.private.auc import PrivateAUCClassifier
from pairlearn.estimators.private.mixin import check_unchanged, public_facts
from pairlearn.estimators.shared.features_seen import check_columns
from pairlearn.models.record import ModelFileError
from pairlearn.privacy.accounting.ledger import PrivacyLedger
from pairlearn.privacy.mechanisms.base import PrivateFit, PublicSetting
from pairlearn.privacy.noise import NoiseSource
from pairlearn.privacy.public_maps import map_publicly
from pairlearn.privacy.records import read_table
from pairlearn.solvers.turns import one_at_a_time
from pairlearn.typing import Vector
from pairlearn.validation import check_count


class PrivateRunning(PrivateAUCClassifier, ABC):
    """Base class of private classifiers that learn from a stream.

    The state of the mechanism has no noise and is as secret as the data, so it cannot be pickled or
    copied. A forked process holds a copy, too, and is refused: each copy would release the same
    examples anew, and only one release of them is accounted for. Public arguments must not change
    between the start and the end of a stream.
    """

    #: Whether the release ends the stream.
    _releases_once: ClassVar[bool] = False
    #: The error when an estimator with a state is pickled: the reason and the cure.
    _why_no_copy: ClassVar[str]
    #: State of the mechanism; None if no stream runs.
    _state: Any = None
    #: The process that began the stream.
    _process: int | None = None
    #: The public facts at the start of the stream, which set its steps and its noise.
    _frozen: dict[str, Any] | None = None
    #: What a stream remembers of its persons; as secret as the data.
    _persons: Any = None
    #: What a release protects.
    _unit = "example"
    #: The ledger that recorded the first release of several.
    _paid_by: PrivacyLedger | None = None
    #: Number of features of the stream.
    _width = 0
    _is_stream = True

    @abstractmethod
    def _learner(self) -> Any:
        """Return the mechanism, which has `begin` and `learn`."""

    @abstractmethod
    def _source(self) -> NoiseSource:
        """Return the noise source of the next release."""

    @abstractmethod
    def _entry(self, setting: PublicSetting) -> str | None:
        """Return the name of the next release in a ledger; None if it is already paid for."""

    @abstractmethod
    def _released(self, setting: PublicSetting, noise: NoiseSource) -> PrivateFit:
        """Return the mechanism's release of the running state."""

    def fit(self, X: ArrayLike, y: ArrayLike, groups: Any = None) -> Self:
        """Start a new stream, learn from one table as `partial_fit` does, and release once."""
        self._forget()
        return self.partial_fit(X, y, groups).release()

    @one_at_a_time
    def partial_fit(self, X: ArrayLike, y: ArrayLike, groups: Any = None) -> Self:
        """Learn from the next examples of the stream, without publishing anything.

        Examples and labels are those of `PrivateAUCClassifier.fit`. `groups`, the person of each
        row, belongs to `PrivateAUCContinual` with `rows_per_person`.
        """
        rows = self._table(X)
        y = self._signs(y, len(rows))
        kept, later = self._counted(groups, len(rows))
        check_columns(self, X, reset=self._state is None)
        setting = self._begun(rows.shape[1])
        Z = setting.to_standard(rows[kept])
        # Before rows are learned: an interrupted chunk that comes again counts less, not more.
        before = None if later is None else self._persons.remember(later)
        try:
            self._learner().learn(self._state, Z, y[kept], setting=setting)
        except ValueError:  # It is refused, and nothing was learned.
            if before is not None:
                self._persons.remember(before)
            raise
        return self

    def _counted(self, groups: Any, n_rows: int) -> tuple[Any, Any]:
        """Return which rows count, and what to remember of the persons of the stream."""
        if groups is not None:
            raise ValueError(
                f"{type(self).__name__} protects single examples and takes no groups; use "
                "PrivateAUCContinual with rows_per_person, which counts the first rows of each "
                "person, or PrivateAUCClassifier."
            )
        return slice(None), None

    @one_at_a_time
    def release(self) -> Self:
        """Publish a model of all examples since the beginning; return the estimator itself."""
        if self._state is None:
            raise ValueError("there is nothing to release; call partial_fit first.")
        setting = self._begun(self._width)
        mechanism = self._learner()
        noise = self._source()
        cautions = self._cautions(setting.delta, setting.n_examples)
        entry = self._entry(setting)
        if entry is None and self.ledger not in (None, self._paid_by):
            raise ValueError(
                "the first release paid for all of them, and this ledger did not record it: give "
                "the ledger before the first release, or set ledger=None."
            )
        if self.ledger is not None and entry is not None:
            cost = self._cost(setting)
            self.ledger.spend(entry, **cost, neighbours=setting.neighbours, unit=self._unit)
            self._paid_by = self.ledger
        fit = self._released(setting, noise)
        self.bounds_ = np.stack([setting.lower, setting.upper])
        self.features_ = map_publicly("linear", setting)
        self._publish(fit, mechanism, setting, noise, cautions)
        if self._releases_once:
            self._state = self._frozen = self._persons = self._process = None
        return self

    def _table(self, X: Any) -> Vector:
        if self._state is None:
            return super()._table(X)
        return read_table(X, n_features=self._width, known_from="the stream began with {}")

    def _begun(self, d: int) -> PublicSetting:
        """Return the public setting of the stream; start the stream if there is none."""
        if self._state is not None and self._process != os.getpid():
            raise RuntimeError(
                "this stream was begun in another process, of which this one is a fork; two "
                "copies of it would release the same examples twice for one budget. Learn and "
                "release it where it began, or begin a new stream here."
            )
        setting = self._setting(self._most_examples(), d)
        mechanism = self._learner()
        mechanism.check(setting, NoiseSource(secure=self.secure))
        public = self._public(setting)
        if self._state is None:
            self._begin(mechanism.begin(setting), public, d)
        assert self._frozen is not None
        check_unchanged(self._frozen, public, type(self).__name__)
        return setting

    def _begin(self, state: Any, public: dict[str, Any], d: int) -> None:
        self._state, self._frozen, self._width = state, public, d
        self._process = os.getpid()

    def _forget(self) -> None:
        """End the stream and forget the releases."""
        self._state = self._frozen = self._persons = self._paid_by = self._process = None
        for name in [name for name in vars(self) if name.endswith("_")]:
            delattr(self, name)

    def _cost(self, setting: PublicSetting) -> dict[str, float]:
        cost: dict[str, float] = self._learner().cost(setting)
        return cost

    def _most_examples(self) -> int:
        return check_count("n_examples", self.n_examples)  # type: ignore[arg-type]

    def _public(self, setting: PublicSetting) -> dict[str, Any]:
        return public_facts(self, setting, repr(self._learner()))

    def _further_facts(self, setting: PublicSetting) -> dict[str, str]:
        return {"number of examples": f"at most {setting.n_examples}, given by the caller"}

    def _stored_mechanism(self) -> Any:
        name = self._learner().name
        if self.certificate_.mechanism != name:
            raise ModelFileError(
                f"this model is released by {name!r}, but its certificate names "
                f"{self.certificate_.mechanism[:60]!r}."
            )
        return self.mechanism

    def _rows_known(self) -> dict[str, Any]:
        # The actual number of rows is not public, only the largest one.
        return {"rows_at_most": self.certificate_.n_examples}

    def __getstate__(self) -> dict[str, Any]:
        if self._state is not None:
            raise TypeError(self._why_no_copy)
        state: dict[str, Any] = super().__getstate__()
        return state
