# SPDX-License-Identifier: BSD-3-Clause
"""A private linear classifier that learns from a stream and releases its model once."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pairlearn.atomic import atomic_open
from pairlearn.estimators.private.running import PrivateRunning
from pairlearn.estimators.shared.features_seen import restored_columns, see_columns
from pairlearn.estimators.shared.storage import register_storable
from pairlearn.models.record import ModelFileError, ModelRecord
from pairlearn.privacy.accounting.ledger import PrivacyLedger
from pairlearn.privacy.mechanisms.base import PrivateFit, PublicSetting
from pairlearn.privacy.mechanisms.single_pass import Pass, SinglePass
from pairlearn.privacy.noise import NoiseSource
from pairlearn.restored import restored_array, restored_count, restored_number
from pairlearn.solvers.turns import one_at_a_time
from pairlearn.typing import Vector

_FORMAT = 2


class PrivateAUCStream(PrivateRunning):
    r"""A private classifier that passes once over a stream, chunk by chunk.

    `partial_fit` takes the next examples, each once, and remembers the iterate and the last
    example. `release` adds noise, keeps the model and forgets the rest. The result does not depend
    on the chunks. There is exactly one release, at the end, because every earlier look at the
    iterate would be another release; `PrivateAUCContinual` releases many times for one budget. The
    guarantee is about single examples: `groups` is refused, and `PrivateAUCContinual` takes it.

    **A checkpoint of an unfinished stream holds a raw example and an iterate without noise.** It is
    as secret as the data. So pickling is refused before the release, and `save_checkpoint` writes
    only with ``holds_raw_example=True``, to a file that only its owner may read. Two releases from
    one checkpoint both cost privacy: give a `ledger`, which records each. `save` writes a released
    model and refuses an unfinished stream.

    Parameters
    ----------
    n_examples : int
        Public: the largest number of examples. It sets the step size.
    epsilon : float, default=1.0
        The privacy parameter.
    delta : float, optional
        The failure probability; the smaller of 1/(10 n) and n^(-3/2) by default.
    bounds : tuple (lower, upper)
        Public bounds of the features. Required.
    levels : array-like of int, optional
        0 for a continuous feature, k for a code of k equally spaced levels.
    labels : tuple (negative, positive), default=(0, 1)
        The two labels, public.
    mechanism : SinglePass, optional
        Its constants.
    neighbours : {"replace", "add_remove"}, default="replace"
        The neighbouring relation; the second needs half the noise.
    secure : bool, default=True
        Discrete noise; see `PrivateAUCClassifier`.
    random_state : int, optional
        Makes the noise reproducible, hence the model not private.
    ledger : PrivacyLedger, optional
        A budget shared with other releases; entered by `release`.

    Attributes
    ----------
    coef_, intercept_, classes_, bounds_, certificate_, n_features_in_
        As for `PrivateAUCClassifier`, after the release.
    n_seen : int
        Examples of the unfinished stream; after `load_checkpoint`, where to go on.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 2, 3000)
    >>> X = np.clip(rng.normal(size=(3000, 3)) + 2 * y[:, None], -4, 6)
    >>> stream = PrivateAUCStream(3000, bounds=(-4, 6))
    >>> for start in range(0, 3000, 1000):
    ...     stream = stream.partial_fit(X[start : start + 1000], y[start : start + 1000])
    >>> model = stream.release()
    >>> model.certificate_.mechanism
    'single_pass'
    >>> model.partial_fit(X, y)
    Traceback (most recent call last):
        ...
    ValueError: this stream has been released; ...
    """

    _releases_once = True
    _why_no_copy = (
        "an unfinished private stream holds a raw example and cannot be pickled or copied; "
        "release it first, or use save_checkpoint(path, holds_raw_example=True)."
    )

    def __init__(
        self,
        n_examples: int,
        epsilon: float = 1.0,
        delta: float | None = None,
        *,
        bounds: tuple[ArrayLike, ArrayLike] | None = None,
        levels: ArrayLike | None = None,
        labels: tuple[Any, Any] = (0, 1),
        mechanism: SinglePass | None = None,
        neighbours: str = "replace",
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
            mechanism="single_pass" if mechanism is None else mechanism,
            neighbours=neighbours,
            n_examples=n_examples,
            secure=secure,
            random_state=random_state,
            ledger=ledger,
        )
        self.mechanism = mechanism  # type: ignore[assignment]

    @property
    def public_centre(self) -> None:
        """None: a pass uses differences of examples only, so a centre would change nothing."""
        return None

    @public_centre.setter
    def public_centre(self, value: None) -> None:
        if value is not None:
            raise ValueError("a pass uses differences of examples; it has no public centre.")

    @property
    def n_seen(self) -> int:
        """Examples that the unfinished stream has learned, 0 if there is none; secret, too."""
        return 0 if self._state is None else int(self._state.n_seen)

    def to_record(self, provenance: Mapping[str, Any] | None = None) -> ModelRecord:
        """Return the released model as `Storable.to_record` does; refuse an unfinished stream."""
        if self._state is not None:
            raise ModelFileError(
                "an unfinished private stream holds a raw example and an iterate without noise, "
                "which do not belong in a model file; call release() first, or "
                "save_checkpoint(path, holds_raw_example=True)."
            )
        return super().to_record(provenance)

    @one_at_a_time
    def save_checkpoint(
        self, path: str | os.PathLike[str], *, holds_raw_example: bool = False
    ) -> None:
        """Write the unfinished stream to a file that holds a raw example.

        Parameters
        ----------
        path : path
            The file; only its owner may read it.
        holds_raw_example : bool, default=False
            Must be True: it confirms that you know that the file is as secret as the data, since
            no noise protects it.
        """
        if holds_raw_example is not True:
            raise ValueError(
                "a checkpoint of a private stream holds a raw example and an iterate without "
                "noise, so it is as secret as the data; if you want that, use "
                "save_checkpoint(path, holds_raw_example=True)."
            )
        if self._state is None:
            raise ValueError("there is no unfinished stream; save the released model instead.")
        setting, state = self._begun(self._width), self._state
        names = getattr(self, "feature_names_in_", None)
        plain = {
            "format": _FORMAT,
            "secret": "holds a raw example and an iterate without noise",
            "public": self._public(setting),
            "w": state.w.tolist(),
            "previous": None if state.previous is None else state.previous.tolist(),
            "previous_sign": state.previous_sign,
            "n_seen": state.n_seen,
            "feature_names": None if names is None else names.tolist(),
        }
        with atomic_open(path, secret=True) as file:
            file.write(json.dumps({**plain, "sha256": _checksum(plain)}).encode())

    @one_at_a_time
    def load_checkpoint(self, path: str | os.PathLike[str]) -> PrivateAUCStream:
        """Continue from a file of `save_checkpoint`; all public arguments must be the same.

        `n_seen` then tells where the stream stands: an example that is learned twice would break
        the guarantee.

        Parameters
        ----------
        path : path
            The file.

        Returns
        -------
        PrivateAUCStream
            Itself.
        """
        try:
            plain = json.loads(Path(path).read_text(encoding="utf-8"))
        except (ValueError, RecursionError):
            plain = None
        if not isinstance(plain, dict) or plain.get("format") != _FORMAT:
            raise ValueError(f"{os.fspath(path)!r} is not a checkpoint of a private stream.")
        if plain.pop("sha256", None) != _checksum(plain):
            raise ValueError(
                f"{os.fspath(path)!r} is damaged: its checksum is wrong. Take an older copy of it, "
                "or learn the stream from its beginning."
            )
        w = _restored(plain, "w", None)
        setting = self._setting(self._most_examples(), len(w))
        if plain.get("public") != self._public(setting):
            raise ValueError(
                "the checkpoint was made with other public arguments (n_examples, epsilon, delta, "
                "bounds, levels, labels, neighbours or constants); use the same ones, since the "
                "guarantee depends on them."
            )
        n_seen = restored_count(plain, "n_seen", maximum=self._most_examples())
        previous = _restored(plain, "previous", len(w)) if n_seen else None
        sign = restored_number(plain, "previous_sign", low=-1.0, high=1.0)
        columns = restored_columns(plain, len(w))
        self._forget()
        state = Pass(w, previous, sign, n_seen)
        self._begin(state, plain["public"], len(w))
        see_columns(self, columns)
        return self

    def _learner(self) -> SinglePass:
        chosen = SinglePass() if self.mechanism is None else self.mechanism
        if not isinstance(chosen, SinglePass):
            raise ValueError(f"a stream is learned by a SinglePass, got mechanism={chosen!r}.")
        return chosen

    def _begin(self, state: Pass, public: dict[str, Any], d: int) -> None:
        if hasattr(self, "coef_"):
            raise ValueError(
                "this stream has been released; a second release would cost more privacy. Use a "
                "new PrivateAUCStream for new examples."
            )
        super()._begin(state, public, d)

    def _source(self) -> NoiseSource:
        return NoiseSource.made_from(self.random_state, secure=self.secure)

    def _entry(self, setting: PublicSetting) -> str:
        return f"release of {SinglePass.name}, n = {setting.n_examples}"

    def _released(self, setting: PublicSetting, noise: NoiseSource) -> PrivateFit:
        return self._learner().finish(self._state, setting=setting, noise=noise)


def _checksum(plain: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a checkpoint; a file that was damaged has another."""
    return sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()


def _restored(plain: Mapping[str, Any], name: str, width: int | None) -> Vector:
    """Return a vector of a checkpoint, after checks: the file may come from anyone."""
    try:
        values = np.array(plain.get(name), dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"the saved {name} is not a list of numbers.") from None
    return restored_array({name: values}, name, (width,))


register_storable(PrivateAUCStream)
