# SPDX-License-Identifier: BSD-3-Clause
"""Estimators whose parameters are parts: ``set_params(solver__step_size=...)`` reaches inside."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Self

from pairlearn.register import REGISTERS, Part


class Composed:
    """A mixin, before `BaseEstimator`: nested names change a copy of a part, never the part.

    Examples
    --------
    >>> from pairlearn import SGD, AUCClassifier
    >>> AUCClassifier(solver=SGD()).set_params(solver__step_size=0.5).solver
    SGD(step_size=0.5)
    >>> AUCClassifier(solver="exact").set_params(solver__ridge=0.1).solver
    Exact(ridge=0.1)

    A name may stand for another part in an estimator of its own (`_named_parts`).

    >>> from pairlearn import MetricLearner
    >>> MetricLearner(solver="sgd").set_params(solver__step_size=0.5).solver
    MetricSGD(step_size=0.5)
    """

    #: The parts that names stand for in this estimator, where the register says something else.
    _named_parts: ClassVar[Mapping[str, Mapping[str, Callable[[], Part]]]] = {}

    def set_params(self, **params: Any) -> Self:
        """Set parameters; ``part__field=value`` sets a field of a part, which may be a name."""
        inner: dict[str, dict[str, Any]] = {}
        own: dict[str, Any] = {}
        known = self.get_params(deep=False)  # type: ignore[attr-defined]
        for key, value in params.items():
            name, _, rest = key.partition("__")
            part = params.get(name, known.get(name))
            if rest and (isinstance(part, (Part, str))):
                inner.setdefault(name, {})[rest] = value
            else:
                own[key] = value
        super().set_params(**own)  # type: ignore[misc]
        for name, values in inner.items():
            part = getattr(self, name)
            if isinstance(part, str):
                own_part = self._named_parts.get(name, {}).get(part)
                part = _named(name, part, values) if own_part is None else own_part()
            setattr(self, name, part.with_params(**values))
        return self


def _named(name: str, part: str, values: dict[str, Any]) -> Part:
    """Return the part that a parameter names, so that its fields can be set."""
    register = REGISTERS.get(name)
    if register is None or part not in register:
        told = ", ".join(f"{name}__{key}" for key in values)
        raise ValueError(
            f"{told} is about a field of {name}, but {name}={part!r} has no fields; pass an object "
            f"as {name} first."
        )
    found = register.make(part)
    assert isinstance(found, Part)
    return found
