# SPDX-License-Identifier: BSD-3-Clause
"""What an audit attacks: one private function, as its user calls it."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from types import CellType, FunctionType, MappingProxyType
from typing import Any

import numpy as np

from pairlearn.privacy.accounting.certificate import Certificate, Release
from pairlearn.privacy.audit.neighbours import PublicNeighbours, Table
from pairlearn.typing import Vector


class Entry(ABC):
    """A private function under audit: how it is called, and what it makes public.

    A subclass calls the function in `run` exactly as a user does, without any source of noise: the
    audit listens to the noise (`privacy.audit.tape`). The claim is `epsilon` and `delta`.

    Examples
    --------
    >>> from pairlearn.privacy import NoiseSource, audit_entry, neighbouring_tables
    >>> class Mean(Entry):
    ...     name, epsilon, delta = "a sum without noise", 1.0, 1e-3
    ...     def pairs(self):
    ...         return neighbouring_tables((-1.0, 1.0), n=8)
    ...     def run(self, table):
    ...         return np.nansum(np.clip(table.X, -1, 1))
    ...     def numbers(self, result):
    ...         return np.array([result])
    >>> audit_entry(Mean(), n_runs=8).passed
    False
    """

    name: str
    epsilon: float
    delta: float
    #: The share of the runs that a slow function gets; the audit states what these can find.
    share_of_runs: float = 1.0
    #: Whether noisy numbers decide how many further ones are released (lemma 21).
    adaptive: bool = False

    @abstractmethod
    def pairs(self) -> Sequence[PublicNeighbours]:
        """Return neighbouring tables."""

    @abstractmethod
    def run(self, table: Table) -> Any:
        """Call the function on a table, as a user does, and return its result."""

    @abstractmethod
    def numbers(self, result: Any) -> Vector:
        """Return the public numbers of a result, for attacks by statistics."""

    def public(self, result: Any) -> dict[str, Any]:
        """Return everything public about a result, as plain values to compare."""
        return {"numbers": self.numbers(result).tolist()}

    def certificate(self, result: Any) -> Certificate | None:
        """Return the certificate of a result; None if the function gives none."""
        return None

    def listed(self, result: Any) -> Sequence[Release] | None:
        """Return the certified release of each noisy vector in order; None if nothing is listed."""
        certificate = self.certificate(result)
        return None if certificate is None else certificate.releases

    def problems(self, result: Any) -> list[str]:
        """Return conditions of the proof that this result breaks; usually there are none."""
        return []

    def law(self, table: Table) -> Vector | None:
        """Return the exact probabilities of the outcomes 0, 1, ..., if they are known."""
        return None


def plain(value: Any) -> Any:
    """Return a value in a form that can be compared with ==, to the last bit.

    >>> plain({"centre": [np.array([65], dtype="u1")]})
    [("'centre'", [('|u1', (1,), b'A')])]
    """
    return _plain(value, ())


def _plain(value: Any, inside: tuple[int, ...]) -> Any:
    """Return `value`, which is inside the objects of these identities, in a form to compare."""
    kind = type(value)
    if isinstance(value, (type(None), int, float, complex, str, bytes, np.generic)):
        return repr(value)
    if hasattr(value, "detach") and hasattr(value, "cpu"):
        value = value.detach().cpu().numpy()  # a tensor, whose pickle is never the same twice
        kind = type(value)
    if kind is np.ndarray and value.dtype.kind != "O":
        return value.dtype.str, value.shape, value.tobytes()
    if id(value) in inside:  # it holds itself
        return "..."
    inside = (*inside, id(value))
    if kind is dict or kind is MappingProxyType:
        return [(repr(key), _plain(entry, inside)) for key, entry in value.items()]
    if kind is list or kind is tuple or kind is np.ndarray:
        return [_plain(entry, inside) for entry in value]
    if kind is set or kind is frozenset:
        return sorted(map(repr, value))
    if kind is FunctionType:
        known = [cell for cell in value.__closure__ or () if cell != CellType()]
        cells = [cell.cell_contents for cell in known]
        held = [value.__defaults__, value.__kwdefaults__, vars(value), cells]
        return value.__qualname__, _plain(held, inside)
    return bytes(value) if kind is memoryview else _held(value, inside)


def _held(value: Any, inside: tuple[int, ...]) -> Any:
    """Return what a pickle of an object would hold: its text may leave out digits and rows."""
    if isinstance(value, type):
        return value.__qualname__
    try:
        made = value.__reduce_ex__(4)
    except Exception:  # such as a lock, or what refuses in its own words
        return type(value).__qualname__
    if isinstance(made, str):  # the name of what is found by it
        return made
    # Behind class and state come the entries of a list and of a dictionary.
    return _plain([*made[1:3], *(list(part) for part in made[3:5] if part is not None)], inside)


def fitted_facts(model: Any) -> dict[str, Any]:
    """Return all that a fitted estimator holds but its parameters, and its model file."""
    try:
        held = model.__getstate__()
    except TypeError:  # An unfinished stream refuses to be copied, since it holds secrets.
        held = {name: value for name, value in vars(model).items() if name[0] != "_"}
    given = model.get_params(deep=False)
    seen = {name: plain(value) for name, value in held.items() if name not in given}
    record = model.to_record()
    seen["model file"] = (
        {name: array.tobytes() for name, array in record.arrays.items()},
        json.dumps([record.parameters, record.provenance, record.certificate], sort_keys=True),
    )
    return seen
