# SPDX-License-Identifier: BSD-3-Clause
"""Estimators whose parameters are parts: ``set_params(solver__step_size=...)`` reaches inside."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Self

from pairlearn.register import REGISTERS, Part, nearest

#: What other libraries call a parameter of ours.
_FOREIGN = {
    "C": "ridge",
    "alpha": "ridge",
    "reg_lambda": "ridge",
    "eta0": "step_size",
    "learning_rate": "step_size",
    "lr": "step_size",
    "stepsize": "step_size",
    "epochs": "n_passes",
    "max_iter": "n_passes",
    "kernel": "features",
    "seed": "random_state",
}


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

    def __new__(cls, *args: Any, **params: Any) -> Self:
        """Refuse a parameter that the constructor does not have, and name the cure."""
        known = inspect.signature(cls.__init__).parameters if params else {}
        unknown = [name for name in params if name not in known]
        if unknown and not any(p.kind is p.VAR_KEYWORD for p in known.values()):
            raise TypeError(_no_parameter(cls.__name__, unknown[0], list(known)[1:]))
        return super().__new__(cls)

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


def _no_parameter(owner: str, name: str, known: list[str]) -> str:
    """Return the message for a parameter that an estimator does not have."""
    said = f"{owner} has no parameter {name!r}"
    meant = _FOREIGN.get(name, name)
    if meant in known:
        return f"{said}; here it is called {meant!r}."
    for kind in known:
        for part in REGISTERS.get(kind, {}).values():
            if dataclasses.is_dataclass(part) and meant in part.__dataclass_fields__:
                example = f"{kind}={part.__name__}({meant}=...)"
                return f"{said}; it is a setting of a {kind}, as in {example}."
    return said + nearest(name, known)
