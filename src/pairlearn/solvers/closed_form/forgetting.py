# SPDX-License-Identifier: BSD-3-Clause
"""A certificate that rows were taken back from exact moments.

It names three states by their digests: before, of the rows that are gone, and after. States are
whole numbers, so whoever has the rows and one of the other two can compute the third and compare.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

from numpy.typing import NDArray

from pairlearn.shown import Shown, Table
from pairlearn.solvers.closed_form.table import digest_of

_STATES = ("before", "rows", "after")


@dataclass(frozen=True)
class ForgettingCertificate(Shown):
    """Digests of a state before rows were taken back, of the rows, and of the state after.

    Parameters
    ----------
    before, rows, after : str
        SHA-256 digests of the three states, in hexadecimal digits. That of the rows does not depend
        on their order.
    n_rows : int
        The number of rows that are gone.
    kept : tuple of str, default=()
        What the rows may have had a part in and what stays as it was.

    Examples
    --------
    >>> import numpy as np
    >>> from pairlearn.solvers import ClassMoments, Grid
    >>> X, y = np.arange(6.0)[:, None], np.array([-1, -1, 1, -1, 1, 1])
    >>> grid = Grid.between([0.0], [5.0])
    >>> whole, gone = (ClassMoments(1, grid).add(X[k:], y[k:]) for k in (0, 4))
    >>> rest = whole.without(gone)
    >>> certificate = ForgettingCertificate.of(whole.state(), gone.state(), rest.state(), n_rows=2)
    >>> certificate.verify(rows=gone.state(), after=ClassMoments(1, grid).add(X[:4], y[:4]).state())
    >>> ForgettingCertificate.from_json(certificate.to_json()) == certificate
    True
    """

    before: str
    rows: str
    after: str
    n_rows: int
    kept: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in _STATES:
            value = getattr(self, name)
            if not isinstance(value, str) or not re.fullmatch("[0-9a-f]{64}", value):
                raise ValueError(
                    f"{name} must be a SHA-256 digest of 64 hexadecimal digits, got {value!r:.80}."
                )
        if not isinstance(self.n_rows, int) or isinstance(self.n_rows, bool) or self.n_rows < 0:
            raise ValueError(f"n_rows must be a whole number from 0, got {self.n_rows!r}.")
        object.__setattr__(self, "kept", tuple(map(str, self.kept)))

    @classmethod
    def of(
        cls,
        before: Mapping[str, NDArray[Any]],
        rows: Mapping[str, NDArray[Any]],
        after: Mapping[str, NDArray[Any]],
        *,
        n_rows: int,
        kept: tuple[str, ...] = (),
    ) -> Self:
        """Return the certificate of three states: of `ClassMoments`, or of a cluster."""
        return cls(digest_of(before), digest_of(rows), digest_of(after), n_rows, kept)

    def shown_title(self) -> str:
        """Return how many rows are gone, and what stays."""
        kept = f"; unchanged: {', '.join(self.kept)}" if self.kept else ""
        return f"{self.n_rows} rows were taken back{kept}"

    def shown_table(self) -> Table:
        """Return the three digests."""
        return ("state", "SHA-256"), [[name, getattr(self, name)] for name in _STATES]

    def to_json(self) -> str:
        """Return the certificate as JSON."""
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the certificate that a JSON text holds."""
        try:
            found = json.loads(text)
        except json.JSONDecodeError as error:
            raise ValueError(f"the certificate is no JSON: {error}.") from None
        names = (*_STATES, "n_rows", "kept")
        if not isinstance(found, dict) or sorted(found) != sorted(names):
            raise ValueError(f"a certificate has the entries {', '.join(names)}.")
        if not isinstance(found["kept"], list):
            raise ValueError(f"kept must be a list of texts, got {found['kept']!r:.60}.")
        return cls(**{**found, "kept": tuple(found["kept"])})

    def verify(
        self,
        *,
        before: Mapping[str, NDArray[Any]] | None = None,
        rows: Mapping[str, NDArray[Any]] | None = None,
        after: Mapping[str, NDArray[Any]] | None = None,
    ) -> None:
        """Compare states with the certificate; raise ValueError at the first that is another."""
        given = {"before": before, "rows": rows, "after": after}
        if all(state is None for state in given.values()):
            raise ValueError("verify compares states: pass before=, rows= or after=.")
        for name, state in given.items():
            if state is not None and digest_of(state) != getattr(self, name):
                raise ValueError(
                    f"the state {name!r} has the digest {digest_of(state)}, the certificate says "
                    f"{getattr(self, name)}: it is another state, or on another grid."
                )
